"""The Jinja environment: strict, no escaping of its own, and nothing but `Code` can be printed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from heurgen.base.errors import EmitError
from heurgen.render.text import Code

if TYPE_CHECKING:
    from jinja2 import Environment


def template_folder() -> Path:
    """`heurgen/templates` in an installed wheel, `templates` beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


def _only_code(value: object) -> str:
    if type(value) is not Code:
        raise EmitError(f"a template prints an unfiltered {type(value).__name__}")
    return str(value)


@lru_cache(maxsize=1)
def environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(template_folder(), encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=False,
        finalize=_only_code,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        newline_sequence="\n",
    )
