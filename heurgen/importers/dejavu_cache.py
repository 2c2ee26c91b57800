"""One triton-dejavu cache file, read strictly.

The format: `keys` (names), `cache` (str(tuple of strings) -> str(triton.Config)), `timings` (the same keys ->
[ms] or [median, low, high]), `timings_data.labels` (what the timings are). The
path says the device: `dejavu_<v>/cuda_<v>|rocm_<v>/torch_<v>/triton_<v>/gpu_<NAME>/.../cache.json`.
"""

from __future__ import annotations

import ast
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
from heurgen.errors import LogError, UsageError, printable, quoted
from heurgen.importers.common import check_text

_GPU_FOLDER = re.compile(r"gpu_(.+)")
_GPU_IN_NAME = re.compile(r".*__(.+?)__triton[0-9]")
_DTYPE = re.compile(r"torch\.[a-z][a-z0-9_]*|\*?(fp|bf|i|u|f|int|uint|float|bfloat)[0-9][0-9a-z_]*|bool")
_FIELD = re.compile(r"(?:^|, )([A-Za-z_][A-Za-z0-9_]*): ")
_LABEL = re.compile(
    r"(?:(median|p50|mean|avg|min|max|[a-z]+[0-9]*)_)?(s|ms|us|ns)(?:_(median|p50|mean|avg|min|max))?"
)
_MS: Mapping[str, float] = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
# triton.testing.do_bench: the plain label is the median where quantiles are asked for.
_PREFERENCE = ("median", "p50", "", "mean", "avg")
_VENDOR_WORDS = {"nvidia": "nvidia", "tesla": "nvidia", "geforce": "nvidia", "quadro": "nvidia"}
_VENDOR_WORDS |= {"amd": "amd", "radeon": "amd", "intel": "intel"}


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


@dataclass(frozen=True, slots=True)
class _Source:
    """A file's text, to say where in it something is wrong."""

    file: str
    text: str

    def error(self, message: str, at: str = "", hint: str | None = None) -> LogError:
        place = self.text.find(json.dumps(at)) if at else -1
        row = self.text.count("\n", 0, place) + 1 if place >= 0 else None
        return LogError(message, file=self.file, row=row, hint=hint)


def read_cache(
    file: str | os.PathLike[str], *, device: str | None = None, vendor: str | None = None
) -> Cache:
    """Read one cache.

    Raises:
        LogError: the file is no triton-dejavu cache; says where.
        UsageError: neither its path nor the arguments tell device and vendor.
    """
    source = _Source(os.fspath(file), _read_text(file))
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


def _read_text(file: str | os.PathLike[str]) -> str:
    try:
        with open(file, encoding="utf-8-sig") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise LogError(f"is no UTF-8 text (byte {error.start})", file=file) from error
    except OSError as error:
        raise LogError(f"cannot be read: {error.strerror or error}", file=file) from error


