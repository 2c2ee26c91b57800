"""What holding repeats of a shape out together changes: held-out slowdown by ever coarser groups.

    python -m benchmarks.groups

On h200_paged_attention.csv, `--strategy joint`, 5 folds, 2 repeats. Then, on modelled matrix products of a few weights
with many M and two dtypes each: default `train`, what it says held out, and what it costs on other M and other weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.held_out import DATA, held_out, learner, shown
from heurgen.base.text import table
from heurgen.logs.costs import CostTable, TableColumn, cost_tables
from heurgen.logs.groups import grouped_features, settings
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import Column, read_spec
from heurgen.trees import FitOptions, fit
from heurgen.trees.build import choices
from heurgen.trees.compare import divisions
from tests.trees.modelled import MEMORY, MIXED_CONFIGS, MM_PARAMETERS, SMS
from tests.trees.synthetic import table as made

JOINT = learner(FitOptions(strategy="joint"))
COLUMNS = [
    *(TableColumn(name, "int") for name in "mnk"), TableColumn("dtype", "category", values=("bf16", "fp8"))
]  # fmt: skip
CONFIGS = [c for c in MIXED_CONFIGS if c[2] <= 128][::2]
POWERS = [2**i for i in range(14)]
BETWEEN = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096]
LOGS = 4


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
    cells = [row for n, sizes in ((6, POWERS), (6, BETWEEN), (12, POWERS)) for row in _few_weights(n, sizes)]
    print(table(("weights", "M", "held out together", "held out", "other M", "other weights"), cells))


def _few_weights(n: int, sizes: Sequence[int]) -> list[list[str]]:
    """Geometric means over LOGS logs, by the groups that are found and by weights."""
    found, by_weight = (
        np.mean([_cost(seed, n, sizes, weights) for seed in range(LOGS)], axis=0) for weights in (False, True)
    )
    return [
        [str(n), str(len(sizes)), name, *(f"{math.exp(x):.3f}" for x in row)]
        for name, row in (("as found", found), ("n, k", by_weight))
    ]


def _cost(seed: int, n: int, sizes: Sequence[int], by_weight: bool) -> list[float]:
    """Mean log-slowdowns: held out, on other M of the same weights, on other weights."""
    rng = np.random.RandomState(seed)
    weights, others = (
        [(int(2 ** rng.uniform(9, 14)), int(2 ** rng.uniform(9, 14))) for _ in range(count)]
        for count in (n, 40)
    )
    between = sorted({int(x) for x in 2 ** rng.uniform(0, 13, 40)} - set(sizes))
    log = _products(weights, sizes, 0.02, seed)
    features = [Column(c.name, c.type) for c in COLUMNS]
    found = grouped_features(features, log.X, np.zeros(log.n_scenarios, dtype=np.int64))
    names = ("n", "k") if by_weight else found
    at = [i for i, c in enumerate(COLUMNS) if c.name in names]
    selector = fit(replace(log, grouped=names, group=settings(log.X, at)))
    told = [math.log(selector.choice["held_out"]["geomean_slowdown"])]
    for true in (_products(weights, between), _products(others, between[::3])):
        rows = np.arange(true.n_scenarios)
        told.append(float(true.log_slowdown[rows, choices(selector, true, rows)].mean()))
    return told


def _products(
    weights: Sequence[tuple[int, int]], sizes: Sequence[int], noise: float = 0.0, seed: int = 0
) -> CostTable:
    X = np.array([(m, *weight, fp8) for weight, m, fp8 in product(weights, sizes, (0, 1))], dtype=np.float64)
    m, n, k, fp8 = X.T
    memory = 2 * (m * k + k * n + m * n) / MEMORY / (1 + fp8)
    times = np.empty((len(X), len(CONFIGS)))
    for i, (bm, bn, bk, stages, warps) in enumerate(CONFIGS):
        slots = SMS * max(1, 8 // warps)
        waves = np.ceil(np.ceil(m / bm) * np.ceil(n / bn) / slots)
        speed = (bm * bn / 128**2) ** 0.35 * (1 - 0.25 / stages) * min(1.0, bk / 32) ** 0.2 * (1 + 0.7 * fp8)
        work = waves * (2 * bm * bn * np.ceil(k / bk) * bk * slots / 230e12) / speed
        times[:, i] = 5e-6 + 0.3e-6 * stages + np.maximum(work, memory)
    times *= np.exp(noise * np.random.RandomState(seed).randn(*times.shape)) * 1e3
    return made(COLUMNS, X, times, CONFIGS, MM_PARAMETERS[1:], noise=max(noise, 0.01))


if __name__ == "__main__":
    main()
