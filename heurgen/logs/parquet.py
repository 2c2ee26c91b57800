"""Parquet -> columns of texts and codes, a column at a time. The one place that imports pyarrow, where it is used.

The footer says how much there is before anything is read: what is beyond the bounds is refused then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import LogError
from heurgen.logs.frame import cell_text
from heurgen.logs.jsonl import MAX_DEPTH

# Rows x columns: their codes take eight bytes each.
MAX_CELLS = 2**27
MAX_COLUMNS = 4096
# Bytes of all columns after decompression, as the footer says.
MAX_BYTES = 2**30
MAGIC = b"PAR1"


def read_parquet(
    path: str | os.PathLike[str], data: bytes | None = None
) -> dict[str, tuple[list[str], NDArray[np.int64]]]:
    """The columns of a file, or of `data`: distinct texts, and a code into them for each row. null and NaN are blank.

    Raises:
        LogError: it cannot be read, is beyond the bounds, a column holds lists or the like, or no package that
            reads Parquet is installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        hint = "pip install 'heurgen[parquet]'"
        raise LogError("reading Parquet needs the package pyarrow", file=path, hint=hint) from error
    try:
        with parquet.ParquetFile(path if data is None else pyarrow.BufferReader(data)) as file:
            leaves = list(_columns(path, file))
            _check(path, file, [".".join(parts) for parts in leaves])
            return {".".join(parts): _column(path, parts, file) for parts in leaves}
    except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise LogError(f"cannot be read as Parquet: {reason}", file=path) from error


def _columns(path: str | os.PathLike[str], file: Any) -> Iterator[tuple[str, ...]]:
    """The columns, less the nameless index that pandas writes beside them; of objects, one for each key."""
    names = file.schema_arrow.names
    if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
        raise LogError("two columns of the table have this name", file=path, column=twice)
    for name in names:
        if not name.startswith("__index_level_"):
            yield from _leaves(name, file.schema_arrow.field(name).type, 1)


def _leaves(name: str, kind: Any, depth: int) -> Iterator[tuple[str, ...]]:
    """A column, or of a column of objects their keys: ("config", "BLOCK_M")."""
    from pyarrow import types

    if not types.is_struct(kind) or depth >= MAX_DEPTH:
        yield (name,)
        return
    for i in range(kind.num_fields):
        yield from ((name, *rest) for rest in _leaves(kind.field(i).name, kind.field(i).type, depth + 1))


def _check(path: str | os.PathLike[str], file: Any, names: list[str]) -> None:
    meta = file.metadata
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    if not meta.num_rows or not names:
        raise LogError(f"the table has no {'rows' if names else 'columns'}", file=path)
    if len(names) > MAX_COLUMNS:
        raise LogError(f"found {len(names)} columns, expected at most {MAX_COLUMNS}", file=path)
    if (cells := meta.num_rows * len(names)) > MAX_CELLS:
        said = (
            f"found {meta.num_rows} rows x {len(names)} columns = {cells} cells, expected at most {MAX_CELLS}"
        )
        raise LogError(said, file=path, hint="split the file, or leave out columns")
    if (size := sum(g.total_byte_size for g in groups)) > MAX_BYTES:
        said = f"holds {size >> 20} MiB after decompression, expected at most {MAX_BYTES >> 20}"
        raise LogError(said, file=path, hint="split the file, or leave out columns")
    if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
        raise LogError("two columns of the table have this name", file=path, column=twice)


def _column(
    path: str | os.PathLike[str], parts: tuple[str, ...], file: Any
) -> tuple[list[str], NDArray[np.int64]]:
    import pyarrow
    from pyarrow import compute, types

    name = parts[0]
    found = file.read(columns=[name]).column(name)
    for part in parts[1:]:
        found = compute.struct_field(found, part)
    kind = found.type
    if types.is_nested(kind):
        said = f"the column holds {kind}, expected numbers or text"
        raise LogError(said, file=path, column=".".join(parts))
    if types.is_binary(kind) or types.is_large_binary(kind):  # text of writers that do not mark it as such
        found = found.cast(pyarrow.string())
    if not types.is_dictionary(found.type):
        found = found.dictionary_encode()
    whole = found.unify_dictionaries().combine_chunks()
    kept = whole.dictionary
    short = types.is_float32(kept.type)
    values = list(kept.to_numpy(zero_copy_only=False)) if short else kept.to_pylist()
    return _coded(values, whole.indices.fill_null(len(values)).to_numpy(zero_copy_only=False))


def _coded(values: list[Any], codes: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Texts that rows have; a dictionary may hold others. `codes` of null are the number of values."""
    texts = ["" if v is None or v != v else cell_text(v) for v in (*values, None)]
    used, found = np.unique(np.asarray(codes, dtype=np.int64), return_inverse=True)
    return [texts[u] for u in used.tolist()], found
