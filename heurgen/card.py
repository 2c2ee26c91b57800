"""Data cards: what measured a log. `[tools]` of a card is what provenance says of the measuring tools."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from heurgen.errors import SpecError

# `device` of every row that was measured in Triton's interpreter: such times say nothing about a GPU.
INTERPRETER = "Triton interpreter"


def read_tools(paths: Iterable[str | Path]) -> dict[str, list[str]]:
    """Tool -> its versions, over the `[tools]` tables of all cards, sorted.

    Raises:
        SpecError: a card cannot be read, or its `[tools]` is no flat table of strings; names the file.
    """
    versions: dict[str, set[str]] = {}
    for path in paths:
        for tool, version in _tools(path).items():
            versions.setdefault(tool, set()).add(version)
    return {tool: sorted(versions[tool]) for tool in sorted(versions)}


def _tools(path: str | Path) -> dict[str, str]:
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", file=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"is no TOML: {error}", file=path) from error
    tools = data.get("tools")
    if not isinstance(tools, dict) or any(type(v) is not str for v in tools.values()):
        raise SpecError(
            "has no flat table of strings", file=path, column="tools", hint='[tools], then torch = "2.11"'
        )
    return tools
