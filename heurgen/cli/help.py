"""From an error to the passage that explains it, and the command `help`, which prints it without a network.

docs/troubleshooting.md is the one source: a section says why and what to do, and lists the messages that it explains
at its end; its heading's anchor is the topic. A message is written as it is printed, `...` for what varies; in
parentheses behind it the class of the error or the command that it is limited to:

    ## Missing column

    **Why.** ...

    **Do.** ...

    **Messages.**

    - `the header lacks this column`
    - `found ..., expected ...` (`SpecError`)
    - `...` (`heurgen import`)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import did_you_mean
from heurgen.cli.common import examples, say

PAGE = "troubleshooting"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_MESSAGE = re.compile(r"^- `(.+?)`(?: \((.+)\))?$")


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the page shows it, and the class or command that it is limited to (empty: any)."""

    text: str
    only: frozenset[str]

    @property
    def rank(self) -> tuple[int, int]:
        """The one that says most explains an error best; of equal ones the one for a command, then for a class."""
        limits = sum(2 if only.startswith("heurgen ") else 1 for only in self.only)
        return len(self.text.replace("...", "")), limits

    def fits(self, message: str, kinds: frozenset[str]) -> bool:
        parts = map(re.escape, self.text.split("..."))
        return self.only <= kinds and re.fullmatch(".*".join(parts), message, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Topic:
    """A section of the page: its anchor, its heading, the messages that it explains, its text."""

    name: str
    title: str
    messages: tuple[Message, ...]
    text: str


def docs_folder() -> Path:
    """`heurgen/docs` in an installed wheel, `docs` beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "docs"
    return installed if installed.is_dir() else package.parent / "docs"


@cache
def pages() -> dict[str, Path]:
    """The pages that `heurgen help` prints, by their names."""
    return {path.stem: path for path in sorted(docs_folder().rglob("*.md"))}


@cache
def topics() -> tuple[Topic, ...]:
    """The sections of the page, in its order; none where the page is not there."""
    try:
        text = pages()[PAGE].read_text(encoding="utf-8")
    except (KeyError, OSError):  # an error's message must not fail for want of its explanation
        return ()
    parts = _HEADING.split(text)[1:]
    return tuple(_topic(title, body) for title, body in zip(parts[::2], parts[1::2], strict=True))


def _topic(title: str, body: str) -> Topic:
    listed = map(_MESSAGE.match, body.partition("\n**Messages.**\n")[2].splitlines())
    messages = [Message(m[1], frozenset(re.findall("`(.+?)`", m[2] or ""))) for m in listed if m is not None]
    # as MkDocs and GitHub make the anchor of a heading of plain words
    return Topic(title.lower().replace(" ", "-"), title, tuple(messages), f"## {title}\n\n{body.strip()}")


def topic_of(message: str, error: type[BaseException], command: str | None = None) -> str | None:
    """The topic that explains an error, by its message (without place and hint), its class and the command."""
    kinds = frozenset(c.__name__ for c in error.__mro__) | {f"heurgen {command}"}
    fitting = [(m.rank, t.name) for t in topics() for m in t.messages if m.fits(message, kinds)]
    return max(fitting, key=lambda f: f[0])[1] if fitting else None


def help_line(message: str, error: type[BaseException], command: str | None = None) -> str | None:
    """The line that stands under an error on stderr."""
    name = topic_of(message, error, command)
    return None if name is None else line_of(name)


def line_of(topic: str) -> str:
    return f"help: heurgen help {topic}  (docs/{PAGE}.md#{topic})"


@click.command(
    "help",
    epilog=examples(
        *("heurgen help", "heurgen help missing-column", "heurgen help spec"),
        *("heurgen help train", "heurgen help import triton"),
    ),
)
@click.argument("topic", required=False)
@click.argument("kind", required=False)
@click.pass_context
def help_(ctx: click.Context, topic: str | None, kind: str | None) -> None:
    """Explain an error's topic, a page of the documentation, or a command; without a name, list them."""
    sections = {t.name: t for t in topics()}
    commands = _commands(ctx.parent)
    if topic is None:
        say(_index(sections))
    elif kind is not None:
        _help_of_kind(ctx, topic, kind, commands.get(topic))
    elif topic in sections:
        say(sections[topic].text)
    elif (page := _page(topic)) in pages():
        say(pages()[page].read_text(encoding="utf-8").rstrip())
    elif topic in commands:
        with click.Context(commands[topic], parent=ctx.parent, info_name=topic) as inner:
            say(commands[topic].get_help(inner))
    else:
        known = (*sections, *pages(), *commands)
        hint = did_you_mean(topic, known) or "heurgen help lists all topics, pages and commands"
        raise UsageError(f"there is no help on {quoted(topic)}", hint=hint)


def _commands(ctx: click.Context | None) -> dict[str, click.Command]:
    group = ctx.command if ctx is not None else None
    return dict(group.commands) if isinstance(group, click.Group) else {}


def _page(topic: str) -> str:
    """`tutorials/ci.md`, as pages link to each other -> `ci`."""
    return topic.removesuffix(".md").rpartition("/")[2]


def _help_of_kind(ctx: click.Context, topic: str, kind: str, command: click.Command | None) -> None:
    """`heurgen help import triton`: as `heurgen import triton --help`."""
    if not isinstance(command, click.Group):
        raise UsageError(f"found {quoted(kind)} after {quoted(topic)}, expected one name")
    with click.Context(command, parent=ctx.parent, info_name=topic) as outer:
        inner = command.get_command(outer, kind)
        if inner is None:
            hint = did_you_mean(kind, command.list_commands(outer)) or f"heurgen help {topic} lists them"
            raise UsageError(f"there is no help on {quoted(f'{topic} {kind}')}", hint=hint)
        with click.Context(inner, parent=outer, info_name=kind) as context:
            say(inner.get_help(context))


def _index(sections: dict[str, Topic]) -> str:
    width = max(map(len, sections), default=0)
    listed = [f"  {name:{width}}  {t.title}" for name, t in sections.items()]
    return "\n".join(
        ("Errors (heurgen help TOPIC):", *listed, "", f"Pages: {', '.join(pages())}", "",
         "Commands: heurgen --help, heurgen help COMMAND")
    )  # fmt: skip


COMMANDS = (help_,)
