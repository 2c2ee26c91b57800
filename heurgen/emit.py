"""Writing generated text atomically, only where it changed; and how a file differs from it."""

from __future__ import annotations

import contextlib
import difflib
import os
import secrets
import stat
from pathlib import Path

from heurgen.errors import EmitError, printable

# A reader of a diff in a terminal does not scroll through a whole file.
_CONTEXT_LINES = 3


def write_atomic(path: str | Path, text: str) -> bool:
    """Write UTF-8 text so that readers, a crash or a full disk find the old file or the new one, never half.

    The temporary file lies in the same folder, so that the last step is a rename. An existing file keeps its
    mode; a link keeps pointing to the file that is replaced. Unchanged bytes are not rewritten. A device or a
    pipe (/dev/stdout) is written to as it is.

    Returns:
        Whether the file was written.

    Raises:
        EmitError: the folder is missing or read-only, the disk is full, or the path is a folder.
    """
    target = Path(path)
    try:
        data = text.encode("utf-8")
        if _is_special(target):
            target.write_bytes(data)
            return True
        target = target.resolve()
        if _bytes(target) == data:
            return False
        _replace(target, data, _mode(target))
    except (OSError, ValueError, RuntimeError) as error:
        raise _explained("write", path, error) from error
    return True


def diff(path: str | Path, text: str) -> str:
    """The unified diff from the file to the text, "" where they are equal; safe for a terminal.

    Raises:
        EmitError: the file exists and cannot be read.
    """
    try:
        old = (_bytes(Path(path)) or b"").decode("utf-8", "backslashreplace")
    except (OSError, ValueError) as error:
        raise _explained("read", path, error) from error
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


def _is_special(path: Path) -> bool:
    """A device, a pipe or a socket: it has no old bytes to keep, and a rename would put a file in its place."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _replace(target: Path, data: bytes, mode: int | None) -> None:
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
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


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
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return EmitError(f"cannot {action}: {reason}", file=path, hint=hint)
