"""CSV -> tuning log: the only module that parses tuning CSVs, and strict about them.

Accepted: UTF-8 (a byte order mark is dropped), gzip by its magic number, line ends \\n, \\r\\n or \\r, quotes as RFC 4180
has them, empty lines after the last record. Cells are taken as they are: nothing is stripped, guessed or defaulted.
The csv module reads records; each column becomes codes into its distinct texts, and only those are checked.

Several files make one log. Scenarios of different files with the same (vendor, device, id) are one scenario and
must have the same features; a file whose text equals an earlier one's is taken once. Files without a scenario
column have (vendor, device, all features) as the scenario.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heurgen.errors import LogError, UsageError, quoted
from heurgen.ir import Value
from heurgen.spec import Column, KernelSpec, cell_value, did_you_mean, number, vendor_problem

OK = "ok"
# Rows read at a time: large enough for speed, small enough that their strings stay in the cache.
_CHUNK = 16384
_ABSENT = -1

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of N cells: `values[codes[i]]`. Values are distinct and sorted, None first."""

    values: tuple[Value, ...]
    codes: Codes


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file as it was read. `same_as` names the earlier file that holds the same text; its rows then count there."""

    path: str
    n_measurements: int
    same_as: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TuningLog:
    """N measurements of S scenarios and C configs, as codes; nothing depends on the order of rows or columns.

    features, parameters  in spec order; a parameter that no file has is None in every row
    time                  float64 [N], ms; NaN for a failure
    status                "ok", or why the config failed ("blank time" where there is no status column)
    scenario, config      int64 [N], 0..S-1 and 0..C-1; configs are sorted by their values
    scenario_row          int64 [S], a row of each scenario, to read its vendor, device and features
    scenario_id           S texts; "" where the file has no scenario column
    config_row            int64 [C], a row of each config
    dropped               bool [S], no config succeeded: not in any cost table
    notes                 warnings for stderr, one line each
    content_hash          sha256 (hex) of the measurements as parsed, see `_content_hash`
    """

    files: tuple[LogFile, ...]
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


def read_logs(paths: Sequence[str | os.PathLike[str]], spec: KernelSpec) -> TuningLog:
    """Read tuning logs as one.

    Raises:
        LogError: a file cannot be read or is no CSV; a column is missing; a cell does not fit the spec (the first
            such line is named); a scenario's features vary; no scenario has a successful measurement.
    """
    raw = _read_files([os.fspath(p) for p in paths])
    for file in raw.files:
        _check_roles(raw, file, spec)
    return _tuning_log(raw, spec)


# --- bytes -> text ----------------------------------------------------------------------------------------


def read_text(path: str) -> str:
    """A log's text, decompressed and without a byte order mark.

    Raises:
        LogError: the file is missing, unreadable, a directory, broken gzip, no UTF-8, or has NUL bytes.
    """
    try:
        data = Path(path).read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        elif path.endswith(".gz") and data:
            raise LogError("this is no gzip file", file=path, hint="decompress it, or drop the ending .gz")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogError(f"broken gzip data: {error}", file=path, hint="is the file complete?") from error
    except IsADirectoryError as error:
        raise LogError("this is a directory, expected a CSV file", file=path) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LogError(f"cannot be read: {reason}", file=path) from error
    if (nul := data.find(b"\0")) >= 0 and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(f"byte {nul} is NUL, expected text", file=path, row=_line_at(data, nul))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LogError(
            f"byte {error.start} (0x{data[error.start]:02x}) is no UTF-8",
            file=path,
            row=_line_at(data, error.start),
            hint="save the file as UTF-8",
        ) from error


def _line_at(data: bytes, offset: int) -> int:
    head = data[:offset].replace(b"\r\n", b"\n")
    return head.count(b"\n") + head.count(b"\r") + 1


# --- text -> columns of codes -----------------------------------------------------------------------------


class _Interner(dict[str, int]):
    """Text -> code, numbered in order of appearance."""

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self)
        return code


@dataclass(frozen=True, slots=True)
class _File:
    """Rows first .. first + n - 1 of the log. `text` is kept where a record's line is not its number + 1."""

    path: str
    header: tuple[str, ...]
    first: int
    n: int
    text: str | None

    def line(self, row: int) -> int:
        """The physical line on which the record of a row begins."""
        index = row - self.first + 1
        return index + 1 if self.text is None else _record_line(self.text, index)


