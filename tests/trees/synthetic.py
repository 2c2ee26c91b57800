"""Cost tables with a known structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heurgen.ir import Config
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees.configs import choose

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


def swept_apart(full: CostTable, sweeps: int, best: int, share: float, seed: int = 0) -> CostTable:
    """A log merged of sweeps of random scenarios: each measured the `best` configs and its own share of the others."""
    rng = np.random.RandomState(seed)
    known = np.where(np.isfinite(full.log_slowdown), np.minimum(full.log_slowdown, 3.0), 3.0)
    common = choose(known, best)
    others = np.setdiff1d(np.arange(len(full.configs)), common)
    sweep = rng.randint(0, sweeps, full.n_scenarios)
    measured = np.zeros(full.times.shape, dtype=bool)
    measured[:, common] = True
    for k in range(sweeps):
        measured[np.ix_(sweep == k, rng.permutation(others)[: round(share * len(others))])] = True
    measured[~(measured & np.isfinite(full.times)).any(axis=1)] = True  # where none of them runs all are
    times = np.where(measured, full.times, np.nan)
    fastest = np.nanmin(np.where(np.isfinite(times), times, np.nan), axis=1)[:, None]
    count = int((~np.isnan(times)).sum())
    return replace(full, times=times, log_slowdown=np.log(times / fastest), n_measurements=count)


def winners_only(full: CostTable) -> CostTable:
    """The same log as a cache of winners: one measured config a scenario."""
    known = np.where(np.isfinite(full.times), full.times, np.inf)
    winner = known == known.min(axis=1, keepdims=True)
    winner &= np.cumsum(winner, axis=1) == 1
    times = np.where(winner, full.times, np.nan)
    return replace(full, times=times, log_slowdown=np.where(winner, 0.0, np.nan), costs_known=False)


def covered_apart(kinds: list[float], type_: str = "int") -> CostTable:
    """Config 0 runs on the first half of `kinds` alone, config 1 on the second, config 2 everywhere and slowly."""
    half = len(kinds) // 2
    first = np.arange(len(kinds)) < half
    times = np.column_stack(
        [np.where(first, 1.0, np.nan), np.where(first, np.nan, 1.0), np.full(len(kinds), 3.0)]
    )
    values = tuple(f"k{i}" for i in range(int(max(kinds)) + 1)) if type_ == "category" else ()
    return table([TableColumn("kind", type_, values=values)], np.array(kinds)[:, None], times)  # type: ignore[arg-type]
