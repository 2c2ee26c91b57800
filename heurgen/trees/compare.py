"""Strategies compared on scenarios that they were not trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from heurgen import ir
from heurgen.base.errors import UsageError
from heurgen.base.figures import summarise
from heurgen.base.outline import outline
from heurgen.base.text import SUMMARY_HEADER, WINNER_HEADER, counted, summary_cells, table, winner_cells
from heurgen.logs import frame
from heurgen.logs.costs import CostTable
from heurgen.trees import baselines, optimal, products
from heurgen.trees.build import choices
from heurgen.trees.learn import fit_rows
from heurgen.trees.options import FitOptions, Strategy
from heurgen.trees.problem import Ints, column_order

if TYPE_CHECKING:
    from pandas import DataFrame

# What a strategy answers for held-out scenarios: the table's config columns (-1: none), leaves, configs.
Answer: TypeAlias = tuple[Ints, int, int]
Method: TypeAlias = Callable[[CostTable, Ints, Ints], Answer]
# Share of scenarios in the lower range of the dominant feature, which the extrapolation rows train on.
LOWER_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy. Slowdowns over all held-out scenarios of all repeats whose choice was measured and ran.

    `invalid_share` counts the other choices, `agreement` those that are the measured winner; `leaves` and
    `configs` are means over the fits. Slowdowns are None where none is known.
    """

    vendor: str
    strategy: str
    n_scenarios: int
    geomean_slowdown: float | None
    p95_slowdown: float | None
    max_slowdown: float | None
    within_1_1: float | None
    invalid_share: float | None
    agreement: float | None
    leaves: float
    configs: float


@dataclass(frozen=True, slots=True)
class Report:
    """`rows` from cross-validation; `extrapolation` trained on the lower range of `dominant`, tested beyond."""

    vendor: str
    folds: int
    repeats: int
    rows: tuple[Row, ...]
    dominant: str | None
    extrapolation: tuple[Row, ...]

    __repr__ = outline

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_frame(self) -> DataFrame:
        """A row a strategy and split: `held_out` from cross-validation, `beyond` from the extrapolation."""
        splits = (("held_out", self.rows), ("beyond", self.extrapolation))
        return frame.from_records({"split": split, **asdict(row)} for split, rows in splits for row in rows)

    def to_text(self) -> str:
        title = f"{self.vendor}: {self.folds} folds over scenarios, {counted(self.repeats, 'repeat')}"
        if all(r.geomean_slowdown is None and r.invalid_share is None for r in self.rows):
            title += "; winners only, slowdown unknown"
        parts = [title, _table(self.rows)]
        if self.extrapolation:
            parts += [
                "",
                f"{self.vendor}: trained on low {self.dominant}, tested beyond",
                _table(self.extrapolation),
            ]
        return "\n".join(parts)


