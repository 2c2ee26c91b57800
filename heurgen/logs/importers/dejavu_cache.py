"""One triton-dejavu cache file, read strictly.

The format: `keys` (names), `cache` (str(tuple of strings) -> str(triton.Config)), `timings` (the same keys ->
[ms] or [median, low, high]), `timings_data.labels` (what the timings are). The
path says the device: `dejavu_<v>/cuda_<v>|rocm_<v>/torch_<v>/triton_<v>/gpu_<NAME>/.../cache.json`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from heurgen import ir
from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.common import check_text
from heurgen.logs.importers.devices import device_and_vendor
from heurgen.logs.importers.foreign import Foreign, a, parse_json, python_value
from heurgen.logs.vendors import vendor_of
from heurgen.spec.kernel_spec import MAX_EXACT_INT, is_time
from heurgen.spec.log_columns import MS, UNIT_WORDS

_GPU_FOLDER = re.compile(r"gpu_(.+)")
_DTYPE = re.compile(r"torch\.[a-z][a-z0-9_]*|\*?(fp|bf|i|u|f|int|uint|float|bfloat)[0-9][0-9a-z_]*|bool")
_FIELD = re.compile(r"(?:^|, )([A-Za-z_][A-Za-z0-9_]*): ")
_LABEL = re.compile(
    r"(?:(median|p50|mean|avg|min|max|[a-z]+[0-9]*)_)?(s|ms|us|ns)(?:_(median|p50|mean|avg|min|max))?"
)
# triton.testing.do_bench: the plain label is the median where quantiles are asked for.
_PREFERENCE = ("median", "p50", "", "mean", "avg")
_RUNTIME = re.compile(r"(cuda|rocm)_[0-9.]+")
_RUNTIMES = {"cuda": "nvidia", "rocm": "amd"}


@dataclass(frozen=True, slots=True)
class Winner:
    """The fastest config of one key; `time_ms` as a log spells it, blank parameters for None."""

    key: tuple[str, ...]
    config: Mapping[str, str]
    time_ms: str


@dataclass(frozen=True, slots=True)
class Cache:
    """One file. `digest` identifies its content whatever the JSON's layout; `kernel` may be unknown ("")."""

    file: str
    digest: str
    vendor: str
    device: str
    kernel: str
    names: tuple[str, ...]
    entries: tuple[Winner, ...]

    def parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for e in self.entries for name in e.config))


def read_cache(source: Foreign, device: str | None, vendor: str | None) -> Cache:
    """Read one cache.

    Raises:
        LogError: the file is no triton-dejavu cache; says where.
        UsageError: neither its path nor the arguments tell device and vendor.
    """
    data = _parse(source)
    names = _names(source, data)
    device, vendor = _device_and_vendor(source.file, device, vendor)
    entries, n_dtypes = _winners(source, data, names)
    canonical = json.dumps(data, sort_keys=True).encode()
    return Cache(
        file=source.file,
        digest=hashlib.sha256(canonical).hexdigest(),
        vendor=vendor,
        device=device,
        kernel=_kernel(data),
        names=(*names, *(f"dtype_{i}" for i in range(n_dtypes))),
        entries=entries,
    )


def _parse(source: Foreign) -> dict[str, Any]:
    data: dict[str, Any] = a(source, parse_json(source), dict, "")
    for name, kind in (("keys", list), ("cache", dict), ("timings", dict)):
        if name not in data:
            raise source.error(
                f"has no {quoted(name)}",
                hint="expected a triton-dejavu cache.json with keys, cache and timings",
            )
        if not isinstance(data[name], kind):
            expected = "an array" if kind is list else "an object"
            raise source.error(
                f"{quoted(name)} is a {type(data[name]).__name__}, expected {expected}", at=name
            )
    if not data["cache"]:
        raise source.error("has no winner in 'cache'", at="cache")
    return data


def _names(source: Foreign, data: dict[str, Any]) -> list[str]:
    names: list[str] = data["keys"]
    for name in names:
        if not isinstance(name, str):
            raise source.error(f"'keys' holds {quoted(name)}, expected names", at="keys")
        if names.count(name) > 1 or re.fullmatch(r"dtype_[0-9]+", name):
            raise source.error(f"'keys' holds the name {quoted(name)} twice or it is taken", at=name)
    return names


def _kernel(data: dict[str, Any]) -> str:
    """`JITFunction(package.module:kernel)` -> kernel."""
    # At the end alone: a pattern that may begin anywhere takes the square of a long signature's length.
    end = str(data.get("signature", ""))[-ir.MAX_NAME :].rstrip().removesuffix(")")
    found = re.fullmatch(r"(?:.*[^A-Za-z0-9_])?([A-Za-z_][A-Za-z0-9_]*)", end, re.DOTALL)
    return found.group(1) if found else ""


def _device_and_vendor(file: str, device: str | None, vendor: str | None) -> tuple[str, str]:
    """As said, else as the path tells; of a device whose name tells no vendor, the runtime's folder does."""
    told = told_device(file)
    if vendor is None and vendor_of(device or told) is None:
        parts = reversed(PurePath(os.path.abspath(file)).parts)
        vendor = next((_RUNTIMES[m[1]] for m in map(_RUNTIME.fullmatch, parts) if m), None)
    return device_and_vendor(file, told, device, vendor)


