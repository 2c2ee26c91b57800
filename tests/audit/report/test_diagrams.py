"""Tree diagrams: rows, notes of leaves, what is folded."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from heurgen import ir
from heurgen.audit.evidence import LeafEvidence, views
from heurgen.audit.report import MAX_BYTES, render_html
from heurgen.audit.report.data import Detail, Given, report
from heurgen.audit.report.diagrams import INDENT, joint_diagram, leaf_notes, log_text, runner_text
from heurgen.audit.score import score
from heurgen.base.text import counted
from tests.audit.pages import Page, given, page_text
from tests.audit.views import TREE, costs, module, view


def test_every_leaf_has_its_evidence_in_words() -> None:
    page = Page(page_text())
    module = given().module
    leaves = list(ir.leaves(module.selectors[0].tree))
    drawn = [a for t, a in page.tags if t == "g" and a.get("class") == "leaf"]
    assert [a["data-l"] for a in drawn] == [str(i) for i in range(len(leaves))]
    named = [a["id"] for a in page.named("li") if a.get("id")]
    assert [a["aria-labelledby"] for a in drawn] == named
    for leaf in leaves:
        count = counted(leaf.n_scenarios, "training scenario")
        assert f"{count}, {leaf.slowdown:.3f}× in training; next 1." in page.text


def test_a_huge_tree_is_folded_and_says_so() -> None:
    base = given(1)
    selector = base.module.selectors[0]
    tree: ir.Node = ir.Leaf(0, 1, 1.0)
    for i in range(600):
        tree = ir.Split("num_seqs", i, ir.Leaf(i % 2, 1, 1.0), tree) if i < 80 else tree
    for i in range(4):
        tree = ir.Split("max_seqlen_k", 1000 * (i + 1), tree, tree)
    module = replace(base.module, selectors=(replace(selector, tree=tree),))
    one = Given(module, base.tables, score(module, base.tables), base.log)
    data = report(one, Detail(scenarios=50, configs=40, leaves=30))
    diagram = data.sections[0].joint
    assert sum(row.leaf is not None or row.fold for row in diagram.rows) <= 30
    drawn = sum(row.leaf is not None for row in diagram.rows)
    assert drawn + diagram.n_folded == sum(1 for _ in ir.leaves(tree))
    text = render_html(one)
    assert len(text.encode()) < MAX_BYTES
    assert " leaves with the fewest training scenarios." in text


def test_a_row_a_node_each_further_in_and_below_the_last() -> None:
    deep = ir.Split("m", 4, ir.Split("m", 1, ir.Leaf(0, 1, 1.0), ir.Leaf(0, 1, 1.0)), ir.Leaf(1, 2, 1.5))
    found = joint_diagram(view(deep), (), 9)
    assert [(r.text, r.n, r.leaf, r.span) for r in found.rows] == [
        ("every launch", 4, None, "0 2"), ("m ≤ 4", 2, None, "0 1"), ("m ≤ 1", 1, 0, "0 0"), ("m > 1", 1, 1, "1 1"),
        ("m > 4", 2, 2, "2 2"),
    ]  # fmt: skip
    assert [(r.x - found.rows[0].x) / INDENT for r in found.rows] == [0, 1, 2, 2, 1]
    assert [b.y - a.y for a, b in pairwise(found.rows)] == [r.height for r in found.rows[:-1]]
    assert found.height == found.rows[-1].y + found.rows[-1].height + 6
    ends = {(r.x - 3, r.y + 11) for r in found.rows[1:]}
    assert {(link.x1, link.y1) for link in found.links} == ends
    widths = {link.y1: link.width for link in found.links}
    assert [widths[r.y + 11] for r in found.rows[1:]] == [3.8, 3.0, 3.0, 3.8]


def test_a_leaf_says_its_config_its_evidence_and_the_runner_up() -> None:
    found = joint_diagram(view(), (), 9)
    assert [name for _, name in found.columns] == ["config", "BLOCK", "train n", "in training"]
    first, second = found.rows[1:]
    assert [text for _, text in first.cells] == ["A", "16", "2", "1.000×"]
    assert [x for x, _ in first.cells] == [x for x, _ in found.columns]
    assert (first.tag, first.config, first.pairs, first.where) == ("A", 0, "BLOCK=16", "m ≤ 4")
    assert first.evidence == "2 training scenarios, 1.000× in training; next 2.83×: BLOCK=32"
    better = "next 1.000× (better, but one config more did not pay held out): BLOCK=48"
    assert leaf_notes(view()) == [first.second, second.second] == ["next 2.83×: BLOCK=32", better]
    assert found.width >= max(x for x, _ in found.columns)
    assert (found.title, found.constant, found.n_folded) == ("Decision tree of nvidia: 2 leaves", "", 0)


def test_a_parameter_that_never_varies_is_told_once() -> None:
    found = joint_diagram(view(ir.Leaf(0, 4, 1.2)), (), 9)
    assert ([name for _, name in found.columns], found.constant) == (
        ["config", "train n", "in training"],
        "BLOCK=16",
    )


LEAF = ir.Leaf(1, 2, 1.5)
OWN = LeafEvidence(1, 2, 1.5, 1, (48,), 1.0, 2)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"runner_up": None}, "no runner-up known"),
        ({"runner_up": None, "n": 0}, ""),
        ({"runner_slowdown": 1.6}, "next 1.600×: BLOCK=48"),
        ({"runner_slowdown": None}, "next –: BLOCK=48"),
        ({"runner_valid": 1, "n_invalid": 0},
         "next 1.000× in 1 of 2 (better, but not measured or failed in the others): BLOCK=48"),
        ({"n": 3, "runner_valid": 3}, "next 1.000× (better on this log, not in training): BLOCK=48"),
        ({}, "next 1.000× (better, but one config more did not pay held out): BLOCK=48"),
        ({"runner_up": (16,)}, "next 1.000× (better, but on 2 scenarios alone): BLOCK=16"),
    ],
)  # fmt: skip
def test_why_a_better_runner_up_was_not_chosen(changes: dict[str, Any], text: str) -> None:
    assert runner_text(view(), LEAF, replace(OWN, **changes)) == text
    many = replace(OWN, n=3, n_invalid=0, runner_valid=3, runner_up=(16,))
    held = runner_text(view(), replace(LEAF, n_scenarios=3), many)
    assert held == "next 1.000× (better here, but not held out): BLOCK=16"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"n": 0, "slowdown": None}, "not in this log"),
        ({"slowdown": 1.501}, "this log 2, 1.501×, 1 not valid"),
        ({"n": 5, "n_invalid": 0}, "this log 5, 1.500×"),
        ({"slowdown": None}, "this log 2, 1 not valid"),
    ],
)
def test_a_leaf_on_another_log(changes: dict[str, Any], text: str) -> None:
    assert log_text(LEAF, replace(OWN, **changes)) == text


def test_a_leaf_whose_scenarios_are_of_another_device_is_in_the_log() -> None:
    made, table = module(), replace(costs(), device=("A", "A", "B", "B"))
    first, second = views(made, (table,), score(made, (table,)))
    assert [v.device for v in (first, second)] == ["A", "B"]
    assert leaf_notes(first) == ["next 2.83×: BLOCK=32", "not on this device"]
    made = module(replace(TREE, right=ir.Leaf(1, 3, 1.5)))
    _, second = views(made, (table,), score(made, (table,)))
    better = "next 1.000× (better on this device, not in training): BLOCK=48"
    assert leaf_notes(second) == ["not on this device", f"this device 2, 1.500×, 1 not valid; {better}"]