def evaluate(
    table: CostTable, *, folds: int = 5, repeats: int = 1, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Cross-validate every strategy; `auto` is nested: it validates inside the training part alone.

    Repeat r puts the groups (`CostTable.group`, in their sorted order) into folds by
    `numpy.random.RandomState(r).permutation(n_groups) % folds`. `progress(done, all)` is called after each fit.

    Raises:
        UsageError: there are fewer groups than folds, or fewer than two folds.
    """
    n_groups = int(table.group.max()) + 1
    if folds < 2 or repeats < 1 or n_groups < folds:
        raise UsageError(
            f"{counted(n_groups, 'group')} of scenarios cannot be put into {counted(folds, 'fold')}, "
            f"{counted(repeats, 'time')}",
            hint="scenarios of one shape form a group (docs/spec.md); use at least 2 folds, and no more than groups",
        )
    methods = _methods()
    splits = list(divisions(table, folds, repeats))
    beyond = _beyond(table)
    done, total = 0, len(methods) * (len(splits) + (beyond is not None))
    rows: list[Row] = []
    extra: list[Row] = []
    for name, method in methods.items():
        for parts, found in ((splits, rows), ([beyond[1]] if beyond else [], extra)):
            answers = []
            for train, test in parts:
                answers.append((method(table, train, test), test))
                done += 1
                if progress:
                    progress(done, total)
            if answers:
                found.append(summed(table, name, answers))
    return Report(table.vendor, folds, repeats, tuple(rows), beyond[0] if beyond else None, tuple(extra))


def _methods() -> dict[str, Method]:
    methods: dict[str, Method] = {
        "oracle": baselines.oracle,
        "best single config": baselines.best_single,
        "winner-label tree": baselines.winner_tree,
        "per-parameter trees": baselines.parameter_trees,
        "per-parameter, repaired": _fitted("per-parameter"),
        "slowdown tree": _fitted("joint"),
    }
    if optimal.available():
        methods["optimal"] = _fitted("optimal")
    methods["auto"] = _as_trained
    return methods


def _as_trained(table: CostTable, train: Ints, test: Ints) -> Answer:
    """The default of `heurgen train`."""
    return _fitted("auto")(products.chosen(table, train), train, test)


def _fitted(strategy: Strategy) -> Method:
    options = FitOptions(strategy=strategy)

    def method(table: CostTable, train: Ints, test: Ints) -> Answer:
        selector = fit_rows(table, train, options)
        n_leaves = sum(1 for _ in ir.leaves(selector.tree))
        return choices(selector, table, test), n_leaves, len(selector.configs)

    return method


# --- splits -------------------------------------------------------------------------------------------------


def divisions(table: CostTable, folds: int, repeats: int = 1) -> Iterator[tuple[Ints, Ints]]:
    """(train, test) rows of every fold of every repeat."""
    n_groups = int(table.group.max()) + 1
    for repeat in range(repeats):
        fold = (np.random.RandomState(repeat).permutation(n_groups) % folds)[table.group]
        yield from ((np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds))


def _beyond(table: CostTable) -> tuple[str, tuple[Ints, Ints]] | None:
    """The dominant feature, the rows of groups that lie in its lower range and the rows beyond it; None where no number
    varies enough. Rows below of a group that reaches beyond are in neither: they would flatter, as in cross-validation.

    Dominant is the given number feature whose ranks correlate most with those of the best time.
    """
    known = np.where(np.isfinite(table.times), table.times, np.inf).min(axis=1)
    target = _ranks(known)
    best: tuple[float, int] | None = None
    for i in column_order(table.columns):
        if table.columns[i].derived or table.columns[i].type not in ("int", "float"):
            continue
        strength = abs(_correlation(_ranks(table.X[:, i]), target))
        if best is None or strength > best[0]:
            best = strength, i
    if best is None:
        return None
    x = table.X[:, best[1]]
    limit = np.sort(x)[int(LOWER_SHARE * len(x))]
    test = np.flatnonzero(x >= limit)
    train = np.flatnonzero(~np.isin(table.group, table.group[test]))
    return (table.columns[best[1]].name, (train, test)) if len(train) > 1 and len(test) else None


def _ranks(x: Any) -> list[float]:
    """Ranks; equal values share their mean rank."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean = (last - counts + last - 1) / 2
    return [float(r) for r in mean[place.reshape(-1)]]


def _correlation(a: list[float], b: list[float]) -> float:
    middle = (len(a) - 1) / 2
    cross = math.fsum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    spread = math.sqrt(math.fsum((x - middle) ** 2 for x in a) * math.fsum((y - middle) ** 2 for y in b))
    return round(cross / spread, 9) if spread else 0.0


# --- numbers ------------------------------------------------------------------------------------------------


def summed(t: CostTable, name: str, answers: list[tuple[Answer, Ints]]) -> Row:
    logs: list[float] = []
    for (chosen, _, _), test in answers:
        logs += np.where(chosen >= 0, t.log_slowdown[test, chosen], np.nan).tolist()
    found = summarise(logs, known=t.costs_known, agreement=_agreement(t, answers))
    return Row(
        vendor=t.vendor,
        strategy=name,
        n_scenarios=found.n_scenarios,
        geomean_slowdown=found.geomean_slowdown,
        p95_slowdown=found.p95_slowdown,
        max_slowdown=found.max_slowdown,
        within_1_1=found.within_1_1,
        invalid_share=found.invalid_share,
        agreement=found.agreement,
        leaves=sum(a[1] for a, _ in answers) / len(answers),
        configs=sum(a[2] for a, _ in answers) / len(answers),
    )


def _agreement(t: CostTable, answers: list[tuple[Answer, Ints]]) -> float:
    """The share of choices that are the winner, or as fast as it."""
    best = np.where(np.isfinite(t.times), t.times, np.inf).min(axis=1)
    hits = [t.times[test, chosen] == best[test] for (chosen, _, _), test in answers]
    valid = [chosen >= 0 for (chosen, _, _), _ in answers]
    return float(np.mean(np.concatenate([h & v for h, v in zip(hits, valid, strict=True)])))


def _table(rows: tuple[Row, ...]) -> str:
    if all(r.geomean_slowdown is None and r.invalid_share is None for r in rows):
        known = [[r.strategy, *winner_cells(r), f"{r.leaves:.1f}", f"{r.configs:.1f}"] for r in rows]
        return table(("strategy", *WINNER_HEADER, "leaves", "configs"), known)
    cells = [[r.strategy, *summary_cells(r), f"{r.leaves:.1f}", f"{r.configs:.1f}"] for r in rows]
    return table(("strategy", *SUMMARY_HEADER, "leaves", "configs"), cells)
