"""Entry points: `paged_attention`, and `unified_attention` with the keywords of vLLM's Triton backend."""

from __future__ import annotations

from typing import Any

import torch

from .config import normalise
from .host import validate
from .host.call import Call
from .host.hardware import FP8
from .host.launch import launch
from .host.metadata import Metadata, check_metadata
from .host.select import choose, choose_segments
from .inference import check_inference
from .untraced import untraced


@untraced("paged_attention")
def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
    total_seqlen_k: int | None = None,
    key: torch.Tensor | None = None,
    value: torch.Tensor | None = None,
    slot_mapping: torch.Tensor | None = None,
    causal: bool = True,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    output_scale: torch.Tensor | None = None,
    has_prefix: bool | None = None,
    metadata: Metadata | None = None,
    out: torch.Tensor | None = None,
    config: Any = None,
    heuristics: Any = None,
) -> torch.Tensor:
    """Attention of a ragged batch over a paged KV cache; returns [tokens, query heads, head size].

    Tensors may be views that begin anywhere; on Hopper K and V are read faster from multiples of 16 bytes.

    q             [tokens, query heads, head size], fp16, bf16 (or fp32, fp8)
    key_cache, value_cache  [pages, page size, KV heads, head size], q's type or fp8 with k_scale and v_scale
    block_table   int32 [num_seqs, pages per sequence]
    cu_seqlens_q  int32 [num_seqs + 1]
    seq_lens      int32 [num_seqs], the tokens that a sequence attends to, its new ones included
    max_seqlen_q, max_seqlen_k  the most new tokens of a sequence, and the most of seq_lens, or upper bounds: launches
                  are laid out for these, and what is beyond them may be left out or wrong
    scale         factor of the scores, above 0
    total_seqlen_k  the sum of seq_lens or an upper bound, where the host knows it: keys of unlike lengths are then cut
                  better. None takes all but the longest to be 0.7 times as long. It decides what is launched, not what
                  is computed, with one exception: large batches over fp8 pages give NaN below the sum (`host/widen.py`)
    key, value    [tokens, KV heads, head size]: the new tokens' K and V, unquantised; strides from token to token are
                  each its own, those from head to head the same but with slot_mapping. Where given, pages are read for
                  the cached prefix alone, and the new tokens' slots in the cache are not touched
    slot_mapping  int64 [tokens], with key and value: the launch also writes them to the pages, of each token to row
                  slot % page size of page slot // page size, of a negative slot nowhere. No other sequence may read
                  these rows. Configs of static_grid alone do it, of batches that fit one Q block a sequence
                  (max_seqlen_q <= BLOCK_M // query heads per KV head), to pages of their type
    causal        a query sees keys up to its own position
    window        (left, right) bounds the distance, -1 for none
    softcap       scores become softcap * tanh(scores / softcap), at most 10,000; 0 is off
    alibi_slopes  [query heads]: slope * (key position - query position) is added to the score
    sinks         [query heads]: exp(sink) joins the denominator of each row
    *_scale       one-element float32 tensors above 0 on q's device; fp8 values times their scale are the real ones
    has_prefix    False: with key and value given, no sequence has cached tokens, and the code that reads pages is left
                  out of the kernel, but where slot_mapping is given. A server's scheduler knows; None (unknown) is
                  always right
    metadata      exact Q-block starts of this batch (see host/metadata.py); used by launches whose block_q matches
    out           where the result goes, of q's shape: fp16, bf16 or fp32 whatever q is, fp8 with output_scale; one of
                  q's type is made without it. Memory of its own, which is not checked. Rows of q behind the last of
                  cu_seqlens_q, a server's padding, are not written
    config        what to launch, as `config.Config` says: a named tuple, a mapping or an object of its parameters, in
                  any order; what it leaves out takes the defaults there
    heuristics    a generated module, whose selector for this device answers, else for its capability, else its vendor;
                  or a callable of `vendor` and the features of `select.FEATURES`, by name, that returns a config, the
                  same for the same features; without it and `config` the shipped heuristics choose. Its
                  `choose_segments`, where it has one, is what a static grid asks on the device: a @triton.jit function
                  of `defaults.CHOICE`, or a number. In batches of more than two sequences times KV heads a processor
                  what a function says may become up to five times as many

    For inference alone: ValueError before any launch for tensors that require a gradient where gradients are enabled,
    for shapes, dtypes, devices and declared lengths that do not fit together, and for configs, the heuristics' too,
    that no launch knows.
    """
    if torch.is_grad_enabled():
        check_inference(
            "paged_attention", q=q, key_cache=key_cache, value_cache=value_cache, key=key, value=value,
            alibi_slopes=alibi_slopes, sinks=sinks, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale,
            output_scale=output_scale, out=out,
        )  # fmt: skip
    try:
        left, right = window
        # floats, since Triton compiles a kernel of its own for an integer in their place
        call = Call(
            q, key_cache, value_cache, block_table, cu_seqlens_q, seq_lens, torch.empty_like(q) if out is None else out,
            max_seqlen_q, max_seqlen_k, float(scale), key, value, left, 0 if causal else right, float(softcap),
            alibi_slopes, sinks, q_scale, k_scale, v_scale, output_scale, slot_mapping,
            total_k=-1 if total_seqlen_k is None else total_seqlen_k,
        )  # fmt: skip
    except (TypeError, ValueError, RuntimeError):
        validate.check_given(q, window, causal, scale=scale, softcap=softcap)
        raise
    validate.check(call)
    may_have = has_prefix is None or bool(has_prefix)
    call.prefix = key is None or slot_mapping is not None or (may_have and call.layout.pages > 0)
    if not call.prefix:  # new tokens are all there is: what was said of keys may have been a bound
        call.max_k, call.total_k = min(call.max_k, call.max_q), call.layout.tokens
    config = choose(call, heuristics) if config is None else normalise(config)
    if metadata is not None:
        check_metadata(metadata, call)
        call.blocks, call.block_q = metadata.cu_q_blocks, metadata.block_q
    if config.variant == "static_grid":
        chooser = choose_segments(heuristics)
        if isinstance(chooser, int):
            call.forced = chooser
        else:
            call.choose = chooser
    try:
        return launch(call, config)
    except RuntimeError:  # traced since its signature was found good, it has no address
        validate.check_placed(call)
        raise


