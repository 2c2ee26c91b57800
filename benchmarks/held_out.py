"""Held-out slowdowns of a learner: what benchmarks and the figures in pages share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from heurgen.base.figures import Summary, summarise
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.trees import FitOptions
from heurgen.trees.build import choices
from heurgen.trees.learn import fit_rows
from heurgen.trees.problem import Ints

DATA = Path(__file__).parents[1] / "data"
HEURISTICS = DATA.parent / "kernels" / "heurgen_kernels" / "heuristics"
# The table's config columns for the rows held out, by what a learner makes of the training rows.
Learner: TypeAlias = Callable[[CostTable, Ints, Ints], Ints]


def packaged(spec: str, *logs: str) -> CostTable:
    """The cost table of logs in data/."""
    read = read_spec(DATA / spec)
    return cost_tables(read_logs([DATA / log for log in logs], read), read)[0]


def learner(options: FitOptions) -> Learner:
    def choose(table: CostTable, train: Ints, test: Ints) -> Ints:
        return choices(fit_rows(table, train, options), table, test)

    return choose


def held_out(table: CostTable, choose: Learner, splits: Iterable[tuple[Ints, Ints]]) -> Summary:
    """The figures over all held-out rows of the (training, held out) rows in `splits`."""
    logs: list[float] = []
    for train, test in splits:
        logs += table.log_slowdown[test, choose(table, train, test)].tolist()
    return summarise(logs)


def shown(figures: Summary) -> list[str]:
    """Geometric mean, p95, max and share of invalid choices, for a table of text."""
    numbers = (figures.geomean_slowdown, figures.p95_slowdown, figures.max_slowdown)
    places = (4, 3, 2)
    cells = ["-" if x is None else f"{x:.{n}f}" for x, n in zip(numbers, places, strict=True)]
    return [*cells, f"{100 * (figures.invalid_share or 0):.2f} %"]
