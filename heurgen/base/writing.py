"""Writing generated text atomically, only where it changed; and how a file differs from it."""

from __future__ import annotations

import contextlib
import difflib
import errno
import gzip
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from heurgen.base.errors import EmitError, UsageError, printable, quoted
from heurgen.base.reading import path_of, reason

PathLike = TypeVar("PathLike", str, Path, str | Path)

# A reader of a diff in a terminal does not scroll through a whole file.
_CONTEXT_LINES = 3
_STANDARD = {"stdin": 0, "stdout": 1, "stderr": 2}
_OPEN_FILE = re.compile(r"/dev/(stdin|stdout|stderr)|/(?:dev|proc/self)/fd/([0-9]{1,6})")


def write_atomic(path: str | Path, text: str) -> bool:
    """Write UTF-8 text so that readers, a crash or a full disk find the old file or the new one, never half.

    The temporary file lies in the same folder, so that the last step is a rename. An existing file keeps its
    mode; a link keeps pointing to the file that is replaced. Unchanged bytes are not rewritten. A device, a
    pipe or an open file (/dev/stdout) is written to as it is. What is named .gz is compressed, as readers expect it.

    Returns:
        Whether the file was written.

    Raises:
        EmitError: the folder is missing or read-only, the disk is full, or the path is a folder.
    """
    path_of(path, EmitError)
    if not isinstance(text, str):
        raise EmitError(f"cannot write: found {quoted(type(text).__name__)}, expected text", file=path)
    return write_all({path: text})[path]


def write_all(texts: Mapping[PathLike, str]) -> dict[PathLike, bool]:
    """`write_atomic` for files that belong together: all of them are on the disk before the first is renamed.

    Raises:
        EmitError: as `write_atomic`; no file was written, unless a rename itself fails.
    """
    ready: dict[PathLike, _Prepared | None] = {}
    try:
        for path, text in texts.items():
            with _explaining("write", path):
                ready[path] = _prepare(Path(path), _encoded(path, text))
        for path, file in ready.items():
            with _explaining("write", path):
                _finish(file)
    finally:
        for file in ready.values():
            if file is not None and file.temporary is not None:
                with contextlib.suppress(OSError):
                    file.temporary.unlink()
    return {path: file is not None for path, file in ready.items()}