@untraced("paged_attention")
def unified_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    max_seqlen_q: int,
    seqused_k: torch.Tensor,
    max_seqlen_k: int,
    softmax_scale: float,
    causal: bool,
    window_size: tuple[int, int],
    block_table: torch.Tensor,
    softcap: float,
    q_descale: torch.Tensor | None,
    k_descale: torch.Tensor | None,
    v_descale: torch.Tensor | None,
    seq_threshold_3D: int | None = None,
    num_par_softmax_segments: int | None = None,
    softmax_segm_output: torch.Tensor | None = None,
    softmax_segm_max: torch.Tensor | None = None,
    softmax_segm_expsum: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    output_scale: torch.Tensor | None = None,
    qq_bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    mm_prefix_range: torch.Tensor | None = None,
    rswa_prefix_lens: torch.Tensor | None = None,
    rswa_window: int | None = None,
    use_alibi_sqrt: bool = False,
    kv_quant_mode: int = 0,
    k_scale_cache: torch.Tensor | None = None,
    v_scale_cache: torch.Tensor | None = None,
    chunk_lookback: int = -1,
    use_td: bool = False,
    mm_prefix_clamp_sliding_window: bool = False,
    *,
    total_seqlen_k: int | None = None,
    heuristics: Any = None,
) -> None:
    """The keyword signature that vLLM 0.33.0's Triton backend calls; writes to `out`.

    As in `paged_attention`: q; k and v (its key_cache and value_cache); cu_seqlens_q; seqused_k (its seq_lens);
    block_table; max_seqlen_q and max_seqlen_k; softmax_scale (its scale); causal; softcap; alibi_slopes; sinks;
    output_scale; q_descale, k_descale and v_descale (its q_scale, k_scale, v_scale); out, of q's shape.

    The segment scratch and `use_td` are hints of that kernel's own launch and are not needed here. Features that
    these kernels do not have raise NotImplementedError by name. window_size follows that kernel: a non-causal
    window is symmetric, its right side equal to its left. total_seqlen_k, as in `paged_attention`, is not vLLM's.
    """
    validate.check_are_tensors(q=q, k=k, v=v, out=out)
    validate.check_pair("window_size", window_size)
    left, _ = window_size
    _refuse(
        {
            "per-sequence causal flags": isinstance(causal, torch.Tensor),
            "qq_bias": qq_bias is not None,
            "mm_prefix_range": mm_prefix_range is not None or mm_prefix_clamp_sliding_window,
            "rswa_window": rswa_window is not None and rswa_prefix_lens is not None,
            "use_alibi_sqrt": use_alibi_sqrt,
            "kv_quant_mode (per-token-head or int4 caches)": int(kv_quant_mode) not in (0, 1),
            "k_scale_cache / v_scale_cache": k_scale_cache is not None or v_scale_cache is not None,
            "chunk_lookback": chunk_lookback > -1 and left >= 0,
        }
    )
    if k.dtype == torch.uint8:
        raise ValueError("k is uint8; view the cache as its fp8 type first")
    scaled = k.dtype in FP8
    paged_attention(
        q, k, v, block_table, cu_seqlens_q, seqused_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k,
        scale=softmax_scale, causal=bool(causal), window=(left, -1 if causal else left), softcap=softcap or 0.0,
        alibi_slopes=alibi_slopes, sinks=sinks, q_scale=q_descale if q.dtype in FP8 else None,
        k_scale=k_descale if scaled else None, v_scale=v_descale if scaled else None, output_scale=output_scale,
        total_seqlen_k=total_seqlen_k, out=out, heuristics=heuristics,
    )  # fmt: skip


def _refuse(features: dict[str, bool]) -> None:
    for name, asked in features.items():
        if asked:
            raise NotImplementedError(f"heurgen_kernels does not support {name}")
