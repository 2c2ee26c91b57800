"""The flat table: its schema, its form, its checksum, hostile strings."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import flat_reader
from heurgen import ir
from heurgen.base.errors import HeurgenError
from heurgen.ir import expr
from heurgen.render.flat import SCHEMA_FILE, json_schema, program, render_flat
from tests.render.test_hostile import PLACES
from tests.support.generated import spelled
from tests.support.hostile import PAYLOADS
from tests.support.models import NAMES, model
from tests.support.strategies import modules, rows

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_holds(name: str) -> None:
    VALIDATOR.check_schema(json_schema())
    VALIDATOR.validate(json.loads(render_flat(model(name))))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_the_reference_reader_is_the_ir(data: st.DataObject) -> None:
    module = data.draw(modules())
    table = json.loads(render_flat(module))
    VALIDATOR.validate(table)
    with np.errstate(all="ignore"):
        for row in data.draw(st.lists(rows(module), min_size=2, max_size=6)):
            for s in module.selectors:
                expected = ir.select(module, s.vendor, row, s.device)
                assert spelled(flat_reader.select(table, s.vendor, row, s.device)) == spelled(expected)


def test_the_checksum_is_of_the_text_without_its_line() -> None:
    lines = render_flat(model("two_vendors")).splitlines(keepends=True)
    (line,) = [row for row in lines if row.startswith(' "checksum"')]
    digest = hashlib.sha256("".join(row for row in lines if row != line).encode()).hexdigest()
    assert line == f' "checksum": "{digest}",\n'


def test_rows() -> None:
    table = json.loads(render_flat(model("two_vendors")))
    assert table["selectors"][1]["root"] == 0
    assert table["selectors"][1]["rows"] == [
        {"column": "kv_tokens", "le": 4096.0, "yes": 1, "no": 2},
        {"column": "dtype", "in": ["float16", "fp8"], "yes": -2, "no": -1},
        {"column": "num_seqs", "le": 64, "yes": -2, "no": 3},
        {"column": "causal", "le": 0, "yes": -1, "no": -3},
    ]
    assert table["derived"][0]["program"] == ["num_seqs", "avg_seqlen_k", ["*"]]
    assert json.loads(render_flat(model("constant")))["selectors"][0]["root"] == -1


def test_a_program() -> None:
    text = "-min(x, 2, y // 3) % (x - 1)"
    steps = program(expr.parse(text))
    assert steps == ["x", 2.0, ["min"], "y", 3.0, ["//"], ["min"], ["neg"], "x", 1.0, ["-"], ["%"]]
    for x in (1, 5, -7.5, math.inf):
        row = {"x": x, "y": 100}
        found, expected = flat_reader.evaluate(steps, row), expr.evaluate(expr.parse(text), row)
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("place", PLACES)
def test_a_payload_is_refused_or_data(place: str) -> None:
    written = 0
    for payload in PAYLOADS:
        try:
            source = PLACES[place](payload)
            text = render_flat(source)
        except HeurgenError:
            assert place != "data" or len(payload) > 1000
            continue
        written += 1
        assert text.isascii()
        assert text.replace("\n", "").isprintable()
        table: dict[str, Any] = json.loads(text)
        assert table["kernel"] == source.kernel
        assert tuple(table["features"][2]["values"]) == source.features[2].values
    assert written


def test_the_reader_is_short_and_alone() -> None:
    text = Path(flat_reader.__file__).read_text()
    assert sum(1 for line in text.splitlines() if line.strip()) <= 40
    assert "import" not in text
    assert SCHEMA_FILE.is_file()
