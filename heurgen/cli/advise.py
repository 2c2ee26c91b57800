"""The command that says what to measure next: advise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from heurgen.base.errors import UsageError, printable
from heurgen.base.text import counted
from heurgen.cli.common import (
    examples,
    json_option,
    logs_argument,
    note,
    path_argument,
    print_json,
    say,
    spec_option,
    write_file,
)
from heurgen.cli.reading import read_any, read_log

if TYPE_CHECKING:
    from heurgen.ir import HeuristicModule
    from heurgen.logs.costs import CostTable


@click.command(
    epilog=examples(
        "heurgen advise model.json log.csv --spec kernel.toml -n 20 -o next.toml",
        "heurgen advise model.json log.csv --spec kernel.toml --traffic traffic.csv > next.toml",
    )
)
@path_argument("MODEL")
@logs_argument
@spec_option
@click.option("-n", "count", type=click.IntRange(1), default=20, show_default=True, help="Most scenarios.")
@click.option("--traffic", multiple=True, metavar="FILE.csv", help="Launches of real traffic with counts.")
@click.option("--vendor", metavar="V", help="Vendor to measure next; default: the one with most scenarios.")
@click.option("-o", "--output", metavar="NEXT.toml", help="Write the workload there, not to stdout.")
@json_option
def advise(
    model: str,
    logs: tuple[str, ...],
    spec: str,
    count: int,
    traffic: tuple[str, ...],
    vendor: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """The next scenarios, and configs, worth measuring: a workload for `heurgen tune --workload`."""
    from heurgen.audit.advise import advise as run
    from heurgen.audit.advise.candidates import kept_relations
    from heurgen.audit.advise.traffic import read_traffic
    from heurgen.audit.advise.workload import to_workload
    from heurgen.base.writing import check_outputs, check_parents, write_atomic

    check_outputs([output], [model, *logs, spec, *traffic])
    check_parents([output])
    module = read_any(model)
    kernel, log, tables = read_log(logs, spec, (model, module))
    table = _table_of(tables, module, vendor)
    seen = read_traffic(traffic, kernel, table.vendor) if traffic else None
    note((*log.notes, *(seen.notes if seen else ())))
    found = run(module, table, kernel, count, seen)
    if not found:
        note(
            [
                "found no scenario to measure: none lies between the measured ones, and there no choice ties with the "
                "best, nor could an unmeasured config win"
            ]
        )
    if kept := kept_relations(table).kept:
        told = ", ".join(r.to_text() for r in kept)
        note([f"launches that were not measured keep what holds in every scenario of the log: {told}"])
    text = to_workload(found, module.kernel, table.vendor)
    if output is not None:
        write_atomic(output, text)
    if as_json:
        print_json({"vendor": table.vendor, "scenarios": [a.to_dict() for a in found]})
    elif output is None:
        write_file(text)
    else:
        say(f"wrote {printable(output)}: {counted(len(found), 'scenario')}")


def _table_of(tables: tuple[CostTable, ...], module: HeuristicModule, vendor: str | None) -> CostTable:
    known = [t for t in tables if t.vendor in module.vendors and vendor in (None, t.vendor)]
    if not known:
        raise UsageError(
            f"the logs hold no scenario of {vendor or 'a vendor that the model knows'}",
            hint=f"the model knows {', '.join(module.vendors)}",
        )
    if len(known) > 1:
        note([f"the logs hold {', '.join(t.vendor for t in known)}: choose with --vendor"])
    return max(known, key=lambda t: t.n_scenarios)


COMMANDS = (advise,)
