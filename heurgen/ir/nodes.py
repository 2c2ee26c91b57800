"""A tree of the IR: frozen, validated nodes, and the one definition of what they answer.

A Split sends `x <= threshold` left and everything else right, NaN included. A Membership sends `x in values`
left; a category seen neither left nor right goes where `unknown_left` says.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from heurgen.base.errors import ModelError, quoted
from heurgen.ir.categories import check_distinct

# CPython refuses source with 100 levels of indentation.
MAX_DEPTH = 90


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """What a leaf would ship next: an index into `Selector.listed`, its geometric mean slowdown over the `n_ok`
    training scenarios of the leaf in which it succeeded, and whether its loss against the choice is within the noise.
    """

    config: int
    slowdown: float
    n_ok: int
    tie: bool = False

    def __post_init__(self) -> None:
        if any(type(n) is not int or n < 0 for n in (self.config, self.n_ok)):
            raise ModelError("a runner-up's config and n_ok must be counts")
        if type(self.slowdown) is not float or not (math.isfinite(self.slowdown) and self.slowdown > 0):
            raise ModelError(
                f"a runner-up's slowdown must be a finite positive float, found {quoted(self.slowdown)}"
            )


@dataclass(frozen=True, slots=True)
class Leaf:
    """`config` indexes the selector's configs. `slowdown` is the geometric mean expected over the
    `n_ok` of the `n_scenarios` training scenarios that end here, those in which the config succeeded (None: not
    recorded); None where the log carries no costs. `shortlist` are the configs to try here, indices into
    `Selector.listed`, `config` first; empty where the model has no shortlists.
    """

    config: int
    n_scenarios: int = 0
    slowdown: float | None = None
    n_ok: int | None = None
    runner_up: RunnerUp | None = None
    shortlist: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.shortlist and (
            self.shortlist[0] != self.config
            or len(set(self.shortlist)) != len(self.shortlist)
            or any(type(i) is not int or i < 0 for i in self.shortlist)
        ):
            raise ModelError("a leaf's shortlist must be distinct indices, its config first")
        if type(self.config) is not int or self.config < 0:
            raise ModelError(f"leaf config must be an index, found {quoted(self.config)}")
        if type(self.n_scenarios) is not int or self.n_scenarios < 0:
            raise ModelError(f"leaf n_scenarios must be a count, found {quoted(self.n_scenarios)}")
        if self.n_ok is not None and (type(self.n_ok) is not int or not 0 <= self.n_ok <= self.n_scenarios):
            raise ModelError(f"leaf n_ok must be a count up to n_scenarios, found {quoted(self.n_ok)}")
        if self.slowdown is not None and not (
            type(self.slowdown) is float and math.isfinite(self.slowdown) and self.slowdown > 0
        ):
            raise ModelError(f"leaf slowdown must be a finite positive float, found {quoted(self.slowdown)}")


@dataclass(frozen=True, slots=True)
class Split:
    """`feature <= threshold` goes left; anything else, NaN included, goes right."""

    feature: str
    threshold: int | float
    left: Node
    right: Node

    def __post_init__(self) -> None:
        number = type(self.threshold) in (int, float)
        # No column can hold more than a float64 does; CPython also refuses to print ints of 4300 digits.
        if not number or not -sys.float_info.max <= self.threshold <= sys.float_info.max:
            raise ModelError(f"threshold of {quoted(self.feature)} must be finite, in float64 range")


@dataclass(frozen=True, slots=True)
class Membership:
    """`feature in values` goes left, `feature in others` right, any other value by `unknown_left`.

    `unknown_left` holds where most training scenarios went.
    """

    feature: str
    values: tuple[str, ...]
    others: tuple[str, ...]
    unknown_left: bool
    left: Node
    right: Node

    def __post_init__(self) -> None:
        if not self.values or not self.others:
            raise ModelError(f"membership split of {quoted(self.feature)} has an empty side")
        check_distinct(self.values + self.others, f"categories of the split on {self.feature}")


Node: TypeAlias = Split | Membership | Leaf


# --- reading a tree ---------------------------------------------------------------------------------------


def nodes(tree: Node) -> Iterator[Node]:
    """Every node, parents first, left before right."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Leaf):
            stack += (node.right, node.left)


def leaves(tree: Node) -> Iterator[Leaf]:
    return (n for n in nodes(tree) if isinstance(n, Leaf))


def tested(tree: Node) -> frozenset[str]:
    """The features and derived features that a tree reads."""
    return frozenset(n.feature for n in nodes(tree) if not isinstance(n, Leaf))


def depth(tree: Node) -> int:
    """Number of tests on the longest path."""
    deepest, stack = 0, [(tree, 0)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        if not isinstance(node, Leaf):
            stack += ((node.left, level + 1), (node.right, level + 1))
    return deepest


def goes_left(node: Split | Membership, value: Any) -> bool:
    """The one definition of every test in a tree; generated code spells the same comparisons."""
    if isinstance(node, Split):
        return bool(value <= node.threshold)
    return value not in node.others if node.unknown_left else value in node.values


def find_leaf(tree: Node, row: Mapping[str, Any]) -> Leaf:
    """The leaf that a row of features and derived features ends in."""
    node = tree
    while not isinstance(node, Leaf):
        node = node.left if goes_left(node, row[node.feature]) else node.right
    return node
