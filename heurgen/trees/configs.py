"""The few configs that a selector may ship: each is a compiled kernel and a warm-up."""

from __future__ import annotations

import numpy as np

from heurgen.trees.problem import Floats, Ints

ROUNDS = 3
# Configs where neither the caller nor cross-validation says how many.
USUAL = 8


def choose(cost: Floats, count: int, rounds: int = ROUNDS) -> Ints:
    """Up to `count` columns of cost [N, C] whose row-wise minimum has the least sum: greedy, then rounds of swaps.

    Ties go to the first column. The result is sorted.
    """
    chosen: list[int] = []
    least, best, open_ = cost.min(axis=1), np.full(len(cost), np.inf), cost
    for _ in range(min(count, cost.shape[1])):
        sums = np.minimum(open_, best[:, None]).sum(axis=0)
        pick = int(sums.argmin())
        if chosen and not sums[pick] < best.sum():
            break
        chosen.append(pick)
        best = np.minimum(best, open_[:, pick])
        # Rows that have their best config cost the same whatever is added.
        left = best > least
        if 2 * int(left.sum()) < len(left):
            least, best, open_ = least[left], best[left], open_[left]
    for _ in range(rounds if len(chosen) < cost.shape[1] else 0):
        if not _swap(cost, chosen):
            break
    return np.array(sorted(chosen), dtype=np.int64)


def _swap(cost: Floats, chosen: list[int]) -> bool:
    """Replace each chosen column by a better one where there is one; whether any was replaced."""
    changed = False
    for place in range(len(chosen)):
        rest = chosen[:place] + chosen[place + 1 :]
        best = cost[:, rest].min(axis=1) if rest else np.full(len(cost), np.inf)
        sums = np.minimum(cost, best[:, None]).sum(axis=0)
        pick = int(sums.argmin())
        if sums[pick] < sums[chosen[place]]:
            chosen[place] = pick
            changed = True
    return changed


def region_costs(cost: Floats, region: Ints) -> Floats:
    """Costs summed over the rows of each region [R, C]."""
    sums = np.zeros((int(region.max()) + 1, cost.shape[1]))
    np.add.at(sums, region, cost)
    return sums
