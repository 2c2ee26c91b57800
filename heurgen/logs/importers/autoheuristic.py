"""Logs of PyTorch's AutoHeuristic -> a tuning log.

Line 1 is a JSON object with `name`, `device_capa`, `shared_memory`, `numerical_features` and
`categorical_features`. Line 2 is a CSV header with those features, `choice` and `feedback` (ms, `inf` or `nan` for a
failure). Then comes one row a measurement, and rows repeat. A choice is
`type=triton_BLOCK-M=64_numwarps=4`, or a bare name, which becomes the `type`.

An H100 and an H200 have equal metadata: PyTorch tells devices apart by the folder, `autoheuristic/NVIDIA_H200/mm.txt`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.autoheuristic_log import CHOICE, FAILED, FEEDBACK, Codes, Header, read_log
from heurgen.logs.importers.choices import ParsedChoice, parameter_order, parse_choice
from heurgen.logs.importers.collect import Options, one_kernel, with_constants
from heurgen.logs.importers.common import (
    Imported,
    column_type,
    described,
    feature_entries,
    safe_name,
    sorted_values,
)
from heurgen.logs.importers.devices import check_one_place
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
    """`import_autoheuristic`, for the registry: PyTorch's folder of a device has a log of every heuristic."""
    names = [_name(file) for file in files]
    if known := [name for name in names if name is not None]:
        wanted = one_kernel(known, options.kernel)
        files = [file for file, name in zip(files, names, strict=True) if name in (None, wanted)]
    imported = import_autoheuristic(files, vendor=options.vendor, device=options.device)
    return with_constants(imported, options.const)


