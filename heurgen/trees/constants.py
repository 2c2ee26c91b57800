"""Every constant of the learner, in one record, each with the command that shows why it is what it is.

`python -m benchmarks.constants NAME` fits with the values that stand behind NAME in the comment here, and prints
held-out slowdowns on the logs in data/, on a synthetic mm log and on MIOpen's find-db, where it is at hand. What it
printed: benchmarks/constants.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """What the learner takes for given. Costs and prices are log-slowdowns."""

    # --- costs: problem.py ---
    # What growth pays for a scenario that a config does not cover: 22000x. Labels and pruning count coverage first.
    # `constants.py uncovered 3.0 10.0 30.0`
    uncovered: float = 10.0
    # What a leaf pays for doubt, per share of the scenarios around it that its config does not cover.
    # `constants.py doubt 0.0 1.0 3.0`
    doubt: float = 1.0
    # Tables of which more than this share of the cells is missing have rules of their own, unless few are of the best
    # configs (see `coverage.sparse`): 0.21 of the cells of the paged_attention log is missing, 0.7 of an mm log's.
    # `constants.py sparse 0.2 0.5 1.0`
    sparse: float = 0.5
    # The share of the cells of the configs that serve a log best that must be missing, too. Logs like mm and of listed
    # solvers (60 scenarios and more), MIOpen's, those of linear layers and of attention on an H100 have 0.48 to 0.81,
    # logs merged of sweeps with configs of their own 0.12 to 0.36. Where even of the best configs a sweep measured but
    # a part they have 0.44 to 0.52, and either rules may be better. `constants.py sparse_serving 0.2 0.4 0.9`
    sparse_serving: float = 0.4
    # The same as `uncovered`, for such tables. `constants.py sparse_uncovered 0.5 1.0 3.0 10.0`
    sparse_uncovered: float = 1.0
    # The same as `doubt`. `constants.py sparse_doubt 0.0 0.2 1.0`
    sparse_doubt: float = 0.2
    # What a choice slower than `invalid` counts more in such tables (see `problem.steep`).
    # `constants.py hopeless 0.0 10.0 100.0`
    hopeless: float = 10.0
    # Scenarios of a kind that a config would be expected to cover before that it covers none says that it does not
    # apply there (see `guards.limits`). `constants.py guard_evidence 5.0 20.0 1e9`
    guard_evidence: float = 20.0
    # The same of scenarios in which it was tried and failed. `constants.py failed_evidence 1.0 3.0 20.0`
    failed_evidence: float = 3.0
    # Launches beyond a limit that are expected in a region whose scenarios come near it and are all within, in a sparse
    # table (see `guards._saved`). `constants.py guard_near 0.0 0.1 0.3`
    guard_near: float = 0.1
    # Tests that guards may add to a path of the default depth: in a tree that has it there would be no room for them.
    # `constants.py guard_tests 0 2 4`
    guard_tests: int = 2
    # Points between scenarios: neighbours of each. `constants.py neighbours 3 6 12 24`
    neighbours: int = 12
    # Points on each line. `constants.py steps 1 3 5`
    steps: int = 3
    # The weight of all points against that of the scenarios. `constants.py weight 0.15 0.5 1.0 2.0`
    weight: float = 1.0
    # The same where cross-validation does not say that so many are better (see `auto._lighter`): on logs like flex
    # attention's, whose costs jump, they mislead. `constants.py light_neighbours 1 3 12`
    light_neighbours: int = 3
    # `constants.py light_weight 0.0 0.15 0.4`
    light_weight: float = 0.15
    # Up to how many scenarios, times the configs that may ship, points are worth their time: 4,000 of 64 configs. Held
    # out, 6,383 scenarios of paged attention and 24 configs are 1.0479 without (3 s for five folds), 1.0405 with (22).
    # `constants.py interpolated 0 24_000 256_000`
    interpolated: int = 256_000

    # The share of an estimate in the costs of few scenarios in which all configs were tried (see `shrink`).
    # `benchmarks.trees small`; `constants.py shrunk 0.0 0.3 0.5`
    shrunk: float = 0.3

    # What a config costs that was not measured since it could not win there, as a spec may say (`pruned`): 1.5x.
    # `constants.py lost 0.2 0.4 0.8`
    lost: float = 0.4

    # --- growth: bins.py, grow.py ---
    # Bins of a number column: its distinct values up to here, then quantiles. `constants.py bins 32 128 512`
    bins: int = 128
    # What is added to every config's mean cost before tests are compared (see `bins.promise`): with 0 a config that is
    # perfect on a side would hide all others there. `constants.py floor 0.001 0.01 0.1`
    floor: float = 0.01
    # The same for sparse tables. `constants.py sparse_floor 0.01 0.1 0.3`
    sparse_floor: float = 0.3
    # Categories of fewer scenarios a value than this: cross-validation compares trees that do not ask for them, since
    # some set of forty names fits any noise (see `auto._nameless`). `constants.py crowded 0.0 10.0`
    crowded: float = 10.0
    # Cells of a category column's orders looked at, at most: a bound of memory, for 10,000 categories. Its peak is a
    # line of `benchmarks.trees speed`; `constants.py set_cells 2000 2_000_000` says that it costs nothing.
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
    # Prices of a leaf that are compared: a total log-slowdown that it must save, for 64 scenarios. A price grows with
    # the square root of their number, as the sum of as many errors does.
    # `constants.py prices (0.03,) (0.01,0.03,0.1,0.3,1.0)`
    prices: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    # The same for few scenarios, where cross-validation is blind to what a leaf too few costs.
    # `constants.py few_prices (0.01,0.03,0.1) (0.01,0.03,0.1,0.3,1.0)`
    few_prices: tuple[float, ...] = (0.01, 0.03, 0.1)
    # The price where none are compared. `constants.py price 0.01 0.03 0.1 0.3`
    price: float = 0.03
    # Numbers of configs that cross-validation compares.
    # `constants.py counts (1,2,4,8,16,32,64) (1,2,4,6,8,12,16,24,32,48,64)`
    counts: tuple[int, ...] = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    # The same where scenarios abound and each fit takes a second (see `python -m benchmarks.trees speed`).
    # `constants.py coarse_counts (1,4,8,16,32,64) (1,2,4,6,8,12,16,24,32,48,64)`
    coarse_counts: tuple[int, ...] = (1, 4, 8, 16, 32, 64)
    # Beyond so many scenarios that is so. `constants.py abundant 1000 10_000`
    abundant: int = 10_000
    # Numbers of configs in a row that must fail to pay before the search ends. `constants.py patience 1 2 4`
    patience: int = 4
    # Leaves: at least this many are allowed. `constants.py leaves 20 40 80`
    leaves: int = 40
    # And one for so many scenarios. `constants.py scenarios_per_leaf 60 110`
    scenarios_per_leaf: int = 110
    # Depth allowed up to 1,000, up to `abundant`, and beyond. `constants.py depths (6,6,6) (8,10,12) (12,12,12)`
    depths: tuple[int, int, int] = (8, 10, 12)
    # What twice the leaves and two tests more, or beside them more configs, must lower the held-out mean by to be
    # allowed nevertheless, where the caller named no limit. `constants.py doubling 0.002 0.0035 0.005 0.01 1e9`
    doubling: float = 0.0035
    # Up to this many scenarios every depth up to the limit is fitted, so that more depth never hurts in training.
    # `constants.py every_depth 0 2000`
    every_depth: int = 2000

    # --- cross-validation: auto.py ---
    # `constants.py folds 3 5 10`
    folds: int = 5
    # Repeats of the folds: few scenarios take several, or luck decides. `constants.py max_repeats 1 3 8`
    max_repeats: int = 3
    # Repeats times groups stay below this. `constants.py scenarios_to_fit 0 600 2000`
    scenarios_to_fit: int = 600
    # Fewer groups of scenarios than this say nothing when divided. `constants.py min_groups 6 1000`
    min_groups: int = 6
    # From so many groups of scenarios on held-out figures are trusted to choose among many: a tail is compared (a p95
    # that rests on fewer than five of them is luck), and the number of configs is. Below, 8 ship unless another number
    # is surely better (`preference.or_usual`): on parts of 60 to 70 scenarios of nine logs that was as good as the best
    # mean on average, and on the H200 unified_attention log better: 1.049, not 1.056, on ten divisions of their own.
    # `constants.py trusted 0 100 1_000_000`
    trusted: int = 100
    # A held-out choice that was never measured: 20x. `constants.py invalid 1.0 3.0 10.0`
    invalid: float = 3.0
    # Fewer configs and leaves win within this of the best candidate's held-out mean, where scenarios are few.
    # `constants.py tolerance 0.0 0.002 0.01`
    tolerance: float = 0.002
    # The same where they are not. `constants.py large_tolerance 0.0 0.0002 0.002`
    large_tolerance: float = 0.0002
    # Up to so many scenarios they are few. `constants.py small 0 500 2000`
    small: int = 500
    # The tolerance where small trees are preferred. `constants.py small_tolerance 0.002 0.01 0.03`
    small_tolerance: float = 0.01


LEARNER = Constants()
