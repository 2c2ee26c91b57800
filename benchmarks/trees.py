"""Learners side by side on every log, shortlists, and the CPU seconds and memory of `train`.

    python -m benchmarks.trees [table] [shortlist] [products] [small] [speed] [--write]

table: held-out slowdowns of heurgen's strategies and of other learners on the logs in data/, on MIOpen's find-db (where
it is at hand) and on synthetic logs shaped like those of PyTorch's AutoHeuristic and like one with nine tenths of its
cells missing. shortlist: the best of 3 configs, held out. products: what `train` gains by products and ratios of sizes,
on logs without the derived features that theirs have. small: what it gains where costs of few scenarios are drawn
towards estimates. --write puts these into docs/learning.md.
speed: CPU seconds and peak memory of a default `train` at the sizes that it must be quick at, each in a process of its
own. `heurgen evaluate` is the comparison of strategies on one log.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.choices import written
from benchmarks.held_out import DATA, held_out, learner, packaged, shown
from benchmarks.learners import LEARNERS, able
from benchmarks.miopen import PATH, read_find_db
from heurgen.base.figures import summarise
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees import FitOptions, constants, fit
from heurgen.trees.alternatives import listed_costs
from heurgen.trees.build import choices
from heurgen.trees.compare import divisions
from heurgen.trees.learn import fit_rows
from heurgen.trees.problem import Ints
from heurgen.trees.products import chosen
from tests.trees.modelled import attention, matmul, mixed_matmul
from tests.trees.synthetic import solvers, surface
from tests.trees.synthetic import table as made

ROOT = Path(__file__).parent.parent
Splits = list[tuple[Ints, Ints]]
# Parts of a log that `small` draws of each size.
PARTS = 8


# --- side by side -------------------------------------------------------------------------------------------


def unseen() -> tuple[CostTable, Splits]:
    """Both logs of the sweep of paged_attention: the 549 scenarios to train on, the 236 held out."""
    names = ("h200_paged_attention.csv", "h200_paged_attention_test.csv")
    table = packaged("paged_attention.toml", *names)
    test = {line.partition(",")[0] for line in (DATA / names[1]).read_text(encoding="utf-8").splitlines()}
    held = np.array([name in test for name in table.scenario])
    return table, [(np.flatnonzero(~held), np.flatnonzero(held))]


def logs() -> Iterator[tuple[str, CostTable, Splits]]:
    """What the learners are compared on."""
    yield "H200 paged_attention, 236 test scenarios", *unseen()
    h200 = packaged("unified_attention.toml", "h200_unified_attention.csv")
    ten = list(divisions(h200, 5, 10))
    yield "H200 unified_attention, 5 folds x 4", h200, ten[:20]
    yield "the same, 6 further divisions", h200, ten[20:]
    if PATH.exists():
        miopen = read_find_db()
        yield "MIOpen FP16 2-D, 3 folds", miopen, list(divisions(miopen, 3))
    synthetic = {
        "like flex attention": attention(600),
        "like mixed_mm": mixed_matmul(1200),
        "like mm": matmul(700),
        "like mm, larger": matmul(3000),
        "near ties": surface(1000, 100, 4, noise=0.03, seed=2),
        "nine tenths missing": surface(6000, 37, 8, holes=0.9, seed=5, categories=3),
    }
    for name, table in synthetic.items():
        size = f"{table.n_scenarios:,} x {len(table.configs)}"
        yield f"{name}, {size}, 5 folds", table, list(divisions(table, 5))


def comparison(write: bool) -> None:
    text = "| log | learner | geomean | p95 | max | invalid |\n|---|---|---|---|---|---|\n"
    for log, table, splits in logs():
        for name, choose in LEARNERS.items():
            if able(name, table):
                cells = shown(held_out(table, choose, splits))
                text += f"| {log} | {name} | {' | '.join(cells)} |\n"
                print(text.splitlines()[-1], flush=True)
                log = ""
    if write:
        written(ROOT / "docs/learning.md", "learners", text)


# --- products of sizes -----------------------------------------------------------------------------------


def products_of_sizes(write: bool) -> None:
    """Of logs as they are and without what their specs derive; whether products are taken is asked in each fold."""
    logs = {
        "H200 paged_attention": packaged("paged_attention.toml", "h200_paged_attention.csv"),
        "like mm, 200": matmul(200),
        "like mm, 400": matmul(400),
        "like mm, 700": matmul(700),
        "like mm, 3,000": matmul(3000),
        "like mixed_mm, 600": mixed_matmul(600),
        "like mixed_mm, 1,200": mixed_matmul(1200),
        "like flex attention, 600": attention(600),
    }
    text = "| log, without derived features | geomean | p95 | with products | p95 | folds that take them |\n"
    text += "|---|---|---|---|---|---|\n"
    for name, whole in logs.items():
        table = _given(whole)
        taken: list[bool] = []
        cells = []
        for asked in (False, True):
            found = held_out(table, partial(_trained, taken=taken, asked=asked), list(divisions(table, 5)))
            cells += shown(found)[:2]
        text += f"| {name} | {' | '.join(cells)} | {sum(taken)} of 5 |\n"
        print(text.splitlines()[-1], flush=True)
    if write:
        written(ROOT / "docs/learning.md", "products", text)


def _given(whole: CostTable) -> CostTable:
    """The log without derived features."""
    given = [i for i, c in enumerate(whole.columns) if not c.derived]
    return replace(whole, columns=tuple(whole.columns[i] for i in given), X=whole.X[:, given])


def _trained(table: CostTable, train: Ints, test: Ints, *, taken: list[bool], asked: bool) -> Ints:
    wide = chosen(table, train) if asked else table
    if asked:
        taken.append(wide is not table)
    return choices(fit_rows(wide, train, FitOptions()), wide, test)


# --- few scenarios ---------------------------------------------------------------------------------------


def small(write: bool) -> None:
    """Parts of 30, 60 and 90 scenarios to train on, and up to 600 others; of measured logs what has no gaps."""
    usual = constants.LEARNER
    text = "| log | scenarios | as measured | shrunk |\n|---|---|---|---|\n"
    for name, table in _whole():
        for n in (n for n in (30, 60, 90) if n + 10 <= table.n_scenarios):
            drawn = [np.random.RandomState(k).permutation(table.n_scenarios) for k in range(PARTS)]
            splits = [(np.sort(rows[:n]), np.sort(rows[n : n + 600])) for rows in drawn]
            cells = []
            for share in (0.0, usual.shrunk):
                constants.LEARNER = replace(usual, shrunk=share)
                cells += shown(held_out(table, learner(FitOptions(strategy="joint")), splits))[:1]
            text += f"| {name}, {len(table.configs)} configs | {n} | {' | '.join(cells)} |\n"
            print(text.splitlines()[-1], flush=True)
    constants.LEARNER = usual
    if write:
        written(ROOT / "docs/learning.md", "small", text)


def _whole() -> Iterator[tuple[str, CostTable]]:
    attention_log = _complete(packaged("paged_attention.toml", "h200_paged_attention.csv"))
    hopper = _complete(packaged("hopper_paged_attention.toml", "hopper_paged_attention.csv.gz"))
    layers = _complete(packaged("hopper_matmul.toml", "h200_matmul.csv.gz"))
    yield "H200 paged_attention", attention_log
    yield "the same by given features", _given(attention_log)
    yield "H200 hopper_paged_attention", hopper
    yield "H200 linear layers", layers
    yield "the same by given features", _given(layers)
    yield "H200 static_grid", packaged("static_grid.toml", "h200_static_grid.csv")
    yield "surfaces, noise of 5 %", surface(700, 30, 4, noise=0.05, seed=15)


def _complete(table: CostTable) -> CostTable:
    """The part without gaps that tells most: configs that cover a share of the scenarios, and what they all cover."""
    ran = np.isfinite(table.times)
    found = [np.flatnonzero(ran.mean(axis=0) >= share) for share in np.arange(0.3, 1.0, 0.01)]
    rows = [np.flatnonzero(ran[:, configs].all(axis=1)) for configs in found]
    at = max(
        range(len(found)),
        key=lambda i: min(len(rows[i]), 600) * np.log(1 + len(found[i])) * (len(found[i]) > 5),
    )
    times = table.times[np.ix_(rows[at], found[at])]
    return replace(
        table, X=table.X[rows[at]], times=times, log_slowdown=np.log(times / times.min(axis=1, keepdims=True)),
        noise=table.noise[rows[at]], configs=tuple(table.configs[i] for i in found[at].tolist()),
        group=np.unique(table.group[rows[at]], return_inverse=True)[1].reshape(-1),
        scenario=tuple(table.scenario[i] for i in rows[at].tolist()),
        device=tuple(table.device[i] for i in rows[at].tolist()), n_measurements=times.size,
    )  # fmt: skip


# --- shortlists ---------------------------------------------------------------------------------------------


def shortlist(write: bool) -> None:
    """The best of the choice, and of shortlists of 2, 3 and 4, on the H200 log: nested, 5 folds x 10.

    The first four divisions are those of the other tables, which earlier rules for few scenarios were found on.
    """
    table = packaged("unified_attention.toml", "h200_unified_attention.csv")
    costs = []
    for train, test in divisions(table, 5, 10):
        found = fit_rows(table, train, FitOptions(shortlist=4))
        costs.append(listed_costs(found, table, test))
    parts = {"1 to 4": np.concatenate(costs[:20]), "5 to 10": np.concatenate(costs[20:])}
    text = "| divisions | configs tried | geomean | p95 | max | invalid |\n|---|---|---|---|---|---|\n"
    for name, part in parts.items():
        for size in (1, 2, 3, 4):
            best = summarise(part[:, :size].min(axis=1).tolist())
            text += f"| {name} | {size} | {' | '.join(shown(best))} |\n"
    print(text)
    if write:
        written(ROOT / "docs/learning.md", "shortlists", text)


# --- seconds ------------------------------------------------------------------------------------------------


def _categories() -> CostTable:
    """A log of 10,000 categories, a scenario each, in which each of 20 configs leads as often."""
    n = 10_000
    kinds = tuple(f"kind_{i:05d}" for i in range(n))
    times = np.exp(np.random.RandomState(0).rand(n, 20))
    return made([TableColumn("kind", "category", values=kinds)], np.arange(float(n))[:, None], times)


# By the sizes that issue 14 names: scenarios x configs x features.
SIZES: dict[str, Callable[[], CostTable]] = {
    "70 x 324": partial(packaged, "unified_attention.toml", "h200_unified_attention.csv"),
    "549 x 208 x 13": partial(packaged, "paged_attention.toml", "h200_paged_attention.csv"),
    "5,000 x 200 x 12": partial(surface, 5000, 200, 12, holes=0.3, seed=1),
    "38,700 x 37 x 11, 89 % missing": partial(surface, 38_700, 37, 11, holes=0.89, seed=6),
    "38,700 x 37 x 11, 4 solvers each": partial(solvers, 38_700, 37, 11),
    "10,000 categories": _categories,
}


def speed() -> None:
    """Every size in a process of its own, so that its peak memory is its own."""
    for name in SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.trees", "size", name], check=True, cwd=ROOT)


def size(name: str) -> None:
    table, before = SIZES[name](), time.process_time()
    fit(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:34s} {time.process_time() - before:7.1f} CPU s, peak {peak:.2f} GiB", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["size"]:
        size(sys.argv[2])
        return
    write = "--write" in sys.argv
    parts = {
        "table": partial(comparison, write), "shortlist": partial(shortlist, write),
        "products": partial(products_of_sizes, write), "small": partial(small, write), "speed": speed,
    }  # fmt: skip
    for part in [part for part in sys.argv[1:] if part != "--write"] or list(parts):
        parts[part]()


if __name__ == "__main__":
    main()
