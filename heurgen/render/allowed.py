"""The allow-list: a generated module is parsed again, and every statement must have a shape that we write."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile

from heurgen.base.errors import EmitError, quoted
from heurgen.ir.expr import OPERATORS
from heurgen.render.categories import is_lookup

IMPORTS = {
    "__future__": "annotations",
    "collections": "namedtuple",
    "collections.abc": "Callable",
}
# The functions that take a vendor, and the tables they look it, a capability and a device up in.
ENTRIES = {
    "select": ("SELECTORS", "_BY_CAPABILITY", "_BY_DEVICE"),
    "shortlist": ("SHORTLISTS", "_SHORTLISTS_BY_CAPABILITY", "_SHORTLISTS_BY_DEVICE"),
}
TABLES = ("DEVICE_SELECTORS", *(table for tables in ENTRIES.values() for table in tables))
DATA = ("DOMAIN", "PROVENANCE")
_ANNOTATION_NODES = (ast.Name, ast.Constant, ast.BinOp, ast.BitOr, ast.Subscript, ast.Tuple, ast.Load)


def check(text: str) -> None:
    """Check the shape of a generated module, and that CPython compiles it; nothing is executed.

    Raises:
        EmitError: the text is not ASCII, is no Python, or holds a construct that we never write.
    """
    _compile(parse(text))


def parse(text: str) -> ast.Module:
    """The syntax tree of a generated module, its shape checked.

    Raises:
        EmitError: as `check`.
    """
    tree = _syntax(text)
    try:
        _Module().check(tree)
    except RecursionError as error:
        raise EmitError("the generated text nests too deeply") from error
    return tree


def _syntax(text: str) -> ast.Module:
    check_characters(text)
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EmitError(f"the generated text is no Python module: {error}") from error


def check_characters(text: str) -> None:
    """Raise EmitError where a generated text, of whatever language, is not printable ASCII."""
    if not text.isascii() or not text.replace("\n", "").isprintable():
        raise EmitError("the generated text holds characters outside printable ASCII")


def _compile(tree: ast.Module) -> None:
    try:
        compile(tree, "<generated>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EmitError(f"the generated text does not compile: {error}") from error


def statements(text: str) -> list[ast.stmt]:
    """The statements of generated text behind its docstring; for targets with an allow-list of their own.

    Raises:
        EmitError: the text is not ASCII, does not compile, or has no docstring.
    """
    tree = _syntax(text)
    _compile(tree)
    if not tree.body or not _is_docstring(tree.body[0]):
        raise EmitError("a generated module begins with a docstring")
    return tree.body[1:]


def check_statements(text: str, fixed: str, is_allowed: Callable[[ast.stmt], bool]) -> None:
    """Every statement is one of `fixed` (source that a target always writes), or allowed.

    Raises:
        EmitError: as `statements`, or a statement is neither.
    """
    ours = [ast.unparse(s) for s in ast.parse(fixed).body]
    for statement in statements(text):
        if not is_allowed(statement) and ast.unparse(statement) not in ours:
            raise EmitError(
                f"generated modules do not contain {quoted(ast.unparse(statement))}", row=statement.lineno
            )


def is_tree(function: ast.FunctionDef) -> bool:
    """Whether a function is a tree that returns literals: tests, derived features, early returns."""
    return not function.decorator_list and _Module()._is_plain(function)


def is_literal(node: ast.expr | None) -> bool:
    """A number, string, bool, None, or a tuple, list or dict of them."""
    match node:
        case ast.Constant(value=value):
            return value is None or type(value) in (bool, int, float, str)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return type(value) in (int, float)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(map(is_literal, items))
        case ast.Dict(keys=keys, values=values):
            return all(map(is_literal, keys)) and all(map(is_literal, values))
    return False


def _refuse(node: ast.AST) -> EmitError:
    line = getattr(node, "lineno", None)
    return EmitError(f"generated modules do not contain {quoted(ast.unparse(node))}", row=line)


@dataclass(slots=True)
class _Module:
    types: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)

    def check(self, tree: ast.Module) -> None:
        if not tree.body or not _is_docstring(tree.body[0]):
            raise EmitError("a generated module begins with a docstring")
        for statement in tree.body[1:]:
            if not self._allowed(statement):
                raise _refuse(statement)

    def _allowed(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.ImportFrom(module=str(module), names=[ast.alias(name=name, asname=None)], level=0):
                return IMPORTS.get(module) == name
            case ast.ClassDef(name=name):
                self.types.add(name)
                return _is_config_type(statement)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call, type_comment=None):
                self.constants.add(name)
                return self._is_config(call)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=items), type_comment=None):
                known = all(isinstance(item, ast.Name) and item.id in self.constants for item in items)
                self.constants.add(name)
                return known and name.startswith("_SHORTLIST_")
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                return _is_annotation(annotation) and self._is_table(name, value)
            case ast.FunctionDef(name=name, decorator_list=[], type_comment=None):
                self.functions.add(name)
                return self._is_function(statement)
        return False

    def _is_config(self, call: ast.Call) -> bool:
        named = isinstance(call.func, ast.Name) and call.func.id in self.types
        return named and not call.args and all(k.arg and is_literal(k.value) for k in call.keywords)

    def _is_table(self, name: str, value: ast.expr | None) -> bool:
        if name in DATA:
            return is_literal(value)
        if name not in TABLES or not isinstance(value, ast.Dict):
            return False
        known = all(isinstance(v, ast.Name) and v.id in self.functions for v in value.values)
        return known and all(map(is_literal, value.keys))

    def _is_function(self, function: ast.FunctionDef) -> bool:
        return _is_select(function) if function.name in ENTRIES else self._is_plain(function)

    def _is_plain(self, function: ast.FunctionDef) -> bool:
        arguments = function.args
        plain = not (arguments.posonlyargs or arguments.vararg or arguments.kwonlyargs or arguments.kwarg)
        if not plain or arguments.defaults or not _has_annotations(function):
            return False
        names = frozenset(a.arg for a in arguments.args)
        steps = list(dropwhile(lambda s: is_lookup(s, names), function.body[1:]))
        return _is_docstring(function.body[0]) and self._are_steps(steps, names, frozenset())

    def _are_steps(self, steps: Sequence[ast.stmt], names: frozenset[str], derived: frozenset[str]) -> bool:
        for step in steps:
            match step:
                case ast.Assign(targets=[ast.Name(id=name)], value=value, type_comment=None):
                    if not _is_arithmetic(value, names, derived) or name in names or name in self.constants:
                        return False
                    derived |= {name}
                case ast.If(test=test, body=inner, orelse=[]):
                    if not _is_test(test, names | derived) or not self._are_steps(inner, names, derived):
                        return False
                case ast.Return(value=value) if step is steps[-1]:
                    return is_literal(value) or (isinstance(value, ast.Name) and value.id in self.constants)
                case _:
                    return False
        return False


def _is_docstring(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _is_annotation(node: ast.expr | None) -> bool:
    """Annotations are never evaluated (`from __future__ import annotations`); still they are plain types."""
    return node is not None and all(isinstance(n, _ANNOTATION_NODES) for n in ast.walk(node))


def _has_annotations(function: ast.FunctionDef) -> bool:
    arguments = [*function.args.args, *function.args.kwonlyargs]
    return _is_annotation(function.returns) and all(_is_annotation(a.annotation) for a in arguments)


def _is_config_type(statement: ast.ClassDef) -> bool:
    match statement.bases:
        case [ast.Call(func=ast.Name(id="namedtuple"), args=[ast.Constant(value=name), fields], keywords=[])]:
            named = name == statement.name and isinstance(fields, ast.Tuple) and is_literal(fields)
        case _:
            return False
    if not named or statement.keywords or statement.decorator_list or len(statement.body) < 2:
        return False
    doc, slots, *annotations = statement.body
    if not _is_docstring(doc) or ast.unparse(slots) != "__slots__ = ()":
        return False
    declared = [a for a in annotations if isinstance(a, ast.AnnAssign) and a.value is None]
    return len(declared) == len(annotations) and all(_is_annotation(a.annotation) for a in declared)


def _is_test(node: ast.expr, names: frozenset[str]) -> bool:
    match node:
        case ast.BoolOp(values=values):
            return all(_is_test(v, names) for v in values)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Compare() as operand):
            return _is_test(operand, names)
        case ast.Name(id=name):
            return name in names
        case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[value]):
            spelled = isinstance(op, ast.LtE | ast.Eq | ast.NotEq | ast.In | ast.NotIn)
            return spelled and name in names and is_literal(value)
    return False


def _is_arithmetic(node: ast.expr, names: frozenset[str], locals_: frozenset[str]) -> bool:
    match node:
        case ast.Constant(value=float()):
            return True
        case ast.Name(id=name):
            return name in locals_
        case ast.Call(func=ast.Name(id="float"), args=[ast.Name(id=name)], keywords=[]):
            return name in names
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_] as arguments, keywords=[]):
            return all(_is_arithmetic(a, names, locals_) for a in arguments)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_arithmetic(operand, names, locals_)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _is_arithmetic(left, names, locals_) and _is_arithmetic(right, names, locals_)
        case ast.IfExp(test=test, body=body, orelse=ast.Constant(value=0.0)):
            return _is_arithmetic(test, names, locals_) and _is_arithmetic(body, names, locals_)
    return False


def _is_select(function: ast.FunctionDef) -> bool:
    """`select` and `shortlist` are the same text in every module but for names and the message."""
    table, *others = ENTRIES[function.name]
    arguments = function.args
    if arguments.args or arguments.posonlyargs or arguments.vararg or arguments.kwarg:
        return False
    defaults = [d for d in arguments.kw_defaults if d is not None]
    if not all(map(is_literal, defaults)) or not _has_annotations(function):
        return False
    match function.body:
        case [doc, ast.Try(body=[ast.Assign(targets=[ast.Name(id=chooser)])]) as first, *rest]:
            names = [a.arg for a in arguments.kwonlyargs]
            tried = f"{chooser} = {table}[vendor]"
            return (
                names[:1] == ["vendor"]
                and _is_docstring(doc)
                and ast.unparse(first.body[0]) == tried
                and not (first.orelse or first.finalbody)
                and len(first.handlers) == 1
                and _is_complaint(first.handlers[0])
                and [ast.unparse(s) for s in rest] in _endings(chooser, names[1:], others)
            )
    return False


def _endings(chooser: str, names: Sequence[str], tables: Sequence[str]) -> Iterator[list[str]]:
    """What follows where there are no devices, devices, and devices with capabilities."""
    yield [f"return {chooser}({', '.join(names)})"]
    by_capability, by_device = tables
    if names[:1] != ["device"]:
        return
    device = _step(chooser, "device", by_device)
    yield [device, f"return {chooser}({', '.join(names[1:])})"]
    if len(names) > 1:
        first = _step(chooser, names[1], by_capability)
        yield [first, device, f"return {chooser}({', '.join(names[2:])})"]


def _step(chooser: str, name: str, table: str) -> str:
    return f"if {name} is not None:\n    {chooser} = {table}.get((vendor, {name}), {chooser})"


def _is_complaint(handler: ast.ExceptHandler) -> bool:
    match handler.body:
        case [ast.Raise(exc=ast.Call(func=ast.Name(id="ValueError"), args=[message], keywords=[]))]:
            caught = handler.type is not None and ast.unparse(handler.type) == "(KeyError, TypeError)"
            return caught and handler.name is None and _is_message(message)
    return False


def _is_message(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr(values=[ast.Constant(), ast.FormattedValue() as shown, ast.Constant()]):
            return ast.unparse(shown.value) == "vendor" and shown.format_spec is None
    return False
