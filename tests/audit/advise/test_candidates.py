"""Scenarios that nobody measured, made from those that somebody did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.audit.advise.candidates import between
from heurgen.audit.advise.scale import base_columns, scale_over
from heurgen.spec.kernel_spec import parse_spec
from tests.audit.views import costs, module

SPEC = """[kernel]
name = "k"
[features]
m = { type = "int", max = 80 }
dtype = { type = "category" }
[parameters]
BLOCK = { type = "int" }
"""


def test_candidates_lie_between_scenarios_first_of_all_across_thresholds() -> None:
    table = costs()
    space = scale_over(base_columns(table), table.X)
    made = module()
    found = between(made, made.selectors[0], table, parse_spec(SPEC, "k.toml"), space)
    told = {(p.features["m"], p.features["dtype"]): p.why for p in found}
    # 1, 2, 64, 128 span more than a factor of 20: half way is the geometric mean, at most what the spec allows
    assert told[(8, "a")] == "between the sides of m at 4"  # 1 and 64
    assert told[(1, "a")] == "between measured scenarios"  # 1 and 2
    assert told[(80, "a")] == "between measured scenarios"  # 64 and 128 would be 91
    assert told[(16, "b")] == "between the sides of m at 4"  # 2 and 128; what cannot be halved is the first's
    assert all(p.weight == 1.0 for p in found)
    assert len(found) == 6


def test_a_narrow_feature_is_halved_by_its_mean() -> None:
    table = costs()
    table = replace(table, X=np.column_stack([[1.0, 2.0, 4.0, 8.0], table.X[:, 1]]))
    space = scale_over(base_columns(table), table.X)
    made = module()
    found = between(made, made.selectors[0], table, parse_spec(SPEC, "k.toml"), space)
    assert {p.features["m"] for p in found} == {2, 3, 4, 5, 6}
