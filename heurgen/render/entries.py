"""What `select` and `shortlist` of a generated module have in common: arguments, and the tables that they look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heurgen import ir
from heurgen.render.allowed import ENTRIES
from heurgen.render.body import arguments
from heurgen.render.layout import bracketed
from heurgen.render.names import Names
from heurgen.render.text import Code, code, identifier, literal


@dataclass(frozen=True, slots=True)
class Tables:
    """Assignments of dicts to functions: by vendor, by (vendor, device), by (vendor, capability)."""

    by_vendor: Code
    by_device: Code | None
    by_capability: Code | None


def signature(module: ir.HeuristicModule, plan: Names, entry: str, returns: Code) -> Code:
    """The head of `select` or `shortlist`: where a launch runs, then the features."""
    where = ["*", "vendor: str"]
    if has_devices(module):
        where.append("device: str | None = None")
    if plan.capability is not None:
        where.append(f"{identifier(plan.capability)}: str | None = None")
    return bracketed(f"def {entry}(", [*where, *arguments(module)], f") -> {returns}:")


def has_devices(module: ir.HeuristicModule) -> bool:
    return any(s.device is not None for s in module.selectors)


def tables(module: ir.HeuristicModule, plan: Names, entry: str, returns: Code) -> Tables:
    """The tables of `select` or `shortlist`, whose functions are named after it and return `returns`."""
    vendor_table, capability_table, device_table = ENTRIES[entry]
    vendors = {literal(s.vendor): s for s in module.selectors if s.device is None}
    devices = {_pair(s.vendor, s.device): s for s in module.selectors if s.device is not None}
    alike = {_pair(s.vendor, s.capability): s for s in module.selectors if s.capability is not None}
    return Tables(
        table(vendor_table, "str", vendors, plan, entry, returns),
        table(device_table, "tuple[str, str]", devices, plan, entry, returns) if devices else None,
        table(capability_table, "tuple[str, str]", alike, plan, entry, returns) if alike else None,
    )


def table(
    name: str, key: str, selectors: Mapping[Code, ir.Selector], plan: Names, entry: str, returns: Code
) -> Code:
    items = [f"{text}: {entry}_{plan.prefixes[s.vendor, s.device]}" for text, s in selectors.items()]
    return bracketed(f"{name}: dict[{key}, Callable[..., {returns}]] = {{", items, "}")


def _pair(vendor: str, name: str | None) -> Code:
    return code("(", literal(vendor), ", ", literal(name), ")")
