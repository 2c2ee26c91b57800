"""The issue's table on a GPU, CUDA graphs, torch.compile and the launch path. Skipped, with its reason,
elsewhere.
"""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import GRAPH
from heurgen_kernels.host import scratch
from heurgen_kernels.host.segments import with_segments

from tests.kernels.batches import (
    LIMITS,
    apart,
    bits,
    changed,
    clean,
    error_after_change,
    error_of,
    halves,
    make_batch,
    recorded,
    shifted,
    slots_of,
    written,
)
from tests.kernels.gpu_cases import (
    ANYWHERE,
    CHOSEN,
    CONFIGS,
    PARTS,
    SAMPLE,
    SEQUENCES,
    some,
)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("number", range(len(SAMPLE)))
def test_table(gpu, number):
    name, heads, size, window, softcap = SAMPLE[number]
    dtype = (torch.bfloat16, torch.float16)[number % 2]
    config = CONFIGS[number % len(CONFIGS)]
    if config.variant == "naive" and name == "prompts":
        config = CONFIGS[2]
    fresh = number % 3 == 0
    batch = make_batch(
        SEQUENCES[name],
        heads,
        size,
        (16, 32, 64, 128, 784)[number % 5],
        dtype,
        fresh,
        device=gpu,
        seed=number,
    )
    features = {"window": (-1 if window is None else window, -1), "softcap": softcap or 0.0}
    assert error_of(batch, config, **features) < LIMITS[dtype]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.variant}-{c.num_segments}")
@pytest.mark.parametrize("name", ["chunk", "decode", "ones", "two"])
def test_variants(gpu, config, name):
    for fresh, page in ((False, 16), (True, 16), (False, 128)):
        batch = make_batch(SEQUENCES[name], (32, 8), 128, page, torch.bfloat16, fresh, device=gpu)
        assert error_of(batch, config) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.variant}-{c.num_segments}")
def test_new_v_that_lies_otherwise_than_new_k(gpu, config):
    for name in ("chunk", "ones"):
        batch = apart(make_batch(SEQUENCES[name], (32, 8), 128, 16, torch.bfloat16, True, device=gpu))
        assert error_of(batch, config) < LIMITS[torch.bfloat16]
    batch = apart(
        make_batch(
            [(700, 700), (64, 64), (1, 1), (1300, 1300)], (32, 8), 128, 16, torch.bfloat16, True, device=gpu
        )
    )
    assert error_of(batch, config, has_prefix=False) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.variant}-{c.num_segments}")
def test_prompts_without_pages(gpu, config):
    lengths = [(700, 700), (64, 64), (1, 1), (1300, 1300)]
    batch = make_batch(lengths, (8, 2), 128, 16, torch.bfloat16, True, device=gpu)
    batch |= {name: batch[name][:0] for name in ("key_cache", "value_cache")}
    batch["block_table"] = batch["block_table"][:, :0]
    for has_prefix in (None, False):
        assert error_of(batch, config, has_prefix=has_prefix) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize(("config", "cache"), some(ANYWHERE, 2), ids=str)
def test_tensors_that_begin_anywhere(gpu, config, cache):
    """Views of larger tensors, whose addresses are no multiples of 16 bytes: all that a launch takes, then those that
    descriptors read, one by one.
    """
    lengths = [(1, 1513), (2, 2), (0, 0), (4, 1000)] + [(700, 900), (64, 64)] * (config is not GRAPH)
    dtype, sinks = torch.bfloat16, shifted(torch.linspace(-2, 3, 8, device=gpu))
    scales = torch.tensor([0.0, 0.7, 1.9], device=gpu)
    given = {} if cache is None else {"k_scale": scales[1], "v_scale": scales[2]}
    for fresh in (False, True):
        batch = make_batch(lengths, (8, 2), 128, 16, dtype, fresh, gpu, cache)
        if fresh and config is GRAPH:
            given["slot_mapping"] = shifted(slots_of(batch))
        tensors = [name for name, value in batch.items() if isinstance(value, torch.Tensor)]
        moved = {name: shifted(batch[name]) for name in tensors}
        assert error_of(batch | moved, config, place=shifted, sinks=sinks, **given) < LIMITS[dtype]
        for name in {"key_cache", "value_cache", "key", "value"} & {*tensors}:
            assert error_of(batch | {name: moved[name]}, config, **given) < LIMITS[dtype], name


