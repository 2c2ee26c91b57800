"""Cross-compilation of `matmul` without a GPU: what the selector and the defaults return fits and spills nothing."""

from __future__ import annotations

from itertools import product

import pytest
from heurgen_kernels.gemm.config import Config, normalise
from heurgen_kernels.gemm.defaults import default_config, default_fp8
from heurgen_kernels.gemm.plan import RESERVED, adapted, step_bytes
from heurgen_kernels.heuristics import matmul, matmul_fp8
from heurgen_kernels.tools.matmul_fits import Shape, meta_product
from heurgen_kernels.tools.matmul_tunable import FORMS

from tests.kernels.tools.compiling import asked
from tests.kernels.tools.proved import STEP, by_make_fits

# N 4093: rows of the output that are not aligned, which no descriptor can write.
FEATURES = [
    {}, {"bias": True, "residual": True}, {"gated": True, "bias": True}, {"K": 4104},
    {"N": 4093, "bias": True, "residual": True},
]  # fmt: skip


# A scale of all is one of rows. N 4064, gated: the up projection begins within a block.
FP8 = [
    {"scaled": "row"}, {"scaled": "row", "bias": True, "residual": True}, {"scaled": "row", "gated": True},
    {"scaled": "block"}, {"scaled": "block", "gated": True, "bias": True}, {"scaled": "block", "K": 4104, "N": 4093},
    {"scaled": "block", "gated": True, "N": 4064},
]  # fmt: skip


def shipped(module=matmul):
    """How much K is cut in numbers is no part of a kernel: each config whole, cut and streamed as it can come to be."""
    found = {normalise(value) for name, value in vars(module).items() if name.startswith("_CONFIG_")}
    whole = {config._replace(num_splits=1, programs_per_sm=0) for config in found}
    return sorted(found | whole, key=str)


def defaults(vendor, processors, guess=default_config):
    sizes = product((1, 17, 33, 100, 300, 5000), (1024, 4096, 28672), (1024, 8192), (False, True))
    found = {
        guess(vendor=vendor, M=m, N=n, K=k, gated=gated, multiprocessors=processors)
        for m, n, k, gated in sizes
    }
    return sorted({config._replace(num_splits=min(config.num_splits, 2)) for config in found}, key=str)


def forms(*variants):
    """The forms of these variants in the tunable's space, whole and, where they can be, cut."""
    return [
        Config(variant, *values, 1, min(per, 1))
        for variant in variants
        for values, programs in FORMS[variant]
        for per in sorted({min(per, 1) for per in programs})
    ]


def cases(configs, kinds=FEATURES):
    """Rows that one tile holds and rows of two; every feature."""
    return [
        (config, {"M": config.BLOCK_M + more, **features})
        for config, more, features in product(configs, (0, 1), kinds)
    ]


