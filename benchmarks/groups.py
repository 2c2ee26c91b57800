"""What holding repeats of a shape out together changes: held-out slowdown by ever coarser groups.

    python -m benchmarks.groups

On h200_paged_attention.csv, `--strategy joint`, 5 folds, 2 repeats.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.held_out import DATA, held_out, learner, shown
from heurgen.base.text import table
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.trees import FitOptions
from heurgen.trees.compare import divisions

JOINT = learner(FitOptions(strategy="joint"))


def main() -> None:
    spec = read_spec(DATA / "paged_attention.toml")
    log = read_logs(DATA / "h200_paged_attention.csv", spec)
    (found,) = cost_tables(log, spec)
    every = tuple(f.name for f in spec.features)
    numbers = tuple(f.name for f in spec.features if f.type in ("int", "float"))
    rows = []
    for name, group in (("all features", every), ("all numbers", numbers), ("what is found", found.grouped)):
        (own,) = cost_tables(log, replace(spec, group=group))
        figures = held_out(own, JOINT, divisions(own, 5, 2))
        rows.append([name, str(int(own.group.max()) + 1), *shown(figures)])
    print(table(("held out together: equal in", "groups", "geomean", "p95", "max", "invalid"), rows))


if __name__ == "__main__":
    main()