@pytest.mark.parametrize(("size", "layout", "segments"), some(PARTS, 3), ids=str)
def test_many_parts_of_a_few_new_tokens(gpu, size, layout, segments):
    """Parts that one program adds, and that two levels of programs add; the counters are left as zeros."""
    heads, tokens, block = layout
    lengths = [(min(tokens, k), k) for k in (9000, 1, 700, 4097)]
    batch = make_batch(lengths, heads, size, 16, torch.bfloat16, device=gpu)
    config = Config("split_kv", block, 32 if block == 16 else 64, 2 if block == 16 else 4, 2, segments)
    for features in ({}, {}, {"window": (1000, -1)}, {"window": (60, -1), "softcap": 30.0}):
        assert error_of(batch, config, **features) < LIMITS[torch.bfloat16]


def test_whole_tuning_space_is_correct(gpu):
    """Every config that a selector can return comes from the space; a spread of it here, all of it in the
    tuner.
    """
    space = pytest.importorskip("heurgen.tune.space")
    from heurgen_kernels.tools.tunable import tunable

    configs = space.enumerate_configs(tunable.space, "nvidia", list(tunable.features)).configs
    batch = make_batch(SEQUENCES["chunk"], (32, 8), 128, 16, torch.bfloat16, device=gpu)
    for chosen in random.Random(1).sample(configs, 24):
        assert error_of(batch, Config(**chosen)) < LIMITS[torch.bfloat16], chosen


@pytest.mark.parametrize("page", [16, 128])
@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("config", CHOSEN, ids=lambda c: "-".join(map(str, c)))
def test_every_config_that_the_selector_returns(gpu, config, segments, page):
    """Keys cut and not cut, which the launch decides, on every sequence set."""
    for number, (name, lengths) in enumerate(SEQUENCES.items()):
        batch = make_batch(lengths, (32, 8), 128, page, torch.bfloat16, number % 2 == 1, device=gpu)
        assert error_of(batch, with_segments(config, segments)) < LIMITS[torch.bfloat16], name


def defaults(size):
    """What the documented default can return for heads of a size."""
    from heurgen_kernels.defaults import default_config

    return sorted(
        {
            default_config(
                vendor="nvidia", num_seqs=seqs, total_query_tokens=seqs * q, max_seqlen_q=q, max_seqlen_k=max(q, k),
                total_seqlen_k=seqs * max(q, k), avg_seqlen_q=float(q), num_query_heads=32, num_kv_heads=8,
                head_size=size, page_size=16, dtype="bfloat16", fresh=False,
                multiprocessors=132, window=1 << 30, softcap=False, sinks=False,
            )
            for seqs, q, k in itertools.product((1, 9, 60), (1, 64, 700, 8000), (300, 5000, 60000))
        },
        key=str,
    )  # fmt: skip


@pytest.mark.parametrize("size", [128, 256])
def test_every_config_that_the_default_returns(gpu, size):
    for config in defaults(size):
        for name in ("chunk", "decode", "two"):
            batch = make_batch(SEQUENCES[name], (32, 8), size, 16, torch.bfloat16, device=gpu)
            assert error_of(batch, config) < LIMITS[torch.bfloat16], (config, name)


