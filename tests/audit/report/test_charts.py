"""Which scenarios a page draws, and the geometry of its charts."""

from __future__ import annotations

import pytest

from heurgen.audit.report.charts import drawn
from heurgen.audit.report.explorer import explorer
from tests.audit.report.test_coding import listed
from tests.audit.report.test_explorer import one_view


@pytest.mark.parametrize("limit", [70, 69, 30, 5])
def test_where_not_all_scenarios_are_drawn_the_worst_are(limit: int) -> None:
    module, view = one_view()
    worst = sorted(range(70), key=lambda i: -(view.choices[i].slowdown or 0))[: limit // 10]
    found = drawn(view, limit, keep=[3])
    assert len(set(found)) == len(found) == limit
    assert {3, *worst} <= set(found)
    # Every leaf that has its share of scenarios is seen.
    assert limit < 30 or set(view.leaf[found].tolist()) == set(view.leaf.tolist())
    data = explorer(module, view, found, 400, True)
    assert len(listed(data["scenarios"]["leaf"])) == limit == len(data["heat"]["cells"])
