"""Attention for Transformers 5: `register()`, then a model with attn_implementation="heurgen".

`generate` takes prompts and decodes without padding from the kernels and hands everything else to Transformers' own
`sdpa`, to plain PyTorch where layers have soft caps or sinks, which that lacks. Continuous batching (`generate_batch`)
writes and reads its pages in place: the block table is made of the indices that Transformers has for each token, once a
batch, and no copy of the cached tokens is gathered. Releases that ask for the prefix take "paged|heurgen", and
`continuous(model)` is the way that every release takes: from 5.23 on names for continuous batching are Transformers'
own and ones with "flash" in them, here "heurgen_flash", the same function.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from ..api import paged_attention

logger = logging.getLogger("transformers.heurgen")
CONTINUOUS = "heurgen_flash"
NAMES = ("heurgen", "paged|heurgen", CONTINUOUS)
DTYPES = (torch.float16, torch.bfloat16)
# Tokens of a page that K and V of `generate` are cut into.
PAGE = 16
_told: set[str] = set()


def register() -> None:
    """Makes the names known to Transformers; again has no effect. ImportError without Transformers 5."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    for name in NAMES:
        AttentionInterface.register(name, attention)
        # no mask where a batch has no padding; where there is one `sdpa` needs it
        AttentionMaskInterface.register(name, sdpa_mask)


def continuous(model: Any) -> Any:
    """The model, whose attention is ours in `generate_batch`.

    The name goes into the configs as it is: `set_attn_implementation` looks for names with "flash" in them on the hub.
    """
    register()
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation"):
            config._attn_implementation = CONTINUOUS
    return model


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: torch.Tensor | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Transformers' attention function: query [batch, query heads, new tokens, head size], key and value
    [batch, KV heads, all tokens, head size]; returns [batch, new tokens, query heads, head size].
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    features = {
        "scale": scale, "window": (-1 if sliding_window is None else sliding_window - 1, -1), "softcap": softcap or 0.0,
        "sinks": s_aux,
    }  # fmt: skip
    if cache is not None:
        return _continuous(query, key, value, cache, module.layer_idx, features, kwargs), None
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    reason = why_not(query, key, value, attention_mask, dropout, causal)
    if reason is None:
        return _whole(query, key, value, causal, features), None
    if reason not in _told:
        _told.add(reason)
        logger.info("heurgen leaves attention to sdpa: %s", reason)
    return _sdpa(
        module, query, key, value, attention_mask, dropout, scaling, is_causal, softcap, s_aux, kwargs
    )


def why_not(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, dropout: float, causal: bool
) -> str | None:
    """Why a call of `generate` goes to sdpa; None where the kernels take it."""
    size, new, total = query.shape[-1], query.shape[2], key.shape[2]
    if mask is not None:
        return "a mask, of padding or of tokens that are not there yet"
    if dropout or query.requires_grad:
        return "training"
    if query.dtype not in DTYPES or not query.dtype == key.dtype == value.dtype:
        return f"queries of type {query.dtype}"
    if not (16 <= size <= 256 and size % 8 == 0) or value.shape[-1] != size:
        return f"heads of {size} and {value.shape[-1]}"
    return None if new in (1, total) or not causal else "new tokens behind cached ones without a mask"


