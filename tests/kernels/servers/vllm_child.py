"""Checks of the plugin in a process of its own, with the real attention classes of one version of vLLM.

    python -m tests.kernels.servers.vllm_child VERSION

Prints one JSON object: the name of each check and what went wrong, null where nothing did.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import traceback
import weakref
from copy import deepcopy
from inspect import signature
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"

from tests.kernels import interpreter
from tests.kernels.servers import vllm_wheels

interpreter.hasten()
VERSION = sys.argv[1]
vllm_wheels.enter(VERSION)

import torch  # noqa: E402
from heurgen_kernels.host.validate import assumed_total  # noqa: E402
from heurgen_kernels.servers import vllm as plugin  # noqa: E402
from heurgen_kernels.servers.vllm import backend  # noqa: E402
from heurgen_kernels.servers.vllm import batch as batches  # noqa: E402
from vllm.v1.attention.backends import registry, triton_attn  # noqa: E402

from tests.kernels.servers import (  # noqa: E402
    vllm_caches,
    vllm_drafts,
    vllm_images,
    vllm_known,
    vllm_refused,
    vllm_same,
    vllm_traffic,
    vllm_warm,
    vllm_wrapped,
    vllm_writes,
)
from tests.kernels.servers.vllm_batch import HEADS, SIZE, Batch, error_of  # noqa: E402
from tests.kernels.servers.vllm_calls import (  # noqa: E402
    DECODES,
    MIXED,
    PROMPTS,
    SAID,
    Spied,
    builder_of,
    impl_of,
    recorded,
    stock_calls,
)

CHECKS = (
    sys.modules[__name__], vllm_caches, vllm_drafts, vllm_images, vllm_known, vllm_refused, vllm_same, vllm_traffic,
    vllm_warm, vllm_wrapped, vllm_writes,
)  # fmt: skip
NAMES_ARE_FREE = [int(part) for part in VERSION.split(".")[:2]] >= [0, 32]
NAMES = list(registry.AttentionBackendEnum.__members__)


def check_the_name_is_one_that_vllm_finds():
    for _ in range(2):  # vLLM runs plugins more than once
        plugin.enter(registry)
    members = registry.AttentionBackendEnum
    name = backend.HeurgenAttentionBackend.get_name()
    assert name == ("HEURGEN" if NAMES_ARE_FREE else "CUSTOM")
    assert list(members.__members__) == NAMES + ["HEURGEN"] * NAMES_ARE_FREE
    for known in {"CUSTOM", name}:
        assert members[known].get_path() == plugin.BACKEND
    module, _, cls = plugin.BACKEND.rpartition(".")
    assert (module, cls) == (backend.__name__, backend.HeurgenAttentionBackend.__name__)


def check_processes_that_are_spawned_find_the_name_before_plugins_are_loaded():
    if not NAMES_ARE_FREE:
        return  # CUSTOM alone, which is vLLM's own
    plugin.enter(registry)
    members = registry.AttentionBackendEnum
    mine = members[backend.HeurgenAttentionBackend.get_name()]
    assert deepcopy(mine) is mine
    packed = pickle.dumps({"backend": mine, "other": members.FLASH_ATTN})
    assert pickle.loads(packed) == {"backend": mine, "other": members.FLASH_ATTN}
    program = (
        "import pickle, sys; from tests.kernels.servers import vllm_wheels; vllm_wheels.enter(sys.argv[1]); "
        "print(pickle.loads(bytes.fromhex(sys.argv[2]))['backend'].get_path())"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, VERSION, packed.hex()], capture_output=True, text=True
    )
    assert made.stdout.strip().endswith(plugin.BACKEND), made.stderr


def check_another_plugin_s_backend_stays():
    custom, said = registry.AttentionBackendEnum.CUSTOM, []
    real, plugin.logger = (
        plugin.logger,
        SimpleNamespace(warning=lambda text, *given: said.append(text % given)),
    )
    registry.register_backend(custom, "another.Backend")
    try:
        plugin.enter(registry)
        assert custom.get_path() == "another.Backend"
    finally:
        plugin.logger = real
        custom.clear_override()
    (line,) = said
    assert "CUSTOM, which is another.Backend already" in line


def check_methods_take_what_vllms_take():
    ours = (
        backend.HeurgenAttentionBackend,
        backend.HeurgenAttentionImpl,
        backend.HeurgenAttentionMetadataBuilder,
    )
    for cls in ours:
        stock = cls.__mro__[1]
        assert stock.__module__ == triton_attn.__name__
        for name, method in vars(cls).items():
            if name != "__init__" and callable(method) and hasattr(stock, name):
                theirs = list(signature(getattr(stock, name)).parameters)
                assert list(signature(method).parameters)[: len(theirs)] == theirs, name


def check_every_batch_is_right_in_both_layouts():
    for lengths in (MIXED, PROMPTS, DECODES):
        for layout in ("NHD", "HND"):
            batch, impl = Batch(lengths, layout), impl_of()
            metadata = builder_of().build(0, batch.common)
            with Spied() as calls:
                batch.forward(impl, metadata)
            assert error_of(batch.output[: batch.tokens], batch.reference()) < 2e-3
            assert len(calls) == 1
            assert batch.written()


def check_pages_are_read_where_they_are():
    batch, impl = Batch(DECODES), impl_of()
    with Spied() as calls:
        batch.forward(impl, builder_of().build(0, batch.common))
    _, k, v = calls[0][0][:3]
    assert (
        k.untyped_storage().data_ptr()
        == v.untyped_storage().data_ptr()
        == batch.kv_cache.untyped_storage().data_ptr()
    )


def check_the_host_says_what_it_knows():
    for lengths in (MIXED, PROMPTS, DECODES):
        batch = Batch(lengths)
        with Spied() as calls:
            batch.forward(impl_of(), builder_of().build(0, batch.common))
        told = calls[0][1]
        assert told["total_seqlen_k"] == sum(total for _, total in lengths)
        fresh = lengths is PROMPTS
        assert (told.get("key") is not None) == fresh
        assert told.get("has_prefix") is (False if fresh else None)


def check_long_chunks_read_pages_for_the_prefix_alone():
    """And others, or any under a window or of a quantised cache, for all: two sources take more time there."""
    real, batches.LONG_CHUNK = batches.LONG_CHUNK, 17
    try:
        for lengths, traits in ((MIXED, {}), (MIXED, {"sliding_window": 8}), (DECODES, {})):
            batch, impl = Batch(lengths), impl_of(**traits)
            with Spied() as calls:
                batch.forward(impl, builder_of().build(0, batch.common))
            told = calls[0][1]
            both = lengths is MIXED and not traits
            assert (told.get("key") is not None) == both
            assert told.get("has_prefix") is (True if both else None)
            assert error_of(batch.output, batch.reference(window=(7, 0) if traits else (-1, -1))) < 2e-3
        batch, impl = Batch(MIXED), impl_of(kv_cache_dtype="fp8")
        metadata, impl.do_kv_cache_update = builder_of().build(0, batch.common), lambda *_: None
        given = None, batch.query, batch.key, batch.value, batch.kv_cache, metadata, None
        assert metadata.heurgen.long
        assert impl.new_tokens(*given) == {}
    finally:
        batches.LONG_CHUNK = real


def check_unknown_lengths_are_not_read_from_the_device():
    batch = Batch(MIXED)
    batch.common.seq_lens_cpu_upper_bound = None
    batch.common.seq_lens = SimpleNamespace()  # any use of it fails
    metadata = builder_of().build(0, batch.common)
    assert metadata.heurgen.total_seqlen_k is None
    assert not metadata.heurgen.fresh
    features = batches.features_of(metadata.heurgen, batch.common, {})
    assert features["total_seqlen_k"] == assumed_total(len(MIXED), 40)


def check_a_server_s_padding_is_left_alone():
    batch = Batch(DECODES, padding=5)
    batch.forward(impl_of(), builder_of().build(0, batch.common))
    assert error_of(batch.output[: batch.tokens], batch.reference()) < 2e-3
    assert bool(batch.output[batch.tokens :].isnan().all())


def check_a_common_prefix_is_no_cascade():
    metadata = builder_of().build(16, Batch(MIXED).common)
    assert not getattr(metadata, "use_cascade", False)


def check_windows_soft_caps_and_sinks_are_ours():
    for traits, more in (
        ({"sliding_window": 8}, {"window": (7, 0)}),
        ({"logits_soft_cap": 20.0}, {"softcap": 20.0}),
        ({"sinks": torch.zeros(HEADS)}, {"sinks": torch.zeros(HEADS)}),
    ):
        batch, impl = Batch(MIXED), impl_of(**traits)
        assert impl.stock is None
        batch.forward(impl, builder_of().build(0, batch.common))
        assert error_of(batch.output, batch.reference(**more)) < 2e-3, traits


def check_what_we_lack_goes_to_vllms_kernels_with_one_line():
    batch, impl = Batch(MIXED), impl_of()
    for name, value in (
        ("mm_prefix_range_tensor", torch.zeros(1)), ("causal", torch.ones(3)), ("rswa_prefix_lens", torch.ones(3)),
    ):  # fmt: skip
        metadata = builder_of().build(0, batch.common)
        setattr(metadata, name, value)
        SAID.clear()
        calls, restore = stock_calls()
        with Spied() as ours:
            batch.forward(impl, metadata)
            batch.forward(impl, metadata)
        restore()
        assert (len(calls), len(ours), len(SAID)) == (2, 0, 1), name
        assert batch.written(), name


def check_layers_that_we_lack_are_vllms_from_the_start():
    for traits in (
        {"head_size": 320}, {"kv_cache_dtype": "int8_per_token_head"}, {"kv_cache_dtype": "fp8_e5m2"},
        {"use_alibi_sqrt": True}, {"chunk_lookback": 1, "sliding_window": 64}, {"attn_type": "encoder_only"},
        {"kv_cache_dtype": "bfloat16"},  # of a model in float32
    ):  # fmt: skip
        SAID.clear()
        assert impl_of(**traits).stock is not None, traits
        assert len(SAID) == 1, traits


def check_profiling_notes_how_tensors_lie_and_one_token_is_told_so():
    batch, impl = Batch([(3, 3)]), impl_of()
    batch.forward(impl, None)
    assert float(batch.output.abs().max()) == 0.0
    assert impl.seen.strides == ((256, 32), ((256, 32), (256, 32)), (128, 32))
    one = Batch([(1, 9)])
    one.query = one.query.reshape(1, HEADS, SIZE).contiguous()
    with Spied() as calls:
        one.forward(impl, builder_of().build(0, one.common))
    assert calls[0][0][0].stride() == (256, 32, 1)
    assert error_of(one.output, one.reference()) < 2e-3


def check_k_and_v_that_lie_differently_are_handed_over_as_they_are():
    batch, impl = Batch(PROMPTS), impl_of()
    batch.key = batch.key.contiguous()
    batch.forward(impl, None)
    with Spied() as calls:
        batch.forward(impl, builder_of().build(0, batch.common))
    told = calls[0][1]
    assert (told["key"].data_ptr(), told["value"].data_ptr()) == (
        batch.key.data_ptr(),
        batch.value.data_ptr(),
    )
    assert impl.seen.strides[1] == ((64, 32), (256, 32))
    assert error_of(batch.output, batch.reference()) < 2e-3


def check_prompts_that_see_what_follows():
    """As prefixes are, of batches in graphs too; a window is then as wide on either side."""
    for lengths in (MIXED, PROMPTS, DECODES):
        for traits, window in (({}, (-1, -1)), ({"sliding_window": 8}, (7, 7))):
            batch, impl = Batch(lengths), impl_of(**traits)
            batch.common.causal = False
            batch.forward(impl, builder_of().build(0, batch.common))
            assert error_of(batch.output, batch.reference(causal=False, window=window)) < 2e-3
            assert batch.written()
    batch = Batch(DECODES)
    batch.common.causal = False
    recorded(batch, impl_of())
    assert error_of(batch.output, batch.reference(causal=False)) < 2e-3


def on_a_device(tensor):
    """Of its shape and type, with nothing to read: as a tensor that only a GPU may look into."""
    return tensor.to("meta")


def check_nothing_is_read_from_the_device():
    """Building metadata and everything of a forward but the launch, with device tensors that hold no values."""
    for lengths in (MIXED, PROMPTS, DECODES):
        for frozen in (False, True):
            batch, builder = Batch(lengths), builder_of()
            batch.common.seq_lens_cpu_upper_bound = batch.lens.clone()
            for name in ("query_start_loc", "seq_lens", "block_table_tensor", "slot_mapping"):
                setattr(batch.common, name, on_a_device(getattr(batch.common, name)))
            build = (
                builder.build_for_cudagraph_capture
                if frozen
                else lambda common, b=builder: b.build(0, common)
            )
            metadata = build(batch.common)
            for name in ("query", "key", "value", "kv_cache", "output"):
                setattr(batch, name, on_a_device(getattr(batch, name)))
            real = backend.paged_attention, backend.write_pages
            backend.paged_attention = backend.write_pages = lambda *_, **__: None
            try:
                batch.forward(impl_of(), metadata)
            finally:
                backend.paged_attention, backend.write_pages = real


def check_a_cache_that_vllm_gives_back_is_not_kept():
    """Layers stay when vLLM drops the cache of its first graphs, and when an engine ends."""
    for cache in ("auto", "fp8"):
        batch, impl = Batch(DECODES), impl_of(kv_cache_dtype=cache)
        if cache == "fp8":
            batch.kv_cache = batch.kv_cache.to(torch.float8_e4m3fn).view(torch.uint8)
        first = weakref.ref(batch.kv_cache)
        pages = impl.pages(batch.kv_cache)
        assert impl.pages(batch.kv_cache) is pages  # one view for all batches
        del pages, batch
        assert first() is None


def check_two_engines_share_nothing():
    """Two models of one process, batches in turn: each layer keeps to its own pages and its own strides."""
    first, second = (Batch(MIXED), impl_of()), (Batch(DECODES, "HND"), impl_of(sliding_window=8))
    builders = builder_of(), builder_of()
    for batch, impl in (first, second):
        batch.forward(impl, None)
    for _ in range(2):
        for (batch, impl), builder in zip((first, second), builders, strict=True):
            batch.forward(impl, builder.build(0, batch.common))
    assert error_of(first[0].output, first[0].reference()) < 2e-3
    assert error_of(second[0].output, second[0].reference(window=(7, 0))) < 2e-3


def main():
    found = {}
    for name, check in [item for module in CHECKS for item in vars(module).items()]:
        if name.startswith("check_"):
            try:
                check()
                found[name[6:]] = None
            except Exception:
                found[name[6:]] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
