"""`heurgen tune`: from options to a log and its card."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heurgen.base.errors import LogError, SpecError, UsageError, quoted
from heurgen.logs.card import card_path
from heurgen.tune.cards import (
    cards_of,
    check_card,
    check_sweep,
    make_card,
    path_for,
    read_card,
    write_card,
)
from heurgen.tune.engines import Engine, Executor, LocalEngine, engine_named
from heurgen.tune.launches import launches_of
from heurgen.tune.matrix import Matrix
from heurgen.tune.protocol import DeviceInfo, Scenario, Space
from heurgen.tune.resume import Journal, RowFormat, cell, csv_text
from heurgen.tune.samples import Samples
from heurgen.tune.space import (
    ConfigSpace,
    checked,
    config_key,
    enumerate_configs,
    read_space,
    spread,
    spread_key,
)
from heurgen.tune.sweep import OutOfTime, Progress, State, Sweep
from heurgen.tune.target import Target, check_columns, load_target
from heurgen.tune.timing import Method, Mode
from heurgen.tune.workloads import make_scenarios, read_workload

if TYPE_CHECKING:
    from heurgen.tune.adaptive import AdaptivePlan

# Short names of the kernels that come with heurgen.
BUNDLED = {
    "paged_attention": "heurgen_kernels.tools.tunable:tunable",
    "static_grid": "heurgen_kernels.tools.static_tunable:tunable",
}
# The interpreter is some 10,000 times slower than a GPU: it gets the smallest scenarios and a few configs.
INTERPRETED_SCENARIOS = 4
INTERPRETED_CONFIGS = 4
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
    shard_of(scenarios, options.shard)
    if engine is None:
        kind = "interpret" if options.interpret else "graph" if options.timing == "graph" else "gpu"
        engine = LocalEngine(executor) if executor else engine_named(options.engine, target.path, kind)
    try:
        with closing(_Book(options, target, space, scenarios)) as book:
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
    return _summary(options, book, sweep, len(shard_of(scenarios, options.shard)), clock() - started)


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


def _summary(options: TuneOptions, book: _Book, sweep: Sweep, scenarios: int, seconds: float) -> SweepSummary:
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
    workload = target.tunable.workload if given is None else read_workload(given)
    scenarios = make_scenarios(workload, target.tunable.features, given)
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
        raise UsageError(f"shard {k}/{n} of {len(order)} scenarios holds none", hint="make fewer shards")
    return tuple(s for s in scenarios if s.id in mine)


def check_named(scenarios: Sequence[Scenario], space: ConfigSpace) -> None:
    """UsageError where a scenario names the configs to measure, and none of them is in the space."""
    known = {config_key(c) for c in space.configs}
    for scenario in scenarios:
        if scenario.configs and known.isdisjoint(map(config_key, scenario.configs)):
            raise UsageError(
                f"scenario {quoted(scenario.id)} names configs, and none of them is in the space: "
                f"{config_key(scenario.configs[0])}",
                hint="a config has a value for every parameter of the space; --space takes another one",
            )


class _Book:
    """The log, its cards, and the matrix of each kind of device in it.

    A card is written or compared before the first row of its device.
    """

    def __init__(
        self, options: TuneOptions, target: Target, space: Space, scenarios: Sequence[Scenario]
    ) -> None:
        self._options, self._target, self._space = options, target, space
        self._workload, self._scenarios = scenarios, shard_of(scenarios, options.shard)
        self._format = RowFormat(tuple(target.tunable.features), tuple(space.parameters))
        self._matrices: dict[tuple[str, str], Matrix] = {}
        self._source = target.source_hash()
        self.paths: dict[tuple[str, str], Path] = {}
        self.state: State = "interrupted"
        self.failed = True  # by an error, until the sweep has ended in a state
        self.plans: list[AdaptivePlan] = []
        self._new = not os.path.exists(options.output)
        cards = cards_of(options.output)
        if self._new and cards:  # the log was deleted, or compressed
            hint = "remove it where its log is gone, or choose another name"
            raise UsageError("the card of another log is here", file=next(iter(cards)), hint=hint)
        if not self._new and not cards and not self._holds_no_row():
            hint = "put it back beside the log, or choose another name"
            raise UsageError(
                "cannot resume without the log's card", file=card_path(options.output), hint=hint
            )
        known = {(str(c["device"].get("vendor")), str(c["device"].get("name"))) for c in cards.values()}
        self.journal = Journal(options.output, self._format, known, options.resume)
        try:
            self._check_features()
            self.samples = Samples(options.output, self._new)
        except BaseException:
            self.journal.close()
            if self._new:
                options.output.unlink()
            raise

    def _check_features(self) -> None:
        """LogError where a row of the log has other features than the workload's scenario of that id."""
        names = self._format.features
        known = {s.id: tuple(cell(s.features[name]) for name in names) for s in self._workload}
        for number, row in enumerate(self.journal.rows, start=2):
            expected = known.get(row.scenario, row.features)
            for name, found, wanted in zip(names, row.features, expected, strict=True):
                if found != wanted:
                    raise LogError(
                        f"no row of this sweep: found {quoted(found)}, but scenario {quoted(row.scenario)} of the "
                        f"workload has {quoted(wanted)}",
                        file=self._options.output,
                        row=number,
                        column=name,
                    )

    def admit(self, device: DeviceInfo) -> Matrix:
        """The matrix of a kind of device; `gpus` is how many of it are there now.

        Raises:
            UsageError: its driver, tools or kernel are not those of the card that the log has of it; a scenario names
                configs, and none of them is in the space; no config applies anywhere; or it is not to measure.
            SpecError: the space holds no config for its vendor.
        """
        key = (device.vendor, device.name)
        if self._options.devices and key not in self._options.devices:
            named = ", ".join(sorted({name for _, name in self._options.devices}))
            hint = f"it is of {named}; here is {device.name}"
            raise UsageError("the log holds no scenario of the devices that are here", hint=hint)
        matrix = self._matrices.get(key)
        found = matrix.space if matrix else self._configs(device)
        check_named(self._scenarios, found)
        plan = self._plan() if matrix is None else None
        if matrix is None:
            method, rows = self._options.method, self.journal.rows
            matrix = Matrix(self._target, found, self._scenarios, device, rows, self._format, method, plan)
            self._check_applies(matrix)
        self.paths[key] = self._card(device, found)
        self._matrices[key] = matrix
        if plan is not None:
            self.plans.append(plan)
        return matrix

    def _check_applies(self, matrix: Matrix) -> None:
        """UsageError where no config applies anywhere. A shard may hold such scenarios alone."""
        about = (matrix.configs, matrix.space, self._target)
        if matrix.full_total or any(launches_of(*about, s, matrix.device) for s in self._workload):
            return
        hint = "loosen the constraints of the space, and what the tunable says in `applies`"
        if self._options.interpret and self._options.workload is None:
            hint = "--interpret takes the few smallest scenarios: a workload says which others"
        raise UsageError("no config applies in any of the scenarios", hint=hint)

    def _plan(self) -> AdaptivePlan | None:
        if self._options.target_slowdown is None:
            return None
        from heurgen.tune.adaptive import AdaptivePlan

        return AdaptivePlan(self._target.tunable.features, self._options.target_slowdown)

    def tell_conditions(self) -> list[str]:
        """Write what the GPUs told of themselves into their cards; gives a note for each kind that throttled."""
        notes = []
        for key, matrix in self._matrices.items():
            if matrix.conditions.readings:
                card = read_card(self.paths[key])
                table = matrix.conditions.table(card.get("conditions", {}))
                write_card(self.paths[key], {**card, "conditions": table})
                notes.append(matrix.conditions.note(matrix.device.name))
        return [text for text in notes if text is not None]

    def close(self) -> None:
        self.journal.close()
        self.samples.close(self.state == "finished")
        # A new try must not find "the log exists already" where no device took part or nothing was launched.
        nothing = self.failed and self._holds_no_row() and not self.samples.path.exists()
        if self._new and (nothing or not self.paths):
            for path in (self._options.output, *self.paths.values()):
                path.unlink(missing_ok=True)

    def _holds_no_row(self) -> bool:
        header = csv_text([self._format.header]).encode()
        try:
            with self._options.output.open("rb") as file:
                return header.startswith(file.read(len(header) + 1))
        except FileNotFoundError:  # removed while the sweep wrote it
            return False

    def _configs(self, device: DeviceInfo) -> ConfigSpace:
        file = self._options.space  # None: the target's own
        try:
            found = enumerate_configs(self._space, device.vendor, list(self._target.tunable.features))
        except SpecError as error:
            raise SpecError(error.message, file=file, column=error.column, hint=error.hint) from error
        named = any(s.configs for s in self._workload)  # which `scenarios_of` has made few
        return self._few(found, device) if self._options.interpret and file is None and not named else found

    def _few(self, space: ConfigSpace, device: DeviceInfo) -> ConfigSpace:
        """A few configs for the interpreter, those first that apply in most of its scenarios."""
        configs = {config_key(c): c for c in space.configs}
        applying: Counter[str] = Counter()
        for scenario in self._workload:
            launches = launches_of(configs, space, self._target, scenario, device)
            applying.update(key for launch in launches.values() for key in launch.configs)
        few = spread(space.configs, INTERPRETED_CONFIGS, applying.__getitem__)
        return replace(space, configs=tuple(few))

    def _card(self, device: DeviceInfo, space: ConfigSpace) -> Path:
        """Write the device's card, or compare it with the one that is there."""
        cards = cards_of(self._options.output)
        path = path_for(self._options.output, device, cards)
        card = make_card(device, self._options.method, self._about(space))
        if (old := cards.get(path)) is None:
            for other, theirs in cards.items():
                check_sweep(other, theirs, card)
            write_card(path, card)
            return path
        check_card(path, old, card)
        before = old["device"].get("gpus", 1)
        if type(before) is not int or before < device.gpus:
            write_card(path, {**old, "device": {**old["device"], "gpus": device.gpus}})
        return path

    def _about(self, space: ConfigSpace) -> dict[str, Any]:
        scenarios, (shard, shards) = self._workload, self._options.shard
        about = {
            "kernel": self._target.tunable.name,
            "target": self._target.path,
            "source_sha256": self._source,
            "workload_sha256": _digest(
                [[s.id, dict(s.features), s.lengths, s.seed, s.configs] for s in scenarios]
            ),
            "space_sha256": _digest([space.parameters, space.configs, [c.text for c in space.conditions]]),
            "scenarios": len(scenarios),
            "configs": len(space.configs),
            "parameters": list(space.parameters),
        }
        if shards > 1:
            about["shard"] = f"{shard}/{shards}"
        if self._options.target_slowdown is not None:
            about["target_slowdown"] = self._options.target_slowdown
        return about


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=dict).encode()).hexdigest()