def _whole(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool, features: dict[str, Any]
) -> torch.Tensor:
    """A batch whose sequences are equally long: K and V are copied into pages, as one layout for all lengths."""
    batch, _, new, _ = query.shape
    total, width = key.shape[2], -(-key.shape[2] // PAGE)
    pages = [_in_pages(tensor, width) for tensor in (key, value)]
    device = query.device
    table = torch.arange(batch * width, dtype=torch.int32, device=device).view(batch, width)
    starts = torch.arange(0, batch * new + 1, new, dtype=torch.int32, device=device)
    lens = torch.full((batch,), total, dtype=torch.int32, device=device)
    packed = query.transpose(1, 2).reshape(batch * new, *query.shape[1::2])
    if not causal:
        features = {**features, "window": (features["window"][0],) * 2}
    out = paged_attention(
        packed, pages[0], pages[1], table, starts, lens, max_seqlen_q=new, max_seqlen_k=total,
        total_seqlen_k=batch * total, causal=causal, **features,
    )  # fmt: skip
    return out.view(batch, new, *out.shape[1:])


def _in_pages(states: torch.Tensor, width: int) -> torch.Tensor:
    """[batch, heads, tokens, size] as [pages, PAGE, heads, size], each sequence from a page of its own on."""
    batch, heads, total, size = states.shape
    pages = states.new_empty((batch, width * PAGE, heads, size))
    pages[:, :total] = states.transpose(1, 2)
    return pages.view(batch * width, PAGE, heads, size)


def _sdpa(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, dropout: float,
    scaling: float | None, is_causal: bool | None, softcap: float | None, s_aux: Any, kwargs: dict[str, Any],
) -> tuple[torch.Tensor, None]:  # fmt: skip
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if softcap or s_aux is not None:
        causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return _eager(query, key, value, mask, dropout, scale, causal, softcap, s_aux), None
    found: tuple[torch.Tensor, None] = sdpa_attention_forward(
        module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs
    )
    return found


def _eager(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout: float,
    scale: float, causal: bool, softcap: float | None, sinks: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    """What sdpa lacks, soft caps and sinks (one a query head), with its masks: None, of bool (seen) or to be added."""
    new, total = query.shape[2], key.shape[2]
    key, value = (states.repeat_interleave(query.shape[1] // states.shape[1], 1) for states in (key, value))
    scores = query @ key.transpose(2, 3) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if (
        mask is None and causal and new > 1
    ):  # as sdpa has it: a static cache's keys are those of the first tokens
        mask = torch.ones((new, total), dtype=torch.bool, device=query.device).tril()
    if mask is not None:
        hidden = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~mask, hidden) if mask.dtype == torch.bool else scores + mask
    if sinks is not None:
        scores = torch.cat((scores, sinks.to(scores).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)), -1)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)[..., :total]
    weights = torch.nn.functional.dropout(weights, dropout, dropout > 0)
    return (weights @ value).transpose(1, 2).contiguous()


def _continuous(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cache: Any, layer: int, features: dict[str, Any],
    given: dict[str, Any],
) -> torch.Tensor:  # fmt: skip
    """query [1, query heads, tokens of all sequences, head size]; K and V likewise, of the new tokens alone."""
    allocator = cache.layer_to_allocator[layer]
    kind = allocator.layer_type
    packed, new_k, new_v = (states.squeeze(0).transpose(0, 1) for states in (query, key, value))
    starts, ends = given["cu_seq_lens_q"], given["cu_seq_lens_k"][kind].to(torch.int32)
    longest_q, longest_k = int(given["max_length_q"]), int(given["max_length_k"][kind])
    lens = ends[1:] - ends[:-1]
    arguments: dict[str, Any] = {"max_seqlen_q": longest_q, "max_seqlen_k": longest_k, **features}
    if not getattr(allocator, "supports_block_table", False):
        return _gathered(packed, key, value, cache, layer, starts, ends, lens, arguments, given)
    k_tokens, v_tokens = allocator._kv_token_views[layer]
    k_pages, v_pages = allocator.get_cache_for_block_table(layer)
    read, write = given["read_index"][allocator.index], given["write_index"][allocator.index]
    k_tokens.index_copy_(0, write, new_k)
    v_tokens.index_copy_(0, write, new_v)
    if read.numel() == 0:  # prompts without cached tokens: the new ones are all there is
        table = torch.zeros(
            (lens.shape[0], -(-longest_k // k_pages.shape[1])), dtype=torch.int32, device=lens.device
        )
        arguments |= {"key": new_k.contiguous(), "value": new_v.contiguous(), "has_prefix": False}
    else:
        table = block_table(read, ends, longest_k, k_pages.shape[1])
    out = paged_attention(packed.contiguous(), k_pages, v_pages, table, starts, lens, **arguments)
    return out.unsqueeze(0)


def block_table(read: torch.Tensor, ends: torch.Tensor, longest: int, page: int) -> torch.Tensor:
    """Pages of each sequence, from the place of each of its tokens: [sequences, pages of the longest].

    read: where the tokens of all sequences lie, one sequence after another, ends[i] to ends[i + 1]. Tokens of a page
    lie one after another from its start on, so the first of each page says which it is.
    """
    first = torch.arange(0, max(longest, 1), page, device=read.device)
    place = (ends[:-1, None] + first[None, :]).clamp_(max=read.shape[0] - 1)
    return (read[place] // page).to(torch.int32)


def _gathered(
    packed: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cache: Any, layer: int, starts: torch.Tensor,
    ends: torch.Tensor, lens: torch.Tensor, arguments: dict[str, Any], given: dict[str, Any],
) -> torch.Tensor:  # fmt: skip
    """Layers whose cache has no pages (sliding windows): Transformers gathers, and every token is a page."""
    key, value = cache.update(key_states=key, value_states=value, layer_idx=layer, kwargs=dict(given))
    pages = [states.squeeze(0).transpose(0, 1).contiguous().unsqueeze(1) for states in (key, value)]
    first = torch.arange(max(arguments["max_seqlen_k"], 1), dtype=torch.int32, device=ends.device)
    table = (ends[:-1, None] + first[None, :]).clamp_(max=pages[0].shape[0] - 1).to(torch.int32)
    out = paged_attention(packed.contiguous(), pages[0], pages[1], table, starts, lens, **arguments)
    return out.unsqueeze(0)
