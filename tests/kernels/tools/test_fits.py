"""Cross-compilation without a GPU: what the selectors can return fits shared memory and registers, no spills.

See `proved.py` for what is compiled when.
"""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest
from heurgen_kernels.config import Config, normalise
from heurgen_kernels.defaults import GRAPH, default_config
from heurgen_kernels.heuristics import paged_attention, paged_attention_amd, paged_attention_fp8
from heurgen_kernels.host.nearest import RESERVED, adapted, shared_memory
from heurgen_kernels.host.segments import SEGMENTS, with_segments
from heurgen_kernels.tools.fits import SHARED_LIMIT, Shape, meta_call

from benchmarks.gpu_check import unproved
from tests.kernels.tools.compiling import asked
from tests.kernels.tools.proved import STEP, by_make_fits

ROOT = Path(__file__).parents[3]


def configs_of(module):
    """What every config that a generated module can return comes to: keys cut into so many parts that a second launch
    combines them, or not cut. How many parts there are is no part of a kernel.
    """
    found = [normalise(value) for name, value in vars(module).items() if name.startswith("_CONFIG_")]
    cut = {with_segments(config, SEGMENTS[-1]) for config in found if config.programs_per_sm}
    return sorted(cut | {with_segments(config, 1) for config in found}, key=str)


def defaults_of(head_size):
    """What the documented default can return on AMD. How many segments there are is no part of a kernel."""
    found = {
        default_config(
            vendor="amd", num_seqs=seqs, total_query_tokens=seqs * q, max_seqlen_q=q, max_seqlen_k=max(q, k),
            total_seqlen_k=seqs * max(q, k),
            avg_seqlen_q=float(q), num_query_heads=32, num_kv_heads=8, head_size=head_size, page_size=16,
            dtype="bfloat16", fresh=False, multiprocessors=304, window=1 << 30, softcap=False, sinks=False,
        )
        for seqs, q, k in product((2**i for i in range(10)), (1, 64, 8192), (2**i for i in range(4, 18)))
    }  # fmt: skip
    return sorted({config._replace(num_segments=min(config.num_segments, 2)) for config in found}, key=str)


def cases(configs, pages=(16,), decodes=(False, True), **more):
    """Each config with the layouts that change its kernel; decodes have code of their own in some."""
    return [
        (config, {"page_size": page, "fresh": fresh, "decode": decode, **more})
        for config, page, fresh in product(configs, pages, (False, True))
        for decode in (decodes if config.variant in ("split_kv", "static_grid") else (False,))
    ]


def unfit(target, found):
    """Lines that say which config fails where, and why; "" where all fit."""
    found = found[::STEP]
    results = asked("attention", target, found)
    return "\n".join(
        f"{' '.join(map(str, config))} {shape}: {reason}"
        for (config, shape), (shared, registers, _, reason) in zip(found, results, strict=True)
        if reason is not None or not shared or not registers
    )


def test_all_cases_are_recorded_to_fit():
    record = json.loads((ROOT / "benchmarks/fits.json").read_text())
    assert not unproved(record), "run `make fits`"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx90a", marks=by_make_fits)])
def test_what_amd_can_launch_fits(target):
    found = cases(configs_of(paged_attention_amd))
    found += cases(defaults_of(128), decodes=(True,))
    found += cases(defaults_of(256), decodes=(True,), head_size=256)
    assert unfit(target, found) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "page"),
    [
        ("sm_90", 16),
        pytest.param("sm_90", 128, marks=by_make_fits),
        pytest.param("sm_80", 16, marks=by_make_fits),
    ],
)
def test_what_the_nvidia_selector_returns_fits(target, page):
    assert unfit(target, cases(configs_of(paged_attention), (page,))) == ""


def taken(config, shape, target):
    """(what a target launches in the place of a config, the bytes of shared memory that it may take)."""
    call = meta_call(Shape(**shape), target)
    launched = adapted(config, call)
    return launched, shared_memory(launched, call)


def of_little_room(found, target):
    """Of cases each kernel of a target that may take over three quarters of its shared memory, and every tenth of the
    others, which compile as they do for sm_80, but for sm_100.
    """
    kernels = {}
    for config, shape in found:
        launched, size = taken(config, shape, target)
        kernels.setdefault((launched, *shape.items()), (4 * size > 3 * SHARED_LIMIT[target], config, shape))
    near = [(config, shape) for close, config, shape in kernels.values() if close]
    return near + [(config, shape) for close, config, shape in kernels.values() if not close][::10]


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize("head_size", [64, 96, 128, 256])
@pytest.mark.parametrize(("target", "most"), [("sm_86", 8), ("sm_89", 8), ("sm_100", 12), ("sm_120", 8)])
def test_all_that_is_launched_fits_where_nobody_measured(target, most, head_size):
    """Of heads up to 128 some cases spill a few words; nobody has measured what those of 256 spill. Every third of
    sm_86 and sm_120, which run what sm_89 does, and of sm_100.
    """
    found = cases(configs_of(paged_attention), head_size=head_size)
    found += cases(configs_of(paged_attention_fp8), head_size=head_size, fp8=True)
    found = of_little_room(found, target)[:: 1 if target == "sm_89" else 3]
    results = asked("attention", target, found)
    for (config, shape), (shared, _, spills, reason) in zip(found, results, strict=True):
        assert shared > 0
        assert reason is None or "spills" in reason, (config, shape)
        assert spills <= most or head_size > 128, (config, shape)


