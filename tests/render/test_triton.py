"""Triton functions are the same trees: as text, run with plain integers, and in Triton where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.base.errors import EmitError, ModelError
from heurgen.ir import expr
from heurgen.render.reader import read_module
from heurgen.render.triton import check, render_triton
from tests.render.examples import K, Q, listing2
from tests.support.strategies import trees

LEAF = ir.Leaf
SEQS, CAUSAL = ir.Feature("num_seqs", "int"), ir.Feature("causal", "bool")
EXPRESSIONS = {
    "kv_tokens": "num_seqs * max_seqlen_k",
    "per_seq": "max_seqlen_k / num_seqs",
    "odd": "min(num_seqs, max_seqlen_k // 64, 7) - max_seqlen_q % -16",
    "mean": "(max_seqlen_q - 3) / -(num_seqs + 1)",
    "floor": "-max_seqlen_q // num_seqs",
}
DERIVED = tuple(ir.Derived(name, text) for name, text in EXPRESSIONS.items())
PARAMETERS = (
    ir.Parameter("TILE_SIZE", "int"),
    ir.Parameter("flag", "bool"),
    ir.Parameter("variant", "category"),
)
CONFIGS = ((16, True, "2d"), (32, False, "3d"), (-64, True, "3d"))


def module(
    tree: ir.Node,
    features: tuple[ir.Feature, ...] = (SEQS, Q, K, CAUSAL),
    derived: tuple[ir.Derived, ...] = DERIVED,
) -> ir.HeuristicModule:
    names = tuple(p.name for p in PARAMETERS)
    selector = ir.Selector("nvidia", names, CONFIGS, tree)
    return ir.HeuristicModule("kernel", features, PARAMETERS, (selector,), derived)


# --- plain integers in place of Triton's tensors ----------------------------------------------------------


def _cast(value: Any, kind: type) -> Any:
    return kind(value)


TL = SimpleNamespace(
    cast=_cast,
    int64=int,
    float64=float,
    full=lambda shape, value, kind: kind(value),
    where=lambda test, yes, no: yes if test else no,
    abs=abs,
    minimum=min,
    maximum=max,
)


def executed(text: str) -> dict[str, Any]:
    """The functions of the module, with `tl` replaced by arithmetic on Python numbers."""
    plain = text.replace("import triton.language as tl\n", "").replace("import triton\n", "")
    names: dict[str, Any] = {"__name__": "generated", "tl": TL, "triton": SimpleNamespace(jit=lambda f: f)}
    exec(compile(plain, "<generated>", "exec", dont_inherit=True), names)
    return names


def check_row(source: ir.HeuristicModule, names: dict[str, Any], row: dict[str, int]) -> None:
    expected = ir.select(source, "nvidia", row)
    for parameter in ("TILE_SIZE", "flag"):
        assert names[f"nvidia_{parameter}"](*row.values()) == expected[parameter]


numbers = st.sampled_from([-(2**40), -17, -16, -1, 0, 1, 2, 3, 7, 8, 63, 64, 65, 4096, 2**31 - 1, 2**31])
COLUMNS: tuple[ir.Feature | ir.Derived, ...] = (SEQS, Q, K, CAUSAL, *DERIVED)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_functions_are_the_ir(data: st.DataObject) -> None:
    # Thresholds beyond int64 are refused, see below.
    tree = data.draw(
        trees(COLUMNS, len(CONFIGS)).filter(lambda t: all(abs(n) < 2**63 for n in _thresholds(t)))
    )
    source = module(tree)
    names = executed(render_triton(source, "nvidia"))
    for _ in range(6):
        row = {
            f.name: data.draw(st.sampled_from([0, 1]) if f.type == "bool" else numbers)
            for f in source.features
        }
        check_row(source, names, row)


def _thresholds(tree: ir.Node) -> list[float]:
    return [n.threshold for n in ir.nodes(tree) if isinstance(n, ir.Split)]


def test_a_deep_chain_is_one_chain_of_elif() -> None:
    node: ir.Node = LEAF(0)
    for i in range(80):
        node = ir.Split("num_seqs", 100 + i, node, LEAF(1 + i % 2))
    source = module(node)
    text = render_triton(source, "nvidia", ["TILE_SIZE"])
    assert max(len(line) - len(line.lstrip(" ")) for line in text.splitlines()) == 8
    names = executed(text)
    for x in range(95, 185):
        row = {"num_seqs": x, "max_seqlen_q": 1, "max_seqlen_k": 1, "causal": 0}
        assert names["nvidia_TILE_SIZE"](*row.values()) == ir.select(source, "nvidia", row)["TILE_SIZE"]


# --- the text ---------------------------------------------------------------------------------------------


def test_the_text_of_a_function() -> None:
    inner = ir.Split("causal", 0, LEAF(0, 12, 1.02), ir.Split("per_seq", 2.5, LEAF(1), LEAF(2)))
    text = render_triton(module(ir.Split("kv_tokens", 4096.5, LEAF(1, 3), inner)), "nvidia", ["TILE_SIZE"])
    assert text[text.index("@triton.jit\ndef nvidia") :] == (
        "@triton.jit\n"
        "def nvidia_TILE_SIZE(num_seqs, max_seqlen_q, max_seqlen_k, causal):\n"
        '    """TILE_SIZE of the config that `select` returns for nvidia."""\n'
        "    kv_tokens = tl.cast(num_seqs, tl.int64) * tl.cast(max_seqlen_k, tl.int64)\n"
        "    if kv_tokens <= 4096:\n"
        "        chosen = 32  # 3 scenarios\n"
        "    elif causal == 0:\n"
        "        chosen = 16  # 12 scenarios, 1.02x\n"
        "    else:\n"
        "        per_seq = _ratio(max_seqlen_k, num_seqs)\n"
        "        if per_seq <= tl.full((), 2.5, tl.float64):\n"
        "            chosen = 32\n"
        "        else:\n"
        "            chosen = -64\n"
        "    return chosen\n"
    )


def test_any_feature_may_be_called_like_the_variable_of_a_function() -> None:
    taken = ("chosen", "chosen_", "chosen__")
    selector = ir.Selector("amd", ("B",), ((1,), (2,)), ir.Split("chosen", 0, ir.Leaf(0), ir.Leaf(1)))
    features = tuple(ir.Feature(name, "int") for name in taken)
    text = render_triton(ir.HeuristicModule("k", features, (ir.Parameter("B", "int"),), (selector,)), "amd")
    assert "    return chosen___\n" in text


@pytest.mark.parametrize(("threshold", "wide"), [(2**31 - 1, False), (2**31, True), (-(2**31), False)])
def test_a_threshold_beyond_int32_widens_the_feature(threshold: int, wide: bool) -> None:
    text = render_triton(module(ir.Split("num_seqs", threshold, LEAF(0), LEAF(1))), "nvidia", ["TILE_SIZE"])
    assert ("tl.cast(num_seqs, tl.int64) <=" in text) == wide


def test_the_header_and_what_is_left_out() -> None:
    text = render_triton(module(LEAF(0)), "nvidia")
    assert "# Regenerate: heurgen emit MODEL.json --target triton" in text
    assert text[text.index('"""') :].split('"""')[1] == (
        "Launch heuristics of kernel on nvidia, for Triton kernels.\n\n"
        "Every function takes the integers that the host functions know, in the same order, as run-time values. "
        "Derived\nfeatures are int64, quotients float64: exact below 2**53. A zero divisor gives 0.\n"
        "CODES numbers the categories; a number that it lacks is an unknown category.\n"
    )
    assert "_ratio" not in text
    assert "CODES" not in render_triton(module(LEAF(0)), "nvidia", ["flag"])
    assert "nvidia_flag" in text
    with pytest.raises(ModelError):
        read_module(text)


@pytest.mark.parametrize(
    ("source", "parameters", "message"),
    [
        (
            listing2(),
            (),
            "BLOCK_M depends on 'avg_seqlen_q', which is no integer on the device "
            "(choose other parameters, or train without that feature)",
        ),
        (module(LEAF(0)), ["x"], "nvidia has no parameter 'x' (known: TILE_SIZE, flag, variant)"),
        (
            module(ir.Split("num_seqs", 2**63, LEAF(0), LEAF(1))),
            (),
            "the threshold 9223372036854775808 of num_seqs does not fit int64",
        ),
        (
            module(LEAF(0), features=(SEQS, Q, K, CAUSAL, ir.Feature("tl", "int"))),
            (),
            "the feature name 'tl' is one that the generated functions use",
        ),
    ],
)
def test_what_has_no_device_function(source: ir.HeuristicModule, parameters: list[str], message: str) -> None:
    with pytest.raises(EmitError) as caught:
        render_triton(source, "nvidia", parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("(num_seqs + 1) * -2", "(tl.cast(num_seqs, tl.int64) + 1) * -(2)"),
        ("num_seqs - (1 - num_seqs)", "tl.cast(num_seqs, tl.int64) - (1 - tl.cast(num_seqs, tl.int64))"),
        ("num_seqs // 8 * 2", "_floor_div(num_seqs, 8) * 2"),
        ("num_seqs % (num_seqs * 2)", "_modulo(num_seqs, tl.cast(num_seqs, tl.int64) * 2)"),
        ("min(num_seqs, 2, 3)", "tl.minimum(tl.minimum(tl.cast(num_seqs, tl.int64), 2), 3)"),
        ("max(num_seqs, 2)", "tl.maximum(tl.cast(num_seqs, tl.int64), 2)"),
        ("(num_seqs + 1) / 2", "_ratio(tl.cast(num_seqs, tl.int64) + 1, 2)"),
    ],
)
def test_derived_features_as_device_code(text: str, written: str) -> None:
    source = module(ir.Split("d", 1.0, LEAF(0), LEAF(1)), derived=(ir.Derived("d", text),))
    assert f"    d = {written}\n" in render_triton(source, "nvidia", ["TILE_SIZE"])


@pytest.mark.parametrize(
    "text", ["num_seqs / 2 + 1", "num_seqs * 0.5", "min(num_seqs / 3, 1)", "-(num_seqs / 2)"]
)
def test_arithmetic_that_is_not_exact_is_refused(text: str) -> None:
    source = module(ir.Split("d", 1.0, LEAF(0), LEAF(1)), derived=(ir.Derived("d", text),))
    with pytest.raises(EmitError, match="the derived feature d is not exact in integers"):
        render_triton(source, "nvidia")


def test_an_unread_derived_feature_may_be_anything() -> None:
    source = module(LEAF(0), derived=(ir.Derived("d", "num_seqs * 0.5"),))
    assert "chosen = 16" in render_triton(source, "nvidia")
    assert expr.names(expr.parse("num_seqs * 0.5")) == {"num_seqs"}


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "canary()",
        "x = 1",
        "def f(x):\n    return 1",
        "@triton.jit\ndef f(x=1):\n    return 1",
        "@triton.jit\ndef f(x: int):\n    return 1",
        "@triton.jit\ndef f(x):\n    return canary(x)",
        "@triton.jit\ndef f(x):\n    return tl.load(x)",
        "@triton.jit\ndef f(x):\n    return tl.cast(x, dtype=tl.int64)",
        "@triton.jit\ndef f(x):\n    return [x]",
        "@triton.jit\ndef f(x):\n    return x.data",
        "@triton.jit\ndef f(x):\n    return tl.extra",
        "@triton.jit\ndef f(x):\n    return tl.cast.__globals__",
        "@canary\ndef f(x):\n    return x",
        "@triton.jit\ndef f(*x):\n    return 1",
        "@triton.jit\ndef f(**x):\n    return 1",
        "@triton.jit\ndef f(*, x):\n    return 1",
        "@triton.jit\ndef f(x) -> int:\n    return 1",
        "@triton.jit\n@canary\ndef f(x):\n    return 1",
        "# \x0c a form feed",
        "# \x7f a control character",
        "# \xe9 a letter that is printable and not ASCII",
    ],
)
def test_the_allow_list(line: str) -> None:
    text = render_triton(module(LEAF(0)), "nvidia")
    check(text)
    with pytest.raises(EmitError):
        check(f"{text}{line}\n")


def test_what_is_refused_is_shown() -> None:
    text = render_triton(module(LEAF(0)), "nvidia")
    with pytest.raises(EmitError) as caught:
        check(f"{text}@triton.jit\ndef f(x):\n    return x.data\n")
    assert caught.value.message == "generated modules do not contain 'x.data'"
    for changed in (f"{text}x = 1\n", text.replace("import triton\n", "import triton as t\n")):
        with pytest.raises(EmitError) as caught:
            check(changed)
        assert caught.value.message == "a generated Triton module holds two imports, CODES and functions"


# --- categories -------------------------------------------------------------------------------------------

DTYPE = ir.Feature("dtype", "category", values=("bf16", "fp8"))


def coded() -> ir.HeuristicModule:
    """A tree that names a category its spec lacks, and sends unknown ones both ways."""
    low = ir.Membership("dtype", ("fp8", "int8"), ("bf16",), True, LEAF(0), LEAF(1))
    high = ir.Membership("dtype", ("bf16", "fp8"), ("int8",), False, LEAF(1), LEAF(2))
    return module(ir.Split("num_seqs", 8, low, high), features=(SEQS, DTYPE), derived=())


def test_categories_are_numbered_by_a_table_in_the_module() -> None:
    text = render_triton(coded(), "nvidia")
    table = {"dtype": {"bf16": 0, "fp8": 1, "int8": 2}, "variant": {"2d": 0, "3d": 1}}
    names = executed(text)
    assert names["CODES"] == table
    assert "CODES numbers the categories; a number that it lacks is an unknown category." in text
    assert "    if num_seqs <= 8:\n        if dtype != 0:\n" in text
    assert "    elif (dtype == 0) | (dtype == 1):\n" in text
    for dtype in ("bf16", "fp8", "int8", "unknown", ""):
        for count in (8, 9):
            expected = ir.select(coded(), "nvidia", {"num_seqs": count, "dtype": dtype})
            code = table["dtype"].get(dtype, -1)
            assert names["nvidia_TILE_SIZE"](count, code) == expected["TILE_SIZE"]
            assert names["nvidia_variant"](count, code) == table["variant"][str(expected["variant"])]


@pytest.mark.parametrize("line", ["CODES = {'a': canary()}", "X = {}", "CODES = [1]"])
def test_the_table_is_a_literal(line: str) -> None:
    text = render_triton(coded(), "nvidia")
    check(text)
    table = next(row for row in text.splitlines() if row.startswith("CODES = "))
    with pytest.raises(EmitError):
        check(text.replace(table, line))


# --- Triton -----------------------------------------------------------------------------------------------

# What both programs share: kernels that ask the functions of both models, with codes as run-time numbers and as
# constants of the kernel.
KERNELS = """
import importlib.util, json, os, sys
import torch, triton
import triton.language as tl

