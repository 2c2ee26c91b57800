"""The part of a generated module that lists the configs to try, where the model has shortlists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heurgen import ir
from heurgen.render import describe, names
from heurgen.render.body import PYTHON_TYPES, body
from heurgen.render.layout import block, bracketed, wrapped
from heurgen.render.text import Code, code, identifier, literal, prose


@dataclass(frozen=True, slots=True)
class Function:
    """One generated function."""

    signature: Code
    doc: Code
    body: Code


@dataclass(frozen=True, slots=True)
class Parts:
    """Constants, `shortlist` with its docstring, the functions of the selectors, and the tables that name them."""

    constants: Code
    signature: Code
    doc: Code
    functions: tuple[Function, ...]
    table: Code
    lookup: Code | None
    by_capability: Code | None


def where(plan: names.Names, by_device: bool) -> list[str]:
    """The arguments of `select` and `shortlist` that say where a launch runs."""
    devices = ["device: str | None = None"] if by_device else []
    capabilities = [f"{identifier(plan.capability)}: str | None = None"] if plan.capability else []
    return ["vendor: str", *devices, *capabilities]


def parts(module: ir.HeuristicModule, plan: names.Names, by_device: bool) -> Parts:
    arguments = ["*", *where(plan, by_device), *_arguments(module)]
    by_name = {_pair(s.vendor, s.device): s for s in module.selectors if s.device is not None}
    alike = {_pair(s.vendor, s.capability): s for s in module.selectors if s.capability is not None}
    return Parts(
        constants=block([_constant(listed, name) for listed, name in plan.shortlists.items()]),
        signature=bracketed("def shortlist(", arguments, f") -> {_returns(plan)}:"),
        doc=_docstring(module),
        functions=tuple(_function(module, s, plan) for s in module.selectors),
        table=_table(
            plan, "SHORTLISTS", {literal(s.vendor): s for s in module.selectors if s.device is None}
        ),
        lookup=_table(plan, "_SHORTLISTS_BY_DEVICE", by_name) if by_device else None,
        by_capability=_table(plan, "_SHORTLISTS_BY_CAPABILITY", alike) if alike else None,
    )


def _constant(listed: tuple[str, ...], name: str) -> Code:
    if len(listed) == 1:
        return code(identifier(name), " = (", identifier(listed[0]), ",)")
    return bracketed(f"{identifier(name)} = (", [identifier(c) for c in listed], ")")


def _arguments(module: ir.HeuristicModule) -> list[str]:
    return [f"{identifier(f.name)}: {PYTHON_TYPES[f.type]}" for f in module.features]


def _returns(plan: names.Names) -> Code:
    return Code(f"tuple[{' | '.join(identifier(n) for n in plan.types.values())}, ...]")


def _docstring(module: ir.HeuristicModule) -> Code:
    said = "What a tuner should try, what `select` chooses first. Arguments and errors are those of `select`."
    lines: list[str] = [f"The configs of {prose(module.kernel)} to try for a launch.", ""]
    return block([*lines, *wrapped(said, "    ", "    ")])


def _function(module: ir.HeuristicModule, selector: ir.Selector, plan: names.Names) -> Function:
    def listed(leaf: ir.Leaf) -> Code:
        constant = plan.shortlists[names.shortlist_key(selector, leaf, plan.constants)]
        return code("return ", identifier(constant), describe.evidence(leaf))

    name = f"shortlist_{plan.prefixes[selector.vendor, selector.device]}"
    returns = f"tuple[{identifier(plan.types[selector.parameters])}, ...]"
    return Function(
        bracketed(f"def {identifier(name)}(", _arguments(module), f") -> {returns}:"),
        prose(f"The configs to try for {describe.owner(selector)}."),
        body(selector.tree, module, listed),
    )


def _table(plan: names.Names, name: str, selectors: Mapping[Code, ir.Selector]) -> Code:
    items = [f"{key}: shortlist_{plan.prefixes[s.vendor, s.device]}" for key, s in selectors.items()]
    key = "str" if name == "SHORTLISTS" else "tuple[str, str]"
    return bracketed(f"{name}: dict[{key}, Callable[..., {_returns(plan)}]] = {{", items, "}")


def _pair(vendor: str, name: str | None) -> Code:
    return code("(", literal(vendor), ", ", literal(name), ")")
