"""The content hash: what it depends on, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.rows import read, row

BASE = (row(), row(BM="32", time_ms="0.2"), row(scenario="s2", time_ms="0.3"), row(n="2", scenario="s3"))
SAME = {
    "row order": BASE[::-1],
    "column order": tuple(dict(reversed(r.items())) for r in BASE),
    "number forms": tuple(
        r | {"x": "0.500", "time_ms": r["time_ms"] + "0", "BM": "0" + r["BM"]} for r in BASE
    ),
    "ids": tuple(r | {"scenario": f"{9 - int(r['scenario'][1])}"} for r in BASE),
    "no status column": tuple({k: v for k, v in r.items() if k != "status"} for r in BASE),
    "no optional column": tuple({k: v for k, v in r.items() if k != "wpe"} for r in BASE),
    "ignored columns": tuple(r | {"note": str(i)} for i, r in enumerate(BASE)),
}
OTHER = {
    "time": (*BASE[:3], BASE[3] | {"time_ms": "0.5"}),
    "feature": (*BASE[:3], BASE[3] | {"n": "3"}),
    "parameter": (*BASE[:3], BASE[3] | {"BM": "17"}),
    "optional parameter": (*BASE[:3], BASE[3] | {"mode": ""}),
    "category": (*BASE[:3], BASE[3] | {"dtype": "bf16"}),
    "device": (*BASE[:3], BASE[3] | {"device": "B200"}),
    "vendor": (*BASE[:3], BASE[3] | {"vendor": "amd"}),
    "failure": (*BASE[:3], row(n="2", scenario="s3", status="oom"), BASE[3] | {"BM": "32"}),
    "reason": (*BASE[:3], row(n="2", scenario="s3", status="error"), BASE[3] | {"BM": "32"}),
    "repeat": (*BASE, BASE[3]),
    "row less": BASE[:3],
    "scenarios merged": tuple(r | {"scenario": {"s2": "s1"}.get(r["scenario"], r["scenario"])} for r in BASE),
    "rows swapped between scenarios": (
        BASE[2] | {"scenario": "s1"},
        BASE[1],
        BASE[0] | {"scenario": "s2"},
        BASE[3],
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_equal_logs_have_equal_hashes(tmp_path: Path, case: str) -> None:
    assert read(tmp_path, *SAME[case]).content_hash == read(tmp_path, *BASE).content_hash


def test_other_logs_have_other_hashes(tmp_path: Path) -> None:
    hashes = {case: read(tmp_path, *rows).content_hash for case, rows in OTHER.items()}
    hashes["base"] = read(tmp_path, *BASE).content_hash
    assert len(set(hashes.values())) == len(hashes), hashes


def test_the_hash_is_stable_across_versions(tmp_path: Path) -> None:
    """Models record it: a change here makes every shipped model look stale."""
    assert read(tmp_path, *BASE).content_hash[:16] == "a9206c673b15eea7"
    assert read(tmp_path, *OTHER["failure"]).content_hash[:16] == "875364a9d09d5b91"
