"""What changes between two models for a program that calls them, whatever their trees answer: features, categories,
parameters, and who answers for devices without a selector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heurgen import ir
from heurgen.audit.recorded import is_counted
from heurgen.base.errors import quoted
from heurgen.base.text import counted


def interface_changes(old: ir.HeuristicModule, new: ir.HeuristicModule) -> tuple[str, ...]:
    """One line each; none where a call of the old module is one of the new, and its result has the same fields."""
    before = {f.name: f for f in old.features}
    names = [f.name for f in old.features], [f.name for f in new.features]
    lines = list(_names("feature", *names, ": a call needs it"))
    for feature in new.features:
        if feature.name in before:
            lines += _feature(before[feature.name], feature)
    lines += _names("parameter", [p.name for p in old.parameters], [p.name for p in new.parameters])
    return (*lines, *_shortlists(old, new), *_stand_ins(old, new))


def _shortlists(old: ir.HeuristicModule, new: ir.HeuristicModule) -> Iterator[str]:
    """Whether a program can still import the module's `shortlist`, and how many configs it gives at most.

    A module that was read back has none, whatever its text holds: of such nothing is known.
    """
    trees = [[s.tree for s in m.selectors] for m in (old, new)]
    if not all(any(map(is_counted, of)) for of in trees):
        return
    was, now = (max(len(leaf.shortlist) for tree in of for leaf in ir.leaves(tree)) for of in trees)
    if bool(was) != bool(now):
        yield f"the function shortlist is {'new' if now else 'gone'}"
    elif was != now:
        yield f"the function shortlist gives {counted(now, 'config')} at most, it was {was}"


def _stand_ins(old: ir.HeuristicModule, new: ir.HeuristicModule) -> Iterator[str]:
    """Which device's selector answers for unknown devices of its compute capability; regions are of known ones."""
    was, now = ({(s.vendor, s.capability): s.device for s in m.selectors if s.capability} for m in (old, new))
    for vendor, capability in sorted({*was, *now}):
        before, after = (of.get((vendor, capability)) or vendor for of in (was, now))
        if before != after and vendor in old.vendors and vendor in new.vendors:
            yield f"{vendor}: an unknown device of {capability} is answered as {after}, it was as {before}"


def _names(kind: str, old: Sequence[str], new: Sequence[str], needed: str = "") -> Iterator[str]:
    yield from (f"{kind} {name} is new{needed}" for name in new if name not in old)
    yield from (f"{kind} {name} is gone" for name in old if name not in new)
    if (kept := [n for n in new if n in old]) != [n for n in old if n in new]:
        yield f"{kind}s have another order: {', '.join(kept)}"


def _feature(old: ir.Feature, new: ir.Feature) -> Iterator[str]:
    name = f"feature {new.name}"
    if old.type != new.type:
        yield f"{name} is {new.type}, it was {old.type}"
    was, now = dict(old.aliases), dict(new.aliases)
    for alias in sorted({*was, *now}):
        if was.get(alias) != now.get(alias):
            stood, stands = (quoted(of[alias]) if alias in of else "itself" for of in (was, now))
            yield f"{name}: {quoted(alias)} stands for {stands}, it stood for {stood}"
    if old.unknown != new.unknown:
        error = "an error, it got an answer" if new.unknown == "error" else "answered, it was an error"
        yield f"{name}: an unknown category is {error}"
    elif new.unknown == "error":
        yield from (f"{name}: {quoted(v)} is answered, it was an error" for v in _beside(new, old))
        yield from (f"{name}: {quoted(v)} is an error, it got an answer" for v in _beside(old, new))


def _beside(one: ir.Feature, other: ir.Feature) -> list[str]:
    """Categories of the one that the other does not know; other spellings have lines of their own."""
    return [v for v in one.values if v not in other.values and v not in dict(other.aliases)]
