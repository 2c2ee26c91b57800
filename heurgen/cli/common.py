"""What the commands share: errors, notes, JSON, options."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import click

from heurgen.base.errors import HeurgenError, UsageError, printable, quoted
from heurgen.base.reading import reason
from heurgen.base.writing import open_file

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
FINDINGS = 1
BAD_INPUT = 2
# As `heurgen.machine` finds it: no other text is that of any device, and would choose what is for unknown ones.
_CAPABILITY = re.compile(r"[0-9]+\.[0-9]+|gfx[0-9a-f]+")
INTERRUPTED = 130  # as a shell says it of Ctrl-C
UNREAD = 141  # as it says it where the reader of a pipe has left (`| head -1`): SIGPIPE

Command = TypeVar("Command", bound=Callable[..., Any])


class Group(click.Group):
    """Shows bad input as one line on stderr, and one that leads to its explanation; exit status 2.

    `sections` sort commands by what one wants to do.
    """

    sections: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = [name for _, names in self.sections for name in names]
        rest = tuple(name for name in self.list_commands(ctx) if name not in listed)
        for title, names in (*self.sections, ("Commands" if not listed else "More", rest)):
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, c.get_short_help_str(160)) for name, c in found if c is not None and not c.hidden]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            _refuse_usage(error)
        except BrokenPipeError:  # click would end with 1, which means findings
            _end_unread()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HeurgenError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                _end_unread()
            _complain(str(error), error.message, type(error), ctx.invoked_subcommand)
        except click.UsageError as error:
            _refuse_usage(error)
        except BrokenPipeError:
            _end_unread()
        except RecursionError:
            _complain("the input nests too deeply")
        except MemoryError:
            _complain("the input does not fit into this machine's memory")
        except KeyboardInterrupt:  # click would end with 1, which means findings
            with contextlib.suppress(OSError):
                click.echo("\ninterrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        raise click.exceptions.Exit(BAD_INPUT)

    def main(self, *arguments: Any, **options: Any) -> Any:
        if sys.stdout is None:
            sys.stdout = _Closed()
        try:
            return super().main(*arguments, **options)
        except OSError as error:
            _refused(error)


class _Closed(io.TextIOBase):
    """A stdout that the caller closed: libraries that look for one find it, and nothing can be written."""

    def write(self, _: str) -> int:
        raise OSError("it is closed")


def _end_unread() -> NoReturn:
    """Whoever reads a pipe (`| head`) has what it wanted and is gone: nothing is wrong, and nothing is said."""
    _abandon_stdout()
    sys.exit(UNREAD)


def _refused(error: OSError) -> NoReturn:
    """What no command expects: click's own text (--help, --version) for a stdout that takes none, or a path that the
    system does not even look at (too long, below a folder that is not ours).
    """
    if error.filename is not None:
        message = f"cannot be used: {reason(error)}"
        _complain(f"{printable(os.fsdecode(error.filename))}: {message}", message)
    elif isinstance(error, FileNotFoundError):  # no stream is missing
        _complain(f"cannot use the current folder, or the one for temporary files: {reason(error)}")
    else:
        _complain(f"cannot write to stdout: {reason(error)}")
    _abandon_stdout()
    sys.exit(BAD_INPUT)


def _complain(
    text: str,
    message: str | None = None,
    kind: type[BaseException] = HeurgenError,
    command: str | None = None,
) -> None:
    """An error on stderr; its `message`, without place and hint, finds what explains it."""
    with contextlib.suppress(OSError):
        click.echo(f"error: {text}", err=True)
        lead_on(text if message is None else message, kind, command)


def lead_on(message: str, kind: type[BaseException], command: str | None = None) -> None:
    """The line under an error that says where it is explained."""
    from heurgen.cli.help import help_line

    if (line := help_line(message, kind, command)) is not None:
        click.echo(line, err=True)


def finish(topic: str) -> NoReturn:
    """End with findings, which are no error (exit status 1), and the line that says where they are explained."""
    from heurgen.cli.help import line_of

    with contextlib.suppress(OSError):
        click.echo(line_of(topic), err=True)
    sys.exit(FINDINGS)


def _refuse_usage(error: click.UsageError) -> NoReturn:
    """What click says of the words of a command line, and where commands are explained."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        raise error
    with contextlib.suppress(OSError):
        error.show()
        lead_on(error.format_message(), type(error), error.ctx.info_name if error.ctx is not None else None)
    raise click.exceptions.Exit(error.exit_code) from error


