"""Running generated text in a test, without an import."""

from __future__ import annotations

from typing import Any

from heurgen import ir
from heurgen.render import checksum
from heurgen.render.python import render_python

# The checksum line before a text is sealed.
UNSEALED = "# checksum sha256 " + 64 * "0"


def resealed(text: str) -> str:
    """A generated module that was edited, with the checksum of what it is now."""
    head, rest = text.split(UNSEALED[:-64], 1)
    return checksum.seal(f"{head}{UNSEALED}{rest[64:]}")


def executed(text: str) -> dict[str, Any]:
    """The names that a generated module defines."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "<generated>", "exec", dont_inherit=True), namespace)
    return namespace


def loaded(module: ir.HeuristicModule) -> dict[str, Any]:
    return executed(render_python(module))


def spelled(config: Any) -> dict[str, str]:
    """A config so that 1, 1.0 and True, and 0.0 and -0.0, differ."""
    found = config if isinstance(config, dict) else config._asdict()
    return {name: repr(value) for name, value in found.items()}
