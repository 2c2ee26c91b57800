"""A generated selector at work: bound to the GPU that is here, and watched.

    from heurgen.runtime import bind, observe
    from mykernels import heuristics

    choose = bind(heuristics.select)                 # vendor and device are found; takes the features alone
    config = choose(num_seqs=8, max_seqlen_q=1)

HEURGEN_LOG=1 logs each first decision in one line. `observe` answers which launches real traffic asks for, and which
training has never seen:

    select = observe(heuristics.select, sample=0.001, path="traffic.csv")

`heurgen advise MODEL.json LOG... --spec SPEC --traffic traffic.csv` reads the file. Nothing here is imported
by a generated module: a selector that is not wrapped costs nothing extra. Standard library only.
"""

from __future__ import annotations

import contextlib
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from heurgen.machine import Machine as Machine
from heurgen.machine import machine as machine

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

# Out-of-domain scenarios remembered so that each is written when it is first seen, and not again.
_REMEMBERED = 4096
# How often a file is opened for a row that others are renaming it under; then the row is left out.
_ATTEMPTS = 10
# co_flags of functions with *args and **kwargs (the inspect module is slow to import).
_VARARGS, _VARKEYWORDS = 4, 8


def observe(
    select: Callable[..., Any],
    sample: float = 0.001,
    path: str | os.PathLike[str] = "heurgen_traffic.csv",
    *,
    max_bytes: int = 1_000_000,
    domain: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[..., Any]:
    """Wrap a generated selector so that it logs some of the scenarios it is called with.

    Every 1/sample-th call is written, as a row that counts for that many; and every scenario outside the
    ranges and categories of training once, when it is first seen. One row is one append of one whole line, so
    that a crash or kill -9 leaves whole lines and several processes can share a file. When the file is full
    it is renamed to PATH.old (the earlier one is dropped) and a new one begun: both together stay below twice
    `max_bytes`. An error while writing ends the logging, never the launch: `wrapped.log.error` keeps it.

    Args:
        select: `select` or a function of `SELECTORS` of a generated module.
        sample: share of the calls to write, 0 to 1; 0 writes out-of-domain scenarios alone.
        path: the CSV; its folder must exist.
        max_bytes: size at which the file is full.
        domain: `DOMAIN` of the generated module; found by itself where `select` is a function of one.

    Returns:
        A function with the arguments and results of `select`; its attribute `log` is the `TrafficLog`.

    Raises:
        ValueError: sample or max_bytes is out of range, or the domain is not given and not found.
    """
    if not 0.0 <= sample <= 1.0:
        raise ValueError(f"sample is {sample!r}, expected a share from 0 to 1")
    if max_bytes < 1000:
        raise ValueError(f"max_bytes is {max_bytes!r}, expected at least 1000")
    plain = getattr(select, "__wrapped__", select)  # what `bind` logs
    names = _argument_names(plain)
    known = domain if domain is not None else _domain_of(plain)
    log = TrafficLog(os.fspath(path), names, max_bytes)
    return _wrapped(select, names, known, round(min(1.0 / sample, 2.0**53)) if sample else 0, log)


def _domain_of(select: Callable[..., Any]) -> Mapping[str, Mapping[str, Any]]:
    module = sys.modules.get(getattr(select, "__module__", None) or "")
    found = getattr(select, "__globals__", {}).get("DOMAIN") or getattr(module, "DOMAIN", None)
    if not isinstance(found, Mapping):
        raise ValueError("the domain of the selector is unknown: pass domain=module.DOMAIN")
    return found


def _argument_names(select: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(select, "__code__", None)
    if code is None or code.co_flags & (_VARARGS | _VARKEYWORDS) or code.co_posonlyargcount:
        raise ValueError("expected `select` or a function of SELECTORS of a generated module")
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


# What a call does. The text is compiled once per selector, as namedtuple does: a loop over the features would
# cost more than the selector itself. It is made of the argument names of a compiled function, and of names that
# begin with `{p}`, which none of them does.
_WRAPPER = """
def {p}make({p}select, {p}seen, {p}every, {p}bounds, {p}Error):
    ({bound_names}) = {p}bounds
    {p}left = {p}every
    def {p}observed({signature}):
        nonlocal {p}left
        {p}config = {p}select({call})
        {p}left -= 1
        try:
            {p}inside = {inside}
        except {p}Error:
            {p}inside = False
        if not {p}inside or {p}left < 1:  # threads that count at once may pass 0
            if {p}left < 1:
                {p}left = {p}every
                {p}seen(({row}), {p}every)
            if not {p}inside:
                {p}seen(({row}), 0)
        return {p}config
    return {p}observed
"""


def _wrapped(
    select: Callable[..., Any],
    names: tuple[str, ...],
    domain: Mapping[str, Mapping[str, Any]],
    every: int,
    log: TrafficLog,
) -> Callable[..., Any]:
    """The wrapper: one look per feature at its range, and a countdown to the next sample."""
    p = "_"
    while any(name.startswith(p) for name in names):
        p += "_"
    tests, bounds = [], []
    for i, name in enumerate(names):
        seen = domain.get(name, {})
        if seen.get("low") is not None:
            tests.append(f"{p}low{i} <= {name} <= {p}high{i}")
            bounds += [(f"{p}low{i}", seen["low"]), (f"{p}high{i}", seen["high"])]
        elif seen.get("values"):
            tests.append(f"{name} in {p}values{i}")
            bounds.append((f"{p}values{i}", frozenset((*seen["values"], *seen.get("aliases", ())))))
    plain = getattr(select, "__wrapped__", select)
    keyword_only = plain.__code__.co_kwonlyargcount
    defaults = plain.__kwdefaults__ or {}
    bounds += [(f"{p}default{i}", defaults[n]) for i, n in enumerate(names) if n in defaults]
    declared = [f"{n}={p}default{i}" if n in defaults else n for i, n in enumerate(names)]
    text = _WRAPPER.format(
        p=p,
        bound_names="".join(f"{n}, " for n, _ in bounds),
        signature=("*, " if keyword_only else "") + ", ".join(declared),
        call=", ".join(f"{n}={n}" if keyword_only else n for n in names),
        inside=" and ".join(tests) or "True",
        row="".join(f"{n}, " for n in names),
    )
    space: dict[str, Any] = {}
    exec(compile(text, "<heurgen.runtime.observe>", "exec"), space)
    values = tuple(v for _, v in bounds)
    made: Callable[..., Any] = space[f"{p}make"](
        select, _recorder(log), every or float("inf"), values, Exception
    )
    made.log = log  # type: ignore[attr-defined]
    return made


def _recorder(log: TrafficLog) -> Callable[[tuple[Any, ...], int], None]:
    """What happens on the rare calls: a sample stands for `every` launches, an outsider (0) is written once."""
    remembered: set[tuple[Any, ...]] = set()

    def seen(row: tuple[Any, ...], every: int) -> None:
        try:
            if not every:
                if row in remembered or len(remembered) >= _REMEMBERED:
                    return
                remembered.add(row)
            log.add(row, every or 1)
        except Exception as error:
            log.error = error

    return seen


class TrafficLog:
    """An append-only CSV of scenarios with counts, bounded by renaming the full file to PATH.old.

    `error` is what ended the logging, None while it goes on.
    """

    __slots__ = ("error", "max_bytes", "names", "path")

    def __init__(self, path: str, names: Sequence[str], max_bytes: int) -> None:
        self.path, self.names, self.max_bytes = path, tuple(names), max_bytes
        self.error: Exception | None = None

    def add(self, row: Sequence[Any], count: int) -> None:
        """Append one scenario that stands for `count` launches."""
        if self.error is not None:
            return
        line = ",".join([*map(_cell, row), str(count)]) + "\n"
        try:
            self._append(line.encode("utf-8", "backslashreplace"))
        except OSError as error:
            self.error = error

    def _append(self, line: bytes) -> None:
        # Opened anew for each row: rows are rare, and another process may have renamed the file.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        header = (",".join([*self.names, count_column(self.names)]) + "\n").encode()
        for _ in range(_ATTEMPTS):
            handle = os.open(self.path, flags, 0o644)
            try:
                size = os.fstat(handle).st_size
                if size and (size + len(line) > self.max_bytes or not _starts_with(handle, header)):
                    self._put_away(handle)
                    continue
                if not size:
                    line = header + line
                elif not _ends_a_line(handle, size):
                    line = b"\n" + line  # a power cut tore the last row
                os.write(handle, line)
                return
            finally:
                os.close(handle)

    def _put_away(self, handle: int) -> None:
        """Rename the open file to PATH.old, unless another process has done so, or is at it.

        Two that find a file full must not both rename: the second would drop the full file for the new one. Nobody
        waits for a lock, since a launch would.
        """
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            except OSError:  # a file system without locks
                pass
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.path), os.fstat(handle)):
                os.replace(self.path, self.path + ".old")


