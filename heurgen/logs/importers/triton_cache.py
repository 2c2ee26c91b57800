"""Triton's autotuning cache (`<kernel>.autotune.json`, Triton 3.4 to 3.9) -> measurements.

A file is one tuning: `{"key": [values of the decorator's key names, then dtypes], "configs_timings": [[config,
[median, p20, p80]], ...]}`. It names neither its key nor its device nor its kernel's code: the key's names are
given (`--keys`) or read from the decorator (`--key-from file.py:function`, parsed, never imported). Files of one
key are merged: of a config that several hold, the file that changed last counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.decorator import decorator_keys, split_place
from heurgen.logs.importers.foreign import Foreign, a, parse_json, setting, time_of

_ENDING = ".autotune.json"
_DTYPE = re.compile(r"torch\.[a-z][a-z0-9_]*|[a-z][a-z0-9_]*[0-9]+[a-z0-9_]*|bool")
# Fields of a config beside its kwargs: these first, then what other versions and forks of Triton have.
_FIELDS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
_NO_FIELDS = ("kwargs", "pre_hook")
# A field that is null does not apply; one that every config leaves off (num_ctas: at 1) says nothing.
_OFF = {"num_ctas": ("1",)}
# p80 - p20 of a normal distribution, in standard deviations.
_SPREAD = 1.6832
Config = tuple[tuple[str, str], ...]
Timings = dict[Config, tuple[float | None, float | None]]


def recognises(file: Foreign) -> bool:
    return file.name.endswith(_ENDING) or '"configs_timings"' in file.text[:65536]


@dataclass(frozen=True, slots=True)
class Tuning:
    """(time, noise) by config; a time of None is a failure. `fields` of a config stand beside its kwargs."""

    file: str
    age: tuple[float, str]
    kernel: str
    key: tuple[str, ...]
    fields: frozenset[str]
    timings: Timings


def import_triton(files: Sequence[Foreign], options: Options) -> Imported:
    tunings = [_read(f) for f in files if options.kernel in (None, _kernel(f))] or [_read(f) for f in files]
    timed = [t for t in tunings if t.timings]
    if not timed:
        raise LogError("no config was timed", file=tunings[0].file, column="configs_timings")
    empty, tunings = len(tunings) - len(timed), timed
    kernel = one_kernel(tunings, options)
    tunings = sorted((t for t in tunings if t.kernel == kernel), key=lambda t: t.age)
    names = key_names(options, "a Triton cache", tunings[0].key)
    found = Collected("triton")
    device, vendor = found.place(tunings[0].file, None, options)
    found.kernel = kernel
    if empty:
        found.notes.append(f"{counted(empty, 'file')} without a timed config left out")
    merged = _merged(tunings, found)
    dropped = _left_off(tunings)
    features = key_features(tunings, names, found.notes)
    for key, timings in merged.items():
        scenario = found.scenario(vendor, device, features[key])
        for config, (time, noise) in timings.items():
            cells = {k: v for k, v in config if k not in dropped}
            found.add(scenario, cells, time, "ok" if time is not None else "invalid")
            if noise is not None:
                found.noises.append(noise)
    return found.imported(options)


def _merged(tunings: Sequence[Tuning], found: Collected) -> dict[tuple[str, ...], Timings]:
    """The timings of every key; tunings, ascending in age, replace those of the same config before them."""
    merged: dict[tuple[str, ...], Timings] = {}
    replaced = 0
    for tuning in tunings:
        own = merged.setdefault(tuning.key, {})
        replaced += len(own.keys() & tuning.timings.keys())
        own.update(tuning.timings)
    if replaced:
        found.notes.append(f"{counted(replaced, 'measurement')} of older files gave way to newer ones")
    return merged


def one_kernel(tunings: Sequence[Tuning], options: Options) -> str:
    """The kernel that the options say, `--key-from` among them, or the only one."""
    said = split_place(options.key_from)[1] if options.key_from else None
    wanted = options.kernel or (said if said in {t.kernel for t in tunings} else None)
    kernels = sorted({t.kernel for t in tunings})
    if wanted is not None and wanted not in kernels:
        raise UsageError(f"no file is of the kernel {quoted(wanted)}", hint=f"found: {', '.join(kernels)}")
    if wanted is None and len(kernels) > 1:
        raise UsageError(f"the files are of {len(kernels)} kernels", hint=f"--kernel {' or '.join(kernels)}")
    return wanted or kernels[0]


def _left_off(tunings: Sequence[Tuning]) -> set[str]:
    """Fields that no config turns on."""
    on = {n for t in tunings for c in t.timings for n, value in c if value not in _OFF.get(n, ("0", "false"))}
    return {n for t in tunings for n in t.fields} - on - (set(_FIELDS) - _OFF.keys())


# --- one file ---------------------------------------------------------------------------------------------


def _kernel(file: Foreign) -> str:
    return file.name.removesuffix(_ENDING) if file.name.endswith(_ENDING) else "kernel"


def _read(file: Foreign) -> Tuning:
    """Triton leaves out configs with hooks: a file may have no timings."""
    data = a(file, parse_json(file), dict, "")
    for name in ("key", "configs_timings"):
        if name not in data:
            raise file.error(f"the key {quoted(name)} is missing", hint="expected Triton's *.autotune.json")
    key = tuple(setting(file, v, f"key[{i}]", "key") for i, v in enumerate(a(file, data["key"], list, "key")))
    timings: dict[Config, tuple[float | None, float | None]] = {}
    fields: set[str] = set()
    for i, entry in enumerate(a(file, data["configs_timings"], list, "configs_timings")):
        path = f"configs_timings[{i}]"
        if len(a(file, entry, list, path)) != 2:
            raise file.error(
                f"found {counted(len(entry), 'value')}, expected a config and its timings", path=path
            )
        kwargs, own = _config(file, entry[0], path)
        fields.update(own)
        timings[tuple({**kwargs, **own}.items())] = _timing(file, entry[1], path)
    try:
        changed = os.stat(file.file).st_mtime
    except OSError:
        changed = 0.0
    return Tuning(file.file, (changed, file.digest), _kernel(file), key, frozenset(fields), timings)


def _config(file: Foreign, data: Any, path: str) -> tuple[dict[str, str], dict[str, str]]:
    """Its kwargs and its other fields, which Triton launches with where both name one."""
    config = a(file, data, dict, path)
    given = a(file, config.get("kwargs", {}), dict, f"{path}.kwargs")
    kwargs = {k: setting(file, v, f"{path}.kwargs.{k}", k) for k, v in given.items()}
    names = [n for n in dict.fromkeys((*_FIELDS, *config)) if n not in _NO_FIELDS]
    own = {n: setting(file, config[n], f"{path}.{n}", n) for n in names if config.get(n) is not None}
    if not kwargs and not own:
        raise file.error("the config is empty", path=path)
    return kwargs, own


def _timing(file: Foreign, data: Any, path: str) -> tuple[float | None, float | None]:
    """The time in ms and its relative noise; a user's `do_bench` may give one number."""
    values = data if isinstance(data, list) else [data]
    if not values:
        raise file.error("found no time", path=path)
    times = [time_of(file, v, path, at="configs_timings") for v in values[:3]]
    if times[0] is None or len(times) < 3 or times[1] is None or times[2] is None:
        return times[0], None
    return times[0], noise_of(times[0], times[1], times[2])


