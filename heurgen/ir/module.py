"""A model: frozen, validated data between learning and text, with a JSON form that is the artifact to review.

HeuristicModule                 one kernel
  Feature*, Derived*, Parameter*
  Selector*                     one per vendor (and device, when grouped by device)
    configs                     the configs its leaves point to
    tree: Split | Membership | Leaf     (heurgen.ir.nodes)
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from heurgen.base.errors import ModelError, quoted
from heurgen.base.outline import outline
from heurgen.ir import expr
from heurgen.ir.categories import Unknown, check_categories, check_distinct, check_lengths, known
from heurgen.ir.nodes import MAX_DEPTH, Leaf, Membership, Node, Split, depth, find_leaf, leaves, nodes

SCHEMA_VERSION = 1

Value: TypeAlias = int | float | bool | str | None
Config: TypeAlias = tuple[Value, ...]
ColumnType: TypeAlias = Literal["int", "float", "bool", "category"]
COLUMN_TYPES: tuple[ColumnType, ...] = ("int", "float", "bool", "category")
VENDOR = re.compile(r"[a-z][a-z0-9_]*")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names that the text of a generated function uses for itself.
RESERVED_NAMES = (
    frozenset(
        ("vendor", "device", "Config", "select", "SELECTORS", "DEVICE_SELECTORS", "DOMAIN", "PROVENANCE")
    )
    | frozenset(("SHORTLISTS", "_SHORTLISTS_BY_DEVICE", "_SHORTLISTS_BY_CAPABILITY"))
    | frozenset(
        ("TYPE_CHECKING", "min", "max", "float", "int", "bool", "str", "tuple", "dict", "self", "cls")
    )
    | frozenset(("KeyError", "TypeError", "ValueError", "_BY_DEVICE", "_BY_CAPABILITY"))
)
_CONSTANT = re.compile(r"_(CONFIG|SHORTLIST)_[0-9]+")
# A name of a thousand characters is nobody's, and would be written wherever the column is spoken of.
MAX_NAME = 160


@dataclass(frozen=True, slots=True)
class Feature:
    """A number or category known on the host before the launch; an argument of the generated functions.

    `low` and `high` are the range seen in training over all selectors (numbers), `values` the categories.
    `aliases` are pairs of another spelling of a category and the category. `unknown`: any other category gets what
    works for all known ones in its region ("fallback"), or none does ("error").
    """

    name: str
    type: ColumnType
    unit: str = ""
    doc: str = ""
    values: tuple[str, ...] = ()
    low: float | int | None = None
    high: float | int | None = None
    unknown: Unknown = "fallback"
    aliases: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "feature")
        _check_type(self.type, self.name)
        check_lengths((self.unit, self.doc), f"unit and doc of feature {self.name}")
        if self.type == "category":
            check_distinct(self.values, f"values of feature {self.name}")
        check_categories(self.name, self.type == "category", self.values, self.unknown, self.aliases)

    @property
    def looks_up(self) -> bool:
        """Whether a launch's category is looked up before it is tested."""
        return bool(self.aliases) or self.unknown == "error"