def unfit(target, found):
    """Lines that say which config fails where, and why; "" where all fit."""
    found = found[::STEP]
    results = asked("product", target, found)
    return "\n".join(
        f"{' '.join(map(str, config))} {shape}: {reason}"
        for (config, shape), (shared, registers, _, reason) in zip(found, results, strict=True)
        if reason is not None or not registers or shared < 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", pytest.param("sm_80", marks=by_make_fits)])
def test_what_the_selector_returns_fits(target):
    assert unfit(target, cases(shipped() + defaults("nvidia", 132))) == ""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", pytest.param("sm_80", marks=by_make_fits)])
def test_what_is_chosen_for_fp8_weights_fits(target):
    assert unfit(target, cases(shipped(matmul_fp8) + defaults("nvidia", 132, default_fp8), FP8)) == ""


def taken(config, shape, target="sm_89"):
    """(what a target launches in the place of a config, the bytes of shared memory that it may take)."""
    call = meta_product(Shape(**shape), target)
    launched = adapted(config, call)
    return launched, (launched.num_stages - 1) * step_bytes(launched, call)


def apart(found, target):
    """Of cases those that a target launches something else for, once each."""
    return list({(taken(*case, target)[0], *case[1].items()): case for case in found}.values())


def chosen():
    found = cases(shipped() + defaults("nvidia", 132))
    return found + cases(shipped(matmul_fp8) + defaults("nvidia", 132, default_fp8), FP8)


@by_make_fits
@pytest.mark.slow
def test_all_that_is_chosen_fits_99_kb():
    """Scales of blocks cost up to four words: of both projections in what stands for warp_specialized's 64 rows and,
    with a bias, in 16 x 64 of two warps; in 32 x 64. K of 4104, counted in eights, costs six in 64 x 64.
    """
    found = apart(chosen(), "sm_89")[::STEP]
    for (config, shape), (shared, _, spills, _) in zip(found, asked("product", "sm_89", found), strict=True):
        assert 0 <= shared <= 101376, (config, shape)
        few = 4 if shape.get("scaled") == "block" else 6 if shape.get("K") == 4104 else 0
        assert spills <= few, (config, shape)


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_86", "sm_100", "sm_120"])
def test_some_of_what_is_chosen_fits_where_nobody_measured(target):
    """A few spill two words."""
    found = apart(chosen(), target)[::16]
    for (config, shape), (_, _, spills, reason) in zip(found, asked("product", target, found), strict=True):
        assert spills <= 2, (config, shape)
        assert reason is None or "spills" in reason, (config, shape)


ROOM = [
    (Config("stream_k", 16, 32, 256, 4, 5), {"gated": True}), (Config("stream_k", 16, 32, 256, 4, 5), {}),
    (Config("stream_k", 16, 128, 128, 4, 4), {"gated": True, "scaled": "row"}),
    (Config("stream_k", 16, 64, 128, 4, 6), {"gated": True, "scaled": "block", "N": 4064}),
    (Config("vector", 2, 16, 512, 8, 4), {"gated": True}), (Config("stream_k", 256, 256, 64, 8, 4), {"residual": True}),
]  # fmt: skip


@pytest.mark.slow
def test_stages_take_what_steps_take():
    """Those that sm_80 has room for and sm_89 has not are among them; but for a few times RESERVED it is exact."""
    for (config, shape), (shared, _, _, reason) in zip(ROOM, asked("product", "sm_89", ROOM), strict=True):
        assert -RESERVED <= taken(config, shape)[1] - shared <= 4 * RESERVED, (config, shape)
        assert reason is None, (config, shape)


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize(("target", "processors"), [("gfx942", 304), ("gfx90a", 104)])
def test_fp8_weights_fit_on_amd(target, processors):
    """e4m3fn, which CDNA 3 has no instructions for (its own numbers are e4m3fnuz): taken apart by the compiler."""
    assert unfit(target, cases(defaults("amd", processors), FP8)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "sm_80", "gfx942", "gfx90a"])
def test_forms_for_few_rows_fit(target):
    """Those of descriptors become stream_k where there are none."""
    assert unfit(target, cases(forms("vector", "stream_k_tma"))) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "processors"), [("gfx942", 304), ("gfx90a", 104)])
def test_what_amd_can_launch_fits(target, processors):
    assert unfit(target, cases(defaults("amd", processors))) == ""


@by_make_fits
@pytest.mark.parametrize(
    ("rows", "width", "splits"),
    [(128, 256, 0), (128, 160, 1), (64, 64, 1), (64, 80, 1), (64, 144, 0), (64, 256, 1)],
)
def test_no_form_of_a_tile_needs_more_room_than_there_is(rows, width, splits):
    config = Config("warp_specialized", rows, width, 64, 4, 12, 1, splits)
    assert unfit("sm_90", [(config, {"M": 300, "bias": True, "residual": True})]) == ""


@by_make_fits
@pytest.mark.parametrize("size", [4098, 4100, 4101])
@pytest.mark.parametrize("rows", [32, 64])
@pytest.mark.parametrize(
    "features",
    [
        {"bias": True, "residual": True},
        {"bias": True, "residual": True, "N": 8200},
        {"bias": True, "gated": True},
        {"bias": True, "gated": True, "scaled": "block", "N": 4093},
    ],
    ids=str,
)
def test_tiles_of_rows_that_no_descriptor_reads_fit_in_parts(rows, size, features):
    config = Config("warp_specialized", rows, 128, 64, 4, 12)
    assert unfit("sm_90", [(config, {"M": rows + 1, "K": size, **features})]) == ""


@by_make_fits
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("size", [4098, 4100])
@pytest.mark.parametrize(
    "features", [{"bias": True, "residual": True}, {"bias": True, "gated": True}], ids=str
)
def test_rows_of_words_fit_elsewhere(target, size, features):
    for config in (Config("warp_specialized", 128, 128, 64, 4, 12), Config("stream_k", 16, 64, 64, 4, 4, 2)):
        assert unfit(target, [(config, {"M": config.BLOCK_M + 1, "K": size, **features})]) == ""


def test_the_copies_and_what_reads_them_fit():
    """Hopper's alone: elsewhere nothing is copied."""
    ((shared, registers, spills, reason),) = asked("padding", "sm_90", [(None, {})])
    assert (shared, spills, reason) == (0, 0, None)
    assert registers
    special = Config("warp_specialized", 128, 256, 64, 4, 12)
    assert unfit("sm_90", [(special, {"M": 300, "N": 5000, "K": 3000, "bias": True, "residual": True})]) == ""
