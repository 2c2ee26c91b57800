"""The attention backend: vLLM's Triton backend, with launches of our kernels in place of its own.

Everything but the launch is inherited: which layers, caches and batches there are, how pages are laid out and written.
What our kernels do not have, and single batches that ask for it, goes to the inherited implementation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError
from vllm import envs
from vllm.config import get_current_vllm_config_or_none
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.attention.backends import registry
from vllm.v1.attention.backends.triton_attn import (
    TritonAttentionBackend,
    TritonAttentionImpl,
    TritonAttentionMetadata,
    TritonAttentionMetadataBuilder,
)

from ...api import paged_attention
from ...host.hardware import device_of
from ...host.pages import write_pages
from . import CUSTOM, HEURGEN
from .batch import (
    Batch,
    batch_of,
    features_of,
    graph_config,
    longest_draft,
    of_any_lengths,
    with_drafts,
    without_images,
)
from .seen import Seen, fresh
from .selector import selector_of
from .support import DTYPES, LayerTraits, check_value_heads, why_stock, why_stock_cache
from .traffic import traffic_of
from .warm import hook

logger = init_logger("vllm.heurgen")
FP8 = ("fp8", "fp8_e4m3")
# The feature `window`, keys that a token sees, of layers without one: more than any context has.
ALL_KEYS = 1 << 30
# Partial results and copies of fp8 pages are memory that vLLM did not measure, and its own kernels do not need.
REFUSALS = (ValueError, OutOfResources, CompilationError, PTXASError, torch.OutOfMemoryError)
# What a pass of Triton's compiler that fails says, as a RuntimeError: those of CUDA, which end a server, are such, too.
PASS_FAILED = "PassManager::run failed"


class Pages(NamedTuple):
    """K's and V's pages [pages, tokens, KV heads, head size], and why vLLM's kernels read them, None where ours do."""

    stock: str | None
    k: torch.Tensor
    v: torch.Tensor


