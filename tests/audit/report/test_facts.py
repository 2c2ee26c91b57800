"""Where a model and a log come from, in words."""

from __future__ import annotations

from pathlib import Path

from heurgen.audit.report.facts import log_facts, model_facts
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import load
from tests.support import logs
from tests.support.modules import two_vendors


def test_provenance_and_selectors() -> None:
    found = dict(model_facts(two_vendors()))
    assert found["log hash"] == "ab" * 32
    assert found["devices"] == "AMD Instinct MI300X, NVIDIA H200"
    assert found["tools"] == "torch 2.11; triton 3.6"
    assert found["selector nvidia"].endswith("5 leaves, depth 3; 36 scenarios, 1196 measurements")
    amd = "2 leaves, depth 1; 4 scenarios, 4 measurements; winners only, slowdown unknown"
    assert found["selector amd"].endswith(amd)


def test_the_log() -> None:
    _, log, _ = load()
    found = dict(log_facts(log, True))
    assert found["content hash"] == f"sha256 {log.content_hash} (the training log)"
    assert dict(log_facts(log, False))["content hash"] == f"sha256 {log.content_hash}"
    assert found["measurements"] == f"12312, {log.n_failures} of them failed"
    assert (found["scenarios"], found["devices"]) == ("70", "NVIDIA H200")


def test_scenarios_in_which_no_config_succeeded_are_told(tmp_path: Path) -> None:
    rows = logs.rows(6, ("nvidia",))
    place = {name: i for i, name in enumerate(logs.HEADER)}
    for row in rows[: len(rows) // 6]:  # the first scenario
        row[place["status"]], row[place["time_ms"]] = "oom", ""
    path, spec = logs.write(tmp_path, rows)
    log = read_logs([path], read_spec(spec))
    assert dict(log_facts(log, True))["scenarios"] == "5, and 1 in which no config succeeded"
