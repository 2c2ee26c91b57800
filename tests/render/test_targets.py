"""Every target answers as the IR does: 10,000 random inputs per model; options that fit no target."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from examples import flat_reader
from heurgen import ir
from heurgen.base.errors import EmitError, HeurgenError, ModelError, UsageError
from heurgen.render import registry
from heurgen.render.target import Request
from tests.render.test_hostile import PLACES, canary  # noqa: F401
from tests.support.generated import executed, spelled
from tests.support.hostile import PAYLOADS
from tests.support.models import SELECTORS, answers, model

each_selector = pytest.mark.parametrize(("name", "vendor", "device"), SELECTORS)


def text_of(name: str, target: str, request: Request = Request()) -> str:  # noqa: B008
    return registry.emit(model(name), target, request).files[""]


def check_all(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Every answer is the expected one; each pair of objects is compared once, since most are the same few."""
    assert len(found) == len(expected)
    pairs = {(id(a), id(b)): (a, b) for a, b in zip(found, expected, strict=True)}
    assert [spelled(a) for a, _ in pairs.values()] == [spelled(b) for _, b in pairs.values()]


@each_selector
def test_python(name: str, vendor: str, device: str | None) -> None:
    names = executed(text_of(name, "python"))
    choose = names["SELECTORS"][vendor] if device is None else names["DEVICE_SELECTORS"][device]
    rows, expected = answers(name, vendor, device, False)
    check_all([choose(*row.values()) for row in rows], expected)


@each_selector
def test_json(name: str, vendor: str, device: str | None) -> None:
    table = json.loads(text_of(name, "json"))
    rows, expected = answers(name, vendor, device, False)
    check_all([flat_reader.select(table, vendor, row, device) for row in rows], expected)


@each_selector
def test_triton_autotune(name: str, vendor: str, device: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "triton", SimpleNamespace(Config=lambda kwargs, **options: (kwargs, options))
    )
    names = executed(text_of(name, "triton-autotune", Request(vendor=vendor, device=device)))
    rows, expected = answers(name, vendor, device, False)
    configs = [{**kwargs, **options} for kwargs, options in names["CONFIGS"]]
    wanted = {id(c): {k: v for k, v in c.items() if v is not None} for c in expected}
    check_all([configs[names["shortlist"](**row)[0]] for row in rows], [wanted[id(c)] for c in expected])


# --- Triton -----------------------------------------------------------------------------------------------

TRITON = [s for s in SELECTORS if s[0] in ("by_device", "constant", "two_vendors", "static_grid")]


@pytest.mark.parametrize(("name", "vendor", "device"), TRITON)
def test_triton(name: str, vendor: str, device: str | None) -> None:
    """With Python's integers in place of tensors; tests/render/test_triton.py has Triton itself.

    Derived features are exact below 2**53, so their operands stay below 2**20 here.
    """
    from tests.render.test_triton import executed as on_integers

    module = without_floats(model(name))
    selector = module.selector(vendor, device)
    names = on_integers(registry.emit(module, "triton", Request(vendor=vendor, device=device)).files[""])
    codes = names.get("CODES", {})
    functions = {p: f for p in selector.parameters for f in names.values() if is_function_of(f, p)}
    assert functions
    rows, _ = answers(name, vendor, device, True)
    read = {f for d in module.derived for f in d.expression.replace("(", " ").split()}
    for row in rows:
        row = {
            k: small(v) if k in read else v for k, v in row.items() if k in {f.name for f in module.features}
        }
        expected = ir.select(module, vendor, row, device)
        coded = [codes[k].get(v, -1) if k in codes else v for k, v in row.items()]
        for parameter, function in functions.items():
            value = expected[parameter]
            assert function(*coded) == (codes[parameter][value] if parameter in codes else value)


def is_function_of(value: Any, parameter: str) -> bool:
    return callable(value) and getattr(value, "__name__", "").endswith(f"_{parameter}")


def small(value: Any) -> Any:
    return max(-(2**17), min(2**17, value)) if type(value) is int else value


def without_floats(module: ir.HeuristicModule) -> ir.HeuristicModule:
    """The same trees without their tests on floats, and without values that no device function returns."""
    floats = {f.name for f in module.features if f.type == "float"}
    inexact = {d.name for d in module.derived if any(f in d.expression for f in floats)}

    def plain(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Leaf):
            return node
        if node.feature in floats | inexact:
            return plain(node.left)
        return replace(node, left=plain(node.left), right=plain(node.right))

    selectors = tuple(
        replace(
            s, tree=plain(s.tree), configs=tuple(tuple(0 if v is None else v for v in c) for c in s.configs)
        )
        for s in module.selectors
    )
    features = tuple(f for f in module.features if f.type != "float")
    derived = tuple(d for d in module.derived if d.name not in inexact)
    return replace(module, selectors=selectors, features=features, derived=derived)


# --- the registry -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["python", "cpp", "triton", "json"])
def test_the_longest_names_that_a_spec_takes_are_rendered(target: str) -> None:
    feature, parameter, vendor, device = "f" * ir.MAX_NAME, "p" * ir.MAX_NAME, "v" * 1000, "D" * ir.MAX_TEXT
    tree = ir.Split(feature, 8, ir.Leaf(0, 1), ir.Leaf(1, 1))
    selectors = tuple(
        ir.Selector(vendor, (parameter,), ((16,), (64,)), tree, device=of, n_scenarios=2)
        for of in (None, device)
    )
    module = ir.HeuristicModule(
        "k" * ir.MAX_NAME, (ir.Feature(feature, "int"),), (ir.Parameter(parameter, "int"),), selectors
    )
    text = registry.emit(module, target, Request(device=device if target == "triton" else None)).files[""]
    assert parameter in text


