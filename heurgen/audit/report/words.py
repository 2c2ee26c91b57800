"""How the report spells things. Every text is plain; the templates escape it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heurgen import ir
from heurgen.audit.regions import Region, region_texts
from heurgen.base.errors import printable
from heurgen.base.text import slowdown_text

UNKNOWN = "–"


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


def conditions(region: Region, flags: tuple[str, ...]) -> list[str]:
    return [pretty(text) for text in region_texts(region, flags)]


# A number after a comparison with more places than anyone reads: 7.999999999999999, 0.010521349.
_LONG_NUMBER = re.compile(r"(?<=[<>=] )-?\d*\.\d{6,}(?:e[-+]?\d+)?")


def pretty(text: str) -> str:
    """A condition for a reader: numbers to six figures, texts not longer than anyone reads."""
    rounded = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", text)
    return shorten(printable(rounded).replace("<=", "≤"), 160)


def shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
