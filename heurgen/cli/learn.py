"""Commands that learn: train, evaluate."""

from __future__ import annotations

from typing import Any

import click

from heurgen.cli.common import (
    Command,
    examples,
    json_option,
    logs_argument,
    note,
    output_option,
    print_json,
    progress,
    spec_option,
)


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


@click.command(epilog=examples("heurgen train log.csv --spec kernel.toml -o model.json"))
@logs_argument
@spec_option
@output_option("MODEL.json")
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
    from heurgen.training import from_tables
    from heurgen.trees import FitOptions
    from heurgen.trees import suggest_derived as suggest

    kernel, tools = read_spec(spec), read_tools(card)
    log = read_logs(logs, kernel)
    note(log.notes)
    tables = cost_tables(log, kernel, group_by=group_by)
    with progress("training") as tell:
        module = from_tables(tables, log, kernel, options=FitOptions(**options), tools=tools, progress=tell)
    with progress("trying derived features"):
        suggestions = [suggest(table).to_text() for table in tables] if suggest_derived else []
    write_atomic(output, to_json(module))
    note(f"{s.vendor}: {s.choice['note']}" for s in module.selectors if "note" in s.choice)
    for text in (*map(selector_title, module.selectors), *suggestions):
        click.echo(text)


@click.command(epilog=examples("heurgen evaluate log.csv --spec kernel.toml --folds 5 --repeats 4"))
@logs_argument
@spec_option
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds over scenarios.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="Splits into folds.")
@json_option
def evaluate(logs: tuple[str, ...], spec: str, folds: int, repeats: int, as_json: bool) -> None:
    """Compare strategies on scenarios that they were not trained on."""
    from heurgen.costs import cost_tables
    from heurgen.logs import read_logs
    from heurgen.spec import read_spec
    from heurgen.trees import evaluate as run

    kernel = read_spec(spec)
    log = read_logs(logs, kernel)
    note(log.notes)
    tables = cost_tables(log, kernel)
    with progress("evaluating") as tell:
        reports = [run(table, folds=folds, repeats=repeats, progress=tell) for table in tables]
    if not as_json:
        click.echo("\n\n".join(r.to_text() for r in reports))
        return
    data = [r.to_dict() for r in reports]
    rows = {key: [row for d in data for row in d[key]] for key in ("rows", "extrapolation")}
    dominant = {d["vendor"]: d["dominant"] for d in data}
    print_json({"folds": folds, "repeats": repeats, **rows, "dominant_feature": dominant})


COMMANDS = (train, evaluate)
