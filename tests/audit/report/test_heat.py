"""Every drawn scenario under every config."""

from __future__ import annotations

from heurgen.audit.report.coding import LETTERS
from heurgen.audit.report.heat import heat
from tests.audit.report.test_coding import listed
from tests.audit.views import view


def levels(line: str) -> list[int]:
    return [x for letter in line for x in divmod(LETTERS.index(letter), 8)]


def test_rows_are_by_leaf_and_columns_by_use_and_wins() -> None:
    found = heat(view(), [0, 1, 2, 3], 9)
    assert listed(found["order"]) == [0, 1, 2, 3]  # the failed choice last in its leaf
    assert [listed(c) for c in found["configs"]] == [["16", "32", "48"]]
    assert listed(found["shipped"]) == [0, 1, -1]
    assert found["left_out"] == 0
    # at most 1.02, 1.05, 1.1, 1.25, 1.5, above; 6 failed, 7 unmeasured and what fills an odd row
    assert [levels(line) for line in found["cells"]] == [
        [0, 5, 2, 7],
        [0, 5, 7, 7],
        [5, 4, 0, 7],
        [5, 6, 0, 7],
    ]


def test_of_too_many_configs_those_least_used_are_left_out() -> None:
    found = heat(view(), [3, 1], 2)
    assert listed(found["order"]) == [1, 0]
    assert ([listed(c) for c in found["configs"]], found["left_out"]) == ([["16", "32"]], 1)
    assert [levels(line) for line in found["cells"]] == [[0, 5], [5, 6]]
