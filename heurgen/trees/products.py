"""Products and ratios of a log's sizes, tried where the spec names no derived features.

A tree tests one feature at a time, and what decides about a launch is often a product: a matrix product of M x N x K
has as many tiles as M times N says, attention as many blocks as batch times heads times queries. They are taken where
that is surely better held out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from heurgen.ir import MAX_NAME, expr
from heurgen.logs.costs import CostTable
from heurgen.logs.groups import FEW, strides
from heurgen.spec.kernel_spec import DerivedColumn
from heurgen.trees.learn import one_thread
from heurgen.trees.problem import UNIT, Floats, Ints
from heurgen.trees.suggest import evaluated, held_out, known, mean_of, paired_error, with_derived

# Sizes, with counts, of which every two are taken: six sizes would have thirty columns, which took `train` six times as
# long. Five with counts among them have up to thirty as well, ten of them products of three.
MOST_SIZES = 5
# Values of a number of few that is a count, such as heads and batches.
LEAST_VALUES = 3
# Groups of scenarios from which on it is tried, and the same where every config ran in all scenarios or in none. Where
# some do not run, a region by a product reaches where they fail: of 60 scenarios modelled attention by what fits shared
# memory lost 0.08 by products, measured linear layers 0.06 (means of six). Where all run, docs/learning.md has gains.
LEAST_GROUPS, LEAST_WHOLE = 100, 30
# Splits into folds that decide, of up to so many scenarios, and of more.
SPLITS, MANY, MANY_SPLITS = range(1, 4), 5000, range(1, 2)
# What they must gain, as a mean log-slowdown.
GAIN = 0.002


def sets(table: CostTable) -> tuple[tuple[DerivedColumn, ...], ...]:
    """What to try, none of it empty: a * b and a / b of every two sizes; the same of sizes and counts, with a * b * c
    where one of the three is a count.

    Sizes are positive numbers of more than FEW values, counts of LEAST_VALUES and more: those of most values, where
    MOST_SIZES leaves room, from LEAST_GROUPS groups of scenarios on. Of three sizes there is none: held out, an H200's
    log of paged attention was at 1.0493 with such, at 1.0446 without.

    Nothing where the table has derived features, where the log has winners only, or where there are more sizes than
    MOST_SIZES, strides not counted. Expressions that order the scenarios as a feature does are left out, and those that
    a float64 or a name cannot hold.
    """
    if any(c.derived for c in table.columns) or not table.costs_known:
        return ()
    numbers = {c.name: table.X[:, i] for i, c in enumerate(table.columns) if c.type in ("int", "float")}
    values = {name: len(np.unique(x)) for name, x in numbers.items() if x.min() > 0}
    sizes = {name for name, count in values.items() if count > FEW}
    if len(sizes) > MOST_SIZES:
        sizes -= strides({name: x for name, x in numbers.items() if name in sizes})
    room = MOST_SIZES - len(sizes)
    if room < 0:
        return ()
    few = [name for name, count in values.items() if LEAST_VALUES <= count <= FEW]
    counts = sorted(few, key=lambda name: (-values[name], name))[:room]
    found = [_of(table, numbers, sizes, ())]
    if counts and _groups(table) >= LEAST_GROUPS:
        found.append(_of(table, numbers, sizes, counts))
    return tuple(columns for i, columns in enumerate(found) if columns and columns not in found[:i])


def _of(
    table: CostTable, numbers: Collection[str], sizes: Collection[str], counts: Collection[str]
) -> tuple[DerivedColumn, ...]:
    taken = {*(c.name for c in table.columns), *table.parameters}
    found = []
    inside = {*sizes, *counts}
    three = [names for names in combinations(sorted(inside), 3) if not set(counts).isdisjoint(names)]
    for names, name, text in _expressions(sorted(numbers), three):
        if name in taken or len(name) > MAX_NAME:
            continue
        taken.add(name)  # a * b_times_c and a_times_b * c share one: the first has it, for all vendors
        if not inside.issuperset(names):
            continue
        column = DerivedColumn(name, expr.parse(text))
        values = evaluated(table, column.expression)
        if np.isfinite(values).all() and not known(table, values):
            found.append(column)
    return tuple(found)


def _expressions(
    numbers: Sequence[str], three: Sequence[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(the numbers, a name, the expression) of every two numbers, and of these three; not of such as `times_a`, whose
    products could share a name with another vendor's.
    """
    for a, b in combinations(numbers, 2):
        yield (a, b), f"{a}_times_{b}", f"{a} * {b}"
        yield (a, b), f"{a}_per_{b}", f"{a} / {b}"
    for names in three:
        if not any("times" in name for name in names):
            yield names, "_times_".join(names), " * ".join(names)


def chosen(table: CostTable, rows: Ints) -> CostTable:
    """The table, with products of its sizes where some of its scenarios say that they pay."""
    part = replace(
        table, X=table.X[rows], times=table.times[rows], log_slowdown=table.log_slowdown[rows], noise=table.noise[rows],
        group=np.unique(table.group[rows], return_inverse=True)[1].reshape(-1),
        scenario=tuple(table.scenario[row] for row in rows.tolist()),
        device=tuple(table.device[row] for row in rows.tolist()),
    )  # fmt: skip
    trial = tried(part, sets(part))
    return table if trial is None else with_columns(table, trial.columns)


def with_columns(table: CostTable, columns: Sequence[DerivedColumn]) -> CostTable:
    if not columns:
        return table
    return with_derived(table, {c.name: c.expression for c in columns})


@dataclass(frozen=True, slots=True)
class Trial:
    """Held-out geometric mean slowdowns of trees without columns and with the best set of those that were tried.

    columns  that set where it is surely better than what came before, by a standard error of the difference and by
             GAIN, else none
    """

    without: float
    with_them: float
    columns: tuple[DerivedColumn, ...]


def _groups(table: CostTable) -> int:
    return int(table.group.max()) + 1


def _whole(table: CostTable) -> bool:
    """Whether every config ran in all scenarios or in none: a choice of few scenarios fails nowhere."""
    ran = np.isfinite(table.log_slowdown)
    return bool((ran.all(axis=0) | ~ran.any(axis=0)).all())


def tried(table: CostTable, columns: Sequence[tuple[DerivedColumn, ...]]) -> Trial | None:
    """Sets of columns, one after the other. None where there is nothing to try, or too few groups of scenarios."""
    least = LEAST_WHOLE if _whole(table) else LEAST_GROUPS
    if not columns or _groups(table) < least:
        return None
    splits = SPLITS if table.n_scenarios <= MANY else MANY_SPLITS
    with one_thread():
        found = [held_out(t, splits) for t in (table, *(with_columns(table, each) for each in columns))]
    without, *wide = (np.rint(cost * UNIT) / UNIT for cost in found)  # the same bits on every processor
    best: Floats = without
    taken: tuple[DerivedColumn, ...] = ()
    for cost, each in zip(wide, columns, strict=True):
        gain = (best - cost).reshape(len(splits), -1).mean(axis=0)
        mean = mean_of(gain)
        if mean > max(paired_error(gain, mean), GAIN):
            best, taken = cost, each
    shown = best if taken else min(wide, key=mean_of)
    return Trial(math.exp(mean_of(without)), math.exp(mean_of(shown)), taken)
