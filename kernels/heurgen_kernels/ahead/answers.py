"""All that a selector can answer while its features stay within ranges.

A selector is followed along every path: it is called with ranges in place of numbers. Where a comparison is decided by
the ranges it has its answer; where it is not, the call goes on with True and is repeated with False, and the ranges
are narrowed to what either says. So every config that a batch within the ranges can get is found, however rare, and
the thresholds of the tree need not be known. Ranges of several features are not related to each other: a few answers
that no batch gets may be among them, none is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, inf
from types import CellType, FunctionType
from typing import Any

# More paths than the deepest selector that heurgen makes has for all its leaves.
MOST_PATHS = 1 << 16


@dataclass(slots=True)
class Path:
    """The undecided comparisons of one call: `taken` says which way each goes; those behind its end go True."""

    taken: list[bool] = field(default_factory=list)
    met: int = 0

    def decide(self) -> bool:
        if self.met == len(self.taken):
            self.taken.append(True)
        self.met += 1
        return self.taken[self.met - 1]


class Range:
    """A number that lies from low to high, both included, as far as one path knows it. Compares and computes as one.

    A comparison that both ends leave open is decided by the path and narrows the range. Results of arithmetic are
    ranges that hold every result; narrowing them narrows nothing else.
    """

    __slots__ = ("high", "low", "path", "whole")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, path: Path, low: float, high: float, whole: bool = True) -> None:
        self.path, self.low, self.high, self.whole = path, low, high, whole

    def __repr__(self) -> str:
        return f"Range({self.low}, {self.high})"

    def __le__(self, other: Any) -> bool:
        low, high = ends(other)
        if self.high <= low or self.low > high:
            return self.high <= low
        if self.path.decide():
            self.high = min(self.high, floor(high) if self.whole and high < inf else high)
            return True
        self.low = max(self.low, floor(low) + 1 if self.whole and low > -inf else low)
        return False

    def __ge__(self, other: Any) -> bool:
        low, high = ends(other)
        if self.low >= high or self.high < low:
            return self.low >= high
        if self.path.decide():
            self.low = max(self.low, -floor(-low) if self.whole and low > -inf else low)
            return True
        self.high = min(self.high, -floor(-high) - 1 if self.whole and high < inf else high)
        return False

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Range, int, float)):
            return False
        low, high = ends(other)
        if self.high < low or self.low > high:
            return False
        if self.low == self.high == low == high:
            return True
        if self.path.decide():
            self.low, self.high = max(self.low, low), min(self.high, high)
            return True
        if self.whole and low == high:
            self.low += self.low == low
            self.high -= self.high == high
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def _of(self, results: Iterator[float], whole: bool) -> Range:
        found = list(results)
        return Range(self.path, min(found), max(found), whole)

    def __add__(self, other: Any) -> Range:
        return self._of((a + b for a in ends(self) for b in ends(other)), self.whole and _whole(other))

    def __neg__(self) -> Range:
        return Range(self.path, -self.high, -self.low, self.whole)

    def __sub__(self, other: Any) -> Range:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Range:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> Range:
        return self._of((a * b for a in ends(self) for b in ends(other)), self.whole and _whole(other))

    def __truediv__(self, other: Any) -> Range:
        return _quotient(self, other, self)

    def __rtruediv__(self, other: Any) -> Range:
        return _quotient(other, self, self)

    def __floordiv__(self, other: Any) -> Range:
        return _floor(_quotient(self, other, self))

    def __rfloordiv__(self, other: Any) -> Range:
        return _floor(_quotient(other, self, self))

    def __mod__(self, other: Any) -> Range:
        return _remainder(self, other, self)

    def __rmod__(self, other: Any) -> Range:
        return _remainder(other, self, self)

    def __rlshift__(self, other: int) -> Range:
        return Range(self.path, other << int(self.low), other << int(self.high))

    def bit_length(self) -> Range:
        return Range(self.path, int(self.low).bit_length(), int(self.high).bit_length())

    __radd__, __rmul__ = __add__, __mul__


def ends(value: Any) -> tuple[float, float]:
    """The lowest and the highest number that a value can be."""
    return (value.low, value.high) if isinstance(value, Range) else (value, value)


def _whole(value: Any) -> bool:
    return value.whole if isinstance(value, Range) else isinstance(value, int)


def _quotient(above: Any, below: Any, of: Range) -> Range:
    low, high = ends(below)
    if low <= 0 <= high:
        return Range(of.path, -inf, inf, False)
    return of._of((a / b for a in ends(above) for b in (low, high)), False)


def _floor(quotient: Range) -> Range:
    low, high = (floor(end) if abs(end) < inf else end for end in ends(quotient))
    return Range(quotient.path, low, high)


def _remainder(above: Any, below: Any, of: Range) -> Range:
    """Between 0 and the divisor, or, where one number divides both ends as often, between theirs."""
    (first, last), (low, high) = ends(above), ends(below)
    if low == high and low and first // low == last // low:
        return of._of((end % low for end in (first, last)), False)
    return Range(of.path, min(low, 0), max(high, 0), False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A config, and the ranges (low, high) of the features where one path of the selector gives it."""

    config: Any
    within: Mapping[str, tuple[float, float]]


def answers(select: Callable[..., Any], features: Mapping[str, Any]) -> list[Answer]:
    """What `select(values)` can be, where `values` are those of features in their order and pairs (low, high) among
    them take any integer from low to high.

    ValueError where the selector does more with its features than compare and compute, or has too many paths.
    """
    found: list[Answer] = []
    open_paths = [Path()]
    select = without_conversions(select)
    for _ in range(MOST_PATHS):
        if not open_paths:
            return found
        path = open_paths.pop()
        known = len(path.taken)
        given = {k: Range(path, *v) if isinstance(v, tuple) else v for k, v in features.items()}
        try:
            config = select(tuple(given.values()))
            found.append(Answer(config, {k: ends(v) for k, v in given.items() if isinstance(v, Range)}))
        except (TypeError, AttributeError) as error:
            raise ValueError(f"the selector cannot be followed along its paths: {error}") from error
        except ZeroDivisionError:
            pass  # a path that no batch takes: its divisor, which is read twice, was said to be no zero
        open_paths += [Path([*path.taken[:i], False]) for i in range(known, len(path.taken))]
    raise ValueError(f"the selector has more than {MOST_PATHS} paths within the given ranges")


def without_conversions(select: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and those it closes over, with `float` as the identity: a generated one converts features, and a
    range stays a range.
    """
    if not isinstance(select, FunctionType):
        return select
    space = {**select.__globals__, "float": lambda value: value}
    cells = tuple(CellType(without_conversions(cell.cell_contents)) for cell in select.__closure__ or ())
    copy = FunctionType(select.__code__, space, select.__name__, select.__defaults__, cells or None)
    copy.__kwdefaults__ = select.__kwdefaults__
    return copy
