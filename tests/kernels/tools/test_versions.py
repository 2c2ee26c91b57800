"""Triton 3.6 to 3.9, which torch 2.10 to 2.15 bring: every kernel compiles, and launches go as each version expects.

The kernels run on GPUs with 3.6. `make versions` runs this file, and the compiling ahead of launches, with the others.
"""

from __future__ import annotations

import inspect
from itertools import product

import pytest
import triton
from heurgen_kernels.config import Config
from heurgen_kernels.gemm.defaults import default_fp8
from heurgen_kernels.heuristics import (
    matmul,
    matmul_fp8,
    paged_attention,
    paged_attention_amd,
    paged_attention_fp8,
)
from triton.backends.nvidia.driver import CudaLauncher

from tests.kernels.tools.compiling import asked
from tests.kernels.tools.proved import ALL
from tests.kernels.tools.test_fits import configs_of
from tests.kernels.tools.test_matmul_fits import FEATURES, FP8, defaults, shipped

# What `make fits` compiles with.
FITS = "3.6."
by_make_versions = pytest.mark.skipif(
    triton.__version__.startswith(FITS),
    reason="test_fits.py compiles with this one; `make versions` with others",
)
by_make_fits = pytest.mark.skipif(
    not ALL and triton.__version__.startswith(FITS),
    reason="compiled by `make fits`, with other Tritons by `make versions`",
)
# Each changes what is compiled.
LAYOUTS = [
    {}, {"fresh": True}, {"page_size": 128, "window": True, "sinks": True}, {"head_size": 256, "softcap": True},
    {"head_size": 64, "num_kv_heads": 32, "halves": True}, {"head_size": 96, "fresh": True},
    {"fp8": True, "fresh": True}, {"fp8": True, "decode": True},
]  # fmt: skip
WRITTEN = {"decode": True, "written": True, "query_tokens": 4}


def refused(what, target, found):
    """Lines that say what did not compile or has no room. Words that are spilled are of a version's assembler."""
    return "\n".join(
        f"{' '.join(map(str, config))} {shape}: {reason}"
        for (config, shape), (*_, reason) in zip(found, asked(what, target, found), strict=True)
        if reason is not None and not reason.startswith("spills")
    )


def one_of_each(configs):
    """The first config of each variant and block of rows."""
    return list({(config.variant, config.BLOCK_M): config for config in reversed(configs)}.values())


@by_make_versions
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "modules"),
    [
        ("sm_90", (paged_attention, paged_attention_fp8)), ("sm_80", (paged_attention,)),
        ("gfx942", (paged_attention_amd,)), ("gfx90a", (paged_attention_amd,)),
    ],
)  # fmt: skip
def test_attention_compiles(target, modules):
    configs = one_of_each([config for module in modules for config in configs_of(module)])
    apart = {"sm_90": (), "sm_80": ("fp8",)}.get(
        target, ("fp8", "head_size")
    )  # AMD's winners are of heads of 128
    layouts = [layout for layout in LAYOUTS if not layout.keys() & set(apart)]
    found = list(product(configs, layouts))
    found += [(Config("static_grid", 16, 64, 4, 2, 2), shape) for shape in ({"decode": True}, WRITTEN)]
    assert refused("attention", target, found) == ""


@by_make_versions
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "sm_80", "gfx942"])
def test_linear_layers_compile(target):
    vendor, processors = ("amd", 304) if target.startswith("gfx") else ("nvidia", 132)
    configs = one_of_each(defaults(vendor, processors) if vendor == "amd" else shipped(matmul))
    found = [
        (config, {"M": config.BLOCK_M + 1, **features}) for config, features in product(configs, FEATURES)
    ]
    if target == "sm_90":
        scaled = one_of_each(shipped(matmul_fp8) + defaults(vendor, processors, default_fp8))
        found += [
            (config, {"M": config.BLOCK_M + 1, **features}) for config, features in product(scaled, FP8)
        ]
    assert refused("product", target, found) == ""


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (Config("q_block", 16, 64, 4, 2), {"window": True}),
        (Config("static_grid", 16, 16, 1, 3, 64), {"decode": True}),
        *(
            pytest.param(*case, marks=by_make_fits)
            for case in (
                (Config("q_block", 64, 32, 4, 3), {"window": True}),
                (Config("q_block", 64, 32, 4, 3), {"page_size": 128}),
                (Config("split_kv", 16, 32, 2, 3, 4), {"window": True, "decode": True, "head_size": 256}),
                (Config("split_kv", 64, 64, 4, 3, 4), {"fresh": True}),
                (Config("static_grid", 16, 16, 1, 3, 64), WRITTEN | {"query_tokens": 1}),
                (Config("mixed", 64, 64, 4, 3, 4), {"window": True}),
            )
        ),
    ],
    ids=lambda value: "-".join(map(str, value[:3])) if isinstance(value, Config) else "-".join(value),
)
def test_keys_are_read_ahead_and_sixteen_bytes_at_once(config, shape):
    """Triton 3.7 to 3.9 read them number by number, and none ahead, in loops that begin at a number of the launch's."""
    (instructions,) = asked("instructions", "sm_90", [(config, shape)])
    assert instructions.count("LDGSTS.E.BYPASS.128") >= 16  # of K and of V, one stage and the loop's
    assert "LDG.E.U16" not in instructions


def test_what_all_threads_have_alike_is_known_to_be():
    """By Triton 3.8 and 3.9 the loops' ends were not: each product's descriptors were moved from registers (R2UR)."""
    (instructions,) = asked("instructions", "sm_90", [(Config("q_block", 64, 32, 4, 3), {"window": True})])
    assert "HGMMA" in instructions
    assert "R2UR" not in instructions


def test_words_of_fp8_pages_are_loaded_for_the_matrix_unit():
    """Triton 3.7 to 3.9 brought one of two results of the unpacking there through 2 KB of shared memory more."""
    found = asked(
        "attention", "sm_90", [(Config("split_kv", 16, 16, 1, 5, 4), {"fp8": True, "decode": True})]
    )
    assert found[0][0] == 12304


@by_make_fits
def test_weights_that_a_loop_carries_are_not_put_together_anew():
    """Numbers of 16 bits were, by Triton 3.7 to 3.9: the halves of a word exchanged (0x5432), in one consumer."""
    (instructions,) = asked("instructions", "sm_90", [(Config("warp_specialized", 128, 128, 4, 2), {})])
    assert "HGMMA" in instructions
    assert "0x5432" not in instructions


def test_the_launcher_takes_what_it_is_given():
    """`host.bound` calls it with (grid, stream, function, packed metadata, three that are None, arguments)."""
    names = list(inspect.signature(CudaLauncher.__call__).parameters)
    assert names[:6] == ["self", "gridX", "gridY", "gridZ", "stream", "function"]
    later = ["kernel_metadata", "launch_metadata", "launch_enter_hook", "launch_exit_hook"]
    assert names[6:] == [*([] if triton.__version__.startswith(FITS) else later), "args"]
