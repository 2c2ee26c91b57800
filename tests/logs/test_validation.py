"""The report on a log: counts, holes, near-ties, and scenarios that contradict each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.logs.validation import Validation, report, validate
from heurgen.spec.kernel_spec import Column, KernelSpec, LogColumns
from tests.logs.test_costs import H200, h200_spec

SPEC = KernelSpec("k", (Column("n", "int"),), (Column("BM", "int"),), log=LogColumns(noise=0.05))
HEADER = "vendor,device,scenario,n,BM,status,time_ms\n"
MIXED = """nvidia,A,s1,1,16,ok,1.00
nvidia,A,s1,1,32,ok,1.019
nvidia,A,s2,2,16,ok,2
nvidia,A,s2,2,16,ok,2
nvidia,A,s2,2,64,oom,
nvidia,B,s1,1,16,ok,3
nvidia,B,s1,1,32,ok,6
nvidia,B,s3,9,16,timeout,
nvidia,B,s3,9,32,oom,
amd,C,s1,1,16,ok,3
"""


def checked(folder: Path, lines: str, *, group_by: str = "vendor") -> Validation:
    path = folder / "log.csv"
    path.write_text(HEADER + lines)
    log = read_logs([path], SPEC)
    return validate(log, cost_tables(log, SPEC, group_by=group_by), SPEC)  # type: ignore[arg-type]


def test_counts(tmp_path: Path) -> None:
    found = checked(tmp_path, MIXED)
    assert (found.kernel, found.measurements, found.failures) == ("k", 10, 3)
    assert list(found.failures_by_status.items()) == [("oom", 2), ("timeout", 1)]
    assert found.winners_only == ("amd",)
    keys = ("measurements", "failures", "scenarios", "dropped", "configs", "cells", "missing", "failed")
    keys += ("repeated", "near_ties")
    counts = {
        (g.vendor, g.device): tuple(getattr(g, k) for k in keys) for g in (*found.vendors, *found.devices)
    }
    assert counts == {
        ("amd", None): (1, 0, 1, 0, 1, 1, 0, 0, 0, 0),
        ("amd", "C"): (1, 0, 1, 0, 1, 1, 0, 0, 0, 0),
        ("nvidia", None): (9, 3, 3, 1, 3, 9, 3, 1, 1, 1),
        ("nvidia", "A"): (5, 1, 2, 0, 3, 6, 2, 1, 1, 1),
        ("nvidia", "B"): (4, 2, 1, 1, 2, 2, 0, 0, 0, 0),
    }
    assert found.vendors[1].missing_share == pytest.approx(1 / 3)
    assert found.vendors[1].noise == 0.05


def test_scenarios_configs_and_dropped(tmp_path: Path) -> None:
    found = checked(tmp_path, MIXED)
    first = found.scenarios[1]
    assert (first.vendor, first.device, first.scenario, first.features) == ("nvidia", "A", "s1", {"n": 1})
    assert (first.configs, first.failed, first.best_ms, first.best_config) == (2, 0, 1.0, {"BM": 16})
    assert first.lead == pytest.approx(0.019)
    assert [s.lead for s in found.scenarios] == [None, first.lead, 1.0, None]
    (dropped,) = found.dropped
    assert (dropped.device, dropped.scenario, dropped.features) == ("B", "s3", {"n": 9})
    assert dropped.measurements == 2
    assert [(c.vendor, c.config["BM"], c.scenarios, c.failed, c.wins) for c in found.configs] == [
        ("amd", 16, 1, 0, 1),
        ("nvidia", 16, 3, 0, 3),
        ("nvidia", 32, 2, 0, 0),
        ("nvidia", 64, 1, 1, 0),
    ]


def test_near_ties_are_leads_under_two_percent(tmp_path: Path) -> None:
    def ties(second: str) -> int:
        return checked(tmp_path, f"nvidia,A,s,1,16,ok,1\nnvidia,A,s,1,32,ok,{second}\n").vendors[0].near_ties

    assert [ties(t) for t in ("1", "1.0199", "1.0201", "2")] == [1, 1, 0, 0]


def scenario(name: str, times: dict[int, float | str], n: int = 1, device: str = "A") -> str:
    """Rows of one scenario; a time that is text is the status of a failure."""
    measured = {bm: f"ok,{t}" if isinstance(t, float) else f"{t}," for bm, t in times.items()}
    return "".join(f"nvidia,{device},{name},{n},{bm},{m}\n" for bm, m in measured.items())


def test_a_conflict_is_a_loss_beyond_the_noise_both_ways(tmp_path: Path) -> None:
    lines = (
        scenario("s", {16: 1.0, 32: 1.5})
        + scenario("t", {16: 1.2, 32: 1.0})
        + scenario("u", {16: 1.0, 32: 1.2})
    )
    found = checked(tmp_path, lines)
    (conflict,) = found.conflicts
    assert (conflict.vendor, conflict.device, conflict.features) == ("nvidia", "A", {"n": 1})
    assert conflict.n_scenarios == 3
    assert set(conflict.scenarios) == {"s", "t"}
    by_id = dict(zip(conflict.scenarios, zip(conflict.winners, conflict.losses, strict=True), strict=True))
    assert by_id == {"s": ({"BM": 16}, 0.5), "t": ({"BM": 32}, pytest.approx(0.2))}
    assert conflict.noise == (0.05, 0.05)


@pytest.mark.parametrize(
    "lines",
    [
        # Within the noise of five percent.
        scenario("s", {16: 1.0, 32: 1.04}) + scenario("t", {16: 1.04, 32: 1.0}),
        # 16 serves both.
        scenario("s", {16: 1.0, 32: 1.5}) + scenario("t", {16: 1.04, 32: 1.0}),
        # The winners were never measured in the other scenario.
        scenario("s", {16: 1.0}) + scenario("t", {32: 1.0}),
        # Other features, other devices.
        scenario("s", {16: 1.0, 32: 1.5}) + scenario("t", {16: 1.5, 32: 1.0}, n=2),
        scenario("s", {16: 1.0, 32: 1.5}) + scenario("t", {16: 1.5, 32: 1.0}, device="B"),
        # Equal times: either wins.
        scenario("s", {16: 1.0, 32: 1.0}) + scenario("t", {16: 1.5, 32: 1.0}),
    ],
)
def test_no_conflict(tmp_path: Path, lines: str) -> None:
    assert checked(tmp_path, lines).conflicts == ()


def test_a_winner_that_fails_elsewhere_is_a_conflict(tmp_path: Path) -> None:
    lines = scenario("s", {16: 1.0, 32: "oom"}) + scenario("t", {16: 1.5, 32: 1.0})
    (conflict,) = checked(tmp_path, lines).conflicts
    assert set(conflict.losses) == {None, 0.5}


def test_measured_noise_decides_over_the_spec_s(tmp_path: Path) -> None:
    lines = scenario("s", {16: 1.0, 32: 1.5}) + scenario("t", {16: 1.2, 32: 1.0})
    assert checked(tmp_path, lines).conflicts
    noisy = scenario("t", {64: 2.0}) + scenario("t", {64: 4.0})
    assert not checked(tmp_path, lines + noisy).conflicts


def test_json_is_stable_and_finite(tmp_path: Path) -> None:
    lines = MIXED + scenario("q", {16: 1.0, 32: "oom"}, n=7) + scenario("r", {16: 1.5, 32: 1.0}, n=7)
    found = checked(tmp_path, lines)
    data = found.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert list(data) == [
        "schema_version",
        "kernel",
        "content_hash",
        "measurements",
        "failures",
        "failures_by_status",
        "vendors",
        "devices",
        "scenarios",
        "dropped",
        "configs",
        "conflicts",
        "winners_only",
        "stand_out",
        "notes",
    ]
    # Rows in another order, and tables of devices among those of vendors, change nothing.
    shuffled = checked(
        tmp_path, "".join(sorted(lines.splitlines(keepends=True))), group_by="device"
    ).to_dict()
    notes = ("notes",)
    assert {k: v for k, v in shuffled.items() if k not in notes} == {
        k: v for k, v in data.items() if k not in notes
    }


def test_text(tmp_path: Path) -> None:
    lines = MIXED + scenario("q", {16: 1.0, 32: "o\x1bom"}, n=7) + scenario("r", {16: 1.5, 32: 1.0}, n=7)
    assert report(checked(tmp_path, lines)) == TEXT


TEXT = """\
k: 14 measurements, 4 of them failed
             scenarios  dropped  configs  measurements  failures    missing  repeated  near ties  noise
