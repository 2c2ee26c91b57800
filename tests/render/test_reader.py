"""Reading a generated module back without importing it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heurgen import ir
from heurgen.base.errors import ModelError
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from heurgen.render.registry import emit
from heurgen.render.target import Request
from tests.render.examples import LEAF, by_device, listing2, spellings
from tests.support.generated import UNSEALED, resealed

TEXT = render_python(listing2())
EDITED = (
    "the checksum does not fit the text: the module was edited by hand "
    "(run `heurgen build` or `heurgen emit` to write it again)"
)


def test_everything_that_audit_needs_comes_back() -> None:
    source, again = by_device(), read_module(render_python(by_device()))
    assert again.kernel == source.kernel
    assert again.parameters == source.parameters
    assert [(f.name, f.type, f.unit, f.values, f.low, f.high) for f in again.features] == [
        (f.name, f.type, f.unit, f.values, f.low, f.high) for f in source.features
    ]
    assert [(d.name, d.expression) for d in again.derived] == [(d.name, d.expression) for d in source.derived]
    for one, other in zip(again.selectors, source.selectors, strict=True):
        assert (one.vendor, one.device, one.parameters) == (other.vendor, other.device, other.parameters)
        assert (one.n_scenarios, one.n_measurements) == (other.n_scenarios, other.n_measurements)


def test_derived_features_that_are_tested_come_back() -> None:
    source = by_device()
    texts = ("-max_seqlen_q", "min(num_seqs, 2, -3) * 0.5", "max_seqlen_q / num_seqs % 7 - (num_seqs + 1)")
    for text in texts:
        tree = ir.Split("d", 1.5, ir.Leaf(0), ir.Leaf(1))
        selectors = tuple(replace(s, tree=tree) for s in source.selectors if s.vendor == "amd")
        again = read_module(
            render_python(replace(source, derived=(ir.Derived("d", text),), selectors=selectors))
        )
        assert again.derived == (ir.Derived("d", text),)


def test_spellings_come_back() -> None:
    source = spellings("error")
    again = read_module(render_python(source))
    assert again.features[1:] == source.features[1:]
    assert [s.capability for s in again.selectors] == [s.capability for s in source.selectors]


def test_provenance_and_known_costs_come_back() -> None:
    again = read_module(TEXT)
    assert again.provenance == listing2().provenance
    assert [s.costs_known for s in again.selectors] == [True, False]
    assert [s.devices for s in again.selectors] == [s.devices for s in listing2().selectors]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<= 4095.0", "<= 4096.0"),
        ("57 scenarios", "58 scenarios"),
        ("return 16", "return 32"),
        ("\n\n\n", "\n\n"),
    ],
)
def test_an_edited_module_is_refused(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(ModelError) as caught:
        read_module(TEXT.replace(old, new, 1))
    assert str(caught.value) == EDITED


def test_a_changed_checksum_is_refused() -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith("# checksum"))
    with pytest.raises(ModelError) as caught:
        read_module(TEXT.replace(line, UNSEALED))
    assert str(caught.value) == EDITED


def test_windows_line_ends_are_no_edit() -> None:
    assert read_module(TEXT.replace("\n", "\r\n")).vendors == ("nvidia", "amd")


@pytest.mark.parametrize("text", ["", "import os\n", "{}", TEXT.replace("# checksum", "# sum")])
def test_text_without_a_checksum(text: str) -> None:
    with pytest.raises(ModelError, match=r"^the module has no checksum line"):
        read_module(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from __future__ import annotations", "import os"),
        ('"select_nvidia": {', '"select_intel": {'),
        ('"kernel": "unified_attention",', ""),
        ('"vendor": "nvidia",', '"vendor": [],'),
        ('"type": "int"', '"type": "complex"'),
        ("_CONFIG_0 = Config(BLOCK_M=16, BLOCK_N=32)", "_CONFIG_0 = Config(BLOCK_M=16)"),
        ("_CONFIG_0 = Config(BLOCK_M=16, BLOCK_N=32)", "_CONFIG_0 = Config(BLOCK_M='16', BLOCK_N=32)"),
        ("    BLOCK_M: int\n", "    BLOCK_M: complex\n"),
        ("max_seqlen_q <= 1:", "max_seqlen_q <= 1.5:"),
        ("max_seqlen_q <= 1:", 'max_seqlen_q == "x":'),
        ("DOMAIN: dict[str, dict[str, object]] = {", 'DOMAIN: dict[str, dict[str, object]] = {"x": 1,'),
    ],
)
def test_a_forged_module_with_a_fitting_checksum(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(ModelError):
        read_module(resealed(TEXT.replace(old, new, 1)))


def test_a_forged_module_is_not_executed(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    text = resealed(TEXT + f"open({str(target)!r}, 'w')\n")
    with pytest.raises(ModelError) as caught:
        read_module(text)
    assert caught.value.message.startswith("the text is no module that heurgen generated: line ")
    assert not target.exists()


@pytest.mark.parametrize(
    ("target", "imported"), [("triton", "triton"), ("triton-autotune", "triton"), ("inductor", "torch")]
)
def test_a_module_of_another_target_is_told_as_one(target: str, imported: str) -> None:
    """It was told that heurgen did not generate it, which it did."""
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
    selector = ir.Selector("nvidia", names, ((16, 32, 64),), LEAF(0))
    features, parameters = (ir.Feature("M", "int"),), tuple(ir.Parameter(name, "int") for name in names)
    text = emit(ir.HeuristicModule("mm", features, parameters, (selector,)), target, Request()).files[""]
    with pytest.raises(ModelError) as caught:
        read_module(text)
    said = f"the module imports {imported}, expected one that `heurgen emit` writes with --target python"
    assert caught.value.message == said


def test_a_resealed_edit_is_read_as_it_stands() -> None:
    again = read_module(resealed(TEXT.replace("avg_seqlen_q <= 4095.0", "avg_seqlen_q <= 1.0")))
    thresholds = [n.threshold for n in ir.nodes(again.selectors[0].tree) if isinstance(n, ir.Split)]
    assert thresholds == [1, 1.0, 64]


@pytest.mark.parametrize(
    "step",
    [
        "    if num_seqs <= 3:\n        return _CONFIG_0\n" * 1200,
        "    x = " + " + ".join(["1.0"] * 5000) + "\n",
        "    x = " + "-" * 3000 + "1.0\n",
    ],
    ids=["flat ifs", "long sum", "long negation"],
)
def test_functions_longer_than_any_that_we_write(step: str) -> None:
    line = next(x for x in TEXT.splitlines(keepends=True) if x.startswith("    if "))
    with pytest.raises(ModelError):
        read_module(resealed(TEXT.replace(line, step + line, 1)))
