"""Cells -> tuning log: the columns that a kernel spec names, checked and typed, one row a measurement.

Several files make one log. Scenarios of different files with the same (vendor, device, id) are one scenario
and must have the same features. In a file without a scenario column, (vendor, device, all features) is the
scenario. A file whose text equals an earlier one's is read once.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.outline import outline
from heurgen.base.text import did_you_mean
from heurgen.ir import MAX_TEXT, Value
from heurgen.logs import frame
from heurgen.logs.cells import Cells, Codes, Fault, Source, TableFile, listed, parse_cells, read_cells
from heurgen.logs.coded import Coded, combine, first_rows, sorted_codes
from heurgen.logs.layout import arranged
from heurgen.logs.notes import notes
from heurgen.logs.outcomes import UNTIMED, statuses, times
from heurgen.logs.typed_columns import TypedColumns, content_hash
from heurgen.spec.kernel_spec import Column, KernelSpec, cell_value, vendor_problem

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class TuningLog:
    """N measurements of S scenarios and C configs, in the order of the files' rows.

    files                 (path, number of measurements) of each file that was read
    vendor, device        texts
    features, parameters  in spec order; None where a parameter's cell is blank or its column missing
    status                "ok", or why the config failed
    time                  float64 [N], ms; NaN for a failure
    scenario, config      int64 [N], 0..S-1 and 0..C-1; configs are in the order of their values
    scenario_row          int64 [S], a row of each scenario, to read its vendor, device and features
    scenario_id           S texts; "" where the file has no scenario column
    config_row            int64 [C], a row of each config
    dropped               bool [S]: no config succeeded; in no cost table
    notes                 warnings for stderr, one line each
    content_hash          sha256 (hex) of the measurements as parsed, see `content_hash`
    spec                  what it was read with
    cells                 files and lines of the rows alone: no columns
    """

    files: tuple[tuple[str, int], ...]
    vendor: Coded
    device: Coded
    features: tuple[Coded, ...]
    parameters: tuple[Coded, ...]
    status: Coded
    time: NDArray[np.float64]
    scenario: Codes
    config: Codes
    scenario_row: Codes
    scenario_id: tuple[str, ...]
    config_row: Codes
    dropped: NDArray[np.bool_]
    notes: tuple[str, ...]
    content_hash: str
    spec: KernelSpec
    cells: Cells

    __repr__ = outline

    def to_frame(self) -> DataFrame:
        """A row a measurement: vendor, device, scenario, features, parameters, status, time_ms (NaN: failed,
        or a winner whose log does not say it)."""
        names = [*(f.name for f in self.spec.features), *(p.name for p in self.spec.parameters)]
        coded = zip(names, (*self.features, *self.parameters), strict=True)
        return frame.make(
            {
                "vendor": frame.column(self.vendor.values, self.vendor.codes),
                "device": frame.column(self.device.values, self.device.codes),
                "scenario": frame.column(self.scenario_id, self.scenario),
                **{name: frame.column(c.values, c.codes) for name, c in coded},
                "status": frame.column(self.status.values, self.status.codes),
                "time_ms": np.where(self.time == UNTIMED, np.nan, self.time),
            }
        )

    @property
    def n_measurements(self) -> int:
        return len(self.time)

    @property
    def n_failures(self) -> int:
        return int(np.isnan(self.time).sum())

    @property
    def n_scenarios(self) -> int:
        return len(self.scenario_row)

    @property
    def n_configs(self) -> int:
        return len(self.config_row)

    @property
    def vendors(self) -> tuple[str, ...]:
        return tuple(str(v) for v in self.vendor.values)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(str(v) for v in self.device.values)


def read_logs(sources: Source | Sequence[Source], spec: KernelSpec | None = None) -> TuningLog:
    """Read tuning logs as one: a path or a pandas DataFrame, or several of them.

    Without a spec, one is drafted as `heurgen init` does; it is the log's `spec`, and a note says its roles.

    Raises:
        LogError: a file cannot be read or is no CSV; a column is missing; a cell does not fit the spec (the
            first such line is named); a scenario's features vary; no scenario has a successful measurement.
        UsageError: the spec is none.
    """
    if spec is not None and not isinstance(spec, KernelSpec):
        said = f"the spec is a {type(spec).__name__}, expected what read_spec gives"
        raise UsageError(said, hint="read_spec takes a file")
    cells = read_cells(listed(sources))
    if spec is not None:
        return typed_log(cells, spec)
    from heurgen.logs.draft import drafted_spec

    spec, doubts = drafted_spec(cells)
    log = typed_log(cells, spec)
    roles = (("features", spec.features), ("parameters", spec.parameters))
    said = "; ".join(f"{role}: {', '.join(c.name for c in columns)}" for role, columns in roles)
    return replace(log, notes=(f"no spec given, guessed: {said}", *doubts, *log.notes))


def parse_log(name: str, text: str, spec: KernelSpec) -> TuningLog:
    """`read_logs`, for CSV text that is in no file; `name` stands for its path in errors."""
    return typed_log(parse_cells([(name, text)]), spec)


def typed_log(cells: Cells, spec: KernelSpec) -> TuningLog:
    """`read_logs`, of cells that are read: for who needs columns beside those of the spec too."""
    cells = arranged(cells, spec)
    for file in cells.files:
        _check_header(cells, file, spec)
    columns = _read_columns(cells, spec)
    scenario, scenario_row, ids = _scenarios(cells, spec, columns)
    config = combine(columns.parameters)
    dropped = _without_success(scenario, config, columns.time)
    if dropped.all():
        path = cells.files[0].path if len(cells.files) == 1 else None
        hint = "a config that is measured several times must succeed in more than half of them"
        some = bool(np.isfinite(columns.time).any())
        raise LogError("no config succeeded in any scenario", file=path, hint=hint if some else None)
    return TuningLog(
        files=tuple((f.path, int(cells.rows_of(f).sum())) for f in cells.files),
        vendor=columns.vendor,
        device=columns.device,
        features=columns.features,
        parameters=columns.parameters,
        status=columns.status,
        time=columns.time,
        scenario=scenario,
        config=config,
        scenario_row=scenario_row,
        scenario_id=ids,
        config_row=first_rows(config),
        dropped=dropped,
        notes=tuple(map(printable, notes(cells, spec, columns, (scenario, config), scenario_row[dropped]))),
        content_hash=content_hash(spec, columns, scenario, scenario_row),
        spec=spec,
        cells=replace(cells, texts={}, codes={}, column=None),
    )


# --- the header -------------------------------------------------------------------------------------------


def _check_header(cells: Cells, file: TableFile, spec: KernelSpec) -> None:
    """Raise where a file lacks a column that its rows need."""
    log = spec.log
    for name in (log.vendor, log.device, log.time, *(f.name for f in spec.features)):
        _check_present(file, spec, name)
    codes = cells.codes[log.vendor][cells.rows_of(file)]
    vendors = [cells.texts[log.vendor][c] for c in np.unique(codes).tolist()]
    for parameter in spec.parameters:
        if not parameter.optional and any(map(parameter.exists_for, vendors)):
            _check_present(file, spec, parameter.name)


def _check_present(file: TableFile, spec: KernelSpec, name: str) -> None:
    if name in file.header:
        return
    name = next((c.source for c in (*spec.features, *spec.parameters) if c.name == name), name)
    known = (*spec.log.names, *(c.name for c in (*spec.features, *spec.parameters)))
    hint = did_you_mean(name, [h for h in file.header if h not in known])
    if len(file.header) == 1 and any(c in file.header[0] for c in "| "):
        hint = "columns are separated by , ; or tab"
    elif hint is None and name in spec.log.names:
        key = {spec.log.vendor: "vendor", spec.log.device: "device", spec.log.time: "time"}[name]
        hint = f"add it, or name the log's column with {key} = ... in [log] of the spec"
        if key != "time":
            hint += f', or say it: {key} = {{ const = "..." }}'
    elif hint is None:
        hint = 'add it with the value that these rows were measured with, or say column = "..." in the spec'
    raise LogError("the header lacks this column", file=file.path, row=1, column=name, hint=hint)


# --- cells -> values --------------------------------------------------------------------------------------


def _raise_first(cells: Cells, faults: Sequence[Fault], time: str | None = None) -> None:
    """Raise for the first offending line, and in it for the first column in the order given."""
    if faults:
        fault = min(faults, key=lambda f: f.row)
        path, line = cells.place(fault.row)
        melted = cells.column if fault.column == time else None
        column = fault.column if melted is None else melted[fault.row]
        raise LogError(fault.message, file=path, row=line, column=column, hint=fault.hint)


def _read_columns(cells: Cells, spec: KernelSpec) -> TypedColumns:
    faults: list[Fault] = []
    vendor = _parsed(cells, spec.log.vendor, _vendor, faults)
    # Which parameters a row may have depends on its vendor.
    _raise_first(cells, faults)
    _check_parameters_exist(cells, spec, vendor)
    columns = TypedColumns(
        vendor=vendor,
        device=_parsed(cells, spec.log.device, _device, faults),
        features=tuple(_parsed(cells, f.name, _value_of(f), faults) for f in spec.features),
        parameters=tuple(_parameter(cells, p, vendor, faults) for p in spec.parameters),
        status=statuses(cells, spec),
        time=times(cells, spec, faults),
        scenario_id=_parsed(cells, spec.log.scenario, str, faults),
    )
    _raise_first(cells, faults, spec.log.time)
    return columns


def _value_of(column: Column) -> Callable[[str], Value]:
    return lambda text: cell_value(column, text)


def _parsed(
    cells: Cells, name: str, parse: Callable[[str], Value], faults: list[Fault], *, blank: bool = False
) -> Coded:
    """A column's values, each distinct text parsed once. A blank cell is None if `blank`, else a fault."""
    if name not in cells.codes:
        return Coded((None,), np.zeros(cells.n, dtype=np.int64))
    codes = cells.codes[name]
    values: list[Value] = []
    errors: dict[int, UsageError] = {}
    for code, text in enumerate(cells.texts[name]):
        value: Value = None
        try:
            if len(text) > MAX_TEXT:
                expected = f"expected at most {MAX_TEXT}"
                raise UsageError(f"found {quoted(text, 20)} of {len(text)} characters, {expected}")
            if text:
                value = parse(text)
            elif not blank:
                errors[code] = UsageError("the cell is blank", hint="fill it in, or leave the row out")
        except UsageError as error:
            errors[code] = error
        values.append(value)
    if errors and (bad := np.isin(codes, list(errors))).any():
        row = int(np.argmax(bad))
        first = errors[int(codes[row])]
        faults.append(Fault(row, name, first.message, first.hint))
        values = [None] * len(values)
    return sorted_codes(values, codes)


