"""IR -> a flat table in JSON, for launchers in any language; its schema is flat.schema.json beside this file.

A tree is a list of rows. A row tests one column: `x <= le`, or `x in` a list. `root`, `yes` and `no` are rows, or
where they are negative configs: -1 is the first. examples/flat_reader.py reads it in 40 lines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.ir import expr
from heurgen.render.layout import sorted_data
from heurgen.render.target import Rendered, Request, one_file

FORMAT = "heurgen-flat"
# What readers of version 1 do not know, other spellings of categories, refused ones and capabilities, is version 2.
VERSION, EXTENDED = 1, 2
SCHEMA_FILE = Path(__file__).with_name("flat.schema.json")


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    return one_file(render_flat(module))


def render_flat(module: ir.HeuristicModule) -> str:
    """The table as JSON text: ASCII, with the checksum of all the rest.

    Raises:
        EmitError: the data has no JSON, or does not read back as it was.
    """
    data = flat(module)
    digest = hashlib.sha256(_dumps(data).encode()).hexdigest()
    text = _dumps({"checksum": digest, **data})
    if not text.isascii() or json.loads(text) != {"checksum": digest, **data}:
        raise EmitError("the table does not read back as it was written")
    return text


def json_schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12) of the table."""
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


def _dumps(data: Any) -> str:
    """Two levels of the data a line each: rows and configs stay on one."""
    lines = []
    for key, value in data.items():
        lines.append(f" {json.dumps(key)}: {_laid_out(value, 1)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _laid_out(value: Any, level: int) -> str:
    pad = " " * (level + 1)
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(pad + _laid_out(item, level + 1) for item in value) + f"\n{' ' * level}]"
    if (
        isinstance(value, dict)
        and any(isinstance(item, list) and item for item in value.values())
        and level < 4
    ):
        items = [f"{pad}{json.dumps(k)}: {_laid_out(v, level + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{' ' * level}}}"
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise EmitError(f"a value has no JSON: {error}") from error


# --- the data ---------------------------------------------------------------------------------------------


def flat(module: ir.HeuristicModule) -> dict[str, Any]:
    """The table as JSON data, without its checksum."""
    return {
        "format": FORMAT,
        "version": EXTENDED if _is_extended(module) else VERSION,
        "regenerate": "heurgen emit MODEL.json --target json",
        "kernel": module.kernel,
        "features": [_feature(f) for f in module.features],
        "derived": [
            {"name": d.name, "expression": d.expression, "program": program(expr.parse(d.expression))}
            for d in module.derived
        ],
        "parameters": [{"name": p.name, "type": p.type, "optional": p.optional} for p in module.parameters],
        "selectors": [_selector(s) for s in module.selectors],
        "provenance": sorted_data(module.provenance),
    }


def _is_extended(module: ir.HeuristicModule) -> bool:
    stands_in = any(s.capability is not None for s in module.selectors)
    return stands_in or any(f.looks_up for f in module.features)


def _feature(feature: ir.Feature) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": feature.name,
        "type": feature.type,
        "unit": feature.unit,
        "doc": feature.doc,
    }
    if feature.type == "category":
        data["values"] = list(feature.values)
        data |= {"unknown": feature.unknown} if feature.unknown == "error" else {}
        return data | ({"aliases": dict(sorted(feature.aliases))} if feature.aliases else {})
    return {**data, "low": feature.low, "high": feature.high}


def program(tree: expr.Expr) -> list[Any]:
    """The expression for a stack machine: a number or a name is pushed, an operator (in a list of its own)
    takes its operands from the stack: ["x", 2.0, ["*"]] is x * 2.
    """
    match tree:
        case expr.Number(value):
            return [value]
        case expr.Name(name):
            return [name]
        case expr.Negate(operand):
            return [*program(operand), ["neg"]]
        case expr.Call(function, arguments):
            steps = program(arguments[0])
            for argument in arguments[1:]:
                steps += [*program(argument), [function]]
            return steps
        case expr.Binary(operator, left, right):
            return [*program(left), *program(right), [operator]]


def _selector(selector: ir.Selector) -> dict[str, Any]:
    tests = [n for n in ir.nodes(selector.tree) if not isinstance(n, ir.Leaf)]
    # Equal subtrees may be one object, and answer the same from whichever row.
    places = {id(node): i for i, node in enumerate(tests)}

    def target(node: ir.Node) -> int:
        return ~node.config if isinstance(node, ir.Leaf) else places[id(node)]

    return {
        "vendor": selector.vendor,
        "device": selector.device,
        **({} if selector.capability is None else {"capability": selector.capability}),
        "devices": list(selector.devices),
        "n_scenarios": selector.n_scenarios,
        "n_measurements": selector.n_measurements,
        "slowdown_known": selector.costs_known,
        "parameters": list(selector.parameters),
        "configs": [list(config) for config in selector.configs],
        "root": target(selector.tree),
        "rows": _rows(tests, target),
    }


def _rows(
    tests: Sequence[ir.Split | ir.Membership], target: Callable[[ir.Node], int]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for node in tests:
        left, right = target(node.left), target(node.right)
        if isinstance(node, ir.Split):
            rows.append({"column": node.feature, "le": node.threshold, "yes": left, "no": right})
        elif node.unknown_left:
            rows.append({"column": node.feature, "in": list(node.others), "yes": right, "no": left})
        else:
            rows.append({"column": node.feature, "in": list(node.values), "yes": left, "no": right})
    return rows
