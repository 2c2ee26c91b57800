"""The first screen's sentence, figures and worst scenarios."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from heurgen.audit.report.explorer import told
from heurgen.audit.report.lead import lead, overall
from heurgen.base.figures import Summary
from tests.audit.learner import load
from tests.audit.report.test_explorer import one_view

PLACES = {i: i for i in range(70)}


def test_the_sentence_leads_with_held_out_figures_and_names_the_worst() -> None:
    (table,) = load()[2]
    slow = [1.01] * 70
    slow[5] = 2.4
    held = {"geomean_slowdown": 1.049, "max_slowdown": 2.4, "scenarios": slow}
    held["worst"] = [{"scenario": 5, "slowdown": 2.4, "chosen": ["2d", 16, 16, 1, 2, 0]}]
    _, view = one_view(held_out=held, folds=5, repeats=8)
    found = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), True, PLACES)
    name = str(table.features_of(5)["max_seqlen_q"])
    assert re.match(r"\d+ configs, \d+ leaves; 1\.049× on unseen launches, worst 2\.40× at ", found.sentence)
    assert f"max_seqlen_q {name}" in found.sentence
    assert "which flatters: geometric mean 1.010×" in found.on_log
    # The configs named are those of the folds' trees, of which some may not ship.
    assert found.note.startswith(
        "Each launch answered by a tree learnt without it: 5 folds over scenarios, 8 times"
    )
    assert re.search(r" 95 % interval of the mean: 1\.0\d\d× to 1\.0\d\d×\.$", found.note)
    assert [(w.number, w.slowdown) for w in found.worst] == [(5, "2.40×")]
    assert found.worst[0].chosen.startswith("variant=2d BLOCK_M=16")
    # on another log nothing of the training log's scenarios is said
    other = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), False, PLACES)
    assert other.worst == ()
    assert "interval" not in other.note
    assert found.on_log.startswith(
        "Training: 70 scenarios on the training log, which flatters: geometric mean"
    )
    assert other.on_log.startswith("The given log: 70 scenarios, not the training log: geometric mean 1.010×")
    assert " at " not in other.sentence


def test_the_worst_reads_the_same_in_the_sentence_the_figures_and_the_list() -> None:
    """The record of a scenario has four places: 1.8005, which would be cut to 1.800."""
    worst = [{"scenario": 5, "slowdown": 1.8005, "chosen": ["2d", 16, 16, 1, 2, 0]}]
    slow = [1.8005 if i == 5 else 1.01 for i in range(70)]
    held = {"geomean_slowdown": 1.02, "max_slowdown": 1.800509, "scenarios": slow, "worst": worst}
    _, view = one_view(held_out=held, folds=5)
    found = lead(view, FIGURES, True, PLACES)
    assert "worst 1.801×" in found.sentence
    assert dict(found.held_out)["worst"] == found.worst[0].slowdown == "1.801×"


def test_why_no_held_out_scenario_is_named() -> None:
    """Advice that helps: another training of a log of few groups would hold out none again."""
    few = "fewer than 6 groups of scenarios: no cross-validation, a small default"
    _, view = one_view(requested="joint")
    assert lead(view, FIGURES, True, PLACES).unrecorded == ": train again with --strategy auto to know"
    assert lead(view, FIGURES, False, PLACES).unrecorded == " for this log"
    _, view = one_view(requested="auto", note=few)
    assert lead(view, FIGURES, True, PLACES).unrecorded == f": {few}"


def test_without_a_record_the_sentence_says_so() -> None:
    _, view = one_view()
    found = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), True, PLACES)
    assert found.sentence.endswith("how it does on unseen launches was not recorded")
    assert found.held_out == ()


def test_winners_only_models_show_no_slowdown() -> None:
    _, view = one_view(held_out={"agreement": 0.83, "geomean_slowdown": 1.186})
    view = replace(view, selector=replace(view.selector, costs_known=False), slowdown=np.full(70, np.nan))
    found = lead(view, Summary(70, None, None, None, None, None, 0.9), True, PLACES)
    assert "83.0 %" in found.sentence
    assert not re.search(r"\d×", found.sentence + found.on_log + str(found.held_out))


FIGURES = Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5)


def test_choices_that_were_not_valid_stand_in_the_sentence() -> None:
    """Where they fill the list of the worst, the slowest valid one is still named."""
    worst = [{"scenario": i, "slowdown": None, "chosen": ["2d", 16, 16, 1, 2, 0]} for i in (7, 8)]
    slow = [None if i in (7, 8) else 2.0 if i == 5 else 1.0 for i in range(70)]
    held = {
        "geomean_slowdown": 1.01,
        "max_slowdown": 2.0,
        "invalid_share": 0.0286,
        "scenarios": slow,
        "worst": worst,
    }
    _, view = one_view(held_out=held, folds=5)
    found = lead(view, FIGURES, True, PLACES).sentence
    five, seven = (told(view, view.choices[i].features) for i in (5, 7))
    assert found.endswith(
        f"; 1.010× on unseen launches, worst 2.00× at {five}; not valid on 2.9 % of them, as at {seven}"
    )
    _, view = one_view(held_out=held | {"invalid_share": 1 / 30_000})
    assert "; not valid on under 0.1 % of them" in lead(view, FIGURES, True, PLACES).sentence
    assert overall([view, view], True).endswith("; not valid on under 0.1 % of them")
    _, view = one_view(held_out=held | {"max_slowdown": 1.0, "geomean_slowdown": 1.0})
    assert "everywhere" not in lead(view, FIGURES, True, PLACES).sentence
    _, view = one_view(held_out={"geomean_slowdown": None, "max_slowdown": None, "invalid_share": 1.0})
    assert lead(view, FIGURES, True, PLACES).sentence.endswith(
        " leaves; not valid on 100.0 % of unseen launches"
    )


def test_several_devices_have_one_sentence_over_all() -> None:
    slow = [1.01] * 70
    slow[5] = 2.4
    held = {"geomean_slowdown": 1.049, "max_slowdown": 2.4, "scenarios": slow}
    held["worst"] = [{"scenario": 5, "slowdown": 2.4, "chosen": ["2d", 16, 16, 1, 2, 0]}]
    _, one = one_view(held_out=held)
    _, other = one_view(held_out={"geomean_slowdown": 1.02, "max_slowdown": 1.5, "invalid_share": 0.1})
    place = told(one, one.choices[5].features)
    assert overall([one, other], True) == (
        f"2 devices; 1.020× to 1.049× on unseen launches, worst 2.40× on nvidia: NVIDIA H200 at {place}; "
        "not valid on up to 10.0 % of them"
    )
    assert f" at {place}" not in overall([one, other], False)
    _, unknown = one_view()
    assert overall([one, unknown], True).endswith("as far as it is known")
    _, winners = one_view(held_out={"agreement": 0.83, "geomean_slowdown": 1.2})
    winners = replace(winners, selector=replace(winners.selector, costs_known=False))
    elsewhere = replace(one, selector=replace(one.selector, devices=("NVIDIA A100",)))
    assert overall([elsewhere, other], False) == (
        "2 devices, 1 of which training did not see; 1.020× to 1.049× on unseen launches, worst 2.40× on nvidia: "
        "NVIDIA H200; not valid on up to 10.0 % of them"
    )
    assert overall([winners, winners], True) == "2 devices; the measured winner on 83.0 % of unseen launches"


def test_large_fractions_name_a_launch_without_exponents() -> None:
    _, view = one_view()
    values = view.choices[5].features | {
        "avg_seqlen_k": 36_000.5,
        "avg_seqlen_q": 0.123456,
        "max_seqlen_k": 60_000.0,
    }
    assert "e+" not in (place := told(view, values, least=len(values), most=len(values)))
    assert all(
        f"{n} {v}" in place
        for n, v in (("avg_seqlen_k", "36000.5"), ("avg_seqlen_q", "0.1235"), ("max_seqlen_k", "60000"))
    )
