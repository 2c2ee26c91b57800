"""Single launches that are not yet a row: LOG.samples, beside the log while a sweep runs.

Configs take turns, so a row (the median of several launches) is known only when its whole chunk is. A killed sweep
would lose a chunk of every lane; with the launches kept it loses the one that was under way. They are written at
once and not synced: a killed process loses nothing that way, and a machine that goes down a few launches. What has
become a row is forgotten, and the file goes away with the sweep's end.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from heurgen.base.errors import UsageError
from heurgen.base.writing import write_atomic
from heurgen.tune.timing import Failure

# Beyond this many bytes the file is written anew, without what has become rows.
MAX_BYTES = 1 << 22


class Measurement(NamedTuple):
    """A measurement under way: a launch in a scenario on a device, after `turn` measurements of it before."""

    vendor: str
    device: str
    scenario: str
    launch: str
    turn: int


Outcome = float | Failure


class Samples:
    """The launches of measurements under way. Not for two threads at once.

    `new`: the log is new. A file that lies there was left by a log that is gone, which may have been of another
    kernel: nothing in it counts.

    Raises:
        UsageError: the file cannot be written.
    """

    def __init__(self, log: Path, new: bool = False) -> None:
        self.path = log.with_name((log.name.removesuffix(".csv") or log.name) + ".samples")
        self._taken: dict[Measurement, list[Outcome]] = {}
        if not new:
            self._read()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if new else 0)
        try:
            self._file = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise self._trouble(error) from error
        self._size = os.fstat(self._file).st_size

    def taken(self, measurement: Measurement) -> Sequence[Outcome]:
        """Its launches so far, in order."""
        return self._taken.get(measurement, ())

    def add(self, measurement: Measurement, outcome: Outcome) -> None:
        """One launch more."""
        self._taken.setdefault(measurement, []).append(outcome)
        self._write(_line(measurement, outcome))

    def forget(self, measurements: Sequence[Measurement]) -> None:
        """They are rows now. The file says so: who deletes a row of the log has it measured again."""
        rows = [m for m in measurements if self._taken.pop(m, None) is not None]
        self._write(b"".join(_line(m, None) for m in rows))
        if self._size > MAX_BYTES:
            self._rewrite()

    def close(self, finished: bool) -> None:
        """Let go of the file, and where the sweep has finished remove it."""
        os.close(self._file)
        if finished or not self._taken:
            self.path.unlink(missing_ok=True)

    def _write(self, lines: bytes) -> None:
        try:
            os.write(self._file, lines)
        except OSError as error:
            raise self._trouble(error) from error
        self._size += len(lines)

    def _rewrite(self) -> None:
        text = b"".join(_line(m, outcome) for m, taken in self._taken.items() for outcome in taken)
        write_atomic(self.path, text.decode())
        os.close(self._file)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self._size = len(text)

    def _read(self) -> None:
        """What an earlier run left. It is a help and no record: a line that makes no sense is passed over."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            with suppress(ValueError, TypeError, RecursionError):
                *where, outcome = json.loads(line)
                measurement = Measurement(*where)
                texts = all(type(field) is str for field in measurement[:4])
                if outcome is None:
                    self._taken.pop(measurement, None)
                elif texts and type(measurement.turn) is int and (found := _outcome(outcome)) is not None:
                    self._taken.setdefault(measurement, []).append(found)

    def _trouble(self, error: OSError) -> UsageError:
        return UsageError(
            f"cannot keep the sweep's launches: {error.strerror}",
            file=self.path,
            hint="the log is sound; --resume continues it",
        )


def _line(measurement: Measurement, outcome: Outcome | None) -> bytes:
    """A launch, or with None that the launches of the measurement are a row."""
    held = [outcome.status, outcome.reason] if isinstance(outcome, Failure) else outcome
    return json.dumps([*measurement, held]).encode() + b"\n"


def _outcome(held: object) -> Outcome | None:
    if isinstance(held, float) and math.isfinite(held) and held > 0:
        return held
    match held:
        case [str() as status, str() as reason] if status != "ok":
            return Failure(status, reason)
    return None
