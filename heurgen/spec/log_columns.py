"""`[log]` of a kernel spec: where a log keeps its bookkeeping, and how its times are to be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from heurgen.base.errors import quoted
from heurgen.base.toml import Table

Unit = Literal["s", "ms", "us", "ns"]
# Milliseconds of one unit.
MS: Mapping[Unit, float] = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
UNIT_WORDS: Mapping[str, Unit] = {
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
}
_TIME_WORDS = frozenset("time timing times latency duration runtime elapsed ms us ns walltime".split())
_THROUGHPUT = re.compile(
    r"(?:^|[^a-z0-9])(?:[kmgtpe]?flops?(?:ps)?|[kmgt]?i?bps|[kmgt]i?b[_/ ]?s(?:ec)?|[gtm]ops|throughput|tput|bandwidth|"
    r"bw|qps|tps|rps|fps|iops|[kmgt]lups|[kmg]?cups|gups|speed|speedup|mfu|hfu|utili[sz]ation|efficiency|rate)"
    r"(?:$|[^a-z0-9])"
    r"|(?:^|[^a-z0-9])per[_ ]?(?:s|sec|secs|second|seconds|ms|us|minute|min)(?:$|[^a-z])"
    r"|[a-z]/(?:s|sec|second)(?:$|[^a-z])"
    r"|(?:tokens?|toks?|samples?|items?|iters?|requests?|images?|elements?|elems?|cells)_?(?:ps|_s)(?:$|[^a-z])"
    r"|(?:^|[^a-z])(?:tokens|toks|samples|items|iters|iterations|its|requests|reqs|images|frames|steps|queries|calls|words|"
    r"points|pixels|updates|edges|elements|elems|bytes|ops)[_ ]s(?:ec(?:ond)?s?)?(?:$|[^a-z])"
)
# A number of operations, whatever their time.
_COUNT = re.compile(r"(?:total|num|n|nr)_?[kmgt]?flops?|flop|flops?_?count")
# A part of something, as "elapsed" is in "avg.pct_of_peak_sustained_elapsed".
_PERCENT = re.compile(r"%|(?:^|[^a-z])(?:pct|percent(?:age)?)(?:$|[^a-z])")
_PAIR = re.compile(r"[A-Za-z_][\w-]*=[\w.+-]+")
# Keys that name the column of a role.
ROLES = ("vendor", "device", "time", "status", "scenario")
# What a column of the log can be replaced by one value for.
_CONSTANTS = ("vendor", "device")
# vendor = { from = "device" }
BY_NAME = {"from": "device"}
WideColumn = tuple[str, tuple[tuple[str, str], ...]]


# Whoever writes 2 means two percent; times that are off by all of themselves tell nothing.
MAX_NOISE = 1.0


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Names of the bookkeeping columns, and what else reading needs to know.

    noise         relative noise where a log has no repeats, 0 to MAX_NOISE: 0.02 is two percent
    unit          of the time column; None: what its name says ("time_us"), else ms
    objective     "max": the time column holds a throughput, and 1 / it is read as a time
    success       texts of the status column, whatever their case, that say a measurement succeeded ("" is a blank cell)
    failures      texts of the time column, whatever their case, that are failures ("" is a blank cell)
    winners_only  every row is the winner of a scenario of its own; its time may be blank, slowdown is unknown
    pruned        configs that could not win a scenario were not measured there: a gap is a loser, not one that fails
    constants     ("vendor", "nvidia"): the log has no such column, and this is what it would hold
    vendor_by_name  there is no column of vendors: the names of the devices tell them
    wide          a column a config: (column, its parameters and their texts); each cell is a time, a blank one
                  was not measured
    """

    vendor: str = "vendor"
    device: str = "device"
    time: str = "time_ms"
    status: str = "status"
    scenario: str = "scenario"
    noise: float = 0.02
    unit: Unit | None = None
    objective: Literal["min", "max"] = "min"
    success: tuple[str, ...] = ("ok",)
    failures: tuple[str, ...] = ()
    winners_only: bool = False
    pruned: bool = False
    constants: tuple[tuple[str, str], ...] = ()
    vendor_by_name: bool = False
    wide: tuple[WideColumn, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.vendor, self.device, self.time, self.status, self.scenario)

    @property
    def to_ms(self) -> float:
        """What a cell of the time column is multiplied by."""
        return MS[self.unit or unit_of(self.time) or "ms"]


def snake_case(name: str) -> str:
    """`WinnerGFlops` -> winner_gflops; what stands between words stays."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _words(name: str) -> list[str]:
    """`latency (ms)`, `kernelTimeUs` -> words in lower case."""
    return [w for w in re.split(r"[^a-z0-9µμ]+", snake_case(name)) if w]


def names_config(name: str) -> bool:
    """Whether a name is nothing but parameters ("GROUP_SIZE_M=8,speedup=1"): it says nothing of the cells."""
    parts = "=".join(part.strip() for part in name.strip(" (){}[]").split("="))
    return all(_PAIR.fullmatch(part) for part in re.split(r"[,;\s]+", parts))


def unit_of(name: str) -> Unit | None:
    """The unit of time that a column's name ends in ("time_us", "latency (ms)", "us_mean"), if any."""
    words = [] if names_config(name) else _words(name)
    found = [UNIT_WORDS[w] for w in words if w in UNIT_WORDS and (w != "s" or len(words) > 1)]
    return None if not found or is_throughput(name) else found[-1]


