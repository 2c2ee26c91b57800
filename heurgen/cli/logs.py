"""Commands on logs: init, validate, import."""

from __future__ import annotations

import sys
from typing import Any

import click

from heurgen.cli.common import (
    FINDINGS,
    examples,
    json_option,
    logs_argument,
    note,
    output_option,
    path_argument,
    print_json,
    spec_option,
)
from heurgen.errors import UsageError, printable, quoted


@click.command(epilog=examples("heurgen init log.csv -o kernel.toml"))
@path_argument("LOG")
@output_option("SPEC.toml")
def init(log: str, output: str) -> None:
    """Draft a kernel spec from a tuning log; every guess is marked for you to confirm."""
    from heurgen.draft import draft_spec
    from heurgen.emit import write_atomic

    write_atomic(output, draft_spec(log))
    click.echo(f"wrote {printable(output)}; confirm the guesses marked in it")


@click.command(epilog=examples("heurgen validate log.csv --spec kernel.toml"))
@logs_argument
@spec_option
@json_option
def validate(logs: tuple[str, ...], spec: str, as_json: bool) -> None:
    """Count what logs hold, and find scenarios that contradict each other (exit status 1)."""
    from heurgen.costs import cost_tables
    from heurgen.logs import read_logs
    from heurgen.spec import read_spec
    from heurgen.validation import report
    from heurgen.validation import validate as run

    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    found = run(log, cost_tables(log, kernel), kernel)
    note(log.notes)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(report(found))
    if found.conflicts:
        sys.exit(FINDINGS)


@click.group(name="import")
def import_() -> None:
    """Turn logs of other tools into tuning logs."""


def _renames(pairs: tuple[str, ...]) -> dict[str, str]:
    renames = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (equals and old and new) or old in renames:
            raise UsageError(f"found --rename {quoted(pair)}, expected OLD=NEW, each OLD once")
        renames[old] = new
    return renames


def _write_import(imported: Any, output: str, write_spec: str | None) -> None:
    from heurgen.emit import write_atomic

    write_atomic(output, imported.csv_text())
    if write_spec:
        write_atomic(write_spec, imported.spec_text())
    note(imported.notes)
    click.echo(f"wrote {printable(output)}: {len(imported.rows)} rows")


_files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")
_write_spec_option = click.option("--write-spec", metavar="SPEC.toml", help="Write a spec for the log too.")


@import_.command(
    epilog=examples(
        "heurgen import dejavu cache/*.json -o log.csv --write-spec kernel.toml",
        "heurgen import dejavu cache.json -o log.csv --vendor amd --device MI300X --rename BLOCK_N=TILE_SIZE",
    )
)
@_files_argument
@output_option("LOG.csv")
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
    epilog=examples("heurgen import autoheuristic mm_a100.txt -o log.csv --write-spec kernel.toml")
)
@_files_argument
@output_option("LOG.csv")
@_write_spec_option
@click.option("--vendor", default="nvidia", show_default=True, metavar="NAME", help="Vendor of the device.")
@click.option("--device", metavar="NAME", help="Device; default: made from the log's metadata.")
def autoheuristic(
    files: tuple[str, ...], output: str, write_spec: str | None, vendor: str, device: str | None
) -> None:
    """Logs that PyTorch's AutoHeuristic collects."""
    from heurgen.importers.autoheuristic import import_autoheuristic

    _write_import(import_autoheuristic(files, vendor=vendor, device=device), output, write_spec)


COMMANDS = (init, validate, import_)
