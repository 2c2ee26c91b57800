"""A generated module -> IR, by parsing alone: what ships can be audited without importing it.

Trees, configs, features and provenance come back. Evidence of leaves, docs, and derived features that no test
reads do not; the categories that a test does not name are the feature's others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heurgen import ir
from heurgen.base.errors import HeurgenError, ModelError, quoted
from heurgen.ir import expr
from heurgen.render import allowed, checksum
from heurgen.render.categories import is_lookup
from heurgen.render.terms import FLOAT, TERM

# What a module of another target imports, and no module of --target python.
_OTHER_TARGET = re.compile(r"^(?:import|from) (triton|torch)\b", re.MULTILINE)
_TYPES: dict[str, ir.ColumnType] = {"int": "int", "float": "float", "bool": "bool", "str": "category"}


def read_module(text: str) -> ir.HeuristicModule:
    """Read a module that `render_python` wrote. It chooses the same config as the original on every input.

    Raises:
        ModelError: the text was edited, is no generated module or one of another target, or a checksum is missing.
    """
    hint = "read_module reads a module's text, such as Path(...).read_text()"
    if not isinstance(text, str):
        raise ModelError(f"found {quoted(type(text).__name__)}, expected text", hint=hint)
    if text.endswith(".py"):
        raise ModelError(f"found {quoted(text)}, expected the text of a module", hint=hint)
    checksum.verify(text)
    try:
        return _read(allowed.parse(text.replace("\r\n", "\n")))
    except ModelError:
        raise
    except (HeurgenError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if other := _OTHER_TARGET.search(text):
            raise ModelError(
                f"the module imports {other[1]}, expected one that `heurgen emit` writes with --target python",
                hint="of other targets only the model can be read, the JSON that they were made from",
            ) from error
        raise ModelError(
            f"the text is no module that heurgen generated: {error}",
            hint="expected what `heurgen emit` writes",
        ) from error


@dataclass(slots=True)
class _Parts:
    """The statements of the module by what they define."""

    classes: dict[str, tuple[ir.Parameter, ...]] = field(default_factory=dict)
    constants: dict[str, tuple[str, ir.Config]] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def _read(tree: ast.Module) -> ir.HeuristicModule:
    parts = _Parts()
    for statement in tree.body:
        match statement:
            case ast.ClassDef(name=name):
                parts.classes[name] = tuple(map(_parameter, statement.body[2:]))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=type_)) as call):
                values = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
                parts.constants[name] = (type_, tuple(values[p.name] for p in parts.classes[type_]))
            case ast.FunctionDef(name=name):
                parts.functions[name] = statement
            case ast.AnnAssign(
                target=ast.Name(id=("DOMAIN" | "PROVENANCE") as name), value=ast.expr() as value
            ):
                parts.data[name] = ast.literal_eval(value)
    return _module(parts)


def _module(parts: _Parts) -> ir.HeuristicModule:
    provenance = dict(parts.data["PROVENANCE"])
    described = provenance.pop("selectors")
    kernel = provenance.pop("kernel")
    features = tuple(_feature(name, row) for name, row in parts.data["DOMAIN"].items())
    derived: dict[str, str] = {}
    selectors = tuple(
        _selector(parts, parts.functions[name], row, features, derived) for name, row in described.items()
    )
    parameters = {p.name: p for declared in parts.classes.values() for p in declared}
    columns = tuple(ir.Derived(name, text) for name, text in derived.items())
    return ir.HeuristicModule(kernel, features, tuple(parameters.values()), selectors, columns, provenance)


def _parameter(statement: ast.stmt) -> ir.Parameter:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            type_, _, optional = ast.unparse(annotation).partition(" | ")
            return ir.Parameter(name, _TYPES[type_], optional == "None")
    raise ModelError(f"expected a field of a config, found {ast.unparse(statement)}")


def _feature(name: str, row: Mapping[str, Any]) -> ir.Feature:
    values = tuple(row.get("values", ()))
    unknown, aliases = row.get("unknown", "fallback"), tuple(sorted(row.get("aliases", {}).items()))
    limits = row.get("low"), row.get("high")
    return ir.Feature(name, row["type"], row["unit"], "", values, *limits, unknown, aliases)


def _selector(
    parts: _Parts,
    function: ast.FunctionDef,
    row: Mapping[str, Any],
    features: Sequence[ir.Feature],
    derived: dict[str, str],
) -> ir.Selector:
    types = {
        parts.constants[n.id][0]
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and n.id in parts.constants
    }
    (type_,) = types
    names = [name for name, (of, _) in parts.constants.items() if of == type_]
    reader = _TreeReader({f.name: f for f in features}, {n: i for i, n in enumerate(names)}, derived)
    return ir.Selector(
        vendor=row["vendor"],
        parameters=tuple(p.name for p in parts.classes[type_]),
        configs=tuple(parts.constants[name][1] for name in names),
        tree=reader.tree([s for s in function.body[1:] if not is_lookup(s, frozenset(reader.features))]),
        device=row["device"],
        devices=tuple(row["devices"]),
        n_scenarios=row["n_scenarios"],
        n_measurements=row["n_measurements"],
        costs_known=row["slowdown_known"],
        strategy=row["strategy"],
        capability=row.get("capability"),
    )


@dataclass(frozen=True, slots=True)
class _TreeReader:
    """`derived` collects the expressions that the functions assign."""

    features: Mapping[str, ir.Feature]
    configs: Mapping[str, int]
    derived: dict[str, str]
    locals: dict[str, expr.Expr] = field(default_factory=dict)

    def tree(self, steps: Sequence[ast.stmt], level: int = 0) -> ir.Node:
        if level > ir.MAX_DEPTH:
            raise ModelError(f"a tree is deeper than {ir.MAX_DEPTH}")
        first = next((i for i, s in enumerate(steps) if not isinstance(s, ast.Assign)), len(steps) - 1)
        for step in steps[:first]:
            self.define(step)
        match steps[first]:
            case ast.If(test=test, body=inner):
                return self.test(test, self.tree(inner, level + 1), self.tree(steps[first + 1 :], level + 1))
            case ast.Return(value=ast.Name(id=name)):
                return ir.Leaf(self.configs[name])
        raise ModelError(f"expected a test or a config, found {ast.unparse(steps[first])}")

    def define(self, step: ast.stmt) -> None:
        """Note the derived feature, or the local that such share, that a step assigns."""
        match step:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                tree = _arithmetic(value, self.locals)
                text = expr.to_text(tree)
                if len(text) > expr.MAX_LENGTH:  # the model's may have been written without spaces
                    text = text.replace(" ", "")
                if name.startswith((TERM, FLOAT)):
                    same = self.locals.setdefault(name, tree) == tree
                else:
                    same = self.derived.setdefault(name, text) == text
                if not same:
                    raise ModelError(f"{name} is computed in two ways")

    def test(self, test: ast.expr, yes: ir.Node, no: ir.Node) -> ir.Node:
        """The split whose left side is `yes`, or `no` where the test is spelled with `not`."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                return ir.Split(name, 0, yes, no)
            case ast.Name(id=name):
                return ir.Split(name, 0, no, yes)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.test(operand, no, yes)
            case ast.Compare(left=ast.Name(id=name), ops=[ast.LtE()], comparators=[value]):
                return ir.Split(name, ast.literal_eval(value), yes, no)
            case ast.Compare(left=ast.Name(id=name), ops=[op], comparators=[value]):
                found = ast.literal_eval(value)
                named = found if isinstance(found, tuple) else (found,)
                known = tuple(v for v in self.features[name].values if v not in named)
                # A name that is surely not among the named ones, where DOMAIN has no other.
                others = known or (f"not {' '.join(named)}",)
                if isinstance(op, ast.In | ast.Eq):
                    return ir.Membership(name, named, others, False, yes, no)
                return ir.Membership(name, others, named, True, yes, no)
        raise ModelError(f"expected a test, found {ast.unparse(test)}")


def _arithmetic(node: ast.expr, locals_: Mapping[str, expr.Expr]) -> expr.Expr:
    """The inverse of `expr.to_python`, locals written out."""

    def read(part: ast.expr) -> expr.Expr:
        return _arithmetic(part, locals_)

    match node:
        case ast.Name(id=name):
            return locals_[name]
        case ast.Constant(value=float(value)):
            return expr.Number(value)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Name(id=name)]):
            return expr.Name(name)
        case ast.Call(func=ast.Name(id=("min" | "max") as function), args=arguments):
            return expr.Call(function, tuple(map(read, arguments)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return expr.Negate(read(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return expr.Binary(expr.OPERATORS[type(op)], read(left), read(right))
        case ast.IfExp(body=body):
            return read(body)
    raise ModelError(f"expected arithmetic, found {ast.unparse(node)}")
