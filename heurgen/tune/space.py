"""Parameter spaces: TOML files, and the configs that a space holds on a vendor.

limit = 300
constraints = ["BLOCK_M * BLOCK_N <= 16384", "num_warps >= 4 or BLOCK_M <= 64"]
[parameters]
BLOCK_M = [16, 32, 64, 128]
num_warps = [2, 4, 8]
waves_per_eu = { values = [1, 2], vendors = ["amd"] }
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heurgen.base.errors import ModelError, SpecError, quoted
from heurgen.base.toml import read_toml
from heurgen.ir import RESERVED_NAMES, VENDOR, Value, check_name
from heurgen.tune.constraints import Constraint, parse
from heurgen.tune.protocol import Settings, Space

# A product beyond this is a mistake in the space file, not a plan.
MAX_PRODUCT = 5_000_000
# What a float64, and so a reader of the log, still holds exactly.
MAX_INT = 1 << 53


@dataclass(frozen=True, slots=True)
class ConfigSpace:
    """The configs of a space on one vendor, in canonical order, and the constraints that read features."""

    parameters: tuple[str, ...]
    configs: tuple[Settings, ...]
    conditions: tuple[Constraint, ...]

    def applies(self, config: Settings, features: Mapping[str, Any]) -> bool:
        """Whether every scenario-dependent constraint holds."""
        if not self.conditions:
            return True
        row = {**features, **config}
        return all(c.holds(row) for c in self.conditions)


def read_space(path: Path) -> Space:
    """Read a space file.

    Raises:
        SpecError: the file is no such TOML; names the key and what was expected.
    """
    data = read_toml(path).data
    try:
        return space_from(data)
    except SpecError as error:
        raise SpecError(error.message, file=path, column=error.column, hint=error.hint) from error


def space_from(data: Mapping[str, Any]) -> Space:
    """A space from the mapping that a space file holds."""
    for key in data:
        if key not in ("parameters", "constraints", "limit"):
            raise SpecError(f"unknown key {quoted(key)}", hint="expected parameters, constraints, limit")
    parameters, vendors = {}, {}
    for name, entry in _table(data.get("parameters"), "parameters").items():
        values = entry
        if isinstance(entry, Mapping):
            if not {"values"} <= set(entry) <= {"values", "vendors"}:
                raise SpecError("expected { values = [...], vendors = [...] }", column=name)
            values = entry["values"]
            if "vendors" in entry:
                vendors[name] = entry["vendors"]
        parameters[name] = tuple(values) if isinstance(values, list) else values
    constraints = data.get("constraints", ())
    constraints = tuple(constraints) if isinstance(constraints, list) else constraints
    return checked(Space(parameters, vendors, constraints, data.get("limit", 0)))


def checked(space: Space) -> Space:
    """The space itself, once its names, values and constraints are found to be sound.

    Raises:
        SpecError: says which parameter or constraint, and what was expected.
    """
    if not isinstance(space.parameters, Mapping) or not space.parameters:
        raise SpecError("the space has no parameters")
    for name, values in space.parameters.items():
        try:
            check_name(name, "parameter")
        except ModelError as error:
            raise SpecError(error.message) from error
        if name in RESERVED_NAMES:
            raise SpecError(f"the name {quoted(name)} is reserved for generated code")
        _check_values(name, values)
    for name, vendors in space.vendors.items():
        if name not in space.parameters:
            raise SpecError("vendors given for a parameter that the space does not have", column=name)
        listed = isinstance(vendors, list | tuple) and bool(vendors)
        if not listed or not all(isinstance(v, str) and VENDOR.fullmatch(v) for v in vendors):
            hint = f"write [{vendors!r}]" if isinstance(vendors, str) and VENDOR.fullmatch(vendors) else None
            raise SpecError(f"expected a list of vendors, found {quoted(vendors)}", column=name, hint=hint)
    if not isinstance(space.constraints, list | tuple):
        raise SpecError(f"constraints must be a list of texts, found {quoted(space.constraints)}")
    if type(space.limit) is not int or space.limit < 0:
        raise SpecError(f"limit must be a number of configs, found {quoted(space.limit)}")
    for text in space.constraints:
        parse(text)
    return space


def _check_values(name: str, values: Sequence[Value]) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise SpecError(f"expected a list of values, found {quoted(values)}", column=name)
    if not values:
        raise SpecError("a parameter needs at least one value", column=name)
    for value in values:
        finite = type(value) is not float or math.isfinite(value)
        if type(value) is int and abs(value) > MAX_INT:
            raise SpecError(f"{quoted(value)} is beyond 2**53: a log's reader takes floats", column=name)
        if not (value is None or type(value) in (int, float, bool, str)) or not finite:
            raise SpecError(f"{quoted(value)} is no int, finite float, bool or text", column=name)
        if type(value) is str and (not value or value != value.strip() or not value.isprintable()):
            raise SpecError(f"{quoted(value)} cannot stand in a log", column=name)
    kinds = {float if type(v) in (int, float) else type(v) for v in values if v is not None}
    if len(kinds) > 1:
        raise SpecError("values of one parameter must have one type", column=name)
    if len(set(values)) != len(values):
        raise SpecError("a value is listed twice", column=name)


def enumerate_configs(space: Space, vendor: str, features: Sequence[str]) -> ConfigSpace:
    """The configs of `space` on `vendor`: the product in the order written, less constraints, then the limit.

    Raises:
        SpecError: a constraint reads an unknown name, the product is absurdly large, or nothing is left.
    """
    space = checked(space)
    present = {n: _alike(v) for n, v in space.parameters.items() if vendor in space.vendors.get(n, (vendor,))}
    size = math.prod(len(v) for v in present.values())
    if size > MAX_PRODUCT:
        raise SpecError(f"the space has {size} combinations, expected at most {MAX_PRODUCT}")
    fixed: list[Constraint] = []
    conditions: list[Constraint] = []
    for constraint in map(parse, space.constraints):
        unknown = sorted(constraint.names - set(space.parameters) - set(features))
        if unknown:
            raise SpecError(
                f"the constraint {quoted(constraint.text)} reads {quoted(unknown[0])}",
                hint="which is neither a parameter nor a feature",
            )
        if constraint.names & (set(space.parameters) - set(present)):
            continue  # it speaks of a parameter that this vendor does not have
        (fixed if constraint.names <= set(present) else conditions).append(constraint)
    configs = [dict(zip(present, values, strict=True)) for values in itertools.product(*present.values())]
    configs = [c for c in configs if all(f.holds(c) for f in fixed)]
    if not configs:
        raise SpecError(f"the space holds no config for {vendor}", hint="loosen its constraints")
    kept = spread(configs, space.limit) if space.limit else configs
    return ConfigSpace(tuple(space.parameters), tuple(kept), tuple(conditions))


def spread(
    configs: Sequence[Settings], limit: int, worth: Callable[[str], int] = lambda key: 0
) -> list[Settings]:
    """At most so many of them, in their order: those worth most by their key, of equals a spread by hash."""
    order = sorted(map(config_key, configs), key=lambda key: (-worth(key), spread_key(key)))
    kept = set(order[:limit])
    return [c for c in configs if config_key(c) in kept]


def _alike(values: Sequence[Value]) -> Sequence[Value]:
    """(0.5, 1) -> (0.5, 1.0): as the log's reader, and so the selector and what it advises, will have them."""
    if not any(type(v) is float for v in values):
        return values
    return [float(v) if type(v) is int else v for v in values]


def config_key(config: Settings) -> str:
    """Canonical text of a config. A parameter left out is None: TOML, which workloads are written in, has no null.

    1.0 is 1 there: who names a config in a workload need not know which of them the space has.
    """
    settings = {
        name: int(value) if type(value) is float and value.is_integer() else value
        for name, value in config.items()
        if value is not None
    }
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def spread_key(text: str) -> str:
    """A sort key that has nothing to do with the order of the text, and is the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise SpecError(f"expected a table [{name}]")
    return value
