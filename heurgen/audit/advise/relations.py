"""What the given features of a log have in common in every scenario, so that a made-up launch can exist.

Logs give columns that follow from others: M * N * K beside M, N and K, a mean beside a sum and a count. Halved each by
itself they ask for a launch that nobody can make. The spec names only some (`[derived]`), so the others are found: an
expression of few columns that gives another one in every scenario. What is no expression is often a bound, such as
total_seqlen_k <= num_seqs * max_seqlen_k: a launch beyond one that every scenario keeps is not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen.base.text import rounded
from heurgen.ir import expr
from heurgen.trees.derived import derived_values

if TYPE_CHECKING:
    from heurgen.logs.costs import Floats, TableColumn

# What a column may follow from, the likeliest first; of three sizes also what a matrix product moves, and its
# intensity. Those of the second row are not whole for whole operands: no int is looked for there.
_WHOLE = ("{x}", "{x} * {y}", "{x} + {y}", "{x} * {y} * {z}", "({x} * {y} + {y} * {z} + {z} * {x})")
_BROKEN = ("{x} / {y}", "({x} - {y})", "{x} * {y} * {z} / ({x} * {y} + {y} * {z} + {z} * {x})")
_FORMS = tuple((text, expr.parse(text.format(x="x", y="y", z="z"))) for text in (*_WHOLE, *_BROKEN))
# A column of fewer values, or a log of fewer launches, agrees with some expression by chance.
_LEAST_VALUES, _LEAST_LAUNCHES = 3, 8
# A mean is written with so many decimals at most, of which the last is no more than this share of a usual one: two
# decimals are enough for half of something. Columns drawn at random agree with nothing at four times this share either.
_DECIMALS, _SHARE = 6, 0.025
# Beside more columns no expression of three is tried.
_MOST_OF_THREE = 20
_EPS = 1e-9
# To keep one bound may break another. With two the candidates of the logs in data/ have none broken.
_PASSES = 3


@dataclass(frozen=True, slots=True)
class Relation:
    """In every scenario `column` is `factor` times a form of the operands, up to the `decimals` it is written with.

    None: it is exact, or whole.
    """

    column: str
    whole: bool
    factor: float
    operands: tuple[str, ...]
    form: int
    decimals: int | None = None

    def of(self, features: Mapping[str, Any]) -> float | None:
        """The column's value, written as the log has it, or the next log would not hold the relation any more.

        None where it is too large, or would have to be whole.
        """
        given = {letter: features[name] for letter, name in zip("xyz", self.operands, strict=False)}
        value = self.factor * expr.evaluate(_FORMS[self.form][1], given)
        if not math.isfinite(value):
            return None
        if not self.whole:
            return value if self.decimals is None else round(value, self.decimals)
        return round(value) if abs(value - round(value)) <= _EPS * abs(value) else None

    def to_text(self) -> str:
        factor = "" if self.factor == 1 else f"{rounded(self.factor)} * "
        text = _FORMS[self.form][0].format(**dict(zip("xyz", self.operands, strict=False)))
        return f"{self.column} = {factor}{text}"


@dataclass(frozen=True, slots=True)
class Relations:
    """`kept`: each follows from columns before it. `bounds`: a column, and those whose product is no smaller.

    `taken`: features of the device, which nothing changes.
    """

    kept: tuple[Relation, ...]
    bounds: tuple[tuple[str, tuple[str, ...]], ...]
    taken: frozenset[str]
    whole: frozenset[str]

    def applied(self, features: Mapping[str, Any]) -> dict[str, Any] | None:
        """The launch nearby that has all this; None where none is found."""
        made = dict(features)
        for _ in range(_PASSES):
            for relation in self.kept:
                value = relation.of(made)
                if value is None:
                    return None
                made[relation.column] = value
            if not self._moved_within(made):
                return made
        return None

    def _moved_within(self, made: dict[str, Any]) -> bool:
        """Lower what is above a bound, or raise the bound; whether anything was. Rounding parts what is equal."""
        fixed = {*self.taken, *(r.column for r in self.kept)}
        broken = False
        for name, of in self.bounds:
            most = math.prod(made[n] for n in of)
            if not made[name] > most * (1 + _EPS):
                continue
            broken = True
            if name not in fixed:
                made[name] = math.floor(most) if name in self.whole else float(most)
            elif len(of) == 1 and of[0] not in fixed:
                made[of[0]] = math.ceil(made[name]) if of[0] in self.whole else float(made[name])
        return broken


def relations(columns: Sequence[TableColumn], X: Floats, taken: Set[str] = frozenset()) -> Relations:
    """Of the numbers among the columns of X [S, F], a row a scenario; those `taken` as they are follow from nothing."""
    numbers = [i for i, c in enumerate(columns) if c.type in ("int", "float") and (X[:, i] != X[0, i]).any()]
    rows = np.unique(X[:, numbers], axis=0)
    own = [columns[i] for i in numbers]
    whole = frozenset(c.name for c in own if c.type == "int")
    if len(rows) < _LEAST_LAUNCHES:
        return Relations((), (), frozenset(taken), whole)
    asked = [
        i for i, c in enumerate(own) if c.name not in taken and len(np.unique(rows[:, i])) >= _LEAST_VALUES
    ]
    with np.errstate(all="ignore"):
        found = list(_found(own, rows, asked))
        bounds = tuple(_bounds([c.name for c in own], rows))
    places = {c.name: i for i, c in enumerate(own)}
    # A float can be what whole numbers make it, and so can 8 * groups: where heads / 8 gives groups, few heads will do.
    # Of equals the later column is the one that was worked out.
    found.sort(key=lambda r: (r.whole, r.form, r.whole and not r.factor.is_integer(), -places[r.column]))
    return Relations(_without_circles(found), bounds, frozenset(taken), whole)


def _found(columns: Sequence[TableColumn], X: Floats, asked: Sequence[int]) -> Iterator[Relation]:
    whole = np.array([c.type == "int" for c in columns])
    room = {i: _room(X[:, i], bool(whole[i])) for i in asked}
    for form, (text, tree) in enumerate(_FORMS):
        count = len(expr.names(tree))
        if count == 3 and len(columns) > _MOST_OF_THREE:
            continue
        turned = text in ("{x} / {y}", "({x} - {y})")
        for of in (permutations if turned else combinations)(range(len(columns)), count):
            given = derived_values(tree, {letter: X[:, i] for letter, i in zip("xyz", of, strict=False)})
            rest = [i for i in asked if i not in of]
            if text in _BROKEN or not whole[list(of)].all():
                rest = [i for i in rest if not whole[i]]
            for i in rest:
                factor = _factor(X[:, i], given, room[i][0])
                if factor is not None:
                    names = tuple(columns[o].name for o in of)
                    yield Relation(columns[i].name, bool(whole[i]), factor, names, form, room[i][1])


def _factor(column: Floats, given: Floats, room: Floats) -> float | None:
    """What the given numbers are multiplied by to be the column in every row, the plainest that will do, or None."""
    at = int(np.argmax(np.abs(given)))
    if not given[at] or not np.isfinite(given[at]):
        return None
    fitted = float(column[at] / given[at])
    if not math.isfinite(fitted):  # by what is next to nothing
        return None
    if abs(column[0] - fitted * given[0]) > 2 * room[0]:  # nearly always
        return None
    plain = (float(f"{fitted:.{n}g}") for n in (1, 2, 3))  # 1e-6, which decimals turn into 9.99999e-07
    for factor in (1.0, float(round(fitted)), *plain, fitted):
        if factor and bool((np.abs(column - factor * given) <= room).all()):
            return factor
    return None


def _room(column: Floats, whole: bool) -> tuple[Floats, int | None]:
    """How far written numbers may be from what they were, by decimals where these are enough to tell; and these."""
    exact = _EPS * np.abs(column)
    fits = (d for d in range(_DECIMALS) if np.array_equal(np.round(column, d), column))
    decimals = next(fits, _DECIMALS)
    rounding = 1.01 * 10.0**-decimals  # half of it, and as much of the factor
    if whole or rounding > _SHARE * np.median(np.abs(column)):
        return exact, None
    return exact + rounding, decimals


def _without_circles(found: Sequence[Relation]) -> tuple[Relation, ...]:
    """One relation a column, the first that does not lead back to it, in an order in which each can be worked out."""
    kept: dict[str, Relation] = {}

    def needs(name: str) -> set[str]:
        return {name}.union(*(needs(o) for o in kept[name].operands)) if name in kept else {name}

    for relation in found:
        if relation.column not in kept and all(relation.column not in needs(o) for o in relation.operands):
            kept[relation.column] = relation
    depth = {name: len(needs(name)) for name in kept}  # what needs another needs all that it does, and itself
    return tuple(sorted(kept.values(), key=lambda r: (depth[r.column], r.column)))


def _bounds(names: Sequence[str], X: Floats) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Columns, and products of two, that another column reaches in some scenario and exceeds in none."""
    positive = [i for i in range(len(names)) if X[:, i].min() > 0]
    above = [(b,) for b in range(len(names))] + list(combinations(positive, 2))
    for of in above:
        most = np.prod(X[:, of], axis=1)
        for a in range(len(names)):
            if a not in of and (X[:, a] <= most * (1 + _EPS)).all() and (X[:, a] >= most * (1 - _EPS)).any():
                yield names[a], tuple(names[b] for b in of)