class HeurgenAttentionImpl(TritonAttentionImpl):  # type: ignore[misc]
    """One attention layer. `stock`: why the inherited implementation serves it, None where our kernels do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        found = current_platform.get_device_capability() if current_platform.is_cuda() else None
        self.stock = why_stock(
            LayerTraits(
                self.head_size, self.kv_cache_dtype, str(getattr(self.attn_type, "value", self.attn_type)),
                None if found is None else (found.major, found.minor), torch.get_default_dtype(),
                bool(self.use_alibi_sqrt), self.chunk_lookback, bool(envs.VLLM_BATCH_INVARIANT),
            )
        )  # fmt: skip
        self.seen = Seen()
        self._told: set[str] = set()
        if self.stock is not None:
            self._tell(self.stock)
            # vLLM's layers quantise queries where an implementation takes them, and assert that the cache is e4m3
            if self.kv_cache_dtype == "fp8_e5m2":
                self.supports_quant_query_input = False
            return
        # a draft model's layers see what follows their queries, as a batch says
        built_for = get_current_vllm_config_or_none()
        self.both_ways = built_for is not None and built_for.attention_config.use_non_causal
        self.heuristics = selector_of(os.environ, self.kv_cache_dtype in FP8)
        # queries are computed with in 16 bits either way: rounding them to fp8 first would only lose
        self.supports_quant_query_input = False
        # new K and V are those of the queries' tokens, unless the pages are another layer's or an encoder's
        self.takes_new = self.attn_type == "decoder" and self.kv_sharing_target_layer_name is None
        # recorded decodes write them to the pages, which are of their type
        self.writes = self.takes_new and self.kv_cache_dtype not in FP8
        # long chunks' are read beside pages, unless tiles of keys would have to be smaller (host.nearest.FITTING)
        plain = self.sliding_window[0] < 0 and not self.logits_soft_cap and self.head_size <= 128
        self.reads_both = self.writes and plain
        _layers.add(self)

    def forward(
        self,
        layer: Any,
        query: torch.Tensor,
        key: torch.Tensor | None,
        value: torch.Tensor | None,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """As TritonAttentionImpl.forward, with its `do_kv_cache_update` before it, or in recorded decodes within."""
        new = key is not None and value is not None and self.kv_sharing_target_layer_name is None
        stock = self.stock or why_stock_batch(attn_metadata, query, output_block_scale)
        if stock is None:
            stock = self.pages(kv_cache).stock
        if stock is not None:
            if attn_metadata is None and self.stock is None:
                check_value_heads(output.shape[2], self.head_size)
                self.seen.note(query, key, value, output)
            elif stock != self.stock and stock is not PROFILING:
                self._tell(stock)
            if new and attn_metadata is not None:
                self.do_kv_cache_update(layer, key, value, kv_cache, attn_metadata.slot_mapping)
            return super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        batch, config = attn_metadata.heurgen, None
        if batch.frozen:
            config = graph_config(
                attn_metadata.seq_lens.shape[0], attn_metadata.max_query_len, self.num_heads, self.num_kv_heads,
                self.head_size,
            )  # fmt: skip
        told = self.new_tokens(layer, query, key, value, kv_cache, attn_metadata, config) if new else {}
        if attn_metadata.observe is not None:
            attn_metadata.observe(fresh="key" in told)
            attn_metadata.observe = None  # the batch's other layers ask the same
        try:
            self.launch(layer, query, kv_cache, attn_metadata, output, output_scale, config, told)
        except (*REFUSALS, RuntimeError) as refusal:  # what was launched, if anything, is written anew
            if not (isinstance(refusal, REFUSALS) or not_compiled(refusal)):
                raise
            self._leave(refusal)
            if "slot_mapping" in told:
                self.do_kv_cache_update(layer, key, value, kv_cache, attn_metadata.slot_mapping)
            return super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, None
            )
        return output

    def launch(
        self, layer: Any, query: torch.Tensor, kv_cache: torch.Tensor, metadata: Any, output: torch.Tensor,
        output_scale: torch.Tensor | None, config: Any, told: dict[str, Any],
    ) -> None:  # fmt: skip
        """config, told: as in `new_tokens`, and what it returned."""
        batch = metadata.heurgen
        query, out = self.seen.uniform(batch.tokens, query, output)
        _, pages_k, pages_v = self.pages(kv_cache)
        fp8 = self.kv_cache_dtype in FP8
        causal, left = metadata.causal, self.sliding_window[0]
        paged_attention(
            query, pages_k, pages_v, metadata.block_table, metadata.query_start_loc, metadata.seq_lens,
            max_seqlen_q=metadata.max_query_len, max_seqlen_k=metadata.max_seq_len, scale=self.scale,
            total_seqlen_k=batch.total_seqlen_k, causal=causal, window=(left, -1 if causal else left),
            softcap=self.logits_soft_cap, alibi_slopes=self.alibi_slopes, sinks=self.sinks,
            k_scale=layer._k_scale if fp8 else None, v_scale=layer._v_scale if fp8 else None,
            output_scale=output_scale, out=out, config=config, heuristics=self.heuristics, **told,
        )  # fmt: skip

    def new_tokens(
        self,
        layer: Any,
        query: torch.Tensor,
        key: Any,
        value: Any,
        kv_cache: torch.Tensor,
        metadata: Any,
        config: Any,
    ) -> dict[str, Any]:
        """Keywords of `paged_attention` for new K and V, which are in the pages now or will be after that launch.

        config: of a recorded decode, None for others.
        """
        batch, slots = metadata.heurgen, metadata.slot_mapping
        alike = key.dtype == value.dtype == kv_cache.dtype == query.dtype
        if config is not None and self.writes and alike and slots.shape[0] >= batch.tokens:
            key, value, slots = self.seen.written(batch.tokens, key, value, slots)
            return {"key": key, "value": value, "slot_mapping": slots}
        self.do_kv_cache_update(layer, key, value, kv_cache, slots)
        if not (self.takes_new if batch.fresh else self.reads_both and alike and batch.long):
            return {}
        key, value = fresh(batch.tokens, key, value)
        return {"key": key, "value": value, "has_prefix": not batch.fresh}

    def do_kv_cache_update(
        self,
        layer: Any,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """As TritonAttentionImpl's, by a kernel of ours that is launched past Triton's dispatch.

        vLLM's C++ kernel leaves half of its lanes idle where heads do not lie side by side, as in these pages: 47 us a
        layer at 8,192 tokens of 8 heads of 128. Layers that are not ours, and new K and V of another type than pages
        that are not quantised, stay with the inherited kernel.
        """
        fp8 = self.kv_cache_dtype in FP8
        plain = key.dtype == value.dtype and key.dtype in DTYPES and (fp8 or key.dtype == kv_cache.dtype)
        # tokens that pad a graph which ends before attention have no slots, and some kernels ask for them
        count = min(slot_mapping.shape[0], key.shape[0])
        pages = self.pages(kv_cache) if plain and self.stock is None else None
        if pages is None or pages.stock is not None:
            super().do_kv_cache_update(layer, key[:count], value[:count], kv_cache, slot_mapping[:count])
            return
        key, value, slots = self.seen.written(count, key, value, slot_mapping)
        scales = (layer._k_scale, layer._v_scale) if fp8 else ()
        try:
            write_pages(key, value, pages.k, pages.v, slots, *scales)
        except (CompilationError, PTXASError, RuntimeError) as refusal:
            if not not_compiled(refusal):
                raise
            self._leave(refusal)
            super().do_kv_cache_update(layer, key, value, kv_cache, slots)

    def pages(self, kv_cache: torch.Tensor) -> Pages:
        """Views of vLLM's one tensor for K and V.

        Kept with that tensor, not with the layer: vLLM gives caches back while layers live, those that it recorded its
        first graphs with and an engine's when it ends.
        """
        found: Pages | None = vars(kv_cache).get("heurgen_pages")
        if found is None:
            check_value_heads(kv_cache.shape[3] - self.head_size, self.head_size)
            stock = why_stock_cache(kv_cache.shape, kv_cache.stride())
            # detached, as views would keep the tensor that they are kept with
            k, v = kv_cache.detach().transpose(1, 2).split(self.head_size, dim=-1)
            if self.kv_cache_dtype in FP8 and k.dtype != self.fp8_dtype:
                k, v = k.view(self.fp8_dtype), v.view(self.fp8_dtype)
            found = vars(kv_cache)["heurgen_pages"] = Pages(stock, k, v)
        return found

    def _leave(self, refusal: Exception) -> None:
        """A launch to vLLM's kernels; where a kernel does not compile by a Triton to come, all that follow, too, and
        those of the other layers of its kind, which would each try for seconds.
        """
        said = "" if isinstance(refusal, torch.OutOfMemoryError) else str(refusal).strip()
        said = said or type(refusal).__name__
        self._tell("a launch that ours refuse", f": {said.splitlines()[-1]}")
        if not_compiled(refusal):
            for layer in [one for one in _layers if one.stock is None and one.kind() == self.kind()]:
                layer.stock = "kernels that this Triton does not compile"

    def kind(self) -> tuple[Any, ...]:
        """What layers that launch the same kernels have in common."""
        return (
            self.num_heads, self.num_kv_heads, self.head_size, self.kv_cache_dtype, self.sliding_window[0] < 0,
            bool(self.logits_soft_cap), self.sinks is None, self.alibi_slopes is None, self.takes_new,
        )  # fmt: skip

    def _tell(self, reason: str, detail: str = "") -> None:
        """Each reason once, with the detail that it had first."""
        if reason not in self._told:
            self._told.add(reason)
            logger.info_once("heurgen leaves attention layers to vLLM's Triton kernels: %s", reason + detail)


# Those of this process: of several engines, and of a draft model, too.
_layers: WeakSet[HeurgenAttentionImpl] = WeakSet()


def not_compiled(error: Exception) -> bool:
    """Whether it is Triton's, or ptxas', of a kernel that does not compile."""
    return isinstance(error, (CompilationError, PTXASError)) or PASS_FAILED in str(error)


PROFILING = "no metadata: vLLM measures memory"


def why_stock_batch(metadata: Any, query: torch.Tensor, output_block_scale: Any) -> str | None:
    """Why a batch goes to vLLM's kernels though its layer is ours; None where it does not."""
    if metadata is None:
        return PROFILING
    if isinstance(metadata.causal, torch.Tensor):
        return "causal for some sequences alone"
    if metadata.mm_prefix_range_tensor is not None:
        return "images that see what follows them"
    if metadata.rswa_prefix_lens is not None:
        return "windows behind a prefix that stays visible (R-SWA)"
    if output_block_scale is not None:
        return "outputs quantised in blocks"
    return None if query.dtype in DTYPES else f"queries of type {query.dtype}"


