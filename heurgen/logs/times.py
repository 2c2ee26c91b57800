"""Which column of a log holds the times of its kernels, for `heurgen init`."""

from __future__ import annotations

import re

import numpy as np

from heurgen.base.errors import LogError, quoted
from heurgen.logs import column_names
from heurgen.logs.cells import Cells
from heurgen.logs.naming import parents, plain
from heurgen.logs.numbers import THOUSANDS, ms_in, numbers
from heurgen.spec.log_columns import UNIT_WORDS, Unit, is_throughput, names_time, unit_of

# Times that do not say that they are, where no other column is one.
_MIDDLES = ("p50", "median", "mean", "avg", "average", "q50")
# Times of the host, where there is one of the device.
_HOST = re.compile(r"(^|[^a-z])(cpu|host|wall)([^a-z]|$)")
_OTHER_TIMES = re.compile(
    r"compil|warm|timestamp|overhead|verif|total|framework|baseline|reference|ref_|raw_times"
)
# When a run began, in tables of experiment trackers, and what they call the time that all of it took.
_BEGAN = frozenset("created created_at start_time datetime_start".split())
_OF_RUN = frozenset("runtime duration".split())
# Ray Tune's times of a trial.
_OF_TRIAL = frozenset("time_this_iter_s time_total_s time_since_restore".split())
# Columns that hold the unit of the times beside them.
_UNIT_COLUMN = "((time|latency|duration|runtime|metric|value|{})_)?units?"
# What stands beside averages in seconds: torch.utils.benchmark's, pytest-benchmark's.
_IN_SECONDS = ({"number_per_run"}, {"rounds", "ops"})


def time_column(table: Cells) -> str | None:
    """A column of numbers that is a time by its name, else an average of something, else a throughput.

    Of Optuna's trials, whose parameters are "params_x": what the study made small.
    """
    filled = [
        c
        for c in table.texts
        if not is_of_run(table, c) and 2 * len(_timed(table.texts[c])) >= len(table.texts[c])
    ]
    found = (
        [c for c in filled if names_time(c) and not _OTHER_TIMES.search(c.lower())]
        or [c for c in filled if plain(c).lower() in _MIDDLES]
        or [c for c in filled if is_throughput(c)]
        or [c for c in filled if c == "value" and any(parents(p) == ["params"] for p in table.texts)]
    )
    return min(
        found,
        key=lambda c: (
            bool(_HOST.search(c.lower())),
            not re.search("median|p50|(^|_)med(_|$)", c.lower()),
            not re.search("mean|avg", c.lower()),
        ),
        default=None,
    )


def is_of_run(table: Cells, column: str) -> bool:
    """Whether a time is that of a whole run, as W&B ("Runtime", "_runtime"), MLflow ("Duration") and Ray write it."""
    if column in _OF_TRIAL or any(key.startswith("_") for key in column.split(".")):
        return True
    return plain(column).lower() in _OF_RUN and any(plain(c).lower() in _BEGAN for c in table.texts)


def is_repeat(column: str, time: str) -> bool:
    """Whether the names are those of numbered runs ("run2_ms" beside "run1_ms"), and none of a percentile."""
    return (
        column_names.differ_in_numbers(column, time)
        and re.search(r"(^|[^a-z])[pq][0-9]", column.lower()) is None
    )


def _timed(texts: list[str]) -> list[str]:
    """The texts that are numbers, or times with a unit."""
    return [t for t, n in zip(texts, numbers(texts), strict=True) if n is not None or ms_in(t) is not None]


def holds_times(texts: list[str]) -> bool:
    """Whether most texts are times or failures: a column called `time` may hold dates, or nothing."""
    said = sum(not t or column_names.is_failure(t.strip().lower()) for t in texts)
    return any(texts) and 2 * (len(_timed(texts)) + said) >= len(texts)


def check_unit_row(table: Cells, time: str) -> None:
    """Refuses a row of units below the header, as Nsight Compute writes one: it would be a failure.

    Raises:
        LogError: there is one.
    """
    for text in table.texts[time]:
        if (unit := UNIT_WORDS.get(text.strip().lower())) is not None:
            hint = f'delete the row of units; unit = "{unit}" in [log] says the same'
            raise _at(table, time, text, f"found the unit {quoted(text)}, expected a time", hint)


def thousands_in(table: Cells) -> str | None:
    """A column that is a time by its name, whose numbers have commas between thousands ("1,234.5")."""
    return next(
        (c for c, texts in table.texts.items() if names_time(c) and any(map(THOUSANDS.fullmatch, texts))),
        None,
    )


def unit_beside(table: Cells, time: str) -> tuple[str, Unit] | None:
    """A column that holds the unit of the times, as Google Benchmark's does, or tells it, and this unit.

    Raises:
        LogError: it holds several.
    """
    if unit_of(time) is not None or any(ms_in(text) is not None for text in table.texts[time]):
        return None
    named = re.compile(_UNIT_COLUMN.format(re.escape(plain(time).lower())))
    for column in (c for c in table.texts if named.fullmatch(plain(c).lower())):
        texts = [text for text in table.texts[column] if text]
        units = {t: unit for t in texts if (unit := UNIT_WORDS.get(t.strip().lower())) is not None}
        if not units or len(units) < len(texts):
            continue
        (first, unit), *others = units.items()
        if other := next((t for t, u in others if u != unit), None):
            said = f"found the unit {quoted(other)}, expected {quoted(first)} as above: one of all times"
            raise _at(table, column, other, said, "convert the times to one unit")
        return column, unit
    names = {plain(c).lower(): c for c in table.texts}
    beside = (names[min(telling)] for telling in _IN_SECONDS if telling <= names.keys())
    return next(((c, "s") for c in beside), None) if plain(time).lower() in _MIDDLES else None


def check_aggregates(table: Cells) -> None:
    """Refuses means and deviations of rows that stand beside them, as Google Benchmark writes them of repetitions.

    Raises:
        LogError: there are such rows.
    """
    for column, texts in table.texts.items():
        kinds, known = plain(column).lower(), set(texts)
        stems = {t.rpartition("_")[0] for t in texts if kinds == "name" and t.endswith("_stddev")}
        found = (
            t
            for t in texts
            if (kinds == "run_type" and t == "aggregate")
            or ((stem := t.rpartition("_")[0]) in stems and f"{stem}_mean" in known)
        )
        if (text := next(found, None)) is not None:
            hint = "delete the rows of means, medians and deviations: repeats are combined when they are read"
            raise _at(table, column, text, f"found {quoted(text)}, expected a measurement of its own", hint)


def _at(table: Cells, column: str, text: str, said: str, hint: str) -> LogError:
    """An error at the first row with a text."""
    row = int(np.argmax(table.codes[column] == table.texts[column].index(text)))
    path, line = table.place(row)
    return LogError(said, file=path, row=line, column=column, hint=hint)
