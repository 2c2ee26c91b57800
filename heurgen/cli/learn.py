"""Commands that learn: train, evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from heurgen.base.errors import EmitError
from heurgen.cli.common import (
    examples,
    files_data,
    json_option,
    logs_argument,
    note,
    option_group,
    output_option,
    print_json,
    progress,
    say,
    spec_option,
)

if TYPE_CHECKING:
    from heurgen.ir import HeuristicModule
    from heurgen.logs.costs import CostTable


_fit_options = option_group(
    click.option(
        "--strategy",
        type=click.Choice(("auto", "joint", "per-parameter", "optimal")),
        default="auto",
        show_default=True,
        help="joint: one tree of whole configs; per-parameter: a tree for each parameter; optimal: the best tree of "
        "a small depth (needs pystreed); auto: joint or per-parameter, by cross-validation.",
    ),
    click.option(
        "--max-depth",
        type=click.IntRange(1, 16),
        help="Most tests on a path; those for unknown categories come on top.",
    ),
    click.option(
        "--max-leaves",
        type=click.IntRange(1),
        help="Most leaves of a tree; one that answers unknown categories comes on top.",
    ),
    click.option(
        "--max-configs",
        type=click.IntRange(1),
        help="Most distinct configs, each a compiled kernel; one for unknown categories may come on top. "
        "Default: auto chooses, up to 64.",
    ),
    click.option(
        "--prefer",
        type=click.Choice(("accuracy", "small")),
        default="accuracy",
        show_default=True,
        help="What auto ships: the best held-out slowdown, or the fewest configs and leaves within 1 % of it.",
    ),
    click.option(
        "--tail",
        type=click.FloatRange(0, 100),
        help="How much more the part of a slowdown beyond 1.1x counts (auto and joint; 1: twice). "
        "Default: auto takes 1 where p95 gains and the mean holds, else 0.",
    ),
    click.option(
        "--shortlist",
        type=click.IntRange(0, 64),
        default=0,
        metavar="K",
        help="Also learn the K configs to try in every region.",
    ),
)


@click.command(epilog=examples("heurgen train log.csv --spec kernel.toml -o model.json"))
@logs_argument
@spec_option
@output_option("MODEL.json")
@_fit_options
@click.option(
    "--group-by",
    type=click.Choice(("auto", "vendor", "device")),
    default="auto",
    show_default=True,
    help="One selector per vendor, or one per device as well; auto compares where there are several devices.",
)
@click.option(
    "--card",
    multiple=True,
    metavar="CARD.toml",
    help="Card that tune wrote beside the log: its [tools] enter the provenance, its [device] may become features.",
)
@click.option(
    "--suggest-derived",
    is_flag=True,
    help="Also say which further products, ratios and remainders of features would pay in [derived] of the spec.",
)
@json_option
def train(
    logs: tuple[str, ...],
    spec: str,
    output: str,
    group_by: Any,
    card: tuple[str, ...],
    suggest_derived: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn a model: small trees that minimise slowdown."""
    from heurgen.base.writing import check_outputs, check_parents, write_atomic
    from heurgen.ir.schema import to_json
    from heurgen.logs.card import read_devices, read_tools, strangers
    from heurgen.logs.costs import cost_tables
    from heurgen.logs.tuning_log import read_logs
    from heurgen.ship.products import as_trained
    from heurgen.ship.remarks import to_dict, to_text, warnings
    from heurgen.ship.training import from_tables
    from heurgen.spec.kernel_spec import read_spec
    from heurgen.trees import FitOptions
    from heurgen.trees import suggest_derived as suggest

    check_outputs([output], [*logs, spec, *card])
    check_parents([output])
    kernel, tools, devices = read_spec(spec), read_tools(card), read_devices(card)
    log = read_logs(logs, kernel)
    notes = [*log.notes, *strangers(devices, log.devices)]
    note(notes)
    tables = cost_tables(log, kernel, group_by=group_by)
    with progress("training") as tell:
        module = from_tables(
            *(tables, log, kernel),
            options=FitOptions(**options),
            group_by=group_by,
            tools=tools,
            devices=devices,
            progress=tell,
        )
    with progress("trying derived features"):
        suggestions = [suggest(t) for t in as_trained(tables, module.selectors)] if suggest_derived else []
    written = write_atomic(output, to_json(module))
    table_of = {(t.vendor, t.device_name): t for t in tables}
    trained = [(s, table_of[s.vendor, s.device]) for s in module.selectors]
    note(text for selector, _ in trained for text in warnings(selector))
    note(_no_module(module))
    if as_json:
        data = {
            "kernel": module.kernel,
            "files": files_data({output: written}),
            "selectors": [to_dict(selector, table) for selector, table in trained],
            "notes": notes,
        }
        print_json(data | ({"suggestions": [s.to_dict() for s in suggestions]} if suggest_derived else {}))
        return
    for selector, table in trained:
        say(to_text(selector, table))
    for found in suggestions:
        say(found.to_text())


def _no_module(module: HeuristicModule) -> list[str]:
    """Why no Python module can be made of a model, which else nobody would learn before `emit`."""
    from heurgen.render import names

    try:
        names.plan(module)
    except EmitError as error:
        return [f"emit will refuse to make a Python module of this model: {error}"]
    return []


@click.command(epilog=examples("heurgen evaluate log.csv --spec kernel.toml --folds 5 --repeats 4"))
@logs_argument
@spec_option
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds over scenarios.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="Splits into folds.")
@click.option("--html", metavar="PAGE.html", help="Write the comparison as a page too.")
@json_option
def evaluate(
    logs: tuple[str, ...], spec: str, folds: int, repeats: int, html: str | None, as_json: bool
) -> None:
    """Compare strategies on scenarios that they were not trained on."""
    from heurgen.base.writing import check_outputs, check_parents, write_atomic
    from heurgen.logs.costs import cost_tables
    from heurgen.logs.tuning_log import read_logs
    from heurgen.spec.kernel_spec import read_spec
    from heurgen.trees import evaluate as run

    check_outputs([html], [*logs, spec])
    check_parents([html])
    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    note(log.notes)
    tables = cost_tables(log, kernel)
    pooled = [_pooled(t) for t in tables if len(set(t.device)) > 1]
    note(pooled)
    with progress("evaluating") as tell:
        reports = [run(table, folds=folds, repeats=repeats, progress=tell) for table in tables]
    if html is not None:
        from heurgen.audit.report.tables import evaluation_page

        write_atomic(html, evaluation_page([r.to_dict() for r in reports], pooled))
        note([f"wrote {html}"])
    if not as_json:
        say("\n\n".join(r.to_text() for r in reports))
        return
    data = [r.to_dict() for r in reports]
    rows = {key: [row for d in data for row in d[key]] for key in ("rows", "extrapolation")}
    dominant = {d["vendor"]: d["dominant"] for d in data}
    print_json({"folds": folds, "repeats": repeats, **rows, "dominant_feature": dominant})


def _pooled(table: CostTable) -> str:
    """What a table of several devices leaves out: `train` may ship better than every row of it."""
    return (
        f"{table.vendor}: {len(set(table.device))} devices under one tree; `heurgen train` weighs one tree a device "
        "too, and says what each gives"
    )


COMMANDS = (train, evaluate)
