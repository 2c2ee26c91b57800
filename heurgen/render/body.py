"""A tree as the body of a Python function: nested `if`, early return, derived features where needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.ir import expr, passes
from heurgen.render.categories import lookups
from heurgen.render.layout import INDENT, WIDTH, bracketed
from heurgen.render.terms import assignments
from heurgen.render.text import Code, code, identifier, literal

# Up to here the left branch is indented, as one reads a tree; beyond, the side that nests deeper is flat.
NATURAL_NESTING = 5
MAX_EXPRESSION = 4000

PYTHON_TYPES = {"int": "int", "float": "float", "bool": "bool", "category": "str"}

Returned = Callable[[ir.Leaf], Code]
Test = ir.Split | ir.Membership


@dataclass(frozen=True, slots=True)
class Shape:
    """What the layout needs to know of a subtree: its leaves, the tests above how many of them read each derived
    feature, nesting as read (the left branch indented) and at its least.
    """

    leaves: int = 1
    readers: Mapping[str, int] = field(default_factory=dict)
    natural: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """The text of one generated function, in whatever language."""

    signature: Code
    doc: Code
    body: Code


@dataclass(slots=True)
class _Writer:
    types: Mapping[str, str]
    derived: Mapping[str, tuple[tuple[str, str], ...]]
    returned: Returned
    grouped: bool
    flips: bool
    shapes: Mapping[int, Shape]
    lines: list[str] = field(default_factory=list)

    def write(self, node: ir.Node, level: int, assigned: frozenset[str]) -> None:
        while not isinstance(node, ir.Leaf):
            for name in map(identifier, due(node, self.derived, self.shapes, assigned)):
                steps = [step for step in self.derived[name] if step[0] not in assigned]
                self.lines += [f"{INDENT * level}{local} = {Code(text)}" for local, text in steps]
                assigned |= {local for local, _ in steps}
            line, inner, node = self._branch(node, level, assigned)
            self.lines.append(line)
            self.write(inner, level + 1, assigned)
        self.lines.append(f"{INDENT * level}{self.returned(node)}")

    def _branch(self, node: Test, level: int, assigned: frozenset[str]) -> tuple[Code, ir.Node, ir.Node]:
        """The `if` line, what it guards, and what follows it."""
        if self.flips and self.shapes[id(node.left)].least > self.shapes[id(node.right)].least:
            return self._line(node, True, level), node.right, node.left
        line, inner, outer = self._line(node, False, level), node.left, node.right
        if not self.grouped:
            return line, inner, outer
        word = " or " if isinstance(inner, ir.Leaf) else " and "
        while True:
            leaf, other = (inner, outer) if word == " or " else (outer, inner)
            if not isinstance(leaf, ir.Leaf) or isinstance(other, ir.Leaf):
                return line, inner, outer
            if due(other, self.derived, self.shapes, assigned):
                return line, inner, outer
            twin = other.left if word == " or " else other.right
            longer = Code(line[:-1] + word + self._line(other, False, 0).removeprefix("if "))
            if not passes.same(leaf, twin) or "\n" in longer or len(longer) > WIDTH:
                return line, inner, outer
            both, line = passes.merged(leaf, twin), longer
            inner, outer = (both, other.right) if word == " or " else (other.left, both)

    def _line(self, node: Test, negate: bool, level: int) -> Code:
        return condition(node, self.types[node.feature], negate, level)


def body(tree: ir.Node, module: ir.HeuristicModule, returned: Returned, *, grouped: bool = False) -> Code:
    """The statements of a function whose arguments are the module's features.

    `returned` gives the return statement of a leaf. `grouped` joins tests that lead to equal leaves.
    """
    tested = ir.tested(tree)
    derived = assignments({d.name: _expression(d) for d in module.derived if d.name in tested})
    layout = shapes(tree, frozenset(derived))
    flips = layout[id(tree)].natural > NATURAL_NESTING
    first: list[str] = list(lookups(module))
    writer = _Writer(column_types(module), derived, returned, grouped, flips, layout, first)
    writer.write(tree, 1, frozenset())
    return Code("\n".join(writer.lines))


def shapes(tree: ir.Node, derived: frozenset[str]) -> dict[int, Shape]:
    """The shape of every subtree, by the `id` of its root."""
    found: dict[int, Shape] = {}
    # `nodes` gives parents first, so the reverse order sees children first.
    for node in reversed(list(ir.nodes(tree))):
        if isinstance(node, ir.Leaf):
            found[id(node)] = Shape()
            continue
        left, right = found[id(node.left)], found[id(node.right)]
        low, high = sorted((left.least, right.least))
        leaves = left.leaves + right.leaves
        readers = Counter(left.readers) + Counter(right.readers)
        if node.feature in derived:
            readers[node.feature] = leaves
        found[id(node)] = Shape(leaves, readers, max(left.natural + 1, right.natural), max(low + 1, high))
    return found


def due(
    node: Test, derived: Iterable[str], shapes: Mapping[int, Shape], assigned: frozenset[str]
) -> list[str]:
    """Derived features to compute here: what the test reads, and what both branches do on the way to at least half
    of the leaves. Others wait for their branch: a launch pays for its own path, and the text stays short.
    """
    here, left, right = (shapes[id(n)] for n in (node, node.left, node.right))
    common = {n for n in left.readers.keys() & right.readers.keys() if 2 * here.readers[n] >= here.leaves}
    return [n for n in derived if n not in assigned and (n == node.feature or n in common)]


def _expression(derived: ir.Derived) -> expr.Expr:
    tree = expr.parse(derived.expression)
    # A guarded divisor is written twice, so nested divisions double the text at every level.
    if _size(tree) > MAX_EXPRESSION:
        raise EmitError(f"the expression of {derived.name} nests too many divisions to be written")
    return tree


def _size(tree: expr.Expr) -> int:
    """The characters of `expr.to_python` at most, without writing them."""
    match tree:
        case expr.Negate(operand):
            return 3 + _size(operand)
        case expr.Call(_, arguments):
            return 6 + sum(_size(a) + 2 for a in arguments)
        case expr.Binary(operator, left, right):
            divisor = _size(right)
            own = len(operator) + 6 + _size(left) + divisor
            return own + 15 + divisor if expr.is_guarded(tree) else own
        case expr.Name(name):
            return 7 + len(name)
        case expr.Number(value):
            return len(repr(value))


def arguments(module: ir.HeuristicModule) -> list[str]:
    """The features as the annotated arguments of a Python function."""
    return [f"{identifier(f.name)}: {PYTHON_TYPES[f.type]}" for f in module.features]


def column_types(module: ir.HeuristicModule) -> dict[str, str]:
    """The type of every feature and derived feature."""
    return {f.name: str(f.type) for f in module.features} | {d.name: "float" for d in module.derived}


def condition(node: Test, type_: str, negate: bool, level: int) -> Code:
    """The `if` line of a test, or of its exact negation.

    `not x <= t` is never written `x > t`: NaN fails both.
    """
    name = identifier(node.feature)
    pad = INDENT * level
    if isinstance(node, ir.Split):
        if type_ == "bool":
            return code(pad, "if ", "" if negate else "not ", name, ":")
        return code(pad, "if ", "not " if negate else "", name, " <= ", literal(node.threshold), ":")
    inside = node.unknown_left == negate
    values = [literal(v) for v in (node.others if node.unknown_left else node.values)]
    if len(values) == 1:
        return code(pad, "if ", name, " == " if inside else " != ", values[0], ":")
    return bracketed(f"if {name} {'in' if inside else 'not in'} (", values, "):", level)
