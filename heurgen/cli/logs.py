"""Commands on logs: init, validate."""

from __future__ import annotations

from pathlib import Path

import click

from heurgen.base.errors import UsageError, printable
from heurgen.cli.common import (
    examples,
    files_data,
    finish,
    json_option,
    logs_argument,
    note,
    output_option,
    print_json,
    say,
    spec_option,
)


@click.command(
    epilog=examples(
        "heurgen init log.csv -o kernel.toml",
        "heurgen init tuned.csv -o kernel.toml --time us --vendor amd --features M,N,K --parameters kernelId,splitK",
        "heurgen init table.csv -o kernel.toml --wide --features M,N,K",
    )
)
@logs_argument
@output_option("SPEC.toml")
@click.option("--time", metavar="COLUMN", help="The column of the time.")
@click.option("--vendor", metavar="COLUMN|NAME", help="The column of the vendor, or the vendor of every row.")
@click.option("--features", metavar="A,B,...", help="The features; no other column is one.")
@click.option("--parameters", metavar="A,B,...", help="The parameters; no other column is one.")
@click.option("--wide", is_flag=True, help="The table has a column a config, each cell a time.")
@json_option
def init(
    logs: tuple[str, ...],
    output: str,
    time: str | None,
    vendor: str | None,
    features: str | None,
    parameters: str | None,
    wide: bool,
    as_json: bool,
) -> None:
    """Draft a kernel spec from tuning logs; every guess is marked for you to confirm."""
    from heurgen.base.writing import check_outputs, write_atomic
    from heurgen.logs.cells import read_cells
    from heurgen.logs.draft import Said, draft
    from heurgen.spec.draft_toml import to_toml

    if wide and (time or parameters):
        raise UsageError(
            "--wide reads times and parameters from the config columns: no --time, no --parameters"
        )
    check_outputs([output], [log for log in logs if log != "-"])
    said = Said(time, vendor, _names(features), _names(parameters), wide)
    table = read_cells(logs)
    drafted = draft(table, logs[0], said)
    text = to_toml(drafted)
    _check_new(output, text)
    written = write_atomic(output, text)
    note(drafted.notes)
    if as_json:
        print_json({"files": files_data({output: written}), "rows": table.n, **drafted.to_dict(table.texts)})
        return
    say(f"wrote {printable(output)}; confirm the guesses marked in it")


def _check_new(output: str, text: str) -> None:
    """UsageError where another spec is there: someone may have confirmed its guesses."""
    from heurgen.base.writing import is_special

    path = Path(output)
    if path.is_file() and not is_special(path) and path.read_bytes() != text.encode():
        hint = "remove it where its guesses may go, or name another file"
        raise UsageError("another spec is there", file=output, hint=hint)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


@click.command(epilog=examples("heurgen validate log.csv --spec kernel.toml"))
@logs_argument
@spec_option
@json_option
def validate(logs: tuple[str, ...], spec: str, as_json: bool) -> None:
    """Count what logs hold, and find scenarios that contradict each other (exit status 1)."""
    from heurgen.logs.costs import cost_tables
    from heurgen.logs.devices import failing_configs, opposite_winners
    from heurgen.logs.tuning_log import read_logs
    from heurgen.logs.validation import report
    from heurgen.logs.validation import validate as run
    from heurgen.spec.kernel_spec import read_spec

    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    tables = cost_tables(log, kernel)
    found = run(log, tables, kernel)
    devices = (f"{t.vendor}: {line}" for t in tables for line in (*opposite_winners(t), *failing_configs(t)))
    note((*found.notes, *devices))
    if as_json:
        print_json(found.to_dict())
    else:
        say(report(found))
    if found.conflicts:
        finish("contradictions")


COMMANDS = (init, validate)
