"""The HTML report: one self-contained page, drawn from the IR that ships.

The page holds no name of a file, no time and no place: the same model and logs give the same bytes. Every
text is escaped by Jinja, the script and the style are constants of the package, and the page's own
Content-Security-Policy admits them by their hashes and nothing else, so that no string from a log can load,
run or style anything even if an escape were missing.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from heurgen.audit.report.data import Detail, Given, Report, report
from heurgen.audit.report.words import share, times

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES = 1_000_000
# From full detail to what always fits; the first whose page is small enough is taken.
DETAILS = (
    Detail(marks=600, leaves=200),
    Detail(marks=300, leaves=100),
    Detail(marks=150, leaves=50),
    Detail(marks=150, leaves=30, parameters=False, sections=4),
    Detail(marks=80, leaves=16, parameters=False, sections=2),
    Detail(marks=40, leaves=8, parameters=False, sections=1),
)
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


def _page(data: Report) -> str:
    from markupsafe import Markup

    style, script = Markup(_source("style.css")), Markup(_source("script.js"))
    policy = _POLICY.format(script=_hash(script), style=_hash(style))
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(r=data, style=style, script=script, policy=policy)
    )


@lru_cache(maxsize=2)
def _source(name: str) -> str:
    """A constant file of the page, as it stands between its tags."""
    environment = _environment()
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return "\n" + text.replace("\r\n", "\n")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from heurgen.render.environment import template_folder

    environment = Environment(
        loader=FileSystemLoader(template_folder() / "report", encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        newline_sequence="\n",
    )
    environment.filters |= {"times": times, "share": share}
    return environment
