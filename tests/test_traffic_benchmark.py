"""benchmarks/traffic.py: what it makes of sweeps, and that docs/serving.md says what it found."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import pytest

from heurgen.audit.advise.traffic import Traffic
from heurgen.audit.score import replay
from tests.audit.learner import load, module_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import traffic as benchmark  # noqa: E402


def measured() -> list[dict[str, str]]:
    with (ROOT / "benchmarks/h200/traffic.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_launches_count_as_often_as_the_traffic_made_them():
    rows = [
        {"count": 10, "best_ms": 1.0, "before_ms": 2.0},
        {"count": "30", "best_ms": "4.0", "before_ms": "4.0"},
    ]
    found, time = benchmark.figures(rows, "before")
    assert found.n_scenarios == 4
    assert found.geomean_slowdown == pytest.approx(2 ** (1 / 4))
    assert (found.max_slowdown, time) == (2.0, pytest.approx(140 / 130))


def test_rows_are_the_launches_that_the_traffic_made(monkeypatch):
    spec, log, tables = load()
    (table,) = tables
    monkeypatch.setattr(benchmark, "FEATURES", tuple(f.name for f in spec.features))
    models = {side: module_of(spec, log, tables, depth) for side, depth in (("before", 1), ("after", 5))}
    choices = {side: replay(model, table) for side, model in models.items()}
    asked = [i for i in (3, 8, 21) if all(c[i].slowdown is not None for c in choices.values())]
    seen = Traffic(tuple(table.features_of(i) for i in asked), tuple(5.0 for _ in asked))
    whole = Traffic((*seen.rows, {**seen.rows[0], "num_seqs": 77777}), (*seen.counts, 5.0))
    rows = benchmark.rows_of(table, whole, models)
    assert len(rows) == len(asked) > 1
    for i, row in zip(asked, rows, strict=True):
        assert row["count"] == 5
        assert row["best_ms"] == pytest.approx(table.times[i][table.times[i] > 0].min(), abs=1e-6)
        for side, found in choices.items():
            assert row[f"{side}_ms"] / row["best_ms"] == pytest.approx(found[i].slowdown, rel=1e-4)


def test_the_page_says_what_was_measured():
    rows = measured()
    text = " ".join((ROOT / "docs/serving.md").read_text(encoding="utf-8").split())
    assert " ".join(benchmark.table_of(rows).split()) in text
    parts = {part: [row for row in rows if row["part"] == part] for part in ("held_out", "advised", "rest")}
    means = {
        part: benchmark.figures(some, "before")[0].geomean_slowdown or math.nan
        for part, some in parts.items()
    }
    chosen, left = len(parts["advised"]), len(parts["rest"])
    assert (
        f"at {means['advised']:.3f} on the {chosen} that it chose, at {means['rest']:.3f} on the {left}"
        in text
    )
    kept = sum(row["before_ms"] == row["after_ms"] for row in parts["held_out"])
    assert f"{kept} of the {len(parts['held_out'])} keep their config" in text
