"""Does `heurgen advise` pay? Held-out slowdown against the number of measured scenarios, advised or at random.

    python benchmarks/advise.py [--seeds 20] [--step 3] [LOG SPEC]...

For every seed 30 % of a log's scenarios are held out, 20 of the rest are measured at the start, and the others
are added three at a time: in the order that the ranking of `advise` gives, the model being fitted again after
every batch, or in random order. Both arms start from the same scenarios and end with all of them, so the
curves meet at both ends. A held-out choice that was never measured costs ln 3. Printed: the mean curves, how
many scenarios random order needs to be as good, and the paired one-sided t-test over the seeds.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).parents[1]))

from heurgen import ir
from heurgen.audit.advise.rank import next_scenarios
from heurgen.audit.advise.scale import FeatureScale, base_columns, scale_over
from heurgen.audit.score import config_columns
from heurgen.logs.costs import CostTable, Ints, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.trees import FitOptions, fit

ROOT = Path(__file__).parents[1]
UNMEASURED = math.log(3.0)
START, HELD_OUT = 20, 0.3
Pick = Callable[[list[int], list[int], Ints, int], list[int]]


@dataclass
class Bench:
    """One cost table, with the fits that were made of it."""

    table: CostTable
    space: FeatureScale
    fits: dict[tuple[int, ...], Ints]

    def chosen(self, rows: list[int]) -> Ints:
        """The config column that a model trained on some rows chooses for every scenario."""
        key = tuple(sorted(rows))
        if key not in self.fits:
            selector = fit(part(self.table, key), FitOptions(strategy="joint"))
            columns = config_columns(selector, self.table)
            names = [c.name for c in self.table.columns]
            found = []
            for values in self.table.X.tolist():
                row: dict[str, object] = dict(zip(names, values, strict=True))
                for column in self.table.columns:
                    if column.type == "category":
                        row[column.name] = column.values[int(values[names.index(column.name)])]
                found.append(columns[ir.find_leaf(selector.tree, row).config])
            self.fits[key] = np.array([-1 if c is None else c for c in found])
        return self.fits[key]

    def loss(self, rows: list[int], test: Ints) -> float:
        chosen = self.chosen(rows)[test]
        costs = self.table.log_slowdown[test, chosen]
        return float(np.where(np.isfinite(costs) & (chosen >= 0), costs, UNMEASURED).mean())

    def advised(self, have: list[int], rest: list[int], chosen: Ints, n: int) -> list[int]:
        X = self.table.X[:, : len(self.space.columns)]
        order = next_scenarios(self.space, X[have], self.table.log_slowdown[have], X[rest], chosen[rest], n)
        return [rest[i] for i in order]


def part(table: CostTable, rows: tuple[int, ...]) -> CostTable:
    """A log of some of the scenarios."""
    at = np.array(rows)
    return replace(
        table,
        X=table.X[at],
        times=table.times[at],
        log_slowdown=table.log_slowdown[at],
        noise=table.noise[at],
        group=table.group[at],
        scenario=tuple(table.scenario[r] for r in rows),
        device=tuple(table.device[r] for r in rows),
    )


def at_random(have: list[int], rest: list[int], chosen: Ints, n: int) -> list[int]:
    return rest[:n]


def curve(bench: Bench, pick: Pick, seed: int, step: int) -> list[float]:
    order = np.random.RandomState(seed).permutation(bench.table.n_scenarios)
    n_test = round(HELD_OUT * len(order))
    test, pool = order[:n_test], order[n_test:].tolist()
    have, rest = pool[:START], pool[START:]
    losses = [bench.loss(have, test)]
    while rest:
        taken = pick(have, rest, bench.chosen(have), min(step, len(rest)))
        have, rest = have + taken, [r for r in rest if r not in taken]
        losses.append(bench.loss(have, test))
    return losses


def saved(random: list[float], advised: list[float], step: int) -> float:
    """Mean over the curve of the scenarios that advice saves: those that random order needs more for as good a
    model (interpolated; the rest of the pool where it never gets there before the end)."""
    gains = []
    for i, level in enumerate(advised[:-1]):
        j = next((j for j, loss in enumerate(random) if loss <= level + 1e-12), len(random) - 1)
        gains.append(max(0, j - i) * step)
    return float(np.mean(gains))


def shipped() -> list[tuple[list[Path], Path]]:
    """The logs and specs of the project file, ours alone: the logs in data/."""
    project = tomllib.loads((ROOT / "heurgen.toml").read_text(encoding="utf-8"))
    ours = [h for h in project["heuristic"] if not h.get("external", False)]
    return [([ROOT / log for log in h["logs"]], ROOT / h["spec"]) for h in ours]


def run(logs: list[Path], spec: Path, seeds: int, step: int) -> None:
    kernel = read_spec(spec)
    name = ", ".join(log.name for log in logs)
    for table in cost_tables(read_logs(logs, kernel), kernel):
        if not table.costs_known or table.n_scenarios * (1 - HELD_OUT) < START + step:
            print(f"{name}, {table.vendor}: too few scenarios with costs, skipped")
            continue
        base = base_columns(table)
        bench = Bench(table, scale_over(base, table.X[:, : len(base)]), {})
        began = time.perf_counter()
        random, advised = [], []
        for seed in range(seeds):
            random.append(curve(bench, at_random, seed, step))
            advised.append(curve(bench, bench.advised, seed, step))
            bench.fits.clear()
        show(f"{name}, {table.vendor}", np.array(random), np.array(advised), step)
        print(f"{seeds} seeds in {time.perf_counter() - began:.0f} s\n", flush=True)


def show(name: str, random: np.ndarray, advised: np.ndarray, step: int) -> None:
    print(f"{name}: mean held-out log-slowdown by measured scenarios")
    print("scenarios   random  advised   random (x)  advised (x)")
    for i, (a, b) in enumerate(zip(random.mean(axis=0), advised.mean(axis=0), strict=True)):
        print(f"{START + i * step:9d}  {a:.4f}   {b:.4f}   {math.exp(a):9.4f}   {math.exp(b):9.4f}")
    a, b = random.mean(axis=1), advised.mean(axis=1)
    test = ttest_rel(b, a, alternative="less")
    print(
        f"over the curve: random {a.mean():.4f}, advised {b.mean():.4f}, better in {(b < a).sum()} of {len(a)} seeds"
    )
    print(f"paired t-test over seeds, one-sided: p = {test.pvalue:.2g}")
    fewer = saved(random.mean(axis=0).tolist(), advised.mean(axis=0).tolist(), step)
    print(f"scenarios saved at equal slowdown, mean over the curve: {fewer:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="*", type=Path, help="LOG SPEC pairs; default: what heurgen.toml names"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--step", type=int, default=3)
    given = parser.parse_args()
    pairs = [([log], spec) for log, spec in zip(given.files[::2], given.files[1::2], strict=True)]
    for logs, spec in pairs or shipped():
        run(logs, spec, given.seeds, given.step)


if __name__ == "__main__":
    main()
