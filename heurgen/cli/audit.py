"""Commands that look into a model: audit, show, explain, diff."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heurgen.base.errors import UsageError
from heurgen.cli.common import (
    capability_option,
    examples,
    finish,
    json_option,
    logs_argument,
    note,
    option_group,
    path_argument,
    print_json,
    say,
    spec_option,
    write,
)
from heurgen.cli.reading import read_any, read_cells_too, read_log

if TYPE_CHECKING:
    from heurgen.audit.defaults import Defaults
    from heurgen.audit.gate import Finding
    from heurgen.audit.score import Score
    from heurgen.base.figures import Summary
    from heurgen.ir import HeuristicModule
    from heurgen.logs.costs import CostTable
    from heurgen.logs.tuning_log import TuningLog


# How the files end that `diff` takes as logs; what it compares else are models.
_LOGS = (".csv", ".tsv", ".jsonl", ".parquet")


_audit_options = option_group(
    click.option("--html", metavar="REPORT.html", help="Write the report: one page that loads nothing."),
    click.option(
        "--fail-above",
        metavar="LIMITS",
        help="Exit 1 above geomean=, p95=, max= (slowdowns) or invalid= (a share), for any vendor or device.",
    ),
    click.option(
        "--baseline",
        metavar="OLD.json",
        help="Exit 1 where a scenario is slower than with this model, beyond the measured noise.",
    ),
    click.option(
        "--default",
        "defaults",
        metavar="CONFIG",
        help="Compare with today's defaults: name=value,..., or a column that is true in the rows they would choose.",
    ),
)


@click.command(
    epilog=examples(
        "heurgen audit model.json log.csv --spec kernel.toml --html report.html",
        "heurgen audit model.json log.csv --spec kernel.toml --fail-above geomean=1.05,max=1.5,invalid=0",
        "heurgen audit new.json log.csv --spec kernel.toml --baseline old.json --json",
    )
)
@path_argument("MODEL")
@logs_argument
@spec_option
@_audit_options
@json_option
def audit(
    model: str,
    logs: tuple[str, ...],
    spec: str,
    html: str | None,
    fail_above: str | None,
    baseline: str | None,
    defaults: str | None,
    as_json: bool,
) -> None:
    """Slowdown of a model (JSON) or of a generated module (.py) on logs: figures, a page, a gate for CI."""
    from heurgen.audit.defaults import read_defaults, summaries
    from heurgen.audit.gate import parse_limits
    from heurgen.audit.recorded import is_training_log
    from heurgen.audit.score import score
    from heurgen.base.writing import check_outputs, check_parents

    check_outputs([html], [model, *logs, spec, baseline])
    check_parents([html])
    limits = parse_limits(fail_above) if fail_above is not None else None
    module, old = read_any(model), None if baseline is None else read_any(baseline)
    kernel, log, tables, cells = read_cells_too(logs, spec, (model, module), (baseline, old))
    result = score(module, tables)
    before = None if old is None else score(old, tables)
    note((*log.notes, *result.notes))
    today = None if (html, defaults) == (None, None) else read_defaults(defaults, cells, log, kernel, tables)
    if html is not None:
        _write_html(html, module, (log, tables), result, today, old, before)
    findings = _findings(result, limits, before)
    beside = {} if today is None else summaries(today, [t for t in tables if t.vendor in module.vendors])
    told, trained = None if limits is None and before is None else findings, is_training_log(module, log)
    note(
        ["the limits are compared with figures of the training log, which flatter"]
        * (trained and limits is not None)
    )
    _print_audit(module, result, trained, beside, told, as_json)
    if findings:
        finish("gates-and-defaults")


def _write_html(
    path: str,
    module: HeuristicModule,
    read: tuple[TuningLog, tuple[CostTable, ...]],
    result: Score,
    today: Defaults | None,
    old: HeuristicModule | None,
    before: Score | None,
) -> None:
    from heurgen.audit.diff import diff
    from heurgen.audit.report import render_html
    from heurgen.audit.report.data import Given
    from heurgen.base.writing import write_atomic

    log, tables = read
    given = Given(
        module,
        tables,
        result,
        log,
        (*result.notes,),
        today,
        before,
        None if old is None else diff(old, module, tables),
    )
    write_atomic(path, render_html(given))
    note([f"wrote {path}"])


def _findings(result: Score, limits: dict[str, float] | None, before: Score | None) -> list[Finding]:
    from heurgen.audit.gate import check_limits, regressions

    found: list[Finding] = []
    for findings, notes in (
        check_limits(result, limits) if limits is not None else ([], []),
        regressions(before, result) if before is not None else ([], []),
    ):
        note(notes)
        found += findings
    return found


def _print_audit(
    module: HeuristicModule,
    result: Score,
    trained: bool,
    today: Mapping[str, Summary],
    findings: list[Finding] | None,
    as_json: bool,
) -> None:
    """`trained`: the log is the training log; `today` is how the defaults that the model replaces do, by vendor."""
    from heurgen.audit.gate import of_several
    from heurgen.audit.recorded import held_out_by_name, is_counted, training_data
    from heurgen.audit.score import to_text
    from heurgen.audit.worst import to_text as worst_text
    from heurgen.audit.worst import worst

    held, slowest = held_out_by_name(module), worst(module, result, trained)
    if as_json:
        groups = {name: asdict(s) for name, s in result.groups.items()}
        recorded = [training_data(s) for s in module.selectors]
        data = {**asdict(result.overall), "groups": groups, "training": recorded}
        data |= {"on_training_log": trained, "held_out": {name: asdict(s) for name, s in held.items()}}
        data["worst"] = [asdict(one) for one in slowest]
        if today:
            data["defaults"] = {vendor: asdict(found) for vendor, found in today.items()}
        if findings is not None:
            data["gate"] = {"passed": not findings, "findings": [f.to_dict() for f in findings]}
        print_json(data)
        return
    generated = not any(is_counted(s.tree) for s in module.selectors)
    say(to_text(result, trained, held, today, generated))
    several = of_several(result)
    if slowest:
        say(f"\n{worst_text(slowest, trained, several)}")
    for finding in findings or ():
        say(f"\n{finding.to_text(several)}")


@click.command(epilog=examples("heurgen show model.json --vendor nvidia --parameter BLOCK_M"))
@path_argument("MODEL")
@click.option("--vendor", metavar="V", help="One vendor's trees.")
@click.option("--parameter", metavar="P", help="The tree of one parameter.")
@json_option
def show(model: str, vendor: str | None, parameter: str | None, as_json: bool) -> None:
    """A model's trees, with the evidence in every leaf: drawn on a terminal, plain text off it."""
    from heurgen.audit import show as trees
    from heurgen.ir.schema import read_model

    module = read_model(model)
    if as_json:
        print_json(trees.show_data(module, vendor, parameter))
    elif sys.stdout is not None and sys.stdout.isatty():
        from rich.console import Console

        from heurgen.audit.draw import draw, least_width

        # rich drops colours alone under NO_COLOR and keeps bold and dim: drop all escapes.
        console = Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto")
        found = draw(module, vendor, parameter)
        console.width = max(console.width, *map(least_width, found))
        with console.capture() as drawn:
            for tree in found:
                console.print(tree)
        write(drawn.get())
    else:
        say(trees.show(module, vendor, parameter))


