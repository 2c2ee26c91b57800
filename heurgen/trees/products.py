"""Products and ratios of a log's sizes, tried where the spec names no derived features.

A tree tests one feature at a time, and what decides about a launch is often a product of two: a matrix product of
M x N x K has as many tiles as M times N says. They are taken where that is surely better held out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from heurgen.ir import MAX_NAME, expr
from heurgen.logs.costs import CostTable
from heurgen.logs.groups import FEW, strides
from heurgen.spec.kernel_spec import DerivedColumn
from heurgen.trees.learn import one_thread
from heurgen.trees.problem import UNIT, Ints
from heurgen.trees.suggest import evaluated, held_out, known, mean_of, paired_error, with_derived

# Sizes of which every two are taken: six would have thirty columns, which took `train` six times as long.
MOST_SIZES = 5
# Groups of scenarios from which on it is tried, and the same where every config ran in all scenarios or in none. Where
# some do not run, a region by a product reaches where they fail: of 60 scenarios modelled attention by what fits shared
# memory lost 0.08 by products, measured linear layers 0.06 (means of six). Where all run, docs/learning.md has gains.
LEAST_GROUPS, LEAST_WHOLE = 100, 30
# Splits into folds that decide, of up to so many scenarios, and of more.
SPLITS, MANY, MANY_SPLITS = range(1, 4), 5000, range(1, 2)
# What they must gain, as a mean log-slowdown.
GAIN = 0.002


def products(table: CostTable) -> tuple[DerivedColumn, ...]:
    """a * b and a / b of every two sizes: positive numbers of more than FEW values. None where the table has derived
    features, where the log has winners only, or where MOST_SIZES are exceeded, strides not counted. Those that order
    the scenarios as a feature does are left out, and those that a float64 or a name cannot hold.
    """
    numbers = {c.name: table.X[:, i] for i, c in enumerate(table.columns) if c.type in ("int", "float")}
    sizes = {name for name, x in numbers.items() if len(np.unique(x)) > FEW and x.min() > 0}
    if len(sizes) > MOST_SIZES:
        sizes -= strides({name: x for name, x in numbers.items() if name in sizes})
    named = any(c.derived for c in table.columns)
    if named or not table.costs_known or not 2 <= len(sizes) <= MOST_SIZES:
        return ()
    taken = {*(c.name for c in table.columns), *table.parameters}
    found = []
    for a, b in combinations(sorted(numbers), 2):
        for name, text in ((f"{a}_times_{b}", f"{a} * {b}"), (f"{a}_per_{b}", f"{a} / {b}")):
            if name in taken or len(name) > MAX_NAME:
                continue
            taken.add(name)  # a * b_times_c and a_times_b * c share one: the first pair's, for all vendors
            column = DerivedColumn(name, expr.parse(text))
            if not {a, b} <= sizes:
                continue
            values = evaluated(table, column.expression)
            if np.isfinite(values).all() and not known(table, values):
                found.append(column)
    return tuple(found)


def chosen(table: CostTable, rows: Ints) -> CostTable:
    """The table, with products of its sizes where some of its scenarios say that they pay."""
    part = replace(
        table, X=table.X[rows], times=table.times[rows], log_slowdown=table.log_slowdown[rows], noise=table.noise[rows],
        group=np.unique(table.group[rows], return_inverse=True)[1].reshape(-1),
        scenario=tuple(table.scenario[row] for row in rows.tolist()),
        device=tuple(table.device[row] for row in rows.tolist()),
    )  # fmt: skip
    columns = products(part)
    trial = tried(part, columns)
    return with_columns(table, columns) if trial is not None and trial.pays else table


def with_columns(table: CostTable, columns: Sequence[DerivedColumn]) -> CostTable:
    if not columns:
        return table
    return with_derived(table, {c.name: c.expression for c in columns})


@dataclass(frozen=True, slots=True)
class Trial:
    """Held-out geometric mean slowdowns of trees without and with columns, and whether these are surely better: by a
    standard error of the difference, and by GAIN.
    """

    without: float
    with_them: float
    pays: bool


def _whole(table: CostTable) -> bool:
    """Whether every config ran in all scenarios or in none: a choice of few scenarios fails nowhere."""
    ran = np.isfinite(table.log_slowdown)
    return bool((ran.all(axis=0) | ~ran.any(axis=0)).all())


def tried(table: CostTable, columns: Sequence[DerivedColumn]) -> Trial | None:
    """None where there is nothing to try, or too few groups of scenarios."""
    least = LEAST_WHOLE if _whole(table) else LEAST_GROUPS
    if not columns or int(table.group.max()) + 1 < least:
        return None
    splits = SPLITS if table.n_scenarios <= MANY else MANY_SPLITS
    with one_thread():
        found = tuple(held_out(t, splits) for t in (table, with_columns(table, columns)))
    without, wide = (np.rint(cost * UNIT) / UNIT for cost in found)  # the same bits on every processor
    gain = (without - wide).reshape(len(splits), -1).mean(axis=0)
    mean = mean_of(gain)
    pays = mean > max(paired_error(gain, mean), GAIN)
    return Trial(math.exp(mean_of(without)), math.exp(mean_of(wide)), pays)
