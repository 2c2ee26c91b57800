"""The first screen's sentence, figures and worst scenarios."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from heurgen.audit.report.lead import lead
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
    assert "which flatters: geometric mean 1.010×" in found.training
    assert [(w.number, w.slowdown) for w in found.worst] == [(5, "2.40×")]
    assert found.worst[0].chosen.startswith("variant=2d BLOCK_M=16")
    # on another log nothing of the training log's scenarios is said
    other = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), False, PLACES)
    assert other.worst == ()
    assert " at " not in other.sentence


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
    assert not re.search(r"\d×", found.sentence + found.training + str(found.held_out))
