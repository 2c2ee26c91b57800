"""Numbers and tables as the commands print them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from heurgen.base.errors import printable, quoted

MAX_LABEL = 200


def is_label(text: str) -> bool:
    """Whether a scenario may be called so: it reads as itself in a log, a workload and a terminal, and is short."""
    return 0 < len(text) <= MAX_LABEL and text.isprintable() and text == text.strip()


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(terminal_width(line[i]) for line in lines) for i in range(len(header))]

    def padded(line: Sequence[str]) -> Iterator[str]:
        for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
            room = " " * (width - terminal_width(cell))
            yield room + cell if i else cell + room

    return "\n".join("  ".join(padded(line)).rstrip() for line in lines)


def terminal_width(text: str) -> int:
    """The columns that a text takes on a terminal: letters of East Asia and emoji two, marks on a letter none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # which most commands never need

    return cell_len(text)


def counted(n: int, noun: str) -> str:
    """`1 scenario`, `2 scenarios`, `2 leaves`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun.removesuffix('f')}{'ves' if noun.endswith('f') else 's'}"


def ratio(value: float | None) -> str:
    """A slowdown."""
    return "unknown" if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    """A share."""
    return "unknown" if value is None else f"{100 * value:.1f} %"


def share_text(value: float) -> str:
    """A share that is not none: one launch of thousands is not 0.0 %."""
    return percent(value) if value >= 0.0005 else "under 0.1 %"


class Figures(Protocol):
    """What is printed of anything with the fields of `base.figures.Summary`."""

    @property
    def n_scenarios(self) -> int: ...
    @property
    def geomean_slowdown(self) -> float | None: ...
    @property
    def p95_slowdown(self) -> float | None: ...
    @property
    def max_slowdown(self) -> float | None: ...
    @property
    def within_1_1(self) -> float | None: ...
    @property
    def invalid_share(self) -> float | None: ...
    @property
    def agreement(self) -> float | None: ...


SUMMARY_HEADER = ("geomean", "p95", "max", "within 1.1x", "invalid", "scenarios")


def summary_cells(summary: Figures) -> list[str]:
    """The cells under SUMMARY_HEADER."""
    ratios = map(ratio, (summary.geomean_slowdown, summary.p95_slowdown, summary.max_slowdown))
    return [*ratios, percent(summary.within_1_1), percent(summary.invalid_share), str(summary.n_scenarios)]


WINNER_HEADER = ("agrees with the winner", "scenarios")


def winner_cells(summary: Figures) -> list[str]:
    """The cells under WINNER_HEADER: what is known of a choice where the log holds winners alone."""
    return [percent(summary.agreement), str(summary.n_scenarios)]


def summary_tables(title: str, groups: Mapping[str, Figures]) -> str:
    """Slowdowns by group; and agreement with the winner for groups whose logs hold winners alone."""
    unknown = {n for n, s in groups.items() if s.invalid_share is None}
    known = [[printable(n), *summary_cells(s)] for n, s in groups.items() if n not in unknown]
    winners = [[printable(n), *winner_cells(s)] for n, s in groups.items() if n in unknown]
    found = [table((title, *SUMMARY_HEADER), known)] if known else []
    found += [table((f"{title}: unknown, winners only", *WINNER_HEADER), winners)] if winners else []
    return "\n\n".join(found)


def number_text(value: float | int) -> str:
    """A feature value or a threshold: whole numbers without a point, others as short as they round-trip."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def rounded(value: float | int) -> str:
    """A number for a person to read, not to compare: whole numbers in full, others to six figures."""
    return number_text(value) if isinstance(value, int) or value.is_integer() else f"{value:.6g}"


def slowdown_text(value: float, sign: str = "x") -> str:
    """A slowdown, rounded for people: 1.034x, 2.44x, 12.3x, 1200x, 3.8e+49x."""
    if value < 10:
        return f"{value:.{3 if value < 2 else 2}f}{sign}"
    return f"{value:.{'3g' if value < 100 else '0f' if value < 1e6 else '1e'}}{sign}"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the closest known word, if one is close."""
    # difflib takes the square of the length: a word of 100,000 characters is nobody's typing error.
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.6)
    return f"did you mean {quoted(close[0])}?" if close else None
