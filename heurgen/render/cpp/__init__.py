"""IR -> one C++17 header that needs the standard library only.

An int feature is an int64, a float feature a double, a bool a bool, a category a string_view in UTF-8. The
arithmetic of derived features is Python's, in double; it must not be contracted to fused operations or
reordered (the header refuses -ffast-math and turns contraction off).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from heurgen import ir
from heurgen.base.errors import EmitError, quoted
from heurgen.render import checksum, describe, names
from heurgen.render.body import Function
from heurgen.render.cpp import body, tokens
from heurgen.render.cpp.text import comment, identifier, string
from heurgen.render.environment import environment
from heurgen.render.layout import INDENT, WIDTH, block, wrapped
from heurgen.render.python import provenance
from heurgen.render.target import Rendered, Request, one_file
from heurgen.render.text import Code, code

TYPES = {
    "int": "::std::int64_t",
    "float": "double",
    "bool": "bool",
    "category": "::std::string_view",
}

# Compilers need not take longer string literals than 65,536 bytes.
MAX_LITERAL = 60_000


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    return one_file(render_cpp(module))


def render_cpp(module: ir.HeuristicModule) -> str:
    """The text of the header.

    Raises:
        EmitError: two names clash in C++, a value does not fit its type, or the result has a token that such
            headers do not use.
    """
    plan = names.plan(module)
    known = _names(module, plan)
    text = (
        environment()
        .get_template("cpp_header.hpp.jinja")
        .render(
            header=_header(module),
            doc=_documentation(module),
            namespace=known[module.kernel],
            needs_helpers=bool(module.derived),
            refuses=body.refuses(module),
            config_types=[_config_type(module, p, name, known) for p, name in plan.types.items()],
            functions=[_function(module, s, plan, known) for s in module.selectors],
            by_device=[_by_device(module, v, plan, known) for v in _vendors_with_devices(module)],
            select=_select(module, plan, known) if len(plan.types) == 1 else None,
            provenance=_provenance(module),
        )
    )
    tokens.check(text, tokens.defined(plan).union(known.values()))
    return checksum.seal(text)


# --- names ------------------------------------------------------------------------------------------------


def _names(module: ir.HeuristicModule, plan: names.Names) -> dict[str, Code]:
    """Every name of the model as it stands in C++, where keywords and macros are other names than in Python."""
    globals_ = tokens.defined(plan)
    fields = {p.name for p in module.parameters}
    local = [c.name for c in module.columns]
    found = {name: identifier(name) for name in (module.kernel, *local, *sorted(fields))}
    # An argument would hide what the function calls or returns.
    found |= {name: Code(names.free(found[name], globals_)) for name in local}
    for group in (local, sorted(fields)):
        spelled: dict[str, str] = {}
        for name in group:
            if other := spelled.get(found[name]):
                raise EmitError(f"{quoted(other)} and {quoted(name)} are both {found[name]} in C++")
            spelled[found[name]] = name
    return found


def _vendors_with_devices(module: ir.HeuristicModule) -> list[str]:
    return list(dict.fromkeys(s.vendor for s in module.selectors if s.device is not None))


# --- the pieces -------------------------------------------------------------------------------------------


def _header(module: ir.HeuristicModule) -> Code:
    lines = describe.header(module, "heurgen emit MODEL.json --target cpp").split("\n")
    return block(code("//", line.removeprefix("#").replace("?", "<U+003F>")) for line in lines)


def _documentation(module: ir.HeuristicModule) -> Code:
    said = [
        f"Launch heuristics of {module.kernel}: `select_VENDOR` returns the whole config of a launch.",
        "",
    ]
    said += [f"    {describe.feature_text(f)}" for f in module.features]
    said += [f"    {d.name} = {d.expression}" for d in module.derived]
    said += ["", " ".join(describe.edge_cases(module))]
    return block(line for text in said for line in _comment(text))


def _comment(text: str) -> list[Code]:
    indent = "// " + " " * (len(text) - len(text.lstrip(" ")))
    return wrapped(comment(text.strip(), kept=":="), indent, f"{indent}    ") or [Code("//")]


def _doc(text: str) -> Code:
    return block(wrapped(comment(text, kept=":"), "// ", "// "))


def _provenance(module: ir.HeuristicModule) -> Code:
    """The JSON text in pieces of one line each; of a very long one what names the model."""
    text = json.dumps(provenance(module), ensure_ascii=True, allow_nan=False)
    if len(text) > MAX_LITERAL:
        digest = hashlib.sha256(text.encode()).hexdigest()
        text = json.dumps({"kernel": module.kernel, "sha256_of_the_provenance": digest})
    pieces = [text[i : i + 80] for i in range(0, len(text), 80)]
    return block(f"    {string(piece)}" for piece in pieces)


@dataclass(frozen=True, slots=True)
class _ConfigType:
    name: Code
    doc: Code
    fields: tuple[Code, ...]


def _config_type(
    module: ir.HeuristicModule, parameters: tuple[str, ...], name: str, known: dict[str, Code]
) -> _ConfigType:
    types = {p.name: p for p in module.parameters}
    fields = []
    for parameter in parameters:
        type_ = TYPES[types[parameter].type]
        spelled = f"::std::optional<{type_}>" if types[parameter].optional else type_
        fields.append(code(spelled, " ", known[parameter], ";"))
    vendors = dict.fromkeys(s.vendor for s in module.selectors if s.parameters == parameters)
    doc = _doc(f"A launch config of {module.kernel} on {', '.join(vendors)}.")
    return _ConfigType(Code(name), doc, tuple(fields))


def _function(
    module: ir.HeuristicModule, selector: ir.Selector, plan: names.Names, known: dict[str, Code]
) -> Function:
    written = body.write(module, selector, plan.types[selector.parameters], known)
    signature = _signature(
        module,
        plan.types[selector.parameters],
        f"select_{plan.prefixes[selector.vendor, selector.device]}",
        known,
        used=written.reads,
        is_constexpr=written.is_constexpr,
    )
    said = describe.selector_docstring(selector).replace("\n", " ")
    return Function(signature, _doc(" ".join(said.split())), written.text)


def _signature(
    module: ir.HeuristicModule,
    returns: str,
    name: str,
    known: dict[str, Code],
    *,
    used: frozenset[str],
    is_constexpr: bool,
    first: tuple[str, ...] = (),
) -> Code:
    word = "constexpr" if is_constexpr else "inline"
    arguments = list(first)
    for feature in module.features:
        unused = "" if feature.name in used else "[[maybe_unused]] "
        arguments.append(f"{unused}{TYPES[feature.type]} {known[feature.name]}")
    head = f"{word} {returns} {name}("
    tail = ") {" if body.refuses(module) else ") noexcept {"
    line = f"{head}{', '.join(arguments)}{tail}"
    if len(line) <= WIDTH:
        return Code(line)
    return block([head, ",\n".join(f"{INDENT}{a}" for a in arguments), tail])


def _by_device(
    module: ir.HeuristicModule, vendor: str, plan: names.Names, known: dict[str, Code]
) -> Function:
    """`select_<vendor>(device, ...)`: the device's own selector where there is one."""
    own = [s for s in module.selectors if s.vendor == vendor and s.device is not None]
    general = module.selector(vendor)
    if any(s.parameters != general.parameters for s in own):
        raise EmitError(f"the devices of {vendor} have other parameters than {vendor} itself")
    call = ", ".join(known[f.name] for f in module.features)
    tests = [("device", s.device, s) for s in own]
    tests += [("capability", s.capability, s) for s in own if s.capability is not None]
    lines = [
        f"    if ({what} == {string(str(name), view=True)}) return "
        f"select_{plan.prefixes[s.vendor, s.device]}({call});"
        for what, name, s in tests
    ]
    lines.append(f"    return select_{vendor}({call});")
    signature = _signature(
        module,
        plan.types[general.parameters],
        f"select_{vendor}",
        known,
        used=frozenset(f.name for f in module.features),
        is_constexpr=all(body.is_constexpr(module, s) for s in (general, *own)),
        first=tuple(f"::std::string_view {name}" for name in _where(module, vendor)),
    )
    said = f"The config for a device of {vendor}; an unknown one gets the vendor's."
    if "capability" in _where(module, vendor):
        said = (
            f"The config for a device of {vendor}; an unknown one gets its capability's, then its vendor's."
        )
    return Function(signature, _doc(said), block(lines))


