"""Which column of a log says whether a measurement succeeded, and by which texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.support.drafts import draft_spec, drafted, matmul, write


@pytest.mark.parametrize(
    ("name", "texts", "success"),
    [
        ("state", ("passed", "OOM"), ["passed"]),
        ("result", ("OK", "compile error"), None),
        ("result", ("OK", "OutOfResources", "out of memory", "CompilationError"), None),
        ("outcome", ("SUCCESS", "Timeout", "success"), ["SUCCESS", "success"]),
        ("valid", ("True", "False"), ["True"]),
        ("correct", ("1", "0"), ["1"]),
        ("correctness", ("true", "false"), ["true"]),  # KernelBench's
        ("State", ("finished", "crashed"), ["finished"]),  # W&B's; MLflow writes FINISHED and FAILED
        ("exit_ok", ("1", "0"), ["1"]),
        ("error", ("", "out of resources: shared memory"), [""]),
    ],
)
def test_what_says_that_a_measurement_succeeded(
    tmp_path: Path, name: str, texts: tuple[str, ...], success: list[str] | None
) -> None:
    """The drafted spec reads the failures as failures; success is said where it is not `ok`."""
    rows = [{name: texts[i % len(texts)]} | r for i, r in enumerate(matmul())]
    path = write(tmp_path / "a.csv", rows)
    text = draft_spec(path)
    assert drafted(path)["log"].get("status") == name
    assert drafted(path)["log"].get("success") == success
    assert name not in drafted(path)["parameters"]
    log = read_logs([path], parse_spec(text, "a draft"))
    good = [r for r in rows if r[name] in (success or ["OK"])]
    assert log.n_measurements - log.n_failures == len(good)


def test_a_blank_time_of_a_success_is_drafted_as_a_failure(tmp_path: Path) -> None:
    """pandas writes NaN so: `validate` refused the log whose spec `init` had drafted."""
    rows = [r | {"status": "ok" if i else "oom"} for i, r in enumerate(matmul())]
    rows[0]["latency_ms"] = ""
    assert "failures" not in drafted(write(tmp_path / "a.csv", rows))["log"]
    rows[1]["latency_ms"] = ""
    path = write(tmp_path / "b.csv", rows)
    assert drafted(path)["log"]["failures"] == [""]
    assert read_logs([path], parse_spec(draft_spec(path), "a draft")).n_failures == 2


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("error", ("0.001", "")),  # of a result, in numbers
        ("padding", ("valid", "valid")),
        ("backend", ("ok", "failed")),  # a parameter by its name
        ("kind", ("ok", "other")),
        ("flag", ("True", "False")),
        ("reason", ("too slow", "oom")),
    ],
)
def test_what_only_looks_like_a_status(tmp_path: Path, name: str, texts: tuple[str, ...]) -> None:
    rows = [r | {name: texts[i % 2]} for i, r in enumerate(matmul())]
    assert "status" not in drafted(write(tmp_path / "a.csv", rows))["log"]


def test_of_two_statuses_the_one_counts_that_fails_more(tmp_path: Path) -> None:
    """CUTLASS's profiler: a kernel ran, and its result was wrong."""
    head = "vendor,device,Operation,Disposition,Status,m,cta_m,warps_m,inst_m,min_cc,Runtime\n"
    ends = (("passed", "success", 1.5), ("incorrect", "success", 0.5), ("not_run", "not_supported", 0))
    rows = [
        f"nvidia,H200,op{i},{told},{status},{m},{64 * i + 64},{i % 2 + 1},16,80,{time}\n"
        for m in (64, 128)
        for i, (told, status, time) in enumerate(ends)
    ]
    log = tmp_path / "profile.csv"
    log.write_text(head + "".join(rows))
    spec = parse_spec(draft_spec(log))
    assert (spec.log.status, spec.log.success) == ("Disposition", ("passed",))
    assert [f.name for f in spec.features] == ["m"]
    assert [p.name for p in spec.parameters] == ["Operation", "cta_m", "warps_m", "inst_m"]
    (tmp_path / "unverified.csv").write_text((head + "".join(rows)).replace("passed", "not_verified"))
    log = parse_spec(draft_spec(tmp_path / "unverified.csv")).log
    assert (log.status, log.success) == ("Disposition", ("not_verified",))


def test_a_reason_beside_a_status_counts(tmp_path: Path) -> None:
    rows = [r | {"status": "ok", "error": ("", "mismatch")[i % 2]} for i, r in enumerate(matmul())]
    assert drafted(write(tmp_path / "a.csv", rows))["log"]["status"] == "error"


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("correct", ("yes", "n/a")),
        ("correct", ("yes", "")),
        ("verified", ("passed", "skipped")),
        ("Disposition", ("passed", "not_verified")),
    ],
)
def test_what_nobody_checked_did_not_fail(tmp_path: Path, name: str, texts: tuple[str, str]) -> None:
    """A column of checks of some configs is stricter than the status, and says nothing of the others."""
    rows = [r | {"status": "ok", name: texts[i % 2]} for i, r in enumerate(matmul())]
    log = drafted(write(tmp_path / "a.csv", rows))["log"]
    assert log.get("status", "status") == "status"