def loaded(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), f"{name}.py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

plain, coded = loaded("plain"), loaded("coded")

@triton.jit
def of_numbers(rows, out, n):
    for i in range(n):
        a, b = tl.load(rows + 4 * i), tl.load(rows + 4 * i + 1)
        c, d = tl.load(rows + 4 * i + 2), tl.load(rows + 4 * i + 3)
        tl.store(out + 2 * i, plain.nvidia_TILE_SIZE(a, b, c, d))
        tl.store(out + 2 * i + 1, plain.nvidia_flag(a, b, c, d).to(tl.int32))

@triton.jit
def of_codes(rows, out, n, fixed: tl.constexpr):
    for i in range(n):
        a, b = tl.load(rows + 2 * i), tl.load(rows + 2 * i + 1)
        tl.store(out + 2 * i, coded.nvidia_TILE_SIZE(a, b))
        tl.store(out + 2 * i + 1, coded.nvidia_variant(a, fixed))
"""
INTERPRET = """
given = json.load(sys.stdin)
answers = []
for kernel, rows, more in ((of_numbers, given["numbers"], ()), (of_codes, given["codes"], (2,))):
    out = torch.zeros((len(rows), 2), dtype=torch.int32)
    kernel[(1,)](torch.tensor(rows, dtype=torch.int64), out, len(rows), *more)
    answers.append(out.tolist())
