"""The direction of flow: a module imports only from layers to its left in ORDER."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "heurgen"
# The IR stands left of learning: trees, rounding and refinement share its nodes.
ORDER = "_version base ir spec logs trees render audit machine runtime ship tune cli __main__".split()


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Names of the layers that a module imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "heurgen":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heurgen."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("heurgen.")}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_come_from_the_left(path: Path) -> None:
    own = layer(path)
    if own == "__init__":
        return
    assert own in ORDER, f"{own} has no place in the flow"
    wrong = {name for name in imported(path) if ORDER.index(name) > ORDER.index(own)}
    assert not wrong, f"{own} imports {sorted(wrong)}, which are to its right"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_trees_import_sklearn(path: Path) -> None:
    assert layer(path) == "trees" or "sklearn" not in {
        (alias.name if isinstance(node, ast.Import) else str(getattr(node, "module", ""))).split(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def test_a_public_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_help_and_the_package_import_nothing_heavy() -> None:
    code = (
        "import sys, heurgen, heurgen.cli\n"
        "heavy = {'numpy', 'pandas', 'sklearn', 'jinja2', 'rich', 'torch', 'triton'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
