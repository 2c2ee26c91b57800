"""Times, memory and held-out slowdowns of the trees.

    PYTHONPATH=. python benchmarks/trees.py [h200] [speed] [matmul]

h200: the cross-validated comparison on the log in data/. speed: the sizes that fits must finish in.
matmul: synthetic logs shaped like those of PyTorch's AutoHeuristic, against classification trees.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from heurgen import ir  # noqa: E402
from heurgen.costs import CostTable, cost_tables  # noqa: E402
from heurgen.logs import read_logs  # noqa: E402
from heurgen.spec import read_spec  # noqa: E402
from heurgen.trees import FitOptions, evaluate, fit, optimal  # noqa: E402
from heurgen.trees.baselines import _encoded, _winners  # noqa: E402
from heurgen.trees.build import choices  # noqa: E402
from heurgen.trees.learn import fit_rows  # noqa: E402
from heurgen.trees.problem import Ints  # noqa: E402
from tests.trees.synthetic import matmul, surface  # noqa: E402


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


def speed() -> None:
    for scenarios, configs, features in ((6000, 50, 10), (5000, 200, 12)):
        table = surface(scenarios, configs, features, holes=0.3, seed=1)
        size = f"{scenarios} x {configs} x {features}"
        timed(f"{size}, joint, depth 6", partial(fit, table, FitOptions(strategy="joint", max_depth=6)))
        timed(f"{size}, auto", partial(fit, table))


def comparison() -> None:
    for seed in range(3):
        table = matmul(3000, seed=seed)
        n_groups = int(table.group.max()) + 1
        fold = (np.random.RandomState(0).permutation(n_groups) % 5)[table.group]
        found: dict[str, list[float]] = {}
        for k in range(5):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            for name, method in METHODS.items():
                chosen = method(table, train, test)
                found.setdefault(name, []).extend(table.log_slowdown[test, chosen].tolist())
        for name, logs in found.items():
            known = [x for x in logs if math.isfinite(x)]
            mean = math.exp(math.fsum(known) / len(known))
            invalid = 100 * (1 - len(known) / len(logs))
            print(f"matmul {seed}: {name:26s} {mean:.4f}, invalid {invalid:.2f} %", flush=True)


def _fit(strategy: str) -> Callable[[CostTable, Ints, Ints], Ints]:
    def method(table: CostTable, train: Ints, test: Ints) -> Ints:
        selector = fit_rows(table, train, FitOptions(strategy=strategy))  # type: ignore[arg-type]
        assert ir.depth(selector.tree) <= 6
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
    while left.any():
        chosen.append(int((near & left[:, None]).sum(axis=0).argmax()))
        left &= ~near[:, chosen[-1]]
    own = np.where(np.isfinite(logs[:, chosen]), logs[:, chosen], np.inf)
    return _entropy(table, train, test, np.array(chosen)[own.argmin(axis=1)])


METHODS: dict[str, Callable[[CostTable, Ints, Ints], Ints]] = {
    "winner-label entropy tree": _entropy,
    "set cover, entropy tree": _set_cover,
    "joint": _fit("joint"),
    "auto": _fit("auto"),
}
if optimal.available():
    METHODS["optimal, depth 3"] = _fit("optimal")

if __name__ == "__main__":
    parts = {"h200": h200, "speed": speed, "matmul": comparison}
    for part in sys.argv[1:] or list(parts):
        parts[part]()
