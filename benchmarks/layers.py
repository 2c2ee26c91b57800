"""Layers that training never saw, where configs do not run for all kinds: held-out slowdown, an invalid choice as 20x.

    python -m benchmarks.layers [--logs 4]

Default `train` on modelled convolutions of 12, 24 and 48 layers with eight batches in two dtypes each: a quarter of the
layers held out, four times; then a quarter of the scenarios, which are other batches of known layers. Beside it the
regression tree of `benchmarks.learners`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import numpy as np

from benchmarks.held_out import Learner, learner
from benchmarks.learners import regression
from heurgen.base.text import table
from heurgen.logs.costs import CostTable
from heurgen.logs.groups import settings
from heurgen.trees import FitOptions
from heurgen.trees.problem import Ints
from tests.trees.modelled import convolutions

LEARNERS: dict[str, Learner] = {
    "default `train`": learner(FitOptions()),
    "regression tree, 256 leaves": regression,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=4)
    logs = parser.parse_args().logs
    rows = []
    for layers in (12, 24, 48):
        for name, choose in LEARNERS.items():
            unseen, known = [], []
            for seed in range(logs):
                log = convolutions(layers, seed)
                unseen += [x for train, test in _layers(log, seed) for x in _costs(log, choose, train, test)]
                out = np.random.RandomState(seed).rand(log.n_scenarios) < 0.25
                known += _costs(log, choose, np.flatnonzero(~out), np.flatnonzero(out))
            rows.append([str(layers), name, *_shown(unseen), *_shown(known)])
    print(table(("layers", "", "other layers", "invalid", "other batches", "invalid"), rows))


def _layers(log: CostTable, seed: int) -> Iterator[tuple[Ints, Ints]]:
    own = [i for i, c in enumerate(log.columns) if c.name not in ("n", "dtype")]
    layer = settings(log.X, own)
    order = np.random.RandomState(seed).permutation(layer.max() + 1)
    for fold in range(4):
        out = np.isin(layer, order[fold::4])
        yield np.flatnonzero(~out), np.flatnonzero(out)


def _costs(log: CostTable, choose: Learner, train: Ints, test: Ints) -> list[float]:
    found: list[float] = log.log_slowdown[test, choose(log, train, test)].tolist()
    return found


def _shown(logs: list[float]) -> list[str]:
    valid = np.isfinite(logs)
    mean = float(np.where(valid, logs, math.log(20)).mean())
    return [f"{math.exp(mean):.4f}", f"{100 * (1 - valid.mean()):.2f} %"]


if __name__ == "__main__":
    main()
