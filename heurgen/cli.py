"""The `heurgen` command: parse, call, print. Exit status: 0 done, 1 findings, 2 bad input or usage."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from heurgen._version import __version__
from heurgen.errors import HeurgenError, UsageError, printable

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
FINDINGS = 1
BAD_INPUT = 2

Command = TypeVar("Command", bound=Callable[..., Any])


class _Group(click.Group):
    """Shows bad input as one line on stderr, with exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HeurgenError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(BAD_INPUT)


def _note(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False))


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _path(name: str) -> Callable[[Command], Command]:
    return click.argument(name.lower(), metavar=name)


def _spec_option(command: Command) -> Command:
    return click.option("--spec", required=True, metavar="SPEC.toml", help="Roles of the log's columns.")(
        command
    )


def _output_option(metavar: str) -> Callable[[Command], Command]:
    return click.option("-o", "--output", required=True, metavar=metavar, help="File to write.")


_logs_argument = click.argument("logs", nargs=-1, required=True, metavar="LOG...")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=_Group, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="heurgen")
def main() -> None:
    """Turn GPU autotuning logs into small, dependency-free launch heuristics.

    A tuning log (CSV) and a kernel spec (TOML) give a model (JSON, the trees to review), and the model gives
    a Python module that a kernel imports.
    """


# --- logs -------------------------------------------------------------------------------------------------


@main.command(epilog=_examples("heurgen init log.csv -o kernel.toml"))
@_path("LOG")
@_output_option("SPEC.toml")
def init(log: str, output: str) -> None:
    """Draft a kernel spec from a tuning log; every guess is marked for you to confirm."""
    from heurgen.draft import draft_spec
    from heurgen.emit import write_atomic

    write_atomic(output, draft_spec(log))
    click.echo(f"wrote {printable(output)}; confirm the guesses marked in it")


@main.command(epilog=_examples("heurgen validate log.csv --spec kernel.toml"))
@_logs_argument
@_spec_option
@_json_option
def validate(logs: tuple[str, ...], spec: str, as_json: bool) -> None:
    """Count what logs hold, and find scenarios that contradict each other (exit status 1)."""
    from heurgen.costs import cost_tables
    from heurgen.logs import read_logs
    from heurgen.spec import read_spec
    from heurgen.validate import validate as run

    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    found = run(log, cost_tables(log, kernel), kernel)
    _note(log.notes)
    if as_json:
        _print_json(found.to_dict())
    else:
        click.echo(found.to_text())
    if found.conflicts:
        sys.exit(FINDINGS)


@main.group(name="import")
def import_() -> None:
    """Turn logs of other tools into tuning logs."""


def _renames(pairs: tuple[str, ...]) -> dict[str, str]:
    renames = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (equals and old and new):
            raise UsageError(f"--rename takes OLD=NEW, found {pair!r}")
        renames[old] = new
    return renames


def _write_import(imported: Any, output: str, write_spec: str | None) -> None:
    from heurgen.emit import write_atomic

    write_atomic(output, imported.csv_text)
    if write_spec:
        write_atomic(write_spec, imported.spec_text)
    _note(imported.notes)
    click.echo(f"wrote {printable(output)}: {imported.n_rows} rows")


_files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")
_write_spec_option = click.option("--write-spec", metavar="SPEC.toml", help="Write a spec for the log too.")


@import_.command(
    epilog=_examples(
        "heurgen import dejavu cache/*.json -o log.csv --write-spec kernel.toml",
        "heurgen import dejavu cache.json -o log.csv --vendor amd --device MI300X --rename BLOCK_N=TILE_SIZE",
    )
)
@_files_argument
@_output_option("LOG.csv")
@_write_spec_option
@click.option("--device", metavar="NAME", help="Device, where the path does not tell.")
@click.option("--vendor", metavar="NAME", help="Vendor, where the path does not tell.")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a feature or parameter.")
def dejavu(
    files: tuple[str, ...],
    output: str,
    write_spec: str | None,
    device: str | None,
    vendor: str | None,
    rename: tuple[str, ...],
) -> None:
    """triton-dejavu caches: winners only, so slowdowns stay unknown."""
    from heurgen.importers.dejavu import import_dejavu

    imported = import_dejavu(files, device=device, vendor=vendor, rename=_renames(rename))
    _write_import(imported, output, write_spec)