def _parse(source: _Source) -> dict[str, Any]:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) < len(items):
            names = [k for k, _ in items]
            twice = next(k for k in names if names.count(k) > 1)
            raise source.error(f"has the key {quoted(twice)} twice", twice)
        return result

    try:
        data = json.loads(source.text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        what = f"is no JSON: {error.msg} at character {error.colno}"
        raise LogError(what, file=source.file, row=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise LogError(f"is no JSON that can be read: {error}", file=source.file) from error
    if not isinstance(data, dict):
        raise source.error(f"holds a JSON {type(data).__name__}, expected an object")
    for name, kind in (("keys", list), ("cache", dict), ("timings", dict)):
        if name not in data:
            raise source.error(
                f"has no {quoted(name)}",
                hint="expected a triton-dejavu cache.json with keys, cache and timings",
            )
        if not isinstance(data[name], kind):
            expected = "an array" if kind is list else "an object"
            raise source.error(f"{quoted(name)} is a {type(data[name]).__name__}, expected {expected}", name)
    if not data["cache"]:
        raise source.error("has no winner in 'cache'", "cache")
    return data


def _names(source: _Source, data: dict[str, Any]) -> list[str]:
    names: list[str] = data["keys"]
    for name in names:
        if not isinstance(name, str):
            raise source.error(f"'keys' holds {quoted(name)}, expected names", "keys")
        if names.count(name) > 1 or re.fullmatch(r"dtype_[0-9]+", name):
            raise source.error(f"'keys' holds the name {quoted(name)} twice or it is taken", name)
    return names


def _kernel(data: dict[str, Any]) -> str:
    """`JITFunction(package.module:kernel)` -> kernel."""
    found = re.search(r"([A-Za-z_][A-Za-z0-9_]*)\)?\s*$", str(data.get("signature", "")))
    return found.group(1) if found else ""


def _device_and_vendor(file: str, device: str | None, vendor: str | None) -> tuple[str, str]:
    parts = PurePath(os.path.abspath(file)).parts
    if device is None:
        folders = [m.group(1) for part in reversed(parts[:-1]) if (m := _GPU_FOLDER.fullmatch(part))]
        in_name = _GPU_IN_NAME.match(parts[-1])
        found = in_name.group(1) if in_name else folders[0] if folders else ""
        device = found.replace("_", " ").strip()
        if not device:
            raise UsageError(f"{printable(file)}: the path names no device", hint="say which: --device NAME")
    if not device or printable(device) != device:
        raise UsageError(
            f"{printable(file)}: {quoted(device)} is no device name", hint="say which: --device NAME"
        )
    if vendor is None:
        vendor = _VENDOR_WORDS.get(device.split()[0].lower(), "")
        runtimes = [p.partition("_")[0] for p in parts if re.fullmatch(r"(cuda|rocm)_[0-9.]+", p)]
        if not vendor and runtimes:
            vendor = {"cuda": "nvidia", "rocm": "amd"}[runtimes[-1]]
        if not vendor:
            raise UsageError(
                f"{printable(file)}: the vendor of the device {quoted(device)} is unknown",
                hint="say which: --vendor nvidia",
            )
    if not ir.VENDOR.fullmatch(vendor):
        raise UsageError(f"{quoted(vendor)} is no vendor", hint="vendor names match [a-z][a-z0-9_]*")
    return device, vendor


def _winners(source: _Source, data: dict[str, Any], names: list[str]) -> tuple[tuple[Winner, ...], int]:
    index, factor = _time_label(source, data)
    entries, n_dtypes = [], None
    for key, config in data["cache"].items():
        values = _key_values(source, key, names)
        if n_dtypes is None:
            n_dtypes = len(values) - len(names)
        elif len(values) != len(names) + n_dtypes:
            raise source.error(
                f"the key {quoted(key)} has {len(values)} values, and keys before it {len(names) + n_dtypes}",
                key,
            )
        if key not in data["timings"]:
            raise source.error(f"'timings' lacks the key {quoted(key)}", key)
        time = _time(source, key, data["timings"][key], index, factor)
        entries.append(Winner(values, _config(source, key, config), time))
    return tuple(entries), n_dtypes or 0


def _key_values(source: _Source, key: str, names: list[str]) -> tuple[str, ...]:
    try:
        values = ast.literal_eval(key) if len(key) < 100_000 else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        values = None
    if not isinstance(values, tuple) or not all(isinstance(v, str | int | float) for v in values):
        raise source.error(f"the key {quoted(key)} is no tuple of strings", key)
    texts = tuple(str(v) for v in values)
    extra = texts[len(names) :]
    if len(texts) < len(names) or not all(map(_DTYPE.fullmatch, extra)):
        raise source.error(
            f"the key {quoted(key)} has {len(texts)} values, expected {len(names)} as in 'keys', then dtypes",
            key,
        )
    for name, text in zip(names, texts, strict=False):
        check_text(text, f"the value of {quoted(name)} in the key {quoted(key)}", file=source.file)
    return texts


def _config(source: _Source, key: str, text: object) -> dict[str, str]:
    """`BLOCK_M: 16, num_warps: 4, maxnreg: None` -> {"BLOCK_M": "16", ..., "maxnreg": ""}."""
    marks = list(_FIELD.finditer(text)) if isinstance(text, str) else []
    if not isinstance(text, str) or not marks or marks[0].start() != 0:
        raise source.error(
            f"the winner of {quoted(key)} is {quoted(text)}, expected 'NAME: value, NAME: value'", key
        )
    ends = [m.start() for m in marks[1:]] + [len(text)]
    config: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        name, value = mark.group(1), text[mark.end() : end]
        if name in config:
            raise source.error(f"the winner of {quoted(key)} names {name} twice", key)
        what = f"{name} in the winner of {quoted(key)}"
        config[name] = "" if value == "None" else check_text(value, what, file=source.file)
    return config


def _time_label(source: _Source, data: dict[str, Any]) -> tuple[int, float]:
    """Which of a key's timings is the median (else the mean), and the factor to ms. No labels: the first."""
    timings_data = data.get("timings_data")
    labels = timings_data.get("labels") if isinstance(timings_data, dict) else None
    if labels is None:
        return 0, 1.0
    if not isinstance(labels, list) or not labels or not all(isinstance(x, str) for x in labels):
        raise source.error("'timings_data.labels' is no list of labels", "timings_data")
    found: dict[str, tuple[int, float]] = {}
    for i, label in enumerate(labels):
        match = _LABEL.fullmatch(label.lower())
        if match:
            found.setdefault(match.group(1) or match.group(3) or "", (i, _MS[match.group(2)]))
    for name in _PREFERENCE:
        if name in found:
            return found[name]
    raise source.error(
        f"no label in {quoted(labels)} is a median or mean with its unit",
        "labels",
        hint="expected 'ms' for example",
    )


def _time(source: _Source, key: str, timing: object, index: int, factor: float) -> str:
    values = timing if isinstance(timing, list) else [timing]
    value = values[index] if index < len(values) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _positive(value):
        raise source.error(
            f"the time of {quoted(key)} is {quoted(value)}, expected a finite number above 0", key
        )
    return repr(float(value) * factor)


def _positive(value: float) -> bool:
    try:
        return math.isfinite(float(value)) and float(value) > 0
    except OverflowError:
        return False
