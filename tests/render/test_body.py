"""A tree as the body of a function: how deep it nests, and how long the text of an expression may get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.ir import expr
from heurgen.ir.expr import Binary, Call, Name, Negate, Number
from heurgen.render.body import NATURAL_NESTING, _expression, _size, body, shapes
from heurgen.render.text import Code

EXPRESSIONS = st.recursive(
    st.floats(0, 1e300).map(Number) | st.sampled_from("abcdefgh").map(Name),
    lambda inner: (
        inner.map(Negate)
        | st.builds(Binary, st.sampled_from(("+", "-", "*", "/", "//", "%")), inner, inner)
        | st.builds(Call, st.sampled_from(("min", "max")), st.lists(inner, min_size=2, max_size=4).map(tuple))
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_the_size_bounds_the_text(tree: expr.Expr) -> None:
    assert len(expr.to_python(tree)) <= _size(tree)


@pytest.mark.parametrize(
    ("tree", "size"),
    [
        (Number(1.0), 3),
        (Name("ab"), 9),
        (Negate(Name("ab")), 12),
        (Call("min", (Name("a"), Name("bc"))), 6 + 8 + 2 + 9 + 2),
        (Binary("+", Name("a"), Name("bc")), 7 + 8 + 9),
        (Binary("-", Name("a"), Name("bc")), 7 + 8 + 9),
        (Binary("*", Name("a"), Name("bc")), 7 + 8 + 9),
        (Binary("/", Name("a"), Name("bc")), 22 + 8 + 2 * 9),
        (Binary("%", Name("a"), Call("max", (Name("a"), Name("b")))), 22 + 8 + 2 * 26),
    ],
)
def test_sizes(tree: expr.Expr, size: int) -> None:
    assert _size(tree) == size


def test_an_expression_of_the_most_is_written_and_one_longer_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = ir.Derived("d", "a / (b / c)")
    size = _size(expr.parse(derived.expression))
    monkeypatch.setattr("heurgen.render.body.MAX_EXPRESSION", size)
    assert _expression(derived) == expr.parse(derived.expression)
    monkeypatch.setattr("heurgen.render.body.MAX_EXPRESSION", size - 1)
    with pytest.raises(EmitError) as caught:
        _expression(derived)
    assert caught.value.message == "the expression of d nests too many divisions to be written"


def chain(depth: int, side: str) -> ir.Node:
    """Tests one below the other, all on the left or all on the right."""
    tree: ir.Node = ir.Leaf(0)
    for i in range(depth):
        tests = (tree, ir.Leaf(1)) if side == "left" else (ir.Leaf(1), tree)
        tree = ir.Split("x", i if side == "right" else 100 - i, *tests)
    return tree


@pytest.mark.parametrize(
    ("tree", "natural", "least"),
    [
        (ir.Leaf(0), 0, 0),
        (chain(1, "left"), 1, 1),
        (chain(3, "left"), 3, 1),
        (chain(3, "right"), 1, 1),
        (ir.Split("x", 9, chain(1, "left"), chain(1, "left")), 2, 2),
        (ir.Split("x", 9, chain(2, "left"), chain(4, "left")), 4, 2),
        (ir.Split("x", 9, ir.Split("x", 5, chain(1, "left"), chain(1, "left")), ir.Leaf(0)), 3, 2),
    ],
)
def test_the_shape_of_a_tree_is_its_nesting_as_read_and_at_its_least(
    tree: ir.Node, natural: int, least: int
) -> None:
    found = shapes(tree, frozenset())[id(tree)]
    assert (found.natural, found.least) == (natural, least)


def test_a_shape_knows_the_derived_features_below_it() -> None:
    tree = ir.Split(
        "d", 1.0, ir.Split("x", 1, ir.Leaf(0), ir.Leaf(1)), ir.Split("e", 1.0, ir.Leaf(0), ir.Leaf(1))
    )
    found = shapes(tree, frozenset(("d", "e", "f")))
    assert found[id(tree)].readers == {"d": 4, "e": 2}
    assert found[id(tree.left)].readers == {}
    assert found[id(tree.right)].readers == {"e": 2}


@pytest.mark.parametrize(("depth", "computed"), [(1, 1), (2, 2)])
def test_a_derived_feature_is_computed_above_both_branches_where_half_of_the_paths_read_it(
    depth: int, computed: int
) -> None:
    """Each branch has a test of `d` above two leaves, beside `depth` leaves without one."""
    reading = ir.Split("d", 1.0, ir.Leaf(0), ir.Leaf(1))
    branch: ir.Node = reading
    for i in range(depth):
        branch = ir.Split("x", float(10 + i), ir.Split("x", float(i), ir.Leaf(0), ir.Leaf(1)), branch)
    tree = ir.Split("x", 50.0, branch, branch)
    selector = ir.Selector("nvidia", ("B",), ((1,), (2,)), tree)
    module = ir.HeuristicModule(
        "k",
        (ir.Feature("x", "float"),),
        (ir.Parameter("B", "int"),),
        (selector,),
        (ir.Derived("d", "x + 1"),),
    )
    text = body(tree, module, lambda leaf: Code(f"return {leaf.config}"))
    assert text.count("d = float(x) + 1.0") == computed


@pytest.mark.parametrize(("depth", "deepest"), [(NATURAL_NESTING, NATURAL_NESTING), (NATURAL_NESTING + 1, 1)])
def test_a_tree_is_indented_as_one_reads_it_up_to_five_levels(depth: int, deepest: int) -> None:
    tree = chain(depth, "left")
    selector = ir.Selector("nvidia", ("B",), ((1,), (2,)), tree)
    module = ir.HeuristicModule("k", (ir.Feature("x", "int"),), (ir.Parameter("B", "int"),), (selector,))
    text = body(tree, module, lambda leaf: Code(f"return {leaf.config}"))
    indents = [(len(line) - len(line.lstrip())) // 4 for line in text.splitlines()]
    assert max(indents) == deepest + 1
    assert ("not x" in text) == (depth > NATURAL_NESTING)
