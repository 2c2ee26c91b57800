"""Today's defaults: the config that a kernel launches with before it has a heuristic.

Named in one of two ways. A config: `BLOCK_M=16,num_warps=4`, the same for every launch; parameters that it
leaves out may take any value that gives a single config. Or a column of the log that is true in the rows of
the config that today's heuristic would choose; a column called `default` is used without being named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heurgen.audit.score import typed
from heurgen.base.errors import LogError, UsageError, quoted
from heurgen.base.figures import Summary, summarise
from heurgen.ir import Value
from heurgen.logs.column_names import DEFAULT, MARKS, is_default
from heurgen.spec.kernel_spec import KernelSpec, cell_value

if TYPE_CHECKING:
    from heurgen.logs.cells import Cells, Codes
    from heurgen.logs.costs import CostTable, Ints
    from heurgen.logs.tuning_log import TuningLog


@dataclass(frozen=True, slots=True, eq=False)
class Defaults:
    """The default config of every scenario: per vendor, a column of its cost table, -1 where none is known."""

    what: str
    columns: Mapping[str, Ints]


def read_defaults(
    named: str | None, cells: Cells, log: TuningLog, spec: KernelSpec, tables: Sequence[CostTable]
) -> Defaults | None:
    """The defaults that `named` gives; without it those of the log's column `default`, None without one.

    `cells` are what the log was read from, since no spec names the column. Not its files: the standard input and
    pipes are read once.

    Raises:
        UsageError: a parameter is unknown, its value does not fit, or no config or more than one fits.
        LogError: the column is missing, holds something else than true and false, or names two configs.
    """
    if named is not None and "=" in named:
        return _of_config(named, spec, tables)
    if spec.log.wide:  # a row is a launch, with a cell a config
        if named is None:
            return None
        raise LogError(
            "a table with a column a config has no column of defaults",
            column=named,
            hint="name a config: BLOCK_M=16,...",
        )
    name = DEFAULT if named is None else named
    used = {column.source for column in (*spec.features, *spec.parameters)}
    if named is None and (name in used or not is_default(name, cells.texts.get(name, ["?"]))):
        return None  # no such column, or something else of that name
    if name not in cells.codes:
        raise LogError(
            "no log has this column of defaults",
            column=named,
            hint=f"{_marking(cells)}; name one that is true where today's default is measured, "
            "or a config: BLOCK_M=16,...",
        )
    texts = cells.texts[name]
    for code, text in enumerate(texts):
        if text not in MARKS:
            path, line = cells.place(int(np.argmax(cells.codes[name] == code)))
            raise LogError(f"found {quoted(text)}, expected true or false", file=path, row=line, column=name)
    marked = np.array([MARKS[t] for t in texts] + [False])[cells.codes[name]]
    return Defaults(f"column {name}", _of_rows(np.flatnonzero(marked), log, spec, tables))


def _marking(cells: Cells) -> str:
    """The columns that could mark a default."""
    found = [name for name, texts in cells.texts.items() if set(texts) - {""} <= MARKS.keys() and any(texts)]
    return f"columns of true and false: {', '.join(found) or 'none'}"


def summaries(defaults: Defaults, tables: Sequence[CostTable]) -> dict[str, Summary]:
    """How today's defaults do on the logs, by vendor."""
    found = {}
    for table in _whole(tables):
        columns = defaults.columns[table.vendor]
        costs = np.where(columns >= 0, table.log_slowdown[np.arange(len(columns)), columns], np.nan)
        found[table.vendor] = summarise(costs.tolist(), known=table.costs_known)
    return found


def _of_rows(rows: Codes, log: TuningLog, spec: KernelSpec, tables: Sequence[CostTable]) -> dict[str, Ints]:
    """Per vendor the marked config of each scenario of its table."""
    own: dict[int, int] = {}
    for row in rows.tolist():
        scenario, config = int(log.scenario[row]), int(log.config[row])
        if own.setdefault(scenario, config) != config:
            path, line = log.cells.place(row)
            raise LogError(
                "this scenario has two different defaults",
                file=path,
                row=line,
                hint="the column of defaults is true for one config of a scenario",
            )
    marked = {_log_key(log, scenario): _log_config(log, spec, config) for scenario, config in own.items()}
    found = {}
    for table in _whole(tables):
        where = {typed(c): i for i, c in enumerate(table.configs)}
        places = []
        for s in range(table.n_scenarios):
            values = tuple(table.features_of(s).values())
            config_values = marked.get((table.vendor, table.device[s], table.scenario[s], values), {})
            wanted = tuple(config_values.get(p) for p in table.parameters)
            places.append(where.get(typed(wanted), -1) if config_values else -1)
        found[table.vendor] = np.array(places, dtype=np.int64)
    return found


def _log_key(log: TuningLog, scenario: int) -> tuple[object, ...]:
    row = int(log.scenario_row[scenario])
    values = tuple(c.values[c.codes[row]] for c in log.features)
    return (*(c.values[c.codes[row]] for c in (log.vendor, log.device)), log.scenario_id[scenario], values)


def _log_config(log: TuningLog, spec: KernelSpec, config: int) -> dict[str, Value]:
    row = int(log.config_row[config])
    return {p.name: c.values[c.codes[row]] for p, c in zip(spec.parameters, log.parameters, strict=True)}


def _of_others(table: CostTable, tables: Sequence[CostTable]) -> set[str]:
    """Parameters that configs of other tables alone have: `waves_per_eu` of AMD says nothing about NVIDIA."""

    def had(t: CostTable) -> set[str]:
        return {n for p, n in enumerate(t.parameters) if any(c[p] is not None for c in t.configs)}

    return set().union(*map(had, tables)) - had(table)


def _of_config(text: str, spec: KernelSpec, tables: Sequence[CostTable]) -> Defaults:
    wanted = _parsed(text, spec)
    found = {}
    for table in _whole(tables):
        others = _of_others(table, tables)
        named = {p: wanted[n] for p, n in enumerate(table.parameters) if n in wanted and n not in others}
        fits = [i for i, c in enumerate(table.configs) if all(_same(c[p], v) for p, v in named.items())]
        if len(fits) > 1:
            raise UsageError(
                f"--default {quoted(text)} fits {len(fits)} configs of {table.vendor}",
                hint=f"give a value for every parameter: {', '.join(table.parameters)}",
            )
        found[table.vendor] = np.full(table.n_scenarios, fits[0] if fits else -1, dtype=np.int64)
    if all((c < 0).all() for c in found.values()):
        raise UsageError(f"--default {quoted(text)} fits no config that the logs measured")
    return Defaults(text, found)


def _parsed(text: str, spec: KernelSpec) -> dict[str, Value]:
    columns = {p.name: p for p in spec.parameters}
    wanted: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals or name not in columns:
            raise UsageError(
                f"--default: {quoted(part.strip())} sets no parameter",
                hint=f"expected name=value with {', '.join(columns)}, or the name of a column of the log",
            )
        wanted[name] = cell_value(columns[name], value) if value else None
    return wanted


def _whole(tables: Sequence[CostTable]) -> list[CostTable]:
    return [t for t in tables if t.device_name is None]


def _same(a: Value, b: Value) -> bool:
    return type(a) is type(b) and a == b
