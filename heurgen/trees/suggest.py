"""Which products and ratios of two features, and remainders of one, would pay, on held-out scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from heurgen.base.errors import UsageError
from heurgen.base.outline import outline
from heurgen.base.text import counted
from heurgen.ir import expr
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.logs.groups import FEW
from heurgen.trees import constants, joint
from heurgen.trees.alignment import MULTIPLES
from heurgen.trees.auto import held_out_choices
from heurgen.trees.derived import derived_values
from heurgen.trees.guards import limits
from heurgen.trees.joint import Fitted, Settings
from heurgen.trees.learn import one_thread
from heurgen.trees.options import FitOptions
from heurgen.trees.problem import UNIT, Floats, Problem, column_order, device_of, groups, problem
from heurgen.trees.regime import Regime, regime, ruled

# Splits into folds: the finalists' are not those that made them finalists.
SCREEN, FINAL = range(1), range(1, 4)
FOLDS = 5
# Expressions tried in full, after all were ranked by one split into folds.
FINALISTS = 6
# Configs of the trees that are compared.
CONFIGS = 8
# Of the scenarios with a size, at least so many of each kind: multiples, and others.
LEAST_OF_KIND = 0.05


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A derived feature, with held-out geometric mean slowdowns with it and without it.

    `pays`: the mean log-slowdown falls by more than two standard errors of the paired difference and by 0.002.
    """

    expression: str
    without: float
    with_it: float
    error: float
    pays: bool


@dataclass(frozen=True, slots=True)
class Suggestions:
    """`beside`: the derived features that all trees had."""

    vendor: str
    ranked: tuple[Suggestion, ...]
    beside: tuple[str, ...] = ()

    __repr__ = outline

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        if not any(s.pays for s in self.ranked):
            head = f"{self.vendor}: no product, ratio or remainder pays on held-out scenarios"
        else:
            head = f"{self.vendor}: derived features that pay on held-out scenarios are marked *"
        if self.beside:
            head += f" (beside {', '.join(self.beside)})"
        lines = [
            f"{'*' if s.pays else ' '} {s.expression}: {s.with_it:.4f} with it, {s.without:.4f} without"
            for s in self.ranked
        ]
        return "\n".join([head, *lines])


def suggest_derived(table: CostTable) -> Suggestions:
    """Try every product and ratio of two number features, and what is left of one by MULTIPLES, with the joint
    strategy, best first.

    All are tried on one split into folds, the FINALISTS best on FINAL splits.

    Raises:
        UsageError: the log has winners only, or too few groups of scenarios for held-out numbers.
    """
    if not table.costs_known:
        raise UsageError("derived features cannot be compared on a log of winners: it has no costs")
    if int(table.group.max()) + 1 < 2 * FOLDS:
        n = int(table.group.max()) + 1
        raise UsageError(
            f"{counted(n, 'group')} of scenarios {'is' if n == 1 else 'are'} too few to compare derived features",
            hint=f"at least {2 * FOLDS}",
        )
    with one_thread():
        base = held_out(table, SCREEN)
        tried = [(text, with_derived(table, {f"derived {text}": e})) for text, e in _expressions(table)]
        first = sorted(
            ((mean_of(held_out(t, SCREEN) - base), text, t) for text, t in tried), key=lambda f: f[:2]
        )
        base = held_out(table, FINAL)
        ranked = [_compared(text, base, held_out(t, FINAL)) for _, text, t in first[:FINALISTS]]
        ranked.sort(key=lambda s: (s.with_it, s.expression))
        return Suggestions(table.vendor, tuple(ranked), tuple(c.name for c in table.columns if c.derived))


def _expressions(table: CostTable) -> Iterator[tuple[str, expr.Expr]]:
    given = [i for i in column_order(table.columns) if not table.columns[i].derived]
    numbers = sorted(
        table.columns[i].name
        for i in given
        if table.columns[i].type in ("int", "float") and len(np.unique(table.X[:, i])) > 1
    )
    pairs = combinations(numbers, 2)
    texts = [text for a, b in pairs for text in (f"{a} * {b}", f"{a} / {b}", f"{b} / {a}")]
    for text in (*texts, *_remainders(table)):
        expression = expr.parse(text)
        values = evaluated(table, expression)
        if np.isfinite(values).all() and not known(table, values):
            yield text, expression


