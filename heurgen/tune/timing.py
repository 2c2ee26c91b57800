"""How times are taken: interleaved passes over a chunk of configs, losers timed once, medians of the rest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, TypeAlias, TypeVar

from heurgen.base.errors import UsageError, quoted
from heurgen.tune.protocol import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a config has no time in a scenario.

    status   unfit (dropped before launch), compile_error, wrong (not the reference's answer), error (the
             launch raised, or inputs or reference, as the reason says), crash (the process died), timeout
    """

    status: str
    reason: str


Mode: TypeAlias = Literal["eager", "graph"]


@dataclass(frozen=True, slots=True)
class Method:
    """Numbers of the timing method; all of them are in the log's card.

    samples        timed launches behind a row (its time is their median)
    slow_samples   the same above `slow_ms`, where launches differ by well under a percent
    loser          a config slower than this many times the best so far is timed once
    chunk          configs that take turns; also what a killed sweep can lose
    repeats        rows for each of the best few configs of a scenario
    most_repeats   rows, at most, for those of them that repeats do not tell from the best
    few            how many are the best few: at least, at most; those within `close` of the best
    mode           "eager": events around one launch. "graph": a sample replays a recorded graph of `graph_launches`
                   launches, each after a flush and between events of its own, and is their median
    """

    samples: int = 5
    slow_samples: int = 3
    slow_ms: float = 5.0
    loser: float = 2.0
    chunk: int = 16
    repeats: int = 3
    most_repeats: int = 6
    few: tuple[int, int] = (3, 8)
    close: float = 1.05
    mode: Mode = "eager"
    graph_launches: int = 5


# One timed launch of each config, in the order given.
Sample = Callable[[Sequence[Settings]], Iterable[float | Failure]]


def measure(
    sample: Sample,
    configs: Sequence[Settings],
    best: float,
    method: Method,
    earlier: Sequence[Sequence[float | Failure]] = (),
    keep: Callable[[int, float | Failure], None] = lambda i, outcome: None,
) -> list[float | Failure]:
    """Median time in ms, or the failure, of each config of a chunk; `best` is the best median so far, or inf.

    Every pass launches each surviving config once, so that drift of the clock rate hits all alike; later
    passes start elsewhere in the chunk. `earlier` holds the launches of each config that an interrupted sweep
    has taken already; `keep` gets the number of a config with every launch that is taken now.
    """
    taken: list[list[float]] = [[] for _ in configs]
    failed: dict[int, Failure] = {}

    def add(i: int, outcome: float | Failure) -> None:
        if isinstance(outcome, Failure):
            failed[i] = outcome
        else:
            taken[i].append(outcome)

    for i, outcomes in enumerate(earlier):
        for outcome in outcomes:
            add(i, outcome)
    for turn in range(method.samples):
        if turn == 1:
            best = min([best, *(t[0] for t in taken if t)])
        order = [i for i in range(len(configs)) if i not in failed and _wanted(taken[i], turn, best, method)]
        shift = turn * len(order) // method.samples
        order = order[shift:] + order[:shift]
        for i, outcome in zip(order, sample([configs[i] for i in order]) if order else (), strict=True):
            sound = isinstance(outcome, Failure) or (math.isfinite(outcome) and outcome > 0)
            found = outcome if sound else Failure("error", f"the timer gave {outcome} ms")
            keep(i, found)
            add(i, found)
    return [failed[i] if i in failed else statistics.median(taken[i]) for i in range(len(configs))]


def taken(outcome: object, tunable: str) -> float | Failure:
    """What a session's `sample` gave, which may be a stranger's.

    Raises:
        UsageError: it is no number.
    """
    if isinstance(outcome, Failure):
        return outcome
    if not isinstance(outcome, Real) or isinstance(outcome, bool):
        raise UsageError(
            f"sample of the session of {quoted(tunable)} gave {quoted(outcome)} ({type(outcome).__name__}), expected "
            "the milliseconds of one launch, a float",
            hint="heurgen.tune.engines.Session says what a session answers",
        )
    return float(outcome)


def _wanted(taken: list[float], turn: int, best: float, method: Method) -> bool:
    """Whether a config is launched in this pass."""
    if turn == 0 or len(taken) > turn:
        return not taken
    wanted = method.slow_samples if taken[0] > method.slow_ms else method.samples
    return turn < wanted and taken[0] <= method.loser * best


def best_few(times: Sequence[float], method: Method) -> list[int]:
    """Indices of the configs that deserve more repeats, best first: the close ones, within the bounds."""
    order = sorted(range(len(times)), key=lambda i: (times[i], i))
    low, high = method.few
    close = [i for i in order if times[i] <= method.close * times[order[0]]] if order else []
    return order[: min(high, max(low, len(close)))]


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in runs of `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
