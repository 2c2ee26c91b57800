"""Provably optimal trees, by the optional solver STreeD (van der Linden et al., NeurIPS 2023)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from heurgen.base.errors import UsageError
from heurgen.trees.candidates import candidates
from heurgen.trees.joint import Fitted, Settings, or_single, pool
from heurgen.trees.node import Branch, Cut, Tip, Tree, best_tip
from heurgen.trees.problem import UNIT, Problem, with_configs
from heurgen.trees.regime import Regime

DEFAULT_DEPTH = 3
# Cuts by depth: time grows with their number to the power of the depth.
MAX_CUTS = {1: 240, 2: 240, 3: 120}
MAX_CUTS_DEEP = 40
TIME_LIMIT = 600.0  # seconds


def available() -> bool:
    return find_spec("pystreed") is not None


def fit_optimal(p: Problem, r: Regime, s: Settings) -> tuple[Fitted, dict[str, Any]]:
    """The tree of least cost on the scenarios, among all of the given depth over the candidate cuts.

    Raises:
        UsageError: pystreed is not installed.
    """
    if not available():
        raise UsageError("strategy optimal needs the package pystreed", hint="pip install 'heurgen[optimal]'")
    small = with_configs(p, pool(p, r).best(s))
    rows = np.arange(len(small.X))
    cuts, B = candidates(small, rows, MAX_CUTS.get(s.depth, MAX_CUTS_DEEP))
    told: dict[str, Any] = {"candidate_cuts": len(cuts), "proved_optimal": True}
    if not cuts or small.cost.shape[1] < 2 or len(rows) < 2:
        return or_single(p, Fitted(small, best_tip(small, rows))), told
    from pystreed import STreeDInstanceCostSensitiveClassifier

    nodes = min(s.max_leaves, 2**s.depth) - 1
    solver = STreeDInstanceCostSensitiveClassifier(
        max_depth=s.depth if nodes else 0, max_num_nodes=nodes, time_limit=TIME_LIMIT
    )
    solver.fit(B.astype(np.intc), small.soft / UNIT)
    told["proved_optimal"] = bool(solver.fit_result.is_optimal())
    return or_single(p, Fitted(small, _converted(solver.tree_, cuts))), told


def _converted(node: Any, cuts: list[Cut]) -> Tree:
    """STreeD's tree; its left child is where the test is false."""
    if node.is_leaf_node():
        return Tip(int(node.label))
    below, above = _converted(node.right_child, cuts), _converted(node.left_child, cuts)
    return Branch(cuts[int(node.feature)], below, above)
