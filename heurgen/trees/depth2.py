"""The exact optimum of two levels of tests, for every test at the root, from pairwise cost matrices.

With B [n, Q] the membership matrix and k the costs of one config, (B * k)' B holds the cost of that config on the
rows that go left at both of any two tests; the other three quarters follow by subtraction (as in the depth-2
solvers of MurTree, Demirovic et al. 2022, and STreeD, van der Linden et al. 2023).
"""

from __future__ import annotations

import numpy as np

from heurgen.trees.problem import Bools, Floats


def stump_costs(B: Floats, cost: Floats, real: Bools, price: float, own: Floats) -> Floats:
    """For every cut: cost of the best two leaves; inf where a side has no scenario [Q].

    A leaf costs `price`, and own [C] by its config.
    """
    left = B.T @ cost
    right = cost.sum(axis=0) - left + own
    left += own
    total: Floats = left.min(axis=1) + right.min(axis=1) + 2 * price
    n_left = B[real].sum(axis=0)
    total[(n_left == 0) | (n_left == real.sum())] = np.inf
    return total


def pair_costs(B: Floats, cost: Floats, real: Bools, price: float, own: Floats) -> Floats:
    """For every cut as the root: the cost of the best tree of depth 2 below it [Q]; leaves as in `stump_costs`."""
    single = B.T @ cost
    whole = cost.sum(axis=0)
    shape = (B.shape[1], B.shape[1])
    ll, lr, rl, rr = (np.full(shape, np.inf) for _ in range(4))
    for c in range(cost.shape[1]):
        both = (B * cost[:, c : c + 1]).T @ B + own[c]
        one = single[:, c] + 2 * own[c]
        np.minimum(ll, both, out=ll)
        np.minimum(lr, one[:, None] - both, out=lr)
        np.minimum(rl, one[None, :] - both, out=rl)
        np.minimum(rr, (whole[c] + 4 * own[c] - one)[:, None] - one[None, :] + both, out=rr)
    n_both = B[real].T @ B[real]
    n_one, n = np.diag(n_both), real.sum()
    ll += lr
    ll[(n_both == 0) | (n_both == n_one[:, None])] = np.inf
    rl += rr
    n_right_left = n_one[None, :] - n_both
    rl[(n_right_left == 0) | (n_right_left == (n - n_one)[:, None])] = np.inf
    left = np.minimum(ll.min(axis=1) + price, (single + own).min(axis=1))
    right = np.minimum(rl.min(axis=1) + price, (whole - single + own).min(axis=1))
    total: Floats = left + right + 2 * price
    total[(n_one == 0) | (n_one == n)] = np.inf
    return total
