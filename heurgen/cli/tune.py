"""Commands that measure: tune, merge."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.cli.common import (
    INTERRUPTED,
    examples,
    finish,
    json_option,
    log_output_option,
    logs_argument,
    no_results,
    note,
    path_argument,
    print_json,
    say,
)

if TYPE_CHECKING:
    from heurgen.tune.run import SweepSummary, TuneOptions
    from heurgen.tune.timing import Mode


@click.command(
    epilog=examples(
        "heurgen tune paged_attention -o log.csv --budget 480",
        "heurgen tune mypackage.matmul:tunable -o matmul.csv --workload mine.toml",
        "heurgen tune paged_attention -o log.csv --resume",
        "heurgen tune paged_attention -o log.csv --engine ray://auto",
        "heurgen tune paged_attention -o new.csv --verify log.csv --model model.json",
    )
)
@path_argument("TARGET")
@log_output_option("LOG.csv")
@click.option("--workload", metavar="FILE.toml", help="Scenarios; default: the target's own.")
@click.option("--space", metavar="FILE.toml", help="Parameter space; default: the target's own.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End cleanly before so many seconds.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted sweep; nothing measured is lost.")
@click.option(
    "--interpret", is_flag=True, help="Try it out on the CPU, in Triton's interpreter; times mean nothing."
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="local|ray[://ADDRESS]",
    help="This machine, or all GPUs of a Ray cluster, whose nodes may join and leave.",
)
@click.option("--shard", default="1/1", metavar="K/N", help="One of N parts of the scenarios; see merge.")
@click.option(
    "--timing",
    type=click.Choice(("eager", "graph")),
    default="eager",
    show_default=True,
    help="Single launches, or the replay of recorded graphs, as servers run.",
)
@click.option(
    "--target-slowdown",
    type=float,
    metavar="X",
    help="Stop as soon as a selector from all scenarios x configs would be at most X times as good, such as 1.01.",
)
@click.option(
    "--verify", metavar="LOG.csv", help="Measure a tenth of LOG again and say what --model has lost since."
)
@click.option("--model", metavar="MODEL.json", help="The model that ships; with --verify.")
@click.option(
    "--max-loss",
    type=float,
    default=1.02,
    show_default=True,
    help="Exit 1 if --model lost more; with --verify.",
)
@json_option
def tune(
    target: str,
    output: str,
    workload: str | None,
    space: str | None,
    budget: float | None,
    resume: bool,
    interpret: bool,
    engine: str,
    shard: str,
    timing: Mode,
    target_slowdown: float | None,
    verify: str | None,
    model: str | None,
    max_loss: float,
    as_json: bool,
) -> None:
    """Measure a kernel: scenarios x configs -> a tuning log, with a card beside it.

    TARGET is paged_attention or static_grid, which are bundled, or `package.module:tunable`, an object that
    follows heurgen.tune.protocol.Tunable. All visible GPUs measure, each its own scenarios;
    CUDA_VISIBLE_DEVICES chooses among them.
    """
    from heurgen.base.writing import check_outputs, check_parents
    from heurgen.logs.card import card_path
    from heurgen.tune.progress import progress_bar
    from heurgen.tune.run import TuneOptions, run_tune

    check_outputs([output, card_path(Path(output))], [workload, space, verify, model])
    check_parents([output])  # before the target is imported and a GPU is taken
    options = TuneOptions(
        target=target,
        output=Path(output),
        workload=Path(workload) if workload else None,
        space=Path(space) if space else None,
        budget=budget,
        resume=resume,
        interpret=interpret,
        engine=engine,
        shard=_shard(shard),
        timing=timing,
        target_slowdown=target_slowdown,
    )
    if (verify is None) != (model is None):
        raise UsageError("--verify and --model go together", hint="give both, or neither")
    if not math.isfinite(max_loss):
        raise UsageError(f"found --max-loss {max_loss}, expected a number, such as 1.02")
    if verify is not None and model is not None:
        _verify(options, Path(verify), Path(model), max_loss, as_json)
        return
    with no_results(), progress_bar() as progress:  # what the tunable prints is no result
        done = run_tune(options, progress)
    _tell(done, as_json)
    if done.state == "interrupted":
        sys.exit(INTERRUPTED)
    if done.reason and not done.succeeded:
        click.echo(f"no config succeeded; the commonest reason: {printable(done.reason)}", err=True)
        finish("every-config-fails")


def _tell(done: SweepSummary, as_json: bool) -> None:
    if done.dropped_line:
        note(["the last line of the log was torn by the interruption; its config is measured again"])
    note(f"{counted(count, 'measurement')} failed: {reason}" for reason, count in done.failures.items())
    note(done.notes)
    if as_json:
        print_json(done.to_dict())
        return
    device = " + ".join(done.devices) or "no GPU"
    device = device if done.gpus <= 1 else f"{done.gpus} x {device}"
    say(
        f"{done.state}: {counted(done.rows, 'measurement')} of {counted(done.scenarios, 'scenario')} x "
        f"{counted(done.configs, 'config')} on "
        f"{device} in {done.seconds:.0f} s, {done.missing} of {counted(done.cells, 'cell')} still missing"
    )
    if done.cards:  # a new log in which no device took part is not kept
        say(f"{printable(done.log)}, card: {', '.join(map(printable, done.cards))}")


def _verify(options: TuneOptions, log: Path, model: Path, max_loss: float, as_json: bool) -> None:
    from heurgen.tune.progress import progress_bar
    from heurgen.tune.verify import run_verify

    with no_results(), progress_bar() as progress:
        found = run_verify(options, log, model, progress)
    if as_json:
        print_json({**found.to_dict(), "allowed": max_loss})
    else:
        say(found.to_text())
    if found.lost > max_loss:
        note([f"the selector lost {found.lost:.4f}x, allowed {max_loss:g}"])
        finish("gates-and-defaults")


def _shard(text: str) -> tuple[int, int]:
    if not (found := re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)):
        raise UsageError(f"found --shard {quoted(text)}, expected K/N, such as 3/8")
    return int(found[1]), int(found[2])


@click.command(
    epilog=examples(
        "heurgen merge shard1.csv shard2.csv -o log.csv", "heurgen merge day/*.csv -o log.csv --json"
    )
)
@logs_argument
@log_output_option("MERGED.csv")
@json_option
def merge(logs: tuple[str, ...], output: str, as_json: bool) -> None:
    """One log of several sweeps of a kernel, with a card for each device.

    The same lines in any order; a line that several logs share is there once. Cards must agree on the kernel's
    source, the tools and the method.
    """
    from heurgen.base.writing import check_outputs
    from heurgen.logs.card import card_path
    from heurgen.tune.merge import merge as run

    check_outputs([output, card_path(Path(output))], [*logs, *(card_path(Path(log)) for log in logs)])
    done = run([Path(log) for log in logs], Path(output))
    note(
        ["no card is written beside a device or a pipe, and without one the log cannot be merged again"]
        * (not done.cards)
    )
    if done.missing:
        first = ", ".join(done.missing[:5]) + (", ..." if len(done.missing) > 5 else "")
        note([f"{counted(len(done.missing), 'shard')} of the workload not here: {first}"])
    if as_json:
        print_json({**asdict(done), "log": str(done.log), "cards": [str(c) for c in done.cards]})
        return
    say(
        f"wrote {printable(done.log)}: {counted(done.rows, 'measurement')} of {counted(done.scenarios, 'scenario')}"
    )
    if done.copies:
        note([f"{counted(done.copies, 'line')} stood in more than one log"])


COMMANDS = (tune, merge)
