"""IR -> `@triton.jit` functions of the same trees, for choices that a kernel makes on the device.

A function takes every int, bool and category feature in spec order, as runtime integers or constants. Derived
features over them are computed in int64, a quotient in float64: the same numbers as in the Python module while they
stay below 2**53.

A category is a small integer on the device. The module's `CODES` says which: a feature's categories are numbered in
the order of its spec (then those that only the tree names), any other number is a category that training never saw;
a parameter's are numbered as its configs first use them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heurgen import ir
from heurgen.base.errors import EmitError, quoted
from heurgen.ir import expr, passes
from heurgen.render import checksum, describe, names
from heurgen.render.allowed import is_literal, statements
from heurgen.render.body import Function, Shape, due, shapes
from heurgen.render.environment import environment
from heurgen.render.layout import INDENT, assignment, block, bracketed, wrapped
from heurgen.render.target import Rendered, Request, one_file, one_selector
from heurgen.render.text import Code, code, identifier, literal, prose

HELPERS = ("_floor_div", "_modulo", "_ratio")
USED_INSIDE = frozenset((*HELPERS, "triton", "tl", "CODES"))
_INT32, _INT64 = 2**31, 2**63


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    selector = one_selector(module, request)
    return one_file(render_triton(module, selector.vendor, request.parameters, device=selector.device))


def render_triton(
    module: ir.HeuristicModule, vendor: str, parameters: Sequence[str] = (), *, device: str | None = None
) -> str:
    """The text of a module with one device function per parameter, `<vendor>_<PARAMETER>`.

    `parameters` defaults to every int, bool and category parameter of the vendor.

    Raises:
        EmitError: a parameter is unknown or a float, a value does not fit int32, a tree reads a float, a derived
            feature cannot be computed exactly from ints, or a feature refuses unknown categories.
        ModelError: the vendor is unknown.
    """
    selector = module.selector(vendor, device)
    if refusing := [f.name for f in module.features if f.unknown == "error"]:
        raise EmitError(
            f"the feature {quoted(refusing[0])} refuses unknown categories, which a function on the device cannot",
            hint='train it with unknown = "fallback", or choose on the host',
        )
    arguments = [f.name for f in module.features if f.type != "float"]
    wanted = tuple(parameters) or _whole_numbers(module, selector)
    codes = _codes(module, selector, wanted)
    if taken := sorted({c.name for c in module.columns} & USED_INSIDE):
        raise EmitError(f"the feature name {quoted(taken[0])} is one that the generated functions use")
    prefix = names.plan(module).prefixes[selector.vendor, selector.device]
    functions = [_function(module, selector, p, prefix, arguments, codes) for p in wanted]
    text = (
        environment()
        .get_template("triton_module.py.jinja")
        .render(
            header=describe.header(module, "heurgen emit MODEL.json --target triton"),
            docstring=_docstring(module, vendor, codes),
            codes=assignment("CODES", codes) if codes else None,
            helpers=any(h in function.body for h in HELPERS for function in functions),
            functions=functions,
        )
    )
    check(text)
    return checksum.seal(text)


def _whole_numbers(module: ir.HeuristicModule, selector: ir.Selector) -> tuple[str, ...]:
    fits = {p.name for p in module.parameters if p.type != "float"}
    found = tuple(p for p in selector.parameters if p in fits)
    if not found:
        raise EmitError(
            f"{selector.vendor} has only float parameters, which a Triton function does not return"
        )
    return found


def _codes(
    module: ir.HeuristicModule, selector: ir.Selector, parameters: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Of every category feature, and of the category parameters asked for: category -> its number."""
    found: dict[str, dict[str, int]] = {}
    for feature in (f for f in module.features if f.type == "category"):
        values = dict.fromkeys(feature.values)
        for node in ir.nodes(selector.tree):
            if isinstance(node, ir.Membership) and node.feature == feature.name:
                values |= dict.fromkeys(sorted(node.values + node.others))
        numbers = {value: i for i, value in enumerate(values)}
        others = {alias: numbers[value] for alias, value in sorted(feature.aliases) if value in numbers}
        found[feature.name] = numbers | others
    kinds = {p.name: p.type for p in module.parameters}
    for name in (p for p in parameters if p in selector.parameters and kinds[p] == "category"):
        position = selector.parameters.index(name)
        used = dict.fromkeys(v for c in selector.configs if isinstance(v := c[position], str))
        found[name] = {value: i for i, value in enumerate(used)}
    return found


def _docstring(module: ir.HeuristicModule, vendor: str, codes: Mapping[str, object]) -> Code:
    lines: list[str] = [
        f"Launch heuristics of {prose(module.kernel)} on {prose(vendor)}, for Triton kernels.",
        "",
    ]
    lines += wrapped(
        "Every function takes the integers that the host functions know, in the same order, as run-time values. "
        "Derived features are int64, quotients float64: exact below 2**53. A zero divisor gives 0.",
        "",
        "",
    )
    if codes:
        lines += wrapped(
            "CODES numbers the categories; a number that it lacks is an unknown category.", "", ""
        )
    return block(lines)


