"""The IR's JSON form: what `train` writes, what is stored, diffed and reviewed."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from heurgen.base.errors import HeurgenError, ModelError, quoted
from heurgen.base.reading import path_of, read_bytes, unpacked
from heurgen.ir import (
    MAX_DEPTH,
    SCHEMA_VERSION,
    Derived,
    Feature,
    HeuristicModule,
    Leaf,
    Membership,
    Node,
    Parameter,
    RunnerUp,
    Selector,
    Split,
)

SCHEMA_FILE = Path(__file__).with_name("model.schema.json")
MAX_BYTES = 256 * 2**20
MAX_DIGITS = 300
# A tree of 90 tests inside a selector, and room for records of records.
MAX_NESTING = MAX_DEPTH + 20
# What a count may be: exact as a float64.
MAX_COUNT = 2**53


def json_schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12) of a model."""
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


# --- writing ----------------------------------------------------------------------------------------------


def to_json(module: HeuristicModule) -> str:
    """The model as JSON text: ASCII, sorted where order means nothing, with the checksum of all the rest."""
    data = to_dict(module)
    return _dumps({"checksum": _checksum(data), **data})


def _dumps(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dumps(data).encode()).hexdigest()


def is_untouched(text: str) -> bool:
    """Whether a model's text is, to the byte, what `to_json` wrote."""
    try:
        data = json.loads(text)
        checksum = data.pop("checksum")
        return text == _dumps({"checksum": checksum, **data}) and checksum == _checksum(data)
    except (ValueError, KeyError, AttributeError, TypeError):
        return False


def to_dict(module: HeuristicModule) -> dict[str, Any]:
    """The model as JSON data."""
    return {
        "schema_version": module.schema_version,
        "kernel": module.kernel,
        "features": [_feature(f) for f in module.features],
        "derived": [_compact(d, ("name", "expression", "low", "high")) for d in module.derived],
        "parameters": [_compact(p, ("name", "type", "optional")) for p in module.parameters],
        "selectors": [_selector(s) for s in module.selectors],
        "provenance": _sorted(module.provenance),
    }


