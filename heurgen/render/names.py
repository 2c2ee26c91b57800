"""Every name that a generated module defines, chosen before anything is written, to find clashes."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from heurgen import ir
from heurgen.base.errors import EmitError, quoted
from heurgen.render.text import identifier, literal

SHORTLIST = ("shortlist", "SHORTLISTS", "_SHORTLISTS_BY_DEVICE", "_SHORTLISTS_BY_CAPABILITY")
FIXED = ("annotations", "namedtuple", "Callable", "Config", "select", "SELECTORS", "DOMAIN", "PROVENANCE")

_RENAME = "rename the device in the log, or train with --group-by vendor"

ConfigKey = tuple[tuple[str, ...], tuple[tuple[type, str], ...]]


@dataclass(frozen=True, slots=True)
class Names:
    """`types`: parameter names -> Config class; `constants`: `config_key` -> constant; `prefixes`: (vendor,
    device) -> the part of function names that stands for it; `chooser`: the local variable of `select`;
    `capability`: its argument, None where no selector answers for one;
    `shortlists`: the constants of a shortlist -> its own constant, none where the model has no shortlists.
    """

    types: dict[tuple[str, ...], str]
    constants: dict[ConfigKey, str]
    prefixes: dict[tuple[str, str | None], str]
    chooser: str
    capability: str | None
    shortlists: dict[tuple[str, ...], str]


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
        used = sorted({i for leaf in ir.leaves(selector.tree) for i in (leaf.config, *leaf.shortlist)})
        for config in (selector.listed[i] for i in used):
            constants.setdefault(config_key(selector, config), f"_CONFIG_{len(constants)}")
        prefixes[selector.vendor, selector.device] = _prefix(selector)
    local = {c.name for c in module.columns}
    stands_in = any(s.capability is not None for s in module.selectors)
    capability = free("capability", local) if stands_in else None
    chooser = free("choose", local)
    names = Names(types, constants, prefixes, chooser, capability, _shortlists(module, constants))
    _check_clashes(module, names)
    return names


def free(name: str, taken: Set[str]) -> str:
    """The name, with as many underscores behind it as make it none of `taken`."""
    while name in taken:
        name += "_"
    return name


def _shortlists(module: ir.HeuristicModule, constants: dict[ConfigKey, str]) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    trees = [(s, leaf) for s in module.selectors for leaf in ir.leaves(s.tree)]
    if any(leaf.shortlist for _, leaf in trees):
        for selector, leaf in trees:
            found.setdefault(shortlist_key(selector, leaf, constants), f"_SHORTLIST_{len(found)}")
    return found


def shortlist_key(selector: ir.Selector, leaf: ir.Leaf, constants: dict[ConfigKey, str]) -> tuple[str, ...]:
    """The constants of a leaf's configs to try: its one config where it has no shortlist."""
    listed = (selector.listed[i] for i in leaf.shortlist or (leaf.config,))
    return tuple(dict.fromkeys(constants[config_key(selector, config)] for config in listed))


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
            hint=_RENAME,
        )
    return clean if clean.startswith(f"{selector.vendor}_") else f"{selector.vendor}_{clean}"


def _check_clashes(module: ir.HeuristicModule, names: Names) -> None:
    owners: dict[str, tuple[str, str | None]] = dict.fromkeys(FIXED, ("every generated module", None))

    def define(name: str, owner: str, hint: str | None = None) -> None:
        identifier(name)
        if name in owners:
            other, remedy = owners[name]
            raise EmitError(f"the name {name} is needed by {other} and by {owner}", hint=hint or remedy)
        owners[name] = owner, hint

    if any(s.device is not None for s in module.selectors):
        define("DEVICE_SELECTORS", "the table of devices")
        define("_BY_DEVICE", "the table of devices")
        define("_BY_CAPABILITY", "the table of devices")
    for type_ in list(names.types.values())[1:]:
        define(type_, "a Config type")
    for constant in names.constants.values():
        define(constant, "a config")
    for name in (*SHORTLIST, *names.shortlists.values()) if names.shortlists else ():
        define(name, "the shortlists")
    for selector in module.selectors:
        prefix = names.prefixes[selector.vendor, selector.device]
        owner = selector.vendor if selector.device is None else f"the device {quoted(selector.device)}"
        hint = None if selector.device is None else _RENAME
        define(f"select_{prefix}", f"the selector of {owner}", hint)
        if names.shortlists:
            define(f"shortlist_{prefix}", f"the shortlist of {owner}", hint)
        for parameter in selector.parameters:
            define(f"{prefix}_{parameter}", f"{parameter} of {owner}", hint)
    devices = [s.device for s in module.selectors if s.device is not None]
    if twice := [d for i, d in enumerate(devices) if d in devices[:i]]:
        raise EmitError(f"the device {quoted(twice[0])} belongs to two vendors", hint=_RENAME)