@dataclass(frozen=True, slots=True)
class Derived:
    """A float computed from features, as `heurgen.ir.expr` reads `expression`."""

    name: str
    expression: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "derived feature")
        expr.parse(self.expression)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A launch knob. `optional`: None stands for "not applicable"."""

    name: str
    type: ColumnType
    optional: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "parameter")
        if self.name.startswith("_"):  # namedtuple refuses such field names
            raise ModelError(f"parameter name {quoted(self.name)} starts with an underscore")
        _check_type(self.type, self.name)


@dataclass(frozen=True, slots=True)
class Selector:
    """One vendor's tree (or one device's): features -> one of `configs`.

    `parameters` are the names of the config's fields. `devices` are the devices its scenarios ran on,
    `ranges` the (low, high) of every numeric feature and derived feature that it was trained on.
    `n_scenarios` and `n_measurements` count what it was trained on. `costs_known` is False for winners-only
    logs. `choice` is JSON data that records how strategy and size were chosen, and what was rejected.
    `alternatives` are configs that no leaf ships, but that one names as its runner-up or has on its shortlist.
    `capability`: a device's selector also answers for unknown devices of this compute capability ("9.0", "gfx942").
    """

    vendor: str
    parameters: tuple[str, ...]
    configs: tuple[Config, ...]
    tree: Node
    device: str | None = None
    devices: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    n_scenarios: int = 0
    n_measurements: int = 0
    costs_known: bool = True
    strategy: str = "joint"
    choice: Mapping[str, Any] = field(default_factory=dict)
    alternatives: tuple[Config, ...] = ()
    capability: str | None = None

    @property
    def listed(self) -> tuple[Config, ...]:
        """What shortlists and runners-up point to: `configs`, then `alternatives`."""
        return self.configs + self.alternatives

    def __post_init__(self) -> None:
        if not VENDOR.fullmatch(self.vendor) or keyword.iskeyword(self.vendor):
            raise ModelError(
                f"vendor {quoted(self.vendor)} is no name for a generated function",
                hint="vendor names match [a-z][a-z0-9_]* and are no Python keyword",
            )
        check_lengths(self.devices, f"devices of {self.vendor}")
        if self.capability is not None:
            check_lengths((self.capability,), f"capability of {self.vendor}")
            if self.device is None or not self.capability:
                raise ModelError(f"a selector of {self.vendor} has a capability and no device")
        if not self.parameters or any(len(c) != len(self.parameters) for c in self.listed):
            raise ModelError(f"configs of {self.vendor} do not have one value per parameter")
        if any(leaf.config >= len(self.configs) for leaf in leaves(self.tree)):
            raise ModelError(f"a leaf of {self.vendor} points past the last config")
        if any(i >= len(self.listed) for leaf in leaves(self.tree) for i in _also_listed(leaf)):
            raise ModelError(f"a leaf of {self.vendor} lists a config past the last alternative")
        if depth(self.tree) > MAX_DEPTH:
            raise ModelError(f"the tree of {self.vendor} is deeper than {MAX_DEPTH}")


@dataclass(frozen=True, slots=True)
class HeuristicModule:
    """Everything that a generated module says about one kernel. `provenance` is JSON data."""

    kernel: str
    features: tuple[Feature, ...]
    parameters: tuple[Parameter, ...]
    selectors: tuple[Selector, ...]
    derived: tuple[Derived, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    __repr__ = outline

    def __post_init__(self) -> None:
        check_name(self.kernel, "kernel")
        check_no_clash([*self.features, *self.derived, *self.parameters])
        if not self.selectors:
            raise ModelError("a module needs at least one selector")
        keys = [(s.vendor, s.device) for s in self.selectors]
        if len(set(keys)) != len(keys):
            raise ModelError("two selectors serve the same vendor and device")
        if any((s.vendor, None) not in keys for s in self.selectors):
            raise ModelError("a device selector has no vendor selector to fall back to")
        stand_ins = [(s.vendor, s.capability) for s in self.selectors if s.capability is not None]
        if len(set(stand_ins)) != len(stand_ins):
            raise ModelError("two selectors answer for unknown devices of one capability")
        own = {s.vendor: s.parameters for s in self.selectors if s.device is None}
        if odd := next((s for s in self.selectors if s.parameters != own[s.vendor]), None):
            raise ModelError(
                f"the selector of the device {quoted(odd.device)} does not set the parameters of {odd.vendor}"
            )
        for derived in self.derived:
            used = expr.names(expr.parse(derived.expression))
            _check_subset(used, [f.name for f in self.features], derived.name)
        for selector in self.selectors:
            _check_selector(self, selector)

    def selector(self, vendor: str, device: str | None = None, capability: str | None = None) -> Selector:
        """The selector that answers for a device: its own, else that of its compute capability, else its vendor's."""
        found = {s.device: s for s in self.selectors if s.vendor == vendor}
        if not found:
            known = ", ".join(self.vendors)
            raise ModelError(f"unknown vendor {quoted(vendor)}", hint=f"known vendors: {known}")
        if device is not None and device in found:
            return found[device]
        alike = (s for s in found.values() if capability is not None and s.capability == capability)
        return next(alike, found[None])

    @property
    def vendors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.vendor for s in self.selectors))

    @property
    def columns(self) -> tuple[Feature | Derived, ...]:
        """Everything that a test can read."""
        return (*self.features, *self.derived)

    def column(self, name: str) -> Feature | Derived:
        return next(c for c in self.columns if c.name == name)


# --- the interpreter --------------------------------------------------------------------------------------


# What no number can be read from. Others may be numbers of a kind that nobody knows here, such as a tensor of one.
_NO_NUMBERS = (str, bytes, type(None), list, tuple, dict, set)


def with_derived(module: HeuristicModule, features: Mapping[str, Any]) -> dict[str, Any]:
    """The features, bool ones as bool (generated code tests their truth), and every derived feature.

    Raises:
        ModelError: a category is unknown, and its feature refuses such; or a text stands where a number belongs.
    """
    for f in module.features:
        if f.type in ("int", "float") and isinstance(features.get(f.name, 0), _NO_NUMBERS):
            value = features[f.name]
            raise ModelError(
                f"{f.name} is {quoted(value)} ({type(value).__name__}), expected a number ({f.type})"
            )
    flags = {f.name for f in module.features if f.type == "bool"}
    row = {name: bool(value) if name in flags else value for name, value in features.items()}
    for f in module.features:
        if f.looks_up and f.name in row:
            row[f.name] = known(row[f.name], f.name, f.values, f.unknown, f.aliases)
    for derived in module.derived:
        row[derived.name] = expr.evaluate(expr.parse(derived.expression), features)
    return row


def _whole_row(module: HeuristicModule, features: Mapping[str, Any]) -> dict[str, Any]:
    """`with_derived` of a launch that somebody describes: whatever its leaf tests, all features are given."""
    lacking = [f.name for f in module.features if f.name not in features]
    if lacking:
        known = ", ".join(f.name for f in module.features)
        raise ModelError(f"no value of the feature {quoted(lacking[0])}", hint=f"the features are {known}")
    return with_derived(module, features)