print(json.dumps(answers))
"""
COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
for target in (GPUTarget("cuda", 90, 32), GPUTarget("cuda", 80, 32), GPUTarget("hip", "gfx942", 64)):
    for kind in ("*i64", "*i32"):
        types = {"rows": kind, "out": "*i32", "n": "i32"}
        assert triton.compile(ASTSource(fn=of_numbers, signature=types), target=target).asm
    source = ASTSource(fn=of_codes, signature=types | {"fixed": "constexpr"}, constexprs={"fixed": 2})
    assert triton.compile(source, target=target).asm
print("compiled")
"""
needs_triton = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("triton", "torch"))), reason="triton and torch are not installed"
)
TREE = ir.Split(
    "per_seq",
    2.5,
    ir.Split("kv_tokens", 65536.0, ir.Split("odd", -3.5, LEAF(0), LEAF(1)), LEAF(2)),
    ir.Split("causal", 0, ir.Split("floor", -2.0, LEAF(2), ir.Split("mean", 0.1, LEAF(1), LEAF(0))), LEAF(1)),
)
VALUES = (-65, -16, 0, 1, 7, 5000)
NUMBERS = [[a, b, c, (a + b + c) % 2] for a in VALUES for b in VALUES for c in VALUES]
CODES = [[count, code] for count in (8, 9) for code in (-1, 0, 1, 2)]


