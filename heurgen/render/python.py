"""IR -> the text of a Python module that needs the standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.ir import passes
from heurgen.render import allowed, checksum, describe, names, shortlist
from heurgen.render.body import PYTHON_TYPES, Function, arguments, body
from heurgen.render.entries import has_devices, signature, table, tables
from heurgen.render.environment import environment
from heurgen.render.layout import WIDTH, assignment, block, bracketed, sorted_data
from heurgen.render.target import Rendered, Request, one_file
from heurgen.render.text import Code, code, identifier, literal, prose


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    return one_file(render_python(module, request.command))


def render_python(module: ir.HeuristicModule, command: str = "heurgen emit MODEL.json") -> str:
    """The text of the generated module, header and checksum included.

    `command` is what the header says makes it again, fixed text of ours. The text is parsed again and checked
    against an allow-list before it is returned.

    Raises:
        EmitError: two generated names clash, a value cannot be written safely, or the result has a construct
            that generated modules do not use.
    """
    plan = names.plan(module)
    returns = Code(" | ".join(identifier(n) for n in plan.types.values()))
    devices = {literal(s.device): s for s in module.selectors if s.device is not None}
    text = (
        environment()
        .get_template("python_module.py.jinja")
        .render(
            header=describe.header(module, command),
            docstring=describe.docstring(module),
            config_types=[_config_type(module, p, name) for p, name in plan.types.items()],
            constants=_constants(plan),
            selectors=[_selector(module, s, plan) for s in module.selectors],
            select=signature(module, plan, "select", returns),
            select_doc=describe.select_docstring(module, has_devices(module), plan.capability),
            known=Code(", ".join(identifier(v) for v in module.vendors)),
            chooser=identifier(plan.chooser),
            call=bracketed(f"return {plan.chooser}(", [identifier(f.name) for f in module.features], ")", 1),
            tables=tables(module, plan, "select", returns),
            devices=table("DEVICE_SELECTORS", "str", devices, plan, "select", returns),
            capability=None if plan.capability is None else identifier(plan.capability),
            shortlist=shortlist.parts(module, plan, returns) if plan.shortlists else None,
            domain=assignment("DOMAIN: dict[str, dict[str, object]]", domain(module)),
            provenance=assignment("PROVENANCE: dict[str, object]", provenance(module)),
        )
    )
    allowed.check(text)
    return checksum.seal(text)


# --- the pieces -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ConfigType:
    name: Code
    head: Code
    doc: Code
    fields: tuple[Code, ...]


def _config_type(module: ir.HeuristicModule, parameters: tuple[str, ...], name: str) -> _ConfigType:
    fields = [literal(p) for p in parameters]
    items = f"({', '.join(fields)}{',' if len(fields) == 1 else ''})"
    head = code(f"class {identifier(name)}(namedtuple({literal(name)}, ", items, ")):")
    if len(head) > WIDTH:
        rows = [f"            {f}," for f in fields]
        opened = [f"class {identifier(name)}(", "    namedtuple(", f"        {literal(name)},", "        ("]
        head = block([*opened, *rows, "        ),", "    )", "):"])
    vendors = dict.fromkeys(s.vendor for s in module.selectors if s.parameters == parameters)
    doc = f"A launch config of {module.kernel} on {', '.join(vendors)}."
    annotations = [code(identifier(p), ": ", _parameter_type(module, p)) for p in parameters]
    return _ConfigType(identifier(name), head, prose(doc), tuple(annotations))


def _parameter_type(module: ir.HeuristicModule, name: str) -> Code:
    parameter = next(p for p in module.parameters if p.name == name)
    return Code(PYTHON_TYPES[parameter.type] + (" | None" if parameter.optional else ""))


def _constants(plan: names.Names) -> Code:
    lines = []
    for (parameters, values), constant in plan.constants.items():
        items = [f"{identifier(p)}={text}" for p, (_, text) in zip(parameters, values, strict=True)]
        head = f"{identifier(constant)} = {identifier(plan.types[parameters])}("
        lines.append(bracketed(head, items, ")"))
    return Code("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _SelectorText:
    parameters: tuple[Function, ...]
    select: Function


def _selector(module: ir.HeuristicModule, selector: ir.Selector, plan: names.Names) -> _SelectorText:
    prefix = plan.prefixes[selector.vendor, selector.device]
    functions = []
    for parameter in selector.parameters:
        values, tree = passes.project(selector, parameter)

        def value(leaf: ir.Leaf, values: tuple[ir.Value, ...] = values) -> Code:
            return code("return ", literal(values[leaf.config]), describe.evidence(leaf))

        signature = _signature(module, f"{prefix}_{parameter}", _parameter_type(module, parameter))
        doc = describe.parameter_docstring(selector, parameter)
        functions.append(Function(signature, doc, body(tree, module, value, grouped=True)))

    def config(leaf: ir.Leaf) -> Code:
        constant = plan.constants[names.config_key(selector, selector.configs[leaf.config])]
        return code("return ", identifier(constant), describe.evidence(leaf))

    signature = _signature(module, f"select_{prefix}", identifier(plan.types[selector.parameters]))
    doc = describe.selector_docstring(selector)
    return _SelectorText(tuple(functions), Function(signature, doc, body(selector.tree, module, config)))


def _signature(module: ir.HeuristicModule, name: str, returns: Code) -> Code:
    return bracketed(f"def {identifier(name)}(", arguments(module), f") -> {returns}:")


# --- the data ---------------------------------------------------------------------------------------------


def domain(module: ir.HeuristicModule) -> dict[str, dict[str, Any]]:
    """What training saw of each feature: type, unit, and range or categories."""
    table: dict[str, dict[str, Any]] = {}
    for feature in module.features:
        row: dict[str, Any] = {"type": feature.type, "unit": feature.unit}
        if feature.type == "category":
            row["values"] = feature.values
            row |= {"unknown": "error"} if feature.unknown == "error" else {}
            row |= {"aliases": dict(sorted(feature.aliases))} if feature.aliases else {}
        else:
            row |= {"low": feature.low, "high": feature.high}
        table[feature.name] = row
    return table


def provenance(module: ir.HeuristicModule) -> dict[str, Any]:
    """The module's provenance, and per generated selector what it was trained on."""
    given = sorted_data(module.provenance)
    if not isinstance(given, dict):
        raise EmitError("the provenance is no JSON object")
    prefixes = names.plan(module).prefixes
    selectors = {
        f"select_{prefixes[s.vendor, s.device]}": {
            "vendor": s.vendor,
            "device": s.device,
            "devices": list(s.devices),
            "n_scenarios": s.n_scenarios,
            "n_measurements": s.n_measurements,
            "strategy": s.strategy,
            "slowdown_known": s.costs_known,
            **({} if s.capability is None else {"capability": s.capability}),
        }
        for s in module.selectors
    }
    ours = ("kernel", "selectors")
    return {
        "kernel": module.kernel,
        **{key: value for key, value in given.items() if key not in ours},
        "selectors": selectors,
    }