def names_time(name: str) -> bool:
    """Whether a name says that it is a time."""
    return not (is_throughput(name) or is_percentage(name) or names_config(name)) and (
        bool(_TIME_WORDS.intersection(_words(name))) or unit_of(name) is not None
    )


def is_throughput(name: str) -> bool:
    """Whether a name says that more is better: tflops, gbps, tokens_per_s, GB/s and the like."""
    found = _THROUGHPUT.search(snake_case(name)) is not None
    return found and not (is_flop_count(name) or names_config(name))


def is_percentage(name: str) -> bool:
    return not names_config(name) and _PERCENT.search(snake_case(name)) is not None


def is_flop_count(name: str) -> bool:
    """Whether a name is that of a number of operations ("TotalFlops"), which is the same for every config."""
    return _COUNT.fullmatch(name.strip().lower()) is not None


# --- reading ----------------------------------------------------------------------------------------------


def read_log_columns(table: Table) -> LogColumns:
    """The `[log]` table of a spec.

    Raises:
        SpecError: a key is unknown, a value is none that it can have, or the time column is a throughput
            by its name and `objective` does not say so.
    """
    default = LogColumns()
    table.only(*ROLES, "noise", "unit", "objective", "success", "failures", "winners_only", "pruned", "wide")
    names, constants = {}, []
    for key in ROLES:
        if key in _CONSTANTS and isinstance(table.data.get(key), Mapping):
            if key == "vendor" and "from" in table.data[key]:
                if table.data[key] != BY_NAME:
                    raise table.wrong(key, '{ from = "device" }')
                continue
            constants.append((key, _constant(table.table(key))))
            continue
        expected = (
            'the name of a column, or { const = "nvidia" }' if key in _CONSTANTS else "the name of a column"
        )
        names[key] = table.text(key, getattr(default, key), expected=expected)
        if not names[key]:
            raise table.wrong(key, expected)
    expected = "a share from 0 to 1: 0.02 is two percent"
    found = LogColumns(
        **names,
        noise=float(table.number("noise", default.noise, low=0, high=MAX_NOISE, expected=expected)),
        unit=_one_of(table, "unit", tuple(MS), None),
        objective=_one_of(table, "objective", ("min", "max"), "min"),
        success=table.texts("success", default.success, expected='a list of texts such as ["ok", "passed"]'),
        failures=table.texts("failures", (), expected='a list of texts such as ["OOM", "nan"]'),
        winners_only=table.flag("winners_only", False),
        pruned=table.flag("pruned", False),
        constants=tuple(constants),
        vendor_by_name=table.data.get("vendor") == BY_NAME,
        wide=_wide(table.table("wide")),
    )
    _check_objective(table, found)
    return found


def _constant(table: Table) -> str:
    table.only("const")
    value = table.text("const")
    if not value or value != value.strip():
        raise table.wrong("const", "text without spaces around it")
    return value


def _one_of(table: Table, key: str, allowed: tuple[str, ...], default: str | None) -> Any:
    if key not in table:
        return default
    expected = f"one of {', '.join(allowed)}"
    if table.text(key, expected=expected) not in allowed:
        raise table.wrong(key, expected)
    return table.data[key]


def _check_objective(table: Table, log: LogColumns) -> None:
    if log.objective == "min" and is_throughput(log.time):
        hint = 'write objective = "max" in [log], or name the column of the time'
        message = f"{quoted(log.time)} is a throughput by its name, and would be read as a time"
        raise table.error(message, "time", hint)
    if log.objective == "max" and names_time(log.time):
        hint = 'objective = "max" is for a throughput; name its column with time = ...'
        raise table.error(f"the column {quoted(log.time)} is a time by its name", "objective", hint)
    if log.objective == "max" and log.unit is not None:
        raise table.error('unit does not go with objective = "max"', "unit")


def _wide(table: Table) -> tuple[WideColumn, ...]:
    found = []
    for column in table:
        entry = table.table(column, hint="write { BLOCK_M = 64, num_warps = 4 }")
        if not entry.data:
            raise table.wrong(column, "the parameters of the config")
        found.append((column, tuple((name, _cell(entry, name)) for name in entry)))
    return tuple(found)


def _cell(table: Table, name: str) -> str:
    value = table.data[name]
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | float | str) or value == "":
        raise table.wrong(name, "a number, true, false or text")
    return value if isinstance(value, str) else repr(value)


def check_wide(table: Table, log: LogColumns, parameters: tuple[str, ...], others: tuple[str, ...]) -> None:
    """What [log.wide] names must be parameters of the spec, and no column may have another role.

    Raises:
        SpecError: it is otherwise.
    """
    seen: dict[tuple[tuple[str, str], ...], str] = {}
    wide = table.table("wide")
    for column, values in log.wide:
        if log.objective == "min" and is_throughput(column):
            raise wide.error(
                f"{quoted(column)} is a throughput by its name, and would be read as a time; "
                'write objective = "max" and time = "throughput" in [log]',
                column,
            )
        if column in others or column in log.names:
            raise wide.error(f"{quoted(column)} has another role in the spec", column)
        for name, _ in values:
            if name not in parameters:
                raise wide.error(f"{quoted(name)} is no parameter", column)
        if (other := seen.setdefault(tuple(sorted(values)), column)) != column:
            raise wide.error(f"{quoted(other)} is of the same config", column)