def noise_of(median: float, low: float, high: float) -> float:
    """The relative noise of a time, of its 20th and 80th percentiles."""
    return max(0.0, high - low) / _SPREAD / median


# --- the key ----------------------------------------------------------------------------------------------


def key_names(options: Options, what: str, key: Sequence[str]) -> tuple[str, ...]:
    """The names of the key, which `what` does not tell, as the options do.

    Raises:
        UsageError: they do not, or twice.
    """
    if options.keys and options.key_from:
        raise UsageError("--keys and --key-from say the same", hint="give one of them")
    names = options.keys or (decorator_keys(options.key_from) if options.key_from else ())
    if not names:
        raise UsageError(
            f"{what} does not name its key, which holds {', '.join(map(quoted, key))}",
            hint="--keys M,N,K in the decorator's order, or --key-from file.py:function",
        )
    return names


def _check_names(tunings: Sequence[Tuning], names: Sequence[str], notes: list[str]) -> None:
    """A name too many takes the first dtype for its value; so does one that a launch was not given.

    Raises:
        LogError: a name has a dtype in some keys, in others none.
    """
    for i, name in enumerate(names):
        typed = [t for t in tunings if t.key[i].startswith("torch.") and _DTYPE.fullmatch(t.key[i])]
        if typed and len(typed) < len(tunings):
            said = f"its key ({', '.join(map(printable, typed[0].key))}) has the dtype {typed[0].key[i]} for {name}"
            why = f"other keys do not: launches that were not given {name}, or one name too many"
            raise LogError(f"{said}, and {why}", file=typed[0].file, column="key", hint="import them apart")
        if typed:
            notes.append(f"{name} is a dtype in every key ({typed[0].key[i]}): is it one name too many?")


def key_features(
    tunings: Sequence[Tuning], names: Sequence[str], notes: list[str]
) -> dict[tuple[str, ...], dict[str, str]]:
    """Each key as features: the decorator's names, then dtypes; a dtype that never varies is left out.

    What was not given is `none`: a value of the key that is null, the dtype of an optional tensor.
    """
    found = {}
    most = max(len(t.key) for t in tunings) - len(names)
    for tuning in tunings:
        extra = tuning.key[len(names) :]
        if len(tuning.key) < len(names) or (bad := next((t for t in extra if not _DTYPE.fullmatch(t)), None)):
            said = f"{quoted(bad)} is no dtype" if len(tuning.key) >= len(names) else "it is too short"
            raise LogError(
                f"its key ({', '.join(map(printable, tuning.key))}) is not {', '.join(names)}, then dtypes: {said}",
                file=tuning.file,
                column="key",
                hint="--keys names the decorator's key in its order",
            )
        found[tuning.key] = {
            **{n: text or "none" for n, text in zip(names, tuning.key, strict=False)},
            **{f"dtype_{i}": text for i, text in enumerate((*extra, *["none"] * (most - len(extra))))},
        }
    _check_names(tunings, names, notes)
    rows = list(found.values())
    constant = {n for r in rows for n in r if n.startswith("dtype_") and len({o.get(n) for o in rows}) == 1}
    return {k: {n: v for n, v in r.items() if n not in constant} for k, r in found.items()}