def _encoded(path: str | Path, text: str) -> bytes:
    data = text.encode("utf-8")
    # Without the time of day in it, the same text gives the same bytes.
    return gzip.compress(data, 6, mtime=0) if str(path).endswith(".gz") else data


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A file that is to be written: its new bytes lie in `temporary`; None for a device or a pipe."""

    target: Path
    data: bytes
    temporary: Path | None


def _prepare(path: Path, data: bytes) -> _Prepared | None:
    """None where the file has these bytes already."""
    if is_special(path):
        return _Prepared(path, data, None)
    target = path.resolve()
    if _bytes(target) == data:
        return None
    return _Prepared(target, data, _temporary(target, data, _mode(target)))


def _finish(file: _Prepared | None) -> None:
    if file is None:
        return
    if file.temporary is None:
        number = open_file(file.target)
        # Opened anew, what the shell appends to (`>> all.txt`) would begin again at its first byte.
        with file.target.open("wb") if number is None else os.fdopen(os.dup(number), "wb") as opened:
            opened.write(file.data)
        return
    os.replace(file.temporary, file.target)
    _sync_folder(file.target.parent)


@contextlib.contextmanager
def _explaining(action: str, path: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise _explained(action, path, error) from error


def check_outputs(
    outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None], *, folders: bool = False
) -> None:
    """Refuse to write a file that is read, or two outputs into one file. To be called before anything is read.

    Files are compared by identity: another spelling, a link or a hard link is the same file. None stands for an
    option that is not given. An input that is a folder stands for the files in it. Devices and pipes are
    neither inputs nor outputs that anything could destroy. `folders`: an output may be one, for files in it.

    Raises:
        UsageError: names the output and the input; or an output is no name of a file.
        EmitError: an output is a folder.
    """
    read = [Path(p) for p in inputs if p is not None]
    written: list[Path] = []
    for name in (str(p) for p in outputs if p is not None):
        if name in (
            "",
            "-",
        ):  # "-" is the standard input where something is read, and would be a file's name here
            raise UsageError(f"{quoted(name)} names no file", hint="/dev/stdout is the standard output")
        output = Path(name)
        if is_special(output):
            continue
        if not folders and os.path.isdir(output):
            raise _explained("write", output, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
        hint = "name another file to write"
        for other in read:
            if _same(output, other) or _lies_in(output, other):
                raise UsageError(
                    f"is an input ({printable(other)}) and would be lost", file=output, hint=hint
                )
        if any(_same(output, other) for other in written):
            raise UsageError("two outputs are the same file", file=output, hint=hint)
        written.append(output)


def _same(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except (OSError, ValueError):  # one of them is not there (yet), or no file can have its name
        return _real(a) == _real(b)


def _lies_in(file: Path, folder: Path) -> bool:
    try:
        return folder.is_dir() and file.is_file() and _real(folder) in Path(_real(file)).parents
    except (OSError, ValueError):
        return False


def _real(path: Path) -> Path:
    try:
        return Path(os.path.normcase(os.path.realpath(path)))
    except (OSError, ValueError):
        return path


def check_folder(path: Path) -> None:
    """Refuse a folder in which no file can be made, or that cannot be made itself. To be called before long work.

    Raises:
        EmitError: as `write_atomic` of a file in it would, after the work.
    """
    with _explaining("write", path):
        there = next(p for p in (path, *path.parents) if p.exists())
        _temporary(there / "any", b"", None).unlink()


def check_parents(paths: Iterable[str | Path | None]) -> None:
    """Refuse a file whose folder is not there, and a new file in one that takes none. To be called before long work.

    None stands as in `check_outputs`. A file that is there may have its bytes already, which needs no folder to write.

    Raises:
        EmitError: as `write_atomic` would, after the work.
    """
    for path in (Path(p) for p in paths if p is not None):
        with _explaining("write", path):
            path.parent.stat()
            if not path.exists():
                _temporary(path.resolve(), b"", None).unlink()


def make_folder(path: str | Path) -> None:
    """Make a folder, and those above it, where there is none.

    Raises:
        EmitError: a part of the path is a file, or the mode of a folder does not allow it.
    """
    with _explaining("make the folder", path):
        Path(path).mkdir(parents=True, exist_ok=True)


def diff(path: str | Path, text: str) -> str:
    """The unified diff from the file to the text, "" where they are equal; safe for a terminal.

    Raises:
        EmitError: the file exists and cannot be read.
    """
    with _explaining("read", path):
        old = (_bytes(Path(path)) or b"").decode("utf-8", "backslashreplace")
    name = printable(path)
    lines = difflib.unified_diff(
        _lines(old), _lines(text), name, f"{name} (generated)", n=_CONTEXT_LINES, lineterm=""
    )
    return "".join(printable(line) + "\n" for line in lines)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else [*lines, "\\ No newline at end of file"]


def _bytes(path: Path) -> bytes | None:
    """None where there is no file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def is_special(path: Path) -> bool:
    """A device, a pipe, a socket or an open file: it has no old bytes to keep, and nothing lies beside it.

    A rename would put a file in its place.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or open_file(path) is not None


def open_file(path: str | Path) -> int | None:
    """1 of /dev/stdout, 63 of /dev/fd/63: the number of the open file that a path stands for, or None."""
    found = _OPEN_FILE.fullmatch(str(path))
    return None if found is None else _STANDARD.get(found[1]) if found[1] else int(found[2])


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _temporary(target: Path, data: bytes, mode: int | None) -> Path:
    """A file with these bytes, on the disk, beside the target."""
    # After kill -9 a stray one is recognised by its name, and no glob for *.py finds it.
    temporary = target.parent / f".heurgen-{secrets.token_hex(8)}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut, where the system can (not on Windows)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_HINTS: list[tuple[type[Exception], str]] = [
    (FileNotFoundError, "create the folder first"),
    (NotADirectoryError, "a part of the path is a file"),
    (IsADirectoryError, "the path is a folder, name a file in it"),
    (PermissionError, "the mode of the file or of its folder does not allow it"),
]


def _explained(action: str, path: str | Path, error: Exception) -> EmitError:
    unchanged = "a file that was there is unchanged"
    hint = next((text for kind, text in _HINTS if isinstance(error, kind)), unchanged)
    return EmitError(f"cannot {action}: {reason(error)}", file=path, hint=hint)
