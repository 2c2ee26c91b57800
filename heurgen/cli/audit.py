"""Commands that explain a model: audit, show, explain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from heurgen.cli.common import (
    examples,
    json_option,
    logs_argument,
    note,
    path_argument,
    print_json,
    spec_option,
)
from heurgen.errors import printable


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


@click.command(epilog=examples("heurgen audit model.json log.csv --spec kernel.toml --json"))
@path_argument("MODEL")
@logs_argument
@spec_option
@json_option
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
    note((*log.notes, *result.notes))
    if as_json:
        groups = {name: asdict(s) for name, s in result.groups.items()}
        print_json({**asdict(result.overall), "groups": groups})
        return
    rows = [["all", *summary_cells(result.overall)]]
    rows += [[printable(name), *summary_cells(s)] for name, s in result.groups.items()]
    click.echo(table(("slowdown", *SUMMARY_HEADER), rows))


@click.command(epilog=examples("heurgen show model.json --vendor nvidia --parameter BLOCK_M"))
@path_argument("MODEL")
@click.option("--vendor", metavar="V", help="One vendor's trees.")
@click.option("--parameter", metavar="P", help="The tree of one parameter.")
@json_option
def show(model: str, vendor: str | None, parameter: str | None, as_json: bool) -> None:
    """A model's trees, with the evidence in every leaf."""
    from heurgen.audit import show as trees
    from heurgen.schema import read_model

    module = read_model(model)
    if as_json:
        print_json(trees.show_data(module, vendor, parameter))
    else:
        click.echo(trees.show(module, vendor, parameter))


@click.command(epilog=examples("heurgen explain model.json --vendor nvidia num_seqs=8 max_seqlen_q=1"))
@path_argument("MODEL")
@click.argument("features", nargs=-1, metavar="name=value...")
@click.option("--vendor", required=True, metavar="V", help="Vendor to explain.")
@click.option("--device", metavar="NAME", help="Device, for a model grouped by device.")
@json_option
def explain(model: str, features: tuple[str, ...], vendor: str, device: str | None, as_json: bool) -> None:
    """Why a model chooses what it does for one launch."""
    from heurgen.audit.explain import explain as run
    from heurgen.audit.explain import parse_features
    from heurgen.schema import read_model

    module = read_model(model)
    found = run(module, vendor, parse_features(module, features), device)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(found.to_text())


COMMANDS = (audit, show, explain)