@pytest.mark.parametrize(
    ("target", "request_", "message"),
    [
        (
            "rust",
            Request(),
            "unknown target 'rust' (known targets: python, triton, cpp, json, triton-autotune, inductor, vllm-moe, "
            "aiter-json)",
        ),
        (
            "python",
            Request(vendor="nvidia"),
            "--target python takes no --vendor (--vendor goes with triton, triton-autotune, inductor, vllm-moe, "
            "aiter-json)",
        ),
        (
            "cpp",
            Request(parameters=("BLOCK_M",)),
            "--target cpp takes no --parameter (--parameter goes with triton)",
        ),
        (
            "json",
            Request(at=({"E": "8"},)),
            "--target json takes no --at (--at goes with vllm-moe, aiter-json)",
        ),
        (
            "vllm-moe",
            Request(approximate=True),
            "--target vllm-moe takes no --approximate (--approximate goes with aiter-json)",
        ),
        (
            "triton",
            Request(),
            "the model has selectors for amd, nvidia (choose one with --vendor)",
        ),
    ],
)
def test_options_that_fit_no_target(target: str, request_: Request, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        registry.emit(model("two_vendors"), target, request_)
    assert str(caught.value) == message


def with_blocks(module: ir.HeuristicModule) -> ir.HeuristicModule:
    """The model with the block sizes that PyTorch's templates need beside its own parameters."""
    blocks = tuple(
        n for n in ("BLOCK_M", "BLOCK_N", "BLOCK_K") if n not in {p.name for p in module.parameters}
    )
    selectors = tuple(
        replace(
            s,
            parameters=(*s.parameters, *blocks),
            configs=tuple((*c, *(16 for _ in blocks)) for c in s.configs),
            alternatives=tuple((*c, *(16 for _ in blocks)) for c in s.alternatives),
        )
        for s in module.selectors
    )
    parameters = (*module.parameters, *(ir.Parameter(n, "int") for n in blocks))
    return replace(module, parameters=parameters, selectors=selectors)


@pytest.mark.parametrize("target", ["python", "cpp", "triton", "triton-autotune", "inductor"])
def test_a_text_carries_its_checksum_and_provenance(target: str) -> None:
    from heurgen.render import checksum

    module = model("two_vendors")
    columns = {"num_seqs": "M", "avg_seqlen_k": "K", "dtype": "dtype", "causal": "batch"}
    names = {field: feature for feature, field in columns.items()} if target == "inductor" else {}
    vendor = None if target in ("python", "cpp") else "nvidia"
    if target == "triton":
        module = without_floats(module)
    if target == "inductor":
        module = with_blocks(module)
    text = registry.emit(module, target, Request(vendor=vendor, names=names)).files[""]
    checksum.verify(text)
    assert "sha256:abababababab" in text
    assert "Regenerate: heurgen emit MODEL.json" in text
    with pytest.raises(ModelError, match="edited by hand"):
        checksum.verify(text.replace("num_seqs", "num_seq5"))


@pytest.mark.parametrize("target", ["triton-autotune", "inductor"])
@pytest.mark.parametrize(
    "line",
    ["import os", "canary()", "KEY = [canary()]", "CONFIGS = [canary()]", "class Choices: pass", "x = 1"],
)
def test_the_allow_lists(target: str, line: str) -> None:
    from heurgen.render import inductor, triton_autotune

    check = {"triton-autotune": triton_autotune.check, "inductor": inductor.check}[target]
    names = {"M": "m"} if target == "inductor" else {}
    text = registry.emit(with_blocks(model("constant")), target, Request(names=names)).files[""]
    check(text)
    with pytest.raises(EmitError, match="generated modules do not contain"):
        check(f"{text}{line}\n")


# --- strings are hostile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", ["triton-autotune", "inductor"])
def test_a_payload_is_refused_or_inert(
    target: str,
    place: str,
    canary: list[str],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is written is executed with stand-ins for Triton and PyTorch; no payload is ever called."""
    stub = SimpleNamespace(Config=lambda kwargs, **options: SimpleNamespace(all_kwargs=lambda: kwargs))
    monkeypatch.setitem(sys.modules, "triton", stub)
    for name in ("torch", "torch._inductor", "torch._inductor.lookup_table"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    inputs, choices = SimpleNamespace(MMKernelInputs=int), SimpleNamespace(LookupTableChoices=object)
    monkeypatch.setitem(sys.modules, "torch._inductor.kernel_inputs", inputs)
    monkeypatch.setitem(sys.modules, "torch._inductor.lookup_table.choices", choices)
    written = 0
    for payload in PAYLOADS[::3]:
        try:
            source = with_blocks(PLACES[place](payload))
            x, number, dtype = (f.name for f in source.features)
            names = {"M": x, "N": number, "dtype": dtype} if target == "inductor" else {}
            text = registry.emit(source, target, Request(names=names)).files[""]
        except HeurgenError as error:
            shown = str(error)
            assert shown.isprintable()
            assert place != "data" or len(payload) > 1000, payload
            continue
        written += 1
        assert text.isascii()
        space = executed(text)
        row = {x: 1.0, number: 4, dtype: source.features[2].values[0]}
        space["choose" if target == "inductor" else "shortlist"](**row)
        for dtype_ in (source.features[2].values[0], "other"):
            leaf = ir.select(source, source.vendors[0], {**row, dtype: dtype_})
            if target == "triton-autotune":
                place_ = space["shortlist"](**{**row, dtype: dtype_})[0]
                assert space["VALUES"][place_] == leaf
    assert canary == []
    assert written >= (len([p for p in PAYLOADS[::3] if len(p) <= 1000]) if place == "data" else 1)