def select(
    module: HeuristicModule,
    vendor: str,
    features: Mapping[str, Any],
    device: str | None = None,
    capability: str | None = None,
) -> dict[str, Value]:
    """The interpreter: the config that the generated `select` returns, as a dict.

    Raises:
        ModelError: the vendor is unknown, a feature is not given or no number, or a category that its feature refuses.
    """
    selector = module.selector(vendor, device, capability)
    leaf = find_leaf(selector.tree, _whole_row(module, features))
    return dict(zip(selector.parameters, selector.configs[leaf.config], strict=True))


def shortlist(
    module: HeuristicModule,
    vendor: str,
    features: Mapping[str, Any],
    device: str | None = None,
    capability: str | None = None,
) -> tuple[dict[str, Value], ...]:
    """The interpreter of the generated `shortlist`: the configs to try, what `select` chooses first.

    One config where the model was trained without shortlists.

    Raises:
        ModelError: the vendor is unknown, a feature is not given or no number, or a category that its feature refuses.
    """
    selector = module.selector(vendor, device, capability)
    leaf = find_leaf(selector.tree, _whole_row(module, features))
    listed = leaf.shortlist or (leaf.config,)
    return tuple(dict(zip(selector.parameters, selector.listed[i], strict=True)) for i in listed)


# --- validation -------------------------------------------------------------------------------------------


def check_name(name: object, what: str) -> None:
    """Raise ModelError unless `name` can stand in generated code as it is."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ModelError(f"{what} name {quoted(name)} is not an ASCII identifier")
    if len(name) > MAX_NAME:
        raise ModelError(
            f"{what} name {quoted(name)} has {len(name)} characters, expected at most {MAX_NAME}"
        )
    # Not keyword.issoftkeyword: from Python 3.12 on that is also `type`, a parameter in AutoHeuristic's logs.
    if keyword.iskeyword(name) or name in ("_", "case", "match"):
        raise ModelError(f"{what} name {quoted(name)} is a Python keyword")
    if name.startswith("__"):
        raise ModelError(f"{what} name {quoted(name)} is a dunder or private name")


def check_no_clash(columns: list[Any]) -> None:
    """Raise ModelError where two columns share a name, or one takes a name that generated code uses."""
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise ModelError(f"the name {quoted(column.name)} is used twice")
        if column.name in RESERVED_NAMES or _CONSTANT.fullmatch(column.name):
            raise ModelError(f"the name {quoted(column.name)} is reserved for generated code")
        seen.add(column.name)


def _also_listed(leaf: Leaf) -> tuple[int, ...]:
    return leaf.shortlist + (() if leaf.runner_up is None else (leaf.runner_up.config,))


def _check_type(type_: object, name: str) -> None:
    if type_ not in COLUMN_TYPES:
        raise ModelError(f"{name} has the type {quoted(type_)}, expected one of {', '.join(COLUMN_TYPES)}")


def _check_subset(names: frozenset[str], known: list[str], where: str) -> None:
    if unknown := sorted(names - set(known)):
        raise ModelError(f"{where} uses {quoted(unknown[0])}, which is no feature")


def _check_selector(module: HeuristicModule, selector: Selector) -> None:
    parameters = {p.name: p for p in module.parameters}
    _check_subset(frozenset(selector.parameters), list(parameters), f"the selector of {selector.vendor}")
    for config in selector.listed:
        for name, value in zip(selector.parameters, config, strict=True):
            _check_value(value, parameters[name])
    for node in nodes(selector.tree):
        if isinstance(node, Leaf):
            continue
        _check_subset(frozenset([node.feature]), [c.name for c in module.columns], "a split")
        _check_test(node, module.column(node.feature))


def _check_value(value: Value, parameter: Parameter) -> None:
    expected = {"int": int, "float": float, "bool": bool, "category": str}[parameter.type]
    fits = type(value) is expected and not (isinstance(value, float) and not math.isfinite(value))
    if not (fits or (value is None and parameter.optional)):
        raise ModelError(f"{parameter.name} = {quoted(value)} is no {parameter.type} value")
    if isinstance(value, str):
        check_lengths((value,), f"values of {parameter.name}")


def _check_test(node: Split | Membership, column: Feature | Derived) -> None:
    type_ = column.type if isinstance(column, Feature) else "float"
    if isinstance(node, Membership) != (type_ == "category"):
        raise ModelError(f"the split on {quoted(column.name)} does not fit its type {type_}")
    if isinstance(node, Split):
        if type(node.threshold) is not (float if type_ == "float" else int):
            raise ModelError(
                f"the threshold {node.threshold!r} of {column.name} does not fit its type {type_}"
            )
        if type_ == "bool" and node.threshold != 0:
            raise ModelError(f"the bool feature {column.name} splits at 0, found {node.threshold!r}")
