"""Times, memory and held-out slowdowns of the trees.

    PYTHONPATH=. python benchmarks/trees.py [h200] [speed] [table]

h200: the cross-validated comparison on the log in data/. speed: CPU seconds and peak memory of a default `train` at the
sizes that it must be quick at, each in a process of its own.
table: ours beside other learners on MIOpen's find-db (where it is at hand) and on synthetic logs shaped like those of
PyTorch's AutoHeuristic and like one with nine tenths of its cells missing.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.miopen import PATH, read_find_db  # noqa: E402
from heurgen.base.figures import summarise  # noqa: E402
from heurgen.logs.costs import CostTable, TableColumn, cost_tables  # noqa: E402
from heurgen.logs.tuning_log import read_logs  # noqa: E402
from heurgen.spec.kernel_spec import read_spec  # noqa: E402
from heurgen.trees import FitOptions, evaluate, fit, optimal  # noqa: E402
from heurgen.trees.baselines import _encoded, _winners  # noqa: E402
from heurgen.trees.build import choices  # noqa: E402
from heurgen.trees.learn import fit_rows  # noqa: E402
from heurgen.trees.problem import Ints  # noqa: E402
from tests.trees.synthetic import matmul, solvers, surface  # noqa: E402
from tests.trees.synthetic import table as made  # noqa: E402


def timed(name: str, run: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    found = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:48s} {time.perf_counter() - start:7.1f} s, peak {peak:.2f} GiB", flush=True)
    return found


def h200() -> None:
    spec = read_spec(ROOT / "data/unified_attention.toml")
    table = cost_tables(read_logs([ROOT / "data/h200_unified_attention.csv"], spec), spec)[0]
    report = timed("H200 log, evaluate, 5 folds x 4", lambda: evaluate(table, folds=5, repeats=4))
    print(report.to_text())


def _packaged(log: str, spec: str) -> CostTable:
    read = read_spec(ROOT / "data" / spec)
    return cost_tables(read_logs([ROOT / "data" / log], read), read)[0]


def _categories(n: int = 10_000) -> CostTable:
    """A log of n categories, a scenario each, in which each of 20 configs leads as often."""
    kinds = tuple(f"kind_{i:05d}" for i in range(n))
    times = np.exp(np.random.RandomState(0).rand(n, 20))
    return made([TableColumn("kind", "category", values=kinds)], np.arange(float(n))[:, None], times)


# By the sizes that issue 14 names: scenarios x configs x features.
SIZES: dict[str, Callable[[], CostTable]] = {
    "70 x 324": partial(_packaged, "h200_unified_attention.csv", "unified_attention.toml"),
    "549 x 208 x 13": partial(_packaged, "h200_paged_attention.csv", "paged_attention.toml"),
    "5,000 x 200 x 12": partial(surface, 5000, 200, 12, holes=0.3, seed=1),
    "38,700 x 37 x 11, 89 % missing": partial(surface, 38_700, 37, 11, holes=0.89, seed=6),
    "38,700 x 37 x 11, 4 solvers each": partial(solvers, 38_700, 37, 11),
    "10,000 categories": _categories,
}


def speed() -> None:
    """Every size in a process of its own, so that its peak memory is its own."""
    for name in SIZES:
        subprocess.run([sys.executable, __file__, "size", name], check=True)


def size(name: str) -> None:
    table, before = SIZES[name](), time.process_time()
    fit(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:34s} {time.process_time() - before:7.1f} CPU s, peak {peak:.2f} GiB", flush=True)


def logs() -> Iterator[tuple[str, CostTable, int]]:
    """Name, table and folds of what the learners are compared on."""
    if PATH.exists():
        yield "MIOpen FP16 2-D", read_find_db(), 3
    yield "matmul", matmul(3000), 5
    yield "near ties, 100 configs", surface(1000, 100, 4, noise=0.03, seed=2), 5
    yield "sparse, 37 configs", surface(6000, 37, 8, holes=0.9, seed=5, categories=3), 3


def comparison() -> None:
    for log, table, folds in logs():
        n_groups = int(table.group.max()) + 1
        fold = (np.random.RandomState(0).permutation(n_groups) % folds)[table.group]
        found: dict[str, list[float]] = {}
        for k in range(folds):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            for name, method in METHODS.items():
                chosen = method(table, train, test)
                found.setdefault(name, []).extend(table.log_slowdown[test, chosen].tolist())
        for name, slowdowns in found.items():
            s = summarise(slowdowns)
            print(
                f"{log:24s} {name:32s} geomean {s.geomean_slowdown or math.nan:.4f}  p95 "
                f"{s.p95_slowdown or math.nan:.3f}  max {s.max_slowdown or math.nan:8.2f}  invalid "
                f"{100 * (s.invalid_share or 0):.2f} %",
                flush=True,
            )


def _fit(strategy: str) -> Callable[[CostTable, Ints, Ints], Ints]:
    def method(table: CostTable, train: Ints, test: Ints) -> Ints:
        selector = fit_rows(table, train, FitOptions(strategy=strategy))  # type: ignore[arg-type]
        return choices(selector, table, test)

    return method


def _entropy(table: CostTable, train: Ints, test: Ints, labels: Ints | None = None) -> Ints:
    from sklearn.tree import DecisionTreeClassifier

    X = _encoded(table)
    tree = DecisionTreeClassifier(criterion="entropy", max_depth=6, random_state=0)
    found: Ints = tree.fit(X[train], _winners(table, train) if labels is None else labels).predict(X[test])
    return found


def _set_cover(table: CostTable, train: Ints, test: Ints) -> Ints:
    """Greedy cover of the scenarios by configs within 5 % of the best; the winner among those is the label."""
    logs = table.log_slowdown[train]
    near, left, chosen = logs <= math.log(1.05), np.ones(len(train), dtype=bool), []
    while left.any() and len(chosen) < 10:
        chosen.append(int((near & left[:, None]).sum(axis=0).argmax()))
        left &= ~near[:, chosen[-1]]
    own = np.where(np.isfinite(logs[:, chosen]), logs[:, chosen], np.inf)
    return _entropy(table, train, test, np.array(chosen)[own.argmin(axis=1)])


def _log_times(table: CostTable, rows: Ints) -> Any:
    """Log-slowdowns of the rows, what is unmeasured as bad as 20x."""
    logs = table.log_slowdown[rows]
    return np.where(np.isfinite(logs), np.minimum(logs, 3.0), 3.0)


def _regression(table: CostTable, train: Ints, test: Ints) -> Ints:
    """scikit-learn's multi-output regression tree: the config of least predicted log-slowdown."""
    from sklearn.tree import DecisionTreeRegressor

    X = _encoded(table)
    tree = DecisionTreeRegressor(max_leaf_nodes=256, min_samples_leaf=2, random_state=0)
    found: Ints = tree.fit(X[train], _log_times(table, train)).predict(X[test]).argmin(axis=1)
    return found


def _boosted(table: CostTable, train: Ints, test: Ints) -> Ints:
    """A gradient-boosted regression a config: the bound that no launch can afford."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y = _encoded(table), _log_times(table, train)
    used = np.unique(_winners(table, train))
    fits = [HistGradientBoostingRegressor(random_state=0).fit(X[train], y[:, c]) for c in used]
    found: Ints = used[np.column_stack([f.predict(X[test]) for f in fits]).argmin(axis=1)]
    return found


METHODS: dict[str, Callable[[CostTable, Ints, Ints], Ints]] = {
    "winner-label entropy tree": _entropy,
    "set cover, entropy tree": _set_cover,
    "regression tree, 256 leaves": _regression,
    "gradient boosting (unshippable)": _boosted,
    "joint": _fit("joint"),
    "auto": _fit("auto"),
}
if optimal.available():
    METHODS["optimal, depth 3"] = _fit("optimal")

if __name__ == "__main__":
    parts = {"h200": h200, "speed": speed, "table": comparison}
    if sys.argv[1:2] == ["size"]:
        size(sys.argv[2])
    else:
        for part in sys.argv[1:] or list(parts):
            parts[part]()
