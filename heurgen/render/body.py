"""A tree as the body of a Python function: nested `if`, early return, derived features where they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from heurgen import expr, ir
from heurgen.render.layout import INDENT, bracketed
from heurgen.render.text import Code, code, identifier, literal

# Up to here the left branch is indented, as one reads a tree; beyond, the branch that would nest deeper stays flat.
NATURAL_NESTING = 5

Returned = Callable[[ir.Leaf], Code]


@dataclass(slots=True)
class _Writer:
    types: Mapping[str, str]
    derived: Mapping[str, str]
    returned: Returned
    flips: bool
    uses: dict[int, frozenset[str]]
    nesting: dict[int, int]
    lines: list[str] = field(default_factory=list)

    def write(self, node: ir.Node, level: int, assigned: frozenset[str]) -> None:
        while not isinstance(node, ir.Leaf):
            for name in self._due(node, assigned):
                self.lines.append(f"{INDENT * level}{identifier(name)} = {Code(self.derived[name])}")
                assigned |= {name}
            flip = self.flips and self.nesting[id(node.left)] > self.nesting[id(node.right)]
            inner, outer = (node.right, node.left) if flip else (node.left, node.right)
            self.lines.append(condition(node, self.types[node.feature], flip, level))
            self.write(inner, level + 1, assigned)
            node = outer
        self.lines.append(f"{INDENT * level}{self.returned(node)}")

    def _due(self, node: ir.Split | ir.Membership, assigned: frozenset[str]) -> list[str]:
        """Derived features whose smallest subtree with all uses begins here."""
        both = self.uses[id(node.left)] & self.uses[id(node.right)]
        return [n for n in self.derived if n not in assigned and (n == node.feature or n in both)]


def body(tree: ir.Node, module: ir.HeuristicModule, returned: Returned, level: int = 1) -> Code:
    """The statements of a function whose arguments are the module's features.

    `returned` gives the return statement of a leaf.
    """
    derived = {d.name: expr.to_python(expr.parse(d.expression)) for d in module.derived}
    uses: dict[int, frozenset[str]] = {}
    natural: dict[int, int] = {}
    least: dict[int, int] = {}
    # Children come after their parents in `nodes`, so the reverse order sees them first.
    for node in reversed(list(ir.nodes(tree))):
        if isinstance(node, ir.Leaf):
            uses[id(node)], natural[id(node)], least[id(node)] = frozenset(), 0, 0
            continue
        left, right = id(node.left), id(node.right)
        own = frozenset((node.feature,)) if node.feature in derived else frozenset()
        uses[id(node)] = own | uses[left] | uses[right]
        natural[id(node)] = max(natural[left] + 1, natural[right])
        low, high = sorted((least[left], least[right]))
        least[id(node)] = max(low + 1, high)
    flips = natural[id(tree)] > NATURAL_NESTING
    writer = _Writer(column_types(module), derived, returned, flips, uses, least)
    writer.write(tree, level, frozenset())
    return Code("\n".join(writer.lines))


def column_types(module: ir.HeuristicModule) -> dict[str, str]:
    """The type of every feature and derived feature."""
    return {f.name: f.type for f in module.features} | {d.name: "float" for d in module.derived}


def condition(node: ir.Split | ir.Membership, type_: str, negate: bool, level: int) -> Code:
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