ROOM = [
    (Config("q_block", 16, 128, 4, 2), {"head_size": 256}), (Config("q_block", 64, 64, 4, 3), {"head_size": 256}),
    (Config("q_block", 64, 32, 4, 3), {"head_size": 256, "fresh": True}),
    (Config("split_kv", 16, 32, 2, 5, 2), {"decode": True}), (Config("q_block", 16, 128, 4, 2), {"fp8": True}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_89", pytest.param("sm_120", marks=by_make_fits)])
def test_shared_memory_is_what_a_program_takes(target):
    """Those that sm_80 has room for and sm_89 has not are among them; but for RESERVED it is exact."""
    for (config, shape), (shared, _, _, reason) in zip(ROOM, asked("attention", target, ROOM), strict=True):
        launched, size = taken(config, shape, target)
        assert 0 <= size - shared <= 4 * launched.TILE_SIZE < RESERVED, (config, shape)
        assert reason is None or "spills" in reason, (config, shape)


@by_make_fits
@pytest.mark.slow
def test_prompts_have_room_in_tensor_memory_and_no_instruction_of_hopper_alone():
    """On sm_100, where sums of 64 rows lie in tensor memory: of heads of 256 they fill it."""
    found = [
        (Config("warp_specialized", 128, 128, 4, 2), {"fresh": True}),
        (Config("mixed", 128, 128, 4, 2, 1), {"head_size": 256, "softcap": True}),
    ]
    assert [reason for *_, reason in asked("attention", "sm_100", found)] == [None, None]
    (code,) = asked("instructions", "sm_100", found[:1])
    assert "UTCHMMA" in code
    assert "HGMMA" not in code


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "module"), [("sm_90", paged_attention_fp8), ("gfx942", paged_attention_amd)]
)
def test_fp8_caches_fit_but_for_four_words(target, module):
    """CDNA 3 has numbers of its own; sm_80 and CDNA 2 (where LLVM gives up) have none. Four words: blocks of 64 rows
    and 32 keys, see `plan.register_cap`. warp_specialized runs the kernel of a 16-bit cache.
    """
    configs = [config for config in configs_of(module) if config.variant != "warp_specialized"]
    found = [(config, shape) for config, shape in cases(configs, fp8=True) if not shape["fresh"]]
    results = asked("attention", target, found)
    for (config, _), (shared, _, spills, reason) in zip(found, results, strict=True):
        assert shared > 0
        few = (config.BLOCK_M, config.TILE_SIZE) == (64, 32) and 0 < spills <= 4
        assert few or reason is None, (config, reason)


@by_make_fits
@pytest.mark.slow
def test_small_heads_of_fp8_caches_fit():
    layouts = [{"head_size": size, "decode": True, "fp8": True} for size in (16, 24)]
    assert unfit("sm_90", [(Config("split_kv", 16, 64, 4, 2, 4), layout) for layout in layouts]) == ""


@by_make_fits
@pytest.mark.slow
def test_warp_specialized_fits_with_each_feature():
    """Heads up to 128; of heads of 256 some words are spilled once an item, outside the loop over the keys: below.

    Under a window, in tiles of 128 keys from pages of 16, two words once a program, before the first item.
    """
    layouts = [
        {"head_size": 128, "window": True},
        {"head_size": 128, "softcap": True, "fresh": True},
        {"head_size": 64, "num_query_heads": 64, "window": True, "sinks": True},
        {"head_size": 96, "halves": True},
    ]
    configs = [Config("warp_specialized", 128, 128, 4, 2, 1), Config("warp_specialized", 128, 64, 4, 3, 2)]
    windowed, *others = [(config, layout) for config in configs for layout in layouts]
    assert unfit("sm_90", others) == ""
    ((shared, _, spills, _),) = asked("attention", "sm_90", [windowed])
    assert shared <= SHARED_LIMIT["sm_90"]
    assert spills <= 2


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "gfx90a"])
def test_fp8_caches_compile_where_there_is_one_type_of_them_or_none_of_amds(target):
    prompt = Config("q_block", 64, 32, 4, 2), {"fp8": True}
    decode = Config("split_kv", 16, 32, 4, 2, 4), {"fp8": True, "decode": True}
    found = asked("attention", target, [prompt, decode])
    assert [spills for _, _, spills, _ in found] == [0, 0]