def _where(module: ir.HeuristicModule, vendor: str) -> tuple[str, ...]:
    """The arguments beside the features of a vendor with devices; "" stands for a capability that is not known."""
    stands_in = any(s.vendor == vendor and s.capability is not None for s in module.selectors)
    return ("device", "capability") if stands_in else ("device",)


def _select(module: ir.HeuristicModule, plan: names.Names, known: dict[str, Code]) -> Function:
    """`select(vendor, device, ...)`; nothing for an unknown vendor."""
    (type_,) = plan.types.values()
    call = ", ".join(known[f.name] for f in module.features)
    devices = _vendors_with_devices(module)
    lines = [
        f"    if (vendor == {string(v, view=True)}) return "
        f"select_{v}({', '.join([*(_where(module, v) if v in devices else ()), call])});"
        for v in module.vendors
    ]
    lines.append("    return ::std::nullopt;")
    unused = "" if devices else "[[maybe_unused]] "
    stands_in = any("capability" in _where(module, v) for v in devices)
    signature = _signature(
        module,
        f"::std::optional<{type_}>",
        "select",
        known,
        used=frozenset(f.name for f in module.features),
        is_constexpr=all(body.is_constexpr(module, s) for s in module.selectors),
        first=(
            *("::std::string_view vendor", f"{unused}::std::string_view device"),
            *(("::std::string_view capability",) if stands_in else ()),
        ),
    )
    return Function(signature, _doc("The config, or nothing where the vendor is unknown."), block(lines))
