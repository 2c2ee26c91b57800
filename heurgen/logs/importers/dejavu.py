"""triton-dejavu caches (JSON, winners only) -> a tuning log.

A cache names its key positions in `keys`; dtypes of the arguments may follow them. A dtype that never varies
is dropped with a note, one that does becomes the category `dtype_N` (N: its place among the dtypes, from 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import WINNERS_ONLY, Options, with_constants
from heurgen.logs.importers.common import (
    Imported,
    described,
    feature_entries,
    parted,
    safe_name,
    sorted_rows,
    usable_name,
)
from heurgen.logs.importers.dejavu_cache import Cache, Winner, read_cache, told_device
from heurgen.logs.importers.devices import check_one_place
from heurgen.logs.importers.foreign import Foreign
from heurgen.spec.draft_toml import Draft, Entry
from heurgen.spec.kernel_spec import LogColumns

# What `str(triton.Config)` prints for fields that no kernel set, by Triton's defaults (2.x to 3.x). A field
# that holds its default in every winner says nothing, and newer releases have dropped most of them.
TRITON_DEFAULTS: Mapping[str, str] = {
    "num_ctas": "1",
    "maxnreg": "",
    "num_buffers_warp_spec": "0",
    "num_consumer_groups": "0",
    "reg_dec_producer": "0",
    "reg_inc_consumer": "0",
    "enable_warp_specialization": "False",
    "enable_persistent": "False",
    "pre_hook": "",
    "ir_override": "",
}


@dataclass(frozen=True, slots=True)
class _Row:
    vendor: str
    device: str
    features: Mapping[str, str]
    parameters: Mapping[str, str]
    time_ms: str


def recognises(file: Foreign) -> bool:
    head = file.text[:65536]
    return '"keys"' in head and ('"cache"' in head or '"timings"' in file.text)


def folders_say(file: Foreign) -> str:
    """The device."""
    return told_device(file.file)


def run(files: Sequence[Foreign], options: Options) -> Imported:
    """Read triton-dejavu caches of one kernel as one tuning log.

    `device` and `vendor` override what the paths say (`gpu_NVIDIA_H100/` or, in the file's name,
    `__AMD_Instinct_MI300X__triton3.3.0`); `rename` maps names of features and parameters in the caches to
    names in the log.

    Raises:
        LogError: a file is no such cache, or the files are of different kernels.
        UsageError: a device or vendor that no path tells, one that is said of several, or a rename or constant that
            does not fit.
    """
    device, vendor = options.device, options.vendor
    check_one_place({told for f in files if (told := told_device(f.file))}, device, vendor)
    caches, notes = _distinct([read_cache(f, device, vendor) for f in files])
    caches = _renamed(caches, options.rename)
    _check_same_kernel(caches)
    rows = [_row(cache, entry) for cache in caches for entry in cache.entries]
    rows, dropped = _without_defaults(rows)
    rows, constant = _without_constant_dtypes(rows, caches[0].names)
    imported = _imported(rows, caches, (WINNERS_ONLY, *notes, *dropped, *constant))
    return with_constants(imported, options.const)


def _distinct(caches: list[Cache]) -> tuple[list[Cache], list[str]]:
    """Each content once per device, in an order that does not depend on the order of the files."""
    kept: dict[tuple[str, str, str], Cache] = {}
    notes = []
    for cache in sorted(caches, key=lambda c: (c.vendor, c.device, c.digest, c.file)):
        first = kept.setdefault((cache.vendor, cache.device, cache.digest), cache)
        if first is not cache:
            notes.append(f"{cache.file} has the content of {first.file}: taken once")
    by_digest: dict[str, Cache] = {}
    for cache in kept.values():
        other = by_digest.setdefault(cache.digest, cache)
        if other is not cache:
            notes.append(
                f"{cache.file} has the content of {other.file}, yet their devices differ "
                f"({cache.device}, {other.device}): both are kept, one of the two paths may be wrong"
            )
    return list(kept.values()), notes


def _renamed(caches: list[Cache], rename: Mapping[str, str]) -> list[Cache]:
    known = {name for c in caches for name in (*c.names, *c.parameters())}
    for old, new in sorted(rename.items()):
        if old not in known:
            names = ", ".join(sorted(known))
            raise UsageError(f"cannot rename {quoted(old)}: no file has it", hint=f"names: {names}")
        if not usable_name(new):
            raise UsageError(
                f"cannot rename {quoted(old)} to {quoted(new)}",
                hint="a name is an ASCII identifier, no keyword, and not one that heurgen uses itself",
            )
    return [_rename_one(c, rename) for c in caches]


def _rename_one(cache: Cache, rename: Mapping[str, str]) -> Cache:
    seen: dict[str, str] = {}
    parameters = cache.parameters()
    for old in (*cache.names, *parameters):
        new = rename.get(old, old)
        if not usable_name(new) or (old in parameters and new.startswith("_")):
            hint = f"give it another name: --rename {old}=NAME"
            raise LogError(f"{quoted(new)} cannot name a column", file=cache.file, hint=hint)
        if new in seen:
            same = old == seen[new]
            what = "is both a key and a parameter" if same else f"would take the name of {quoted(seen[new])}"
            hint = "map one of them to a free name with --rename"
            raise UsageError(f"{printable(cache.file)}: {quoted(old)} {what}", hint=hint)
        seen[new] = old
    entries = tuple(
        replace(e, config={rename.get(k, k): v for k, v in e.config.items()}) for e in cache.entries
    )
    return replace(cache, names=tuple(rename.get(n, n) for n in cache.names), entries=entries)


def _check_same_kernel(caches: list[Cache]) -> None:
    first = caches[0]
    for other in caches[1:]:
        if other.kernel and first.kernel and other.kernel != first.kernel:
            raise LogError(
                f"is a cache of {quoted(other.kernel)}, and {first.file} of {quoted(first.kernel)}",
                file=other.file,
                hint="import one kernel at a time",
            )
        if odd := sorted(set(other.names) ^ set(first.names)):
            raise LogError(
                f"its keys differ from those of {first.file} in {', '.join(odd)}",
                file=other.file,
                hint="import one kernel at a time, or map the names with --rename",
            )


def _row(cache: Cache, entry: Winner) -> _Row:
    features = dict(zip(cache.names, entry.key, strict=True))
    return _Row(cache.vendor, cache.device, features, entry.config, entry.time_ms)


def _without_defaults(rows: list[_Row]) -> tuple[list[_Row], list[str]]:
    """Rows without the Triton fields that hold their default everywhere."""
    found = {name for row in rows for name in row.parameters}
    drop = [
        name
        for name, default in TRITON_DEFAULTS.items()
        if name in found and all(r.parameters.get(name, default) == default for r in rows)
    ]
    notes = [f"dropped, at Triton's default in every winner: {', '.join(drop)}"] if drop else []
    # A file of a release that lacks a field ran with its default.
    fill = {n: d for n, d in TRITON_DEFAULTS.items() if n in found and n not in drop}
    if fill:
        notes.append(f"kept, not at Triton's default in every winner: {', '.join(fill)}")
    return [
        replace(r, parameters={**fill, **{k: v for k, v in r.parameters.items() if k not in drop}})
        for r in rows
    ], notes


def _without_constant_dtypes(rows: list[_Row], names: Iterable[str]) -> tuple[list[_Row], list[str]]:
    constant = {}
    for name in names:
        values = {r.features[name] for r in rows}
        if name.startswith("dtype_") and len(values) == 1:
            constant[name] = values.pop()
    if not constant:
        return rows, []
    kept = [replace(r, features={k: v for k, v in r.features.items() if k not in constant}) for r in rows]
    return kept, ["dropped, never varying: " + ", ".join(f"{k} ({v})" for k, v in constant.items())]


def _imported(rows: list[_Row], caches: list[Cache], notes: tuple[str, ...]) -> Imported:
    features = list(rows[0].features)
    parameters = _parameter_order(rows)
    columns = ["vendor", "device", *features, *parameters, "status", "time_ms"]
    table = sorted_rows(
        [
            (
                r.vendor,
                r.device,
                *(r.features[f] for f in features),
                *(r.parameters.get(p, "") for p in parameters),
                "ok",
                r.time_ms,
            )
            for r in rows
        ]
    )
    # Each cache was tuned on its own: its winner is no rival config of another cache's scenario.
    columns, table, parts = parted(columns, table, 2 + len(features))
    draft = _draft(rows, features, parameters, caches, table)
    return Imported(tuple(columns), table, draft, (*notes, *parts))


def _parameter_order(rows: list[_Row]) -> list[str]:
    """As the winners spell them, new names of later files after those of earlier ones."""
    return list(dict.fromkeys(name for row in rows for name in row.parameters))


def _draft(
    rows: list[_Row],
    features: list[str],
    parameters: list[str],
    caches: list[Cache],
    table: list[tuple[str, ...]],
) -> Draft:
    vendors = sorted({r.vendor for r in rows})
    kernel = next((c.kernel for c in caches if c.kernel), "kernel")
    return Draft(
        name=safe_name(kernel),
        features=feature_entries([(f, {r.features[f] for r in rows}) for f in features]),
        parameters=tuple(_parameter(p, rows, vendors) for p in parameters),
        log=LogColumns(winners_only=True),
        header=(
            f"Drafted by heurgen import dejavu from {counted(len(table), 'winner')} on "
            + ", ".join(sorted({r.device for r in rows})),
            WINNERS_ONLY,
        ),
    )


def _parameter(name: str, rows: list[_Row], vendors: list[str]) -> Entry:
    """A parameter that a vendor's winners never name does not exist there; other blanks: optional."""
    having = [v for v in vendors if any(name in r.parameters for r in rows if r.vendor == v)]
    values = {r.parameters.get(name, "") for r in rows if r.vendor in having}
    column = described(name, values, optional="" in values)
    return Entry(replace(column, vendors=tuple(having) if len(having) < len(vendors) else ()))
