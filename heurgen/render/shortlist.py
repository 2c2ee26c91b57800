"""The part of a generated module that lists the configs to try, where the model has shortlists."""

from __future__ import annotations

from dataclasses import dataclass

from heurgen import ir
from heurgen.render import describe, names
from heurgen.render.body import Function, arguments, body
from heurgen.render.entries import Tables, signature, tables
from heurgen.render.layout import block, bracketed, wrapped
from heurgen.render.text import Code, code, identifier, prose


@dataclass(frozen=True, slots=True)
class Parts:
    """Constants, `shortlist` with its docstring, the functions of the selectors, and the tables that name them."""

    constants: Code
    signature: Code
    doc: Code
    functions: tuple[Function, ...]
    tables: Tables


def parts(module: ir.HeuristicModule, plan: names.Names, config: Code) -> Parts:
    """`config`: the type of what `select` returns."""
    returns = code("tuple[", config, ", ...]")
    return Parts(
        constants=block([_constant(listed, name) for listed, name in plan.shortlists.items()]),
        signature=signature(module, plan, "shortlist", returns),
        doc=_docstring(module),
        functions=tuple(_function(module, s, plan) for s in module.selectors),
        tables=tables(module, plan, "shortlist", returns),
    )


def _constant(listed: tuple[str, ...], name: str) -> Code:
    if len(listed) == 1:
        return code(identifier(name), " = (", identifier(listed[0]), ",)")
    return bracketed(f"{identifier(name)} = (", [identifier(c) for c in listed], ")")


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
        bracketed(f"def {identifier(name)}(", arguments(module), f") -> {returns}:"),
        prose(f"The configs to try for {describe.owner(selector)}."),
        body(selector.tree, module, listed),
    )
