"""AutoHeuristic's files: metadata, header and rows, and what can be wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError, LogError
from heurgen.logs.importers.autoheuristic import import_autoheuristic
from tests.logs.importers.helpers import reread
from tests.logs.importers.heuristics import HEADER, METADATA, ROWS, WriteHeuristic


def failure(kind: type[HeurgenError], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        import_autoheuristic(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("16,0.5,torch.float16,extern_mm", ":7: found 4 cells, expected 5 cells"),
        ("16,0.5,torch.float16,extern_mm,1.0,2", ":7: found 6 cells, expected 5 cells"),
        ("x,0.5,torch.float16,extern_mm,1.0", ":7: column 'm': found 'x', expected a number"),
        ("None,0.5,torch.float16,extern_mm,1.0", ":7: column 'm': found 'None', expected a number"),
        ("1,nan,torch.float16,extern_mm,1.0", ":7: column 'k/(m*n)': found 'nan', expected a number"),
        ("1,,torch.float16,extern_mm,1.0", ":7: column 'k/(m*n)': found '', expected a number"),
        (
            "1,0.5,,extern_mm,1.0",
            ":7: column 'dtype': found '', expected printable text without spaces around it",
        ),
        (
            "1,0.5,a\x1bb,extern_mm,1.0",
            r":7: column 'dtype': found 'a\x1bb', expected printable text without spaces around it",
        ),
        ("1,0.5,a,,1.0", ":7: column 'choice': found '', expected printable text without spaces around it"),
        ("1,0.5,a,b,-inf", ":7: column 'feedback': found '-inf', expected a time above 0 in ms, inf or nan"),
        ("1,0.5,a,b,0", ":7: column 'feedback': found '0', expected a time above 0 in ms, inf or nan"),
        ("1,0.5,a,b,-1", ":7: column 'feedback': found '-1', expected a time above 0 in ms, inf or nan"),
        (
            "1,0.5,a,b,1e999",
            ":7: column 'feedback': found '1e999', expected a time above 0 in ms, inf or nan",
        ),
        ("1,0.5,a,b,", ":7: column 'feedback': found '', expected a time above 0 in ms, inf or nan"),
        ('1,0.5,"a"b,c,1', ":7: is no CSV: ',' expected after '\"'"),
    ],
)
def test_bad_rows(write_heuristic: WriteHeuristic, row: str, message: str) -> None:
    path = write_heuristic([*ROWS, row, ROWS[0], row])
    assert failure(LogError, [path]) == f"{path}{message}"


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in METADATA.items() if k != key}


@pytest.mark.parametrize(
    ("metadata", "header", "message"),
    [
        ("m,k,choice", HEADER, ":1: the first line is no JSON object (expected AutoHeuristic's metadata)"),
        ("[1]", HEADER, ":1: the first line is a JSON list, expected an object"),
        (without("name"), HEADER, ":1: the metadata lacks 'name'"),
        (without("shared_memory"), HEADER, ":1: the metadata lacks 'shared_memory'"),
        (METADATA | {"name": 3}, HEADER, ":1: 'name' is '3', expected text"),
        (
            METADATA | {"numerical_features": "m"},
            HEADER,
            ":1: 'numerical_features' is 'm', expected a list of names",
        ),
        (
            METADATA | {"categorical_features": ["a", "a"]},
            HEADER,
            ":1: 'categorical_features' names a feature twice",
        ),
        (
            METADATA | {"categorical_features": ["m"]},
            HEADER,
            ":1: 'm' is a numerical and a categorical feature",
        ),
        (
            METADATA | {"device_capa": "9.0"},
            HEADER,
            ":1: device_capa '9.0' and shared_memory '232448' name no device "
            "(expected [major, minor] and bytes, or say which: --device NAME)",
        ),
        (METADATA, HEADER.replace("dtype", "m"), ":2: column 'm': is there twice"),
        (METADATA, HEADER + ",extra", ":2: column 'extra': is no feature of the metadata"),
        (METADATA, HEADER.replace(",choice", ""), ":2: column 'choice': is missing"),
        (METADATA, HEADER.replace("m,", ""), ":2: column 'm': is missing"),
    ],
)
def test_bad_heads(write_heuristic: WriteHeuristic, metadata: Any, header: str, message: str) -> None:
    path = write_heuristic(metadata=metadata, header=header)
    assert failure(LogError, [path]) == f"{path}{message}"


def test_files_that_hold_nothing_or_cannot_be_read(write_heuristic: WriteHeuristic, tmp_path: Path) -> None:
    empty = write_heuristic([])
    assert failure(LogError, [empty]) == f"{empty}: has no measurement"
    missing = tmp_path / "none.txt"
    assert failure(LogError, [missing]) == f"{missing}: cannot be read: No such file or directory"
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"\xe9")
    assert failure(LogError, [latin]) == f"{latin}:1: byte 0 (0xe9) is no UTF-8 (save the file as UTF-8)"


def test_blank_lines_windows_line_ends_and_a_byte_order_mark(write_heuristic: WriteHeuristic) -> None:
    path = write_heuristic([ROWS[0], "", *ROWS[1:], "", ""])
    expected = import_autoheuristic([write_heuristic(name="b.txt")]).csv_text()
    assert import_autoheuristic([path]).csv_text() == expected
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert import_autoheuristic([path]).csv_text() == expected


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), cut=st.integers(0, 40), new=st.text(max_size=8))
def test_any_damage_gives_a_log_or_one_clear_error(
    write_heuristic: WriteHeuristic, at: int, cut: int, new: str
) -> None:
    path = write_heuristic()
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:at] + new + text[at + cut :], encoding="utf-8", errors="replace")
    try:
        imported = import_autoheuristic([path])
    except HeurgenError as error:
        message = str(error)
        assert all(c == " " or c.isprintable() for c in message)
    else:
        reread(imported)