@import_.command(
    epilog=_examples("heurgen import autoheuristic mm_a100.txt -o log.csv --write-spec kernel.toml")
)
@_files_argument
@_output_option("LOG.csv")
@_write_spec_option
@click.option("--vendor", default="nvidia", show_default=True, metavar="NAME", help="Vendor of the device.")
@click.option("--device", metavar="NAME", help="Device; default: made from the log's metadata.")
def autoheuristic(
    files: tuple[str, ...], output: str, write_spec: str | None, vendor: str, device: str | None
) -> None:
    """Logs that PyTorch's AutoHeuristic collects."""
    from heurgen.importers.autoheuristic import import_autoheuristic

    _write_import(import_autoheuristic(files, vendor=vendor, device=device), output, write_spec)


# --- learning ---------------------------------------------------------------------------------------------


def _fit_options(command: Command) -> Command:
    options = (
        click.option(
            "--strategy",
            type=click.Choice(("auto", "joint", "per-parameter", "optimal")),
            default="auto",
            show_default=True,
            help="How trees are learnt.",
        ),
        click.option("--max-depth", type=click.IntRange(1, 16), help="Deepest tree."),
        click.option("--max-leaves", type=click.IntRange(1), help="Most leaves of a tree."),
        click.option(
            "--max-configs",
            type=click.IntRange(1),
            default=8,
            show_default=True,
            help="Most distinct configs: each is a compiled kernel.",
        ),
        click.option(
            "--prefer",
            type=click.Choice(("accuracy", "small")),
            default="accuracy",
            show_default=True,
            help="What auto trades for what.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@main.command(epilog=_examples("heurgen train log.csv --spec kernel.toml -o model.json"))
@_logs_argument
@_spec_option
@_output_option("MODEL.json")
@_fit_options
@click.option(
    "--group-by",
    type=click.Choice(("vendor", "device")),
    default="vendor",
    show_default=True,
    help="One selector per vendor, or per device beside them.",
)
@click.option("--card", multiple=True, metavar="CARD.toml", help="Data card: its [tools] enter provenance.")
@click.option("--suggest-derived", is_flag=True, help="Also say which derived features would pay.")
def train(
    logs: tuple[str, ...],
    spec: str,
    output: str,
    group_by: Any,
    card: tuple[str, ...],
    suggest_derived: bool,
    **options: Any,
) -> None:
    """Learn a model: small trees that minimise slowdown."""
    from heurgen.audit.show import selector_title
    from heurgen.card import read_tools
    from heurgen.costs import cost_tables
    from heurgen.emit import write_atomic
    from heurgen.logs import read_logs
    from heurgen.schema import to_json
    from heurgen.spec import read_spec
    from heurgen.train import from_tables
    from heurgen.trees import FitOptions

    kernel, tools = read_spec(spec), read_tools(card)
    log = read_logs(logs, kernel)
    tables = cost_tables(log, kernel, group_by=group_by)
    module = from_tables(tables, log, kernel, options=FitOptions(**options), tools=tools)
    _note(log.notes)
    write_atomic(output, to_json(module))
    for selector in module.selectors:
        click.echo(selector_title(selector))
    if suggest_derived:
        _suggest(tables)


def _suggest(tables: Any) -> None:
    from heurgen.trees import suggest_derived

    for table in tables:
        click.echo(suggest_derived(table).to_text())


@main.command(epilog=_examples("heurgen evaluate log.csv --spec kernel.toml --folds 5 --repeats 4"))
@_logs_argument
@_spec_option
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds over scenarios.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="Splits into folds.")
@_json_option
def evaluate(logs: tuple[str, ...], spec: str, folds: int, repeats: int, as_json: bool) -> None:
    """Compare strategies on scenarios that they were not trained on."""
    from heurgen.costs import cost_tables
    from heurgen.logs import read_logs
    from heurgen.spec import read_spec
    from heurgen.trees import evaluate as run

    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    reports = [run(table, folds=folds, repeats=repeats) for table in cost_tables(log, kernel)]
    _note(log.notes)
    if as_json:
        _print_json(
            {key: [row for r in reports for row in r.to_dict()[key]] for key in ("rows", "extrapolation")}
        )
    else:
        click.echo("\n\n".join(r.to_text() for r in reports))


# --- shipping ---------------------------------------------------------------------------------------------


@main.command(epilog=_examples("heurgen emit model.json -o heuristics.py"))
@_path("MODEL")
@_output_option("MODULE.py")
def emit(model: str, output: str) -> None:
    """Render a model as a Python module that needs nothing but Python."""
    from heurgen.emit import write_atomic
    from heurgen.render.python import render_python
    from heurgen.schema import read_model

    written = write_atomic(output, render_python(read_model(model)))
    click.echo(f"{'wrote' if written else 'unchanged'} {printable(output)}")


def _project_argument(command: Command) -> Command:
    return click.argument("project", default="heurgen.toml", metavar="[heurgen.toml]")(command)


@main.command(epilog=_examples("heurgen build", "heurgen build path/to/heurgen.toml"))
@_project_argument
def build(project: str) -> None:
    """Make every model and module that the project file names; unchanged files are not touched."""
    from heurgen.project import build as run
    from heurgen.text import SUMMARY_HEADER, summary_cells, table

    rows = []
    for made, files in run(project):
        _note(made.notes)
        for file, written in files.items():
            click.echo(f"{'wrote' if written else 'unchanged'}  {printable(file)}")
        if made.score is not None:
            rows += [
                [f"{made.module.kernel}: {name}", *summary_cells(s)] for name, s in made.score.groups.items()
            ]
    if rows:
        click.echo("\n" + table(("slowdown on the training log", *SUMMARY_HEADER), rows))


@main.command(epilog=_examples("heurgen check"))
@_project_argument
@_json_option
def check(project: str, as_json: bool) -> None:
    """Are the shipped models and modules what the logs give, untouched by hand? Exit status 1 if not."""
    from heurgen.project import check as run

    findings, notes = run(project)
    _note(notes)
    if as_json:
        found = [{"path": str(f.path), "problem": f.problem, "diff": f.diff} for f in findings]
        _print_json({"findings": found, "notes": notes})
    for finding in () if as_json else findings:
        click.echo(f"{printable(finding.path)}: {finding.problem}")
        click.echo(finding.diff, nl=False)
    if findings:
        sys.exit(FINDINGS)
    if not as_json:
        click.echo("everything shipped is what the logs give")


# --- audit ------------------------------------------------------------------------------------------------


def _read_any(path: str) -> Any:
    """A model, or a generated module, which is parsed and never imported."""
    from heurgen.errors import ModelError
    from heurgen.schema import read_model

    if Path(path).suffix != ".py":
        return read_model(path)
    from heurgen.render.reader import read_module

    try:
        return read_module(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot be read: {error}", file=path) from error


@main.command(epilog=_examples("heurgen audit model.json log.csv --spec kernel.toml --json"))
@_path("MODEL")
@_logs_argument
@_spec_option
@_json_option
def audit(model: str, logs: tuple[str, ...], spec: str, as_json: bool) -> None:
    """Slowdown of a model (JSON) or of a generated module (.py) on logs."""
    from heurgen.audit.score import score
    from heurgen.costs import cost_tables
    from heurgen.logs import read_logs
    from heurgen.spec import read_spec
    from heurgen.text import SUMMARY_HEADER, summary_cells, table

    module = _read_any(model)
    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    result = score(module, cost_tables(log, kernel))
    _note((*log.notes, *result.notes))
    if as_json:
        groups = {name: asdict(s) for name, s in result.groups.items()}
        _print_json({**asdict(result.overall), "groups": groups})
        return
    rows = [["all", *summary_cells(result.overall)]]
    rows += [[printable(name), *summary_cells(s)] for name, s in result.groups.items()]
    click.echo(table(("slowdown", *SUMMARY_HEADER), rows))


@main.command(epilog=_examples("heurgen show model.json --vendor nvidia --parameter BLOCK_M"))
@_path("MODEL")
@click.option("--vendor", metavar="V", help="One vendor's trees.")
@click.option("--parameter", metavar="P", help="The tree of one parameter.")
@_json_option
def show(model: str, vendor: str | None, parameter: str | None, as_json: bool) -> None:
    """A model's trees, with the evidence in every leaf."""
    from heurgen.audit import show as trees
    from heurgen.schema import read_model

    module = read_model(model)
    if as_json:
        _print_json(trees.show_data(module, vendor, parameter))
    else:
        click.echo(trees.show(module, vendor, parameter))


@main.command(epilog=_examples("heurgen explain model.json --vendor nvidia num_seqs=8 max_seqlen_q=1"))
@_path("MODEL")
@click.argument("features", nargs=-1, metavar="name=value...")
@click.option("--vendor", required=True, metavar="V", help="Vendor to explain.")
@click.option("--device", metavar="NAME", help="Device, for a model grouped by device.")
@_json_option
def explain(model: str, features: tuple[str, ...], vendor: str, device: str | None, as_json: bool) -> None:
    """Why a model chooses what it does for one launch."""
    from heurgen.audit.explain import explain as run
    from heurgen.audit.explain import parse_features
    from heurgen.schema import read_model

    module = read_model(model)
    found = run(module, vendor, parse_features(module, features), device)
    if as_json:
        _print_json(found.to_dict())
    else:
        click.echo(found.to_text())
