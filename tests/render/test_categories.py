"""Unknown categories, other spellings and unknown devices: every target answers, or refuses, alike."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples import flat_reader
from heurgen import ir
from heurgen.base.errors import EmitError, ModelError
from heurgen.render import registry
from heurgen.render.categories import known_text
from heurgen.render.cpp import render_cpp
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from heurgen.render.target import Request
from heurgen.runtime import bind
from tests.render.examples import spellings
from tests.support.generated import executed
from tests.support.hostile import PAYLOADS

ROW = {"capability": 9, "dtype": "half", "layout": "row"}
REFUSED = "unknown dtype 'flaot16', known: 'bfloat16', 'float16', 'fp8'"


def test_every_spelling_is_its_category() -> None:
    names = executed(render_python(spellings()))
    for spelled in ("float16", "half", "torch.float16"):
        row = ROW | {"dtype": spelled}
        assert names["select"](vendor="nvidia", **row).BLOCK_M == 64
        assert names["nvidia_BLOCK_M"](**row) == 64
        assert [c.BLOCK_M for c in names["shortlist"](vendor="nvidia", **row)] == [64]
        assert ir.select(spellings(), "nvidia", row)["BLOCK_M"] == 64
    # An unknown one is none of float16 and fp8: it goes where the leaf for all others is.
    assert names["select"](vendor="nvidia", **ROW | {"dtype": "flaot16"}).BLOCK_M == 32


def test_an_unknown_device_is_answered_for_by_its_capability_then_its_vendor() -> None:
    names, module = executed(render_python(spellings())), spellings()
    row = ROW | {"dtype": "fp8"}
    table = json.loads(registry.emit(module, "json", Request()).files[""])
    asked = {
        ("NVIDIA H200", "8.0"): 64,  # a known device is itself
        ("NVIDIA A800", "8.0"): 32,
        ("NVIDIA H20", '9.0"'): 16,
        ("NVIDIA L4", "8.9"): 16,
        (None, "8.0"): 32,
        ("NVIDIA H20", None): 16,
    }
    for (device, capability), expected in asked.items():
        found = names["select"](vendor="nvidia", device=device, capability_=capability, **row)
        listed = names["shortlist"](vendor="nvidia", device=device, capability_=capability, **row)
        assert (expected, expected) == (found.BLOCK_M, listed[0].BLOCK_M)
        assert ir.select(module, "nvidia", row, device, capability)["BLOCK_M"] == expected
        assert flat_reader.select(table, "nvidia", row, device, capability)["BLOCK_M"] == expected
        bound = bind(names["select"], vendor="nvidia", device=device, capability=capability)
        assert expected == bound(**row).BLOCK_M
    # A capability is its vendor's.
    assert names["select"](vendor="amd", capability_="8.0", **row).BLOCK_M == 16
    assert read_module(render_python(module)).selector("nvidia", "no such", "8.0").device == "NVIDIA A100"


def test_targets_for_one_selector_take_a_capability() -> None:
    request = Request(vendor="nvidia", device="NVIDIA A800", capability="8.0")
    text = registry.emit(spellings(), "triton", request).files[""]
    assert "def nvidia_a100_BLOCK_M(" in text
    # All spellings have a number on the device.
    assert (
        '"dtype": {"bfloat16": 0, "float16": 1, "fp8": 2, "half": 1, "torch.bfloat16": 0, "torch.float16": 1}'
        in text
    )


def test_an_unknown_category_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = spellings("error")
    names = executed(render_python(module))
    bad: dict[str, Any] = ROW | {"dtype": "flaot16"}
    for name in ("select_nvidia", "nvidia_num_warps", "shortlist_nvidia", "select_nvidia_h200"):
        with pytest.raises(ValueError, match=r"^unknown dtype") as found:
            names[name](**bad)
        assert str(found.value) == REFUSED
        names[name](**ROW)
    with pytest.raises(ModelError, match=r"^unknown dtype"):
        ir.select(module, "nvidia", bad)
    table = json.loads(registry.emit(module, "json", Request()).files[""])
    assert table["version"] == 2
    with pytest.raises(ValueError, match=r"^unknown dtype"):
        flat_reader.select(table, "nvidia", bad)
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(Config=lambda kwargs, **options: None))
    tuned = executed(registry.emit(module, "triton-autotune", Request(vendor="nvidia")).files[""])
    with pytest.raises(ValueError, match=r"^unknown dtype"):
        tuned["shortlist"](**bad)
    again = read_module(render_python(module))
    assert again.features[1] == module.features[1]


def test_device_functions_cannot_refuse() -> None:
    with pytest.raises(EmitError) as caught:
        registry.emit(spellings("error"), "triton", Request(vendor="amd"))
    assert str(caught.value) == (
        "the feature 'dtype' refuses unknown categories, which a function on the device cannot "
        '(train it with unknown = "fallback", or choose on the host)'
    )


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_header_refuses_and_answers_for_a_capability(tmp_path: Path) -> None:
    (tmp_path / "m.hpp").write_text(render_cpp(spellings("error")))
    (tmp_path / "main.cpp").write_text(
        '#include "m.hpp"\n#include <cstdio>\nusing namespace heurgen::gemm;\n'
        'static_assert(select_nvidia(9, "half", "row").BLOCK_M == 64);\n'
        'static_assert(select_nvidia("NVIDIA A800", "8.0", 9, "fp8", "row").BLOCK_M == 32);\n'
        'static_assert(select("nvidia", "NVIDIA L4", "8.9", 9, "fp8", "row")->BLOCK_M == 16);\n'
        'int main() { try { select_nvidia(9, "flaot16", "row"); } catch (const std::invalid_argument& e) '
        "{ std::puts(e.what()); } }\n"
    )
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic")
    subprocess.run(["g++", *strict, str(tmp_path / "main.cpp"), "-o", str(tmp_path / "main")], check=True)
    said = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout
    assert said == f"{REFUSED}, found: flaot16\n".replace("unknown dtype 'flaot16'", "unknown dtype")


def test_hostile_spellings_are_data() -> None:
    short = [p for p in PAYLOADS if 0 < len(p) < 200]
    for payload in short[::3]:
        feature = ir.Feature("dtype", "category", values=("a",), unknown="error", aliases=((payload, "a"),))
        selector = ir.Selector("nvidia", ("B",), ((1,), (2,)), ir.Leaf(1), device=None)
        other = ir.Selector("nvidia", ("B",), ((1,),), ir.Leaf(0), device="d", capability=payload)
        module = ir.HeuristicModule("k", (feature,), (ir.Parameter("B", "int"),), (selector, other))
        names = executed(render_python(module))
        assert names["select"](vendor="nvidia", dtype=payload).B == 2
        assert names["select"](vendor="nvidia", capability=payload, dtype="a").B == 1
        render_cpp(module)


def test_an_error_lists_twenty_categories() -> None:
    values = tuple(f"c{i}" for i in range(21))
    twenty = ", ".join(f"'{v}'" for v in values[:20])
    assert known_text(ir.Feature("x", "category", values=values[:20])) == twenty
    assert known_text(ir.Feature("x", "category", values=values)) == f"{twenty}, ..."
