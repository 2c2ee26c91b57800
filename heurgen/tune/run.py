"""`heurgen tune`: from options to a log and its card."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from heurgen.errors import UsageError
from heurgen.tune.cards import card_path, continue_card, make_card, write_card
from heurgen.tune.executors import Executor, ProcessExecutor
from heurgen.tune.protocol import DeviceInfo, Scenario
from heurgen.tune.resume import Journal, Layout
from heurgen.tune.space import ConfigSpace, enumerate_configs, read_space
from heurgen.tune.sweep import OutOfTime, Progress, State, Sweep
from heurgen.tune.target import Target, check_columns, load_target
from heurgen.tune.timing import Method
from heurgen.tune.workloads import make_scenarios, read_workload

# Short names of the kernels that come with heurgen.
BUNDLED = {
    "paged_attention": "heurgen_kernels.tunable:tunable",
    "static_grid": "heurgen_kernels.static_tunable:tunable",
}
# The interpreter is some 10,000 times slower than a GPU: it gets the smallest scenarios and a few configs.
INTERPRETED_SCENARIOS = 4
INTERPRETED_CONFIGS = 4
INTERPRETED_METHOD = Method(samples=1, repeats=1)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """What the command line gives. `budget` is in seconds and covers compiling too."""

    target: str
    output: Path
    workload: Path | None = None
    space: Path | None = None
    budget: float | None = None
    resume: bool = False
    interpret: bool = False
    method: Method = field(default_factory=Method)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a sweep did. `rows` were added now; `cells` is the whole matrix, `missing` what it still lacks."""

    log: Path
    card: Path
    device: str
    gpus: int
    state: State
    scenarios: int
    configs: int
    cells: int
    missing: int
    rows: int
    failures: dict[str, int]
    seconds: float
    dropped_line: bool = False


def run_tune(
    options: TuneOptions,
    progress: Callable[[Progress], None] | None = None,
    executor: Executor | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Summary:
    """Measure a kernel and write its log. Ctrl-C ends the sweep in state "interrupted", with the log sound.

    `executor` and `clock` are for tests and for devices that heurgen does not know.

    Raises:
        UsageError: no such target, no device, the log exists, or it cannot be resumed.
        SpecError: the workload or the space is not sound.
        LogError: the log to resume is not this sweep's.
    """
    started = clock()
    if options.interpret:
        options = replace(options, method=INTERPRETED_METHOD)
    if options.budget is not None and not options.budget > 0:
        raise UsageError(f"the budget must be more than 0 seconds, found {options.budget:g}")
    if options.output.exists() and not options.resume:
        hint = "--resume continues it; or choose another name"
        raise UsageError("the log exists already", file=options.output, hint=hint)
    target = load_target(BUNDLED.get(options.target, options.target))
    space, scenarios = target.tunable.space, _scenarios(options, target)
    if options.space is not None:
        space = read_space(options.space)
    elif options.interpret:
        space = replace(space, limit=INTERPRETED_CONFIGS)
    own = executor or ProcessExecutor(target.path, "interpret" if options.interpret else "gpu")
    try:
        found = enumerate_configs(space, own.device().vendor, list(target.tunable.features))
        check_columns(target.tunable.features, found.parameters)
        journal = _open(options, target, found, scenarios, own.device())
        try:
            deadline = math.inf if options.budget is None else started + options.budget
            tell = progress or (lambda _: None)
            sweep = Sweep(target, found, scenarios, own, journal, options.method, clock, deadline, tell)
            state = _run(sweep)
        finally:
            journal.close()
    finally:
        own.close()
    return Summary(
        log=options.output,
        card=card_path(options.output),
        device=own.device().name,
        gpus=len(own.lanes),
        state=state,
        scenarios=len(scenarios),
        configs=len(found.configs),
        cells=sweep.total,
        missing=sweep.missing,
        rows=sweep.rows,
        failures=dict(sweep.failures),
        seconds=clock() - started,
        dropped_line=journal.dropped,
    )


def _run(sweep: Sweep) -> State:
    try:
        sweep.run()
    except OutOfTime:
        return "out of time"
    except KeyboardInterrupt:
        return "interrupted"
    return "finished"


def _scenarios(options: TuneOptions, target: Target) -> tuple[Scenario, ...]:
    given = options.workload
    workload = target.tunable.workload if given is None else read_workload(given)
    scenarios = make_scenarios(workload, target.tunable.features, given)
    if options.interpret and given is None:
        return tuple(sorted(scenarios, key=lambda s: (target.work(s), s.id))[:INTERPRETED_SCENARIOS])
    return scenarios


def _open(
    options: TuneOptions,
    target: Target,
    space: ConfigSpace,
    scenarios: Sequence[Scenario],
    device: DeviceInfo,
) -> Journal:
    """The journal, with the card written or compared before it is touched."""
    about = {
        "kernel": target.tunable.name,
        "target": target.path,
        "source_sha256": target.source_hash(),
        "workload_sha256": _digest(
            [[s.id, dict(s.features), s.lengths, s.seed, s.configs] for s in scenarios]
        ),
        "space_sha256": _digest([space.parameters, space.configs, [c.text for c in space.conditions]]),
        "scenarios": len(scenarios),
        "configs": len(space.configs),
    }
    card, path = make_card(device, options.method, about), card_path(options.output)
    if options.output.exists():
        continue_card(path, card)
    else:
        try:
            write_card(path, card)
        except OSError as error:
            raise UsageError(f"cannot write the log's card: {error.strerror}", file=path) from error
    layout = Layout(device.vendor, device.name, tuple(target.tunable.features), space.parameters)
    return Journal(options.output, layout, options.resume)


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=dict).encode()).hexdigest()
