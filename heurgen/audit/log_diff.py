"""Two logs of one kernel, such as one timed eagerly and one in graphs: where does the winner change, and what of it?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heurgen.base.errors import LogError, printable
from heurgen.base.outline import outline
from heurgen.base.text import counted
from heurgen.ir import Value
from heurgen.logs.costs import CostTable

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class WinnerChange:
    """A scenario whose winner is another config. `loss`: in the new log, the old winner's time over the best.

    None where the old winner has no time in the new log, or that holds winners only.
    """

    scenario: str
    vendor: str
    device: str
    features: Mapping[str, Value]
    old: Mapping[str, Value]
    new: Mapping[str, Value]
    loss: float | None


@dataclass(frozen=True, slots=True)
class LogDiff:
    """`changes` are those beyond the new log's noise, worst first; `ties` other winners within it.

    `loss` is the geometric mean over all common scenarios of what the old winner loses in the new log, where it
    has a time; None where it has none anywhere, or where the new log holds winners only (`winners_only`).
    """

    scenarios: int
    changes: tuple[WinnerChange, ...]
    ties: int
    loss: float | None
    timings: tuple[str, str]
    winners_only: bool

    __repr__ = outline

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self) -> str:
        lines = [f"timed {self.timings[0]} -> {self.timings[1]}"] if all(self.timings) else []
        gone = sum(change.loss is None for change in self.changes)
        but = f", but for {gone} in which they have no time" if gone else ""
        loss = (
            ""
            if self.loss is None
            else f"; with the old winners {self.loss:.4f}x of the best on average{but}"
        )
        head = (
            f"{counted(self.scenarios, 'scenario')} in both logs: the winner changes in {len(self.changes)}"
        )
        if self.winners_only:
            lines.append(f"{head}; the new log holds winners only: what the old ones lose there is unknown")
        else:
            lines.append(f"{head}, and within the noise in {self.ties}{loss}")
        for change in self.changes[:_SHOWN]:
            where = " ".join(f"{k}={v}" for k, v in change.features.items())
            names = [k for k in change.new if change.old.get(k) != change.new[k]]
            arrows = ", ".join(f"{k} {change.old.get(k)} -> {change.new[k]}" for k in names)
            lost = "has no time  " if change.loss is None else f"{change.loss:.3f}x  "
            lost = "" if self.winners_only else lost
            lines.append(f"  {lost}{printable(change.device)}: {printable(where)}: {printable(arrows)}")
        if len(self.changes) > _SHOWN:
            lines.append(f"  and {len(self.changes) - _SHOWN} more; --json has all")
        return "\n".join(lines)


def diff_logs(
    old: Sequence[CostTable], new: Sequence[CostTable], timings: tuple[str, str] = ("", "")
) -> LogDiff:
    """Compare the winners of scenarios that have the same vendor, device and features in both logs.

    Raises:
        LogError: there are none.
    """
    before = {_place(t, s): (t, s) for t in old for s in range(t.n_scenarios)}
    changes: list[WinnerChange] = []
    losses: list[float] = []
    common = ties = 0
    for table in new:
        number = {config: i for i, config in enumerate(table.configs)}
        for s in range(table.n_scenarios):
            found = before.get(_place(table, s))
            if found is None:
                continue
            common += 1
            was, row = found
            winner = was.configs[was.best(row)]
            column, best = number.get(winner), table.best(s)
            known = table.costs_known and column is not None
            log = float(table.log_slowdown[s, column]) if known else math.inf
            loss = math.exp(log) if math.isfinite(log) else None
            if loss is not None:
                losses.append(log)
            if column == best:
                continue
            if loss is not None and loss <= 1 + float(table.noise[s]):
                ties += 1
                continue
            changes.append(
                WinnerChange(
                    scenario=table.scenario[s],
                    vendor=table.vendor,
                    device=table.device[s],
                    features=table.features_of(s),
                    old=dict(zip(table.parameters, winner, strict=True)),
                    new=table.config_of(best),
                    loss=loss,
                )
            )
    if not common:
        raise LogError("the logs share no scenario of one device with equal features")
    changes.sort(key=lambda c: (-(c.loss or math.inf), c.vendor, c.device, c.scenario))
    mean = math.exp(math.fsum(losses) / len(losses)) if losses else None
    winners_only = not any(t.costs_known for t in new)
    return LogDiff(common, tuple(changes), ties, mean, timings, winners_only)


def _place(table: CostTable, row: int) -> tuple[object, ...]:
    return table.vendor, table.device[row], tuple(table.features_of(row).items())