def _name(file: Foreign) -> str | None:
    """The heuristic that a log is of; None where its first line does not say: whoever reads it tells what is wrong."""
    try:
        name = json.loads(file.text.split("\n", 1)[0])["name"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and name else None


def import_autoheuristic(
    files: Sequence[str | os.PathLike[str] | Foreign], *, vendor: str | None = None, device: str | None = None
) -> Imported:
    """Read AutoHeuristic logs of one heuristic as one tuning log, rows in canonical order.

    Without `device` each file's is what its folder's name tells, else its metadata ("sm_80 166912 B"); without
    `vendor` the device tells it.

    Raises:
        LogError: a file is no such log, the files are of different heuristics, or the folder of one alone of two that
            have equal metadata names a device.
        UsageError: no file, a vendor or device that cannot be one, or one that is said of several that folders tell.
    """
    if not files:
        raise UsageError("no file to import", hint="name at least one AutoHeuristic log")
    if vendor is not None and vendor_problem(vendor) is not None:
        raise UsageError(f"{quoted(vendor)} is no vendor", hint="vendor names match [a-z][a-z0-9_]*")
    if device is not None and (not device or printable(device) != device or device != device.strip()):
        raise UsageError(f"{quoted(device)} is no device name", hint="say which: --device NAME")
    columns: dict[str, Codes] = {}
    by_file = Codes()
    sources = [f if isinstance(f, Foreign) else read_foreign(f) for f in files]
    headers, notes = _read_all(sources, columns, by_file, device)
    check_one_place(set(_told(headers).values()), device, vendor)
    named = dict.fromkeys(by_file, device) if device else _devices(headers, notes)
    devices = [named[digest] for digest in by_file]
    choices = [parse_choice(text) for text in columns[CHOICE]]
    parameters = parameter_order(choices)
    features = headers[0].features
    names, renamed = _feature_names(features, parameters)
    vendors = [vendor or vendor_of(d) or "nvidia" for d in devices]
    table = _table(columns, (vendors, devices, by_file), features, names, parameters, choices)
    rows = _sorted_rows(table)
    failed = sum(row[-2] == "error" for row in rows)
    notes += [*renamed, f"{counted(len(rows), 'row')}, {failed} of them failed"]
    draft = _draft(headers[0].name, columns, devices, features, names, parameters, choices, len(rows))
    return Imported(table.names, rows, draft, tuple(notes))


def _read_all(
    files: Sequence[Foreign], columns: dict[str, Codes], by_file: Codes, device: str | None
) -> tuple[list[Header], list[str]]:
    """Read every distinct file into `columns`; the headers in canonical order."""
    by_digest: dict[str, Header] = {}
    notes: list[str] = []
    for file in sorted(files, key=lambda f: f.file):
        header = read_log(file, columns, by_file, device, seen=frozenset(by_digest))
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


# --- devices ----------------------------------------------------------------------------------------------


def _devices(headers: Sequence[Header], notes: list[str]) -> dict[str, str]:
    """The device of each file, by its digest: what its folder's name tells, else its metadata; notes say which.

    Raises:
        LogError: of two files with equal metadata the folder of one alone tells the device.
    """
    told = _told(headers)
    silent = {h.device: h for h in headers if h.digest not in told}
    for header in headers:
        if header.digest in told and (other := silent.get(header.device)):
            raise LogError(
                f"its folder tells no device, and that of {header.file}, with equal metadata, {told[header.digest]}",
                file=other.file,
                hint="put it into a folder of its device's name, or import one device at a time: --device NAME",
            )
    for source, names in (("folder's name", sorted(set(told.values()))), ("metadata", sorted(silent))):
        if names:
            notes.append(f"device from the {source}: {', '.join(names)} (name it with --device)")
    for device in silent:
        own = (h.file for h in headers if h.device == device and h.digest not in told)
        if len(folders := {os.path.dirname(os.path.abspath(file)) for file in own}) > 1:
            which = f"files of {len(folders)} folders are taken for those of one device, {device}"
            notes.append(f"{which}: where they are not, import one device at a time")
    return {h.digest: told.get(h.digest, h.device) for h in headers}


def _told(headers: Sequence[Header]) -> dict[str, str]:
    """What the folders tell. A name over files with different metadata ("h100_and_a100") is none of a device."""
    names = {h.digest: _folder_device(h.file) for h in headers}
    metadata = {name: {h.device for h in headers if names[h.digest] == name} for name in names.values()}
    return {digest: name for digest, name in names.items() if name and len(metadata[name]) == 1}


def _folder_device(file: str) -> str | None:
    """`autoheuristic/NVIDIA_H200/mm.txt` -> "NVIDIA H200", as torch.cuda.get_device_name() says it.

    Elsewhere too where a name begins as devices' do: `h100_march` is a folder of somebody's own.
    """
    above, folder = os.path.split(os.path.dirname(os.path.abspath(file)))
    name = folder.replace("_", " ").strip()
    full = os.path.basename(above) == "autoheuristic" or name.startswith(("NVIDIA ", "AMD "))
    return name if full and vendor_of(name) and printable(name) == name else None


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
    places: tuple[list[str], list[str], Codes],
    features: Sequence[str],
    names: dict[str, str],
    parameters: Sequence[str],
    choices: list[ParsedChoice],
) -> _Table:
    """`places` are the vendor and the device of every file, and the file of every row."""
    import numpy as np

    def codes_of(column: Codes) -> NDArray[np.int64]:
        return np.frombuffer(column.rows, dtype=np.int64)

    vendors, devices, by_file = places
    choice_codes, file_codes = codes_of(columns[CHOICE]), codes_of(by_file)
    feedback, feedback_codes = list(columns[FEEDBACK]), codes_of(columns[FEEDBACK])
    failed = np.array([text in FAILED for text in feedback], dtype=np.int64)
    out: list[tuple[str, list[str], NDArray[np.int64]]] = [
        ("vendor", vendors, file_codes),
        ("device", devices, file_codes),
    ]
    out += [(names[f], list(columns[f]), codes_of(columns[f])) for f in features]
    out += [(p, [c.get(p, "") for c in choices], choice_codes) for p in parameters]
    out.append(("status", ["ok", "error"], failed[feedback_codes]))
    out.append(("time_ms", ["" if text in FAILED else text for text in feedback], feedback_codes))
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
    devices: Collection[str],
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
            + ", ".join(sorted(set(devices))),
        ),
    )
