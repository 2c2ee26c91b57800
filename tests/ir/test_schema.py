"""The JSON form: round trip, the published schema, strict reading."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from heurgen import ir
from heurgen.base.errors import ModelError
from heurgen.base.writing import write_atomic
from heurgen.ir import schema
from heurgen.render.flat import render_flat
from tests.support.modules import two_vendors


def everything() -> ir.HeuristicModule:
    """All that a model may leave out: evidence, shortlists, alternatives, a capability, spellings."""
    module = two_vendors()
    amd, nvidia = module.selectors
    runner = ir.RunnerUp(3, 1.25, 4, tie=True)
    tree = ir.Split("num_seqs", 8, ir.Leaf(0, 5, 1.5, 4, runner, (0, 2, 3)), ir.Leaf(2, 1, None, 0))
    own = replace(nvidia, device="NVIDIA H100", capability="9.0", tree=tree, alternatives=(("3d", 32),))
    aliases = (("half", "float16"), ("torch.float16", "float16"))
    dtype = replace(module.features[2], unknown="error", aliases=aliases)
    features = (*module.features[:2], dtype, module.features[3])
    return replace(module, features=features, selectors=(amd, nvidia, own))


@pytest.mark.parametrize("module", [two_vendors(), everything()])
def test_models_fit_the_published_schema_and_read_back(module: ir.HeuristicModule) -> None:
    text = schema.to_json(module)
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())
    jsonschema.validate(json.loads(text), schema.json_schema())
    assert schema.from_json(text) == module
    assert schema.to_json(schema.from_json(text)) == text


def test_the_deepest_tree_reads_back() -> None:
    tree: ir.Node = ir.Leaf(0)
    for i in range(ir.MAX_DEPTH):
        tree = ir.Split("num_seqs", i, ir.Leaf(0), tree)
    module = two_vendors()
    module = replace(module, selectors=(replace(module.selectors[0], tree=tree),))
    assert schema.from_json(schema.to_json(module)) == module


def test_checksum_tells_an_edit() -> None:
    text = schema.to_json(two_vendors())
    assert schema.is_untouched(text)
    assert not schema.is_untouched(text.replace("4096.0", "4097.0"))
    assert not schema.is_untouched(text.rstrip("\n"))
    assert not schema.is_untouched("[]")


def changed(**changes: Any) -> str:
    return json.dumps({**schema.to_dict(two_vendors()), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: is no JSON: Expecting value (a model is the JSON that heurgen train writes)"),
        ("[1]", "$ is list '[1]', expected an object"),
        ('{"a": 1, "a": 2}', "is no JSON of a model: an object has the same key twice"),
        ('{"kernel": NaN}', "is no JSON of a model: NaN is no JSON number"),
        ("{}", "$ has no 'kernel'"),
        (changed(schema_version=2), "has schema_version '2', expected 1 (train it again with this heurgen)"),
        (changed(kernel=3), "$.kernel is int '3', expected str"),
        (changed(extra=1), "$ has an unknown key 'extra'"),
        (changed(kernel="import os"), "kernel name 'import os' is not an ASCII identifier"),
        (changed(features=[{"name": "x"}]), "$.features[0] has no 'type'"),
    ],
)
def test_bad_models_are_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        schema.from_json(text)
    assert str(caught.value) == message


def test_bad_trees_are_refused() -> None:
    data = schema.to_dict(two_vendors())
    data["selectors"][1]["tree"]["left"]["left"]["config"] = 99
    with pytest.raises(ModelError, match="points past the last config"):
        schema.from_dict(data)
    deep: dict[str, Any] = {"config": 0, "n_scenarios": 0, "slowdown": None}
    for _ in range(300):
        deep = {"feature": "num_seqs", "threshold": 1, "left": deep, "right": deep}
    data["selectors"][1]["tree"] = deep
    with pytest.raises(ModelError, match="deeper than 90"):
        schema.from_dict(data)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    with pytest.raises(ModelError) as caught:
        schema.read_model(path)
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(ModelError, match="is no JSON of a model"):
        schema.read_model(path)


def test_a_model_that_was_written_compressed_is_read(tmp_path: Path) -> None:
    write_atomic(tmp_path / "model.json.gz", schema.to_json(two_vendors()))
    assert schema.read_model(tmp_path / "model.json.gz") == two_vendors()


LONG = "9" * 400


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"n_scenarios": 4',
            f'"n_scenarios": {LONG}',
            "is no JSON of a model: a number of 400 digits is out of range",
        ),
        ('"n_scenarios": 4', '"n_scenarios": 99999999999999999999', "expected a count up to 2\\*\\*53"),
        ('"n_scenarios": 9', '"n_scenarios": -1', "expected a count up to"),
        ("1.02", "1e999", "is no JSON of a model: '1e999' is out of range"),
        ("8192.0", "1e999", "'1e999' is out of range"),
        ("8192.0", "-1e999", "'-1e999' is out of range"),
        ('"choice": {}', '"choice": ' + "[" * 900 + "]" * 900, "nests deeper than 110"),
        ('"choice": {}', '"choice": ' + "[" * 99999 + "]" * 99999, "nests deeper than 110"),
    ],
)
def test_numbers_and_nesting_beyond_all_measure(old: str, new: str, message: str) -> None:
    text = schema.to_json(two_vendors())
    text = "".join(line for line in text.splitlines(keepends=True) if "checksum" not in line)
    assert schema.from_json(text) == two_vendors()
    assert old in text
    with pytest.raises(ModelError, match=message):
        schema.from_json(text.replace(old, new))


def test_a_wrong_checksum_is_refused_and_a_missing_one_is_not() -> None:
    text = schema.to_json(two_vendors())
    assert schema.from_json(json.dumps(json.loads(text))) == two_vendors()  # another layout of the same model
    with pytest.raises(ModelError, match="its checksum does not fit") as caught:
        schema.from_json(text.replace('"threshold": 64', '"threshold": 65'))
    assert "remove the line with the checksum" in str(caught.value)
    with pytest.raises(ModelError, match="its checksum does not fit"):
        schema.from_json(text.replace('"checksum": "', '"checksum": "0'))


@pytest.mark.parametrize("pair", [[1.0, "x"], ["x", 1.0], [1.0], [1.0, 2.0, 3.0], 1.0, [1.0, True]])
def test_a_range_is_two_numbers(pair: object) -> None:
    data = schema.to_dict(two_vendors())
    name = next(iter(data["selectors"][1]["ranges"]), "num_seqs")
    data["selectors"][1]["ranges"][name] = pair
    with pytest.raises(ModelError, match=rf"ranges\.{name} is .*, expected \[low, high\]"):
        schema.from_dict(data)


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_one_nested_value_is_no_config(value: object) -> None:
    data = schema.to_dict(two_vendors())
    data["selectors"][1]["configs"][0][0] = value
    with pytest.raises(ModelError, match="expected a list of values"):
        schema.from_dict(data)


def test_three_hundred_digits_are_the_most() -> None:
    module = two_vendors()
    data = schema.to_dict(module)
    tree = data["selectors"][0]["tree"]
    assert tree["feature"] == "num_seqs"
    tree["threshold"] = 10**299
    assert schema.from_json(json.dumps(data)).selectors[0].tree.threshold == 10**299  # type: ignore[union-attr]
    tree["threshold"] = 10**300
    with pytest.raises(ModelError, match=r"^is no JSON of a model: a number of 301 digits is out of range$"):
        schema.from_json(json.dumps(data))


def test_a_flat_table_is_told_from_a_model() -> None:
    with pytest.raises(ModelError) as caught:
        schema.from_json(render_flat(two_vendors()))
    assert str(caught.value) == (
        "is a flat table, as `heurgen emit --target json` writes, expected a model (give the model that it was made "
        "from, the JSON of `heurgen train`)"
    )