def test_a_profiler_sees_every_launch(gpu):
    """Triton's launch hooks are called, bound or not."""
    from triton import knobs

    seen = []

    def hook(metadata):
        seen.append(metadata.get()["name"])

    batch = make_batch(SEQUENCES["decode"], (32, 8), 128, 16, torch.bfloat16, device=gpu)
    config = Config("q_block", 16, 32, 2, 2, 1)
    for _ in range(2):
        paged_attention(**batch, config=config)
    knobs.runtime.launch_enter_hook.add(hook)
    try:
        for _ in range(3):
            paged_attention(**batch, config=config)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    paged_attention(**batch, config=config)
    assert seen == ["q_block_kernel"] * 3


def test_launches_on_a_device_that_is_not_the_current_one(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    for config in CONFIGS:
        for fresh in (False, True):
            batch = make_batch(SEQUENCES["chunk"], (32, 8), 128, 16, torch.bfloat16, fresh, device="cuda:1")
            assert torch.cuda.current_device() == 0
            for _ in range(2):
                assert error_of(batch, config) < LIMITS[torch.bfloat16]


def test_more_q_blocks_than_an_axis_of_the_grid_has(gpu):
    """65,535 on all but the first axis: prompts of 300,000 tokens with blocks of 4."""
    batch = make_batch([(1, 1)] * 3 + [(300_000, 300_000)], (4, 1), 16, 16, torch.float16, device=gpu)
    for variant in ("q_block", "split_kv", "naive"):
        out = torch.full_like(batch["q"], float("nan"))
        paged_attention(**batch, window=(7, -1), out=out, config=Config(variant, 16, 16, 4, 1, 2))
        assert not out.isnan().any()


def test_graph_replays_with_other_lengths(gpu):
    """A recorded static grid stays right when lengths change on the device."""
    batch = make_batch([(1, 900), (1, 1200), (1, 64)], (32, 8), 128, 16, torch.bfloat16, device=gpu)
    lens = batch["seq_lens"]
    config = Config("static_grid", 16, 64, 4, 2, 8)
    out = torch.empty_like(batch["q"])
    paged_attention(**batch, out=out, config=config)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        paged_attention(**batch, out=out, config=config)
    for values in ([900, 1200, 64], [17, 333, 1], [1, 1200, 30]):
        lens.copy_(torch.tensor(values))
        out.fill_(float("nan"))
        graph.replay()
        assert torch.allclose(out, paged_attention(**batch, config=Config("q_block")), atol=2e-2)


@pytest.mark.parametrize(
    ("count", "heads"),
    [(1, (8, 2)), (5, (8, 2)), (20, (16, 16)), (64, (8, 2)), (90, (32, 8)), (300, (8, 2))],
    ids=str,
)
def test_the_chooser_follows_the_lengths_of_a_graph(gpu, count, heads):
    """Recorded once; then lengths from 1 to the longest, with empty sequences, each against the reference."""
    longest = {1: 20000, 5: 9000, 20: 3000, 64: 3000, 90: 2000, 300: 700}[count]
    batch = clean(make_batch([(1, longest)] * count, heads, 128, 16, torch.bfloat16, device=gpu))
    out = torch.empty_like(batch["q"])
    graph = recorded(lambda: paged_attention(**batch, out=out, config=GRAPH))
    random_ = random.Random(count)
    for number in range(12):
        top = longest if number == 0 else random_.choice([1, 20, 130, 260, 1100, longest])
        lengths = [(int(random_.random() < 0.8), random_.randint(1, min(top, longest))) for _ in range(count)]
        lengths[random_.randrange(count)] = (1, min(random_.choice([1, top, longest]), longest))
        assert error_after_change(batch, lengths, out, graph.replay) < LIMITS[torch.bfloat16], lengths


@pytest.mark.parametrize(("count", "new"), [(1, 1), (5, 4), (64, 1), (300, 2)])
def test_a_graph_of_decodes_writes_new_tokens(gpu, count, new):
    """Recorded once; then other lengths and slots, some of them none, each replayed into pages with NaN there."""
    longest = {1: 20000, 5: 9000, 64: 3000, 300: 700}[count]
    batch = halves(
        clean(make_batch([(new, longest)] * count, (8, 2), 128, 16, torch.bfloat16, True, device=gpu))
    )
    caches = {"key": batch["key_cache"], "value": batch["value_cache"]}
    slots, out = slots_of(batch), torch.empty_like(batch["q"])
    graph = recorded(lambda: paged_attention(**batch, slot_mapping=slots, out=out, config=GRAPH))
    random_ = random.Random(count)
    for number in range(6):
        top = longest if number == 0 else random_.choice([20, 260, longest])
        lengths = [
            (new * (random_.random() < 0.8), random_.randint(new, min(top, longest))) for _ in range(count)
        ]
        tokens = changed(batch, lengths)
        slots.fill_(-1)
        slots[:tokens] = slots_of(batch)
        page, row = slots[:tokens] // 16, slots[:tokens] % 16
        expected = {name: cache.clone() for name, cache in caches.items()}
        for name, cache in caches.items():
            expected[name][page, row] = batch[name][:tokens]
            cache[page, row] = float("nan")
        assert error_after_change(batch, lengths, out, graph.replay) < LIMITS[torch.bfloat16], lengths
        assert all(torch.equal(bits(cache), bits(expected[name])) for name, cache in caches.items())


@pytest.mark.parametrize("page", [16, 784])
@pytest.mark.parametrize(
    ("heads", "size"), [((32, 8), 128), ((28, 4), 64), ((5, 1), 80), ((16, 16), 256), ((64, 2), 128)], ids=str
)
def test_new_tokens_are_written_and_attended_to(gpu, heads, size, page):
    """Tokens of speculation that fall into two pages, tiles and segments; V that lies otherwise than K; windows."""
    few = max(1, min(4, 16 // (heads[0] // heads[1])))
    lengths = [(few, 2001 + i) for i in range(18)] + [(0, 40), (1, 1), (few, few), (1, 1600), (1, 1601)]
    batch = halves(make_batch(lengths, heads, size, page, torch.bfloat16, True, device=gpu))
    batch["value"] = torch.randn_like(batch["key"].repeat(1, 3, 1))[:, : heads[1]]
    for features in ({}, {"window": (100, -1), "softcap": 30.0}, {"window": (2, -1)}):
        assert written(batch, GRAPH, **features) < LIMITS[torch.bfloat16], features
    assert written(batch, Config("static_grid", 16, 64, 4, 2, 8)) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("variant", ["static_grid", "split_kv"])
def test_two_graphs_of_one_stream_replay_at_the_same_time(gpu, variant):
    """Their launches share no counters."""
    config = Config(variant, 16, 32, 2, 2, 8)
    made = [
        make_batch(
            [(1, 6000 + 50 * i) for i in range(16)], (32, 8), 128, 16, torch.bfloat16, device=gpu, seed=seed
        )
        for seed in range(2)
    ]
    outs = [torch.empty_like(batch["q"]) for batch in made]
    expected = [paged_attention(**batch, config=config).clone() for batch in made]
    graphs = [
        recorded(lambda batch=batch, out=out: paged_attention(**batch, out=out, config=config))
        for batch, out in zip(made, outs, strict=True)
    ]
    streams = [torch.cuda.Stream() for _ in graphs]
    for _ in range(50):
        for out in outs:
            out.fill_(float("nan"))
        torch.cuda.synchronize()
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        for out, right in zip(outs, expected, strict=True):
            assert torch.allclose(out, right, atol=1e-2)


def test_a_static_grid_fills_the_processors(gpu):
    from heurgen_kernels.host import launch

    batch = make_batch(SEQUENCES["decode"], (32, 8), 128, 16, torch.bfloat16, device=gpu)
    paged_attention(**batch, config=GRAPH)
    plans = [p for p in launch._plans.values() if p.variant == "static_grid" and p.bound is not None]
    assert all(1 <= p.resident <= 16 for p in plans)
    assert max(p.resident for p in plans) > 2


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.variant}-{c.num_segments}")
def test_every_variant_can_be_recorded(gpu, config):
    batch = make_batch(SEQUENCES["chunk"], (32, 8), 128, 16, torch.bfloat16, device=gpu)
    out = torch.empty_like(batch["q"])
    paged_attention(**batch, out=out, config=config)
    expected = out.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        paged_attention(**batch, out=out, config=config)
    for _ in range(3):
        out.fill_(float("nan"))
        graph.replay()
        assert torch.equal(out, expected)


def test_torch_compile(gpu):
    from heurgen_kernels import ops

    batch = make_batch(SEQUENCES["decode"], (32, 8), 128, 16, torch.bfloat16, device=gpu)
    call = ops.positional(batch)

    def model(q):
        return torch.ops.heurgen.paged_attention(q * 2, *call[1:]) + 1

    compiled = torch.compile(model, fullgraph=True)
    assert torch.allclose(compiled(call[0]), model(call[0]), atol=2e-2)


def test_graphs_of_torch_compile(gpu, monkeypatch):
    """Mode "reduce-overhead" refuses what a step keeps in its graphs' memory: counters that its first steps make."""
    from heurgen_kernels import ops

    for name in ("_counters", "_arenas"):
        monkeypatch.setattr(scratch, name, {})
    call = ops.positional(clean(make_batch([(1, 3000)] * 4, (32, 8), 128, dtype=torch.bfloat16, device=gpu)))
    weight = torch.randn(1536, 9216, dtype=torch.bfloat16, device=gpu)

    def model(q, x):
        return torch.ops.heurgen.paged_attention(q * 2, *call[1:]), torch.ops.heurgen.matmul(x + 1, weight)

    x = torch.randn(64, 9216, dtype=torch.bfloat16, device=gpu)
    expected = model(call[0], x)
    for name in ("_counters", "_arenas"):
        monkeypatch.setattr(scratch, name, {})
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        for got, want in zip(compiled(call[0], x), expected, strict=True):
            assert torch.allclose(got, want, rtol=2e-2, atol=2e-2)
    assert scratch._counters
    torch._dynamo.reset()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.variant}-{c.num_segments}")
def test_bound_launches_repeat_and_follow_the_tensors(gpu, config, fresh):
    """Batches at other addresses, of other sizes, in turn: descriptors that were encoded are found again."""
    makers = [
        lambda seed=seed, name=name: make_batch(
            SEQUENCES[name], (32, 8), 128, 16, torch.bfloat16, fresh, device=gpu, seed=seed
        )
        for seed, name in enumerate(["chunk", "two", "chunk", "two"])
    ]
    batches = [make() for make in makers]
    for batch in (*batches, *batches):
        assert error_of(batch, config) < LIMITS[torch.bfloat16]
    del batches
    for make in makers:  # at addresses that were others' before
        assert error_of(make(), config) < LIMITS[torch.bfloat16]


def test_bound_launches_go_past_tritons_launcher(gpu):
    """Where Triton is one that was read for it; else its launcher is called, which is right but slow."""
    import triton
    from heurgen_kernels.host import launch
    from heurgen_kernels.host.bound import TOGETHER

    if not triton.__version__.startswith(("3.6.", *TOGETHER)) or torch.version.hip is not None:
        pytest.skip(f"Triton {triton.__version__}")
    batch = make_batch(SEQUENCES["chunk"], (32, 8), 128, 16, torch.bfloat16, True, device=gpu)
    for config in CONFIGS:
        for _ in range(2):
            paged_attention(**batch, config=config)
    bound = [p.bound for p in launch._plans.values() if p.bound is not None]
    assert len(bound) >= len(CONFIGS)
    assert all(type(b.launch).__name__ != "CudaLauncher" for b in bound)
    described = [p for p in launch._plans.values() if p.bound is not None and any(p.tma)]
    assert all(p.bound.encode is not None for p in described)
