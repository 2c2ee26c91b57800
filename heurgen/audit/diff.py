"""What changes between two models: the regions of feature space that get another config.

The new tree is grafted onto every leaf of the old one, leaves are pairs (old config, new config), and
`passes.merge` drops every test that decides nothing about the pair. What is left with unequal sides is the
difference, exactly: an input outside those regions, which both models take as it is, gets the same config from both
(what a call itself must change: `heurgen.audit.interface`). Regions over derived features are as the trees state them;
one may hold no launch that can occur.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heurgen import ir
from heurgen.audit.interface import interface_changes
from heurgen.audit.regions import flags_of, leaf_regions, region_texts
from heurgen.audit.score import Choice, group_name, leaf_counts, numbered_leaf, score
from heurgen.base.errors import ModelError, printable, quoted
from heurgen.base.outline import outline
from heurgen.base.text import counted, ratio
from heurgen.ir import passes

if TYPE_CHECKING:
    from heurgen.logs.costs import CostTable

Pair = tuple[tuple[tuple[str, str, ir.Value], ...], tuple[tuple[str, str, ir.Value], ...]]
# The graft has (leaves of old) x (leaves of new) leaves; more than this takes minutes, and nobody reads it.
_MAX_PAIRS = 1_000_000
# Regions that the text shows of a vendor, and scenarios of a region: a screen. A model of 800 leaves differs from the
# one before it in 35,000 regions.
LISTED = 20
WINNERS_ONLY = "the log holds winners only: what a change gains or costs is unknown"


@dataclass(frozen=True, slots=True)
class ChangedScenario:
    """A scenario of the log whose config changes. `gain` is old time / new time; None where one is unknown."""

    scenario: str
    device: str
    features: Mapping[str, Any]
    old: float | None
    new: float | None
    gain: float | None

    def to_text(self, slowdowns: bool = True) -> str:
        where = " ".join(f"{k}={v}" for k, v in self.features.items())
        name = f"{self.scenario}: " if self.scenario else ""
        told = f"{ratio(self.old)} -> {ratio(self.new)}  " if slowdowns else ""
        return f"{told}{printable(name + where)}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "device": self.device,
            "features": dict(self.features),
            "old_slowdown": self.old,
            "new_slowdown": self.new,
            "gain": self.gain,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One region that changes config. `gain` is the geometric mean over its scenarios; None: none known."""

    vendor: str
    device: str | None
    region: tuple[str, ...]
    old: Mapping[str, ir.Value]
    new: Mapping[str, ir.Value]
    scenarios: tuple[ChangedScenario, ...]

    __repr__ = outline

    @property
    def gain(self) -> float | None:
        return _geomean([s.gain for s in self.scenarios])

    @property
    def differing(self) -> dict[str, tuple[ir.Value, ir.Value]]:
        names = dict.fromkeys((*self.old, *self.new))
        pairs = {n: (self.old.get(n), self.new.get(n)) for n in names}
        return {n: (a, b) for n, (a, b) in pairs.items() if (type(a), a) != (type(b), b)}

    def to_dict(self) -> dict[str, Any]:
        return {
            "vendor": self.vendor,
            "device": self.device,
            "region": list(self.region),
            "old": dict(self.old),
            "new": dict(self.new),
            "gain": self.gain,
            "scenarios": [s.to_dict() for s in self.scenarios],
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """All that changes, first the regions of most scenarios of the log, then those of the fewest tests. `gains` holds
    old time / new time, with a log: of a vendor over all its scenarios, of a device that has a selector over its own.

    `interface`: what changes for a program that calls the model, a line each. Of the log `several` has the vendors of
    several devices, whose scenarios are named with their own, and `winners_only` those of winners alone, of which no
    other config's slowdown is known.
    """

    changes: tuple[Change, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    with_log: bool
    gains: Mapping[tuple[str, str | None], float | None]
    interface: tuple[str, ...] = ()
    several: frozenset[str] = frozenset()
    winners_only: tuple[str, ...] = ()

    __repr__ = outline

    def moved(self, vendor: str, device: str | None) -> list[ChangedScenario]:
        """The scenarios of a vendor, or of one of its devices, that get another config."""
        scenarios = (s for c in self.changes if c.vendor == vendor for s in c.scenarios)
        return [s for s in scenarios if device in (None, s.device)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "changes": [c.to_dict() for c in self.changes],
            "added_vendors": list(self.added),
            "removed_vendors": list(self.removed),
            "interface": list(self.interface),
            "gain": {group_name(*of): gain for of, gain in self.gains.items()},
        }

    def to_text(self) -> str:
        lines = [f"vendor {v} is new" for v in self.added]
        lines += [f"vendor {v} is gone" for v in self.removed]
        lines += [printable(line) for line in self.interface]
        if not self.changes:
            return "\n".join([*lines, "no region changes config"])
        for of, group in _grouped(self.changes).items():
            head = f"{printable(group_name(*of))}: {counted(len(group), 'region')} with another config"
            if of in self.gains and of[0] in self.winners_only:
                head += f"; {WINNERS_ONLY}"
            elif of in self.gains:
                head += f"; over all scenarios of the log {_gain_text(self.gains[of])}"
                head += but_for(self.gains[of], self.moved(*of))
            lines.append(head)
            known = [c for c in group if c.scenarios] if self.with_log else group
            for change in known[:LISTED]:
                lines += self._lines(change, change.device is None and change.vendor in self.several)
            if len(known) > LISTED:
                lines.append(f"  {counted(len(known) - LISTED, 'more region')}: --json has them")
            if len(known) < len(group):
                rest = counted(len(group) - len(known), "more region")
                lines.append(f"  no scenario of the log lies in {rest}: --json has them")
        return "\n".join(lines)

    def _lines(self, change: Change, several: bool) -> list[str]:
        arrows = ", ".join(f"{n} {_value(a)} -> {_value(b)}" for n, (a, b) in change.differing.items())
        lines = [f"  {printable(' and '.join(change.region) or 'every launch')}", f"    {printable(arrows)}"]
        if not self.with_log:
            return lines
        known = change.vendor not in self.winners_only
        gain = f", {_gain_text(change.gain)}{but_for(change.gain, change.scenarios)}" if known else ""
        lines.append(f"    {counted(len(change.scenarios), 'scenario')}{gain}")
        lines += [
            f"      {s.to_text(known)}{f' ({printable(s.device)})' if several else ''}"
            for s in change.scenarios[:LISTED]
        ]
        if len(change.scenarios) > LISTED:
            lines.append(f"      {counted(len(change.scenarios) - LISTED, 'more scenario')}")
        return lines


def diff(old: ir.HeuristicModule, new: ir.HeuristicModule, tables: Iterable[CostTable] | None = None) -> Diff:
    """Compare two models of one kernel; with cost tables, also what each change costs or gains.

    Raises:
        ModelError: the models are of different kernels, or a tree is too large to compare.
        LogError: no scenario is of a vendor that a model knows.
    """
    if old.kernel != new.kernel:
        raise ModelError(f"models of different kernels: {quoted(old.kernel)} and {quoted(new.kernel)}")
    listed = None if tables is None else tuple(tables)
    replays = None if listed is None else _replays(old, new, listed)
    changes: list[Change] = []
    keys = _keys(old, new)
    for vendor, device in keys:
        changes += _selector_changes(old, new, vendor, device, replays)
    return Diff(
        tuple(changes),
        tuple(v for v in new.vendors if v not in old.vendors),
        tuple(v for v in old.vendors if v not in new.vendors),
        replays is not None,
        {} if replays is None else _gains(replays, keys),
        interface_changes(old, new),
        _of_several(replays or ()),
        tuple(t.vendor for t in listed or () if t.device_name is None and not t.costs_known),
    )


Replays = tuple[tuple[Choice, Choice], ...]


def _replays(old: ir.HeuristicModule, new: ir.HeuristicModule, tables: Sequence[CostTable]) -> Replays:
    """The choices of both models for every scenario that both know."""
    before = {(c.vendor, c.row): c for c in score(old, tables).choices}
    after = score(new, tables).choices
    return tuple((before[c.vendor, c.row], c) for c in after if (c.vendor, c.row) in before)


def _of_several(replays: Replays) -> frozenset[str]:
    """The vendors of several devices."""
    devices = Counter(vendor for vendor, _ in {(choice.vendor, choice.device) for _, choice in replays})
    return frozenset(vendor for vendor, n in devices.items() if n > 1)


def _gains(
    replays: Replays, keys: Sequence[tuple[str, str | None]]
) -> dict[tuple[str, str | None], float | None]:
    """By selector: a vendor's over all its devices, that of a device over its own scenarios."""
    found = {}
    for vendor, device in keys:
        own = [_gain(a, b) for a, b in replays if a.vendor == vendor and device in (None, a.device)]
        if own:
            found[vendor, device] = _geomean(own)
    return found


def _keys(old: ir.HeuristicModule, new: ir.HeuristicModule) -> list[tuple[str, str | None]]:
    keys = [(s.vendor, s.device) for s in (*new.selectors, *old.selectors)]
    both = set(old.vendors) & set(new.vendors)
    return sorted({k for k in keys if k[0] in both}, key=lambda k: (k[0], k[1] or ""))


def _selector_changes(
    old: ir.HeuristicModule,
    new: ir.HeuristicModule,
    vendor: str,
    device: str | None,
    replays: Replays | None,
) -> list[Change]:
    before, after = old.selector(vendor, device), new.selector(vendor, device)
    tree, pairs = _graft(old, new, before, after)
    own = [r for r in replays or () if _serves(old, new, vendor, device, r[1])]
    inside = _by_leaf(old, new, tree, own)
    flags = sorted({*flags_of(old), *flags_of(new)})
    changes = []
    for index, (leaf, region) in enumerate(leaf_regions(tree)):
        if leaf.config == 0:
            continue
        sides = zip(pairs[leaf.config], (before, after), strict=True)
        a, b = (_in_order(side, selector) for side, selector in sides)
        texts = tuple(region_texts(region, flags))
        changes.append(Change(vendor, device, texts, a, b, tuple(_scenarios(inside.get(index, ())))))
    return sorted(changes, key=lambda c: (-len(c.scenarios), len(c.region), c.region))


def _serves(
    old: ir.HeuristicModule, new: ir.HeuristicModule, vendor: str, device: str | None, choice: Choice
) -> bool:
    """Whether a scenario belongs to this pair of selectors and to no device's own pair."""
    if choice.vendor != vendor:
        return False
    own = {s.device for m in (old, new) for s in m.selectors if s.vendor == vendor and s.device is not None}
    return choice.device == device if device is not None else choice.device not in own


def _graft(
    old: ir.HeuristicModule, new: ir.HeuristicModule, before: ir.Selector, after: ir.Selector
) -> tuple[ir.Node, list[Pair]]:
    """The tree over pairs, merged; pair 0 stands for "the same config"."""
    sizes = [sum(1 for _ in ir.leaves(s.tree)) for s in (before, after)]
    if sizes[0] * sizes[1] > _MAX_PAIRS:
        raise ModelError(f"trees of {sizes[0]} and {sizes[1]} leaves are too large to compare")
    pairs: list[Pair] = [((), ())]
    index: dict[Pair, int] = {}
    expressions = {d.name: d.expression for d in new.derived}
    stale = {d.name for d in old.derived if expressions.get(d.name, d.expression) != d.expression}

    def pair(a: int, b: int) -> int:
        sides = (_named(before, a), _named(after, b))
        if sides[0] == sides[1]:
            return 0
        if sides not in index:
            index[sides] = len(pairs)
            pairs.append(sides)
        return index[sides]

    def under(node: ir.Node, a: int) -> ir.Node:
        if isinstance(node, ir.Leaf):
            return ir.Leaf(pair(a, node.config))
        return replace(node, left=under(node.left, a), right=under(node.right, a))

    def over(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Leaf):
            return under(after.tree, node.config)
        name = _old_name(node.feature) if node.feature in stale else node.feature
        return replace(node, feature=name, left=over(node.left), right=over(node.right))

    return passes.merge(over(before.tree)), pairs


def _old_name(derived: str) -> str:
    """A derived feature whose expression changed, as the old model computes it."""
    return f"{derived} (as before)"


def _named(selector: ir.Selector, config: int) -> tuple[tuple[str, str, ir.Value], ...]:
    values = zip(selector.parameters, selector.configs[config], strict=True)
    return tuple(sorted(((n, type(v).__name__, v) for n, v in values), key=lambda item: item[0]))


def _in_order(side: tuple[tuple[str, str, ir.Value], ...], selector: ir.Selector) -> dict[str, ir.Value]:
    values = {name: value for name, _, value in side}
    return {name: values[name] for name in selector.parameters}


def _by_leaf(
    old: ir.HeuristicModule,
    new: ir.HeuristicModule,
    tree: ir.Node,
    replays: Sequence[tuple[Choice, Choice]],
) -> dict[int, list[tuple[Choice, Choice]]]:
    counts = leaf_counts(tree)
    found: dict[int, list[tuple[Choice, Choice]]] = {}
    for before, after in replays:
        was = ir.with_derived(old, before.features)
        row = {**{_old_name(d.name): was[d.name] for d in old.derived}, **was}
        row |= ir.with_derived(new, after.features)
        _, index = numbered_leaf(tree, row, counts)
        found.setdefault(index, []).append((before, after))
    return found


def _scenarios(replays: Iterable[tuple[Choice, Choice]]) -> list[ChangedScenario]:
    changed = [
        ChangedScenario(b.scenario, b.device, b.features, a.slowdown, b.slowdown, _gain(a, b))
        for a, b in replays
    ]
    return sorted(changed, key=lambda s: (s.gain is not None, s.gain or 0.0, s.scenario))


def _gain(old: Choice, new: Choice) -> float | None:
    known = old.slowdown is not None and new.slowdown is not None
    return (old.slowdown or 1.0) / (new.slowdown or 1.0) if known else None


def _geomean(values: Sequence[float | None]) -> float | None:
    known = [math.log(v) for v in values if v is not None]
    return math.exp(math.fsum(known) / len(known)) if known else None


def _grouped(changes: Sequence[Change]) -> dict[tuple[str, str | None], list[Change]]:
    groups: dict[tuple[str, str | None], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.vendor, change.device), []).append(change)
    return groups


def _gain_text(gain: float | None) -> str:
    if gain is None:
        return "gain unknown"
    if abs(gain - 1.0) < 5e-4:
        return "no difference"
    return f"{gain:.3f}x faster" if gain > 1 else f"{1 / gain:.3f}x slower"


def but_for(gain: float | None, scenarios: Iterable[ChangedScenario]) -> str:
    """What a gain does not count: scenarios in which one of the two configs failed or was never measured."""
    pairs = [(s.old is not None, s.new is not None) for s in scenarios]
    lost, won = pairs.count((True, False)), pairs.count((False, True))
    told = [f"{lost} in which the new config is not valid"] * bool(lost)
    told += [f"{won} in which the old one was not valid"] * bool(won)
    return f"{': ' if gain is None else ', but for '}{' and '.join(told)}" if told else ""


def _value(value: ir.Value) -> str:
    return "none" if value is None else str(value)