@by_make_fits
def test_the_copy_of_fp8_pages_fits_and_who_reads_the_rest():
    """Of heads of 256 that is q_block with 64 rows, which spills there."""
    shapes = [{"head_size": size, "page_size": page, "fp8": True, "window": size == 96, "fresh": page == 16,
               "halves": size == 128} for size, page in ((64, 16), (96, 48), (128, 16), (256, 128))]  # fmt: skip
    found = [(None, shape) for shape in shapes]
    for _, registers, spills, reason in asked("widening", "sm_90", found):
        assert reason is None
        assert spills == 0
        assert registers <= 64
    for (_, shape), (_, _, spills, _) in zip(found, asked("rest", "sm_90", found), strict=True):
        assert spills <= (32 if shape["head_size"] == 256 else 0)


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize(("segments", "fresh"), [(1, True), (2, False)])
def test_three_consumers_fit_but_for_a_few_words(segments, fresh):
    """Outside the loop over keys but for two loads where they are cut: a thread's addresses, 3 words of a consumer."""
    config = Config("warp_specialized", 192, 128, 4, 3, segments)
    ((shared, registers, spills, _),) = asked(
        "attention", "sm_90", [(config, {"head_size": 64, "fresh": fresh})]
    )
    assert shared <= 232448
    assert registers == 128
    assert spills <= 28


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tile", "head_size"),
    [(128, 128), *(pytest.param(*of, marks=by_make_fits) for of in ((64, 128), (128, 112), (64, 256)))],
)
def test_the_softmax_of_a_tile_comes_before_the_wait_for_the_values_of_the_last(tile, head_size):
    """The assembler is free to wait first, and has done so: then nothing overlaps within a consumer. It may also run a
    product's instructions one after the other, where sums are copied among them.
    """
    config = Config("warp_specialized", 128, tile, 4, 2 if tile == 128 or head_size > 128 else 3, 1)
    (code,) = asked("instructions", "sm_90", [(config, {"head_size": head_size})])
    assert 3 * code.count("DEPBAR.LE") < code.count("HGMMA")
    # Code lies as it is written: the wait for the scores of a turn, the softmax, the wait for all that was begun.
    _, *turns = re.split(r"DEPBAR.LE gsb0, 0x1", code)
    assert len(turns) == 2  # of each consumer
    for turn in turns:
        assert turn[: turn.index("DEPBAR.LE gsb0, 0x0")].count("MUFU.EX2") >= tile // 2


@by_make_fits
@pytest.mark.slow
def test_split_blocks_of_64_rows_fit_at_speculation():
    """New tokens whose rows are 24 to 64: parts of 32 and 64 rows."""
    layout = {"num_query_heads": 64, "num_kv_heads": 8, "decode": True}
    wide = {"head_size": 128, **layout}
    small = {"head_size": 64, "sinks": True, **layout}
    layouts = [
        {**x, "query_tokens": n, "window": w} for x in (small, wide) for n in (3, 5) for w in (False, True)
    ]
    assert unfit("sm_90", [(Config("split_kv", 64, 64, 4, 3, 2), layout) for layout in layouts]) == ""


@by_make_fits
@pytest.mark.slow
def test_heads_of_256_fit_but_for_a_few_words():
    """Outside the loop over keys: 4 words an item, 20 where keys are cut."""
    cut = [(Config("warp_specialized", 128, 64, 4, 2, n), {"head_size": 256}) for n in (1, 2)]
    found = asked("attention", "sm_90", cut)
    assert all(shared <= 232448 and spills <= 28 for shared, _, spills, _ in found)


@by_make_fits
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "sm_80", "gfx942", "gfx90a"])
def test_decodes_of_graphs_that_write_new_tokens_fit(target):
    """A token each. Of a few tokens a sequence some words are spilled, written or not, as with heads of 256 and, before
    Hopper, with 28/4 heads.
    """
    layouts = [
        {"decode": True, "written": True, "halves": True, **more}
        for more in ({"head_size": 64}, {}, {"window": True}, {"sequences": 33})
    ]
    assert unfit(target, [(GRAPH, layout) for layout in layouts]) == ""


def test_what_does_not_fit_says_why():
    wide = Config("q_block", 16, 128, 4, 8), {"page_size": 128}
    dropped = (
        Config("q_block", 32, 256, 4, 1),
        {"fresh": True, "window": True},
    )  # a published winner, see heurgen.toml
    ((_, _, _, reason),) = asked("attention", "sm_90", [wide])
    assert reason is not None
    assert "bytes of shared memory, sm_90 has 232448" in reason
    ((_, _, spills, reason),) = asked("attention", "gfx90a", [dropped])
    assert spills > 0
    assert reason == f"spills {spills} registers"
