"""torch.compile's own reader asks the generated class: on a graph of fake matrices, and 10,000 times as a tree."""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.render import registry
from heurgen.render.target import Request
from tests.support.random_rows import random_rows

LEAF = ir.Leaf
NAMES = ("type", "BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")
CONFIGS: tuple[ir.Config, ...] = (
    ("triton", 16, 64, 128, 4, 4),
    ("triton", 128, 128, 64, 3, 8),
    ("cublas", None, None, None, None, None),
)


def module() -> ir.HeuristicModule:
    features = (
        *(ir.Feature(n, "int", low=1, high=8192) for n in ("M", "K", "N")),
        ir.Feature("dtype", "category", values=("bf16", "fp16")),
    )
    small = ir.Membership("dtype", ("bf16",), ("fp16",), False, LEAF(0), LEAF(2))
    tree = ir.Split("M", 64, small, ir.Split("work", 2.0**31, LEAF(1), LEAF(2)))
    parameters = (
        ir.Parameter("type", "category"),
        *(ir.Parameter(n, "int", optional=True) for n in NAMES[1:]),
    )
    selector = ir.Selector("nvidia", NAMES, CONFIGS, tree, devices=("NVIDIA H200",))
    return ir.HeuristicModule("mm", features, parameters, (selector,), (ir.Derived("work", "M * K * N"),))


TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec(
    "torch._inductor.lookup_table"
)
needs_torch = pytest.mark.skipif(
    not TORCH, reason="no torch with torch._inductor.lookup_table (2.11 or later)"
)


def loaded(source: ir.HeuristicModule, **names: str) -> dict[str, Any]:
    text = registry.emit(source, "inductor", Request(names=names)).files[""]
    space: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "<generated>", "exec", dont_inherit=True), space)
    return space


@needs_torch
def test_ten_thousand_shapes() -> None:
    space, source = loaded(module()), module()
    for row in random_rows(source, typed=False):
        leaf = ir.find_leaf(source.selectors[0].tree, ir.with_derived(source, row))
        assert space["choose"](**row) == leaf.config


@pytest.fixture
def inputs() -> Any:
    """A maker of PyTorch's own inputs, inside a graph."""
    import torch
    from torch._inductor.graph import GraphLowering
    from torch._inductor.ir import FixedLayout, InputBuffer
    from torch._inductor.kernel_inputs import MMKernelInputs
    from torch._inductor.virtualized import V

    def matrix(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> InputBuffer:
        return InputBuffer(name=name, layout=FixedLayout(torch.device("cuda", 0), dtype, list(shape)))

    def made(m: int, n: int, k: int, dtype: torch.dtype, batch: tuple[int, ...] = ()) -> MMKernelInputs:
        return MMKernelInputs([matrix("a", (*batch, m, k), dtype), matrix("b", (*batch, k, n), dtype)])

    with V.set_graph_handler(GraphLowering(torch.fx.symbolic_trace(lambda x: x))):
        yield made


@needs_torch
def test_the_class_answers_pytorch(inputs: Any) -> None:
    import torch

    choices = loaded(module())["Choices"]()
    uids = ["aten::mm", "triton::mm", "triton::mm_persistent_tma"]
    found = choices.lookup_template_configs(inputs(16, 4096, 1000, torch.bfloat16), "mm", uids)
    wanted = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "num_stages": 4, "num_warps": 4, "EVEN_K": False}
    assert found == {"triton::mm": [wanted]}
    found = choices.lookup_template_configs(inputs(16, 4096, 1024, torch.bfloat16), "mm", uids)
    assert found["triton::mm"][0]["EVEN_K"] is True
    # what the library does better is left to it; what is not on offer is tuned as usual
    assert choices.lookup_template_configs(inputs(16, 4096, 1000, torch.float16), "mm", uids) == {
        "aten::mm": [{}]
    }
    assert choices.lookup_template_configs(inputs(16, 4096, 1024, torch.bfloat16), "mm", ["aten::mm"]) == {}
    batched = choices.lookup_template_configs(
        inputs(128, 64, 64, torch.float32, (4,)), "bmm", ["aten::bmm", "triton::bmm"]
    )
    assert batched["triton::bmm"][0]["BLOCK_M"] == 128


