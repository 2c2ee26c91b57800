"""How the report spells things. Every text is plain; the templates escape it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heurgen import ir
from heurgen.audit.regions import Region, region_texts
from heurgen.base.errors import printable
from heurgen.base.text import slowdown_text

UNKNOWN = "–"
# Of a threshold on the page; and what tells any two floats apart.
LEAST_FIGURES, _ALL = 6, 17


def times(value: float | None) -> str:
    """A slowdown, rounded for people."""
    return UNKNOWN if value is None else slowdown_text(value, "×")


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def config_tag(index: int) -> str:
    """A, B, ... Z, A1, B1, ...: the name of a config on the page."""
    letter = chr(ord("A") + index % 26)
    return letter if index < 26 else f"{letter}{index // 26}"


def value_text(value: ir.Value) -> str:
    return "none" if value is None else printable(value)


def short(value: ir.Value) -> str:
    """A value where it is read, not compared: texts that no one reads to their end are cut."""
    return shorten(value_text(value))


def pairs_text(values: Mapping[str, ir.Value]) -> str:
    return " ".join(f"{k}={short(v)}" for k, v in values.items())


def config_pairs(names: tuple[str, ...], config: ir.Config) -> str:
    return pairs_text(dict(zip(names, config, strict=True)))


def differing(names: tuple[str, ...], config: ir.Config, other: ir.Config) -> str:
    """What `other` sets differently from `config`."""
    pairs = zip(names, config, other, strict=True)
    return " ".join(f"{n}={short(b)}" for n, a, b in pairs if (type(a), a) != (type(b), b))


def told_apart(tree: ir.Node) -> dict[str, int]:
    """Of each float that a tree asks for, the figures that tell its thresholds apart: LEAST_FIGURES, or more where two
    are near each other.
    """
    cuts: dict[str, set[float]] = {}
    for node in ir.nodes(tree):
        if isinstance(node, ir.Split) and isinstance(node.threshold, float):
            cuts.setdefault(node.feature, set()).add(node.threshold)
    return {
        name: next(
            (n for n in range(LEAST_FIGURES, _ALL) if len({f"{c:.{n}g}" for c in own}) == len(own)), _ALL
        )
        for name, own in cuts.items()
    }


def conditions(region: Region, flags: tuple[str, ...], digits: Mapping[str, int]) -> list[str]:
    texts = zip(region, region_texts(region, flags), strict=True)
    return [pretty(text, digits.get(name, LEAST_FIGURES)) for name, text in texts]


# A number after a comparison with more places than anyone reads: 7.999999999999999, 0.010521349.
_LONG_NUMBER = re.compile(r"(?<=[<>=] )-?\d*\.\d{6,}(?:e[-+]?\d+)?")


def pretty(text: str, digits: int = LEAST_FIGURES) -> str:
    """A condition for a reader: numbers to so many figures, texts not longer than anyone reads."""
    rounded = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.{digits}g}", text)
    return shorten(printable(rounded).replace("<=", "≤"), 160)


def shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
