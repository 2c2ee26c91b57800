"""Logs of PyTorch's AutoHeuristic -> a tuning log.

Line 1 is a JSON object with `name`, `device_capa`, `shared_memory`, `numerical_features` and
`categorical_features`. Line 2 is a CSV header with those features, `choice` and `feedback` (ms, `inf` for a
failure). Then comes one row a measurement, and rows repeat. A choice is
`type=triton_BLOCK-M=64_numwarps=4`, or a bare name, which becomes the `type`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.autoheuristic_log import CHOICE, FEEDBACK, Codes, Header, read_log
from heurgen.logs.importers.choices import ParsedChoice, parameter_order, parse_choice
from heurgen.logs.importers.collect import Options, with_constants
from heurgen.logs.importers.common import (
    Imported,
    column_type,
    described,
    feature_entries,
    safe_name,
    sorted_values,
)
from heurgen.logs.importers.foreign import Foreign, read_foreign
from heurgen.logs.vendors import vendor_of
from heurgen.spec.draft_toml import Draft, Entry
from heurgen.spec.kernel_spec import vendor_problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Table:
    """Columns in output order: for each the distinct texts, and per row an index into them."""

    names: tuple[str, ...]
    texts: tuple[list[str], ...]
    codes: tuple[NDArray[np.int64], ...]


def recognises(file: Foreign) -> bool:
    return '"numerical_features"' in file.text[:65536].split("\n", 1)[0]


def run(files: Sequence[Foreign], options: Options) -> Imported:
    """`import_autoheuristic`, for the registry."""
    vendor = options.vendor or (vendor_of(options.device) if options.device else None) or "nvidia"
    imported = import_autoheuristic(files, vendor=vendor, device=options.device)
    return with_constants(imported, options.const)


def import_autoheuristic(
    files: Sequence[str | os.PathLike[str] | Foreign], *, vendor: str = "nvidia", device: str | None = None
) -> Imported:
    """Read AutoHeuristic logs of one heuristic as one tuning log, rows in canonical order.

    Without `device` each file's is named after its metadata ("sm_80 166912 B").

    Raises:
        LogError: a file is no such log, or the files are of different heuristics.
        UsageError: no file, or a vendor or device that cannot be one.
    """
    if not files:
        raise UsageError("no file to import", hint="name at least one AutoHeuristic log")
    if vendor_problem(vendor) is not None:
        raise UsageError(f"{quoted(vendor)} is no vendor", hint="vendor names match [a-z][a-z0-9_]*")
    if device is not None and (not device or printable(device) != device):
        raise UsageError(f"{quoted(device)} is no device name", hint="say which: --device NAME")
    columns: dict[str, Codes] = {}
    devices = Codes()
    sources = [f if isinstance(f, Foreign) else read_foreign(f) for f in files]
    headers, notes = _read_all(sources, columns, devices, device)
    choices = [parse_choice(text) for text in columns[CHOICE]]
    parameters = parameter_order(choices)
    features = headers[0].features
    names, renamed = _feature_names(features, parameters)
    table = _table(columns, devices, features, names, parameters, choices, vendor)
    rows = _sorted_rows(table)
    if device is None:
        notes.append(f"device from the metadata: {', '.join(sorted(devices))} (name it with --device)")
    failed = sum(row[-2] == "error" for row in rows)
    notes += [*renamed, f"{counted(len(rows), 'row')}, {failed} of them failures"]
    draft = _draft(headers[0].name, columns, devices, features, names, parameters, choices, len(rows))
    return Imported(table.names, rows, draft, tuple(notes))


def _read_all(
    files: Sequence[Foreign], columns: dict[str, Codes], devices: Codes, device: str | None
) -> tuple[list[Header], list[str]]:
    """Read every distinct file into `columns`; the headers in canonical order."""
    by_digest: dict[str, Header] = {}
    notes: list[str] = []
    for file in sorted(files, key=lambda f: f.file):
        header = read_log(file, columns, devices, device, seen=frozenset(by_digest))
        first = by_digest.setdefault(header.digest, header)
        if first is not header:
            notes.append(f"{header.file} has the content of {first.file}: taken once")
    headers = sorted(by_digest.values(), key=lambda h: h.digest)
    for header in headers[1:]:
        _check_same_heuristic(headers[0], header)
    return headers, notes


def _check_same_heuristic(first: Header, other: Header) -> None:
    for what, here, there in (
        ("name", other.name, first.name),
        ("numerical_features", ", ".join(sorted(other.numerical)), ", ".join(sorted(first.numerical))),
        ("categorical_features", ", ".join(sorted(other.categorical)), ", ".join(sorted(first.categorical))),
    ):
        if here != there:
            raise LogError(
                f"its {what} is {quoted(here)}, and {quoted(there)} in {first.file}",
                file=other.file,
                row=1,
                hint="import one heuristic at a time",
            )


def _feature_names(features: Sequence[str], parameters: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Feature -> its name in the log. Names that are fine as they are keep it; the others make way."""
    taken = set(parameters)
    names: dict[str, str] = {}
    for feature in sorted(features, key=lambda f: (safe_name(f) != f, f)):
        names[feature] = safe_name(feature, taken)
        taken.add(names[feature])
    changed = [f"{quoted(f)} is {names[f]}" for f in sorted(features) if names[f] != f]
    return names, [f"renamed features: {', '.join(changed)}"] if changed else []