def _function(
    module: ir.HeuristicModule,
    selector: ir.Selector,
    parameter: str,
    prefix: str,
    arguments: Sequence[str],
    codes: Mapping[str, Mapping[str, int]],
) -> Function:
    if parameter not in selector.parameters:
        known = ", ".join(selector.parameters)
        raise EmitError(f"{selector.vendor} has no parameter {quoted(parameter)}", hint=f"known: {known}")
    values, tree = passes.project(selector, parameter)
    coded = {f.name for f in module.features if f.type == "category"}
    derived = {d.name: _Column(d, [a for a in arguments if a not in coded]) for d in module.derived}
    if other := sorted(ir.tested(tree) - set(arguments) - set(derived)):
        raise EmitError(
            f"{parameter} depends on {quoted(other[0])}, which is no integer on the device",
            hint="choose other parameters, or train without that feature",
        )
    chosen = names.free("chosen", {c.name for c in module.columns})
    flags = frozenset(f.name for f in module.features if f.type == "bool")
    own = codes.get(parameter, {})
    texts = [_value(own[v] if isinstance(v, str) and v in own else v, parameter) for v in values]
    writer = _Writer(derived, flags, codes, texts, chosen, shapes(tree, frozenset(derived)))
    writer.write(tree, 1, frozenset(), "if")
    signature = bracketed(
        f"def {identifier(f'{prefix}_{parameter}')}(", list(map(identifier, arguments)), "):"
    )
    doc = describe.parameter_docstring(selector, parameter)
    writer.lines.append(f"{INDENT}return {identifier(chosen)}")
    return Function(signature, doc, block(writer.lines))


def _value(value: ir.Value, parameter: str) -> Code:
    if type(value) is bool or (type(value) is int and -_INT32 <= value < _INT32):
        return literal(value)
    raise EmitError(f"{parameter} takes the value {quoted(value)}, expected only int32 or bool values")


# --- trees ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Writes `if`, `elif` and `else` that assign one variable: Triton has no early return inside its loops."""

    derived: Mapping[str, _Column]
    flags: frozenset[str]
    codes: Mapping[str, Mapping[str, int]]
    values: Sequence[Code]
    chosen: str
    shapes: Mapping[int, Shape]
    lines: list[str] = field(default_factory=list)

    def write(self, node: ir.Node, level: int, assigned: frozenset[str], word: str) -> None:
        """`word` is "elif" where the node may continue the chain that the last line belongs to."""
        pad = INDENT * level
        if isinstance(node, ir.Leaf):
            if word == "elif":
                self.lines.append(f"{INDENT * (level - 1)}else:")
            self.lines.append(f"{pad}{self.chosen} = {self.values[node.config]}{describe.evidence(node)}")
            return
        new = due(node, self.derived, self.shapes, assigned)
        if word == "elif" and not new:
            level -= 1
        elif word == "elif":
            self.lines.append(f"{INDENT * (level - 1)}else:")
            word = "if"
        for name in new:
            self.lines.append(f"{INDENT * level}{identifier(name)} = {self.derived[name].text}")
        assigned |= frozenset(new)
        # Integers have no NaN, so the negation of `<=` is `>`.
        flip = self.shapes[id(node.left)].least > self.shapes[id(node.right)].least
        first, second = (node.right, node.left) if flip else (node.left, node.right)
        self.lines.append(f"{INDENT * level}{word} {self._test(node, flip)}:")
        self.write(first, level + 1, assigned, "if")
        self.write(second, level + 1, assigned, "elif")

    def _test(self, node: ir.Split | ir.Membership, negate: bool) -> Code:
        if isinstance(node, ir.Membership):
            return self._membership(node, negate)
        name, sign = identifier(node.feature), " > " if negate else " <= "
        if node.feature in self.flags:
            return code(name, " != 0" if negate else " == 0")
        column = self.derived.get(node.feature)
        if column is not None and column.is_quotient:
            return code(name, sign, f"tl.full((), {literal(float(node.threshold))}, tl.float64)")
        threshold = math.floor(node.threshold)
        if not -_INT64 <= threshold < _INT64:
            raise EmitError(f"the threshold {node.threshold!r} of {node.feature} does not fit int64")
        wide = column is None and not -_INT32 <= threshold < _INT32
        return code(f"tl.cast({name}, tl.int64)" if wide else name, sign, literal(threshold))

    def _membership(self, node: ir.Membership, negate: bool) -> Code:
        listed = node.others if node.unknown_left else node.values
        inside = node.unknown_left == negate
        name, sign = identifier(node.feature), " == " if inside else " != "
        tests = [code(name, sign, literal(self.codes[node.feature][v])) for v in listed]
        return (
            tests[0] if len(tests) == 1 else Code((" | " if inside else " & ").join(f"({t})" for t in tests))
        )


