"""Whatever a string is and wherever it stands: it is refused, or inert in the module that is written."""

from __future__ import annotations

import builtins
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen import ir
from heurgen.base.errors import HeurgenError
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from tests.support.hostile import PAYLOADS


def module(
    *,
    kernel: str = "kernel",
    number: str = "num_seqs",
    category: str = "fp8",
    unit: str = "",
    doc: str = "",
    derived: str = "tokens",
    expression: str = "x * x",
    parameter: str = "BLOCK_M",
    value: str = "2d",
    vendor: str = "nvidia",
    device: str = "NVIDIA H200",
    trained_on: str = "NVIDIA H200",
    strategy: str = "joint",
    provenance: dict[str, Any] | None = None,
) -> ir.HeuristicModule:
    """A module that uses every place that a string can reach."""
    features = (
        ir.Feature("x", "float", unit, doc, (), 1.0, 2.0),
        ir.Feature(number, "int", unit, doc),
        ir.Feature("dtype", "category", unit, doc, (category, "other")),
    )
    parameters = (ir.Parameter(parameter, "int"), ir.Parameter("variant", "category"))
    low = ir.Membership("dtype", (category,), ("other",), False, ir.Leaf(0, 3, 1.5), ir.Leaf(1, 2, 1.0))
    high = ir.Membership("dtype", ("other",), (category,), True, ir.Leaf(1), ir.Leaf(0))
    tree = ir.Split(derived, 4.0, ir.Split(number, 8, low, ir.Leaf(1)), high)
    vendors = ir.Selector(
        vendor,
        (parameter, "variant"),
        ((16, value), (32, "3d")),
        tree,
        devices=(trained_on,),
        strategy=strategy,
    )
    return ir.HeuristicModule(
        kernel,
        features,
        parameters,
        (vendors, replace(vendors, device=device, costs_known=False)),
        (ir.Derived(derived, expression),),
        {"devices": [trained_on], "heurgen": "0.1.0"} if provenance is None else provenance,
    )


PLACES: dict[str, Callable[[str], ir.HeuristicModule]] = {
    "kernel": lambda s: module(kernel=s),
    "feature": lambda s: module(number=s),
    "derived": lambda s: module(derived=s),
    "expression": lambda s: module(expression=s),
    "parameter": lambda s: module(parameter=s),
    "vendor": lambda s: module(vendor=s),
    "device": lambda s: module(device=s),
    "data": lambda s: module(
        category=s,
        unit=s,
        doc=s,
        value=s,
        trained_on=s,
        strategy=s,
        provenance={
            "heurgen": s,
            "devices": ["a", s],
            "log_hash": s,
            "tools": {"torch": s, s: [s, {s: None}]},
        },
    ),
}


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Records every call of `canary` and every file that a payload would touch."""
    calls: list[str] = []
    monkeypatch.setattr(builtins, "canary", lambda *a: calls.append("called"), raising=False)
    monkeypatch.chdir(tmp_path)
    yield calls
    calls += map(str, tmp_path.iterdir())


def use(text: str, source: ir.HeuristicModule) -> None:
    """Execute the module as Python reads a file, call everything, and compare with the interpreter."""
    names: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text.encode(), "<generated>", "exec", dont_inherit=True), names)
    category = source.features[2].values[0]
    for x, count, dtype in [
        (1.0, 4, category),
        (1.0, 4, "other"),
        (9.0, 9, "unknown"),
        (math.nan, 0, category),
    ]:
        row = dict(zip([f.name for f in source.features], (x, count, dtype), strict=True))
        for selector in source.selectors:
            expected = ir.select(source, selector.vendor, row, selector.device)
            found = names["select"](vendor=selector.vendor, device=selector.device, **row)
            assert found._asdict() == expected
    for name, function in names.items():
        if name.startswith(f"{source.vendors[0]}_"):
            function(1.0, 4, category)
    repr((names["DOMAIN"], names["PROVENANCE"]))
    assert names["DOMAIN"]["dtype"]["values"] == source.features[2].values
    assert names["PROVENANCE"]["selectors"][f"select_{source.vendors[0]}"]["devices"] == list(
        source.selectors[0].devices
    )


def rendered(place: str, payload: str) -> tuple[str, ir.HeuristicModule] | None:
    try:
        source = PLACES[place](payload)
        return render_python(source), source
    except HeurgenError as error:
        shown = str(error)
    assert shown.isprintable()
    return None


@pytest.mark.parametrize("place", PLACES)
def test_a_payload_is_refused_or_inert(place: str, canary: list[str]) -> None:
    written = 0
    for payload in PAYLOADS:
        found = rendered(place, payload)
        if found is None:
            # Any text is data; nothing but names, devices, expressions and endless texts may be refused.
            assert place != "data" or len(payload) > ir.MAX_TEXT, payload
            continue
        written += 1
        text, source = found
        assert text.isascii()
        assert not any(c < " " and c != "\n" for c in text)
        use(text, source)
        if written % 4 == 0:
            assert read_module(text).features[2].values == source.features[2].values
    assert canary == []
    assert written >= (sum(len(p) <= ir.MAX_TEXT for p in PAYLOADS) if place == "data" else 1)


def test_modules_with_payloads_under_an_isolated_python(tmp_path: Path) -> None:
    count = 0
    for place in PLACES:
        for payload in PAYLOADS[::5]:
            if found := rendered(place, payload):
                (tmp_path / f"m{count}.py").write_text(found[0], encoding="utf-8")
                count += 1
    assert count > 60
    program = (
        "import builtins, sys, os\n"
        "calls = []\n"
        "builtins.canary = lambda *a: calls.append(1)\n"
        f"sys.path.insert(0, '.'); before = set(os.listdir())\n"
        f"for i in range({count}): __import__(f'm{{i}}')\n"
        "assert not calls\n"
        "assert set(os.listdir()) - before <= {'__pycache__'}\n"
        "print('inert')"
    )
    command = [sys.executable, "-I", "-S", "-B", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("inert\n", "", 0)


def test_comments_carry_no_instruction_for_a_tool() -> None:
    hostile = ["coding: utf-7", "vim: set x=1:", "type: ignore", "# noqa", "fmt: off", "\u202e", "a\nb"]
    text = render_python(module(provenance={"devices": hostile, "heurgen": "mypy: ignore-errors"}))
    lines = text[: text.index('"""')].splitlines()
    assert all(line.startswith("# ") for line in lines)
    head = " ".join(line.removeprefix("#").strip() for line in lines)
    assert "coding<U+003A> utf-7, vim<U+003A> set x<U+003D>1<U+003A>, " in head
    assert "type<U+003A> ignore, <U+0023> noqa, fmt<U+003A> off, <U+202E>, a b" in head
    assert "@generated by heurgen mypy<U+003A> ignore-errors" in head
    assert "<U+202E>" in head