@click.command(epilog=examples("heurgen explain model.json --vendor nvidia num_seqs=8 max_seqlen_q=1"))
@path_argument("MODEL")
@click.argument("features", nargs=-1, metavar="name=value...")
@click.option(
    "--vendor",
    metavar="V",
    help="Vendor to explain; needed where the model knows several and no --device tells it.",
)
@click.option("--device", metavar="NAME", help="Device, for a model that has selectors of devices.")
@capability_option
@json_option
def explain(
    model: str,
    features: tuple[str, ...],
    vendor: str | None,
    device: str | None,
    capability: str | None,
    as_json: bool,
) -> None:
    """Why a model chooses what it does for one launch, with the training counts behind every step."""
    from heurgen.audit.explain import explain as run
    from heurgen.audit.explain import parse_features
    from heurgen.ir.schema import read_model
    from heurgen.render.target import one_vendor

    module = read_model(model)
    vendor = one_vendor(module, vendor, device)
    found = run(module, vendor, parse_features(module, features), device, capability)
    if as_json:
        print_json(found.to_dict())
    else:
        say(found.to_text())


@click.command(
    epilog=examples(
        "heurgen diff old.json new.json",
        "heurgen diff old.json new.json log.csv --spec kernel.toml --json",
        "heurgen diff eager.csv graph.csv --spec kernel.toml",
    )
)
@path_argument("OLD")
@path_argument("NEW")
@click.argument("logs", nargs=-1, metavar="[LOG...]")
@click.option("--spec", metavar="SPEC.toml", help="Roles of the log's columns; with logs.")
@click.option("--html", metavar="PAGE.html", help="Write the changes as a page too.")
@json_option
def diff(
    old: str, new: str, logs: tuple[str, ...], spec: str | None, html: str | None, as_json: bool
) -> None:
    """Which regions of feature space change config between two models, and with logs what that costs or gains.

    Of two logs (OLD.csv NEW.csv): in which scenarios the winner changes, as with the timing method.
    """
    from heurgen.audit.diff import diff as run
    from heurgen.audit.recorded import is_training_log
    from heurgen.base.writing import check_outputs, check_parents, write_atomic

    of_logs = all(path.removesuffix(".gz").endswith(_LOGS) for path in (old, new))
    if not of_logs and bool(logs) != (spec is not None):
        raise UsageError("logs and --spec go together", hint="give both, or neither")
    check_outputs([html], [old, new, *logs, spec])
    check_parents([html])
    if of_logs:
        _diff_logs(old, new, logs, spec, html, as_json)
        return
    before, after = read_any(old), read_any(new)
    tables, trained = None, False
    if spec is not None:
        _, log, tables = read_log(logs, spec, (old, before), (new, after))
        trained = is_training_log(after, log)
        note(log.notes)
        gains = trained and any(t.costs_known for t in tables)
        note([f"{new} was trained on this log: what it gains there flatters"] * gains)
    found = run(before, after, tables)
    if html is not None:
        from heurgen.audit.report.tables import diff_page

        write_atomic(html, diff_page(found, trained))
        note([f"wrote {html}"])
    if as_json:
        print_json(found.to_dict())
    else:
        say(found.to_text())


def _diff_logs(
    old: str, new: str, logs: tuple[str, ...], spec: str | None, html: str | None, as_json: bool
) -> None:
    from heurgen.audit.log_diff import diff_logs
    from heurgen.logs.card import card_path

    if spec is None or logs or html is not None:
        raise UsageError("two logs are compared with --spec alone", hint="no third log, no --html")
    tables = []
    for path in (old, new):
        _, log, found = read_log((path,), spec)
        note(log.notes)
        tables.append(found)
    cards = [card_path(Path(path)) for path in (old, new)]
    modes = [str(_mode_of(card)) if card.exists() else "" for card in cards]
    result = diff_logs(tables[0], tables[1], (modes[0], modes[1]))
    if as_json:
        print_json(result.to_dict())
    else:
        say(result.to_text())


def _mode_of(card: Path) -> str:
    from heurgen.base.toml import read_toml

    return read_toml(card).table("method").text("mode", "eager")


COMMANDS = (audit, show, explain, diff)