amd                  1        0        1             1         0   0 (0.0%)         0          0   5.0%
nvidia               5        1        3            13         4  5 (33.3%)         1          1   5.0%
  amd, C             1        0        1             1         0   0 (0.0%)         0          0   5.0%
  nvidia, A          4        0        3             9         2  4 (33.3%)         1          1   5.0%
  nvidia, B          1        1        2             4         2   0 (0.0%)         0          0   5.0%
amd: 1 config a scenario, 1 scenario a config, 1 config wins somewhere
nvidia: 2 configs a scenario, 1 to 5 (median 4) scenarios a config, 2 configs win somewhere
failures: oom 2
failures: o\\x1bom 1
failures: timeout 1
amd: one config a scenario (winners only): slowdowns are unknown
conflicts: 1
  nvidia, A: 2 scenarios with n=7
    scenario q: BM=16 wins, the other's winner fails (noise 5.0%)
    scenario r: BM=32 wins, the other's winner is 50.0% slower (noise 5.0%)"""


def test_the_h200_log() -> None:
    spec = h200_spec()
    log = read_logs([H200], spec)
    found = validate(log, cost_tables(log, spec), spec)
    (group,) = found.vendors
    assert (group.scenarios, group.configs, group.measurements) == (70, 324, 12312)
    assert (group.missing, group.repeated, group.near_ties) == (70 * 324 - 12312, 0, 38)
    assert found.conflicts == ()
