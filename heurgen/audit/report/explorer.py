"""What the page's script needs: a view's tree, scenarios and costs as JSON data.

The script evaluates the same tree by the same comparisons as `heurgen.ir` (int features as BigInt, so that ints of
any size compare exactly), and draws from these numbers alone; no text of it becomes markup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from heurgen import ir
from heurgen.audit import recorded
from heurgen.audit.evidence import View, column_values, map_columns
from heurgen.audit.recorded import is_counted
from heurgen.audit.regions import flags_of
from heurgen.audit.report.charts import column_scale
from heurgen.audit.report.coding import SAFE_INT, coded
from heurgen.audit.report.diagrams import leaf_notes
from heurgen.audit.report.heat import heat
from heurgen.audit.report.parameters import parameter_trees
from heurgen.audit.report.scales import Scale, compact, shortened
from heurgen.audit.report.words import LEAST_FIGURES, told_apart, value_text
from heurgen.audit.score import typed
from heurgen.base.errors import printable
from heurgen.base.text import rounded
from heurgen.ir import expr

_TEXT_LIMIT = 80


def explorer(
    module: ir.HeuristicModule, view: View, rows: Sequence[int], n_configs: int, same_log: bool
) -> dict[str, Any]:
    """JSON data of one view. rows: the scenarios that are drawn (`charts.drawn`); n_configs: the heat map's most."""
    names = [c.name for c in module.columns]
    own = [c.name for c in view.table.columns]
    return {
        **answering(module, view.selector),
        "scales": [_scale(column_scale(view, n)) if n in own else None for n in names],
        "axes": [names.index(n) for n in map_columns(view) if n in names],
        "notes": leaf_notes(view),
        "scenarios": _scenarios(view, module, rows, same_log),
        "median": _median(view, rows),
        "heat": heat(view, rows, n_configs) if view.known else None,
        "trees": parameter_trees(view, flags_of(module)),
        "known": view.known,
        "costs": view.selector.costs_known,
    }


def answering(module: ir.HeuristicModule, selector: ir.Selector) -> dict[str, Any]:
    """What it takes to answer a launch: columns (features, then derived ones), configs and the tree."""
    names = [c.name for c in module.columns]
    digits = {name: n for name, n in told_apart(selector.tree).items() if n > LEAST_FIGURES}
    return {
        "columns": [
            _column(module, selector, name) | ({"figures": digits[name]} if name in digits else {})
            for name in names
        ],
        "features": len(module.features),
        "parameters": list(selector.parameters),
        "configs": [[value_text(v) for v in c] for c in selector.configs],
        "tree": _tree(selector.tree, names),
    }


def _column(module: ir.HeuristicModule, selector: ir.Selector, name: str) -> dict[str, Any]:
    column = next(c for c in module.columns if c.name == name)
    seen = selector.ranges.get(name)
    found: dict[str, Any] = {"name": name, "seen": None if seen is None else [_number(x) for x in seen]}
    if isinstance(column, ir.Derived):
        return found | {"type": "float", "expression": _expression(expr.parse(column.expression), module)}
    found |= {"type": column.type, "unit": printable(column.unit)}
    if column.type == "category":
        found |= {"values": list(column.values), "refuses": column.unknown == "error"}
        found |= {"aliases": [list(pair) for pair in column.aliases]}
    return found


def _scale(scale: Scale) -> dict[str, Any]:
    return {
        "kind": scale.kind,
        "low": scale.low,
        "high": scale.high,
        "note": scale.note,
        "ticks": [[round(t.at, 4), t.label] for t in scale.ticks],
    }


def _number(value: float | int) -> float | int | str:
    """A number as JSON; text where JSON or a double cannot hold it."""
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INT else str(value)
    return value if math.isfinite(value) else str(value)


def _expression(tree: expr.Expr, module: ir.HeuristicModule) -> Any:
    """Nested lists: a number, ["name", column], ["neg", a], [operator or "min" or "max", a, b, ...]."""
    match tree:
        case expr.Number(value):
            return value
        case expr.Name(name):
            return ["name", [f.name for f in module.features].index(name)]
        case expr.Negate(operand):
            return ["neg", _expression(operand, module)]
        case expr.Binary(operator, left, right):
            return [operator, _expression(left, module), _expression(right, module)]
        case expr.Call(function, arguments):
            return [function, *(_expression(a, module) for a in arguments)]


