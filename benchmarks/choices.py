"""What each choice of the learner costs, and what a table of tuned shapes gives: held-out slowdown on the H200 log.

    PYTHONPATH=. python -m benchmarks.choices [--write]

5 folds over scenarios, 4 repeats, the folds of `heurgen evaluate`. --write puts the tables into docs/learning.md and
docs/comparison.md, between their marks; tests/test_figures.py checks the quick rows there against the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from heurgen import ir
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.trees import FitOptions, baselines
from heurgen.trees.build import choices
from heurgen.trees.compare import Answer, divisions, summed
from heurgen.trees.learn import fit_rows

ROOT = Path(__file__).parent.parent
DATA = ROOT / "data"
FOLDS, REPEATS = 5, 4
HEADER = "| | geomean | p95 | max | invalid | configs | leaves |\n|---|---|---|---|---|---|---|\n"
Method = Callable[[CostTable, np.ndarray, np.ndarray], Answer]


def h200() -> CostTable:
    """The cost table of the H200 log, 70 scenarios x 324 configs."""
    spec = read_spec(DATA / "unified_attention.toml")
    return cost_tables(read_logs([DATA / "h200_unified_attention.csv"], spec), spec)[0]


def nearest(names: tuple[str, ...], table: CostTable, train: np.ndarray, test: np.ndarray) -> Answer:
    """A table of tuned shapes: the winner of the measured shape that is nearest in the logarithms of the features."""
    columns = [i for i, f in enumerate(table.columns) if not names or f.name in names]
    at = np.log1p(np.asarray(table.X, dtype=np.float64)[:, columns])
    distance = ((at[test][:, None, :] - at[train][None, :, :]) ** 2).sum(axis=2)
    winners = baselines.winners_of(table, train)
    found = winners[distance.argmin(axis=1)]
    return found, len(train), len(set(winners.tolist()))


def joint(options: Mapping[str, object], table: CostTable, train: np.ndarray, test: np.ndarray) -> Answer:
    selector = fit_rows(table, train, FitOptions(strategy="joint", **options))  # type: ignore[arg-type]
    return choices(selector, table, test), sum(1 for _ in ir.leaves(selector.tree)), len(selector.configs)


LEARNING: dict[str, Method] = {
    "`joint`: slowdown, one tree, at most 8 configs": partial(joint, {}),
    "label of the winner instead of slowdown": baselines.winner_tree,
    "a tree for each parameter instead of one": baselines.parameter_trees,
    "at most 2 configs": partial(joint, {"max_configs": 2}),
    "at most 4 configs": partial(joint, {"max_configs": 4}),
    "at most 16 configs": partial(joint, {"max_configs": 16}),
    "at most 4 leaves": partial(joint, {"max_leaves": 4}),
    "at most 8 leaves": partial(joint, {"max_leaves": 8}),
    "`--tail 1`: the worst count twice": partial(joint, {"tail": 1.0}),
}
COMPARISON: dict[str, Method] = {
    "one config for all launches, the best one": baselines.best_single,
    "table of tuned shapes, nearest `total_query_tokens`": partial(nearest, ("total_query_tokens",)),
    "table of tuned shapes, nearest in all seven features": partial(nearest, ()),
    "tree on the label of the winner": baselines.winner_tree,
    "`heurgen train --strategy joint`": partial(joint, {}),
}


def line(name: str, method: Method, table: CostTable) -> str:
    splits = divisions(table, FOLDS, REPEATS)
    row = summed(table, name, [(method(table, train, test), test) for train, test in splits])
    figures = (row.geomean_slowdown, row.p95_slowdown, row.max_slowdown)
    shown = " | ".join("-" if f is None else f"{f:.4f}" for f in figures)
    return f"| {name} | {shown} | {row.invalid_share or 0:.1%} | {row.configs:.1f} | {row.leaves:.1f} |\n"


def written(page: Path, mark: str, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    assert pattern.search(before), f"{page} has no mark {mark}"
    page.write_text(pattern.sub(lambda m: f"{m[1]}\n{text}\n{m[2]}", before), encoding="utf-8")


def main() -> None:
    table = h200()
    for page, mark, rows in (("learning", "choices", LEARNING), ("comparison", "tables", COMPARISON)):
        text = HEADER
        for name, method in rows.items():
            text += line(name, method, table)
            print(text.splitlines()[-1], flush=True)
        if "--write" in sys.argv:
            written(ROOT / "docs" / f"{page}.md", mark, text)


if __name__ == "__main__":
    main()
