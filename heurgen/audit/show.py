"""A model's trees as plain text and as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heurgen import ir
from heurgen.audit.explain import test_text
from heurgen.audit.recorded import held_out, held_out_text
from heurgen.audit.regions import flags_of
from heurgen.base.errors import UsageError, literal, quoted
from heurgen.base.text import counted, percent, slowdown_text
from heurgen.ir import passes
from heurgen.ir.schema import node_data, to_dict


def config_text(names: tuple[str, ...], config: ir.Config) -> str:
    """A config as `BLOCK_M=16 num_warps=4`; values that are not applicable are left out."""
    return " ".join(f"{n}={literal_text(v)}" for n, v in zip(names, config, strict=True) if v is not None)


def literal_text(value: ir.Value) -> str:
    """A value bare where it is a plain word or a number, else in quotes."""
    if not isinstance(value, str):
        return repr(value)
    return value if value.isidentifier() else literal(value)


def evidence_text(leaf: ir.Leaf) -> str:
    """What backs a leaf: its training scenarios and the slowdown expected there."""
    count = counted(leaf.n_scenarios, "scenario")
    return count if leaf.slowdown is None else f"{count}, {slowdown_text(leaf.slowdown)}"


def selector_title(selector: ir.Selector) -> str:
    where = selector.device or ", ".join(selector.devices)
    unknown = "" if selector.costs_known else "; winners only, slowdown unknown"
    found = held_out(selector)[0] if unknown else None
    if found is not None and found.agreement is not None:
        unknown += f", the winner on {percent(found.agreement)} of held-out scenarios"
    n_leaves = sum(1 for _ in ir.leaves(selector.tree))
    size = f"depth {ir.depth(selector.tree)}, {counted(n_leaves, 'leaf')}, {counted(len(selector.configs), 'config')}"
    name = f"{selector.vendor} ({where})" if where else selector.vendor
    return f"{name}: {counted(selector.n_scenarios, 'scenario')}, {size}{unknown}"


def tree_title(selector: ir.Selector) -> str:
    """The title of a drawn tree: its leaves tell training's slowdowns, so that the held-out ones come first."""
    told = held_out_text(held_out(selector)[0]) if selector.costs_known else ""
    return selector_title(selector) + (f"; held out {told} (in the leaves: training)" if told else "")


def show(module: ir.HeuristicModule, vendor: str | None = None, parameter: str | None = None) -> str:
    """Every selector's tree as indented text; one parameter's tree where one is named."""
    parts, flags = [], flags_of(module)
    for selector in chosen_selectors(module, vendor, parameter):
        lines = [tree_title(selector)]
        _lines(*labelled(selector, parameter), flags, 1, lines)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def labelled(selector: ir.Selector, parameter: str | None) -> tuple[ir.Node, list[str]]:
    """The tree of whole configs, or of one parameter, and the text of each that its leaves name."""
    if parameter is None:
        return selector.tree, [config_text(selector.parameters, c) for c in selector.configs]
    values, tree = passes.project(selector, parameter)
    return tree, [f"{parameter} = {literal_text(v)}" for v in values]


def chosen_selectors(
    module: ir.HeuristicModule, vendor: str | None, parameter: str | None
) -> tuple[ir.Selector, ...]:
    """The selectors of one vendor, or of all, that set a parameter, or any.

    Raises:
        ModelError: the vendor is unknown.
        UsageError: none of them sets the parameter.
    """
    if vendor is not None:
        module.selector(vendor)
    chosen = tuple(s for s in module.selectors if vendor in (None, s.vendor))
    known = dict.fromkeys(name for s in chosen for name in s.parameters)
    if parameter is not None and parameter not in known:
        raise UsageError(f"{quoted(parameter)} is no parameter", hint=f"parameters: {', '.join(known)}")
    return tuple(s for s in chosen if parameter is None or parameter in s.parameters)


def _lines(node: ir.Node, texts: list[str], flags: Sequence[str], level: int, out: list[str]) -> None:
    indent = "  " * level
    if isinstance(node, ir.Leaf):
        out.append(f"{indent}{texts[node.config]}  # {evidence_text(node)}")
        return
    out.append(f"{indent}if {test_text(node, flags)}:")
    _lines(node.left, texts, flags, level + 1, out)
    out.append(f"{indent}else:")
    _lines(node.right, texts, flags, level + 1, out)


def show_data(
    module: ir.HeuristicModule, vendor: str | None = None, parameter: str | None = None
) -> dict[str, Any]:
    """The same as JSON data: the selectors as in the model, or one parameter's values and tree."""
    selectors = chosen_selectors(module, vendor, parameter)
    if parameter is None:
        keep = {(s.vendor, s.device) for s in selectors}
        data = to_dict(module)["selectors"]
        return {"kernel": module.kernel, "selectors": [d for d in data if (d["vendor"], d["device"]) in keep]}
    projected = [(s, *passes.project(s, parameter)) for s in selectors]
    return {
        "kernel": module.kernel,
        "parameter": parameter,
        "selectors": [
            {"vendor": s.vendor, "device": s.device, "values": list(values), "tree": node_data(tree)}
            for s, values, tree in projected
        ],
    }