def told_device(file: str) -> str:
    """The device that a path names, or ""."""
    parts = PurePath(os.path.abspath(file)).parts
    folders = [m.group(1) for part in reversed(parts[:-1]) if (m := _GPU_FOLDER.fullmatch(part))]
    found = _gpu_in_name(parts[-1]) or (folders[0] if folders else "")
    return found.replace("_", " ").strip()


def _gpu_in_name(name: str) -> str:
    """`kernel__AMD_Instinct_MI300X__triton3.3.0_...` -> AMD_Instinct_MI300X; "" where it is not so spelled."""
    before, mark, version = name.rpartition("__triton")
    return before.rpartition("__")[2] if mark and version[:1].isdigit() and "__" in before else ""


def _winners(source: Foreign, data: dict[str, Any], names: list[str]) -> tuple[tuple[Winner, ...], int]:
    index, factor = _time_label(source, data)
    entries, n_dtypes = [], None
    for key, config in data["cache"].items():
        values = _key_values(source, key, names)
        if n_dtypes is None:
            n_dtypes = len(values) - len(names)
        elif len(values) != len(names) + n_dtypes:
            raise source.error(
                f"the key {quoted(key)} has {counted(len(values), 'value')}, and keys before it "
                f"{len(names) + n_dtypes}",
                at=key,
            )
        if key not in data["timings"]:
            raise source.error(f"'timings' lacks the key {quoted(key)}", at=key)
        time = _time(source, key, data["timings"][key], index, factor)
        entries.append(Winner(values, printed_config(source, key, config), time))
    return tuple(entries), n_dtypes or 0


def _key_values(source: Foreign, key: str, names: list[str]) -> tuple[str, ...]:
    values = python_value(key)
    if not isinstance(values, tuple) or not all(map(_is_plain, values)):
        raise source.error(f"the key {quoted(key)} is no tuple of strings", at=key)
    texts = tuple(str(v) for v in values)
    extra = texts[len(names) :]
    if len(texts) < len(names) or not all(map(_DTYPE.fullmatch, extra)):
        raise source.error(
            f"the key {quoted(key)} has {counted(len(texts), 'value')}, expected {len(names)} as in 'keys', then "
            "dtypes",
            at=key,
        )
    for name, text in zip(names, texts, strict=False):
        check_text(text, f"the value of {quoted(name)} in the key {quoted(key)}", file=source.file)
    return texts


def _is_plain(value: object) -> bool:
    """Text, or a number that a log can hold: `0xff...` of a hundred thousand digits has no decimal text."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str) or (isinstance(value, int) and abs(value) <= MAX_EXACT_INT)


def printed_config(source: Foreign, key: str, text: object, row: int | None = None) -> dict[str, str]:
    """What `str(triton.Config)` says, `BLOCK_M: 16, cache_modifier: , maxnreg: None`; nothing and None are blank."""
    marks = list(_FIELD.finditer(text)) if isinstance(text, str) else []
    if not isinstance(text, str) or not marks or marks[0].start() != 0:
        raise source.error(
            f"the winner of {quoted(key)} is {quoted(text)}, expected 'NAME: value, NAME: value'",
            at=key,
            row=row,
        )
    ends = [m.start() for m in marks[1:]] + [len(text)]
    config: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        name, value = mark.group(1), text[mark.end() : end]
        if name in config:
            raise source.error(f"the winner of {quoted(key)} names {name} twice", at=key, row=row)
        what = f"{name} in the winner of {quoted(key)}"
        config[name] = "" if value in ("", "None") else check_text(value, what, file=source.file, row=row)
    return config


def _time_label(source: Foreign, data: dict[str, Any]) -> tuple[int, float]:
    """Which of a key's timings is the median (else the mean), and the factor to ms. No labels: the first."""
    timings_data = data.get("timings_data")
    labels = timings_data.get("labels") if isinstance(timings_data, dict) else None
    if labels is None:
        return 0, 1.0
    if not isinstance(labels, list) or not labels or not all(isinstance(x, str) for x in labels):
        raise source.error("'timings_data.labels' is no list of labels", at="timings_data")
    found: dict[str, tuple[int, float]] = {}
    for i, label in enumerate(labels):
        match = _LABEL.fullmatch(label.lower())
        if match:
            found.setdefault(match.group(1) or match.group(3) or "", (i, MS[UNIT_WORDS[match.group(2)]]))
    for name in _PREFERENCE:
        if name in found:
            return found[name]
    raise source.error(
        f"no label in {quoted(labels)} is a median or mean with its unit",
        at="labels",
        hint="expected 'ms' for example",
    )


def _time(source: Foreign, key: str, timing: Any, index: int, factor: float) -> str:
    values = timing if isinstance(timing, list) else [timing]
    value = values[index] if index < len(values) else None
    usable = isinstance(value, int | float) and not isinstance(value, bool) and _is_plain(value)
    number = float(value or 0) if usable else math.nan
    if not is_time(number * factor):
        raise source.error(
            f"the time of {quoted(key)} is {quoted(value)}, expected a finite number above 0", at=key
        )
    return repr(number * factor)
