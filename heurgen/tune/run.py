"""`heurgen tune`: from options to a log and its card."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import counted
from heurgen.base.toml import Table
from heurgen.tune.book import INTERPRETED_CONFIGS, Book
from heurgen.tune.engines import Engine, Executor, LocalEngine, engine_named
from heurgen.tune.protocol import Scenario
from heurgen.tune.space import (
    checked,
    read_space,
    spread_key,
)
from heurgen.tune.sweep import OutOfTime, Progress, State, Sweep
from heurgen.tune.target import BUNDLED, Target, check_columns, load_target
from heurgen.tune.timing import Method, Mode
from heurgen.tune.workloads import make_scenarios, read_workload

# The interpreter is some 10,000 times slower than a GPU: it gets the smallest scenarios and a few configs.
INTERPRETED_SCENARIOS = 4
INTERPRETED_METHOD = Method(samples=1, repeats=1)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What the command line gives. `budget` is in seconds and covers compiling too.

    `shard` (k, n): measure the k-th of n parts of the scenarios alone. `target_slowdown`: stop where a selector from
    the full matrix would be at most so many times as good (`heurgen.tune.adaptive`). `scenarios` are those of the
    workload to measure, all where empty, `devices` the (vendor, name) of those that may, any where empty.
    """

    target: str
    output: Path
    workload: Path | None = None
    space: Path | None = None
    budget: float | None = None
    resume: bool = False
    interpret: bool = False
    engine: str = "local"
    shard: tuple[int, int] = (1, 1)
    timing: Mode = "eager"
    target_slowdown: float | None = None
    scenarios: tuple[Scenario, ...] = ()
    devices: tuple[tuple[str, str], ...] = ()
    method: Method = field(default_factory=Method)


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """What a sweep did. `rows` were added now; `cells` is the whole matrix, `missing` what it still lacks.

    `devices` are the kinds that took part, a card each, and `gpus` the most of them that were there at once.
    `succeeded`: the log holds a time. `reason` is the commonest one of its failures, "" where there is none.
    """

    log: Path
    cards: tuple[Path, ...]
    devices: tuple[str, ...]
    gpus: int
    state: State
    scenarios: int
    configs: int
    cells: int
    missing: int
    rows: int
    succeeded: bool
    failures: dict[str, int]
    reason: str
    seconds: float
    notes: tuple[str, ...] = ()
    dropped_line: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON data with the fields' names; paths as text."""
        return {**asdict(self), "log": str(self.log), "cards": [str(c) for c in self.cards]}


def run_tune(
    options: TuneOptions,
    progress: Callable[[Progress], None] | None = None,
    executor: Executor | None = None,
    clock: Callable[[], float] = time.monotonic,
    engine: Engine | None = None,
) -> SweepSummary:
    """Measure a kernel and write its log. Ctrl-C ends the sweep in state "interrupted", with the log sound.

    `executor` (a machine), `engine` (many) and `clock` are for tests and for devices that heurgen does not know.

    Raises:
        UsageError: no such target, no device, the log exists, or it cannot be resumed.
        SpecError: the workload or the space is not sound.
        LogError: the log to resume is not this sweep's.
    """
    started = clock()
    options = _settled(options)
    target = target_of(options)
    scenarios = scenarios_of(options, target)
    if options.target_slowdown is not None and (named := next((s for s in scenarios if s.configs), None)):
        hint = "leave the target slowdown out: the configs that are named are measured"
        raise UsageError(
            f"a target slowdown chooses the configs, and scenario {quoted(named.id)} names its own", hint=hint
        )
    space = target.tunable.space if options.space is None else read_space(options.space)
    check_columns(target.tunable.features, tuple(checked(space).parameters))
    mine = shard_of(scenarios, options.shard)
    if engine is None:
        kind = "interpret" if options.interpret else "graph" if options.timing == "graph" else "gpu"
        engine = LocalEngine(executor) if executor else engine_named(options.engine, target.path, kind)
    try:
        with closing(Book(options, target, space, scenarios, mine)) as book:
            deadline = math.inf if options.budget is None else started + options.budget
            tell = progress or (lambda _: None)
            sweep = Sweep(
                engine, book.admit, book.journal, book.samples, options.method, clock, deadline, tell
            )
            try:
                book.state = _run(sweep)
                book.failed = False
            finally:
                sweep.notes += book.tell_conditions()
    finally:
        engine.close()
    return _summary(options, book, sweep, len(mine), clock() - started)


