"""What does `heurgen tune --target-slowdown` save? Replay of a recorded full matrix, many seeds.

    python benchmarks/adaptive.py [--seeds 20] [--target 1.01] [--json OUT.json]

For every seed the scenarios of a paged-attention log in data/ come in another order, and the planner of adaptive
sweeps asks for cells until it has enough; a cell costs as many measurements as the log has rows of it. From what it
asked for, and once from the full log, a joint tree is learnt (24 shipped configs, 40 leaves), and both are scored on
the log's test scenarios, which neither has seen. Printed: the share of the measurements, and the ratio of the two
geometric mean slowdowns. An unmeasured or failed choice counts as e**3. Beside it, what the ratio is where a twentieth
of the scenarios is left out of the full log: of the ratios above 1 much is luck of the one full log's tree.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from heurgen.logs.costs import CostTable, Floats, cost_tables
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import KernelSpec, read_spec
from heurgen.trees import FitOptions, fit
from heurgen.trees.build import choices
from heurgen.tune.adaptive import INVALID, Planner

ROOT = Path(__file__).parents[1]
# The logs, by their specs: that of one sweep, all 208 configs, and that of the shipped selector.
LOGS = {
    "paged_attention": ("h200_paged_attention.csv", "h200_paged_attention_test.csv"),
    "hopper_paged_attention": ("hopper_paged_attention.csv.gz", "hopper_paged_attention_test.csv.gz"),
}
# The share of the scenarios that is left out to see how much luck is in a ratio.
LEFT_OUT = 0.05
LEARNER = FitOptions(strategy="joint", max_configs=24, max_leaves=40)


def table_of(path: str, spec: KernelSpec) -> tuple[TuningLog, CostTable]:
    log = read_logs([ROOT / "data" / path], spec)
    (table,) = cost_tables(log, spec)
    return log, table


def rows_per_cell(log: TuningLog, table: CostTable) -> Floats:
    """Measurements of every cell [S, C], in the table's order."""
    place = {name: i for i, name in enumerate(table.scenario)}
    values = zip(
        *([c.values[k] for k in c.codes[log.config_row].tolist()] for c in log.parameters), strict=True
    )
    column = {config: i for i, config in enumerate(table.configs)}
    columns = [column[config] for config in values]
    counts = np.zeros(table.times.shape)
    for (s, c), n in Counter(zip(log.scenario.tolist(), log.config.tolist(), strict=True)).items():
        counts[place[log.scenario_id[s]], columns[c]] = n
    return counts


def learnt(table: CostTable, known: Floats, test: CostTable) -> float:
    """Held-out mean log-slowdown of a tree that saw only the `known` times [S, C]."""
    rows = np.flatnonzero(np.isfinite(known).any(axis=1))
    times = known[rows]
    logs = np.log(times / np.nanmin(np.where(np.isfinite(times), times, np.nan), axis=1, keepdims=True))
    part = replace(
        table,
        X=table.X[rows],
        times=times,
        log_slowdown=logs,
        noise=table.noise[rows],
        group=table.group[rows],
        scenario=tuple(table.scenario[r] for r in rows.tolist()),
        device=tuple(table.device[r] for r in rows.tolist()),
    )
    chosen = choices(fit(part, LEARNER), test, np.arange(test.n_scenarios))
    found = test.log_slowdown[np.arange(test.n_scenarios), chosen]
    return float(np.where(np.isfinite(found) & (chosen >= 0), found, INVALID).mean())


def replay(table: CostTable, seed: int, target: float) -> tuple[Floats, Planner]:
    """The times that an adaptive sweep would have measured."""
    base = tuple(c for c in table.columns if not c.derived)
    order = np.random.RandomState(seed).permutation(table.n_scenarios).tolist()
    planner = Planner(base, table.X[:, : len(base)], order, len(table.configs), target)
    known = np.full(table.times.shape, np.nan)
    while (batch := planner.next(known)) is not None:
        for s, configs in zip(batch.scenarios, batch.configs, strict=True):
            known[s, list(configs)] = table.times[s, list(configs)]
    return known, planner


def thinned(table: CostTable, seed: int) -> Floats:
    """The times without a few scenarios."""
    times = table.times.copy()
    order = np.random.RandomState(seed).permutation(table.n_scenarios)
    times[order[: round(LEFT_OUT * table.n_scenarios)]] = np.nan
    return times


def replays(name: str, seeds: int, target: float) -> dict[str, Any]:
    """What a log's replays gave, printed as they come."""
    spec = read_spec(ROOT / "data" / f"{name}.toml")
    (log, table), (_, test) = (table_of(path, spec) for path in LOGS[name])
    counts = rows_per_cell(log, table)
    full = learnt(table, table.times, test)
    print(f"{LOGS[name][0]}: {counts.sum():.0f} measurements, held out {math.exp(full):.4f}x", flush=True)
    found = []
    for seed in range(seeds):
        known, planner = replay(table, seed, target)
        measured = ~np.isnan(known)
        record = {
            "seed": seed,
            "share": round(float(counts[measured].sum() / counts.sum()), 4),
            "scenarios": int(measured.any(axis=1).sum()),
            "ratio": round(math.exp(learnt(table, known, test) - full), 4),
            "estimate": None if planner.estimate is None else round(planner.estimate.slowdown, 4),
            "luck": round(math.exp(learnt(table, thinned(table, seed), test) - full), 4),
        }
        found.append(record)
        print(record, flush=True)
    shares, ratios, luck = ([r[k] for r in found] for k in ("share", "ratio", "luck"))
    print(f"{seeds} seeds: share of measurements mean {np.mean(shares):.3f}, most {max(shares):.3f}")
    for what, values in (("ratio", ratios), (f"without {LEFT_OUT:.0%} of the scenarios", luck)):
        within = sum(r <= target for r in values)
        print(f"{what}: mean {np.mean(values):.4f}, most {max(values):.4f}; within the target in {within}")
    return {"full": math.exp(full), "seeds": found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--target", type=float, default=1.01)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    began = time.process_time()
    held = {"target": given.target} | {name: replays(name, given.seeds, given.target) for name in LOGS}
    if given.json:
        given.json.write_text(json.dumps(held, indent=1) + "\n")
    print(f"{time.process_time() - began:.0f} CPU seconds")


if __name__ == "__main__":
    main()
