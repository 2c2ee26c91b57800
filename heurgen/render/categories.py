"""What a generated Python function does with a category before any test: other spellings, and unknown ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from heurgen import ir
from heurgen.base.errors import quoted
from heurgen.render.layout import INDENT, bracketed
from heurgen.render.text import Code, code, identifier, literal

# Known categories that an error lists.
LISTED = 20


def spellings(feature: ir.Feature) -> dict[str, list[str]]:
    """Category -> its other spellings, both sorted."""
    found: dict[str, list[str]] = {}
    for alias, value in sorted(feature.aliases):
        found.setdefault(value, []).append(alias)
    return dict(sorted(found.items()))


def known_text(feature: ir.Feature) -> str:
    """The categories that an error lists."""
    listed = ", ".join(map(quoted, feature.values[:LISTED]))
    return f"{listed}, ..." if len(feature.values) > LISTED else listed


def lookups(module: ir.HeuristicModule) -> Iterator[Code]:
    """The statements at the top of a function of the features."""
    for feature in (f for f in module.features if f.looks_up):
        name = identifier(feature.name)
        for value, others in spellings(feature).items():
            if len(others) == 1:
                yield code(INDENT, "if ", name, " == ", literal(others[0]), ":")
            else:
                yield bracketed(f"if {name} in (", list(map(literal, others)), "):", 1)
            yield code(INDENT * 2, name, " = ", literal(value))
        if feature.unknown == "error":
            tail = ",):" if len(feature.values) == 1 else "):"
            yield bracketed(f"if {name} not in (", list(map(literal, feature.values)), tail, 1)
            said = code('f"unknown ', name, " {", name, '!r}, known: " + ', literal(known_text(feature)))
            yield bracketed("raise ValueError(", [said], ")", 2)


def is_lookup(statement: ast.stmt, names: frozenset[str]) -> bool:
    """Whether a statement is one of `lookups` for an argument among `names`."""
    match statement:
        case ast.If(
            test=ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.In()], comparators=[listed]),
            body=[
                ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str()), type_comment=None)
            ],
            orelse=[],
        ):
            return name in names and target == name and _are_texts(listed)
        case ast.If(
            test=ast.Compare(left=ast.Name(id=name), ops=[ast.NotIn()], comparators=[ast.Tuple() as listed]),
            body=[
                ast.Raise(exc=ast.Call(func=ast.Name(id="ValueError"), args=[said], keywords=[]), cause=None)
            ],
            orelse=[],
        ):
            return name in names and _are_texts(listed) and _is_complaint(said, name)
    return False


def _are_texts(node: ast.expr) -> bool:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(item, ast.Constant) and type(item.value) is str for item in items)


def _is_complaint(node: ast.expr, name: str) -> bool:
    match node:
        case ast.BinOp(
            left=ast.JoinedStr(values=[ast.Constant(), ast.FormattedValue() as shown, ast.Constant()]),
            op=ast.Add(),
            right=ast.Constant(value=str()),
        ):
            return ast.unparse(shown.value) == name and shown.format_spec is None
    return False
