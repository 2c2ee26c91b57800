"""Reading files, bounded: no file, pipe or device makes a reader take more memory than its limit says."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable

from heurgen.base.errors import HeurgenError, quoted

_CHUNK = 2**20
_MEBI = 2**20
_BOM = b"\xef\xbb\xbf"
# What a compressed file begins with.
GZIP, BZIP2 = b"\x1f\x8b", b"BZh"
# What git begins a conflict with, on a line of its own.
_MERGE_MARK = b"<<<<<<< "
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_OTHERS = {b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}


def path_of(given: object, error: type[HeurgenError]) -> str:
    """A path as text.

    Raises:
        error: an open file, a frame of another library or what else is none; says what was found.
    """
    if isinstance(given, str | os.PathLike) and isinstance(path := os.fspath(given), str):
        return path
    hint = "give its path" if hasattr(given, "read") else None
    if hasattr(given, "to_pandas"):  # polars, pyarrow, cudf
        hint = "a frame's to_pandas() is one of pandas, which is read"
    raise error(f"found {quoted(type(given).__name__)}, expected a path", hint=hint)


def read_bytes(path: str | os.PathLike[str], error: type[HeurgenError], limit: int) -> bytes:
    """The bytes of a file of at most `limit` bytes.

    Raises:
        error: the file cannot be read, or is larger; names the file.
    """
    file = path_of(path, error)
    try:
        with open(file, "rb") as stream:
            status = os.fstat(stream.fileno())
            # A pipe or a device has no size beforehand, and a file may grow.
            regular = stat.S_ISREG(status.st_mode)
            data = b"" if regular and status.st_size > limit else _bounded(stream.read, limit)
    except (OSError, ValueError) as caught:
        hint = _beside(file) if isinstance(caught, FileNotFoundError) else None
        raise error(f"cannot be read: {reason(caught)}", file=file, hint=hint) from caught
    if len(data) > limit or (regular and status.st_size > limit):
        raise too_large(file, error, limit)
    return data


def _beside(file: str) -> str | None:
    """A hint where the file was compressed, or unpacked, since its name was written down."""
    others = (f"{file}.gz", f"{file}.bz2", file.removesuffix(".gz"), file.removesuffix(".bz2"))
    found = next((other for other in others if other != file and os.path.isfile(other)), None)
    return None if found is None else f"there is {found}"


def read_text(path: str | os.PathLike[str], error: type[HeurgenError], limit: int) -> str:
    """The text of a UTF-8 file, or of what a gzip or bzip2 file holds, of at most `limit` bytes, without a byte order
    mark.

    Raises:
        error: as `read_bytes`, `unpacked` and `decoded`.
    """
    file = path_of(path, error)
    return decoded(file, unpacked(file, read_bytes(file, error, limit), error, limit), error)


def unpacked(file: str, data: bytes, error: type[HeurgenError], limit: int) -> bytes:
    """What a gzip or bzip2 file stands for, known by its first bytes; other data as it is.

    It is measured before it is kept: five megabytes may stand for five gigabytes.

    Raises:
        error: it is broken, of another kind of compression, or stands for more than `limit` bytes; or git left a
            conflict in it, or the pointer to it.
    """
    if (other := next((name for magic, name in _OTHERS.items() if data.startswith(magic)), None)) is not None:
        hint = "unpack it first; gzip and bzip2 are read as they are"
        raise error(f"this is {other} data, expected text", file=file, hint=hint)
    if not data.startswith((GZIP, BZIP2)):
        _check_git(file, data, error)
        return data
    try:
        size = 0
        with _unpacking(data) as stream:
            while part := stream.read(_CHUNK):
                size += len(part)
                if size > limit:
                    raise too_large(file, error, limit)
        with _unpacking(data) as stream:
            return stream.read()
    except (EOFError, OSError, ValueError, zlib.error) as caught:  # gzip.BadGzipFile is an OSError
        name = "gzip" if data.startswith(GZIP) else "bzip2"
        raise error(f"broken {name} data: {caught}", file=file, hint="is the file complete?") from caught


def _check_git(file: str, data: bytes, error: type[HeurgenError]) -> None:
    if data.startswith(_LFS_POINTER):
        hint = "git lfs pull fetches the file"
        raise error("this is a pointer of Git LFS, expected the file itself", file=file, hint=hint)
    first = data.startswith((_MERGE_MARK, _BOM + _MERGE_MARK))
    mark = 0 if first else data.find(b"\n" + _MERGE_MARK) + 1
    if first or mark:
        hint = "end the merge; what heurgen build wrote may be of either side, and is built again"
        message = "git left its mark of a conflict here, <<<<<<<"
        raise error(message, file=file, row=line_at(data, mark), hint=hint)


def _unpacking(data: bytes) -> gzip.GzipFile | bz2.BZ2File:
    raw = io.BytesIO(data)
    return gzip.GzipFile(fileobj=raw) if data.startswith(GZIP) else bz2.BZ2File(raw)


def decoded(file: str, data: bytes, error: type[HeurgenError]) -> str:
    """UTF-8 text without a byte order mark.

    Raises:
        error: it is none, or holds NUL bytes; says on which line.
    """
    start = len(_BOM) if data.startswith(_BOM) else 0
    hint = "save the file as UTF-8"
    # UTF-16 is full of NUL bytes; its first two bytes tell it better.
    if not data.startswith((b"\xff\xfe", b"\xfe\xff")) and (nul := data.find(b"\0")) >= 0:
        raise error(f"byte {nul} is NUL, expected text", file=file, row=line_at(data, nul), hint=hint)
    try:
        return data[start:].decode() if start else data.decode()
    except UnicodeDecodeError as caught:
        at = start + caught.start
        message = f"byte {at} (0x{data[at]:02x}) is no UTF-8"
        raise error(message, file=file, row=line_at(data, at), hint=hint) from caught


def check_lines(file: str, data: bytes, error: type[HeurgenError], limit: int) -> None:
    """Raise `error` where a line is longer than `limit` bytes."""
    start = 0
    while start + limit < len(data):
        end = max(data.rfind(b"\n", start, start + limit + 1), data.rfind(b"\r", start, start + limit + 1))
        if end < 0:
            hint = "is this a CSV file, with one measurement a line?"
            message = f"the line is longer than {limit} bytes"
            raise error(message, file=file, row=line_at(data, start), hint=hint)
        start = end + 1


def line_at(data: bytes, offset: int) -> int:
    """The line, from 1, on which a byte stands; lines end in \\n, \\r\\n or \\r."""
    head = data[:offset].replace(b"\r\n", b"\n")
    return head.count(b"\n") + head.count(b"\r") + 1


def reason(error: Exception) -> str:
    """Why the system refused, without its error number and without the path once more."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def too_large(file: str, error: type[HeurgenError], limit: int) -> HeurgenError:
    size = f"{limit // _MEBI} MiB" if limit >= _MEBI else f"{limit} bytes"
    return error(f"is larger than {size}", file=file, hint="that is the most that heurgen reads")


def _bounded(read: Callable[[int], bytes], limit: int) -> bytes:
    parts, size = [], 0
    while size <= limit:
        part = read(min(_CHUNK, limit + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)
