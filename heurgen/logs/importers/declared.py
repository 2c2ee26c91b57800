"""The table `[heuristic.dejavu]` of a project file: triton-dejavu caches, read in place as a tuning log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import counted
from heurgen.base.toml import Table
from heurgen.logs.importers import dejavu
from heurgen.logs.importers.collect import Options, Texts
from heurgen.logs.importers.common import Imported, check_text
from heurgen.logs.importers.foreign import read_foreign

_KEYS = ("device", "vendor", "rename", "constants", "drop")


@dataclass(frozen=True, slots=True)
class Declared:
    """`device`, `vendor` and `rename` as for `heurgen import dejavu`; the others speak the names of the log.

    constants  columns that the caches lack -> the one value that they have
    drop       winners with all of these values are left out
    """

    device: str | None = None
    vendor: str | None = None
    rename: Texts = field(default_factory=dict)
    constants: Texts = field(default_factory=dict)
    drop: tuple[Texts, ...] = ()


def read_declared(table: Table) -> Declared:
    """Read the table.

    Raises:
        SpecError: it is not as described; `column` is the key.
    """
    table.only(*_KEYS)
    drop = [_cells(entry) for entry in table.tables("drop")]
    if {} in drop:
        raise table.wrong("drop", "tables with column = value")
    return Declared(
        device=table.text("device", None),
        vendor=table.text("vendor", None),
        rename=_cells(table.table("rename")),
        constants=_cells(table.table("constants")),
        drop=tuple(drop),
    )


def _cells(table: Table) -> Texts:
    """Column -> cell; a whole number stands for its text."""
    for name in table:
        if type(table.data[name]) not in (str, int):
            raise table.wrong(name, "a string or a whole number")
    return {name: str(value) for name, value in table.data.items()}


def import_declared(files: Sequence[Path], declared: Declared) -> Imported:
    """The caches as a tuning log, without the winners to drop and with the constant columns.

    Raises:
        LogError, UsageError: as `dejavu.run`; a winner to drop that does not exist, a constant that does.
    """
    options = Options(device=declared.device, vendor=declared.vendor, rename=declared.rename)
    imported = dejavu.run([read_foreign(file) for file in files], options)
    for cells in declared.drop:
        imported = _without(imported, cells)
    return _with(imported, declared.constants)


def _without(imported: Imported, cells: Texts) -> Imported:
    text = ", ".join(f"{name} {value}" for name, value in cells.items())
    if unknown := sorted(cells.keys() - set(imported.columns)):
        names = ", ".join(imported.columns)
        raise UsageError(f"no column {quoted(unknown[0])} to drop winners by", hint=f"columns: {names}")
    places = {imported.columns.index(name): value for name, value in cells.items()}
    rows = [row for row in imported.rows if any(row[i] != value for i, value in places.items())]
    if not rows or len(rows) == len(imported.rows):
        raise UsageError(
            f"{'every' if not rows else 'no'} winner has {text}", hint="mend drop in the project file"
        )
    note = f"dropped as declared: {counted(len(imported.rows) - len(rows), 'winner')} with {text}"
    return replace(imported, rows=rows, notes=(*imported.notes, note))


def _with(imported: Imported, constants: Texts) -> Imported:
    for name, value in constants.items():
        check_text(value, f"the constant {quoted(name)}")
        if name in imported.columns:
            raise UsageError(f"the caches have a column {quoted(name)}: it is no constant to add")
    rows = [(*row, *constants.values()) for row in imported.rows]
    return replace(imported, columns=(*imported.columns, *constants), rows=rows)