def _vendor(text: str) -> str:
    if (expected := vendor_problem(text)) is not None:
        plain = text.strip().lower()
        hint = f"write {quoted(plain)}" if vendor_problem(plain) is None else None
        raise UsageError(f"found {quoted(text)}, expected {expected}", hint=hint)
    return text


def _device(text: str) -> str:
    if any(unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" for c in text):
        raise UsageError(f"found {quoted(text)}, expected a device name without control characters")
    if text != text.strip():
        raise UsageError(f"found {quoted(text)}, expected a device name without spaces around it")
    return text


def _check_parameters_exist(cells: Cells, spec: KernelSpec, vendor: Coded) -> None:
    for code, name in enumerate(vendor.values):
        if not spec.parameters_of(str(name)):
            row = int(np.argmax(vendor.codes == code))
            message = f"found {quoted(name)}, for which the spec has no parameter"
            _raise_first(cells, [Fault(row, spec.log.vendor, message, "see vendors in the spec")])


def _parameter(cells: Cells, column: Column, vendor: Coded, faults: list[Fault]) -> Coded:
    """A parameter's values; None where it does not exist for the row's vendor, or is left out."""
    coded = _parsed(cells, column.name, _value_of(column), faults, blank=True)
    if column.name not in cells.codes:
        return coded
    blank = np.array([not text for text in cells.texts[column.name]] + [True])[cells.codes[column.name]]
    exists = np.array([column.exists_for(str(v)) for v in vendor.values])[vendor.codes]
    if not column.optional and (bad := blank & exists).any():
        hint = "if the spec says optional = true, a blank cell is None"
        faults.append(Fault(int(np.argmax(bad)), column.name, "the cell is blank", hint))
    if (bad := ~blank & ~exists).any():
        row = int(np.argmax(bad))
        found = quoted(cells.texts[column.name][cells.codes[column.name][row]])
        message = f"found {found}, expected a blank cell for {vendor.values[vendor.codes[row]]}"
        hint = f"the spec has this parameter for {', '.join(column.vendors)} alone"
        faults.append(Fault(row, column.name, message, hint))
    return coded


# --- scenarios --------------------------------------------------------------------------------------------


def _scenarios(cells: Cells, spec: KernelSpec, columns: TypedColumns) -> tuple[Codes, Codes, tuple[str, ...]]:
    """The scenario of each row, and a row and the id of each scenario; raises where its features vary."""
    ids = columns.scenario_id
    by_features = combine(columns.features)
    unnamed = np.array([v is None for v in ids.values])[ids.codes]
    by_features_alone = Coded((None,) * (int(by_features.max()) + 1), np.where(unnamed, by_features, 0))
    scenario = combine([columns.vendor, columns.device, ids, by_features_alone])
    first = first_rows(scenario)
    if (bad := by_features != by_features[first[scenario]]).any():
        row = int(np.argmax(bad))
        _raise_first(cells, [_variation(cells, spec, columns, row, int(first[scenario[row]]))])
    return scenario, first, tuple(str(ids.values[c] or "") for c in ids.codes[first].tolist())


def _variation(cells: Cells, spec: KernelSpec, columns: TypedColumns, row: int, other: int) -> Fault:
    coded = zip(spec.features, columns.features, strict=True)
    feature = next(f for f, c in coded if c.codes[row] != c.codes[other])
    here, there = (cells.texts[feature.name][cells.codes[feature.name][r]] for r in (row, other))
    path, line = cells.place(other)
    id_ = columns.scenario_id.values[columns.scenario_id.codes[row]]
    message = f"found {quoted(here)}, but scenario {quoted(id_)} has {quoted(there)} on line {line} of {path}"
    hint = "the features of a scenario must not vary; give this row another scenario id"
    return Fault(row, feature.name, message, hint)


def cell_succeeds(good: Codes, n: Codes) -> NDArray[np.bool_]:
    """Whether a config works in a scenario: more than half of its `n` measurements there succeeded."""
    return 2 * good > n


def _without_success(scenario: Codes, config: Codes, time: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The scenarios in which no config works [S]."""
    cells, cell = np.unique(scenario * (int(config.max()) + 1) + config, return_inverse=True)
    n = np.bincount(cell, minlength=len(cells))
    good = np.bincount(cell[~np.isnan(time)], minlength=len(cells))
    dropped = np.ones(int(scenario.max()) + 1, dtype=np.bool_)
    dropped[(cells // (int(config.max()) + 1))[cell_succeeds(good, n)]] = False
    return dropped