@dataclass(frozen=True, slots=True)
class _Raw:
    """All files' cells: per column the distinct texts, and a code per row (_ABSENT: the file lacks the column)."""

    files: tuple[_File, ...]
    listed: tuple[LogFile, ...]
    texts: dict[str, list[str]]
    codes: dict[str, Codes]

    @property
    def n(self) -> int:
        return sum(f.n for f in self.files)

    def place(self, row: int) -> tuple[str, int]:
        file = next(f for f in self.files if f.first <= row < f.first + f.n)
        return file.path, file.line(row)


def _read_files(paths: list[str]) -> _Raw:
    if not paths:
        raise LogError("no log is given", hint="name at least one CSV file")
    interners: dict[str, _Interner] = {}
    parts: list[dict[str, Codes]] = []
    files: list[_File] = []
    listed: list[LogFile] = []
    seen: dict[bytes, str] = {}
    for path in paths:
        text = read_text(path)
        digest = hashlib.sha256(text.encode()).digest()
        if digest in seen:
            listed.append(LogFile(path, 0, same_as=seen[digest]))
            continue
        seen[digest] = path
        file, codes = _read_csv(path, text, sum(f.n for f in files), interners)
        files.append(file)
        parts.append(codes)
        listed.append(LogFile(path, file.n))
    joined = {name: _joined(name, files, parts) for name in interners}
    return _Raw(tuple(files), tuple(listed), {name: list(i) for name, i in interners.items()}, joined)


def _joined(name: str, files: list[_File], parts: list[dict[str, Codes]]) -> Codes:
    absent = (
        (np.full(f.n, _ABSENT, dtype=np.int64) if name not in p else p[name])
        for f, p in zip(files, parts, strict=True)
    )
    return np.concatenate(list(absent))


