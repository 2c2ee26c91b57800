"""What checks of the plugin share: its classes for one small layer, and what they call. For vllm_child.py's process."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import torch
from heurgen_kernels.servers.vllm import backend
from vllm.config import CUDAGraphMode
from vllm.v1.attention.backends import triton_attn

from tests.kernels.servers.vllm_batch import HEADS, HEADS_KV, PAGE, SIZE

MIXED, PROMPTS, DECODES = [(1, 40), (17, 17), (5, 37)], [(20, 20), (33, 33)], [(1, 40), (1, 3), (1, 64)]


# What is logged.
SAID: list[str] = []
backend.logger = SimpleNamespace(info_once=lambda text, *given: SAID.append(text % given))
LAYER = SimpleNamespace(_k_scale=torch.ones(()), _v_scale=torch.ones(()))


def impl_of(**changes):
    given = {
        "num_heads": HEADS, "head_size": SIZE, "scale": SIZE**-0.5, "num_kv_heads": HEADS_KV, "alibi_slopes": None,
        "sliding_window": None, "kv_cache_dtype": "auto",
    }  # fmt: skip
    return backend.HeurgenAttentionImpl(**given | changes)


def builder_of(
    impl=None,
    builder=backend.HeurgenAttentionMetadataBuilder,
    drafts=None,
    graphs=CUDAGraphMode.FULL_DECODE_ONLY,
):
    """impl: that of its layer. drafts: vLLM's configuration of speculation."""
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            get_num_attention_heads=lambda _: HEADS, get_num_kv_heads=lambda _: HEADS_KV, get_head_size=lambda: SIZE,
            rswa_window=None,
        ),
        parallel_config=None, speculative_config=drafts, scheduler_config=SimpleNamespace(max_num_seqs=8),
        compilation_config=SimpleNamespace(
            cudagraph_mode=graphs, cudagraph_capture_sizes=[1, 2, 4],
            static_forward_context={"layer": SimpleNamespace(impl=impl)},
        ),
    )  # fmt: skip
    triton_attn.get_num_attention_heads_from_layers = lambda *_: HEADS
    spec = SimpleNamespace(block_size=PAGE, dtype=torch.float16, kv_quant_mode=None)
    return builder(spec, ["layer"], config, torch.device("cpu"))


class Spied:
    """Keywords of the calls of our kernels inside a `with`."""

    def __enter__(self):
        self.calls, self.real = [], backend.paged_attention
        backend.paged_attention = self.spy
        return self.calls

    def spy(self, *args, **kwargs):
        self.calls.append((args, kwargs))
        return self.real(*args, **kwargs)

    def __exit__(self, *_):
        backend.paged_attention = self.real


def inherited_writes():
    calls = []
    real = triton_attn.TritonAttentionImpl.do_kv_cache_update
    triton_attn.TritonAttentionImpl.do_kv_cache_update = lambda *given: calls.append(given)
    return calls, lambda: setattr(triton_attn.TritonAttentionImpl, "do_kv_cache_update", real)


def recorded(batch, impl, builder=None, common=None):
    """A forward as a graph records it; keywords of the call of our kernels."""
    batch.common.max_seq_len = 16 * batch.table.shape[1]
    metadata = (builder or builder_of()).build_for_cudagraph_capture(common or batch.common)
    metadata.seq_lens.copy_(torch.tensor([total for _, total in batch.lengths]))
    real = backend.graph_config
    backend.graph_config = lambda *given: few_parts(real(*given))
    with Spied() as calls:
        batch.forward(impl, metadata)
    backend.graph_config = real
    return calls[0][1]


def few_parts(config):
    """Of a recorded decode: each part is a program, and the interpreter takes milliseconds for one."""
    return None if config is None else config._replace(num_segments=4)


@contextmanager
def no_writes():
    """Inside, writing to pages by a kernel of its own fails."""
    real = backend.write_pages
    calls, restore = inherited_writes()
    backend.write_pages = lambda *given: calls.append(given)
    yield
    backend.write_pages = real
    restore()
    assert calls == []


def stock_calls():
    calls = []
    real = triton_attn.TritonAttentionImpl.forward
    triton_attn.TritonAttentionImpl.forward = lambda *args, **kwargs: calls.append((args, kwargs))
    return calls, lambda: setattr(triton_attn.TritonAttentionImpl, "forward", real)