@needs_torch
def test_pytorch_makes_its_choices_of_the_answer(inputs: Any) -> None:
    """`_finalize_template_configs`, PyTorch's own reader: what it would compile, without tuning."""
    import torch
    import torch._inductor.config as config
    from torch._inductor.kernel import mm
    from torch._inductor.virtualized import V

    choices = loaded(module())["Choices"]()
    templates = [mm.aten_mm, mm.mm_template]
    with V.set_choices_handler(choices), config.patch(max_autotune=True):
        for k, even in ((1024, True), (1000, False)):
            (made,) = choices._finalize_template_configs(
                {}, inputs(16, 4096, k, torch.bfloat16), templates, "mm"
            )
            assert made.template.uid == "triton::mm"
            found = made.params.to_kwargs()
            wanted = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "num_stages": 4, "num_warps": 4}
            # the rest is PyTorch's
            assert found == {**found, **wanted, "EVEN_K": even, "GROUP_M": 8, "ACC_TYPE": "tl.float32"}
        (made,) = choices._finalize_template_configs({}, inputs(16, 64, 64, torch.float16), templates, "mm")
        assert made.template.uid == "aten::mm"


@needs_torch
@pytest.mark.parametrize("name", ["mm", "bias_addmm", "_scaled_mm", "bmm_dtype", "extern_mm"])
def test_kernels_of_aten_by_the_names_that_pytorch_logs(inputs: Any, name: str) -> None:
    import torch

    selector = ir.Selector("nvidia", ("type",), ((name,),), LEAF(0))
    source = ir.HeuristicModule(
        "mm", (ir.Feature("M", "int"),), (ir.Parameter("type", "category"),), (selector,)
    )
    choices = loaded(source)["Choices"]()
    uids = ["aten::mm", "triton::mm"]
    found = choices.lookup_template_configs(inputs(16, 64, 64, torch.bfloat16), "mm", uids)
    assert found == {"aten::mm": [{}]}


@needs_torch
def test_many_shapes_through_pytorch(inputs: Any) -> None:
    import torch

    source = module()
    choices, rng = loaded(source)["Choices"](), random.Random(0)
    for _ in range(300):
        m, n, k = (rng.choice((1, 63, 64, 65, int(2 ** rng.uniform(0, 13)))) for _ in range(3))
        dtype = rng.choice(("bf16", "fp16"))
        expected = ir.select(source, "nvidia", {"M": m, "N": n, "K": k, "dtype": dtype})
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
        found = choices.lookup_template_configs(inputs(m, n, k, kind), "mm", ["aten::mm", "triton::mm"])
        if expected.pop("type") == "cublas":
            assert found == {"aten::mm": [{}]}
        else:
            assert found == {"triton::mm": [{**expected, "EVEN_K": k % int(str(expected["BLOCK_K"])) == 0}]}


@needs_torch
def test_pytorch_makes_the_class_from_its_config() -> None:
    import torch._inductor.config as config
    from torch._inductor.choices import InductorChoices

    space = loaded(module())
    made = config.patch(inductor_choices_class=space["Choices"])
    with made:
        found = config.inductor_choices_class()
    assert isinstance(found, InductorChoices)
    assert found.uuid() == space["UUID"]
    assert found.uuid().startswith("heurgen-")


@needs_torch
def test_another_selector_or_field_is_another_uuid() -> None:
    """PyTorch's cache would give graphs that were compiled for the other device's choices."""
    source = module()
    own = replace(source.selectors[0], device="NVIDIA B200", tree=LEAF(1))
    both = replace(source, selectors=(*source.selectors, own))
    requests = (Request(), Request(device="NVIDIA B200"), Request(names={"N": "M", "M": "N"}))
    texts = [registry.emit(both, "inductor", request).files[""] for request in requests]
    found = {re.search(r'^UUID = "(.*)"$', text, re.M)[1] for text in texts}  # type: ignore[index]
    assert len(found) == len(texts)
    assert registry.emit(both, "inductor", Request()).files[""] == texts[0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {},
            "the feature 'num_tokens' is nothing that PyTorch knows of a matrix product "
            "(it knows M, N, K, batch, dtype, op: --map M=num_tokens says that a feature is one of them; "
            "leave others out of the spec, and train again)",
        ),
        ({"X": "num_tokens"}, "--map names 'X' (PyTorch knows M, N, K, batch, dtype, op)"),
    ],
)
def test_features_that_pytorch_does_not_know(names: dict[str, str], message: str) -> None:
    blocks = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
    selector = ir.Selector("nvidia", blocks, ((16, 64, 64),), LEAF(0))
    parameters = tuple(ir.Parameter(name, "int") for name in blocks)
    source = ir.HeuristicModule("mm", (ir.Feature("num_tokens", "int"),), parameters, (selector,))
    with pytest.raises(EmitError) as caught:
        registry.emit(source, "inductor", Request(names=names))
    assert str(caught.value) == message
    assert registry.emit(source, "inductor", Request(names={"M": "num_tokens"})).files
    assert registry.emit(replace(source, features=(ir.Feature("m", "int"),)), "inductor", Request()).files


