"""Every constant of the learner, in one record, each with the figures that chose it.

`python benchmarks/constants.py NAME VALUE...` fits with other values of one of them and prints held-out slowdowns
on the logs in data/ (and MIOpen's find-db, where it is at hand); the comment of a constant says what it showed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """What the learner takes for given. Costs and prices are log-slowdowns."""

    # --- costs: problem.py ---
    # What growth pays for a scenario that a config does not cover: 22000x. Labels and pruning count coverage first.
    # `constants.py uncovered 3 10 30`
    uncovered: float = 10.0
    # Uncovered scenarios, beyond those seen, that a leaf is taken to meet per share uncovered around it.
    # `constants.py unseen 0 0.1 0.3`
    unseen: float = 0.1
    # Scenarios of a kind that a config would be expected to cover before that it covers none says that it does not
    # apply there (see `guards.limits`). `constants.py guard_evidence 5 20 1e9`
    guard_evidence: float = 20.0
    # Points between scenarios: neighbours of each, points on each line, weight of all against the scenarios, and up
    # to how many scenarios they are worth their time. `constants.py weight 0 0.15 0.4`, `... neighbours 1 3 6`
    neighbours: int = 3
    steps: int = 3
    weight: float = 0.15
    interpolated: int = 1000

    # --- growth: bins.py, grow.py ---
    # Bins of a number column: its distinct values up to here, then quantiles. `constants.py bins 32 128 512`
    bins: int = 128
    # What is added to every config's mean cost before tests are compared (see `bins.promise`): with 0 a config that is
    # perfect on a side would hide all others there. `constants.py floor 0.001 0.01 0.1`
    floor: float = 0.01
    # Cells of a category column's orders looked at, at most: 10,000 categories in 1 GB. `tests/trees/test_bins.py`
    set_cells: int = 2_000_000
    # Leaves grown per leaf allowed; pruning chooses among them. `constants.py overgrowth 1 2 4`
    overgrowth: int = 2
    # Passes that move tests above given subtrees. `constants.py moves 0 1 2`
    moves: int = 1

    # --- the configs: joint.py ---
    # Configs that regions may choose from, and the most that ship. `constants.py pool 16 64`
    pool: int = 64
    # Depth of the tree whose regions choose the configs. `constants.py region_depth 5 8`
    region_depth: int = 8

    # --- sizes: regime.py ---
    # Prices of a leaf as a total log-slowdown that it must save, for 64 scenarios; a price grows with the square root
    # of their number, as the sum of as many errors does. `constants.py prices` prints each alone
    prices: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    # The same for few scenarios, where cross-validation is blind to what a leaf too few costs.
    few_prices: tuple[float, ...] = (0.01, 0.03, 0.1)
    price: float = 0.03
    # Numbers of configs that cross-validation compares.
    counts: tuple[int, ...] = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    # The same where scenarios abound and each fit takes a second.
    coarse_counts: tuple[int, ...] = (1, 4, 8, 16, 32, 64)
    abundant: int = 10_000
    # Numbers of configs in a row that must fail to pay before the search ends.
    patience: int = 2
    # Leaves: at least this many are allowed, and one for so many scenarios. `constants.py scenarios_per_leaf 60 110`
    leaves: int = 40
    scenarios_per_leaf: int = 110
    # Depth allowed up to 1,000, up to `abundant`, and beyond.
    depths: tuple[int, int, int] = (8, 10, 12)
    # Up to this many scenarios every depth up to the limit is fitted, so that more depth never hurts in training.
    every_depth: int = 2000

    # --- cross-validation: auto.py ---
    folds: int = 5
    # Repeats of the folds: few scenarios take several, or luck decides. `constants.py max_repeats 1 4 8`
    max_repeats: int = 3
    scenarios_to_fit: int = 600
    # Fewer groups of scenarios than this say nothing when divided.
    min_groups: int = 6
    # From so many scenarios on a tail is compared: a p95 that rests on fewer than five of them is luck. On the 70 of
    # the H200 unified_attention log `heurgen evaluate --folds 5 --repeats 4` says 1.0408 with it, 1.0388 without.
    tailed: int = 100
    # A held-out choice that was never measured: 20x.
    invalid: float = 3.0
    # Fewer configs and leaves win within this of the best candidate's held-out mean, small logs and large.
    tolerance: float = 0.002
    large_tolerance: float = 0.0002
    small: int = 500
    # The same where small trees are preferred.
    small_tolerance: float = 0.01


LEARNER = Constants()
