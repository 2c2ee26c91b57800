"""Held-out slowdowns with other values of one of the learner's constants: why each is what it is.

    python -m benchmarks.constants NAME [VALUE...] [--log NAME]

Without values those that its comment in heurgen/trees/constants.py names. Trees of the strategy `joint` with 12 configs
(of `auto` for a constant of its cross-validation), 5 folds x 2 over the scenarios of the H200 logs in data/ and of
synthetic mm (most cells missing) and flex attention logs, 3 folds over MIOpen's find-db where it is at hand. Seconds a
value on the smaller logs with `joint`, minutes with `auto` on the larger.
"""

from __future__ import annotations

import argparse
import inspect
import re
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.held_out import held_out, learner, packaged, shown
from benchmarks.miopen import PATH, read_find_db
from heurgen.logs.costs import CostTable
from heurgen.trees import FitOptions, constants
from heurgen.trees.compare import divisions
from tests.trees.modelled import attention, matmul

JOINT = FitOptions(strategy="joint", max_configs=12)
# What only the cross-validation of the strategy `auto` reads.
OF_AUTO = frozenset(
    ("prices", "few_prices", "counts", "coarse_counts", "patience", "folds", "max_repeats", "scenarios_to_fit",
     "min_groups", "trusted", "invalid", "tolerance", "large_tolerance", "small", "small_tolerance", "abundant",
     "light_neighbours", "light_weight", "doubling")
)  # fmt: skip
SMALL = FitOptions(prefer="small")
LOGS: dict[str, tuple[Callable[[], CostTable], int, int]] = {
    "unified_attention": (partial(packaged, "unified_attention.toml", "h200_unified_attention.csv"), 5, 2),
    "paged_attention": (partial(packaged, "paged_attention.toml", "h200_paged_attention.csv"), 5, 2),
    "hopper_paged_attention": (
        partial(packaged, "hopper_paged_attention.toml", "hopper_paged_attention.csv.gz"),
        5,
        2,
    ),
    "mm": (partial(matmul, 700), 5, 2),
    "flex_attention": (partial(attention, 450), 5, 2),
    "miopen": (read_find_db, 3, 1),
}


def tried(name: str) -> list[object]:
    """The values that the comment above a constant says to try: "`constants.py bins 32 128 512`"."""
    found = re.search(rf"`constants\.py {name} ([^`]+)`", inspect.getsource(constants.Constants))
    if found is None:
        raise SystemExit(f"heurgen/trees/constants.py names no values to try for {name}")
    return [literal_eval(value) for value in found[1].split()]


def main(name: str, values: list[object], only: str | None) -> None:
    given = constants.LEARNER
    options = SMALL if name == "small_tolerance" else FitOptions() if name in OF_AUTO else JOINT
    print(f"{'':40s} geomean   p95    max  invalid")
    for log, (read, folds, repeats) in LOGS.items():
        if only not in (None, log) or (log == "miopen" and not PATH.exists()):
            continue
        costs = read()
        for value in values:
            constants.LEARNER = replace(given, **{name: value})  # type: ignore[arg-type]
            figures = held_out(costs, learner(options), divisions(costs, folds, repeats))
            print(f"{log + ', ' + name + ' ' + str(value):40s}", *shown(figures), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="a field of heurgen.trees.constants.Constants")
    parser.add_argument("values", nargs="*", type=literal_eval, help="Python literals")
    parser.add_argument("--log", help=f"one of {', '.join(LOGS)} alone")
    asked = parser.parse_args()
    main(asked.name, asked.values or tried(asked.name), asked.log)