def _tree(tree: ir.Node, names: Sequence[str]) -> Any:
    """Leaves are {leaf, config, n, slowdown}, tests [column, kind, what holds on the left, left, right]."""
    number, known = count(), is_counted(tree)

    def visit(node: ir.Node) -> Any:
        if isinstance(node, ir.Leaf):
            slow = None if node.slowdown is None else round(node.slowdown, 3)
            n = node.n_scenarios if known else None
            return {"leaf": next(number), "config": node.config, "n": n, "slowdown": slow}
        left = visit(node.left)
        return [names.index(node.feature), *_test(node), left, visit(node.right)]

    return visit(tree)


def _test(node: ir.Split | ir.Membership) -> tuple[str, Any]:
    if isinstance(node, ir.Split):
        return "<=", _number(node.threshold)
    return ("not in", list(node.others)) if node.unknown_left else ("in", list(node.values))


def _scenarios(view: View, module: ir.HeuristicModule, rows: Sequence[int], same_log: bool) -> dict[str, Any]:
    """Per scenario: id, features, leaf, slowdowns, the best config. The script computes the derived features."""
    choices = [view.choices[i] for i in rows]
    ids = [shortened(printable(c.scenario), _TEXT_LIMIT) for c in choices]
    held = held_out_slowdowns(view, same_log)
    best = [tuple(map(value_text, c.best)) for c in choices]
    return {
        "id": ids if any(ids) else None,
        "columns": [
            coded([values[i] for i in rows]) for values in (_values(view, f.name) for f in module.features)
        ],
        "leaf": coded([c.leaf_index for c in choices]),
        "slowdown": _slowdowns([c.slowdown for c in choices]) if view.known else None,
        "held": None if held is None else _slowdowns([held[i] for i in rows]),
        "best": [coded(values) for values in zip(*best, strict=True)],
        "wins": coded([_shipped(view, c.best) for c in choices]),
    }


def _slowdowns(values: Sequence[float | None]) -> Any:
    """As many places as a reader is shown; null: not valid."""
    return coded([None if x is None or math.isnan(x) else round(x, 3) for x in values])


def training_rows(view: View) -> dict[int, int] | None:
    """Row of the selector's training table -> place in the view; None where the log cannot be that table."""
    own = view.selector.device is not None
    size = len(view.rows) if own else view.table.n_scenarios
    if view.selector.n_scenarios != size:
        return None
    return {i if own else row: i for i, row in enumerate(view.rows.tolist())}


def held_out_slowdowns(view: View, same_log: bool) -> list[float] | None:
    """What cross-validation gave each scenario of the training log (NaN: not valid); None where training recorded
    none, or where the log is another one.
    """
    found, places = recorded.held_out_scenarios(view.selector), training_rows(view)
    if not same_log or found is None or places is None or len(found) != view.selector.n_scenarios:
        return None
    slow = [math.nan] * len(view.rows)
    for row, place in places.items():
        slow[place] = found[row]
    return slow


def _values(view: View, name: str) -> list[float | int]:
    values = column_values(view, name).tolist()
    return [int(x) if x.is_integer() and abs(x) <= SAFE_INT else float(x) for x in values]


def _shipped(view: View, best: ir.Config) -> int:
    """The selector's number of the winning config; -1 where it does not ship."""
    return next((i for i, c in enumerate(view.selector.configs) if typed(c) == typed(best)), -1)


def _median(view: View, rows: Sequence[int]) -> int:
    """The drawn scenario in the middle of the first map column: where "try a launch" starts."""
    columns = map_columns(view)
    if not columns:
        return 0
    order = np.argsort(column_values(view, columns[0])[list(rows)], kind="stable")
    return int(order[len(order) // 2])


def told(view: View, values: dict[str, Any], least: int = 2, most: int = 4) -> str:
    """A scenario by the features that tell it from the others, those that matter most first:
    `num_seqs 4, max_seqlen_q 807`.
    """
    alike, shown = np.ones(len(view.rows), dtype=bool), list[str]()
    first = [n for n in map_columns(view) if n in values]
    while len(shown) < min(most, len(values)) and (len(shown) < least or alike.sum() > 1):
        same = {n: alike & _equal(view, n, values[n]) for n in values if n not in shown}
        name = first[0] if first else min(same, key=lambda n: int(same[n].sum()))
        if len(shown) >= least and same[name].sum() == alike.sum():
            break
        first = first[1:]
        shown, alike = [*shown, name], same[name]
    return ", ".join(f"{n} {_short(values[n])}" for n in shown)


def _equal(view: View, name: str, value: Any) -> Any:
    """Which scenarios of the view have this value of a feature."""
    column = next(c for c in view.table.columns if c.name == name)
    number = column.values.index(value) if column.type == "category" else float(value)
    return column_values(view, name) == number


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else rounded(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**9:
        return compact(value)
    return shortened(printable(value), 40)
