"""The log as a journal: appended row by row, safe against a kill, and continued by --resume.

The log is a plain CSV from its first byte. Rows are written with one system call and synced to disk, so
that a killed sweep loses nothing it has written; a torn last line (the machine went down) is dropped
when the log is opened again. A lock keeps a second sweep off the same log.

Which GPU of several measured a row is not in the log. All rows of a scenario come from one of them, except
where a sweep ended in the middle of it: then the rest may come from another one of the same kind.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heurgen.errors import LogError, UsageError, quoted
from heurgen.ir import Value
from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.timing import Failure


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a log: scenario, vendor, device, features, parameters, status, time_ms, reason."""

    vendor: str
    device: str
    features: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def header(self) -> tuple[str, ...]:
        names = (*self.features, *self.parameters)
        return ("scenario", "vendor", "device", *names, "status", "time_ms", "reason")

    def row(self, scenario: Scenario, config: Settings, outcome: float | Failure) -> tuple[str, ...]:
        """One measurement as text, its time to the nanosecond (device events tick coarser)."""
        end = (
            ("ok", f"{outcome:.6f}", "")
            if isinstance(outcome, float)
            else (outcome.status, "", outcome.reason)
        )
        return (
            *(scenario.id, self.vendor, self.device),
            *(cell(scenario.features[f]) for f in self.features),
            *(cell(config.get(p)) for p in self.parameters),
            *end,
        )

    def key(self, config: Settings) -> tuple[str, ...]:
        """A config as its cells."""
        return tuple(cell(config.get(p)) for p in self.parameters)


@dataclass(frozen=True, slots=True)
class Row:
    """What the sweep needs of a row that is already in the log. `time` is None for a failure."""

    scenario: str
    config: tuple[str, ...]
    time: float | None


def cell(value: Value) -> str:
    """A value as the log holds it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | str) else repr(value)


class Journal:
    """An open log. `rows` is what it held when it was opened; `dropped` says whether a torn line was cut off.

    Raises:
        UsageError: the log exists and `resume` is false, or another process has it open.
        LogError: the log is not one that this sweep wrote.
    """

    def __init__(self, path: Path, layout: Layout, resume: bool) -> None:
        self.path, self.layout, self.dropped = path, layout, False
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
        """Write rows and sync them to disk."""
        text = _lines(rows).encode()
        while text:
            text = text[os.write(self._file, text) :]
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError("another sweep is writing this log", file=self.path) from error

    def _recover(self) -> tuple[Row, ...]:
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        rows, sound = self._read(whole)
        self.dropped = sound < len(content)
        os.ftruncate(self._file, sound)
        os.lseek(self._file, sound, os.SEEK_SET)
        if not sound:
            self.append([self.layout.header])
        return rows

    def _read(self, content: bytes) -> tuple[tuple[Row, ...], int]:
        """The rows, and up to which byte the log is sound. Only the last line may be unsound."""
        lines = content.splitlines(keepends=True)
        if not lines:
            return (), 0
        if lines[0] != _lines([self.layout.header]).encode():
            raise LogError(
                "the columns are not those of this sweep",
                file=self.path,
                row=1,
                hint="resume with the same target and space, or choose another name",
            )
        rows: list[Row] = []
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

    def _parse(self, line: bytes) -> Row | None:
        try:
            cells = next(csv.reader([line.decode()], strict=True))
            first = 3 + len(self.layout.features)
            if len(cells) != len(self.layout.header) or cells[1:3] != [
                self.layout.vendor,
                self.layout.device,
            ]:
                return None
            time = float(cells[-2]) if cells[-3] == "ok" else None
        except (UnicodeDecodeError, csv.Error, StopIteration, ValueError):
            return None
        return Row(cells[0], tuple(cells[first:-3]), time)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
