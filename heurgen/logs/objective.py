"""Whether numbers are times or throughputs, where the name of their column does not say it.

Their sizes do not tell: with the problem a time grows, and so does a throughput. Their distribution does: most configs
are nearer to the best time of a scenario than to the worst, on a logarithmic scale, whatever the problem. A throughput
that is read as a time turns that round, since the logarithm of a reciprocal is mirrored.
"""

from __future__ import annotations

import re
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import quoted
from heurgen.logs.cells import Cells, Codes
from heurgen.logs.naming import plain
from heurgen.logs.numbers import ms_in
from heurgen.logs.outcomes import UNTIMED
from heurgen.spec.log_columns import LogColumns, is_throughput, names_time, snake_case

Floats = NDArray[np.float64]
# Columns that say what a column of another name holds.
_WHAT = frozenset("unit units metric metric_name measure ylabel".split())
# Scenarios tell something from as many configs on, if they differ by more than noise, and a log from as many scenarios.
_CONFIGS, _SPREAD, _SCENARIOS = 8, 0.1, 10
# Where the median config lies between the best (0) and the worst (1): of 30 logs of times 0.11 to 0.47.
_PILED = 0.6


# Throughputs that are units. "bandwidth", "clock_rate" and "speedup" tell of something else than the cells as well.
_UNIT = re.compile(
    r"(?:^|[^a-z0-9])(?:[kmgtpe]flops?(?:ps|s)?|[kmgt]i?bps|[kmgt]i?b[_/ ]s|[gmt]ops)(?:$|[^a-z0-9])|per[_ ]s|/s"
)


def names_unit(name: str) -> bool:
    """Whether a name holds a unit of throughput: "gemm_tflops", "GFlops", "GB/s"."""
    return is_throughput(name) and _UNIT.search(snake_case(name)) is not None


def is_unsaid(table: Cells, time: str) -> bool:
    """Whether neither the name of the time column ("mean") nor its cells say what it holds."""
    said = names_time(time) or is_throughput(time)
    return not said and all(ms_in(text) is None for text in table.texts[time])


def throughput_beside(table: Cells, path: str) -> str | None:
    """What says that the measurements are throughputs: the texts of a column of units, or the file's name."""
    for column, texts in table.texts.items():
        if plain(column).lower() in _WHAT and all(map(names_unit, texts)):
            return texts[0]
    stem = PurePath(path).name.partition(".")[0]
    return stem if names_unit(stem) else None


def unsaid(what: str, max_: str) -> str:
    """The line for stderr on a draft that takes `what` for times only because nothing says otherwise."""
    return (
        f"nothing says whether {what} times or throughputs: read as times, less is better. "
        f"If more is better, this would choose the slowest configs: write {max_} in [log]"
    )


def piled_note(log: LogColumns, time: Floats, scenario: Codes, cell: Codes) -> list[str]:
    """A line for stderr where most configs are nearest the slowest, and no name says what the numbers are.

    `cell` is the same for repeats of a measurement.
    """
    names = [column for column, _ in log.wide] or [log.time]
    if log.winners_only or log.unit is not None or any(names_time(n) or is_throughput(n) for n in names):
        return []
    rows = np.flatnonzero(time < UNTIMED)
    rows = rows[_middles(time[rows], cell[rows])]
    places = _places(np.log(time[rows]), scenario[rows])
    if len(places) < _SCENARIOS or np.median(places) <= _PILED:
        return []
    what = "the cells" if log.wide else quoted(log.time)
    kinds = (
        ("throughputs", "times", "write") if log.objective == "min" else ("times", "throughputs", "remove")
    )
    return [
        f"most configs are nearer to the slowest than to the fastest, as if {what} held {kinds[0]} that are read as "
        f'{kinds[1]}: if so, {kinds[2]} objective = "max" in [log]'
    ]


def _sorted(values: Floats, group: Codes) -> tuple[Codes, Codes, Codes]:
    """The order of the values in their groups, and where each group begins in it and how many it has."""
    order = np.lexsort((values, group))
    _, starts, counts = np.unique(group[order], return_index=True, return_counts=True)
    return order, starts, counts


def _middles(values: Floats, group: Codes) -> Codes:
    """The place of the (lower) median of each group."""
    order, starts, counts = _sorted(values, group)
    found: Codes = order[starts + (counts - 1) // 2]
    return found


def _places(values: Floats, group: Codes) -> Floats:
    """Where the median of each group that tells something lies: 0 at its least value, 1 at its largest."""
    order, starts, counts = _sorted(values, group)
    values = values[order]
    low, high = values[starts], values[starts + counts - 1]
    middle = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    telling = (counts >= _CONFIGS) & (high - low > _SPREAD)
    found: Floats = (middle - low)[telling] / (high - low)[telling]
    return found
