"""Tree diagrams: rows, notes of leaves, what is folded."""

from __future__ import annotations

from dataclasses import replace

from heurgen import ir
from heurgen.audit.report import MAX_BYTES, render_html
from heurgen.audit.report.data import Detail, Given, report
from heurgen.audit.score import score
from heurgen.base.text import counted
from tests.audit.pages import Page, given, page_text


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
        assert f"{count}, expected {leaf.slowdown:.3f}×; next 1." in page.text


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
    assert "with the fewest training scenarios are not drawn" in text
