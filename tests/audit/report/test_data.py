"""What the page shows, as plain data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen import ir
from heurgen.audit.diff import Change, ChangedScenario
from heurgen.audit.report.data import Detail, Given, change_row, report
from heurgen.audit.score import score
from tests.audit.learner import load
from tests.audit.pages import Page, given, page_text
from tests.audit.views import costs, module

DETAIL = Detail(scenarios=700, configs=200, leaves=200)


def small(**fields: object) -> Given:
    tables = (costs(),)
    made = module(**fields)  # type: ignore[arg-type]
    return Given(made, tables, score(made, tables), load()[1])


def test_the_worst_come_first_with_their_path_and_what_would_have_been_right() -> None:
    (section,) = report(small(), DETAIL).sections
    assert [(w.scenario, w.slowdown, w.chosen, w.best, w.leaf, w.tag) for w in section.worst] == [
        ("3", "not valid (failed)", "BLOCK=32", "BLOCK=48", 1, "B"),
        ("2", "1.500×", "BLOCK=32", "BLOCK=48", 1, "B"),
    ]
    assert section.worst[0].path == ("m ≤ 4: no",)
    assert section.worst[0].features == "m=128 dtype=a"


def test_a_test_too_long_to_read_keeps_its_answer() -> None:
    others = ("b", *(f"a_category_of_some_length_{i}" for i in range(20)))
    tree = ir.Membership("dtype", ("a",), others, True, ir.Leaf(0, 2, 1.0), ir.Leaf(1, 2, 1.5))
    one = small(tree=tree)
    dtype = replace(one.module.features[1], values=("a", *others))
    one = replace(one, module=replace(one.module, features=(one.module.features[0], dtype)))
    (section,) = report(replace(one, score=score(one.module, one.tables)), DETAIL).sections
    paths = sorted(step for worst in section.worst for step in worst.path)
    assert all(path.startswith("dtype not in {'b', ") for path in paths)
    assert {path.rsplit("…", 1)[1] for path in paths} == {": yes", ": no"}


def test_configs_in_use_and_what_dropping_them_costs() -> None:
    (section,) = report(small(), DETAIL).sections
    first, second = section.uses
    assert (first.tag, first.values, first.n_leaves, first.n_training, first.n, first.leaves) == (
        "A", "BLOCK=16", 1, 2, 2, "0",
    )  # fmt: skip
    assert (second.without, second.change, second.invalid) == ("1.565×", "+36.7 %", "0.0 %")
    assert section.multiples == ((0, "A", "chosen 2, would win 2"), (1, "B", "chosen 2, would win 0"))
    assert section.legend == (("A", 0, "BLOCK=16"), ("B", 1, "BLOCK=32"))


def test_what_is_coloured_is_said() -> None:
    assert report(small(), DETAIL).sections[0].dots == "slowdown with the tree that ships"
    one = small(choice={"held_out": {"scenarios": [1.0, 1.0, 1.2, None]}})
    same = replace(one, module=replace(one.module, provenance={"log_hash": one.log.content_hash}))
    assert report(same, DETAIL).same_log
    assert report(same, DETAIL).sections[0].dots == "held-out slowdown"
    several = replace(same.module.selectors[0], choice={**same.module.selectors[0].choice, "repeats": 3})
    again = replace(same, module=replace(same.module, selectors=(several,)))
    again = replace(again, score=score(again.module, again.tables))
    assert report(again, DETAIL).sections[0].dots == "held-out slowdown (the mean of its repeats)"


def test_the_worst_that_training_named_are_drawn_whatever_else_is_not() -> None:
    worst = [{"scenario": 9, "slowdown": 1.1, "chosen": list(given().module.selectors[0].configs[0])}]
    one = given()
    selector = replace(
        one.module.selectors[0], choice={"held_out": {"scenarios": [1.0] * 70, "worst": worst}}
    )
    few = replace(one, module=replace(one.module, selectors=(selector,)))
    few = replace(few, score=score(few.module, few.tables))
    (section,) = report(few, replace(DETAIL, scenarios=20)).sections
    assert section.n_drawn == 20
    assert [w.number >= 0 for w in section.lead.worst] == [True]


def test_devices_beyond_the_limit_are_named_and_keep_their_figures() -> None:
    one = small()
    other = replace(costs(), device=("NVIDIA H100",) * 3 + ("NVIDIA H200",))
    page = report(
        replace(one, tables=(other,), score=score(one.module, (other,))), replace(DETAIL, sections=1)
    )
    assert [s.device for s in page.sections] == ["NVIDIA H100"]
    assert page.left_out == ("nvidia / NVIDIA H200",)
    assert [(row.name, row.key) for row in page.overview] == [
        ("nvidia: NVIDIA H100", "s0"), ("nvidia: NVIDIA H200", ""),
    ]  # fmt: skip


def test_figures_of_a_selector_of_several_devices_are_said_of_none_of_them_alone() -> None:
    names = ("NVIDIA H100", "NVIDIA H200")
    held = {"geomean_slowdown": 1.5, "p95_slowdown": 2.0, "max_slowdown": 9.0, "within_1_1": 0.5}
    held |= {"invalid_share": 0.0, "scenarios": [2.0, 1.0, 4.0, 1.25]}
    made = module(devices=names, choice={"held_out": held})
    other = replace(costs(), device=("NVIDIA H100",) * 3 + ("NVIDIA H200",))
    given = replace(small(), module=made, tables=(other,), score=score(made, (other,)))
    given = replace(given, module=replace(made, provenance={"log_hash": given.log.content_hash}))
    page = report(given, DETAIL)
    assert [(row.name, *row.cells) for row in page.overview] == [
        ("nvidia: the selector of its 2 devices", "1.500×", "2.00×", "9.00×", "50.0 %", "0.0 %", "4"),
        ("nvidia: NVIDIA H100", "2.00×", "–", "–", "–", "–", "3"),  # the cube root of 2 x 1 x 4
        ("nvidia: NVIDIA H200", "1.250×", "–", "–", "–", "–", "1"),
    ]
    for section in page.sections:
        assert "1.500× on unseen launches of its 2 devices, worst 9.00×" in section.lead.sentence
        assert section.headline[0].note == "recorded by training, of its 2 devices"


def test_figures_of_another_device_say_whose_they_are() -> None:
    held = {"geomean_slowdown": 1.5, "max_slowdown": 9.0, "agreement": 0.25, "invalid_share": 0.5}
    made = module(devices=("NVIDIA A100",), choice={"held_out": held})
    (section,) = report(replace(small(), module=made, score=score(made, small().tables)), DETAIL).sections
    assert section.device == "NVIDIA H200"
    assert "1.500× on unseen launches of NVIDIA A100, worst 9.00×" in section.lead.sentence
    assert section.headline[0].note == "recorded by training, of NVIDIA A100"


def test_configs_that_the_heat_map_leaves_out_are_counted() -> None:
    few = replace(DETAIL, configs=5)
    (section,) = report(given(), few).sections
    assert section.n_configs_left_out > 100
    assert report(given(), replace(DETAIL, configs=9999)).sections[0].n_configs_left_out == 0
    shown = Page(page_text()).text
    assert f"{report(given(), DETAIL).sections[0].n_configs_left_out} configs with the fewest wins" in shown


@pytest.mark.parametrize(
    ("gain", "text", "worse"),
    [(None, "–", False), (1.25, "1.250× faster", False), (1.0004, "equal", False), (0.9996, "equal", False),
     (0.8, "1.250× slower", True)],
)  # fmt: skip
def test_a_change_says_what_it_gains(gain: float | None, text: str, worse: bool) -> None:
    scenarios = (ChangedScenario("1", "H200", {}, None, None, gain),)
    change = Change("nvidia", None, (), {"BLOCK": 16, "warps": None}, {"BLOCK": 32, "warps": 4}, scenarios)
    row = change_row(change)
    assert (row.where, row.region, row.change) == ("nvidia", "every launch", "BLOCK 16 → 32, warps none → 4")
    assert (row.gain, row.worse, row.n) == (text, worse, 1)
    assert change_row(replace(change, device="H200")).where == "nvidia / H200"
    region = tuple(f"a_feature_of_some_length_{i} <= {i}" for i in range(9))
    told = change_row(replace(change, region=region)).region
    # Every condition: a region that is cut would be another one.
    assert told == " and ".join(region).replace("<=", "≤")


def test_the_tree_of_one_leaf_has_a_page_too() -> None:
    (section,) = report(small(tree=ir.Leaf(0, 4, 1.2)), DETAIL).sections
    assert section.worst[0].path == ()
