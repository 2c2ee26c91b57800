"""Cost tables with a known structure, and one shaped like the logs of PyTorch's AutoHeuristic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heurgen.ir import Config
from heurgen.logs.costs import CostTable, TableColumn

Floats = NDArray[np.float64]


def table(
    columns: Sequence[TableColumn],
    X: Floats,
    times: Floats,
    configs: Sequence[Config] | None = None,
    parameters: Sequence[str] = ("BLOCK",),
    noise: float = 0.02,
    costs_known: bool = True,
) -> CostTable:
    """A canonical cost table of feature rows X [S, F] and times [S, C] (NaN unmeasured, inf failed)."""
    configs = configs or [(16 * (i + 1),) for i in range(times.shape[1])]
    given = [i for i, c in enumerate(columns) if not c.derived]
    order = np.lexsort(X[:, given[::-1]].T)
    X, times = X[order], times[order]
    group = np.unique(X[:, given], axis=0, return_inverse=True)[1].reshape(-1)
    with np.errstate(invalid="ignore"):
        slowdown = np.log(times / np.nanmin(np.where(np.isfinite(times), times, np.nan), axis=1)[:, None])
    return CostTable(
        kernel="kernel",
        vendor="nvidia",
        columns=tuple(columns),
        parameters=tuple(parameters),
        configs=tuple(configs),
        X=X,
        times=times,
        log_slowdown=slowdown,
        noise=np.full(len(X), noise),
        group=group.astype(np.int64),
        scenario=tuple(str(i) for i in range(len(X))),
        device=("NVIDIA H200",) * len(X),
        n_measurements=int((~np.isnan(times)).sum()),
        costs_known=costs_known,
    )


def surface(
    n_scenarios: int = 200,
    n_configs: int = 12,
    n_features: int = 4,
    holes: float = 0.0,
    noise: float = 0.01,
    seed: int = 0,
    categories: int = 0,
) -> CostTable:
    """Smooth latent surfaces: each config has a favoured point in log-feature space; ties, noise, holes.

    `holes` of the cells are unmeasured, by what a config's block size may exceed (not at random), and a tenth
    of them failed. With `categories`, one column more, whose categories shift the favoured point.
    """
    rng = np.random.RandomState(seed)
    Z = rng.rand(n_scenarios, n_features)
    X = np.floor(2.0 ** (4 + 22 * Z))
    kind = rng.randint(0, max(categories, 1), n_scenarios)
    favoured = rng.rand(n_configs, n_features)
    shift = 0.5 * rng.randn(max(categories, 1), n_features) * (categories > 0)
    weight = rng.rand(n_features) ** 2
    distance = (((Z + shift[kind])[:, None, :] - favoured[None]) ** 2 * weight).sum(axis=2)
    times = np.exp(-3 + 4 * Z[:, :1] + 1.5 * distance + noise * rng.randn(n_scenarios, n_configs))
    limit = np.quantile(favoured[:, 0], np.linspace(0, 1, n_configs))
    rank = np.argsort(np.argsort(limit + 1e-9 * np.arange(n_configs)))
    apply_limit = np.quantile(Z[:, 0], np.clip(2 * holes * rank / n_configs, 0, 0.999))
    missing = Z[:, :1] < apply_limit[None, :]
    missing[:, rank.argmin()] = False
    times[missing] = np.where(rng.rand(int(missing.sum())) < 0.1, np.inf, np.nan)
    columns = [TableColumn(f"x{i}", "int") for i in range(n_features)]
    if categories:
        values = tuple(f"kind_{i}" for i in range(categories))
        columns.append(TableColumn("kind", "category", values=values))
        X = np.column_stack([X, kind])
    return table(columns, X, times)


def solvers(n_scenarios: int, n_configs: int, n_features: int, listed: int = 4, seed: int = 7) -> CostTable:
    """A log shaped like MIOpen's find-db: of every problem its few fastest solvers, the others never measured."""
    full = surface(n_scenarios, n_configs, n_features - 1, holes=0.5, noise=0.03, seed=seed, categories=3)
    known = np.where(np.isfinite(full.times), full.times, np.inf)
    rank = known.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return table(full.columns, full.X, np.where((rank < listed) & np.isfinite(known), known, np.nan))


