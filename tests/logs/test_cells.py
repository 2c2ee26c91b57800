"""Reading files: their bytes, several as one, what is taken as it is, and the one message for what is no text."""

from __future__ import annotations

import builtins
import csv
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import LogError
from heurgen.logs import cells
from heurgen.logs.cells import ABSENT, Cells, read_cells

GOOD = b"a,b\n1,x\n2,y\n"
GZ = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(500)), mtime=0)


def write(folder: Path, data: bytes, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def columns(cells: Cells) -> dict[str, list[str]]:
    return {name: [cells.texts[name][c] for c in codes] for name, codes in cells.codes.items()}


def read(folder: Path, data: bytes) -> dict[str, list[str]]:
    return columns(read_cells([write(folder, data)]))


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        GOOD.rstrip(b"\n"),
        GOOD + b"\n\n\n",
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"\n", b"\r\n") + b"\r\n",
        GOOD.replace(b"\n", b"\r"),
        b'"a","b"\n"1","x"\n"2","y"\n',
        gzip.compress(GOOD, mtime=0),
        gzip.compress(GOOD[:6], mtime=0) + gzip.compress(GOOD[6:], mtime=0),
        gzip.compress(b"\xef\xbb\xbf" + GOOD, mtime=0),
    ],
)
def test_forms_of_one_file(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path, data) == {"a": ["1", "2"], "b": ["x", "y"]}


def test_cells_are_taken_as_they_are(tmp_path: Path) -> None:
    values = [
        "None",
        "NA",
        "nan",
        "",
        " 1 ",
        "1,000",
        "1.0",
        "True",
        'say "x"',
        "a\nb",
        "\u2028\x0b",
        "0x1",
        "#",
        "\\",
    ]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["a", "a.1"], *([v, v] for v in values)])
    assert read(tmp_path, text.getvalue().encode()) == {"a": values, "a.1": values}


def test_columns_are_found_by_name_in_every_file(tmp_path: Path) -> None:
    one = write(tmp_path, GOOD, "1.csv")
    two = write(tmp_path, b"c,a\nz,1\n", "2.csv")
    cells = read_cells([one, two])
    assert [(f.path, f.first, f.n) for f in cells.files] == [(str(one), 0, 2), (str(two), 2, 1)]
    assert cells.texts == {"a": ["1", "2"], "b": ["x", "y"], "c": ["z"]}
    assert {n: c.tolist() for n, c in cells.codes.items()} == {
        "a": [0, 1, 0],
        "b": [0, 1, ABSENT],
        "c": [ABSENT, ABSENT, 0],
    }
    assert cells.place(1) == (str(one), 3)
    assert cells.place(2) == (str(two), 2)


def test_an_equal_file_is_read_once(tmp_path: Path) -> None:
    one, two = write(tmp_path, GOOD, "1.csv"), write(tmp_path, gzip.compress(GOOD, mtime=0), "2.csv.gz")
    cells = read_cells([one, two])
    assert cells.n == 2
    assert cells.copies == ((str(two), str(one)),)


