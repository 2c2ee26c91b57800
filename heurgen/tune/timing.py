"""How times are taken: interleaved passes over a chunk of configs, losers timed once, medians of the rest."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from heurgen.tune.protocol import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a config has no time in a scenario.

    status   unfit (dropped before launch), compile_error, wrong (not the reference's answer), error (the
             launch raised), crash (the process died), timeout
    """

    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class Method:
    """Numbers of the timing method; all of them are in the log's card.

    samples        timed launches behind a row (its time is their median)
    slow_samples   the same above `slow_ms`, where launches differ by well under a percent
    loser          a config slower than this many times the best so far is timed once
    chunk          configs that take turns; also what a killed sweep can lose
    repeats        rows for each of the best few configs of a scenario
    few            how many are the best few: at least, at most; those within `close` of the best
    """

    samples: int = 5
    slow_samples: int = 3
    slow_ms: float = 5.0
    loser: float = 2.0
    chunk: int = 16
    repeats: int = 3
    few: tuple[int, int] = (3, 8)
    close: float = 1.05


# One timed launch of each config, in the order given.
Sample = Callable[[Sequence[Settings]], Iterable[float | Failure]]


def measure(
    sample: Sample, configs: Sequence[Settings], best: float, method: Method
) -> list[float | Failure]:
    """Median time in ms, or the failure, of each config of a chunk; `best` is the best median so far, or inf.

    Every pass launches each surviving config once, so that drift of the clock rate hits all alike; later
    passes start elsewhere in the chunk.
    """
    taken: list[list[float]] = [[] for _ in configs]
    failed: dict[int, Failure] = {}

    def one_pass(order: Sequence[int]) -> None:
        for i, outcome in zip(order, sample([configs[i] for i in order]), strict=True):
            if isinstance(outcome, Failure):
                failed[i] = outcome
            elif not (math.isfinite(outcome) and outcome > 0):
                failed[i] = Failure("error", f"the timer gave {outcome} ms")
            else:
                taken[i].append(outcome)

    one_pass(range(len(configs)))
    best = min([best, *(t[0] for t in taken if t)])
    for turn in range(1, method.samples):
        order = [i for i in range(len(configs)) if i not in failed and _goes_on(taken[i], turn, best, method)]
        if not order:
            break
        shift = turn * len(order) // method.samples
        one_pass(order[shift:] + order[:shift])
    return [failed[i] if i in failed else statistics.median(taken[i]) for i in range(len(configs))]


def _goes_on(taken: list[float], turn: int, best: float, method: Method) -> bool:
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