def _table(
    columns: dict[str, Codes],
    devices: Codes,
    features: Sequence[str],
    names: dict[str, str],
    parameters: Sequence[str],
    choices: list[ParsedChoice],
    vendor: str,
) -> _Table:
    import numpy as np

    def codes_of(column: Codes) -> NDArray[np.int64]:
        return np.frombuffer(column.rows, dtype=np.int64)

    choice_codes, device_codes = codes_of(columns[CHOICE]), codes_of(devices)
    feedback, feedback_codes = list(columns[FEEDBACK]), codes_of(columns[FEEDBACK])
    failed = np.array([text == "inf" for text in feedback], dtype=np.int64)
    out: list[tuple[str, list[str], NDArray[np.int64]]] = [
        ("vendor", [vendor], np.zeros_like(choice_codes)),
        ("device", list(devices), device_codes),
    ]
    out += [(names[f], list(columns[f]), codes_of(columns[f])) for f in features]
    out += [(p, [c.get(p, "") for c in choices], choice_codes) for p in parameters]
    out.append(("status", ["ok", "error"], failed[feedback_codes]))
    out.append(("time_ms", ["" if text == "inf" else text for text in feedback], feedback_codes))
    return _Table(tuple(c[0] for c in out), tuple(c[1] for c in out), tuple(c[2] for c in out))


def _sorted_rows(table: _Table) -> list[tuple[str, ...]]:
    """Rows by every column in turn, numbers by size: the same rows give the same bytes."""
    import numpy as np

    ranks = []
    for texts, codes in zip(table.texts, table.codes, strict=True):
        distinct = set(texts)
        rank = {text: i for i, text in enumerate(sorted_values(distinct, column_type(distinct)))}
        ranks.append(np.array([rank[text] for text in texts], dtype=np.int32)[codes])
    order = np.lexsort(ranks[::-1])
    cells = [
        [texts[code] for code in codes[order].tolist()]
        for texts, codes in zip(table.texts, table.codes, strict=True)
    ]
    return list(zip(*cells, strict=True))


def _draft(
    name: str,
    columns: dict[str, Codes],
    devices: Codes,
    features: Sequence[str],
    names: dict[str, str],
    parameters: Sequence[str],
    choices: list[ParsedChoice],
    n_rows: int,
) -> Draft:
    found = [(names[f], columns[f]) for f in features]
    values = {p: {c.get(p, "") for c in choices} for p in parameters}
    return Draft(
        name=safe_name(name),
        features=feature_entries(found),
        # A bare choice has none but `type`, in the next log if not in this one.
        parameters=tuple(Entry(described(p, v, optional=p != "type" or "" in v)) for p, v in values.items()),
        header=(
            f"Drafted by heurgen import autoheuristic from {counted(n_rows, 'row')} of {printable(name)} on "
            + ", ".join(sorted(devices)),
        ),
    )