def _read_csv(
    path: str, text: str, first: int, interners: dict[str, _Interner]
) -> tuple[_File, dict[str, Codes]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = _header(path, next(reader, []))
        own = [interners.setdefault(name, _Interner()) for name in header]
        chunks: list[list[Codes]] = []
        n = 0
        while rows := list(islice(reader, _CHUNK)):
            if set(map(len, rows)) != {len(header)}:
                rows = _without_empty_tail(path, text, rows, reader, len(header), n)
            columns = zip(*rows, strict=True)
            chunks.append([_coded(column, i) for column, i in zip(columns, own, strict=False)])
            n += len(rows)
    except csv.Error as error:
        raise _csv_error(path, text, str(error)) from error
    if n == 0:
        raise LogError("the file has a header and no measurements", file=path)
    codes = {name: np.concatenate([c[i] for c in chunks if c]) for i, name in enumerate(header)}
    return _File(path, header, first, n, None if reader.line_num == n + 1 else text), codes


def _coded(column: tuple[str, ...], interner: _Interner) -> Codes:
    return np.fromiter(map(interner.__getitem__, column), dtype=np.int64, count=len(column))


def _header(path: str, header: list[str]) -> tuple[str, ...]:
    if not header:
        raise LogError("the file is empty, expected a CSV header", file=path, row=1)
    for index, name in enumerate(header, 1):
        if not name.strip():
            hint = "a pandas index? write with index=False" if index == 1 else "is there a comma too many?"
            raise LogError(f"cell {index} of the header is empty", file=path, row=1, hint=hint)
        if (earlier := header.index(name) + 1) < index:
            raise LogError(
                f"cells {earlier} and {index} of the header are equal", file=path, row=1, column=name
            )
    return tuple(header)


def _without_empty_tail(
    path: str, text: str, rows: list[list[str]], reader: Iterator[list[str]], width: int, before: int
) -> list[list[str]]:
    """The rows of the last chunk without empty lines at the end of the file; anything else is an error."""
    rows = rows + list(reader)
    while rows and not rows[-1]:
        rows.pop()
    for index, row in enumerate(rows):
        if len(row) == width:
            continue
        line = _record_line(text, before + index + 1)
        if not row:
            raise LogError("the line is empty", file=path, row=line, hint="delete it")
        raise LogError(
            f"found {len(row)} cells, expected {width} as in the header",
            file=path,
            row=line,
            hint="a cell that holds a comma needs quotes" if len(row) > width else None,
        )
    return rows


def _record_line(text: str, index: int) -> int:
    """The line on which record `index` (0 is the header) begins."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    for _ in islice(reader, index):
        pass
    return reader.line_num + 1


def _csv_error(path: str, text: str, message: str) -> LogError:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for _ in reader:
            line = reader.line_num + 1
    except csv.Error:
        pass
    if message == "unexpected end of data":
        return LogError("a quote that opens in this record is never closed", file=path, row=line)
    if message.startswith("field larger"):
        hint = "is a quote left open?"
        return LogError("a cell is longer than 131072 characters", file=path, row=line, hint=hint)
    return LogError(
        f"this is no CSV: {message}", file=path, row=line, hint='write a quote inside quotes twice: ""'
    )


# --- columns of codes -> values ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fault:
    """The first bad cell of a column."""

    row: int
    column: str
    message: str
    hint: str | None = None


def _raise_first(raw: _Raw, faults: Iterable[_Fault | None]) -> None:
    """Raise for the first offending line, and in it for the first column in the order given."""
    found = [f for f in faults if f is not None]
    if found:
        fault = min(found, key=lambda f: f.row)
        path, line = raw.place(fault.row)
        raise LogError(fault.message, file=path, row=line, column=fault.column, hint=fault.hint)


def _check_roles(raw: _Raw, file: _File, spec: KernelSpec) -> None:
    """Raise where a file lacks a column that its rows need."""
    log = spec.log
    hints = {log.vendor: "add one, such as nvidia or amd, or name it in [log]"}
    hints[log.device] = "add one, such as NVIDIA H200, or name it in [log]"
    hints[log.time] = "name the column of times in [log]"
    rows = slice(file.first, file.first + file.n)
    vendors = (
        {raw.texts[log.vendor][c] for c in set(raw.codes[log.vendor][rows].tolist())}
        if log.vendor in file.header
        else set()
    )
    needed = [p.name for p in spec.parameters if not p.optional and any(map(p.exists_for, vendors))]
    for name in (log.vendor, log.device, log.time, *(f.name for f in spec.features), *needed):
        if name not in file.header:
            known = {*spec.log.names, *(c.name for c in (*spec.features, *spec.parameters))}
            hint = did_you_mean(name, [h for h in file.header if h not in known]) or hints.get(name)
            if len(file.header) == 1 and any(c in file.header[0] for c in ";\t|"):
                hint = "columns are separated by commas"
            raise LogError("the header lacks this column", file=file.path, row=1, column=name, hint=hint)


def _first_row(codes: Codes, bad: Iterable[int]) -> int:
    return int(np.argmax(np.isin(codes, list(bad))))


def _parsed(
    raw: _Raw, name: str, parse: Callable[[str], Value], blank: str | None
) -> tuple[Coded, _Fault | None]:
    """A column's values. `blank`: what to say of a blank cell; None where it stands for None."""
    texts, codes = raw.texts.get(name, []), raw.codes.get(name)
    if codes is None:
        return Coded((None,), np.zeros(raw.n, dtype=np.int64)), None
    values: list[Value] = []
    errors: dict[int, tuple[str, str | None]] = {}
    for code, text in enumerate(texts):
        value: Value = None
        try:
            if text:
                value = parse(text)
            elif blank is not None:
                errors[code] = (blank, None)
        except UsageError as error:
            errors[code] = (error.message, error.hint)
        values.append(value)
    if errors:
        row = _first_row(codes, errors)
        return Coded((), codes), _Fault(row, name, *errors[int(codes[row])])
    return _sorted_codes(values, codes), None


def _sorted_codes(values: list[Value], codes: Codes) -> Coded:
    """Merge texts of one value ("0.5", "0.50"), and number the values in sorted order, None first."""
    if (codes == _ABSENT).any():
        values = [*values, None]  # index -1
    order = sorted(
        {(v is not None, v) for v in values}, key=lambda pair: (pair[0], pair[1] or 0 if pair[0] else 0)
    )
    distinct: tuple[Value, ...] = tuple(pair[1] for pair in order)
    rank = {value: index for index, value in enumerate(distinct)}
    return Coded(distinct, np.array([rank[v] for v in values], dtype=np.int64)[codes])


def _vendor_text(text: str) -> str:
    if (expected := vendor_problem(text)) is not None:
        hint = (
            f"write {quoted(text.strip().lower())}" if vendor_problem(text.strip().lower()) is None else None
        )
        raise UsageError(f"found {quoted(text)}, expected {expected}", hint=hint)
    return text


def _device_text(text: str) -> str:
    if text != text.strip() or any(unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" for c in text):
        raise UsageError(
            f"found {quoted(text)}, expected a device name without control characters or spaces around it"
        )
    return text


def _parameter(raw: _Raw, column: Column, vendor: Coded) -> tuple[Coded, list[_Fault | None]]:
    """A parameter's values; blank exactly where it does not exist for the row's vendor, or may be left out."""
    coded, fault = _parsed(raw, column.name, lambda text: cell_value(column, text), None)
    if fault is not None or column.name not in raw.codes:
        return coded, [fault]
    blank = coded.codes == (0 if coded.values[0] is None else _ABSENT)
    exists = np.array([column.exists_for(str(v)) for v in vendor.values])[vendor.codes]
    faults: list[_Fault | None] = []
    if not column.optional and (bad := blank & exists).any():
        faults.append(
            _Fault(
                int(np.argmax(bad)), column.name, "the cell is blank", "or set optional = true in the spec"
            )
        )
    if (bad := ~blank & ~exists).any():
        row = int(np.argmax(bad))
        found = quoted(coded.values[coded.codes[row]])
        message = f"found {found}, expected a blank cell: the parameter is not for {vendor.values[vendor.codes[row]]}"
        faults.append(_Fault(row, column.name, message, "see vendors in the spec"))
    return coded, faults


def _times(raw: _Raw, spec: KernelSpec) -> tuple[Coded, NDArray[np.float64], _Fault | None]:
    """Status and time of every row; a time is read only where the status is ok."""
    texts, codes = raw.texts[spec.log.time], raw.codes[spec.log.time]
    reason = raw.codes.get(spec.log.status)
    has_status = np.zeros(raw.n, dtype=np.bool_) if reason is None else reason != _ABSENT
    blank = np.array([not t for t in texts])[codes]
    ok = np.where(has_status, False, ~blank)
    names: list[Value] = [OK, "blank time"]
    status = np.where(ok, 0, 1)
    if reason is not None:
        names += raw.texts[spec.log.status]
        good = raw.texts[spec.log.status].index(OK) if OK in raw.texts[spec.log.status] else -2
        ok |= reason == good
        status = np.where(has_status, np.where(reason == good, 0, reason + 2), status)
    values = np.full(len(texts), np.nan)
    for code in np.unique(codes[ok]).tolist():
        value = number(texts[code])
        if value is not None and value > 0:
            values[code] = value
    times = np.where(ok, values[codes], np.nan)
    if (bad := ok & np.isnan(times)).any():
        row = int(np.argmax(bad))
        hint = "a failure has another status than ok" if has_status[row] else "a failure has a blank time"
        message = f"found {quoted(texts[codes[row]])}, expected a finite time above 0 (ms)"
        return _sorted_codes(names, status), times, _Fault(row, spec.log.time, message, hint)
    return _used_only(names, status), times, None


def _used_only(values: list[Value], codes: Codes) -> Coded:
    used, codes = np.unique(codes, return_inverse=True)
    return _sorted_codes([values[u] for u in used.tolist()], codes)


# --- values -> log ----------------------------------------------------------------------------------------


def combine(columns: Sequence[Coded]) -> Codes:
    """One number per row, equal exactly for rows equal in all columns, in the columns' lexicographic order."""
    key = np.zeros(len(columns[0].codes), dtype=np.int64)
    size = 1
    for column in columns:
        if size * len(column.values) >= 2**62:
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key = key * len(column.values) + column.codes
        size *= len(column.values)
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _tuning_log(raw: _Raw, spec: KernelSpec) -> TuningLog:
    vendor, vendor_fault = _parsed(raw, spec.log.vendor, _vendor_text, "the vendor is blank")
    device, device_fault = _parsed(raw, spec.log.device, _device_text, "the device is blank")
    faults = [vendor_fault, device_fault]
    features: list[Coded] = []
    parameters: list[Coded] = []
    for column in spec.features:
        coded, fault = _parsed(
            raw, column.name, lambda text, c=column: cell_value(c, text), "the cell is blank"
        )  # type: ignore[misc]
        features.append(coded)
        faults.append(fault)
    for column in spec.parameters:
        if vendor_fault is None:
            coded, more = _parameter(raw, column, vendor)
            parameters.append(coded)
            faults += more
    status, time, time_fault = _times(raw, spec)
    ids, id_fault = _parsed(raw, spec.log.scenario, str, "the scenario is blank")
    _raise_first(raw, [*faults, time_fault, id_fault])
    _check_vendors(raw, spec, vendor)
    scenario, scenario_row = _scenarios(raw, spec, vendor, device, features, ids)
    config = combine(parameters)
    config_row = np.unique(config, return_index=True)[1].astype(np.int64)
    succeeded = np.zeros(len(scenario_row), dtype=np.bool_)
    succeeded[scenario[~np.isnan(time)]] = True
    scenario_id = tuple(str(ids.values[c] or "") for c in ids.codes[scenario_row].tolist())
    if not succeeded.any():
        path = raw.files[0].path if len(raw.files) == 1 else None
        raise LogError("no scenario has a successful measurement", file=path)
    notes = [*_file_notes(raw), *_ignored_notes(raw, spec, scenario), *_status_notes(status)]
    if not succeeded.all():
        first = int(scenario_row[~succeeded].min())
        path, line = raw.place(first)
        notes.append(
            f"{int((~succeeded).sum())} of {len(succeeded)} scenarios dropped: no config succeeded "
            f"(the first is on line {line} of {path})"
        )
    coded_columns = (vendor, device, tuple(features), tuple(parameters), status)
    return TuningLog(
        raw.listed, *coded_columns, time, scenario, config, scenario_row, scenario_id, config_row, ~succeeded,
        tuple(notes), _content_hash(spec, coded_columns, time, scenario, config, scenario_row, config_row),
    )  # fmt: skip


def _check_vendors(raw: _Raw, spec: KernelSpec, vendor: Coded) -> None:
    for code, name in enumerate(vendor.values):
        if not spec.parameters_of(str(name)):
            path, line = raw.place(int(np.argmax(vendor.codes == code)))
            raise LogError(
                f"the spec has no parameter for {name}", file=path, row=line, column=spec.log.vendor
            )


def _scenarios(
    raw: _Raw, spec: KernelSpec, vendor: Coded, device: Coded, features: list[Coded], ids: Coded
) -> tuple[Codes, Codes]:
    """The scenario of each row, and a row of each scenario; raises where its features vary."""
    by_features = combine(features)
    without_id = np.array([v is None for v in ids.values])[ids.codes]
    anonymous = Coded((None,) * (int(by_features.max()) + 1), np.where(without_id, by_features, 0))
    scenario = combine([vendor, device, ids, anonymous])
    first = np.unique(scenario, return_index=True)[1].astype(np.int64)
    bad = by_features != by_features[first[scenario]]
    if bad.any():
        row = int(np.argmax(bad))
        other = int(first[scenario[row]])
        column, coded = next(
            (c, f) for c, f in zip(spec.features, features, strict=True) if f.codes[row] != f.codes[other]
        )
        path, line = raw.place(other)
        name = quoted(ids.values[ids.codes[row]])
        raise_at = _Fault(
            row,
            column.name,
            f"scenario {name} has {quoted(coded.values[coded.codes[row]])} here and "
            f"{quoted(coded.values[coded.codes[other]])} on line {line} of {path}",
            "the features of a scenario must not vary",
        )
        _raise_first(raw, [raise_at])
    return scenario, first


# --- notes ------------------------------------------------------------------------------------------------


def _file_notes(raw: _Raw) -> list[str]:
    return [f"{f.path} has the same content as {f.same_as}: taken once" for f in raw.listed if f.same_as]


def _ignored_notes(raw: _Raw, spec: KernelSpec, scenario: Codes) -> list[str]:
    named = {*spec.log.names, *(c.name for c in (*spec.features, *spec.parameters))}
    ignored = sorted(name for name in raw.codes if name not in named)
    if not ignored:
        return []
    varying = [name for name in ignored if _varies(raw.codes[name], scenario)]
    notes = [f"columns that the spec does not name are ignored: {', '.join(ignored)}"]
    if varying:
        notes.append(
            f"ignored columns that vary inside a scenario: {', '.join(varying)} "
            "(if the time depends on one, name it in the spec)"
        )
    return notes


def _varies(codes: Codes, scenario: Codes) -> bool:
    present = codes != _ABSENT
    codes, scenario = codes[present], scenario[present]
    first = np.full(int(scenario.max()) + 1, _ABSENT, dtype=np.int64)
    first[scenario] = codes
    return bool((codes != first[scenario]).any())


def _status_notes(status: Coded) -> list[str]:
    close = [s for s in status.values if s != OK and str(s).strip().lower() == OK]
    return [f"the status {quoted(s)} counts as a failure: only {quoted(OK)} is a success" for s in close]


# --- hash -------------------------------------------------------------------------------------------------


def _content_hash(
    spec: KernelSpec,
    columns: tuple[Coded, Coded, tuple[Coded, ...], tuple[Coded, ...], Coded],
    time: NDArray[np.float64],
    scenario: Codes,
    config: Codes,
    scenario_row: Codes,
    config_row: Codes,
) -> str:
    """sha256 over what was measured: the values of the columns that the spec names, as parsed.

    One digest a scenario, over its vendor, device, features, and sorted (config, status, time) rows; then one over the
    sorted digests. So file names, splits, the order of rows and columns, line ends, quoting, number formats, the
    times of failures and the texts of scenario ids do not matter; which rows make up a scenario does.
    """
    vendor, device, features, parameters, status = columns
    named = sorted(zip([c.name for c in spec.features], features, strict=True))
    knobs = sorted(zip([c.name for c in spec.parameters], parameters, strict=True), key=lambda p: p[0])
    whole = hashlib.sha256()
    heads = [vendor, device, *(c for _, c in named)]
    whole.update(repr([[n for n, _ in named], [n for n, _ in knobs]]).encode())
    for coded in (*heads, *(c for _, c in knobs), status):
        whole.update(repr(coded.values).encode("utf-8", "surrogatepass") + b"\n")
    by_name = combine([c for _, c in knobs])
    table = np.column_stack([c.codes for _, c in knobs])[np.unique(by_name, return_index=True)[1]]
    whole.update(table.astype("<i8").tobytes())
    order = np.lexsort((time, status.codes, by_name, scenario))
    rows = np.empty(len(order), dtype=[("config", "<i4"), ("status", "<i4"), ("time", "<f8")])
    rows["config"], rows["status"] = by_name[order], status.codes[order]
    rows["time"] = np.nan_to_num(time[order], nan=0.0)
    head = np.column_stack([c.codes[scenario_row] for c in heads]).astype("<i8")
    ends = np.searchsorted(scenario[order], np.arange(len(scenario_row) + 1)).tolist()
    digests = sorted(
        hashlib.sha256(head[s].tobytes() + rows[ends[s] : ends[s + 1]].tobytes()).digest()
        for s in range(len(scenario_row))
    )
    whole.update(b"".join(digests))
    return whole.hexdigest()
