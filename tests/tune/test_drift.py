"""The interval of `tune --verify`: over 100 simulated upgrades it holds the true loss nine times in ten."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from heurgen.tune import verify
from heurgen.tune.resume import RowFormat

DEVICE, FORMAT = ("nvidia", "G"), RowFormat(("m",), ("c",))
SCENARIOS, CONFIGS, SIMULATIONS = 140, 20, 100
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    id: str
    features: dict[str, int]


def upgrade(
    seed: int, loss: float, share: float, noise: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[float, Any]:
    """The true loss over all scenarios, and what a tenth of them says. Ten scenarios share a choice, as in a leaf."""
    dice = np.random.default_rng(seed)
    true = np.exp(dice.normal(0, 0.15, (SCENARIOS, CONFIGS)) + dice.normal(0, 1, (SCENARIOS, 1)))
    old = true * np.exp(dice.normal(0, noise, true.shape))
    costs = np.log(old / old.min(axis=1, keepdims=True)).reshape(-1, 10, CONFIGS).mean(axis=1)
    chosen = np.repeat(costs.argmin(axis=1), 10)
    rows = np.arange(SCENARIOS)
    new = true.copy()
    hit = dice.random(SCENARIOS) < share
    new[rows[hit], chosen[hit]] *= loss
    before, after = (np.log(t[rows, chosen] / t.min(axis=1)) for t in (true, new))
    problems = sorted((Problem(f"s{i}", {"m": i}) for i in rows), key=lambda p: order(seed, p.id))
    taken = problems[: math.ceil(verify.SHARE * SCENARIOS)]
    measured = new * np.exp(dice.normal(0, noise, new.shape))
    few = {p.id: {*chosen.tolist(), *near(old[int(p.id[1:])])} for p in taken}
    monkeypatch.setattr(verify, "choice", lambda module, device, p: {"c": int(chosen[int(p.id[1:])])})
    found = verify.compare(
        None,  # type: ignore[arg-type]
        taken,  # type: ignore[arg-type]
        {(DEVICE, p.id): cells(old, p, range(CONFIGS)) for p in taken},
        {(DEVICE, p.id): cells(measured, p, few[p.id]) for p in taken},
        FORMAT,
        ({}, {}),
    )
    return math.exp(float((after - before).mean())), found


def order(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}{name}".encode()).hexdigest()


def near(times: Floats) -> list[int]:
    best = [int(c) for c in times.argsort() if times[c] <= verify.NEAR * times.min()]
    return best[: verify.MOST_NEAR]


def cells(times: Floats, problem: Problem, configs: Any) -> dict[tuple[str, ...], float]:
    return {FORMAT.key({"c": c}): float(times[int(problem.id[1:]), c]) for c in configs}


@pytest.mark.parametrize(
    ("loss", "share", "noise"),
    [(1.0, 1.0, 0.02), (1.05, 1.0, 0.02), (1.3, 1.0, 0.02), (1.5, 0.3, 0.02), (1.1, 1.0, 0.05)],
)
def test_the_true_loss_is_inside(
    loss: float, share: float, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [upgrade(seed, loss, share, noise, monkeypatch) for seed in range(SIMULATIONS)]
    inside = sum(f.low <= true <= f.high for true, f in found)
    assert inside >= 0.9 * SIMULATIONS
    assert np.mean([f.lost for _, f in found]) == pytest.approx(np.mean([t for t, _ in found]), rel=0.015)
    # And it says something: a loss of all scenarios is told from none.
    if share == 1.0 and loss >= 1.1:
        assert sum(f.low > 1.0 for _, f in found) >= 0.95 * SIMULATIONS