def _compact(item: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _feature(feature: Feature) -> dict[str, Any]:
    data = _compact(feature, ("name", "type", "unit", "doc", "low", "high"))
    data["values"] = list(feature.values)
    if feature.unknown != "fallback":
        data["unknown"] = feature.unknown
    return data | ({"aliases": dict(sorted(feature.aliases))} if feature.aliases else {})


def _selector(selector: Selector) -> dict[str, Any]:
    return {
        "vendor": selector.vendor,
        "device": selector.device,
        "devices": list(selector.devices),
        "parameters": list(selector.parameters),
        "configs": [list(config) for config in selector.configs],
        "tree": node_data(selector.tree),
        "ranges": {name: list(selector.ranges[name]) for name in sorted(selector.ranges)},
        **_compact(selector, ("n_scenarios", "n_measurements", "costs_known", "strategy")),
        "choice": _sorted(selector.choice),
        **({"alternatives": [list(c) for c in selector.alternatives]} if selector.alternatives else {}),
        **({} if selector.capability is None else {"capability": selector.capability}),
    }


def node_data(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        recorded = () if node.n_ok is None else ("n_ok",)
        data = _compact(node, ("config", "n_scenarios", "slowdown", *recorded))
        if node.runner_up is not None:
            data["runner_up"] = _compact(node.runner_up, ("config", "slowdown", "n_ok", "tie"))
        return data | ({"shortlist": list(node.shortlist)} if node.shortlist else {})
    children = {"left": node_data(node.left), "right": node_data(node.right)}
    if isinstance(node, Split):
        return {"feature": node.feature, "threshold": node.threshold, **children}
    test = {"values": list(node.values), "others": list(node.others), "unknown_left": node.unknown_left}
    return {"feature": node.feature, **test, **children}


def _sorted(data: Any) -> Any:
    """JSON data with every mapping in key order; tuples become lists."""
    if isinstance(data, Mapping):
        return {key: _sorted(data[key]) for key in sorted(data)}
    return [_sorted(item) for item in data] if isinstance(data, list | tuple) else data


# --- reading ----------------------------------------------------------------------------------------------


def read_model(path: str | Path) -> HeuristicModule:
    """Read a model file, compressed as its name may have asked (MODEL.json.gz) or not.

    Raises:
        ModelError: it cannot be read, or is no model of this schema version; names the file.
    """
    data = unpacked(path_of(path, ModelError), read_bytes(path, ModelError, MAX_BYTES), ModelError, MAX_BYTES)
    try:
        return from_json(data)
    except HeurgenError as error:
        raise ModelError(
            error.message, file=path, row=error.row, column=error.column, hint=error.hint
        ) from error


def from_json(text: str | bytes) -> HeuristicModule:
    """Read a model from JSON text; the IR's own checks apply.

    Raises:
        ModelError: says what was found and where in the JSON.
    """
    if not isinstance(text, str | bytes | bytearray):
        hint = "read_model reads a file, by its path"
        raise ModelError(f"found {quoted(type(text).__name__)}, expected JSON text", hint=hint)
    try:
        data = json.loads(
            text,
            object_pairs_hook=_distinct_keys,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_int,
        )
    except json.JSONDecodeError as error:
        hint = "a model is the JSON that heurgen train writes"
        raise ModelError(f"is no JSON: {error.msg}", row=error.lineno, hint=hint) from error
    except RecursionError as error:
        raise ModelError(f"is no JSON of a model: it nests deeper than {MAX_NESTING}") from error
    except (UnicodeDecodeError, ValueError) as error:
        raise ModelError(f"is no JSON of a model: {error}") from error
    _check_nesting(data)
    if isinstance(data, dict) and data.get("format") == "heurgen-flat":  # its first keys are those of a model
        raise ModelError(
            "is a flat table, as `heurgen emit --target json` writes, expected a model",
            hint="give the model that it was made from, the JSON of `heurgen train`",
        )
    _check_checksum(data)
    return from_dict(data)


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{quoted(text, 30)} is out of range")
    return value


def _int(text: str) -> int:
    # int() takes 4300 digits, of which a float64 holds 308.
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is out of range")
    return int(text)


def _check_nesting(data: Any) -> None:
    """Everything that walks a model may recurse as deep as a tree goes, and not deeper."""
    level = [data]
    for _ in range(MAX_NESTING):
        level = [x for item in level if isinstance(item, dict | list) for x in _inside(item)]
        if not level:
            return
    raise ModelError(f"is no JSON of a model: it nests deeper than {MAX_NESTING}")


def _inside(item: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return item.values() if isinstance(item, dict) else item


def _check_checksum(data: Any) -> None:
    """A model that was edited is not what training gave; one without a checksum does not say that it is."""
    if not isinstance(data, dict) or "checksum" not in data or data.get("schema_version") != SCHEMA_VERSION:
        return
    if data["checksum"] != _checksum({k: v for k, v in data.items() if k != "checksum"}):
        raise ModelError(
            "its checksum does not fit: it was edited by hand or damaged",
            hint="train it again; where the edit is meant, remove the line with the checksum",
        )


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("an object has the same key twice")
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def from_dict(data: Any) -> HeuristicModule:
    """Read a model from JSON data.

    Raises:
        ModelError: says what was found and where in the data.
    """
    if isinstance(data, dict) and data.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        found = quoted(data["schema_version"])
        raise ModelError(
            f"has schema_version {found}, expected {SCHEMA_VERSION}", hint="train it again with this heurgen"
        )
    read = _Reader(data, "$")
    read.seen.add("checksum")
    module = HeuristicModule(
        kernel=read.get("kernel", str),
        features=read.each("features", _read_feature),
        derived=read.each("derived", _read_derived),
        parameters=read.each("parameters", _read_parameter),
        selectors=read.each("selectors", _read_selector),
        provenance=read.get("provenance", dict),
        schema_version=read.get("schema_version", int),
    )
    read.done()
    return module


class _Reader:
    """One JSON object, read key by key; knows its place, and that nothing unknown may remain."""

    def __init__(self, data: Any, place: str) -> None:
        if not isinstance(data, dict):
            raise ModelError(f"{place} is {_kind(data)}, expected an object")
        self.data, self.place, self.seen = data, place, set[str]()

    def get(self, key: str, *types: type | None) -> Any:
        """The value under a key; its type must be one of `types` (bool is no int; None: null is fine)."""
        if key not in self.data:
            raise ModelError(f"{self.place} has no {quoted(key)}")
        self.seen.add(key)
        value = self.data[key]
        if type(value) not in types and not (value is None and None in types):
            expected = " or ".join("null" if t is None else t.__name__ for t in types)
            raise ModelError(f"{self.place}.{key} is {_kind(value)}, expected {expected}")
        if type(value) is float and not math.isfinite(value):
            raise ModelError(f"{self.place}.{key} is out of range")
        return value

    def count(self, key: str) -> int:
        value: int = self.get(key, int)
        if not 0 <= value <= MAX_COUNT:
            raise ModelError(f"{self.place}.{key} is {_kind(value)}, expected a count up to 2**53")
        return value

    def each(self, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
        place = f"{self.place}.{key}"
        return tuple(read(item, f"{place}[{i}]") for i, item in enumerate(self.get(key, list)))

    def texts(self, key: str) -> tuple[str, ...]:
        return self.each(key, _read_text)

    def done(self) -> None:
        if unknown := sorted(set(self.data) - self.seen):
            raise ModelError(f"{self.place} has an unknown key {quoted(unknown[0])}")


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {quoted(value, 30)}"


def _read_text(data: Any, place: str) -> str:
    if type(data) is not str:
        raise ModelError(f"{place} is {_kind(data)}, expected str")
    return data


def _read_feature(data: Any, place: str) -> Feature:
    read = _Reader(data, place)
    name, type_, unit, doc = (read.get(key, str) for key in ("name", "type", "unit", "doc"))
    feature = Feature(
        name,
        type_,
        unit,
        doc,
        values=read.texts("values"),
        low=read.get("low", int, float, None),
        high=read.get("high", int, float, None),
        unknown=read.get("unknown", str) if "unknown" in read.data else "fallback",
        aliases=_read_aliases(read.get("aliases", dict), place) if "aliases" in read.data else (),
    )
    read.done()
    return feature


def _read_aliases(data: dict[str, Any], place: str) -> tuple[tuple[str, str], ...]:
    return tuple((alias, _read_text(data[alias], f"{place}.aliases")) for alias in sorted(data))


def _read_derived(data: Any, place: str) -> Derived:
    read = _Reader(data, place)
    low, high = (read.get(key, float, None) for key in ("low", "high"))
    derived = Derived(read.get("name", str), read.get("expression", str), low, high)
    read.done()
    return derived


def _read_parameter(data: Any, place: str) -> Parameter:
    read = _Reader(data, place)
    parameter = Parameter(read.get("name", str), read.get("type", str), read.get("optional", bool))
    read.done()
    return parameter


def _read_selector(data: Any, place: str) -> Selector:
    read = _Reader(data, place)
    selector = Selector(
        vendor=read.get("vendor", str),
        device=read.get("device", str, None),
        devices=read.texts("devices"),
        parameters=read.texts("parameters"),
        configs=read.each("configs", _read_config),
        tree=_read_node(read.get("tree", dict), f"{place}.tree", 0),
        ranges=_read_ranges(read.get("ranges", dict), f"{place}.ranges"),
        n_scenarios=read.count("n_scenarios"),
        n_measurements=read.count("n_measurements"),
        costs_known=read.get("costs_known", bool),
        strategy=read.get("strategy", str),
        choice=read.get("choice", dict),
        alternatives=read.each("alternatives", _read_config) if "alternatives" in read.data else (),
        capability=read.get("capability", str) if "capability" in read.data else None,
    )
    read.done()
    return selector


def _read_ranges(data: dict[str, Any], place: str) -> dict[str, tuple[float, float]]:
    ranges = {}
    for name, pair in data.items():
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_finite, pair)):
            raise ModelError(f"{place}.{name} is {_kind(pair)}, expected [low, high]")
        ranges[name] = (pair[0], pair[1])
    return ranges


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _read_config(data: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(data, list) or any(isinstance(v, list | dict) for v in data):
        raise ModelError(f"{place} is {_kind(data)}, expected a list of values")
    return tuple(data)


def _read_index(data: Any, place: str) -> int:
    if type(data) is not int or not 0 <= data <= MAX_COUNT:
        raise ModelError(f"{place} is {_kind(data)}, expected an index")
    return data


def _read_runner_up(data: dict[str, Any], place: str) -> RunnerUp:
    read = _Reader(data, place)
    found = RunnerUp(
        read.count("config"), read.get("slowdown", float), read.count("n_ok"), read.get("tie", bool)
    )
    read.done()
    return found


def _read_node(data: Any, place: str, level: int) -> Node:
    if level > MAX_DEPTH:
        raise ModelError(f"the tree is deeper than {MAX_DEPTH}")
    read = _Reader(data, place)
    node: Node
    if "config" in read.data:
        n_ok = read.count("n_ok") if "n_ok" in read.data else None
        slowdown = read.get("slowdown", float, None)
        runner = read.get("runner_up", dict) if "runner_up" in read.data else None
        node = Leaf(
            read.get("config", int),
            read.count("n_scenarios"),
            slowdown,
            n_ok,
            None if runner is None else _read_runner_up(runner, f"{place}.runner_up"),
            read.each("shortlist", _read_index) if "shortlist" in read.data else (),
        )
    else:
        left, right = (_read_node(read.get(k, dict), f"{place}.{k}", level + 1) for k in ("left", "right"))
        feature = read.get("feature", str)
        if "threshold" in read.data:
            node = Split(feature, read.get("threshold", int, float), left, right)
        else:
            sides = read.texts("values"), read.texts("others")
            node = Membership(feature, *sides, read.get("unknown_left", bool), left, right)
    read.done()
    return node
