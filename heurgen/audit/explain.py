"""Why a model chooses what it does for one launch: the path, the evidence, what lies outside training."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heurgen import ir
from heurgen.audit.recorded import held_out, held_out_text, unknown_device
from heurgen.audit.regions import flags_of
from heurgen.base.errors import UsageError, literal, printable, quoted
from heurgen.base.figures import Summary
from heurgen.base.outline import outline
from heurgen.base.text import counted, number_text, rounded, slowdown_text
from heurgen.render.describe import expected

# Fewer training scenarios than this in a leaf say little.
FEW = 3
# Categories of a feature that are listed.
_LISTED = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One test on the path: its text, the value that met it, and whether it held.

    `shown` is the value as a person reads it; `yes` and `no` are what training saw on either side.
    """

    test: str
    value: Any
    shown: str
    held: bool
    yes: Evidence
    no: Evidence


@dataclass(frozen=True, slots=True)
class Evidence:
    """Training scenarios under a node, their expected slowdown (None: unknown), and the leaves they end in."""

    n_scenarios: int
    slowdown: float | None
    n_leaves: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "n_scenarios": self.n_scenarios,
            "expected_slowdown": self.slowdown,
            "n_leaves": self.n_leaves,
        }

    def to_text(self) -> str:
        known = "" if self.slowdown is None else f", {slowdown_text(self.slowdown)}"
        return f"{counted(self.n_scenarios, 'scenario')}{known}"


@dataclass(frozen=True, slots=True)
class Outside:
    """A feature, or the device, beyond what training saw. `seen` is (low, high), or the categories, or the devices."""

    feature: str
    value: Any
    seen: tuple[Any, ...]

    def to_text(self) -> str:
        if isinstance(self.value, str):
            more = f" and {len(self.seen) - _LISTED} more" if len(self.seen) > _LISTED else ""
            return f"{self.feature} = {self.value!r}, seen {', '.join(map(printable, self.seen[:_LISTED]))}{more}"
        span = " to ".join(map(rounded, self.seen))
        if isinstance(self.value, bool):  # whose range is of ints: what was seen is the other one
            span = repr(not self.value)
        return f"{self.feature} = {feature_text(self.value, self.seen)}, seen {span}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The path of one launch through one vendor's tree, and what backs its end."""

    vendor: str
    device: str | None
    features: dict[str, Any]
    derived: dict[str, float]
    steps: tuple[Step, ...]
    config: dict[str, ir.Value]
    n_scenarios: int
    slowdown: float | None
    outside: tuple[Outside, ...]
    n_total: int
    n_ok: int | None
    runner_up: dict[str, ir.Value] | None
    runner_up_slowdown: float | None
    runner_up_n_ok: int | None
    unsure: tuple[str, ...]
    shortlist: tuple[dict[str, ir.Value], ...]
    held_out: Summary | None
    unknown_device: Summary | None  # where the device was not measured

    __repr__ = outline

    def to_dict(self) -> dict[str, Any]:
        """JSON data; a number that JSON lacks (NaN, infinities) becomes its name."""
        return {
            "vendor": self.vendor,
            "device": self.device,
            "features": {k: _plain(v) for k, v in self.features.items()},
            "derived": {k: _plain(v) for k, v in self.derived.items()},
            "path": [
                {
                    "test": s.test,
                    "value": _plain(s.value),
                    "held": s.held,
                    "yes": s.yes.to_dict(),
                    "no": s.no.to_dict(),
                }
                for s in self.steps
            ],
            "config": self.config,
            "leaf": {
                "n_scenarios": self.n_scenarios,
                "n_ok": self.n_ok,
                "expected_slowdown": self.slowdown,
                "runner_up": self.runner_up,
                "runner_up_slowdown": self.runner_up_slowdown,
                "runner_up_n_ok": self.runner_up_n_ok,
                "unsure": list(self.unsure),
                "shortlist": list(self.shortlist),
            },
            "held_out": None if self.held_out is None else asdict(self.held_out),
            "unknown_device": None if self.unknown_device is None else asdict(self.unknown_device),
            "outside_training": [
                {"feature": o.feature, "value": _plain(o.value), "seen": list(o.seen)} for o in self.outside
            ],
        }

    def to_text(self) -> str:
        """The same for a person: numbers rounded, but for thresholds and parameters, which are what ships."""
        lines = []
        for s in self.steps:
            lines.append(f"{s.test}: {'yes' if s.held else 'no'}, it is {s.shown}")
            taken, other = (s.yes, s.no) if s.held else (s.no, s.yes)
            lines.append(f"    in training: {taken.to_text()} went this way; {other.to_text()} the other")
        lines = lines or ["no test: every launch gets this config"]
        lines += ["", "config"]
        lines += [f"  {name} = {value!r}" for name, value in self.config.items() if value is not None]
        lines += ["", *self._held_out()]
        known = "slowdown unknown" if self.slowdown is None else f"{slowdown_text(self.slowdown)} in training"
        count = f"{self.n_scenarios} of {counted(self.n_total, 'training scenario')}"
        recorded = f"{count}, {known}" if self.n_total else "the model records none"
        lines += [f"evidence: {recorded}"]
        lines += self._doubts()
        lines += [f"outside training: {o.to_text()}" for o in self.outside]
        return "\n".join(lines)

    def _held_out(self) -> list[str]:
        """How launches that training had not seen fared, before what it says of those that it had."""
        told, elsewhere = held_out_text(self.held_out), held_out_text(self.unknown_device)
        lines = [f"held out: {told}, over launches of all leaves"] if told else []
        return lines + [f"each device left out of training in turn: {elsewhere}"] * bool(elsewhere)

    def _doubts(self) -> list[str]:
        """What else the leaf's evidence says, where the model recorded it."""
        lines = []
        if self.n_ok is not None and self.n_scenarios:
            lines.append(
                f"    the config succeeded in {self.n_ok} of {counted(self.n_scenarios, 'scenario')}"
            )
        if self.runner_up is not None:
            text = (
                f"runner-up: {_config_words(self.runner_up)}: {slowdown_text(self.runner_up_slowdown or 1.0)}"
            )
            few = self.runner_up_n_ok is not None and self.runner_up_n_ok < self.n_scenarios
            lines.append(f"{text}, in the {self.runner_up_n_ok} where it succeeded" if few else text)
        lines += [f"unsure: {reason}" for reason in self.unsure]
        return lines + [f"shortlist: {_config_words(config)}" for config in self.shortlist]


