"""The log of a sweep, its cards, and which configs each kind of device measures."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
from heurgen.tune.launches import launches_of
from heurgen.tune.matrix import Matrix
from heurgen.tune.protocol import DeviceInfo, Scenario, Space
from heurgen.tune.resume import Journal, RowFormat, cell, csv_text
from heurgen.tune.samples import Samples
from heurgen.tune.space import ConfigSpace, config_key, enumerate_configs, spread
from heurgen.tune.sweep import State
from heurgen.tune.target import Target

if TYPE_CHECKING:
    from heurgen.tune.adaptive import AdaptivePlan
    from heurgen.tune.run import TuneOptions

# A sweep in the interpreter, which is some 10,000 times slower than a GPU, has few configs.
INTERPRETED_CONFIGS = 4


class Book:
    """The log, its cards, and the matrix of each kind of device in it.

    A card is written or compared before the first row of its device.
    """

    def __init__(
        self,
        options: TuneOptions,
        target: Target,
        space: Space,
        workload: Sequence[Scenario],
        scenarios: Sequence[Scenario],
    ) -> None:
        """scenarios: those of the workload that this sweep measures."""
        self._options, self._target, self._space = options, target, space
        self._workload, self._scenarios = workload, scenarios
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
        _check_named(self._scenarios, found)
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


def _check_named(scenarios: Sequence[Scenario], space: ConfigSpace) -> None:
    """UsageError where a scenario names the configs to measure, and none of them is in the space."""
    known = {config_key(c) for c in space.configs}
    for scenario in scenarios:
        if scenario.configs and known.isdisjoint(map(config_key, scenario.configs)):
            raise UsageError(
                f"scenario {quoted(scenario.id)} names configs, and none of them is in the space: "
                f"{config_key(scenario.configs[0])}",
                hint="a config has a value for every parameter of the space; --space takes another one",
            )


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=dict).encode()).hexdigest()
