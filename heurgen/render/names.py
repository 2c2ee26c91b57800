"""Every name that a generated module defines, chosen before anything is written, to find clashes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from heurgen import ir
from heurgen.errors import EmitError, quoted
from heurgen.render.text import identifier, literal

# Names that the generated functions read and that a feature must therefore not take.
USED_INSIDE = frozenset(
    ("KeyError", "TypeError", "ValueError", "SELECTORS", "DEVICE_SELECTORS", "float", "min", "max")
)
FIXED = ("annotations", "namedtuple", "Callable", "Config", "select", "SELECTORS", "DOMAIN", "PROVENANCE")

ConfigKey = tuple[tuple[str, ...], tuple[tuple[type, str], ...]]


@dataclass(frozen=True, slots=True)
class Names:
    """`types`: parameter names -> Config class; `constants`: `config_key` -> constant; `prefixes`: (vendor,
    device) -> the part of function names that stands for it; `chooser`: the local variable of `select`.
    """

    types: dict[tuple[str, ...], str]
    constants: dict[ConfigKey, str]
    prefixes: dict[tuple[str, str | None], str]
    chooser: str


def config_key(selector: ir.Selector, config: ir.Config) -> ConfigKey:
    """What makes a config distinct: 1, 1.0 and True differ."""
    return selector.parameters, tuple((type(v), literal(v)) for v in config)


def plan(module: ir.HeuristicModule) -> Names:
    """Choose all names.

    Raises:
        EmitError: two things need the same name, or a device has no letter or digit to make a name of.
    """
    types: dict[tuple[str, ...], str] = {}
    constants: dict[ConfigKey, str] = {}
    prefixes: dict[tuple[str, str | None], str] = {}
    for selector in module.selectors:
        if selector.parameters not in types:
            types[selector.parameters] = _type_name(selector.vendor, list(types.values()))
        used = sorted({leaf.config for leaf in ir.leaves(selector.tree)})
        for config in (selector.configs[i] for i in used):
            constants.setdefault(config_key(selector, config), f"_CONFIG_{len(constants)}")
        prefixes[selector.vendor, selector.device] = _prefix(selector)
    local = {c.name for c in module.columns}
    chooser = next(n for n in ("choose", "choose_", "choose__", "choose___") if n not in local)
    names = Names(types, constants, prefixes, chooser)
    _check_clashes(module, names, local)
    return names


def _type_name(vendor: str, taken: list[str]) -> str:
    if not taken:
        return "Config"
    base = "".join(part.capitalize() for part in vendor.split("_")) + "Config"
    numbered = (base if n == 1 else f"{base}{n}" for n in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def _prefix(selector: ir.Selector) -> str:
    if selector.device is None:
        return selector.vendor
    clean = re.sub(r"[^a-z0-9]+", "_", selector.device.lower()).strip("_")
    if not clean:
        raise EmitError(
            f"the device {quoted(selector.device)} has no ASCII letter or digit to name a function after",
            hint="rename the device in the log, or train with --group-by vendor",
        )
    return clean if clean.startswith(f"{selector.vendor}_") else f"{selector.vendor}_{clean}"


def _check_clashes(module: ir.HeuristicModule, names: Names, local: set[str]) -> None:
    owners: dict[str, str] = dict.fromkeys(FIXED, "every generated module")

    def define(name: str, owner: str) -> None:
        identifier(name)
        if name in owners:
            raise EmitError(f"the name {name} is needed by {owners[name]} and by {owner}")
        owners[name] = owner

    if any(s.device is not None for s in module.selectors):
        define("DEVICE_SELECTORS", "the table of devices")
        define("_BY_DEVICE", "the table of devices")
    for type_ in list(names.types.values())[1:]:
        define(type_, "a Config type")
    for constant in names.constants.values():
        define(constant, "a config")
    for selector in module.selectors:
        prefix = names.prefixes[selector.vendor, selector.device]
        owner = selector.vendor if selector.device is None else f"the device {quoted(selector.device)}"
        define(f"select_{prefix}", f"the selector of {owner}")
        for parameter in selector.parameters:
            define(f"{prefix}_{parameter}", f"{parameter} of {owner}")
    inside = USED_INSIDE | frozenset(names.constants.values()) | {"_BY_DEVICE"}
    if taken := sorted(local & inside):
        raise EmitError(f"the feature name {quoted(taken[0])} is one that the generated functions use")
    devices = [s.device for s in module.selectors if s.device is not None]
    if twice := [d for i, d in enumerate(devices) if d in devices[:i]]:
        raise EmitError(f"the device {quoted(twice[0])} belongs to two vendors")
