"""The module that @triton.autotune takes: a real kernel autotuned with it in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heurgen import ir
from heurgen.render.triton_autotune import render_triton_autotune, shortlist
from tests.render.examples import by_device

LEAF = ir.Leaf
NAMES = ("BLOCK_M", "BLOCK_N", "num_warps", "waves_per_eu")


def module() -> ir.HeuristicModule:
    features = tuple(ir.Feature(n, "int", low=1, high=4096) for n in ("M", "N"))
    types = [ir.Parameter(n, "int", optional=n == "waves_per_eu") for n in NAMES]
    configs = ((8, 16, 1, None), (16, 16, 2, None), (32, 8, 4, None), (64, 64, 8, None))
    tree = ir.Split("M", 16, LEAF(0), ir.Split("N", 20, LEAF(1), LEAF(2)))
    return ir.HeuristicModule("scale", features, tuple(types), (ir.Selector("nvidia", NAMES, configs, tree),))


# Both programs run in one process: to import torch and Triton takes longer than either.
PROGRAM = """
import sys, torch, triton, triton.language as tl
sys.path.insert(0, sys.argv[1])
from tuned import CONFIGS, HEURISTICS, KEY, PRUNE_CONFIGS_BY, prune_configs_by

tried = []
def bench(call, quantiles):
    tried.append(1)
    call()
    return [1.0, 1.0, 1.0]

@triton.jit
def body(x, out, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (columns < N)
    tl.store(out + rows * N + columns, 2 * tl.load(x + rows * N + columns, mask=mask), mask=mask)

kernel = triton.autotune(configs=CONFIGS, key=KEY, prune_configs_by=PRUNE_CONFIGS_BY, do_bench=bench)(body)
by_shape = prune_configs_by(lambda a: {"M": a["x"].shape[0], "N": a["N"]})
own = triton.autotune(configs=CONFIGS, key=["M"], do_bench=bench, prune_configs_by=by_shape)(body)
fixed = triton.heuristics(HEURISTICS)(body)

def grid(meta):
    return (triton.cdiv(meta["M"], meta["BLOCK_M"]), triton.cdiv(meta["N"], meta["BLOCK_N"]))

for M, N in ((5, 40), (17, 20), (40, 33)):
    for launch in (kernel, own, fixed):
        tried.clear()
        x, out = torch.randn(M, N), torch.zeros(M, N)
        launch[grid](x, out, M, N)
        assert torch.equal(out, 2 * x)
        if launch is not fixed:
            best = launch.best_config
            print(M, N, len(CONFIGS), len(tried), best.kwargs, best.num_warps)
"""
needs_triton = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("triton", "torch"))), reason="triton and torch are not installed"
)


BENCHMARK = """
print("---")
from pathlib import Path
import benchmarks.autotune as autotune

def bench(call, quantiles):
    call()
    return [2.0, 2.0, 2.0]

example = autotune.loaded(Path("examples/matmul.py"))
space = [{"BLOCK_M": m, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2} for m in (16, 32, 64)]
tuned = autotune.loaded(Path(sys.argv[1], "matmul_tuned.py"))
shapes = ((20, 33, 40), (100, 40, 64))
print(autotune.report(autotune.compared(example.kernel, autotune.all_configs(space), tuned, shapes, bench, "cpu")))
"""


def matmul() -> ir.HeuristicModule:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    features = tuple(ir.Feature(n, "int") for n in ("M", "N", "K"))
    configs = ((16, 32, 32, 4, 2), (64, 32, 32, 4, 2))
    selector = ir.Selector("nvidia", names, configs, ir.Split("M", 64, LEAF(0), LEAF(1)))
    return ir.HeuristicModule("matmul", features, tuple(ir.Parameter(n, "int") for n in names), (selector,))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The lines of PROGRAM and those of BENCHMARK."""
    folder, root = tmp_path_factory.mktemp("tuned"), Path(__file__).parents[2]
    for name, source in (("tuned", module()), ("matmul_tuned", matmul())):
        (folder / f"{name}.py").write_text(render_triton_autotune(source, source.selectors[0]))
    (folder / "program.py").write_text(PROGRAM + BENCHMARK)
    done = subprocess.run(
        [sys.executable, str(folder / "program.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [part.splitlines() for part in done.stdout.split("---\n", 1)]


@needs_triton
def test_a_kernel_is_autotuned_with_the_one_choice(printed: list[list[str]]) -> None:
    expected = [
        "5 40 3 1 {'BLOCK_M': 8, 'BLOCK_N': 16} 1",
        "17 20 3 1 {'BLOCK_M': 16, 'BLOCK_N': 16} 2",
        "40 33 3 1 {'BLOCK_M': 32, 'BLOCK_N': 8} 4",
    ]
    assert printed[0] == [line for line in expected for _ in range(2)]


@needs_triton
def test_the_comparison_with_the_full_autotune(printed: list[list[str]]) -> None:
    """benchmarks/autotune.py in the interpreter: what it counts, and that both launches are right."""
    lines = printed[1]
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["20x33x40", "3", "/", "1"],
        ["100x40x64", "3", "/", "1"],
    ]
    assert lines[3] == "tried 6 / 2; time 1.000x, worst 1.000x"


def test_a_leaf_without_a_shortlist_lists_its_choice() -> None:
    assert shortlist(LEAF(2)) == (2,)


def test_only_configs_that_a_leaf_lists_are_written() -> None:
    text = render_triton_autotune(module(), module().selectors[0])
    assert text.count("    triton.Config(") == 3
    assert '    triton.Config({"BLOCK_M": 8, "BLOCK_N": 16}, num_warps=1),\n' in text
    assert '{"BLOCK_M": 64' not in text
    assert "waves_per_eu" not in text.split("PROVENANCE")[0].split("VALUES")[1]


def test_an_optional_parameter_is_left_out_of_a_config() -> None:
    source = by_device()
    text = render_triton_autotune(source, source.selector("amd"))
    said = "Not among HEURISTICS, since a config leaves it out: waves_per_eu. The kernel's default stands.\n"
    assert said in text
    assert "Not among HEURISTICS" not in render_triton_autotune(source, source.selector("nvidia"))
    assert '    triton.Config({"variant": "2d", "TILE_SIZE": 16}, num_warps=4),\n' in text
    assert '    triton.Config({"variant": "3d", "TILE_SIZE": 64, "waves_per_eu": 2}, num_warps=8),\n' in text
