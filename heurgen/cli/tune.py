"""The command that measures: tune."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from heurgen.cli.common import examples, note, output_option, path_argument
from heurgen.errors import printable

INTERRUPTED = 130  # as a shell says it of Ctrl-C


@click.command(
    epilog=examples(
        "heurgen tune paged_attention -o log.csv --budget 480",
        "heurgen tune mypackage.matmul:tunable -o matmul.csv --workload mine.toml",
        "heurgen tune paged_attention -o log.csv --resume",
    )
)
@path_argument("TARGET")
@output_option("LOG.csv")
@click.option("--workload", metavar="FILE.toml", help="Scenarios; default: the target's own.")
@click.option("--space", metavar="FILE.toml", help="Parameter space; default: the target's own.")
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop in time."
)
@click.option("--resume", is_flag=True, help="Continue an interrupted sweep; nothing measured is lost.")
@click.option(
    "--interpret", is_flag=True, help="Try it out on the CPU, in Triton's interpreter; times mean nothing."
)
def tune(
    target: str,
    output: str,
    workload: str | None,
    space: str | None,
    budget: float | None,
    resume: bool,
    interpret: bool,
) -> None:
    """Measure a kernel: scenarios x configs -> a tuning log, with a card beside it.

    TARGET is paged_attention or static_grid, which are bundled, or `package.module:tunable`, an object that
    follows heurgen.tune.protocol.Tunable. All visible GPUs measure, each its own scenarios;
    CUDA_VISIBLE_DEVICES chooses among them.
    """
    from heurgen.tune.progress import progress_bar
    from heurgen.tune.run import TuneOptions, run_tune

    options = TuneOptions(
        target=target,
        output=Path(output),
        workload=Path(workload) if workload else None,
        space=Path(space) if space else None,
        budget=budget,
        resume=resume,
        interpret=interpret,
    )
    with progress_bar() as progress:
        done = run_tune(options, progress)
    if done.dropped_line:
        note(["the last line of the log was torn by the interruption; its config is measured again"])
    note(f"{count} configs failed: {reason}" for reason, count in done.failures.items())
    device = done.device if done.gpus == 1 else f"{done.gpus} x {done.device}"
    click.echo(
        f"{done.state}: {done.rows} measurements of {done.scenarios} scenarios x {done.configs} configs on "
        f"{device} in {done.seconds:.0f} s, {done.missing} of {done.cells} cells still missing"
    )
    click.echo(f"{printable(done.log)}, card: {printable(done.card)}")
    if done.state == "interrupted":
        sys.exit(INTERRUPTED)


COMMANDS = (tune,)