def _remainders(table: CostTable) -> Iterator[str]:
    """Where some scenarios' size is a multiple, and others' is not."""
    for column in sorted(table.columns, key=lambda c: c.name):
        x = table.X[:, table.columns.index(column)]
        if column.type != "int" or column.derived or len(np.unique(x)) <= FEW:
            continue
        for multiple in MULTIPLES:
            if LEAST_OF_KIND <= float((x % multiple == 0).mean()) <= 1 - LEAST_OF_KIND:
                yield f"{column.name} % {multiple}"


def evaluated(table: CostTable, expression: expr.Expr) -> Floats:
    """An expression of the table's columns in each scenario [S], with the bits of generated code."""
    with np.errstate(all="ignore"):
        return derived_values(expression, {c.name: table.X[:, i] for i, c in enumerate(table.columns)})


def known(table: CostTable, values: Floats) -> bool:
    """Whether a column of the table orders the scenarios as `values` do, or backwards: no new cuts."""
    order = np.unique(values, return_inverse=True)[1].reshape(-1)
    for i in range(len(table.columns)):
        own = np.unique(table.X[:, i], return_inverse=True)[1].reshape(-1)
        if np.array_equal(own, order) or np.array_equal(own.max() - own, order):
            return True
    return False


def with_derived(table: CostTable, found: Mapping[str, expr.Expr]) -> CostTable:
    """The table with derived features, by name."""
    more = (TableColumn(name, "float", derived=True, expression=e) for name, e in found.items())
    values = [evaluated(table, expression) for expression in found.values()]
    return replace(table, columns=(*table.columns, *more), X=np.column_stack([table.X, *values]))


def held_out(table: CostTable, repeats: range) -> Floats:
    """Held-out costs of every scenario, one block a repeat."""
    p = problem(table)
    r = regime(p, FitOptions(), device_of(table, p))
    if r.by_chance or r.searched:
        p = ruled(table, p.index, r, p.configs)
    return np.concatenate([_held_out(table, p, r, repeat) for repeat in repeats])


def _held_out(table: CostTable, p: Problem, r: Regime, repeat: int) -> Floats:
    """Of one division into folds. What was chosen but never measured counts as lost, a failure as invalid: a few cells
    that a sweep happened to miss would hide what a column gains. Where a log is learnt from estimates these judge.
    """
    limit, group = constants.LEARNER.invalid, groups(p)
    settings = Settings(min(CONFIGS, r.counts[-1]), constants.LEARNER.price, r.max_depth, r.max_leaves)
    measured = table.log_slowdown[np.ix_(p.index, p.configs)]
    truth = p.cost / UNIT if p.guessed else np.where(np.isnan(measured), constants.LEARNER.lost, measured)
    column = np.argsort(p.configs)
    fold = (np.random.RandomState(repeat).permutation(int(group.max()) + 1) % FOLDS)[group]
    loss = np.zeros(table.n_scenarios)
    for k in range(FOLDS):
        rows, test = p.index[fold != k], p.index[fold == k]
        part = ruled(table, rows, r, p.configs) if p.guessed else problem(table, rows, p.configs)
        small = joint.prepared(part, joint.pool(part, r).best(settings), r, settings)
        tree = joint.finish(small, joint.grown(small, settings), settings, limits(small))
        chosen = held_out_choices(table, Fitted(small, tree), test)
        at = column[np.searchsorted(p.configs, chosen, sorter=column)]
        cost = truth[np.flatnonzero(fold == k), at]
        loss[test] = np.where(np.isfinite(cost), np.minimum(cost, limit), limit)
    return loss


def mean_of(x: Floats) -> float:
    return math.fsum(x.tolist()) / len(x)


def paired_error(gain: Floats, mean: float) -> float:
    """The standard error of the mean of what each scenario gains."""
    return math.sqrt(math.fsum(((gain - mean) ** 2).tolist())) / len(gain)


def _compared(text: str, base: Floats, found: Floats) -> Suggestion:
    gain = (base - found).reshape(len(FINAL), -1).mean(axis=0)
    mean = mean_of(gain)
    error = paired_error(gain, mean)
    pays = mean > max(2 * error, 0.002)
    return Suggestion(text, math.exp(mean_of(base)), math.exp(mean_of(found)), round(error, 6), bool(pays))
