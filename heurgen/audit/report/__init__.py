"""The HTML report: one self-contained page, drawn from the IR that ships.

The page holds no name of a file, no time and no place: the same model and logs give the same bytes. Every
text is escaped by Jinja, the script and the style are constants of the package, and the page's own
Content-Security-Policy admits them by their hashes and nothing else, so that no string from a log can load,
run or style anything even if an escape were missing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from heurgen.audit.report.data import Detail, Given, Page, report
from heurgen.audit.report.words import share, times
from heurgen.base.errors import printable
from heurgen.base.text import counted

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES = 400_000
# From full detail to what always fits; the first whose page is small enough is taken.
DETAILS = (
    Detail(scenarios=700, configs=200, leaves=200),
    Detail(scenarios=700, configs=100, leaves=100),
    Detail(scenarios=400, configs=60, leaves=100),
    Detail(scenarios=200, configs=40, leaves=50),
    Detail(scenarios=120, configs=40, leaves=30, sections=4),
    Detail(scenarios=80, configs=20, leaves=16, sections=2),
    Detail(scenarios=40, configs=10, leaves=8, sections=1),
)
_SCRIPTS = ("core.js", "map.js", "launch.js", "tree.js", "page.js", "mini.js", "devices.js", "heat.js")
_LONGEST = 1000
# The line of a chart of many scenarios is as long as it is.
_PATH = re.compile(r"M[MLHVZ0-9 .,-]*")
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; "
    "form-action 'none'"
)


def render_html(given: Given) -> str:
    """The page, at most MAX_BYTES long."""
    text = ""
    for detail in DETAILS:
        text = _page(report(given, detail))
        if len(text.encode()) <= MAX_BYTES:
            break
    return text


def _page(data: Page) -> str:
    from markupsafe import Markup

    style, script = Markup(_source("style.css")), Markup("".join(map(_source, _SCRIPTS)))
    policy = _POLICY.format(script=_hash(script), style=_hash(style))
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(r=data, style=style, script=script, policy=policy)
    )


def page_parts() -> tuple[Environment, str, str]:
    """(templates, style, policy) of a page without a script."""
    from markupsafe import Markup

    style = Markup(_source("style.css"))
    policy = f"default-src 'none'; style-src 'sha256-{_hash(style)}'; base-uri 'none'; form-action 'none'"
    return _environment(), style, policy


@lru_cache
def _source(name: str) -> str:
    """A constant file of the page as it stands between its tags: without indentation and comments."""
    environment = _environment()
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    lines = (line.strip() for line in text.splitlines())
    return "\n" + "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _shown(value: object) -> object:
    """What a page prints: texts without characters that hide or steer, and not longer than anyone reads."""
    if type(value) is not str or _PATH.fullmatch(value):
        return value
    return printable(value if len(value) <= _LONGEST else value[:_LONGEST] + "...")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from heurgen.render.environment import template_folder

    environment = Environment(
        loader=FileSystemLoader(template_folder() / "report", encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        newline_sequence="\n",
    )
    environment.filters |= {"times": times, "share": share, "counted": counted}
    return environment
