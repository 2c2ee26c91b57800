"""Reading files within a bound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heurgen.base.errors import LogError, SpecError
from heurgen.base.reading import read_bytes, read_utf8


def test_a_file_of_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 10)
    assert read_bytes(path, LogError, 10) == b"x" * 10
    with pytest.raises(LogError) as caught:
        read_bytes(path, LogError, 9)
    assert str(caught.value) == f"{path}: is larger than 9 bytes (that is the most that heurgen reads)"


def test_a_limit_of_mebibytes_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.truncate(3 * 2**20)
    with pytest.raises(SpecError, match="is larger than 2 MiB"):
        read_bytes(path, SpecError, 2 * 2**20)


@pytest.mark.parametrize("limit", [2**20 + 4, 2**20 + 5])
def test_a_pipe_is_read_in_parts_to_its_limit(limit: int) -> None:
    data = b"ab" * 2**19 + b"12345"
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        with os.fdopen(write, "wb") as stream:
            stream.write(data)
        os._exit(0)
    os.close(write)
    try:
        if limit == len(data):
            assert read_bytes(f"/dev/fd/{read}", LogError, limit) == data
        else:
            with pytest.raises(LogError, match="is larger than 1 MiB"):
                read_bytes(f"/dev/fd/{read}", LogError, limit)
    finally:
        os.close(read)
        os.wait()


def test_a_byte_order_mark_is_left_out_and_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9")
    assert read_utf8(path, SpecError, 99) == "caf\xe9"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(SpecError) as caught:
        read_utf8(path, SpecError, 99)
    assert str(caught.value) == f"{path}: byte 3 is no UTF-8 (save the file as UTF-8)"


@pytest.mark.parametrize(
    ("name", "why"),
    [("missing", "No such file or directory"), ("", "Is a directory"), ("a\0b", "embedded null byte")],
)
def test_what_cannot_be_read_says_why_once(tmp_path: Path, name: str, why: str) -> None:
    path = f"{tmp_path}/{name}"
    with pytest.raises(LogError) as caught:
        read_bytes(path, LogError, 99)
    assert caught.value.message == f"cannot be read: {why}"
    assert caught.value.file == path
