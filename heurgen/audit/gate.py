"""A gate for CI: limits on the figures of an audit, and no regression against an older model.

Limits hold for every vendor and every device of the log by itself, so that a good one cannot hide a bad one.
A scenario regresses where the new choice is slower than the old one by more than the noise measured in that
scenario (of its repeats, else the spec's), or where it is no longer valid; a vendor, where nothing answers any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heurgen.audit.score import INVALID, Choice, Score, group_name
from heurgen.base.errors import UsageError, printable, quoted
from heurgen.base.figures import Summary
from heurgen.base.text import counted
from heurgen.spec.kernel_spec import number

# Name on the command line -> field of `Summary`.
LIMITS: Mapping[str, str] = {
    "geomean": "geomean_slowdown",
    "p95": "p95_slowdown",
    "max": "max_slowdown",
    "invalid": "invalid_share",
}
# A reader of CI output wants the worst few; the number of all of them is told.
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One limit that does not hold. `scenarios` are the offenders, worst first."""

    group: str
    what: str
    limit: float | None
    value: float | None
    scenarios: tuple[Offender, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_text(self, several: bool = False) -> str:
        """`several`: the log is of several devices, which a device's own finding has in its title."""
        lines = [f"{printable(self.group)}: {self._headline()}"]
        lines += offender_lines(self.scenarios[:SHOWN], several and " / " not in self.group)
        if len(self.scenarios) > SHOWN:
            lines.append(f"  and {len(self.scenarios) - SHOWN} more")
        return "\n".join(lines)

    def _headline(self) -> str:
        if self.what == "regression":
            n = len(self.scenarios)
            return f"{counted(n, 'scenario')} {'regress' if n > 1 else 'regresses'} beyond the noise"
        if self.what == "vendor":
            return "the baseline answers, and the model does not know the vendor"
        if self.value is None:
            return f"{self.what} is unknown, the limit is {self.limit:g}"
        return f"{self.what} {self.value:.4f} is above {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Offender:
    """A scenario behind a finding. `slowdown` None: the choice was not valid (`status` says why).

    `before` is the older model's slowdown, for a regression.
    """

    scenario: str
    vendor: str
    device: str
    features: Mapping[str, Any]
    chosen: Mapping[str, Any]
    best: Mapping[str, Any]
    slowdown: float | None
    status: str
    before: float | None

    def to_text(self) -> str:
        now = f"{self.slowdown:.3f}x" if self.slowdown is not None else f"invalid ({self.status})"
        before = "" if self.before is None else f" (before {self.before:.3f}x)"
        differ = {k: v for k, v in self.chosen.items() if self.best.get(k) != v}
        instead = " ".join(f"{k}={v}" for k, v in differ.items())
        best = " ".join(f"{k}={self.best[k]}" for k in differ)
        choice = f"; chose {instead} where {best} won" if differ else ""
        where = " ".join(f"{k}={v}" for k, v in self.features.items())
        name = f"scenario {self.scenario}: " if self.scenario else ""
        return printable(f"{now}{before}  {name}{where}{choice}")


def of_several(score: Score) -> bool:
    """Whether the log is of several devices: a scenario that all of them measured is then named with its own, also
    where the named ones are all of one device."""
    return len({(choice.vendor, choice.device) for choice in score.choices}) > 1


def offender_lines(found: Sequence[Offender], several: bool) -> list[str]:
    """A line for each, with its device where there are several."""
    return [f"  {one.to_text()}{f' ({printable(one.device)})' if several else ''}" for one in found]


def parse_limits(text: str) -> dict[str, float]:
    """`geomean=1.05,max=1.5,invalid=0` as a mapping.

    Raises:
        UsageError: a name is unknown or given twice, or a limit is no ratio, no share.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, found = part.partition("=")
        name = name.strip()
        if name not in LIMITS:
            raise UsageError(
                f"--fail-above: {quoted(name)} is no figure to limit",
                hint=f"expected {', '.join(LIMITS)}, as in geomean=1.05,invalid=0",
            )
        if name in limits:
            raise UsageError(f"--fail-above: {name} is given twice")
        limit = number(found.strip())
        limits[name] = math.nan if limit is None else limit
        # geomean=0.05, meant as 5 % above the best, would never hold, and invalid=5, meant as 5 %, always.
        expected = "a share from 0 to 1" if name == "invalid" else "a ratio from 1 on"
        fits = 0 <= limits[name] <= 1 if name == "invalid" else 1 <= limits[name] < math.inf
        if not fits:
            raise UsageError(
                f"--fail-above: {name} is {quoted(found)}, expected {expected}",
                hint="slowdowns are ratios such as 1.05, invalid is a share such as 0.01",
            )
    return limits


def check_limits(score: Score, limits: Mapping[str, float]) -> tuple[list[Finding], list[str]]:
    """The limits that do not hold, and notes on groups with figures that the log cannot tell.

    A limit on a figure that is unknown everywhere fails: a gate that checks nothing must not pass.
    """
    found: list[Finding] = []
    notes: list[str] = []
    for group, summary in score.groups.items():
        unknown = [name for name in limits if _value(summary, name) is None]
        if unknown:
            notes.append(
                f"{group}: slowdown is unknown (winners only), not checked there: {', '.join(unknown)}"
            )
        members = [c for c in score.choices if group in (c.vendor, group_name(c.vendor, c.device))]
        found += _broken(group, summary, members, limits)
    for name, limit in limits.items():
        if all(_value(summary, name) is None for summary in score.groups.values()):
            found.append(Finding("all", name, limit, None, ()))
    return _without_repeats(found), notes


def _value(summary: Summary, name: str) -> float | None:
    """A figure to limit, None where it is unknown; where no choice was valid no slowdown is low enough."""
    value: float | None = getattr(summary, LIMITS[name])
    return math.inf if value is None and summary.invalid_share == 1.0 else value


def _broken(
    group: str, summary: Summary, members: Sequence[Choice], limits: Mapping[str, float]
) -> list[Finding]:
    found = []
    for name, limit in limits.items():
        value = _value(summary, name)
        if value is None or value <= limit:
            continue
        guilty = [c for c in members if _is_guilty(c, name, limit)]
        guilty.sort(key=lambda c: (c.slowdown is not None, -(c.slowdown or 0.0), c.name))
        offenders = tuple(map(offender, guilty))
        found.append(Finding(group, name, limit, None if math.isinf(value) else value, offenders))
    return found


def _is_guilty(choice: Choice, name: str, limit: float) -> bool:
    if name == "invalid" or choice.slowdown is None:
        return choice.status in INVALID
    return choice.slowdown > limit


def _without_repeats(found: list[Finding]) -> list[Finding]:
    """A vendor with one device fails once, not twice: the device's finding is dropped where it is equal."""
    kept: list[Finding] = []
    for finding in found:
        same = (f for f in kept if finding.group.startswith(f"{f.group} / "))
        if not any(f.what == finding.what and f.scenarios == finding.scenarios for f in same):
            kept.append(finding)
    return kept


def regressions(old: Score, new: Score) -> tuple[list[Finding], list[str]]:
    """Scenarios in which `new` is slower than `old` beyond the noise, per vendor and device; vendors that it lost.

    Both scores are over the same cost tables. Scenarios that the older model does not know are left out.
    """
    before = {(c.vendor, c.row): c for c in old.choices}
    parts: dict[str, list[Offender]] = {}
    unknown = 0
    for choice in new.choices:
        earlier = before.get((choice.vendor, choice.row))
        if earlier is None or "unknown" in (choice.status, earlier.status):
            unknown += 1
        elif is_regression(earlier, choice):
            group = group_name(choice.vendor, choice.device)
            parts.setdefault(group, []).append(offender(choice, earlier.slowdown))
    gone = sorted({c.vendor for c in old.choices} - {c.vendor for c in new.choices})
    found = [Finding(vendor, "vendor", None, None, ()) for vendor in gone]
    for group in sorted(parts):
        worst = sorted(parts[group], key=severity)
        found.append(Finding(group, "regression", None, None, tuple(worst)))
    note = (
        f"{counted(unknown, 'scenario')} could not be compared with the baseline (slowdown or vendor unknown)"
    )
    return found, [note] if unknown else []


def is_regression(old: Choice, new: Choice) -> bool:
    if old.slowdown is None:
        return False
    return new.slowdown is None or new.slowdown > old.slowdown * (1.0 + new.noise)


def severity(offence: Offender) -> tuple[bool, float, str]:
    ratio = (offence.slowdown or 0.0) / (offence.before or 1.0)
    return offence.slowdown is not None, -ratio, offence.scenario


def offender(choice: Choice, before: float | None = None) -> Offender:
    return Offender(
        choice.scenario,
        choice.vendor,
        choice.device,
        choice.features,
        dict(zip(choice.parameters, choice.chosen, strict=True)),
        dict(zip(choice.parameters, choice.best, strict=True)),
        choice.slowdown,
        choice.status,
        before,
    )
