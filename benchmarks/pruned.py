"""What `pruned = true` of a spec does: slowdowns on scenarios held out, with and without it.

    python -m benchmarks.pruned

- The attention logs that ship, whose sweeps left out configs that cannot win a class of batches, with the settings of
  heurgen.toml; 5 divisions, of 16-bit caches once, of fp8 caches four times.
- Logs like flex attention's and mixed_mm (300 scenarios; some configs do not run on some) of which a search measured 12
  configs a scenario, at random or good ones above all: default `train` on three quarters, the others by the whole log.

Two minutes.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.held_out import DATA, held_out, learner, packaged, shown
from heurgen.base.figures import summarise
from heurgen.logs.costs import CostTable
from heurgen.trees import FitOptions
from heurgen.trees.build import choices
from heurgen.trees.compare import divisions
from heurgen.trees.learn import fit_rows
from tests.trees import modelled

REPEATS = {"paged_attention": 1, "paged_attention_fp8": 4}
NAMES = ("strategy", "max_configs", "max_depth", "max_leaves", "tail")
SEARCHED = {"flex attention": modelled.attention, "mixed_mm": modelled.mixed_matmul}
# How much likelier a config is to be measured than one that is slower by a factor of e.
BIASES = {"at random": 0.0, "good ones above all": 8.0}


def main() -> None:
    print(f"{'':40s} geomean   p95    max  not measured")
    for entry in tomllib.loads((DATA.parent / "heurgen.toml").read_text())["heuristic"]:
        name = Path(entry["model"]).stem
        if name in REPEATS:
            table = packaged(Path(entry["spec"]).name, *(Path(log).name for log in entry["logs"]))
            choose = learner(FitOptions(**{key: entry[key] for key in NAMES}))
            for pruned in (False, True):
                told = replace(table, pruned=pruned)
                figures = held_out(told, choose, divisions(told, 5, REPEATS[name]))
                print(f"{f'{name}, pruned = {pruned}':40s}", *shown(figures), flush=True)
    for name, make in SEARCHED.items():
        whole = make(300)
        for how, bias in BIASES.items():
            log = searched(whole, bias, np.random.RandomState(0))
            train, test = np.split(np.random.RandomState(1).permutation(300), [225])
            for pruned in (False, True):
                selector = fit_rows(replace(log, pruned=pruned), np.sort(train), FitOptions())
                costs = whole.log_slowdown[test, choices(selector, whole, test)]
                print(f"{f'{name}, {how}, pruned = {pruned}':40s}", *shown(summarise(costs.tolist())))


def searched(whole: CostTable, bias: float, random: np.random.RandomState) -> CostTable:
    """The log of a search that measured 12 configs of each scenario."""
    log = np.where(np.isfinite(whole.log_slowdown), whole.log_slowdown, 3.0)
    share = np.exp(-bias * log)
    measured = np.zeros(log.shape, dtype=bool)
    for row, chance in enumerate(share / share.sum(axis=1, keepdims=True)):
        measured[row, random.choice(len(chance), 12, replace=False, p=chance)] = True
    times = np.where(measured, whole.times, np.nan)
    best = np.fmin.reduce(np.where(np.isfinite(times), times, np.nan), axis=1)  # NaN where none runs
    return replace(whole, times=times, log_slowdown=np.log(times / best[:, None]))


if __name__ == "__main__":
    main()
