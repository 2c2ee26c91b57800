"""What the commands share: errors, notes, JSON, options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from heurgen.errors import HeurgenError, printable

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
FINDINGS = 1
BAD_INPUT = 2

Command = TypeVar("Command", bound=Callable[..., Any])


class Group(click.Group):
    """Shows bad input as one line on stderr, with exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HeurgenError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(BAD_INPUT)


def note(notes: Iterable[str]) -> None:
    for text in notes:
        click.echo(f"note: {printable(text)}", err=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar on a terminal's stderr; off a terminal nothing, not even rich."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False))


def examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def path_argument(name: str) -> Callable[[Command], Command]:
    return click.argument(name.lower(), metavar=name)


def spec_option(command: Command) -> Command:
    return click.option("--spec", required=True, metavar="SPEC.toml", help="Roles of the log's columns.")(
        command
    )


def output_option(metavar: str) -> Callable[[Command], Command]:
    return click.option("-o", "--output", required=True, metavar=metavar, help="File to write.")


logs_argument = click.argument("logs", nargs=-1, required=True, metavar="LOG...")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