def _config_words(config: Mapping[str, ir.Value]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in config.items() if value is not None)


def unsure(leaf: ir.Leaf) -> tuple[str, ...]:
    """Why a leaf's evidence does not decide: few scenarios, scenarios without a time, a runner-up as fast."""
    found = []
    if not leaf.n_scenarios:
        found.append(
            "no training scenario ended here: its config worked on such launches elsewhere, if on any"
        )
    elif leaf.n_scenarios < FEW:
        found.append(f"{counted(leaf.n_scenarios, 'training scenario')} ended here")
    if leaf.n_ok is not None and leaf.n_ok < leaf.n_scenarios:
        missing = counted(leaf.n_scenarios - leaf.n_ok, "scenario")
        found.append(f"the config failed, or was not measured, in {missing}")
    if leaf.runner_up is not None and leaf.runner_up.tie:
        found.append("the runner-up is within the noise of the measurements")
        if leaf.n_ok is not None and leaf.runner_up.n_ok < leaf.n_ok:
            found[-1] += (
                f", but succeeded in {leaf.runner_up.n_ok} of {counted(leaf.n_scenarios, 'scenario')} alone"
            )
    return tuple(found)


def explain(
    module: ir.HeuristicModule,
    vendor: str,
    features: Mapping[str, Any],
    device: str | None = None,
    capability: str | None = None,
) -> Explanation:
    """Walk one launch through the tree.

    Raises:
        ModelError: the vendor is unknown, a feature is no number, or a category that its feature refuses.
        UsageError: a feature is missing or unknown.
    """
    _check_names(module, features)
    selector = module.selector(vendor, device, capability)
    row = ir.with_derived(module, features)
    steps, node = _walk(selector.tree, row, flags_of(module))
    used = ir.tested(selector.tree)
    measured = (selector.device,) if selector.device is not None else selector.devices
    elsewhere = device is not None and bool(measured) and device not in measured
    n_total = sum(leaf.n_scenarios for leaf in ir.leaves(selector.tree))

    def named(config: ir.Config) -> dict[str, ir.Value]:
        return dict(zip(selector.parameters, config, strict=True))

    return Explanation(
        vendor=vendor,
        device=selector.device,
        features={name: _own(value) for name, value in features.items()},
        derived={d.name: row[d.name] for d in module.derived if d.name in used},
        steps=steps,
        config=named(selector.configs[node.config]),
        n_scenarios=node.n_scenarios,
        slowdown=node.slowdown,
        outside=(
            *([Outside("device", device, measured)] if elsewhere else ()),
            *_outside(module, selector, row, used),
        ),
        n_total=n_total,
        n_ok=node.n_ok,
        runner_up=None if node.runner_up is None else named(selector.listed[node.runner_up.config]),
        runner_up_slowdown=None if node.runner_up is None else node.runner_up.slowdown,
        runner_up_n_ok=None if node.runner_up is None else node.runner_up.n_ok,
        unsure=unsure(node) if n_total else (),
        shortlist=tuple(named(selector.listed[i]) for i in node.shortlist),
        held_out=held_out(selector)[0] if selector.costs_known else None,
        unknown_device=unknown_device(selector) if elsewhere else None,
    )


