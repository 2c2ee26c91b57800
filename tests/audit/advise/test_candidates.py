"""Scenarios that nobody measured, made from those that somebody did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from heurgen.audit.advise.candidates import between
from heurgen.audit.advise.scale import base_columns, scale_over
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.ship.training import train
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
    found = between(made, made.selectors, table, parse_spec(SPEC, "k.toml"), space)
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
    found = between(made, made.selectors, table, parse_spec(SPEC, "k.toml"), space)
    assert {p.features["m"] for p in found} == {2, 3, 4, 5, 6}


def test_a_feature_of_the_device_is_that_of_a_device(tmp_path: Path) -> None:
    """Half way between GPUs of 108 and 132 multiprocessors nobody can measure."""
    lines = ["vendor,device,sms,m,BLOCK,status,time_ms"]
    for device, sms in (("A", 108), ("B", 132)):
        rows = ((m, block) for m in (1, 4, 16, 64) for block in (16, 32))
        lines += [f"nvidia,{device},{sms},{m},{block},ok,{1 + m / block + sms}" for m, block in rows]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    spec = parse_spec(SPEC.replace('dtype = { type = "category" }', 'sms = { type = "int" }'), "k.toml")
    log = read_logs(tmp_path / "log.csv", spec)
    table, made = cost_tables(log, spec)[0], train(log, spec)
    space = scale_over(base_columns(table), table.X)
    found = between(made, made.selectors, table, spec, space)
    assert {p.features["sms"] for p in found} == {108, 132}
