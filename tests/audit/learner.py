"""A small slowdown tree, so that the tests of the audit depend on no strategy of `heurgen.trees`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from heurgen import ir
from heurgen.ir import expr
from heurgen.ir.passes import roundest
from heurgen.ir.schema import to_json
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import KernelSpec, read_spec
from tests.support import logs

ROOT = Path(__file__).parents[2]
LOG = ROOT / "data" / "h200_unified_attention.csv"
SPEC = ROOT / "data" / "unified_attention.toml"


@cache
def load() -> tuple[KernelSpec, TuningLog, tuple[CostTable, ...]]:
    """The H200 log by its given features alone, so that the learner here does not depend on derived ones."""
    spec = replace(read_spec(SPEC), derived=())
    log = read_logs([LOG], spec)
    return spec, log, cost_tables(log, spec)


def learn(table: CostTable, max_depth: int = 4) -> ir.Selector:
    """Greedy splits on numeric features for the mean log-slowdown; unmeasured cells cost ln 3."""
    costs = np.where(np.isfinite(table.log_slowdown), table.log_slowdown, math.log(3.0))
    configs: list[int] = []

    def leaf(rows: np.ndarray) -> ir.Leaf:
        best = int(costs[rows].sum(axis=0).argmin())
        if best not in configs:
            configs.append(best)
        slowdown = math.exp(float(costs[rows, best].mean())) if table.costs_known else None
        return ir.Leaf(configs.index(best), len(rows), slowdown)

    def grow(rows: np.ndarray, level: int) -> ir.Node:
        here = float(costs[rows].sum(axis=0).min())
        best: tuple[float, int, float] | None = None
        for f, column in enumerate(table.columns):
            values = np.unique(table.X[rows, f])
            if column.type == "category" or level == max_depth:
                continue
            for low, high in pairwise(values):
                left = table.X[rows, f] <= low
                if min(left.sum(), (~left).sum()) < 2:
                    continue
                cost = float(costs[rows[left]].sum(axis=0).min() + costs[rows[~left]].sum(axis=0).min())
                if cost < here - 1e-9 and (best is None or cost < best[0] - 1e-9):
                    best = (cost, f, float(roundest(float(low), float(high), column.type)))
        if best is None:
            return leaf(rows)
        _, f, threshold = best
        column = table.columns[f]
        left = table.X[rows, f] <= threshold
        cut = threshold if column.type == "float" else int(threshold)
        return ir.Split(column.name, cut, grow(rows[left], level + 1), grow(rows[~left], level + 1))

    tree = grow(np.arange(table.n_scenarios), 0)
    selector = ir.Selector(table.vendor, table.parameters, tuple(table.configs[c] for c in configs), tree)
    return replace(
        selector,
        device=table.device_name,
        devices=tuple(sorted(set(table.device))),
        ranges=ranges(table),
        n_scenarios=table.n_scenarios,
        n_measurements=table.n_measurements,
        costs_known=table.costs_known,
    )


def ranges(table: CostTable) -> dict[str, tuple[float, float]]:
    numeric = [(i, c) for i, c in enumerate(table.columns) if c.type != "category"]
    kinds = {"float": float}
    return {
        c.name: (kinds.get(c.type, int)(table.X[:, i].min()), kinds.get(c.type, int)(table.X[:, i].max()))
        for i, c in numeric
    }


def module_of(
    spec: KernelSpec, log: TuningLog, tables: tuple[CostTable, ...], max_depth: int = 4
) -> ir.HeuristicModule:
    selectors = tuple(learn(t, max_depth) for t in tables)
    values = {c.name: c.values for t in tables for c in t.columns}
    seen = [s.ranges for s in selectors]
    features = tuple(
        ir.Feature(
            f.name,
            f.type,
            f.unit,
            f.doc,
            values[f.name],
            min((r[f.name][0] for r in seen if f.name in r), default=None),
            max((r[f.name][1] for r in seen if f.name in r), default=None),
        )
        for f in spec.features
    )
    provenance = {
        "log_hash": log.content_hash,
        "n_measurements": log.n_measurements,
        "n_failures": log.n_failures,
        "n_scenarios": sum(t.n_scenarios for t in tables),
        "devices": sorted({d for t in tables for d in t.device}),
        "tools": {"torch": ["2.11"], "triton": ["3.6"]},
        "heurgen": "0.1.0",
        "schema_version": ir.SCHEMA_VERSION,
    }
    used = {name for s in selectors for name in s.parameters}
    return ir.HeuristicModule(
        spec.name,
        features,
        tuple(ir.Parameter(p.name, p.type, p.optional) for p in spec.parameters if p.name in used),
        selectors,
        tuple(ir.Derived(d.name, expr.to_text(d.expression)) for d in spec.derived),
        provenance,
    )


@cache
def h200(max_depth: int = 4) -> ir.HeuristicModule:
    """The model of `load`'s log, as deep as that."""
    return module_of(*load(), max_depth)


def small(folder: Path, cells: list[list[str]] | None = None) -> tuple[Path, Path, Path]:
    """log.csv, kernel.toml and model.json of a made-up log (`logs.rows`)."""
    log, spec = logs.write(folder, cells)
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    model = folder / "model.json"
    model.write_text(to_json(module_of(kernel, read, cost_tables(read, kernel))))
    return log, spec, model
