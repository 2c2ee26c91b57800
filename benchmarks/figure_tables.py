"""What the tables of measured figures share: means, Markdown, what reaches its line, the files of a device."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.choices import ROOT

FOLDER = ROOT / "benchmarks"
DEVICES = ("h200", "h100")
BOTH = " | ".join(device.upper() for device in DEVICES)


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found))


def markdown(head: str, rows: Iterable[Iterable[object]]) -> str:
    lines = "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)
    return f"| {head} |\n{'|---' * len(head.split('|'))}|\n{lines}"


def reached(value: float, line: float, places: int = 3, *, most: bool = False) -> str:
    """The number, bold where it is at least (`most`: at most) its line."""
    text = f"{value:.{places}f}"
    return f"**{text}**" if (value <= line if most else value >= line) else text


def count(good: int, total: int) -> str:
    return f"**all {total}**" if good == total else f"{good} of {total}"


def read(device: str, name: str) -> Any:
    return json.loads((FOLDER / device / f"{name}.json").read_text(encoding="utf-8"))


def by_device(lines: Callable[[str], dict[tuple[str, str], str]]) -> str:
    """What was asked, and a column a device."""
    columns = [lines(device) for device in DEVICES]
    return markdown(f" | asked | {BOTH}", ((*line, *(c[line] for c in columns)) for line in columns[0]))
