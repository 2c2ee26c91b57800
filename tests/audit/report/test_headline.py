"""What stands side by side."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.audit.defaults import Defaults
from heurgen.audit.report.data import Given
from heurgen.audit.report.headline import AGREEMENT, FIGURES, cells, curves, headline, series_of
from heurgen.audit.score import figures, score
from heurgen.base.figures import Summary
from tests.audit.learner import load
from tests.audit.views import TREE, costs, module, view


def given(**more: object) -> Given:
    tables = (costs(),)
    return Given(module(), tables, score(module(), tables), load()[1], **more)  # type: ignore[arg-type]


def test_the_model_leads_then_baseline_defaults_and_the_best_single_config() -> None:
    before = score(module(TREE.left), (costs(),))
    today = Defaults("BLOCK=\u202e16", {"nvidia": np.array([0, 1, -1, 2])})
    found = series_of(given(baseline_score=before, defaults=today), view())
    assert [(s.name, s.style, s.note) for s in found] == [
        ("this model", "model", ""),
        ("baseline model", "base", ""),
        ("today’s defaults", "today", "BLOCK=\\u202e16"),
        ("best single config", "single", "BLOCK=16"),
    ]
    expected = [[1, 1, 1.5, math.nan], [1, 1, 3, 2], [1, 4, math.nan, 1], [1, 1, 3, 2]]
    for one, ratios in zip(found, expected, strict=True):
        assert np.exp(one.costs).tolist() == pytest.approx(ratios, nan_ok=True)
    assert series_of(given(), replace(view(), table=replace(costs(), costs_known=False))) == []


def test_rows_of_the_training_log_and_of_another() -> None:
    one = view(choice={"held_out": {"geomean_slowdown": 1.05}, "folds": 5})
    on_log, series = figures(one.choices), series_of(given(), one)
    rows = list(headline(one, on_log, series, same=True))
    assert [r.name for r in rows] == [
        "this model, held out", "this model, training", "best single config", "oracle",
    ]  # fmt: skip
    assert rows[0].cells[0] == "1.050×"
    assert [r.main for r in rows] == [True, False, False, False]
    assert rows[1].note == "4 scenarios of the training log, which flatters"
    assert rows[1].cells == ("1.145×", "1.450×", "1.500×", "66.7 %", "25.0 %", "4")
    other = list(headline(one, on_log, series, same=False))
    assert [r.name for r in other][1:3] == ["this model, given log", "this model, training"]
    assert other[2].note == "4 scenarios, recorded in the leaves"
    assert other[2].cells[0] == "1.225×"


def test_a_module_carries_no_figures_of_training() -> None:
    one = view(ir.Split("m", 4, ir.Leaf(0), ir.Leaf(1)))
    row = list(headline(one, figures(one.choices), [], same=False))[2]
    assert (row.name, row.note) == (
        "this model, training",
        "4 scenarios, whose figures a module does not carry",
    )
    assert set(row.cells) == {"–"}


def test_of_winners_alone_there_is_agreement_and_no_oracle() -> None:
    one = view(ir.Split("m", 4, ir.Leaf(0, 2), ir.Leaf(1, 2)), costs_known=False)
    one = replace(one, table=replace(one.table, costs_known=False))
    rows = list(headline(one, Summary(4, agreement=0.5), [], same=False))
    assert [r.cells for r in rows] == [("–", "–"), ("50.0 %", "4"), ("–", "–")]
    assert rows[2].note == "winners only: slowdown unknown"


def test_cells_stand_under_their_names() -> None:
    assert len(cells(None, True)) == len(FIGURES) == len(cells(Summary(3, 1, 1, 1, 1, 0), True))
    assert len(cells(None, False)) == len(AGREEMENT) == len(cells(Summary(3, agreement=1), False))
    assert cells(Summary(0), True)[-1] == "–"


def test_held_out_slowdowns_lead_the_curves() -> None:
    series = series_of(given(), view())
    assert [line.name for line in curves(series, None).lines] == ["this model", "best single config"]
    held = curves(series, [1.0, 1.0, 2.0, math.nan]).lines
    assert [(line.name, line.style) for line in held][:2] == [
        ("this model, held out", "model"),
        ("this model, training", "trained"),
    ]
    assert held[0].summary == "geometric mean 1.260×, worst 2.00×"
    averaged = curves(series, [1.0, 1.0, 2.0, math.nan], averaged=True).lines
    assert averaged[0].name == "this model, held out, mean of the repeats"
