"""A model replayed on a log: what it would have chosen, and what that cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen import ir
from heurgen.audit.score import Score, config_columns, figures, leaf_counts, numbered_leaf, score, to_text
from heurgen.base.errors import LogError, ModelError
from heurgen.logs.costs import TableColumn
from tests.audit.views import TREE, costs, module


def test_choices_say_what_was_chosen_what_won_and_what_it_cost() -> None:
    found = score(module(), (costs(),))
    assert [c.chosen for c in found.choices] == [(16,), (16,), (32,), (32,)]
    assert [c.best for c in found.choices] == [(16,), (16,), (48,), (48,)]
    assert [c.slowdown for c in found.choices] == [1.0, 1.0, pytest.approx(1.5), None]
    assert [c.status for c in found.choices] == ["ok", "ok", "ok", "failed"]
    assert [(c.row, c.leaf_index, c.column) for c in found.choices] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 1, 1),
        (3, 1, 1),
    ]
    assert [c.name for c in found.choices] == ["0", "1", "2", "3"]
    assert replace(found.choices[1], scenario="").name == "m=2 dtype=b"


def test_figures_are_over_valid_choices_by_vendor_and_device() -> None:
    found = score(module(), (costs(),))
    assert set(found.groups) == {"nvidia", "nvidia / NVIDIA H200"}
    for summary in (found.overall, *found.groups.values()):
        assert (summary.n_scenarios, summary.invalid_share, summary.agreement) == (4, 0.25, 0.5)
        assert summary.geomean_slowdown == pytest.approx(1.5 ** (1 / 3))
    assert figures(found.choices[:3]).agreement == pytest.approx(2 / 3)
    assert figures(()).agreement is None


def test_a_choice_exactly_as_fast_as_the_winner_agrees() -> None:
    choice = score(module(), (costs(),)).choices[2]
    assert not choice.agrees
    assert replace(choice, slowdown=1.0).agrees
    assert not replace(choice, slowdown=None, status="unknown").agrees


def test_a_config_that_the_log_lacks_is_unmeasured() -> None:
    made = module(ir.Leaf(1, 4))
    odd = replace(made.selectors[0], configs=((16,), (17,)))
    found = score(replace(made, selectors=(odd,)), (costs(),))
    assert {(c.status, c.slowdown, c.column) for c in found.choices} == {("unmeasured", None, None)}
    assert config_columns(odd, costs()) == [0, None]
    assert config_columns(replace(odd, configs=((True,), (16.0,))), costs()) == [None, None]  # 1 is not True


def test_where_costs_are_unknown_the_agreement_is_left() -> None:
    found = score(module(), (replace(costs(), costs_known=False),))
    assert {c.status for c in found.choices} == {"unknown", "failed"}
    assert found.overall.agreement == 0.5
    # one choice of four failed; that the others' costs are unknown makes them no failures
    assert (found.overall.invalid_share, found.overall.geomean_slowdown) == (0.25, None)
    assert figures(found.choices[:3]).invalid_share is None


def test_choices_of_unknown_cost_count_in_the_share_of_invalid_ones() -> None:
    known = score(module(), (costs(),)).choices
    unknown = tuple(replace(c, slowdown=None, status="unknown") for c in known[:3])
    found = figures((*known, *unknown, *unknown, *unknown))
    assert (found.n_scenarios, found.invalid_share) == (13, 1 / 13)
    assert found.geomean_slowdown == pytest.approx(1.5 ** (1 / 3))


def test_figures_over_all_say_of_how_many_scenarios_the_slowdown_is_known() -> None:
    """Where one vendor's log holds winners alone, they are not within 1.1x of anything."""
    found = score(module(), (costs(),))
    winners = tuple(replace(c, vendor="amd", slowdown=None, status="unknown") for c in found.choices)
    every = Score(figures((*found.choices, *winners)), found.groups, (*found.choices, *winners))
    assert to_text(every, False, {}, {}).splitlines()[1].startswith("all, slowdown known of 4 ")
    assert to_text(found, False, {}, {}).splitlines()[1].startswith("all  ")


def test_other_vendors_are_left_out_with_a_note() -> None:
    other = replace(costs(), vendor="amd")
    found = score(module(), (costs(), other))
    assert found.notes == ("4 scenarios of amd left out: the model does not know it",)
    assert len(found.choices) == 4
    with pytest.raises(LogError, match=r"^the logs hold no scenario of a vendor that the model knows"):
        score(module(), (other,))


def test_a_log_of_another_spec_is_refused() -> None:
    columns = (TableColumn("m", "float"), costs().columns[1])
    with pytest.raises(ModelError, match="reads the int feature 'm', which the spec says is float"):
        score(module(), (replace(costs(), columns=columns),))
    with pytest.raises(ModelError, match="reads the int feature 'm', which the spec does not have"):
        score(module(), (replace(costs(), columns=costs().columns[1:]),))
    with pytest.raises(ModelError, match="sets BLOCK, but the spec has TILE"):
        score(module(), (replace(costs(), parameters=("TILE",)),))


def test_leaves_are_numbered_as_they_are_listed() -> None:
    tree = ir.Split("m", 2, TREE, ir.Leaf(1, 7))
    counts = leaf_counts(tree)
    assert (counts[id(tree)], counts[id(TREE)]) == (3, 2)
    for m, number in ((1, 0), (2, 0), (3, 2)):
        leaf, index = numbered_leaf(tree, {"m": m}, counts)
        assert (index, leaf) == (number, list(ir.leaves(tree))[number])


def test_a_frame_has_a_row_a_scenario() -> None:
    frame = score(module(), (costs(),)).to_frame()
    assert list(frame["chosen_BLOCK"]) == [16, 16, 32, 32]
    assert list(frame["best_BLOCK"]) == [16, 16, 48, 48]
    assert list(frame["agrees"]) == [True, True, False, False]
    assert frame["slowdown"].isna().tolist() == [False, False, False, True]
