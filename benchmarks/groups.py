"""What holding repeats of a shape out together changes: held-out slowdown by ever coarser groups.

    python -m benchmarks.groups

On h200_paged_attention.csv, `--strategy joint`, 5 folds, 2 repeats.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from heurgen.base.figures import Summary, summarise
from heurgen.base.text import table
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.trees import FitOptions
from heurgen.trees.build import choices
from heurgen.trees.learn import fit_rows

DATA = Path(__file__).parents[1] / "data"


def held_out(own: CostTable) -> Summary:
    """The figures of `--strategy joint` over two divisions of the groups into five folds."""
    logs: list[float] = []
    for repeat in range(2):
        fold = (np.random.RandomState(repeat).permutation(int(own.group.max()) + 1) % 5)[own.group]
        for k in range(5):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            found = fit_rows(own, train, FitOptions(strategy="joint"))
            logs += own.log_slowdown[test, choices(found, own, test)].tolist()
    return summarise(logs)


def main() -> None:
    spec = read_spec(DATA / "paged_attention.toml")
    log = read_logs(DATA / "h200_paged_attention.csv", spec)
    (found,) = cost_tables(log, spec)
    every = tuple(f.name for f in spec.features)
    numbers = tuple(f.name for f in spec.features if f.type in ("int", "float"))
    rows = []
    for name, group in (("all features", every), ("all numbers", numbers), ("what is found", found.grouped)):
        (own,) = cost_tables(log, replace(spec, group=group))
        figures = held_out(own)
        cells = (figures.geomean_slowdown, figures.p95_slowdown, figures.max_slowdown)
        rows.append([name, str(int(own.group.max()) + 1), *(f"{cell:.4f}" for cell in cells)])
    print(table(("held out together: equal in", "groups", "geomean", "p95", "max"), rows))


if __name__ == "__main__":
    main()
