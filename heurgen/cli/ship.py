"""Commands that ship: emit, build, check."""

from __future__ import annotations

import sys

import click

from heurgen.cli.common import (
    FINDINGS,
    Command,
    examples,
    json_option,
    note,
    output_option,
    path_argument,
    print_json,
)
from heurgen.errors import UsageError, printable


@click.command(
    epilog=examples(
        "heurgen emit model.json -o heuristics.py",
        "heurgen emit model.json -o device_heuristics.py --target triton --vendor nvidia --parameter BLOCK_M",
    )
)
@path_argument("MODEL")
@output_option("MODULE.py")
@click.option(
    "--target",
    type=click.Choice(("python", "triton")),
    default="python",
    show_default=True,
    help="python: needs nothing but Python. triton: @triton.jit functions over runtime integers.",
)
@click.option("--vendor", metavar="V", help="Vendor of a triton module.")
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="P",
    help="Parameter of a triton module; default: all that are numbers.",
)
def emit(model: str, output: str, target: str, vendor: str | None, parameters: tuple[str, ...]) -> None:
    """Render a model as a Python module that needs nothing but Python, or as Triton device functions."""
    from heurgen.emit import write_atomic
    from heurgen.render.python import render_python
    from heurgen.render.triton import render_triton
    from heurgen.schema import read_model

    if (target == "triton") != (vendor is not None) or (parameters and vendor is None):
        raise UsageError("--vendor and --parameter go with --target triton, which needs --vendor")
    module = read_model(model)
    text = render_python(module) if vendor is None else render_triton(module, vendor, parameters)
    written = write_atomic(output, text)
    click.echo(f"{'wrote' if written else 'unchanged'} {printable(output)}")


def _project_argument(command: Command) -> Command:
    return click.argument("project", default="heurgen.toml", metavar="[heurgen.toml]")(command)


@click.command(epilog=examples("heurgen build", "heurgen build path/to/heurgen.toml"))
@_project_argument
def build(project: str) -> None:
    """Make every model and module that the project file names; unchanged files are not touched."""
    from heurgen.project import build as run
    from heurgen.text import SUMMARY_HEADER, summary_cells, table

    rows = []
    for made, files in run(project):
        note(made.notes)
        for file, written in files.items():
            click.echo(f"{'wrote' if written else 'unchanged'}  {printable(file)}")
        if made.score is not None:
            rows += [
                [f"{made.module.kernel}: {name}", *summary_cells(s)] for name, s in made.score.groups.items()
            ]
    if rows:
        click.echo("\n" + table(("slowdown on the training log", *SUMMARY_HEADER), rows))


@click.command(epilog=examples("heurgen check"))
@_project_argument
@json_option
def check(project: str, as_json: bool) -> None:
    """Are the shipped models and modules what the logs give, untouched by hand? Exit status 1 if not."""
    from heurgen.project import check as run
    from heurgen.project import read_project

    findings, notes = run(project)
    note(notes)
    if as_json:
        found = [{"path": str(f.path), "problem": f.problem, "diff": f.diff} for f in findings]
        print_json({"findings": found, "notes": notes})
    for finding in () if as_json else findings:
        click.echo(f"{printable(finding.path)}: {finding.problem}")
        click.echo(finding.diff, nl=False)
    if findings:
        sys.exit(FINDINGS)
    if not as_json:
        absent = any(heuristic.unseen for heuristic in read_project(project))
        limit = ", as far as they are here" if absent else ""
        click.echo(f"everything shipped is what the logs give{limit}")


COMMANDS = (emit, build, check)
