"""Parquet: cells as a CSV would hold them, and bounds that the footer is asked for before anything is read."""

from __future__ import annotations

import io
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import LogError
from heurgen.logs import parquet
from heurgen.logs.cells import read_cells

pyarrow = pytest.importorskip(
    "pyarrow", reason="reading Parquet needs pyarrow: pip install 'heurgen[parquet]'"
)
from pyarrow import parquet as writer  # noqa: E402


def write(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    writer.write_table(pyarrow.table(columns), folder / "log.parquet", **options)
    return folder / "log.parquet"


def test_cells_of_every_type(tmp_path: Path) -> None:
    coded = pyarrow.array(["b", "a", None]).dictionary_encode()
    columns = {
        "ints": pyarrow.array([2**60, None, -1]),
        "floats": [1.5, float("nan"), 64.0],
        "short": pyarrow.array([0.1, None, 64.0], pyarrow.float32()),
        "bools": [True, None, False],
        "texts": ["x", "", "\u00b5"],
        "coded": pyarrow.DictionaryArray.from_arrays(coded.indices, pyarrow.array(["b", "a"])),
        "unused": pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([1, 1, 1]), pyarrow.array(["never", "x"])
        ),
        "bytes": [b"x", b"y", None],
        "decimals": [Decimal("1.50"), None, Decimal("2.00")],
        "__index_level_0__": [4, 5, 6],
    }
    cells = read_cells([write(tmp_path, columns, row_group_size=2)])
    found = {n: [cells.texts[n][c] for c in codes] for n, codes in cells.codes.items()}
    assert found == {
        "ints": [str(2**60), "", "-1"],
        "floats": ["1.5", "", "64"],
        "short": ["0.1", "", "64"],
        "bools": ["true", "", "false"],
        "texts": ["x", "", "\u00b5"],
        "coded": ["b", "a", ""],
        "unused": ["x", "x", "x"],
        "bytes": ["x", "y", ""],
        "decimals": ["1.50", "", "2.00"],
    }
    assert all(set(texts) == set(found[name]) for name, texts in cells.texts.items())


def refused(path: Path) -> str:
    with pytest.raises(LogError) as error:
        read_cells([path])
    return str(error.value).replace(str(path), "FILE")


def test_objects_are_columns_of_their_own(tmp_path: Path) -> None:
    rows = [{"M": 1, "more": {"x": "a"}}, None, {"M": 2, "more": None}]
    cells = read_cells([write(tmp_path, {"problem": rows, "time": [1, 2, 3]})])
    found = {n: [cells.texts[n][c] for c in codes] for n, codes in cells.codes.items()}
    assert found == {"problem.M": ["1", "", "2"], "problem.more.x": ["a", "", ""], "time": ["1", "2", "3"]}


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, {"a": [1] * 100, "b": [2] * 100})
    monkeypatch.setattr(parquet, "MAX_CELLS", 199)
    split = "(split the file, or leave out columns)"
    assert refused(path) == f"FILE: found 100 rows x 2 columns = 200 cells, expected at most 199 {split}"
    monkeypatch.setattr(parquet, "MAX_CELLS", 200)
    monkeypatch.setattr(parquet, "MAX_COLUMNS", 1)
    assert refused(path) == "FILE: found 2 columns, expected at most 1"
    monkeypatch.setattr(parquet, "MAX_COLUMNS", 2)
    monkeypatch.setattr(parquet, "MAX_BYTES", 10)
    assert refused(path) == f"FILE: holds 0 MiB after decompression, expected at most 0 {split}"


def test_a_few_bytes_that_stand_for_many_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parquet.MAX_CELLS == 2**27
    monkeypatch.setattr(parquet, "MAX_CELLS", 2**20)
    path = write(tmp_path, {"a": pyarrow.nulls(2**20 + 1, pyarrow.int8())}, row_group_size=2**21)
    assert path.stat().st_size < 10_000
    assert refused(path).startswith(
        "FILE: found 1048577 rows x 1 columns = 1048577 cells, expected at most 1048576"
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"a": [[1], [2]]},
            "FILE: column 'a': the column holds list<element: int64>, expected numbers or text",
        ),
        (
            {"a": [{"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}]},
            "FILE: column 'a.b.c.d.e.f': the column holds struct<g: int64>, expected numbers or text",
        ),
        (
            {"a": [{"b": [1]}]},
            "FILE: column 'a.b': the column holds list<element: int64>, expected numbers or text",
        ),
        ({"a.b": [1], "a": [{"b": 1}]}, "FILE: column 'a.b': two columns of the table have this name"),
        ({"a": pyarrow.array([], pyarrow.int64())}, "FILE: the table has no rows"),
        ({"a": [b"\xff"]}, "FILE: cannot be read as Parquet: Invalid UTF8 payload"),
    ],
)
def test_what_is_no_table_of_cells(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    assert refused(write(tmp_path, columns)) == message


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    table = pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    writer.write_table(table, tmp_path / "log.parquet")
    assert refused(tmp_path / "log.parquet") == "FILE: column 'a': two columns of the table have this name"


def test_damaged_files(tmp_path: Path) -> None:
    data = write(tmp_path, {"a": list(range(50)), "b": ["x"] * 50}).read_bytes()
    path = tmp_path / "log.parquet"
    for end in range(4, len(data), 61):
        path.write_bytes(data[:end])
        assert refused(path).startswith("FILE: cannot be read as Parquet: ")


def test_the_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, {"a": [1, 2], "b": ["x", "y"]})
    with path.open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        cells = read_cells(["-"])
    assert cells.texts == read_cells([path]).texts
    assert cells.files[0].path == "<stdin>"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes()[:40])))
    with pytest.raises(LogError, match="<stdin>: cannot be read as Parquet"):
        read_cells(["-"])
