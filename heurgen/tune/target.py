"""Finding a tunable and asking it: the optional parts of the protocol get their defaults here."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from heurgen.base.errors import HeurgenError, ModelError, UsageError, printable, quoted
from heurgen.ir import COLUMN_TYPES, check_name
from heurgen.logs.card import FIRST, LAST
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings, Space, Tunable

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_REQUIRED = ("name", "features", "space", "workload", "inputs", "launch", "reference")
# Short names of the kernels that come with heurgen.
BUNDLED = {
    "paged_attention": "heurgen_kernels.tools.tunable:tunable",
    "static_grid": "heurgen_kernels.tools.static_tunable:tunable",
}
# Columns of the log that a feature or parameter cannot take.
BOOKKEEPING = (*FIRST, *LAST)
MAX_REASON = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """A tunable, where it was found, and the answers of its optional parts."""

    path: str
    tunable: Tunable
    file: str | None = None  # of the module that it was found in

    def scenario_class(self, scenario: Scenario) -> str:
        if self._offers("scenario_class"):
            return self._asked("scenario_class", str, scenario)
        return json.dumps([_compiled_as(scenario.features[k]) for k in self.tunable.features])

    def work(self, scenario: Scenario) -> float:
        if self._offers("work"):
            return self._asked("work", float, scenario)
        numbers = [
            scenario.features[k] for k, kind in self.tunable.features.items() if kind in ("int", "float")
        ]
        return math.prod(max(1.0, abs(float(n))) for n in numbers)

    # Configs are asked about as copies: the matrix has them once, and writes them into the log.

    def applies(self, config: Settings, scenario: Scenario) -> bool:
        return not self._offers("applies") or self._asked("applies", bool, dict(config), scenario)

    def launched(self, config: Settings, scenario: Scenario, device: DeviceInfo) -> Settings:
        if not self._offers("launched"):
            return config
        return self._asked("launched", _settings, dict(config), scenario, device)

    def fits(self, config: Settings, scenario: Scenario, device: DeviceInfo) -> str | None:
        if not self._offers("fits"):
            return None
        return self._asked(
            "fits", lambda reason: None if reason is None else str(reason), dict(config), scenario, device
        )

    def _offers(self, part: str) -> bool:
        return self._part(part) is not None

    def _part(self, name: str) -> Any:
        """An optional part, or None; UsageError where it is a property that raises."""
        try:
            return getattr(self.tunable, name, None)
        except Exception as error:  # whatever it raises
            raise _failing(name, error) from error

    def _asked(self, part: str, read: Callable[[Any], T], *arguments: Any) -> T:
        """What an optional part answers; UsageError where a stranger's code raises, or answers something else."""
        try:
            return read(self._part(part)(*arguments))
        except HeurgenError:
            raise
        except (Exception, SystemExit) as error:  # whatever it raises
            raise _failing(part, error) from error

    def source_hash(self) -> str:
        """SHA-256 over the bytes of the kernel's files, in the order of their names."""
        given = self._part("sources") or [self.file]
        if given == [None]:
            raise UsageError(
                "the tunable's module has no file to hash", hint="give it `sources`, a list of paths"
            )
        many = isinstance(given, Iterable) and not isinstance(given, str | os.PathLike)
        paths = list(given) if many else []  # a generator gives them once
        if not paths or not all(isinstance(p, str | os.PathLike) for p in paths):
            raise UsageError(f"the sources of the tunable must be a list of paths, found {quoted(given)}")
        digest = hashlib.sha256()
        for path in sorted(map(Path, paths), key=lambda p: (p.name, str(p))):
            try:
                content = path.read_bytes()
            except OSError as error:
                raise UsageError(f"cannot hash the kernel: {error.strerror}", file=path) from error
            digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()


