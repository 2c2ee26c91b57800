"""Watching a selector at work: which launches does real traffic ask for, and which has training never seen?

    from heurgen.runtime import observe
    from mykernels import heuristics

    select = observe(heuristics.select, sample=0.001, path="traffic.csv")

`heurgen advise MODEL.json LOG... --spec SPEC --traffic traffic.csv` reads the file. Nothing here is imported
by a generated module: a selector that is not wrapped costs nothing extra. Standard library only.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Out-of-domain scenarios remembered so that each is written when it is first seen, and not again.
_REMEMBERED = 4096
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
    known = domain if domain is not None else _domain_of(select)
    names = _argument_names(select)
    log = TrafficLog(os.fspath(path), names, max_bytes)
    return _wrapped(select, names, known, round(1.0 / sample) if sample else 0, log)


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
# cost more than the selector itself. It is made of the argument names of a compiled function, nothing else.
_WRAPPER = """
def make(select, seen, every, bounds):
    ({bound_names}) = bounds
    left = every
    def observed({signature}):
        nonlocal left
        config = select({call})
        left -= 1
        try:
            inside = {inside}
        except Exception:
            inside = False
        if not inside or not left:
            if not left:
                left = every
                seen(({row}), every)
            if not inside:
                seen(({row}), 0)
        return config
    return observed
"""


def _wrapped(
    select: Callable[..., Any],
    names: tuple[str, ...],
    domain: Mapping[str, Mapping[str, Any]],
    every: int,
    log: TrafficLog,
) -> Callable[..., Any]:
    """The wrapper: one look per feature at its range, and a countdown to the next sample."""
    tests, bounds = [], []
    for i, name in enumerate(names):
        seen = domain.get(name, {})
        if seen.get("low") is not None:
            tests.append(f"_low{i} <= {name} <= _high{i}")
            bounds += [(f"_low{i}", seen["low"]), (f"_high{i}", seen["high"])]
        elif seen.get("values"):
            tests.append(f"{name} in _values{i}")
            bounds.append((f"_values{i}", frozenset(seen["values"])))
    keyword_only = select.__code__.co_kwonlyargcount
    text = _WRAPPER.format(
        bound_names="".join(f"{n}, " for n, _ in bounds),
        signature=("*, " if keyword_only else "") + ", ".join(names),
        call=", ".join(f"{n}={n}" if keyword_only else n for n in names),
        inside=" and ".join(tests) or "True",
        row="".join(f"{n}, " for n in names),
    )
    space: dict[str, Any] = {}
    exec(compile(text, "<heurgen.runtime.observe>", "exec"), space)
    made: Callable[..., Any] = space["make"](select, _recorder(log), every or -1, tuple(v for _, v in bounds))
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
        handle = os.open(self.path, flags, 0o644)
        try:
            size = os.fstat(handle).st_size
            header = (",".join([*self.names, "count"]) + "\n").encode()
            if size and (size + len(line) > self.max_bytes or not _starts_with(handle, header)):
                os.replace(self.path, self.path + ".old")
                os.close(handle)
                handle = os.open(self.path, flags, 0o644)
                size = os.fstat(handle).st_size
            if not size:
                line = header + line
            elif not _ends_a_line(handle, size):
                line = b"\n" + line  # a power cut tore the last row
            os.write(handle, line)
        finally:
            os.close(handle)


def _starts_with(handle: int, header: bytes) -> bool:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, len(header)) == header


def _ends_a_line(handle: int, size: int) -> bool:
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) == b"\n"


def _cell(value: Any) -> str:
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
