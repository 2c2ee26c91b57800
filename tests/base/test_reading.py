"""Reading files within a bound."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from heurgen.base.errors import LogError, ModelError, SpecError
from heurgen.base.reading import check_lines, decoded, line_at, read_bytes, read_text, unpacked
from heurgen.base.writing import write_atomic
from heurgen.ir.schema import read_model


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
    assert read_text(path, SpecError, 99) == "caf\xe9"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(SpecError) as caught:
        read_text(path, SpecError, 99)
    assert str(caught.value) == f"{path}:1: byte 3 (0xe9) is no UTF-8 (save the file as UTF-8)"


def test_what_is_written_compressed_for_its_name_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "workload.toml.gz"
    write_atomic(path, "caf\xe9 = 1\n")
    assert path.read_bytes().startswith(b"\x1f\x8b")
    assert read_text(path, SpecError, 99) == "caf\xe9 = 1\n"


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


def test_a_limit_of_one_mebibyte_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(LogError, match=r"is larger than 1 MiB \(that is the most that heurgen reads\)$"):
        read_bytes(path, LogError, 2**20)
    with pytest.raises(LogError, match="is larger than 1048575 bytes"):
        read_bytes(path, LogError, 2**20 - 1)


PACKED = [gzip.compress(b"a,b\n" * 25, mtime=0), bz2.compress(b"a,b\n" * 25)]


@pytest.mark.parametrize("data", PACKED, ids=["gzip", "bzip2"])
def test_what_a_packed_file_stands_for_is_bounded(data: bytes) -> None:
    assert unpacked("f", data, LogError, 100) == b"a,b\n" * 25
    with pytest.raises(LogError) as caught:
        unpacked("f", data, LogError, 99)
    assert str(caught.value) == "f: is larger than 99 bytes (that is the most that heurgen reads)"
    assert unpacked("f", b"plain", LogError, 0) == b"plain"


@pytest.mark.parametrize(("data", "name"), [(PACKED[0], "gzip"), (PACKED[1], "bzip2")], ids=["gzip", "bzip2"])
def test_half_a_packed_file_is_broken(data: bytes, name: str) -> None:
    with pytest.raises(LogError) as caught:
        unpacked("f", data[:-9], LogError, 100)
    assert str(caught.value).startswith(f"f: broken {name} data: ")
    assert str(caught.value).endswith(" (is the file complete?)")


@pytest.mark.parametrize(
    ("data", "name"),
    [(lzma.compress(b"a,b\n"), "xz"), (b"\x28\xb5\x2f\xfd\x04", "zstd"), (b"PK\x03\x04\x14\0", "zip")],
    ids=["xz", "zstd", "zip"],
)
def test_what_is_packed_in_another_way_says_so(data: bytes, name: str) -> None:
    with pytest.raises(LogError) as caught:
        unpacked("f", data, LogError, 100)
    hint = "unpack it first; gzip and bzip2 are read as they are"
    assert str(caught.value) == f"f: this is {name} data, expected text ({hint})"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0", "f:1: byte 0 is NUL, expected text (save the file as UTF-8)"),
        (b"a\r\nb\rc\nd\0", "f:4: byte 8 is NUL, expected text (save the file as UTF-8)"),
        (b"a\n\xe9b", "f:2: byte 2 (0xe9) is no UTF-8 (save the file as UTF-8)"),
        (b"\xef\xbb\xbfa\n\xe9", "f:2: byte 5 (0xe9) is no UTF-8 (save the file as UTF-8)"),
        (b"\xff\xfea\0", "f:1: byte 0 (0xff) is no UTF-8 (save the file as UTF-8)"),
        (b"\xfe\xff\0a", "f:1: byte 0 (0xfe) is no UTF-8 (save the file as UTF-8)"),
    ],
)
def test_bytes_that_are_no_text_are_told_with_their_line(data: bytes, message: str) -> None:
    with pytest.raises(LogError) as caught:
        decoded("f", data, LogError)
    assert str(caught.value) == message


def test_text_is_read_without_its_mark() -> None:
    assert decoded("f", b"\xef\xbb\xbfcaf\xc3\xa9\r\n", LogError) == "caf\xe9\r\n"
    assert decoded("f", b"", LogError) == ""


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (b"", None), (b"12345", None), (b"123456", 1), (b"12345\n12345\r12345\r\n12345", None),
        (b"\n\r123456", 3), (b"1\n\r\n123456\n", 3), (b"12345\n123456", 2), (b"123456\n", 1), (b"123456\n12\r", 1),
    ],
)  # fmt: skip
def test_lines_have_an_end(data: bytes, row: int | None) -> None:
    if row is None:
        check_lines("f", data, LogError, 5)
        return
    with pytest.raises(LogError) as caught:
        check_lines("f", data, LogError, 5)
    hint = "is this a CSV file, with one measurement a line?"
    assert str(caught.value) == f"f:{row}: the line is longer than 5 bytes ({hint})"


def test_lines_end_in_three_ways() -> None:
    data = b"a\nb\r\nc\rd"
    assert [line_at(data, i) for i in (0, 1, 2, 3, 5, 6, 7)] == [1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_marks_of_a_merge_are_told_as_such(tmp_path: Path, bom: str, end: str) -> None:
    """A conflicting model was "no JSON", a module "edited by hand", and a log one with too few cells."""
    path = tmp_path / "model.json"
    for row, above in enumerate(("", f"{{{end}", f"{{{end}{end}"), 1):
        text = f"{bom}{above}<<<<<<< HEAD{end}1{end}======={end}2{end}>>>>>>> theirs{end}"
        path.write_bytes(text.encode())
        with pytest.raises(SpecError) as caught:
            read_text(path, SpecError, 999)
        assert str(caught.value) == (
            f"{path}:{row}: git left its mark of a conflict here, <<<<<<< (end the merge; what heurgen build wrote may "
            "be of either side, and is built again)"
        )
        with pytest.raises(ModelError, match=rf"model\.json:{row}: git left its mark of a conflict here"):
            read_model(path)
    for text in ("x <<<<<<< HEAD", "<<<<<<<<", "<<<<<<<\n"):
        assert unpacked("a", text.encode(), SpecError, 99) == text.encode()


def test_a_pointer_of_git_lfs_is_not_the_file(tmp_path: Path) -> None:
    """Of a log it was "the header lacks this column", of a model "no JSON"."""
    path = tmp_path / "log.csv"
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 12345\n")
    told = "this is a pointer of Git LFS, expected the file itself (git lfs pull fetches the file)"
    with pytest.raises(LogError) as caught:
        read_text(path, LogError, 999)
    assert str(caught.value) == f"{path}: {told}"
    with pytest.raises(ModelError, match="this is a pointer of Git LFS"):
        read_model(path)


@pytest.mark.parametrize(
    ("there", "named"), [("a.csv.gz", "a.csv"), ("a.csv", "a.csv.gz"), ("a.csv", "a.csv.bz2")]
)
def test_a_file_that_was_compressed_or_unpacked_is_named(tmp_path: Path, there: str, named: str) -> None:
    (tmp_path / there).touch()
    with pytest.raises(LogError) as caught:
        read_bytes(tmp_path / named, LogError, 9)
    assert str(caught.value) == (
        f"{tmp_path / named}: cannot be read: No such file or directory (there is {tmp_path / there})"
    )
    with pytest.raises(LogError, match=r"No such file or directory$"):
        read_bytes(tmp_path / "b.csv", LogError, 9)