# --- derived features -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """A derived feature as device code, written when a tree reads it."""

    derived: ir.Derived
    arguments: Sequence[str]

    @property
    def is_quotient(self) -> bool:
        tree = expr.parse(self.derived.expression)
        return isinstance(tree, expr.Binary) and tree.operator == "/"

    @property
    def text(self) -> Code:
        tree = expr.parse(self.derived.expression)
        if isinstance(tree, expr.Binary) and tree.operator == "/":
            return code("_ratio(", self._bare(tree.left), ", ", self._bare(tree.right), ")")
        return self._whole(tree)

    def _whole(self, tree: expr.Expr) -> Code:
        """An int64 expression."""
        match tree:
            case expr.Number(value) if value.is_integer() and abs(value) < 2**53:
                return literal(int(value))
            case expr.Name(name) if name in self.arguments:
                return code("tl.cast(", identifier(name), ", tl.int64)")
            case expr.Negate(operand):
                return code("-(", self._whole(operand), ")")
            case expr.Call(function, arguments):
                return self._folded("tl.minimum" if function == "min" else "tl.maximum", arguments)
            case expr.Binary(("+" | "-" | "*") as operator, left, right):
                return code(self._operand(left), f" {operator} ", self._operand(right))
            case expr.Binary(("//" | "%") as operator, left, right):
                helper = "_floor_div" if operator == "//" else "_modulo"
                return code(helper, "(", self._bare(left), ", ", self._bare(right), ")")
        raise EmitError(
            f"the derived feature {self.derived.name} is not exact in integers: {quoted(expr.to_text(tree))}",
            hint="on the device: + - * // % min max over int features and whole numbers, one / at the outside",
        )

    def _bare(self, tree: expr.Expr) -> Code:
        """An argument of a helper, which casts it itself."""
        if isinstance(tree, expr.Name) and tree.name in self.arguments:
            return identifier(tree.name)
        return self._whole(tree)

    def _operand(self, tree: expr.Expr) -> Code:
        text = self._whole(tree)
        return code("(", text, ")") if isinstance(tree, expr.Binary) and tree.operator in "+-*" else text

    def _folded(self, function: str, arguments: Sequence[expr.Expr]) -> Code:
        text = self._whole(arguments[0])
        for argument in arguments[1:]:
            text = code(function, "(", text, ", ", self._whole(argument), ")")
        return text


# --- the allow-list ---------------------------------------------------------------------------------------

_NODES = (
    *(ast.Module, ast.Expr, ast.Constant, ast.Import, ast.alias, ast.FunctionDef, ast.arguments, ast.arg),
    *(ast.Assign, ast.If, ast.Return, ast.Compare, ast.LtE, ast.Gt, ast.Lt, ast.Eq, ast.NotEq, ast.Call),
    *(ast.Name, ast.Attribute, ast.Load, ast.Store, ast.Tuple, ast.BinOp, ast.Add, ast.Sub, ast.Mult),
    *(ast.Div, ast.FloorDiv, ast.UnaryOp, ast.USub, ast.BitOr, ast.BitAnd),
)
_CALLS = frozenset(f"tl.{n}" for n in ("cast", "full", "where", "abs", "minimum", "maximum")) | set(HELPERS)
_TYPES = frozenset(("tl.int64", "tl.float64", "triton.jit"))


def check(text: str) -> None:
    """Parse a generated Triton module and check it against an allow-list; nothing is executed.

    Raises:
        EmitError: the text is not ASCII, does not compile, or has a construct that we do not write.
    """
    body = statements(text)
    imports = [s for s in body if isinstance(s, ast.Import)]
    plain = [ast.unparse(s) for s in imports] == ["import triton", "import triton.language as tl"]
    rest = body[2:]
    if rest and _is_table(rest[0]):
        del rest[0]
    if not plain or not all(isinstance(s, ast.FunctionDef) for s in rest):
        raise EmitError("a generated Triton module holds two imports, CODES and functions")
    for node in (n for s in (*body[:2], *rest) for n in ast.walk(s)):
        if not _is_allowed(node):
            raise EmitError(f"generated modules do not contain {quoted(ast.unparse(node))}")


def _is_table(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="CODES")], value=ast.Dict() as table, type_comment=None):
            return is_literal(table)
    return False


def _is_allowed(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=function, keywords=keywords):
            return ast.unparse(function) in _CALLS and not keywords
        case ast.Attribute():
            return ast.unparse(node) in _CALLS | _TYPES
        case ast.FunctionDef(decorator_list=decorators, returns=returns):
            return [ast.unparse(d) for d in decorators] == ["triton.jit"] and returns is None
        case ast.arg(annotation=annotation):
            return annotation is None
        case ast.arguments(defaults=defaults, vararg=vararg, kwarg=kwarg, kwonlyargs=others):
            return not (defaults or vararg or kwarg or others)
    return isinstance(node, _NODES)
