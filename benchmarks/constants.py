"""Held-out slowdowns with other values of one of the learner's constants: why each is what it is.

    PYTHONPATH=. python benchmarks/constants.py NAME VALUE... [--log NAME]

Trees of the strategy `joint` with 12 configs (of `auto` for a constant of its cross-validation), 5 folds x 2 over the
scenarios of the H200 logs in data/, 3 folds over MIOpen's find-db where it is at hand. `prices` prints each price
alone. A minute a value and log with `joint`, several with `auto`.
"""

from __future__ import annotations

import argparse
import math
import sys
from ast import literal_eval
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.miopen import PATH, read_find_db  # noqa: E402
from heurgen.base.figures import summarise  # noqa: E402
from heurgen.logs.costs import CostTable, cost_tables  # noqa: E402
from heurgen.logs.tuning_log import read_logs  # noqa: E402
from heurgen.spec.kernel_spec import read_spec  # noqa: E402
from heurgen.trees import FitOptions, constants  # noqa: E402
from heurgen.trees.build import choices  # noqa: E402
from heurgen.trees.learn import fit_rows  # noqa: E402

JOINT = FitOptions(strategy="joint", max_configs=12)
# What only the cross-validation of the strategy `auto` reads.
OF_AUTO = frozenset(
    ("counts", "coarse_counts", "patience", "folds", "max_repeats", "scenarios_to_fit", "min_groups", "invalid",
     "tolerance", "large_tolerance")
)  # fmt: skip


def logs(only: str | None) -> dict[str, tuple[CostTable, int, int]]:
    """Name -> table, folds, repeats."""
    found = {}
    for name in (n for n in ("unified_attention", "paged_attention") if only in (None, n)):
        spec = read_spec(ROOT / f"data/{name}.toml")
        found[name] = cost_tables(read_logs([ROOT / f"data/h200_{name}.csv"], spec), spec)[0], 5, 2
    if PATH.exists() and only in (None, "miopen"):
        found["miopen"] = read_find_db(), 3, 1
    return found


def held_out(table: CostTable, folds: int, repeats: int, options: FitOptions) -> str:
    slowdowns: list[float] = []
    for repeat in range(repeats):
        fold = (np.random.RandomState(repeat).permutation(int(table.group.max()) + 1) % folds)[table.group]
        for k in range(folds):
            test = np.flatnonzero(fold == k)
            chosen = choices(fit_rows(table, np.flatnonzero(fold != k), options), table, test)
            slowdowns += table.log_slowdown[test, chosen].tolist()
    found = summarise(slowdowns)
    return (
        f"geomean {found.geomean_slowdown or math.nan:.4f}  p95 {found.p95_slowdown or math.nan:.3f}  "
        f"max {found.max_slowdown or math.nan:.2f}  invalid {100 * (found.invalid_share or 0):.2f} %"
    )


def main(name: str, values: list[str], only: str | None) -> None:
    given, tables = constants.LEARNER, logs(only)
    tried = [literal_eval(v) for v in values] or [getattr(given, name)]
    options = FitOptions() if name in OF_AUTO else JOINT
    for value in given.prices if name == "prices" else tried:
        changed = {"price": value} if name == "prices" else {name: value}
        constants.LEARNER = replace(given, **changed)
        for log, (table, folds, repeats) in tables.items():
            print(f"{name} {value!s:8s} {log:18s} {held_out(table, folds, repeats, options)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="a field of heurgen.trees.constants.Constants")
    parser.add_argument("values", nargs="*", help="Python literals; default: the value that it has")
    parser.add_argument("--log", help="unified_attention, paged_attention or miopen alone")
    asked = parser.parse_args()
    main(asked.name, asked.values, asked.log)
