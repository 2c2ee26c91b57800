"""How the report spells things. Every text is plain; the templates escape it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heurgen import ir
from heurgen.audit.regions import Region, region_texts
from heurgen.errors import printable

if TYPE_CHECKING:
    from heurgen.audit.score import Choice

UNKNOWN = "–"


def times(value: float | None) -> str:
    """A slowdown: 1.034×."""
    if value is None:
        return UNKNOWN
    return f"{value:.3f}×" if value < 10 else f"{value:.3g}×"


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def config_tag(index: int) -> str:
    """A, B, ... Z, A1, B1, ...: the name of a config on the page."""
    letter = chr(ord("A") + index % 26)
    return letter if index < 26 else f"{letter}{index // 26}"


def value_text(value: ir.Value) -> str:
    return "none" if value is None else printable(value)


def pairs_text(values: dict[str, Any] | Any) -> str:
    return " ".join(f"{k}={value_text(v)}" for k, v in values.items())


def config_pairs(names: tuple[str, ...], config: ir.Config) -> str:
    return pairs_text(dict(zip(names, config, strict=True)))


def differing(names: tuple[str, ...], config: ir.Config, other: ir.Config) -> str:
    """What `other` sets differently from `config`."""
    pairs = zip(names, config, other, strict=True)
    return " ".join(f"{n}={value_text(b)}" for n, a, b in pairs if (type(a), a) != (type(b), b))


def conditions(region: Region, flags: tuple[str, ...]) -> list[str]:
    return [pretty(text) for text in region_texts(region, flags)]


def pretty(text: str) -> str:
    return printable(text).replace("<=", "≤")


def scenario_label(choice: Choice) -> str:
    """A scenario in one line: id, features, slowdown."""
    name = f"scenario {shorten(choice.scenario)}" if choice.scenario else "scenario"
    how = {"ok": times(choice.slowdown), "unknown": "slowdown unknown"}.get(
        choice.status, f"not valid ({choice.status})"
    )
    return f"{printable(name)}: {how}; {shorten(pairs_text(choice.features), 240)}"


def shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
