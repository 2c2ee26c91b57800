"""Numbers and tables as the commands print them."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def counted(n: int, noun: str) -> str:
    """`1 scenario`, `2 scenarios`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def ratio(value: float | None) -> str:
    """A slowdown."""
    return "unknown" if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    """A share."""
    return "unknown" if value is None else f"{100 * value:.1f} %"


SUMMARY_HEADER = ("geomean", "p95", "max", "within 1.1x", "invalid", "scenarios")


def summary_cells(summary: object) -> list[str]:
    """The cells under SUMMARY_HEADER of anything with the fields of `audit.score.Summary`."""
    ratios = [ratio(getattr(summary, f"{name}_slowdown")) for name in ("geomean", "p95", "max")]
    shares = [percent(getattr(summary, name)) for name in ("within_1_1", "invalid_share")]
    return [*ratios, *shares, str(getattr(summary, "n_scenarios"))]  # noqa: B009


def number_text(value: float | int) -> str:
    """A feature value or a threshold: whole numbers without a point, others as short as they round-trip."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
