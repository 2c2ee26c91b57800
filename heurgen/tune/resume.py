"""The log as a journal: appended row by row, safe against a kill, and continued by --resume.

The log is a plain CSV from its first byte. Rows are written with one system call and synced to disk, so
that a killed sweep loses nothing it has written; a torn last line (the machine went down) is dropped
when the log is opened again. A lock keeps a second sweep off the same log. Single launches, of which a row is
the median, are kept beside it until they are a row (`heurgen.tune.samples`).

Which GPU of several measured a row is not in the log. All rows of a scenario come from one of them, except
where a sweep ended in the middle of it: then the rest may come from another one of the same kind.
"""

from __future__ import annotations

import csv
import fcntl
import io
import math
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heurgen.base.errors import LogError, UsageError, quoted
from heurgen.ir import Value
from heurgen.logs.card import FIRST, LAST
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.timing import Failure


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The columns of a log: scenario, vendor, device, features, parameters, status, time_ms, reason."""

    features: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def header(self) -> tuple[str, ...]:
        names = (*self.features, *self.parameters)
        return (*FIRST, *names, *LAST)

    def row(
        self, device: DeviceInfo, scenario: Scenario, config: Settings, outcome: float | Failure
    ) -> tuple[str, ...]:
        """One measurement as text, its time to the nanosecond (device events tick coarser)."""
        end = (
            ("ok", f"{outcome:.6f}", "")
            if isinstance(outcome, float)
            else (outcome.status, "", outcome.reason)
        )
        return (
            *(scenario.id, device.vendor, device.name),
            *(cell(scenario.features[f]) for f in self.features),
            *(cell(config.get(p)) for p in self.parameters),
            *end,
        )

    def key(self, config: Settings) -> tuple[str, ...]:
        """A config as its cells."""
        return tuple(cell(config.get(p)) for p in self.parameters)


@dataclass(frozen=True, slots=True)
class LoggedRow:
    """What the sweep needs of a row that is already in the log. `time` is None for a failure: see `reason`."""

    vendor: str
    device: str
    scenario: str
    features: tuple[str, ...]
    config: tuple[str, ...]
    time: float | None
    reason: str = ""


def why(status: str, reason: str) -> str:
    """A failure in one line: "crash: the process ended with signal SIGSEGV"."""
    return f"{status}: {reason}" if reason else status


def cell(value: Value) -> str:
    """A value as the log holds it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | str) else repr(value)


class Journal:
    """An open log. `rows` is what it held when it was opened; `dropped` says whether a torn line was cut off.

    `devices` are the (vendor, name) of those that have a card: rows of others are not this sweep's.

    Raises:
        UsageError: the log exists and `resume` is false, or another process has it open.
        LogError: the log is not one that this sweep wrote.
    """

    def __init__(
        self, path: Path, format_: RowFormat, devices: Collection[tuple[str, str]], resume: bool
    ) -> None:
        self.path, self.format, self.dropped = path, format_, False
        self._devices = frozenset(devices)
        self._trouble: UsageError | None = None
        flags = os.O_RDWR | os.O_CREAT | (0 if resume else os.O_EXCL)
        try:
            self._file = os.open(path, flags, 0o666)
        except FileExistsError as error:
            hint = "--resume continues it; or choose another name"
            raise UsageError("the log exists already", file=path, hint=hint) from error
        except OSError as error:
            raise UsageError(f"cannot write the log: {error.strerror}", file=path) from error
        try:
            self._lock()
            self.rows = self._recover()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, rows: Iterable[Sequence[str]]) -> None:
        """Write rows and sync them to disk, all of them or none; after a failure every call fails.

        Raises:
            UsageError: the disk is full or gone: the log ends with its last whole row. Or another file has its name.
        """
        if self._trouble is None and not self._has_its_name():
            hint = "--resume continues what is there now; an editor or `sed -i` puts a new file in its place"
            message = "the log was removed or replaced while the sweep wrote it"
            self._trouble = UsageError(message, file=self.path, hint=hint)
        if self._trouble is not None:
            raise self._trouble
        text = csv_text(rows).encode()
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            left = text
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            # Another lane must not write behind half a row. A kill before this line leaves a torn last line.
            os.ftruncate(self._file, end)
            os.lseek(self._file, end, os.SEEK_SET)
            self._trouble = UsageError(
                f"cannot write the log: {error.strerror}",
                file=self.path,
                hint="what was measured before is in it; --resume continues",
            )
            raise self._trouble from error

    def close(self) -> None:
        os.close(self._file)

    def _has_its_name(self) -> bool:
        """Whether what is written is what the path leads to: rows for a file without a name would be lost."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            return False

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError("another sweep is writing this log", file=self.path) from error

    def _recover(self) -> tuple[LoggedRow, ...]:
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        rows, sound = self._read(whole)
        self.dropped = sound < len(content)
        os.ftruncate(self._file, sound)
        os.lseek(self._file, sound, os.SEEK_SET)
        if not sound:
            self._begin(empty=not content)
        return rows

    def _begin(self, empty: bool) -> None:
        try:
            self.append([self.format.header])
        except UsageError as error:
            if not empty:
                raise
            self.path.unlink()  # a new try must not find "the log exists already"
            raise UsageError(error.message, file=self.path) from error

    def _read(self, content: bytes) -> tuple[tuple[LoggedRow, ...], int]:
        """The rows, and up to which byte the log is sound. Only the last line may be unsound."""
        lines = content.splitlines(keepends=True)
        if not lines:
            return (), 0
        # git may have turned the line ends into those of Windows, which every reader of logs takes.
        if lines[0].rstrip(b"\r\n") != csv_text([self.format.header]).encode().rstrip(b"\n"):
            raise LogError(
                "the columns are not those of this sweep",
                file=self.path,
                row=1,
                hint="resume with the same target and space, or choose another name",
            )
        rows: list[LoggedRow] = []
        for number, line in enumerate(lines[1:], start=2):
            row = self._parse(line)
            if row is None and number == len(lines):
                return tuple(rows), len(content) - len(line)
            if row is None:
                raise LogError(
                    f"no row of this sweep: {quoted(line.decode(errors='replace'))}",
                    file=self.path,
                    row=number,
                )
            rows.append(row)
        return tuple(rows), len(content)

    def _parse(self, line: bytes) -> LoggedRow | None:
        try:
            cells = next(csv.reader([line.decode()], strict=True))
            first = 3 + len(self.format.features)
            if len(cells) != len(self.format.header) or (cells[1], cells[2]) not in self._devices:
                return None
            ok = cells[-3] == "ok"
            time, reason = float(cells[-2]) if ok else None, "" if ok else why(cells[-3], cells[-1])
            if time is not None and not (math.isfinite(time) and time > 0):
                return None
        except (UnicodeDecodeError, csv.Error, StopIteration, ValueError):
            return None
        features, config = tuple(cells[3:first]), tuple(cells[first:-3])
        return LoggedRow(cells[1], cells[2], cells[0], features, config, time, reason)


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows as the log holds them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
