"""What [log] says of a table's layout: constant columns, and tables with a column a config."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heurgen.base.errors import LogError, quoted
from heurgen.logs.cells import ABSENT, Cells, Codes
from heurgen.logs.vendors import vendor_of
from heurgen.spec.kernel_spec import KernelSpec


def arranged(cells: Cells, spec: KernelSpec) -> Cells:
    """The cells as a long table with all columns that the spec says to be there.

    Raises:
        LogError: two columns have one name in the spec, a column of [log.wide] is missing, a column that melting
            makes is there, no cell is filled, or a device whose name is to tell its vendor tells none.
    """
    cells = _renamed(cells, spec)
    if spec.log.wide:
        cells = _melted(cells, spec)
    if spec.log.winners_only and spec.log.time not in cells.texts:
        cells = _with(cells, spec.log.time, [""], np.zeros(cells.n, dtype=np.int64))
    for role, value in spec.log.constants:
        cells = _with(cells, getattr(spec.log, role), [value], np.zeros(cells.n, dtype=np.int64))
    if spec.log.vendor_by_name and spec.log.device in cells.texts:
        cells = _with(cells, spec.log.vendor, _vendors(cells, spec), cells.codes[spec.log.device])
    return _named(cells, spec.log.scenario)


def _named(cells: Cells, scenario: str) -> Cells:
    """Without the scenario's column in files where it is blank throughout, as in a frame of a log that has none."""
    if "" not in cells.texts.get(scenario, ()):
        return cells
    codes, blank = cells.codes[scenario].copy(), cells.texts[scenario].index("")
    for rows in map(cells.rows_of, cells.files):
        if (codes[rows] == blank).all():
            codes[rows] = ABSENT
    return replace(cells, codes={**cells.codes, scenario: codes})


def _renamed(cells: Cells, spec: KernelSpec) -> Cells:
    """The columns under the names that the spec gives them with `column`."""
    named = {c.column: c.name for c in (*spec.features, *spec.parameters) if c.column in cells.texts}
    if not named:
        return cells
    for column, name in named.items():
        if name in cells.texts:
            said = f"the log has this column too, and the spec reads {quoted(name)} from {quoted(column)}"
            raise LogError(
                said, file=cells.files[0].path, row=1, column=name, hint="give it another name there"
            )
    files = tuple(replace(f, header=tuple(named.get(h, h) for h in f.header)) for f in cells.files)
    texts = {named.get(n, n): t for n, t in cells.texts.items()}
    return replace(
        cells, files=files, texts=texts, codes={named.get(n, n): c for n, c in cells.codes.items()}
    )


def _with(cells: Cells, name: str, texts: list[str], codes: Codes) -> Cells:
    """The cells with one more column, or with another one in its place."""
    files = tuple(f if name in f.header else replace(f, header=(*f.header, name)) for f in cells.files)
    return replace(cells, files=files, texts={**cells.texts, name: texts}, codes={**cells.codes, name: codes})


def _vendors(cells: Cells, spec: KernelSpec) -> list[str]:
    """The vendor of each device, by its name."""
    devices = cells.texts[spec.log.device]
    found = [vendor_of(device) for device in devices]
    if None in found:
        code = found.index(None)
        path, line = cells.place(int(np.argmax(cells.codes[spec.log.device] == code)))
        raise LogError(
            f"found {quoted(devices[code])}, which tells no vendor",
            file=path, row=line, column=spec.log.device,
            hint='add a column of vendors, or write vendor = { const = "nvidia" } in [log]',
        )  # fmt: skip
    return [str(vendor) for vendor in found]


def _melted(cells: Cells, spec: KernelSpec) -> Cells:
    """A row for each filled cell of the config columns: its parameters, and its text as the time."""
    wide = spec.log.wide
    _check(cells, spec)
    names = [column for column, _ in wide]
    made = sorted({name for _, values in wide for name, _ in values})
    texts = {n: t for n, t in cells.texts.items() if n not in names}
    n, width = cells.n, len(wide)
    # Row i of the long table is cell (i // width, i % width) of the wide one.
    row, column = np.repeat(np.arange(n), width), np.tile(np.arange(width), n)
    codes = {name: cells.codes[name][row] for name in texts}
    texts[spec.log.time], codes[spec.log.time] = _times(cells, names)
    for name in made:
        found = [dict(values).get(name, "") for _, values in wide]
        texts[name] = list(dict.fromkeys(found))
        codes[name] = np.array([texts[name].index(t) for t in found], dtype=np.int64)[column]
    blank = texts[spec.log.time].index("") if "" in texts[spec.log.time] else -2
    keep = (codes[spec.log.time] != blank) & (codes[spec.log.time] != ABSENT)
    if not keep.any():
        raise LogError("every cell of the columns in [log.wide] is blank", file=cells.files[0].path)
    row, column = row[keep], column[keep]
    codes = {name: c[keep] for name, c in codes.items()}
    files = tuple(
        replace(f, header=(*(h for h in f.header if h not in names), *made, spec.log.time))
        for f in cells.files
    )
    return Cells(files, cells.copies, texts, codes, row, tuple(names[c] for c in column.tolist()))


def _times(cells: Cells, names: list[str]) -> tuple[list[str], Codes]:
    """The texts of all config columns as one, and the codes of every cell, row by row."""
    place: dict[str, int] = {}
    columns = []
    for name in names:
        own = [place.setdefault(text, len(place)) for text in cells.texts[name]]
        columns.append(np.array([*own, ABSENT], dtype=np.int64)[cells.codes[name]])
    return list(place), np.column_stack(columns).reshape(-1)


def _check(cells: Cells, spec: KernelSpec) -> None:
    for column, _ in spec.log.wide:
        if column not in cells.texts:
            raise LogError(
                "the header lacks this column of [log.wide]", file=cells.files[0].path, row=1, column=column
            )
    for name in (spec.log.time, *(p.name for p in spec.parameters)):
        if name in cells.texts and name not in dict(spec.log.wide):
            raise LogError(
                f"the wide table has a column {quoted(name)}, which its config columns stand for",
                file=cells.files[0].path,
                row=1,
                hint="rename it, or name another with [log] time",
            )