MM_CONFIGS = [
    (m, n, k, stages, warps)
    for m, n, k, stages, warps in (
        (16, 32, 16, 1, 2), (16, 64, 32, 2, 4), (16, 128, 64, 4, 8), (32, 32, 16, 1, 2), (32, 32, 128, 2, 4),
        (32, 64, 32, 5, 8), (64, 32, 32, 5, 8), (64, 32, 128, 5, 4), (64, 64, 16, 2, 4), (64, 64, 32, 2, 4),
        (64, 64, 64, 3, 8), (64, 64, 128, 5, 4), (64, 128, 32, 3, 4), (64, 128, 64, 3, 4), (128, 64, 32, 3, 4),
        (128, 64, 64, 3, 4), (128, 128, 32, 2, 8), (128, 128, 32, 3, 4), (128, 128, 64, 3, 4),
        (128, 128, 64, 5, 8),
    )
]  # fmt: skip


def matmul(n_scenarios: int = 2000, seed: int = 0, noise: float = 0.01) -> CostTable:
    """An mm log as AutoHeuristic collects it: shapes on and off powers of two, strides, dtypes, products.

    Times follow a model of tiles, waves over 108 SMs, padding and pipeline fill; `extern_mm` is always
    measured, a Triton config only where its tile fits the (rounded-up) shape.
    """
    rng = np.random.RandomState(seed)
    m, n, k = (_sizes(rng, n_scenarios) for _ in range(3))
    transposed = rng.randint(0, 2, n_scenarios)
    dtype = rng.randint(0, 2, n_scenarios)
    times = np.full((n_scenarios, len(MM_CONFIGS) + 1), np.nan)
    flops = 2 * m * n * k / 250e12
    memory = 2 * (m * k + k * n + m * n) / 1.5e12
    aligned = (m % 8 == 0) & (n % 8 == 0) & (k % 8 == 0)
    waves = np.ceil(np.ceil(m / 128) * np.ceil(n / 128) / 108)
    extern = np.maximum(waves * (2 * 128 * 128 * k * 108 / 250e12), memory)
    times[:, 0] = 6e-6 + extern * np.where(aligned, 1.0, 2.2) + flops * 0.05
    for i, (bm, bn, bk, stages, warps) in enumerate(MM_CONFIGS):
        tiles = np.ceil(m / bm) * np.ceil(n / bn)
        slots = 108 * max(1, 8 // warps)
        speed = (bm * bn) ** 0.35 / (128 * 128) ** 0.35 * (1 - 0.25 / stages) * min(1.0, bk / 32) ** 0.2
        work = np.ceil(tiles / slots) * (2 * bm * bn * np.ceil(k / bk) * bk * slots / 230e12) / speed
        start = 5e-6 + 0.3e-6 * stages + 0.8e-6 * transposed * (bk > 32)
        fits = (
            (bm <= np.maximum(_power(m), 16))
            & (bn <= np.maximum(_power(n), 16))
            & (bk <= np.maximum(_power(k), 16))
        )
        times[:, i + 1] = np.where(fits, start + np.maximum(work, memory) * (1 + 0.1 * dtype), np.nan)
    times *= np.exp(noise * rng.randn(*times.shape)) * 1e3
    columns = [TableColumn(name, "int") for name in ("m", "k", "n")]
    columns += [TableColumn("mat1_stride_0", "int"), TableColumn("mat2_stride_0", "int")]
    columns += [TableColumn("mat1_dtype", "category", values=("bfloat16", "float16"))]
    columns += [TableColumn("mat2_iscontig", "bool")]
    columns += [
        TableColumn(name, "float", derived=True)
        for name in ("m_times_k", "m_times_n", "k_times_n", "intensity")
    ]
    X = np.column_stack([m, k, n, m * k, n * k, dtype, transposed, m * k, m * n, k * n])
    X = np.column_stack([X, m * n * k / (m * k + k * n + m * n)])
    configs = [("extern_mm", None, None, None, None, None), *(("triton", *c) for c in MM_CONFIGS)]
    parameters = ("type", "BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")
    return table(columns, X, times, configs, parameters)


def _sizes(rng: np.random.RandomState, n: int) -> Floats:
    free = np.floor(2.0 ** (13 * rng.rand(n))) + 1
    power = 2.0 ** rng.randint(0, 14, n)
    return np.where(rng.rand(n) < 0.5, power, np.where(rng.rand(n) < 0.5, np.ceil(free / 16) * 16, free))


def _power(x: Floats) -> Floats:
    return np.asarray(2.0 ** np.ceil(np.log2(x)))


def winners_only(full: CostTable) -> CostTable:
    """The same log as a cache of winners: one measured config a scenario."""
    known = np.where(np.isfinite(full.times), full.times, np.inf)
    winner = known == known.min(axis=1, keepdims=True)
    winner &= np.cumsum(winner, axis=1) == 1
    times = np.where(winner, full.times, np.nan)
    return replace(full, times=times, log_slowdown=np.where(winner, 0.0, np.nan), costs_known=False)
