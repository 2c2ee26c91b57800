"""The table `[heuristic.dejavu]` of a project file: triton-dejavu caches, read in place as a tuning log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heurgen.errors import UsageError, quoted
from heurgen.importers.common import Imported, check_text, counted
from heurgen.importers.dejavu import import_dejavu

Cells = Mapping[str, str]
_KEYS = ("device", "vendor", "rename", "constants", "drop")


@dataclass(frozen=True, slots=True)
class Declared:
    """`device`, `vendor` and `rename` as for `import_dejavu`; the others speak the names of the log.

    constants  columns that the caches lack -> the one value that they have
    drop       winners with all of these values are left out
    """

    device: str | None = None
    vendor: str | None = None
    rename: Cells | None = None
    constants: Cells | None = None
    drop: tuple[Cells, ...] = ()


def read_declared(table: Any) -> Declared:
    """Read the table.

    Raises:
        UsageError: it is not as described; `column` is the key.
    """
    if not isinstance(table, dict):
        raise _wrong("dejavu", table, "a table")
    for key in table:
        if key not in _KEYS:
            raise UsageError("is unknown", column=f"dejavu.{key}", hint=f"known: {', '.join(_KEYS)}")
    for key in ("device", "vendor"):
        if not isinstance(table.get(key, ""), str):
            raise _wrong(f"dejavu.{key}", table[key], "a string")
    drop = table.get("drop", [])
    if not isinstance(drop, list) or {} in drop:
        raise _wrong("dejavu.drop", drop, "a list of tables with column = value")
    rename = _cells(table.get("rename", {}), "dejavu.rename")
    return Declared(
        device=table.get("device"),
        vendor=table.get("vendor"),
        rename=rename,
        constants=_cells(table.get("constants", {}), "dejavu.constants"),
        drop=tuple(_cells(entry, "dejavu.drop") for entry in drop),
    )


def _cells(table: Any, key: str) -> Cells:
    if not isinstance(table, dict) or any(type(v) not in (str, int) for v in table.values()):
        raise _wrong(key, table, "a table of strings or whole numbers")
    return {name: str(value) for name, value in table.items()}


def _wrong(key: str, found: Any, expected: str) -> UsageError:
    return UsageError(f"found {quoted(found)}, expected {expected}", column=key)


def import_declared(files: Sequence[Path], declared: Declared) -> Imported:
    """The caches as a tuning log, without the winners to drop and with the constant columns.

    Raises:
        LogError, UsageError: as `import_dejavu`; a winner to drop that does not exist, a constant that does.
    """
    imported = import_dejavu(files, device=declared.device, vendor=declared.vendor, rename=declared.rename)
    for cells in declared.drop:
        imported = _without(imported, cells)
    return _with(imported, declared.constants or {})


def _without(imported: Imported, cells: Cells) -> Imported:
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


def _with(imported: Imported, constants: Cells) -> Imported:
    for name, value in constants.items():
        check_text(value, f"the constant {quoted(name)}")
        if name in imported.columns:
            raise UsageError(f"the caches have a column {quoted(name)}: it is no constant to add")
    rows = [(*row, *constants.values()) for row in imported.rows]
    return replace(imported, columns=(*imported.columns, *constants), rows=rows)