def _walk(node: ir.Node, row: Mapping[str, Any], flags: Sequence[str]) -> tuple[tuple[Step, ...], ir.Leaf]:
    """The tests on a launch's path, and its leaf."""
    steps = []
    while not isinstance(node, ir.Leaf):
        held = ir.goes_left(node, row[node.feature])
        value, limits = _own(row[node.feature]), (node.threshold,) if isinstance(node, ir.Split) else ()
        shown = feature_text(value, limits)
        steps.append(
            Step(test_text(node, flags), value, shown, held, evidence(node.left), evidence(node.right))
        )
        node = node.left if held else node.right
    return tuple(steps), node


def evidence(node: ir.Node) -> Evidence:
    """Counts and the geometric mean of the expected slowdowns of the leaves under a node."""
    leaves = list(ir.leaves(node))
    return Evidence(sum(leaf.n_scenarios for leaf in leaves), expected(node), len(leaves))


def test_text(node: ir.Split | ir.Membership, flags: Sequence[str]) -> str:
    """A test as a person reads it: what holds on the left. `flags` are the bool features."""
    if isinstance(node, ir.Split):
        if node.feature in flags and 0 <= node.threshold < 1:
            return f"{node.feature} is false"
        return f"{node.feature} <= {number_text(node.threshold)}"
    operator, values = ("not in", node.others) if node.unknown_left else ("in", node.values)
    return f"{node.feature} {operator} {{{', '.join(map(literal, values))}}}"


def feature_text(value: Any, limits: Sequence[float] = ()) -> str:
    """A feature's value as a person reads it: a float to six figures, to all of them where rounding would put it on
    another side of a limit.
    """
    if not isinstance(value, float):
        return literal(value) if isinstance(value, str) else repr(value)
    near = float(rounded(value))
    moved = any((value <= x, value < x) != (near <= x, near < x) for x in limits)
    return repr(float(value)) if moved else rounded(value)


def _outside(
    module: ir.HeuristicModule, selector: ir.Selector, row: Mapping[str, Any], used: frozenset[str]
) -> list[Outside]:
    """Features, and derived features that the tree uses, beyond what the selector was trained on."""
    found = []
    for column in module.columns:
        value = _own(row[column.name])
        if isinstance(column, ir.Feature) and column.type == "category":
            if value not in column.values:
                found.append(Outside(column.name, value, column.values))
        elif column.name in selector.ranges and (isinstance(column, ir.Feature) or column.name in used):
            low, high = selector.ranges[column.name]
            if not low <= value <= high:
                found.append(Outside(column.name, value, (low, high)))
    return found


def _own(value: Any) -> Any:
    """A scalar of NumPy's or of a tensor as Python's, which text and JSON show."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _check_names(module: ir.HeuristicModule, features: Mapping[str, Any]) -> None:
    names = [f.name for f in module.features]
    if missing := [n for n in names if n not in features]:
        raise UsageError(f"no value for {', '.join(missing)}", hint="give name=value for every feature")
    if unknown := [n for n in features if n not in names]:
        raise UsageError(f"{quoted(unknown[0])} is no feature", hint=f"features: {', '.join(names)}")


def parse_features(module: ir.HeuristicModule, pairs: Sequence[str]) -> dict[str, Any]:
    """`name=value` words as feature values of the right types ("nan" and "inf" are fine for a float).

    Raises:
        UsageError: a word has no "=", names no feature or one twice, or its value does not fit the type.
    """
    types = {f.name: f.type for f in module.features}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"found {quoted(pair)}, expected name=value")
        if name not in types:
            raise UsageError(f"{quoted(name)} is no feature", hint=f"features: {', '.join(types)}")
        if name in values:
            raise UsageError(f"{name} is given twice")
        values[name] = _parse(name, types[name], text)
    return values


def _parse(name: str, type_: str, text: str) -> Any:
    if type_ == "category":
        return text
    if type_ == "bool" and text.lower() in ("true", "false", "0", "1"):
        return text.lower() in ("true", "1")
    if type_ == "int" and re.fullmatch(r"-?[0-9]{1,18}", text):  # what fits an int64, as launches have it
        return int(text)
    if type_ == "float":
        try:
            return float(text)
        except ValueError:
            pass
    hint = {"int": "a whole number of at most 18 digits", "bool": "true or false"}.get(type_)
    raise UsageError(f"{name}: found {quoted(text)}, expected a value of type {type_}", hint=hint)
