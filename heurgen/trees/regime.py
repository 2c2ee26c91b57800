"""Every rule of training that depends on the size of a log, decided once from the whole table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heurgen.logs.costs import CostTable
from heurgen.trees import constants
from heurgen.trees.chance import ENOUGH, estimated, gaps_by_chance, searched
from heurgen.trees.configs import USUAL
from heurgen.trees.coverage import sparse
from heurgen.trees.crossed import free
from heurgen.trees.failures import failed_by_chance
from heurgen.trees.guards import SHARE
from heurgen.trees.options import FitOptions
from heurgen.trees.problem import Ints, Problem, groups, lost, problem, steep
from heurgen.trees.shrink import shrunk


@dataclass(frozen=True, slots=True)
class Regime:
    """What folds and fit of one table share, so that what is validated is what ships.

    n_groups     groups of scenarios that are held out together
    repeats      divisions of the groups into folds
    counts       numbers of configs that are compared, ascending
    max_depth, max_leaves   the caller's limits, else the defaults for so many scenarios
    prices       prices of a leaf that are compared, ascending
    patience     numbers of configs in a row that must fail to pay before the search ends
    by_chance    whether what was not measured is estimated, see `chance.gaps_by_chance`
    searched     whether what was not measured counts as lost, see `chance.searched`
    flaky        cells that failed by chance, see `failures.failed_by_chance`
    sparse       whether many cells are missing, see `coverage.sparse`
    careful      whether regions that come near what a config was never covered on are bounded: in every sparse table,
                 but where a strategy is named in none of few scenarios
    between      whether points between scenarios are added
    crosses      features of which points on which a config would fail take another scenario's value, see `crossed`:
                 where cells enough failed, or were not measured by a rule, and what is derived can be derived again
    moves        the same for guards, features that say the same together
    shrinks      whether costs are drawn towards estimates, see `shrink`: those of few scenarios in which every config
                 was tried, whether it ran or failed; of what was not tried nobody knows why
    compares_rules   whether rules of other tables are compared with those of a sparse one
    compares_points  whether light points between are compared with the usual ones
    crowded      columns of categories with few scenarios a value; trees without them are compared
    few          whether the scenarios are too few for the regions of a tree to choose the configs, or for a candidate's
                 held-out mean to be trusted alone
    usual        the number of configs that ships unless another is surely better, where the scenarios are too few to
                 choose among many by held-out means and the caller named no number; else None
    compares_tails  whether groups are many enough for a held-out p95 to say something
    every_depth  whether every depth up to the limit is fitted
    widens       whether cross-validation may go beyond the default limits: of many scenarios every try takes seconds
    tolerance    mean log-slowdown within which fewer configs and leaves win
    """

    n_scenarios: int
    n_groups: int
    repeats: int
    counts: tuple[int, ...]
    max_depth: int
    max_leaves: int
    prices: tuple[float, ...]
    patience: int
    by_chance: bool
    searched: bool
    flaky: int
    sparse: bool
    careful: bool
    between: bool
    crosses: frozenset[str]
    moves: frozenset[tuple[str, ...]]
    shrinks: bool
    compares_rules: bool
    compares_points: bool
    crowded: tuple[int, ...]
    few: bool
    usual: int | None
    compares_tails: bool
    every_depth: bool
    widens: bool
    tolerance: float

    @property
    def validates(self) -> bool:
        """Whether there are groups enough to hold some out."""
        return self.n_groups >= constants.LEARNER.min_groups


def regime(p: Problem, options: FitOptions, device: Ints | None = None) -> Regime:
    """The regime of a whole table (never of a fold's part). device: of the rows, where there are several."""
    c = constants.LEARNER
    n, n_groups = p.n_real, int(groups(p).max()) + 1
    by_chance = not p.guessed and gaps_by_chance(p)
    one = np.zeros(n, dtype=np.int64)
    passed = not (p.guessed or by_chance) and searched(p, one if device is None else device)
    told = not (p.guessed or by_chance or passed)
    flaky = failed_by_chance(p) if told else 0
    few, many_missing = n <= c.small and not p.labels_only, not (by_chance or passed) and sparse(p)
    attempted = not (p.labels_only or p.untried.any())
    most = min(options.max_configs or c.pool, c.pool, len(p.configs))
    # of many scenarios neighbours, which are looked for among all pairs, take seconds a fold, however few configs ship
    joined = n <= c.abundant and n * most <= c.interpolated
    between = joined and not p.labels_only and not many_missing
    limited = between and told and not flaky and _limited(p)
    crosses, moves = free(p) if limited else (frozenset[str](), frozenset[tuple[str, ...]]())
    named = bool(options.max_depth or options.max_leaves)
    counts = _counts(n, most)
    return Regime(
        n_scenarios=n,
        n_groups=n_groups,
        repeats=max(1, min(c.max_repeats, c.scenarios_to_fit // n_groups)),
        counts=counts,
        max_depth=options.max_depth or c.depths[(n > 1000) + (n > c.abundant)],
        max_leaves=options.max_leaves or _leaves(n, options.max_depth),
        prices=c.few_prices if few and options.prefer != "small" else c.prices,
        patience=len(counts) if few else c.patience,
        by_chance=by_chance,
        searched=passed,
        flaky=flaky,
        sparse=many_missing,
        careful=many_missing and (options.strategy == "auto" or n > c.small),
        between=between,
        crosses=crosses,
        moves=moves,
        shrinks=few and c.min_groups <= n_groups < c.trusted and attempted and not many_missing,
        compares_rules=many_missing and few,
        compares_points=between and few and n_groups >= c.trusted,
        crowded=_crowded(p),
        few=few,
        usual=_usual(p, counts, options) if few and n_groups < c.trusted else None,
        compares_tails=n_groups >= c.trusted and not p.labels_only,
        every_depth=n <= c.every_depth,
        widens=n <= c.abundant and options.prefer != "small" and not named,
        tolerance=_tolerance(n, options),
    )


def _limited(p: Problem) -> bool:
    """Whether cells enough say where configs fail."""
    return int((~p.covered).sum()) >= ENOUGH and all(c.expression or not c.derived for c in p.columns)


def _crowded(p: Problem) -> tuple[int, ...]:
    """Of names with few scenarios each some set fits any noise. Of many scenarios every try takes seconds."""
    c = constants.LEARNER
    values = [(i, len(np.unique(p.X[:, i]))) for i, d in enumerate(p.columns) if d.type == "category"]
    found = tuple(i for i, count in values if count * c.crowded > p.n_real)
    return found if p.n_real <= c.abundant and len(found) < len(p.columns) else ()


def ruled(table: CostTable, rows: Ints, r: Regime, configs: Ints | None = None) -> Problem:
    """The problem of some of a table's rows by the rules of the whole table; `configs` as in `problem`."""
    p = problem(table, rows, configs)
    p = estimated(p) if r.by_chance else lost(p) if r.searched else shrunk(p) if r.shrinks else p
    return steep(p) if r.sparse else p


def spare_tests(options: FitOptions) -> int:
    """Tests that guards may add to the default depth: a limit that the caller named is theirs, too."""
    return 0 if options.max_depth else constants.LEARNER.guard_tests


def spare_leaves(options: FitOptions, r: Regime) -> int:
    """Leaves that guards may add to the default limit where many cells are missing: a quarter of it."""
    return 0 if options.max_depth or options.max_leaves else r.max_leaves // SHARE


def _counts(n: int, most: int) -> tuple[int, ...]:
    c = constants.LEARNER
    compared = c.coarse_counts if n > c.abundant else c.counts
    return (*(k for k in compared if k < most), most)


def _usual(p: Problem, counts: tuple[int, ...], options: FitOptions) -> int | None:
    """At least as many as the largest category has values, each of which may want a config of its own: twelve models in
    60 scenarios, say, are 1.349 with 8 configs and 1.324 with 12.
    """
    if options.max_configs is not None or options.prefer == "small":
        return None
    values = [len(np.unique(p.X[:, i])) for i, c in enumerate(p.columns) if c.type == "category"]
    return next((k for k in counts if k >= max(USUAL, *values, 0)), counts[-1])


def _leaves(n: int, max_depth: int | None) -> int:
    """The default limit; of a depth that was asked for every leaf, up to that of 6 tests."""
    c = constants.LEARNER
    return max(c.leaves, n // c.scenarios_per_leaf, 1 << min(max_depth or 0, 6))


def _tolerance(n: int, options: FitOptions) -> float:
    c = constants.LEARNER
    if options.prefer == "small":
        return c.small_tolerance
    return c.large_tolerance if n > c.small else c.tolerance
