"""The JSON form: round trip, the published schema, strict reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from heurgen import schema
from heurgen.errors import ModelError
from tests.modules import two_vendors


def test_round_trip() -> None:
    module = two_vendors()
    text = schema.to_json(module)
    assert schema.from_json(text) == module
    assert schema.to_json(schema.from_json(text)) == text


def test_models_fit_the_published_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())
    jsonschema.validate(json.loads(schema.to_json(two_vendors())), schema.json_schema())


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
        ("", "line 1: is no JSON: Expecting value"),
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