def in_triton(folder: Path, program: str, interpret: bool, given: object = None) -> str:
    """What a program prints that asks Triton's interpreter, or its compiler; either has a process of its own."""
    for name, source in (("plain", module(TREE)), ("coded", coded())):
        (folder / f"{name}.py").write_text(render_triton(source, "nvidia"), encoding="utf-8")
    (folder / "program.py").write_text(KERNELS + program, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": str(int(interpret)), "TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, str(folder / "program.py")],
        input=json.dumps(given), capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@needs_triton
def test_triton_interprets_the_same_trees(tmp_path: Path) -> None:
    numbers, codes = json.loads(in_triton(tmp_path, INTERPRET, True, {"numbers": NUMBERS, "codes": CODES}))
    columns = ("num_seqs", "max_seqlen_q", "max_seqlen_k", "causal")
    said = [ir.select(module(TREE), "nvidia", dict(zip(columns, row, strict=True))) for row in NUMBERS]
    assert numbers == [[a["TILE_SIZE"], int(bool(a["flag"]))] for a in said]
    names = ("unknown", "bf16", "fp8", "int8")
    for (count, code), (tile, variant) in zip(CODES, codes, strict=True):
        asked = [
            ir.select(coded(), "nvidia", {"num_seqs": count, "dtype": d}) for d in (names[code + 1], "int8")
        ]
        assert (tile, ("2d", "3d")[variant]) == (asked[0]["TILE_SIZE"], asked[1]["variant"])


@needs_triton
def test_triton_compiles_them_for_every_target(tmp_path: Path) -> None:
    assert in_triton(tmp_path, COMPILE, False) == "compiled\n"