def load_target(path: str) -> Target:
    """Import `package.module:name`, with the current directory on the import path.

    Raises:
        UsageError: no such module or attribute, or it lacks a part of the protocol.
    """
    if not _TARGET.fullmatch(path):
        expected = f"expected package.module:name, or of the bundled kernels {' or '.join(BUNDLED)}"
        raise UsageError(f"{quoted(path)} is no target", hint=expected)
    module_name, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        file = getattr(found, "__file__", None)
        for part in attribute.split("."):
            found = getattr(found, part)
        return Target(path, checked_tunable(found, path), file)
    except HeurgenError:
        raise
    except (Exception, SystemExit) as error:  # whatever the import of a stranger's module raises
        hint = "pip install 'heurgen[kernels]'" if _lacks_torch(error) else None
        raise UsageError(f"cannot load {quoted(path)}: {first_line(error)}", hint=hint) from error


def checked_tunable(found: Any, path: str) -> Tunable:
    """`found` itself, once it is known to offer what the protocol asks for."""
    missing = [name for name in _REQUIRED if not hasattr(found, name)]
    if missing:
        raise UsageError(
            f"{quoted(path)} is no tunable: it has no {missing[0]}",
            hint="the protocol is described in heurgen.tune.protocol",
        )
    if not isinstance(found.features, Mapping) or not found.features:
        raise UsageError(f"the features of {quoted(path)} must be a mapping of names to types")
    if not isinstance(found.space, Space) or not isinstance(found.workload, Mapping):
        raise UsageError(f"{quoted(path)} needs a heurgen.tune.protocol.Space and a mapping as workload")
    try:
        check_name(found.name, "kernel")
        for name, kind in found.features.items():
            check_name(name, "feature")
            if kind not in COLUMN_TYPES:
                raise UsageError(
                    f"feature {quoted(name)} has type {quoted(kind)}", hint=", ".join(COLUMN_TYPES)
                )
    except ModelError as error:
        raise UsageError(error.message) from error
    return found  # type: ignore[no-any-return]


def check_columns(features: Mapping[str, str], parameters: tuple[str, ...]) -> None:
    """Raise UsageError where a feature, a parameter and the log's own columns share a name."""
    seen = set(BOOKKEEPING)
    for name in (*features, *parameters):
        if name in seen:
            raise UsageError(f"the column name {quoted(name)} is used twice")
        seen.add(name)


def first_line(error: BaseException) -> str:
    """What an exception says, in one bounded line fit for a log: its type and its first line."""
    try:
        text = str(error)
    except Exception:  # a stranger's exception may fail in saying what it is
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bounded(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def bounded(text: object) -> str:
    """Text for the log's `reason` column: ASCII, one line, bounded, no first character that a table runs."""
    line = ascii(printable(text))[1:-1].replace("\\\\", "\\").replace("\\'", "'")
    line = line if len(line) <= MAX_REASON else line[: MAX_REASON - 3] + "..."
    return "'" + line if line[:1] in ("=", "+", "-", "@") else line


def _failing(part: str, error: BaseException) -> UsageError:
    hint = "heurgen.tune.protocol says what it is asked and answers"
    return UsageError(f"{quoted(part)} of the tunable fails: {first_line(error)}", hint=hint)


def _settings(found: Any) -> Settings:
    """What `launched` gives, which is to be compared and logged as a config is."""
    settings = dict(found)
    if odd := [v for v in settings.values() if not (v is None or type(v) in (int, float, bool, str))]:
        raise TypeError(f"{quoted(odd[0])} is no int, float, bool or text")
    return settings


def _compiled_as(value: int | float | bool | str) -> str:
    """What Triton's compiler may see of a value: ints are specialised on 1 and on multiples of 16."""
    if type(value) is int:
        return "1" if value == 1 else "16" if value % 16 == 0 else "int"
    return "float" if type(value) is float else str(value)


def _lacks_torch(error: BaseException) -> bool:
    return isinstance(error, ImportError) and error.name in ("torch", "triton")
