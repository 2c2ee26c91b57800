"""Thousands of random inputs of a model: on and beside every threshold, and far from all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from heurgen import ir

N_ROWS = 10_000
_INTS = (0, 1, -1, 2**24 + 1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63))
_FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.0**53 + 2)
_STRINGS = ("", "unknown", "\u202e", 'a"b\\', "caf\xe9", "nul\0nul", "??/")


def random_rows(module: ir.HeuristicModule, n: int = N_ROWS, *, typed: bool = True) -> list[dict[str, Any]]:
    """The same `n` rows each time. `typed`: an int feature is an int that fits int64, as in a typed language;
    else it may be any number, NaN and 2**80 included.
    """
    rng = random.Random(f"{module.kernel} {n}")
    draw = {f.name: _values(module, f, rng, typed) for f in module.features}
    return [{name: value() for name, value in draw.items()} for _ in range(n)]


def _values(
    module: ir.HeuristicModule, feature: ir.Feature, rng: random.Random, typed: bool
) -> Callable[[], Any]:
    """What draws one value of a feature."""
    if feature.type == "bool":
        return lambda: rng.random() < 0.5
    tests = [n for s in module.selectors for n in ir.nodes(s.tree) if not isinstance(n, ir.Leaf)]
    own = [n for n in tests if n.feature == feature.name]
    if feature.type == "category":
        named = [v for n in own if isinstance(n, ir.Membership) for v in n.values + n.others]
        known = [*_STRINGS, *feature.values * 3, *named * 3, *(alias for alias, _ in feature.aliases)]
        return lambda: rng.choice(known)
    thresholds = [n.threshold for n in own if isinstance(n, ir.Split)] or [
        feature.high or 1,
        feature.low or 1,
    ]
    if feature.type == "int":
        return lambda: _int(rng, thresholds, typed)
    return lambda: _float(rng, thresholds)


def _int(rng: random.Random, thresholds: list[Any], typed: bool) -> Any:
    kind = rng.random()
    if kind < 0.6:
        found = math.floor(rng.choice(thresholds)) + rng.choice((-1, 0, 1, 2))
    elif kind < 0.9:
        found = int(2 ** rng.uniform(0, 20))
    else:
        found = rng.choice(_INTS)
    if typed:
        return max(-(2**63), min(2**63 - 1, found))
    if kind > 0.95:
        return rng.choice((math.nan, math.inf, -math.inf, 2**80, math.nextafter(float(found), math.inf)))
    return found


def _float(rng: random.Random, thresholds: list[Any]) -> float:
    kind = rng.random()
    if kind < 0.6:
        t = float(rng.choice(thresholds))
        return rng.choice((t, math.nextafter(t, math.inf), math.nextafter(t, -math.inf), t + 1.0, t - 1.0))
    return 2 ** rng.uniform(-4, 20) if kind < 0.9 else rng.choice(_FLOATS)