BAD = {
    "only a byte order mark": (b"\xef\xbb\xbf", ": the file is empty, expected a CSV header"),
    "empty gzip": (gzip.compress(b""), ": the file is empty, expected a CSV header"),
    "long row": (
        b"a,b\n1,2,3\n",
        ":2: found 3 cells, expected 2 as in the header (a cell that holds a comma needs quotes)",
    ),
    "latin-1": (b"a,b\n1,2\n1,\xe9\n", ":3: byte 10 (0xe9) is no UTF-8 (save the file as UTF-8)"),
    "bad byte after a byte order mark": (
        b"\xef\xbb\xbfa,b\n1,\xff\n",
        ":2: byte 9 (0xff) is no UTF-8 (save the file as UTF-8)",
    ),
    "surrogate": (b"a,b\n1,\xed\xa0\x80\n", ":2: byte 6 (0xed) is no UTF-8 (save the file as UTF-8)"),
    "utf-16": (GOOD.decode().encode("utf-16"), ":1: byte 0 (0xff) is no UTF-8 (save the file as UTF-8)"),
    "utf-16 without mark": (
        GOOD.decode().encode("utf-16-le"),
        ":1: byte 1 is NUL, expected text (save the file as UTF-8)",
    ),
    "nul": (b"a,b\r\n1,\0\r\n", ":2: byte 7 is NUL, expected text (save the file as UTF-8)"),
    "cut gzip": (
        GZ[:-20],
        ": broken gzip data: Compressed file ended before the end-of-stream marker was reached "
        "(is the file complete?)",
    ),
    "gzip checksum": (GZ[:-8] + bytes(8), ": broken gzip data: CRC check failed (is the file complete?)"),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_bad_files(tmp_path: Path, case: str) -> None:
    data, expected = BAD[case]
    path = write(tmp_path, data)
    with pytest.raises(LogError) as error:
        read_cells([path])
    # CPython words the gzip checksum's detail differently in different versions.
    assert (
        re.sub("CRC check failed.*?(?= \\(is)", "CRC check failed", str(error.value)) == f"{path}{expected}"
    )


def test_damaged_gzip_is_a_log_error(tmp_path: Path) -> None:
    for position in range(10, len(GZ), 37):
        damaged = GZ[:position] + bytes([GZ[position] ^ 0xFF]) + GZ[position + 1 :]
        with pytest.raises(LogError, match="broken gzip data"):
            read(tmp_path, damaged)


def test_a_name_that_promises_gzip(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "log.csv.gz")
    with pytest.raises(LogError) as error:
        read_cells([path])
    assert str(error.value) == f"{path}: this is no gzip file (compress it, or drop the ending .gz)"


def message(*paths: str | Path) -> str:
    with pytest.raises(LogError) as error:
        read_cells(paths)
    return str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert message(tmp_path) == f"{tmp_path}: this is a directory, expected a CSV file"
    assert message(tmp_path / "no.csv") == f"{tmp_path}/no.csv: cannot be read: No such file or directory"
    assert message("a\0b") == "a\\x00b: cannot be read: embedded null byte"
    assert message() == "no log is given (name at least one CSV file)"

    def denied(*arguments: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, GOOD)
    monkeypatch.setattr(builtins, "open", denied)
    assert message(path) == f"{path}: cannot be read: Permission denied"


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(alphabet='a,"\n\r1 \ufeff\0é', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), data, "any.csv")
    try:
        cells = read_cells([path])
    except LogError as refused:
        place = refused.file
    else:
        assert cells.n > 0
        assert all(len(codes) == cells.n for codes in cells.codes.values())
        place = cells.files[0].path
    assert place == str(path)


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, packed = tmp_path / "log.csv", tmp_path / "log.csv.gz"
    monkeypatch.setattr("heurgen.logs.cells.MAX_BYTES", 2**20)
    path.write_bytes(b"a,b\n" + b"1,2\n" * 2**18)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, packed):
        assert message(file) == f"{file}: is larger than 1 MiB (that is the most that heurgen reads)"
    monkeypatch.setattr("heurgen.logs.cells.MAX_LINE", 100)
    hint = "(is this a CSV file, with one measurement a line?)"
    for end in ("\n", "\r", "\r\n"):
        path.write_bytes(f"a{end}{'b' * 100}{end}{'c' * 101}{end}".encode())
        assert message(path) == f"{path}:3: the line is longer than 100 bytes {hint}"
    path.write_text("a\n" + "b" * 100)
    assert read_cells([path]).texts == {"a": ["b" * 100]}


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module on Windows")
@pytest.mark.parametrize("kind", ["gzip bomb", "one line"])
def test_a_hostile_file_takes_little_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.csv.gz"
    line = b"nvidia,H200,1,2,3\n" * 2**16
    path.write_bytes(gzip.compress(line) * 256 if kind == "gzip bomb" else gzip.compress(b"x" * 2**26))
    program = (
        "import resource, sys\nfrom heurgen.base.errors import LogError\nfrom heurgen.logs import cells\n"
        "cells.MAX_BYTES = 2**26\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: cells.read_cells([sys.argv[1]])\nexcept LogError as error: print(error.message)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    found, mebibytes = done.stdout.splitlines()
    assert found == (
        "is larger than 64 MiB" if kind == "gzip bomb" else "the line is longer than 1048576 bytes"
    )
    assert int(mebibytes) < 200


def test_a_pipe_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a pipe to look at its first bytes closes it on its writer: rows were lost, or waited for."""
    monkeypatch.setattr(
        cells, "open", lambda *_: pytest.fail("the pipe is opened to look at it"), raising=False
    )
    os.mkfifo(tmp_path / "log.csv")
    Thread(target=(tmp_path / "log.csv").write_text, args=("a,b\n" + "1,2\n" * 9,), daemon=True).start()
    assert read_cells([tmp_path / "log.csv"]).n == 9
