"""Real traffic: feature columns with counts, as `heurgen.runtime.observe` writes them.

Lenient where a tuning log is strict: a row that a crash tore, or that does not fit the spec, is skipped and
counted, because a log of traffic is a sample anyway.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heurgen.base.errors import LogError, UsageError, quoted
from heurgen.base.text import counted
from heurgen.ir import Value
from heurgen.logs.cells import read_text
from heurgen.logs.delimited import checked_header, delimiter_of, records_of
from heurgen.spec.kernel_spec import KernelSpec, cell_value, number


@dataclass(frozen=True, slots=True)
class Traffic:
    """Distinct scenarios with their counts, in the order of their feature values."""

    rows: tuple[Mapping[str, Value], ...]
    counts: tuple[float, ...]
    notes: tuple[str, ...] = ()


def read_traffic(paths: Sequence[str], spec: KernelSpec, vendor: str) -> Traffic:
    """Read traffic files as one; rows of other vendors are left out where there is a vendor column.

    Raises:
        LogError: a file cannot be read, lacks a feature, or holds no row that fits the spec.
    """
    found: dict[tuple[Value, ...], float] = {}
    notes: list[str] = []
    why: str | None = None
    for path in paths:
        skipped: list[str] = []
        for line, row in _records(path, spec):
            # `observe` calls the column "vendor", whatever the tuning log does
            if row.get(spec.log.vendor, row.get("vendor", vendor)) != vendor:
                continue
            try:
                key, count = _read_row(row, spec)
            except UsageError as error:
                skipped.append(f"line {line}: {error}")
                why = why or skipped[0]
                continue
            found[key] = found.get(key, 0.0) + count
        if skipped:
            rows = counted(len(skipped), "row")
            notes.append(f"{path}: {rows} skipped, torn or not within the spec, first {skipped[0]}")
    if not found:
        raise LogError(f"holds no scenario of {vendor} that fits the spec", file=", ".join(paths), hint=why)
    names = [f.name for f in spec.features]
    keys = sorted(found, key=lambda k: tuple((str(type(v)), v) for v in k))
    return Traffic(
        tuple(dict(zip(names, k, strict=True)) for k in keys), tuple(found[k] for k in keys), tuple(notes)
    )


def _records(path: str, spec: KernelSpec) -> list[tuple[int, dict[str, str]]]:
    """(line that it ends in, cells by name) of each row; no cells of one with another number of them."""
    text = read_text(path)
    # A file of one's own may have semicolons or tabs, as a log may; of an observed one the last row may be torn.
    reader = records_of(text, delimiter_of(text), strict=False)
    try:
        records = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise LogError(f"this is no CSV: {error}", file=path) from error
    header = list(checked_header(path, records[0][1])) if records else []
    for feature in spec.features:
        if feature.name not in header:
            raise LogError(
                "the header lacks this feature",
                file=path,
                row=1,
                column=feature.name,
                hint="traffic has a column for every feature of the spec, and a column `count`",
            )
    # Two processes that begin a file at once may both write its header.
    rows = [(line, r) for line, r in records[1:] if r and r != header]
    return [(line, dict(zip(header, r, strict=True)) if len(r) == len(header) else {}) for line, r in rows]


def _read_row(row: Mapping[str, str], spec: KernelSpec) -> tuple[tuple[Value, ...], float]:
    """The features' values, and the count.

    Raises:
        UsageError: the row is torn, or not within the spec.
    """
    if not row:
        raise UsageError("it has another number of cells than the header")
    text = row.get(name := _count_column(spec), "1")
    count = number(text)
    if count is None or count <= 0:
        raise UsageError(f"found {quoted(text)}, expected a number above 0", column=name)
    return tuple(cell_value(f, row[f.name]) for f in spec.features), count


def _count_column(spec: KernelSpec) -> str:
    """`count`; `count_` where a feature is called that, as `heurgen.runtime.count_column` has it."""
    name, taken = "count", {f.name for f in spec.features}
    while name in taken:
        name += "_"
    return name