def test_block_sizes_by_other_names_are_refused() -> None:
    """PyTorch put its own first config's in their place, with this model's num_warps, and compiled that."""
    said = {"BLOCK_M": "BLOCK_SIZE_M"}
    parameters = tuple(replace(p, name=said.get(p.name, p.name)) for p in module().parameters)
    own = tuple(said.get(name, name) for name in NAMES)
    source = replace(
        module(), parameters=parameters, selectors=(replace(module().selectors[0], parameters=own),)
    )
    with pytest.raises(EmitError) as caught:
        registry.emit(source, "inductor", Request())
    assert str(caught.value) == (
        "PyTorch's template mm needs BLOCK_M, which the model does not choose (call the parameters BLOCK_M, BLOCK_N, "
        "BLOCK_K in the spec, and train again; a parameter called template_id says that a config is of another "
        "template)"
    )
    other = tuple(("triton::tuned", *c[1:]) for c in CONFIGS)  # a template's id: its names are its own
    selector = replace(source.selectors[0], configs=other)
    assert registry.emit(replace(source, selectors=(selector,)), "inductor", Request()).files


def test_dtypes_of_a_model_are_found_by_pytorch_s_names() -> None:
    source = module()
    values = ("torch.bfloat16", "fp16", "float32", "torch.half")
    features = (*source.features[:3], ir.Feature("dtype", "category", values=values))
    selector = replace(source.selectors[0], tree=LEAF(0))
    text = registry.emit(
        replace(source, features=features, selectors=(selector,)), "inductor", Request()
    ).files[""]
    assert 'DTYPES: dict[str, str] = {"bfloat16": "torch.bfloat16", "float16": "torch.half"}\n' in text


def test_other_spellings_of_a_dtype_are_found_by_pytorch_s_names_too() -> None:
    """PyTorch's float8_e4m3fn was unknown to a model that knows torch.float8_e4m3fn as another spelling of e4m3."""
    aliases = (("torch.float8_e4m3fn", "e4m3"), ("bfloat16", "bf16"))
    dtype = ir.Feature("dtype", "category", values=("e4m3", "bf16"), aliases=aliases)
    selector = replace(module().selectors[0], tree=LEAF(0))
    source = replace(module(), features=(*module().features[:3], dtype), selectors=(selector,))
    text = registry.emit(source, "inductor", Request()).files[""]
    assert 'DTYPES: dict[str, str] = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3"}\n' in text


def test_mypy_strict_accepts_features_of_several_types(tmp_path: Path) -> None:
    """With what the module uses of torch as torch types it: mypy on torch itself takes a quarter of a minute."""
    used = tmp_path / "torch/_inductor"
    (used / "lookup_table").mkdir(parents=True)
    (used / "lookup_table/choices.pyi").write_text("class LookupTableChoices: ...\n")
    (used / "kernel_inputs.pyi").write_text(
        "from typing import Any\nclass MMKernelInputs:\n    device_type: str\n    _mat1_idx: int\n"
        "    def mat1mat2(self) -> tuple[Any, Any]: ...\n    def mnk_hinted(self) -> tuple[int, int, int]: ...\n"
        "    def shapes_hinted(self) -> tuple[tuple[int, ...], ...]: ...\n"
    )
    for folder in (tmp_path / "torch", used, used / "lookup_table"):
        (folder / "__init__.pyi").touch()
    (tmp_path / "choices.py").write_text(registry.emit(module(), "inductor", Request()).files[""])
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", ".cache"]
    done = subprocess.run([*command, "choices.py"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_module_says_how_to_use_it() -> None:
    text = registry.emit(module(), "inductor", Request()).files[""]
    assert text[text.index('"""') :].split('"""')[1].split("\n") == [
        "Configs of matrix products on nvidia, for torch.compile.",
        "",
        "    torch._inductor.config.inductor_choices_class = Choices",
        "",
        "A product gets the one config that the tree chooses, without tuning. The features:",
        "",
        "    M: int, 1 to 8192 in training",
        "    K: int, 1 to 8192 in training",
        "    N: int, 1 to 8192 in training",
        "    dtype: bf16 | fp16",
        "",
        "Every input gets an answer. NaN fails every `x <= t`, so it takes the other branch. A category that training",
        "never saw gets a config that succeeded under every known one, if any did. A zero divisor gives 0.",
        "",
    ]