def count_column(names: Iterable[str]) -> str:
    """The column that says how many launches a row stands for: `count`, or `count_` where a feature is `count`."""
    taken, name = set(names), "count"
    while name in taken:
        name += "_"
    return name


def _starts_with(handle: int, header: bytes) -> bool:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, len(header)) == header


def _ends_a_line(handle: int, size: int) -> bool:
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) == b"\n"


def _cell(value: Any) -> str:
    if value is None:  # `select` of a module with selectors per device, called without a device
        return ""
    if isinstance(value, str):
        plain = not any(c in value for c in ',"\r\n')
        return value if plain else '"' + value.replace('"', '""') + '"'
    if isinstance(value, float):
        return repr(float(value))
    if type(value).__name__ in ("bool", "bool_"):
        return "true" if value else "false"
    try:
        return str(operator.index(value))
    except TypeError:
        return repr(float(value))


# --- the GPU that is here ---------------------------------------------------------------------------------


def bind(
    select: Callable[..., Any],
    *,
    index: int = 0,
    vendor: str | None = None,
    device: str | None = None,
    capability: str | None = None,
) -> Callable[..., Any]:
    """The selector for a GPU of this machine: a function of the features alone, by name or in spec order.

    Without HEURGEN_LOG it is a function of the generated module itself: a call costs nothing extra.

    Args:
        select: `select` of a generated module.
        index: number of the GPU, as the program counts them.
        vendor: what to answer for where it is not to be found out, "nvidia" or "amd"; also on a machine without a GPU.
        device: the device's name, likewise; one that the module does not know is answered for by its capability, then
            by its vendor.
        capability: the compute capability, likewise: "9.0" on NVIDIA, "gfx942" on AMD.

    Raises:
        RuntimeError: no GPU was found, and no vendor is given.
        ValueError: the module has no selector for the vendor, or `select` is none of a generated module.
    """
    space = getattr(select, "__globals__", {})
    selectors = space.get("SELECTORS")
    if not isinstance(selectors, Mapping):
        raise ValueError("expected `select` of a generated module")
    found = None if vendor is not None else machine(index)
    if found is not None:
        vendor, device, capability = found.vendor, device or found.device, capability or found.capability
    if vendor is None:
        raise RuntimeError(f"no NVIDIA or AMD GPU number {index} was found on this machine: pass vendor=")
    if vendor not in selectors:
        raise ValueError(f"unknown vendor {vendor!r}, known: {', '.join(selectors)}")
    alike: Callable[..., Any] = space.get("_BY_CAPABILITY", {}).get((vendor, capability), selectors[vendor])
    choose: Callable[..., Any] = space.get("_BY_DEVICE", {}).get((vendor, device), alike)
    if os.environ.get("HEURGEN_LOG", "0") in ("", "0"):
        return choose
    said = f" ({capability})" if capability is not None else ""
    kernel = space.get("PROVENANCE", {}).get("kernel", "kernel")
    return _logged(choose, f"heurgen: {kernel} on {vendor}, {device or 'any device'}{said}:")


def _logged(choose: Callable[..., Any], head: str) -> Callable[..., Any]:
    """The same function, and a line on stderr when a config is chosen for the first time."""
    names = _argument_names(choose)
    known: set[int] = set()

    def logged(*args: Any, **features: Any) -> Any:
        config = choose(*args, **features)
        if id(config) not in known:  # configs are constants of the module: they are not collected
            known.add(id(config))
            given = ", ".join(f"{n}={v!r}" for n, v in [*zip(names, args, strict=False), *features.items()])
            line = f"{head} {given} -> {config!r}"
            # A launch never fails since a log cannot be written.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stderr.write(line.encode("ascii", "backslashreplace").decode().replace("\n", " ") + "\n")
        return config

    logged.__wrapped__ = choose  # type: ignore[attr-defined]
    return logged
