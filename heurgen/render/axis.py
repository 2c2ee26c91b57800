"""A model along one integer feature, all others fixed: the steps of its answer, exactly.

Launchers that read a table by one size (tokens, rows) get these steps as entries of their table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heurgen import ir
from heurgen.ir import expr

# Derived features of the axis need not be monotone (M % 16), so they are tried value by value up to here:
# beyond the tokens of any batch and the rows of any table that ships.
LAST_TRIED = 65536


@dataclass(frozen=True, slots=True)
class Stretch:
    """`config` answers from `first` to `last`; `last` is None in the last step."""

    first: int
    last: int | None
    config: Mapping[str, ir.Value]


def steps(
    module: ir.HeuristicModule, selector: ir.Selector, axis: str, fixed: Mapping[str, Any]
) -> tuple[Stretch, ...]:
    """The steps from 1 on, neighbours differ. Exact for every integer where no test reads a derived feature of
    the axis, and up to `LAST_TRIED` where one does. `fixed` may lack what no answer depends on.
    """
    unread = {f.name: "" if f.type == "category" else 0 for f in module.features}
    starts = sorted(_starts(module, selector, axis))
    found: list[Stretch] = []
    chosen = -1
    for first in starts:
        row = ir.with_derived(module, {**unread, **fixed, axis: first})
        before, chosen = chosen, ir.find_leaf(selector.tree, row).config
        if chosen == before:
            continue
        config = dict(zip(selector.parameters, selector.configs[chosen], strict=True))
        if not found or _differ(found[-1].config, config):
            found.append(Stretch(first, None, config))
    ends = [step.first - 1 for step in found[1:]]
    return tuple(Stretch(s.first, last, s.config) for s, last in zip(found, [*ends, None], strict=True))


def is_exact_everywhere(module: ir.HeuristicModule, selector: ir.Selector, axis: str) -> bool:
    """Whether no test reads a derived feature of the axis."""
    read = ir.tested(selector.tree)
    return not any(d.name in read and axis in expr.names(expr.parse(d.expression)) for d in module.derived)


def _starts(module: ir.HeuristicModule, selector: ir.Selector, axis: str) -> set[int]:
    tests = [n for n in ir.nodes(selector.tree) if isinstance(n, ir.Split)]
    found = {1} | {math.floor(n.threshold) + 1 for n in tests if n.feature == axis}
    if not is_exact_everywhere(module, selector, axis):
        found |= set(range(1, LAST_TRIED + 1))
    return {first for first in found if first >= 1}


def _differ(a: Mapping[str, ir.Value], b: Mapping[str, ir.Value]) -> bool:
    return [(k, type(v), repr(v)) for k, v in a.items()] != [(k, type(v), repr(v)) for k, v in b.items()]