def _settled(options: TuneOptions) -> TuneOptions:
    """The options with the method that they ask for.

    Raises:
        UsageError: they contradict each other, the log exists and is not to be resumed, is to be compressed, or is a
            pipe or a device.
    """
    if options.interpret:
        if options.timing == "graph":
            raise UsageError("graphs are replayed on a GPU", hint="--timing eager goes with --interpret")
        options = replace(options, method=INTERPRETED_METHOD)
    if options.target_slowdown is not None and not options.target_slowdown > 1:
        raise UsageError(f"the target slowdown must be above 1, found {options.target_slowdown:g}")
    if options.budget is not None and not options.budget > 0:
        raise UsageError(f"the budget must be more than 0 seconds, found {options.budget:g}")
    if options.output.suffix == ".gz":
        hint = "leave .gz out; gzip -n LOG.csv when the sweep is finished"
        raise UsageError("a sweep adds rows, and cannot to a compressed log", file=options.output, hint=hint)
    if os.path.exists(options.output) and not options.output.is_file():
        raise UsageError("a sweep adds rows to a file, and this is none", file=options.output)
    if os.path.exists(options.output) and not options.resume:
        hint = "--resume continues it; or choose another name"
        raise UsageError("the log exists already", file=options.output, hint=hint)
    return replace(options, method=replace(options.method, mode=options.timing))


def _summary(options: TuneOptions, book: Book, sweep: Sweep, scenarios: int, seconds: float) -> SweepSummary:
    return SweepSummary(
        log=options.output,
        cards=tuple(book.paths.values()),
        devices=tuple(m.device.name for m in sweep.matrices),
        gpus=sweep.lanes,
        state=book.state,
        scenarios=scenarios,
        configs=max((len(m.configs) for m in sweep.matrices), default=0),
        cells=sweep.total,
        missing=sweep.missing,
        rows=sweep.rows,
        succeeded=sweep.succeeded,
        failures=dict(sweep.failures),
        reason=sweep.commonest_reason,
        seconds=seconds,
        notes=(
            *dict.fromkeys(text for m in sweep.matrices for text in m.left_out),
            *sweep.notes,
            *(plan.report() for plan in book.plans),
        ),
        dropped_line=book.journal.dropped,
    )


def _run(sweep: Sweep) -> State:
    try:
        sweep.run()
    except OutOfTime:
        return "out of time"
    except KeyboardInterrupt:
        return "interrupted"
    return "finished"


def target_of(options: TuneOptions) -> Target:
    """The target that is named, by its path or as one of BUNDLED. Raises as `load_target`."""
    return load_target(BUNDLED.get(options.target, options.target))


def scenarios_of(options: TuneOptions, target: Target) -> tuple[Scenario, ...]:
    """The scenarios to measure, before they are parted into shards. Raises as `read_workload`."""
    if options.scenarios:
        return options.scenarios
    given = options.workload
    workload = Table(target.tunable.workload) if given is None else read_workload(given)
    scenarios = make_scenarios(workload.data, target.tunable.features, workload.source)
    if options.interpret and given is None:
        return tuple(sorted(scenarios, key=lambda s: (target.work(s), s.id))[:INTERPRETED_SCENARIOS])
    if options.interpret:
        return tuple(replace(s, configs=s.configs[:INTERPRETED_CONFIGS]) for s in scenarios)
    return scenarios


def shard_of(scenarios: Sequence[Scenario], shard: tuple[int, int]) -> tuple[Scenario, ...]:
    """The k-th of n parts, as equal as can be and each of all kinds: the same ones on every machine.

    Raises:
        UsageError: there is no such part, or nothing in it.
    """
    k, n = shard
    if not 1 <= k <= n:
        raise UsageError(f"there is no shard {k}/{n}", hint="the first of eight is 1/8, the last 8/8")
    order = sorted(scenarios, key=lambda s: spread_key(s.id))
    mine = {s.id for s in order[k - 1 :: n]}
    if not mine:
        raise UsageError(
            f"shard {k}/{n} of {counted(len(order), 'scenario')} holds none", hint="make fewer shards"
        )
    return tuple(s for s in scenarios if s.id in mine)
