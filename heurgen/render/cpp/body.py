"""A tree as the body of a C++ function: nested `if`, early return, Python's arithmetic in double."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from heurgen import ir
from heurgen.ir import expr
from heurgen.render import describe
from heurgen.render.body import column_types
from heurgen.render.categories import known_text, spellings
from heurgen.render.cpp.text import number, string, value
from heurgen.render.layout import INDENT, block
from heurgen.render.text import Code, code

_INT64 = 2**63
_HELPERS = {"/": "ratio", "//": "floor_div", "%": "modulo"}


@dataclass(frozen=True, slots=True)
class Body:
    """`reads`: features that the body names. `is_constexpr`: whether it is a constant expression on constants."""

    text: Code
    reads: frozenset[str]
    is_constexpr: bool


def write(
    module: ir.HeuristicModule, selector: ir.Selector, config_type: str, names: Mapping[str, Code]
) -> Body:
    """The statements of `select_<vendor>`."""
    types = column_types(module)
    tree = _decided(selector.tree, types)
    tested = ir.tested(tree)
    derived = [d for d in module.derived if d.name in tested]
    lines: list[str] = []
    reads = {f.name for f in module.features if f.name in tested or f.looks_up}
    lines += lookups(module, names)
    if derived:
        lines.append("#if defined(__clang__)\n#pragma clang fp contract(off)\n#endif")
    for column in derived:
        arithmetic = expr.parse(column.expression)
        reads |= expr.names(arithmetic)
        lines.append(f"{INDENT}const double {names[column.name]} = {_arithmetic(arithmetic, names)};")
    _Writer(types, names, config_type, selector, lines).write(tree, 1)
    return Body(block(lines), frozenset(reads), is_constexpr(module, selector))


def _decided(node: ir.Node, types: Mapping[str, str]) -> ir.Node:
    """The tree without tests that every int64 answers alike: what they alone read would be an unused variable."""
    if isinstance(node, ir.Leaf):
        return node
    if (
        isinstance(node, ir.Split)
        and types[node.feature] == "int"
        and not -_INT64 <= node.threshold < _INT64 - 1
    ):
        return _decided(node.left if node.threshold > 0 else node.right, types)
    return replace(node, left=_decided(node.left, types), right=_decided(node.right, types))


def lookups(module: ir.HeuristicModule, names: Mapping[str, Code]) -> Iterator[Code]:
    """What becomes of a category before any test: other spellings, and unknown ones."""
    for feature in (f for f in module.features if f.looks_up):
        name = names[feature.name]
        for value_, others in spellings(feature).items():
            yield code(
                f"{INDENT}if (", _is_one_of(name, others), ") ", name, " = ", string(value_, view=True), ";"
            )
        if feature.unknown == "error":
            test = code("if (!(", _is_one_of(name, feature.values), ")) ") if feature.values else Code("")
            known = string(f"unknown {feature.name}, known: {known_text(feature)}")
            yield code(INDENT, test, "detail::refuse(", known, ", ", name, ");")


def _is_one_of(name: Code, values: Sequence[str]) -> Code:
    return Code(" || ".join(f"{name} == {string(v, view=True)}" for v in values))


def refuses(module: ir.HeuristicModule) -> bool:
    """Whether a category can be an error: then functions throw."""
    return any(f.unknown == "error" for f in module.features)


def is_constexpr(module: ir.HeuristicModule, selector: ir.Selector) -> bool:
    """`fmod` and `floor` are no constant expressions in C++17, and neither is what refuses every category."""
    if any(f.unknown == "error" and not f.values for f in module.features):
        return False
    tested = ir.tested(_decided(selector.tree, column_types(module)))
    return not any(_divides_whole(expr.parse(d.expression)) for d in module.derived if d.name in tested)


def _divides_whole(tree: expr.Expr) -> bool:
    match tree:
        case expr.Negate(operand):
            return _divides_whole(operand)
        case expr.Call(_, arguments):
            return any(map(_divides_whole, arguments))
        case expr.Binary(operator, left, right):
            return operator in ("//", "%") or _divides_whole(left) or _divides_whole(right)
    return False


@dataclass(frozen=True, slots=True)
class _Writer:
    types: Mapping[str, str]
    names: Mapping[str, Code]
    config_type: str
    selector: ir.Selector
    lines: list[str]

    def write(self, node: ir.Node, level: int) -> None:
        pad = INDENT * level
        while not isinstance(node, ir.Leaf):
            test, yes, no = self._test(node)
            self.lines.append(f"{pad}if ({test}) {{")
            self.write(yes, level + 1)
            self.lines.append(f"{pad}}}")
            node = no
        values = ", ".join(map(value, self.selector.configs[node.config]))
        said = describe.evidence(node).replace("  # ", "  // ")
        self.lines.append(f"{pad}return {self.config_type}{{{values}}};{said}")

    def _test(self, node: ir.Split | ir.Membership) -> tuple[Code, ir.Node, ir.Node]:
        """The test, and where it leads if it holds and if not."""
        name = self.names[node.feature]
        if isinstance(node, ir.Membership):
            listed = node.others if node.unknown_left else node.values
            test = _is_one_of(name, listed)
            return (test, node.right, node.left) if node.unknown_left else (test, node.left, node.right)
        if self.types[node.feature] == "bool":
            return code("!", name), node.left, node.right
        return code(name, " <= ", number(node.threshold)), node.left, node.right


def _arithmetic(tree: expr.Expr, names: Mapping[str, Code]) -> Code:
    """`heurgen.ir.expr.evaluate` in double."""
    match tree:
        case expr.Number(constant):
            return number(constant)
        case expr.Name(name):
            return code("static_cast<double>(", names[name], ")")
        case expr.Negate(operand):
            return code("(-", _arithmetic(operand, names), ")")
        case expr.Call(function, arguments):
            helper = "detail::lesser" if function == "min" else "detail::greater"
            text = _arithmetic(arguments[0], names)
            for argument in arguments[1:]:
                text = code(helper, "(", text, ", ", _arithmetic(argument, names), ")")
            return text
        case expr.Binary(operator, left, right):
            a, b = _arithmetic(left, names), _arithmetic(right, names)
            if operator in _HELPERS:
                return code("detail::", _HELPERS[operator], "(", a, ", ", b, ")")
            return code("(", a, f" {operator} ", b, ")")