@dataclass
class HeurgenAttentionMetadata(TritonAttentionMetadata):  # type: ignore[misc]
    """vLLM's metadata with a `Batch`: a field, since some of vLLM's builders copy metadata field by field.

    observe: what the first launch that asks a selector calls, with its feature `fresh`; None where nobody listens.
    """

    heurgen: Batch | None = None
    observe: Callable[..., None] | None = None


class HeurgenAttentionMetadataBuilder(TritonAttentionMetadataBuilder):  # type: ignore[misc]
    """Builds metadata with what the host knows of the batch."""

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        hook()
        layers = getattr(vllm_config.compilation_config, "static_forward_context", {})
        impl = getattr(layers.get(layer_names[0]), "impl", None)
        left = impl.sliding_window[0] if impl is not None else -1
        self._own = getattr(impl, "takes_new", True)
        fp8 = getattr(impl, "kv_cache_dtype", "") in FP8  # bytes to vLLM
        self._layer = {
            # the layer's own, which a draft model's or a window's may have others of than the model says
            "num_query_heads": getattr(impl, "num_heads", self.num_heads_q),
            "num_kv_heads": getattr(impl, "num_kv_heads", self.num_heads_kv),
            "head_size": getattr(impl, "head_size", self.headdim), "page_size": self.block_size,
            "dtype": "float8_e4m3fn" if fp8 else str(kv_cache_spec.dtype).removeprefix("torch."),
            "window": left + 1 if left >= 0 else ALL_KEYS, "softcap": bool(getattr(impl, "logits_soft_cap", 0)),
            "sinks": getattr(impl, "sinks", None) is not None, "multiprocessors": device_of(device).processors,
        }  # fmt: skip
        self._traffic = traffic_of(os.environ, fp8)
        self._drafts = longest_draft(vllm_config.speculative_config)
        self._frozen = False

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
        # pages of a common prefix are read like others: vLLM's cascade would copy lengths to the host
        common = without_images(common_attn_metadata)
        if not self._frozen:
            common = with_drafts(common, self._drafts)
        stock = super().build(0, common, fast_build)
        batch = batch_of(common, frozen=self._frozen, own=self._own)
        metadata = HeurgenAttentionMetadata(**vars(stock), heurgen=batch)
        # local attention in chunks has them from NumPy
        metadata.max_query_len, metadata.max_seq_len = int(stock.max_query_len), int(stock.max_seq_len)
        if self._traffic is not None and not self._frozen:
            metadata.observe = partial(self._traffic, features_of(batch, common, self._layer))
        return metadata

    def update_draft_decode_metadata(self, _metadata: Any) -> None:
        """As 0.33's, for a draft's next token: lengths grew on the device, beyond what the host knew of their sum."""
        super().update_draft_decode_metadata(_metadata)
        _metadata.heurgen = replace(_metadata.heurgen, total_seqlen_k=None)

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> Any:
        # known by now: vLLM settles it when all builders are made
        mode = self.vllm_config.compilation_config.cudagraph_mode
        # it calls `build`, which a wrapper of vLLM's may hand other tokens than it was asked for
        self._frozen = True
        try:
            return super().build_for_cudagraph_capture(of_any_lengths(common_attn_metadata, mode))
        finally:
            self._frozen = False


class HeurgenAttentionBackend(TritonAttentionBackend):  # type: ignore[misc]
    """Takes every layer that vLLM's Triton backend takes: what our kernels lack, its own do.

    New K and V are written in `forward`, which knows the batch: a recorded decode needs no launch of its own for them,
    and a layer is one call less for the host.
    """

    forward_includes_kv_cache_update = True

    @staticmethod
    def get_name() -> str:
        return HEURGEN if HEURGEN in registry.AttentionBackendEnum.__members__ else CUSTOM

    @staticmethod
    def get_impl_cls() -> type[HeurgenAttentionImpl]:
        return HeurgenAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[HeurgenAttentionMetadataBuilder]:
        return HeurgenAttentionMetadataBuilder
