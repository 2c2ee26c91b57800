"""A view small enough to work out by hand."""

from __future__ import annotations

import math

import numpy as np

from heurgen import ir
from heurgen.audit.evidence import View, views
from heurgen.audit.score import score
from heurgen.logs.costs import CostTable, TableColumn
from tests.trees.synthetic import table

FAILED, ABSENT = math.inf, math.nan
COLUMNS = (TableColumn("m", "int"), TableColumn("dtype", "category", values=("a", "b")))
X = np.array([[1.0, 0], [2.0, 1], [64.0, 0], [128.0, 0]])
# Of BLOCK 16, 32, 48: the tree takes 16 up to m = 4, 32 beyond; 48 does not ship.
TIMES = np.array([[1.0, 2.0, 1.1], [1.0, 4.0, ABSENT], [3.0, 1.5, 1.0], [2.0, FAILED, 1.0]])
TREE = ir.Split("m", 4, ir.Leaf(0, 2, 1.0), ir.Leaf(1, 2, 1.5))


def costs() -> CostTable:
    return table(COLUMNS, X, TIMES)


def module(tree: ir.Node = TREE, **fields: object) -> ir.HeuristicModule:
    selector = ir.Selector(
        "nvidia",
        ("BLOCK",),
        ((16,), (32,)),
        tree,
        ranges={"m": (1, 128)},
        n_scenarios=4,
        **fields,  # type: ignore[arg-type]
    )
    features = (ir.Feature("m", "int"), ir.Feature("dtype", "category", values=("a", "b")))
    return ir.HeuristicModule("k", features, (ir.Parameter("BLOCK", "int"),), (selector,))


def view(tree: ir.Node = TREE, **fields: object) -> View:
    made, found = module(tree, **fields), (costs(),)
    (one,) = views(made, found, score(made, found))
    return one
