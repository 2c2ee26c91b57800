"""Which measurements succeeded, why the others failed, and times in ms."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import quoted
from heurgen.ir import Value
from heurgen.logs.cells import ABSENT, Cells, Fault
from heurgen.logs.coded import Coded, sorted_codes
from heurgen.logs.numbers import THOUSANDS, ms_in, numbers
from heurgen.spec.kernel_spec import MAX_TIME, MIN_TIME, NUMBER, KernelSpec, number

OK = "ok"
# What may stand for a failure, as `heurgen init` guesses it.
_WORD = re.compile(r"|(-1|0)(\.0)?|-?[A-Za-z][A-Za-z _-]{0,30}")
_WHOLE = re.compile(r"(-?[0-9]+)(\.0)?")
# Why a measurement without a time failed, where the log has no status column.
BLANK_TIME = "blank time"
# Stands for the time of a winner whose log gives none: the largest that may be read, so that no measured one is equal.
UNTIMED = MAX_TIME
# Texts that are all plain numbers, each with a line break.
_NUMBERS = re.compile(rf"(?:(?:{NUMBER.pattern})\n)*+")
Bools = NDArray[np.bool_]


def successes(cells: Cells, spec: KernelSpec) -> Bools:
    """Rows whose time counts: a status of [log] success; in a file without a status column, a time that is not blank.

    A time that is a word of [log] failures is a failure whatever the status; a winner needs no time.
    """
    timeless = rows_with(cells, spec.log.time, [""])
    good = rows_with(cells, spec.log.status, spec.log.success)
    absent = (
        cells.codes[spec.log.status] == ABSENT if spec.log.status in cells.codes else np.ones(cells.n, bool)
    )
    ok = np.where(absent, spec.log.winners_only | ~timeless, good)
    return np.asarray(ok & ~_failure_words(cells, spec))


def rows_with(cells: Cells, column: str, words: Sequence[str]) -> Bools:
    """The rows with one of these texts, whatever its case; False where the row's file lacks the column."""
    if not words or column not in cells.codes:
        return np.zeros(cells.n, dtype=np.bool_)
    known = _folded(words)
    found = [text.strip().lower() in known for text in cells.texts[column]]
    return np.array([*found, False])[cells.codes[column]]


def _folded(words: Sequence[str]) -> set[str]:
    """In lower case; -1 also as -1.0, and the other way: a frame's cells have no point, and the CSV of it has one."""
    known = {w.strip().lower() for w in words}
    whole = {found[1] for w in known if (found := _WHOLE.fullmatch(w))}
    return known | whole | {f"{w}.0" for w in whole}


def _failure_words(cells: Cells, spec: KernelSpec) -> Bools:
    return rows_with(cells, spec.log.time, spec.log.failures)


def known_time(time: float) -> float | None:
    """A time in ms; None for that of a winner whose log does not say it."""
    return None if time == UNTIMED else time


def statuses(cells: Cells, spec: KernelSpec) -> Coded:
    """ "ok", or why the row failed: the status column's text, else the failure word, else BLANK_TIME."""
    texts: list[Value] = [*cells.texts.get(spec.log.status, []), OK, BLANK_TIME]
    codes = cells.codes.get(spec.log.status, np.full(cells.n, ABSENT, dtype=np.int64))
    ok, n = successes(cells, spec), len(texts)
    words = [w.removesuffix(".0") or BLANK_TIME for w in cells.texts[spec.log.time]]
    by_word = n + cells.codes[spec.log.time]
    success = _folded(spec.log.success)
    said = [i for i, t in enumerate(texts) if str(t).strip().lower() in success]
    unsaid = np.isin(codes, [*said, ABSENT])
    implied = np.where(ok, n - 2, np.where(_failure_words(cells, spec), by_word, n - 1))
    used, codes = np.unique(np.where(unsaid, implied, codes), return_inverse=True)
    texts += words
    return sorted_codes([texts[u] for u in used.tolist()], codes)


def times(cells: Cells, spec: KernelSpec, faults: list[Fault]) -> NDArray[np.float64]:
    """Times in ms, NaN for a failure, whatever its cell says; 1 / throughput for objective "max"."""
    texts, codes = cells.texts[spec.log.time], cells.codes[spec.log.time]
    ok = successes(cells, spec)
    used = np.zeros(len(texts), dtype=np.bool_)
    used[codes[ok]] = True
    values = np.full(len(texts), np.nan)
    values[used] = _times([texts[code] for code in np.flatnonzero(used).tolist()], spec)
    found = np.where(ok, values[codes], np.nan)
    if (bad := ok & np.isnan(found)).any():
        row = int(np.argmax(bad))
        faults.append(Fault(row, spec.log.time, *_said(cells, spec, texts[codes[row]], row)))
    return found


def _times(texts: Sequence[str], spec: KernelSpec) -> NDArray[np.float64]:
    """NaN for what is no finite number above 0."""
    if _NUMBERS.fullmatch("\n".join((*texts, ""))):  # all of them at once: a million one by one take seconds
        found = np.array(list(map(float, texts)))
    else:
        found = np.array([math.nan if value is None else value for value in numbers(texts)])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        times = 1.0 / found if spec.log.objective == "max" else found * spec.log.to_ms
        times = _with_units(texts, times) if spec.log.objective != "max" else times
        times = np.where((times >= MIN_TIME) & (times < MAX_TIME), times, np.nan)
    if spec.log.winners_only and "" in texts:
        times[texts.index("")] = UNTIMED
    return times


def _with_units(texts: Sequence[str], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times, and those of texts that name their unit."""
    unread = np.flatnonzero(np.isnan(times)).tolist()
    for i, value in ((i, ms_in(texts[i])) for i in unread):
        times[i] = np.nan if value is None else value
    return times


def _said(cells: Cells, spec: KernelSpec, text: str, row: int) -> tuple[str, str]:
    has_status = spec.log.status in cells.codes and cells.codes[spec.log.status][row] != ABSENT
    words = " or ".join(word or "a blank one" for word in spec.log.success)
    hint = f"a failure has another status than {words}" if has_status else "a failure has a blank time"
    if text != text.strip():
        hint = "remove the spaces around the value"
    elif THOUSANDS.fullmatch(text) and number(text.replace(",", ".")) is None:
        hint = "write no commas between thousands"
    elif text.count(",") == 1 and number(text.replace(",", ".")) is not None:
        hint = "write a decimal point"
    elif _WORD.fullmatch(text):
        hint += f'; or name it in [log]: failures = ["{text}"]'
    what = "a finite throughput above 0" if spec.log.objective == "max" else "a finite time above 0"
    if (number(text) or 0.0) > 0:
        what += f", as a time of {MIN_TIME:g} to {MAX_TIME:g} ms"
    return f"found {quoted(text)}, expected {what}", hint
