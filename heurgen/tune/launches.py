"""What a scenario launches, and what the log holds of it.

The log is of the space's configs; what is compiled, checked, ranked and measured are launches, by the key of
their settings. Several configs may come to one launch: each of them gets a row of every measurement.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.space import ConfigSpace, config_key
from heurgen.tune.target import Target


class Launch(NamedTuple):
    """Settings, and the space's configs (their keys, in the space's order) that come to them."""

    settings: Settings
    configs: list[str]


@dataclass(frozen=True, slots=True)
class Tally:
    """One scenario's launches by their keys; of its configs, the first time in the log, the number of rows, all times.

    A launch's rows are written together, in the order of its configs. A kill may have kept the first few
    of them: it has been measured as often as the log says of all its configs, and its time is that of the
    config that is written last.
    """

    launches: Mapping[str, Launch]
    first: dict[str, float | None] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    times: dict[str, list[float]] = field(default_factory=dict)

    def add(self, config: str, time: float | None) -> None:
        """Count a row; `time` is None for a failure."""
        self.first.setdefault(config, time)
        self.rows[config] += 1
        if time is not None:
            self.times.setdefault(config, []).append(time)

    @property
    def best(self) -> float:
        """The least time of any config in ms, inf where none has one."""
        return min((t for t in self.first.values() if t is not None), default=math.inf)

    @property
    def total(self) -> int:
        """Configs that apply here."""
        return sum(len(launch.configs) for launch in self.launches.values())

    @property
    def missing(self) -> int:
        """Those of them without a row."""
        return sum(c not in self.first for launch in self.launches.values() for c in launch.configs)

    def pending(self) -> list[str]:
        """Launches that have not been measured."""
        return [key for key in self.launches if not self.count(key)]

    def count(self, key: str) -> int:
        """How often a launch has been measured."""
        return min(self.rows[c] for c in self.launches[key].configs)

    def timed(self) -> list[tuple[str, float]]:
        """Launches that have a time, with it."""
        times = ((key, self.first.get(launch.configs[-1])) for key, launch in self.launches.items())
        return [(key, time) for key, time in times if time is not None]

    def due(self, key: str) -> list[str]:
        """The configs that a measurement gives a row: all, or those that a kill has left behind."""
        count = self.count(key)
        return [c for c in self.launches[key].configs if self.rows[c] == count]


def launches_of(
    configs: Mapping[str, Settings],
    space: ConfigSpace,
    target: Target,
    scenario: Scenario,
    device: DeviceInfo,
) -> dict[str, Launch]:
    """What the configs (by key) that apply in a scenario come to, in the order of `configs`."""
    wanted = {config_key(c) for c in scenario.configs}
    launches: dict[str, Launch] = {}
    for key, config in configs.items():
        if (
            (not wanted or key in wanted)
            and space.applies(config, scenario.features)
            and target.applies(config, scenario)
        ):
            settings = target.launched(config, scenario, device)
            launch_key = key if settings is config else config_key(settings)
            launches.setdefault(launch_key, Launch(settings, [])).configs.append(key)
    return launches


def left_out(scenarios: Sequence[Scenario], tallies: Mapping[str, Tally]) -> list[str]:
    """Notes on what was asked for and applies nowhere: no row of the log tells of it."""
    bare = sorted(s.id for s in scenarios if not tallies[s.id].launches)
    notes = []
    if bare:
        more = f" and {len(bare) - 1} more" if len(bare) > 1 else ""
        notes.append(f"not measured, since no config applies there: scenario {quoted(bare[0])}{more}")
    some = [s for s in scenarios if s.configs and tallies[s.id].launches]
    named = sum(len({config_key(c) for c in s.configs}) for s in some)
    if few := named - sum(tallies[s.id].total for s in some):
        notes.append(
            f"not measured, since not in the space or not for the scenario: {counted(few, 'named config')}"
        )
    return notes