def say(text: str) -> None:
    """Lines for stdout. Whatever log or model they come from, nothing in them steers a terminal.

    Where a file of the command's is stdout (-o /dev/stdout), it holds that file alone, and they go to stderr.

    Raises:
        UsageError: stdout is closed, full, or nobody reads it any more.
    """
    lines = "\n".join(map(printable, text.split("\n"))) + "\n"
    if _stdout_is_a_file():
        with contextlib.suppress(OSError):
            click.echo(lines, nl=False, err=True)
    else:
        write(lines)


def _stdout_is_a_file() -> bool:
    context = click.get_current_context(silent=True)
    given = context.params.values() if context is not None else ()
    return any(open_file(value) == 1 for value in given if isinstance(value, str))


def write(text: str) -> None:
    """Text for stdout as it is; the caller has made it safe. Raises as `say`."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except UnicodeEncodeError:
        write(text.encode("ascii", "backslashreplace").decode())
    except (OSError, ValueError) as error:
        _abandon_stdout()
        raise UsageError(f"cannot write to stdout: {reason(error)}") from error


def write_file(text: str) -> None:
    """A file's text for stdout, in UTF-8 as it has it on disk, whatever the locale. Raises as `say`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    write(text)


def _abandon_stdout() -> None:
    """What is still in the buffer must not fail once more, with a traceback, when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        number = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


@contextmanager
def no_results() -> Iterator[None]:
    """What is printed inside goes to stderr, also past Python, as by a compiler that a tunable starts."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def note(notes: Iterable[str]) -> None:
    for text in notes:
        with contextlib.suppress(OSError):
            click.echo(f"note: {printable(text)}", err=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar on a terminal's stderr; off a terminal nothing, not even rich."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(printable(what)), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(data: Any) -> None:
    say(json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False))


def files_data(written: Mapping[Any, bool]) -> list[dict[str, Any]]:
    """Files that a command made, as JSON data: the path, and whether its bytes are new."""
    return [{"path": str(path), "written": new} for path, new in written.items()]


def examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def option_group(*given: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Options of a command in one, shown in their order."""

    def add(command: Command) -> Command:
        for option in reversed(given):
            command = option(command)
        return command

    return add


def path_argument(name: str) -> Callable[[Command], Command]:
    return click.argument(name.lower(), metavar=name)


def spec_option(command: Command) -> Command:
    return click.option(
        "--spec", required=True, metavar="SPEC.toml", help="Roles of the log's columns; init drafts it."
    )(command)


def output_option(metavar: str, **more: Any) -> Callable[[Command], Command]:
    return click.option("-o", "--output", required=True, metavar=metavar, help="File to write.", **more)


def _log_name(_: click.Context, __: click.Parameter, path: str) -> str:
    """Every reader takes a file of that name for Parquet, so that a log written there could not be read again."""
    if path.endswith(".parquet") and not os.path.isdir(path):
        hint = f"name it {printable(path.removesuffix('.parquet'))}.csv"
        raise UsageError("cannot write: a log is CSV, and the name says Parquet", file=path, hint=hint)
    return path


def log_output_option(metavar: str) -> Callable[[Command], Command]:
    """`output_option` of a log."""
    return output_option(metavar, callback=_log_name)


def _checked_capability(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is None or _CAPABILITY.fullmatch(text):
        return text
    raise click.BadParameter(f"found {quoted(text)}, expected one such as 9.0 (NVIDIA) or gfx942 (AMD)")


capability_option = click.option(
    "--capability",
    metavar="C",
    callback=_checked_capability,
    help="Its compute capability (9.0, gfx942), where the model lacks the device.",
)
logs_argument = click.argument("logs", nargs=-1, required=True, metavar="LOG...")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
