"""Trees for a terminal, drawn with rich; `show.py` has the plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heurgen import ir
from heurgen.audit.regions import edge_text, flags_of
from heurgen.audit.show import chosen_selectors, evidence_text, labelled, tree_title
from heurgen.base.errors import printable

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

# Columns of a level of the tree, and those that a node's text keeps: rich leaves out, without a word, what has none.
_LEVEL, _TEXT = 4, 20


def draw(module: ir.HeuristicModule, vendor: str | None = None, parameter: str | None = None) -> list[Tree]:
    """One rich tree per selector (of one vendor, or all; of one parameter, or of whole configs).

    Raises:
        ModelError: the vendor is unknown.
        UsageError: no selector sets the parameter.
    """
    flags = flags_of(module)
    chosen = chosen_selectors(module, vendor, parameter)
    return [_drawn(tree_title(s), *labelled(s, parameter), flags) for s in chosen]


def least_width(tree: Tree) -> int:
    """The columns that a drawn tree needs, so that no part of it is missing."""
    return max((_LEVEL + least_width(child) for child in tree.children), default=_TEXT)


def _drawn(title: str, tree: ir.Node, texts: list[str], flags: tuple[str, ...]) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    # Text, never markup: names and categories may hold brackets.
    root = Tree(Text(printable(title), style="bold"), guide_style="dim")

    def label(condition: str, node: ir.Node) -> Text:
        text = Text(printable(condition))
        if isinstance(node, ir.Leaf):
            text.append("\n")
            text.append(printable(texts[node.config]), style="cyan")
            text.append(f"  {evidence_text(node)}", style="dim")
        return text

    def grow(branch: Tree, node: ir.Node) -> None:
        if isinstance(node, ir.Leaf):
            return
        for child, left in ((node.left, True), (node.right, False)):
            grow(branch.add(label(edge_text(node, left, flags), child)), child)

    if isinstance(tree, ir.Leaf):
        root.add(label("every launch", tree))
    grow(root, tree)
    return root
