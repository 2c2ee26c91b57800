"""pandas, the users' table: frames in, frames out. The one place that imports it, where it is used."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import LogError, quoted

if TYPE_CHECKING:
    from pandas import DataFrame

# Whole floats up to here are written as ints: pandas makes floats of ints where a cell is missing.
_EXACT = 2**53
# pandas' types that know missing values.
_NULLABLE = {int: "Int64", bool: "boolean"}


def is_frame(source: object) -> bool:
    """Whether this is a pandas DataFrame, or of a class made from it, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def make(columns: Mapping[str, Any]) -> DataFrame:
    """A frame of columns: lists, or arrays as they are."""
    import pandas

    return pandas.DataFrame({name: _whole(values) for name, values in columns.items()})


def from_records(records: Iterable[Mapping[str, Any]]) -> DataFrame:
    """A frame with a row a record; None where it lacks a key that others have."""
    rows = list(records)
    names = dict.fromkeys(name for row in rows for name in row)
    return make({name: [row.get(name) for row in rows] for name in names})


def _whole(values: Any) -> Any:
    """A list of ints or bools beside None as the type that knows missing values; pandas would make floats of ints."""
    import pandas

    kinds = set(map(type, values)) if isinstance(values, list) else set()
    kind = next((k for k in _NULLABLE if kinds == {k, type(None)}), None)
    return values if kind is None else pandas.array(values, dtype=_NULLABLE[kind])


def column(values: Sequence[Any], codes: NDArray[np.int64]) -> Any:
    """A column of coded values: ints, floats and bools as pandas types that know missing values, texts as they are."""
    import pandas

    present = [v for v in values if v is not None]
    kind = type(present[0]) if present and len({type(v) for v in present}) == 1 else object
    found = np.array([*values, None], dtype=object)[codes]
    if None in values and kind in (int, bool):
        return pandas.array(found, dtype=_NULLABLE[kind])
    return found.astype(kind) if kind in (int, float, bool) and None not in values else found


def columns_of(path: str, table: Any) -> dict[str, tuple[list[str], NDArray[np.int64]]]:
    """The columns of a frame: distinct texts, and a code into them for each row. A missing value is blank.

    Raises:
        LogError: the frame is empty, or a column has no name that is text, or holds lists or the like.
    """
    if not len(table.columns) or not len(table):
        raise LogError(
            "the frame has no rows" if len(table.columns) else "the frame has no columns", file=path
        )
    named = [name for name in table.index.names if name is not None]
    if named:  # what a groupby leaves is data too
        table = table.reset_index(allow_duplicates=True)
    found: dict[str, tuple[list[str], NDArray[np.int64]]] = {}
    for position, name in enumerate(table.columns):
        if not isinstance(name, str) or not name.strip():
            raise LogError(f"column {position} is named {quoted(name)}, expected text", file=path)
        if name in found:
            hint = "so has its index: reset_index(drop=True) leaves that out" if name in named else None
            raise LogError("two columns of the frame have this name", file=path, column=name, hint=hint)
        found[name] = _column(path, name, table.iloc[:, position])
    return found


def _column(path: str, name: str, column: Any) -> tuple[list[str], NDArray[np.int64]]:
    try:
        codes, values = column.factorize()
    except TypeError as error:
        row = next(i for i, v in enumerate(column) if isinstance(v, list | dict | set | np.ndarray))
        found = column.iloc[row]
        hint = "pandas.json_normalize makes columns of them" if isinstance(found, dict) else None
        said = f"found {quoted(found)}, expected a number or text"
        raise LogError(said, file=path, row=row, column=name, hint=hint) from error
    if np.asarray(values).dtype == np.float32:  # which Python's own floats would forget
        values = np.asarray(values)
    elif hasattr(values, "tolist"):
        values = values.tolist()
    texts = list(map(cell_text, values))
    codes = np.asarray(codes, dtype=np.int64)
    if (codes < 0).any():  # missing values
        codes = np.where(codes < 0, len(texts), codes)
        texts.append("")
    return texts, codes


def cell_text(value: Any) -> str:
    """A cell of a table as the text that a CSV would hold: a float32 0.1, not 0.10000000149011612; whole floats without
    a point.
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        number = float(value)
        if number.is_integer() and abs(number) <= _EXACT:
            return str(int(number))
        return str(value) if isinstance(value, np.float32) else repr(number)
    return str(value)
