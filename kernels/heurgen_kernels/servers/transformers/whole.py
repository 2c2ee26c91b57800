"""Batches of `generate`: sequences of one length, K and V [batch, KV heads, all tokens, head size] as caches hand them
over, anew in each step. Strides are constants of kernels, so none may depend on how many tokens there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ...api import paged_attention
from ...caches import Cache, shared

# Tokens of a page that K and V are cut into where tokens are cached and several are new.
PAGE = 16


class Lengths(NamedTuple):
    """What a launch is told of `count` sequences: [count, pages of each], [count + 1] and [count], int32."""

    block_table: torch.Tensor
    cu_seqlens_q: torch.Tensor
    seq_lens: torch.Tensor


# Of the last few steps: a model's layers are of one or two kinds, and all of a kind ask the same.
_lengths: Cache[tuple[Any, ...], Lengths] = shared(4)


@torch.compiler.disable  # a compiled model would be traced into the launch, and fail there
def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    left: int | None,
    features: dict[str, Any],
) -> torch.Tensor:
    """query [batch, query heads, new tokens, head size]; returns [batch, new tokens, query heads, head size].

    left: keys before its own that a token sees; -1 or None: all. features: of `paged_attention`.
    """
    new, total = query.shape[2], key.shape[2]
    features = {**features, "causal": causal, "window": (-1 if left is None else left, -1)}
    if new == total:
        return _of_new_tokens(query, key, value, features)
    if new == 1 and features["sinks"] is None and key.is_contiguous() and value.is_contiguous():
        return _in_place(query, key, value, features)
    return _of_copies(query, key, value, features)


def _of_new_tokens(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, features: dict[str, Any]
) -> torch.Tensor:
    """Prompts: no token is cached."""
    batch, heads, total, size = key.shape
    packed = [rows(states) for states in (query, key, value)]
    none = key.new_empty((0, PAGE, heads, size))
    table, starts, lens = lengths_of(key.device, batch, total, total, 0)
    found = paged_attention(
        packed[0], none, none, table, starts, lens, max_seqlen_q=total, max_seqlen_k=total, key=packed[1],
        value=packed[2], has_prefix=False, **features,
    )  # fmt: skip
    return found.view(batch, total, *found.shape[1:])


def _in_place(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, features: dict[str, Any]
) -> torch.Tensor:
    """A new token a sequence: each KV head is a sequence of its own, and each token a page."""
    batch, heads, total, size = key.shape
    count = batch * heads
    k, v = (states.view(count * total, 1, 1, size) for states in (key, value))
    table, starts, lens = lengths_of(key.device, count, 1, total, 1)
    found = paged_attention(
        query.reshape(count, -1, size), k, v, table, starts, lens, max_seqlen_q=1, max_seqlen_k=total,
        total_seqlen_k=count * total, **features,
    )  # fmt: skip
    return found.view(batch, 1, -1, size)


def _of_copies(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, features: dict[str, Any]
) -> torch.Tensor:
    """Several new tokens behind cached ones, which are copied into pages."""
    batch, new, total = query.shape[0], query.shape[2], key.shape[2]
    k, v = (_in_pages(states) for states in (key, value))
    table, starts, lens = lengths_of(key.device, batch, new, total, PAGE)
    found = paged_attention(
        rows(query), k, v, table, starts, lens, max_seqlen_q=new, max_seqlen_k=total, total_seqlen_k=batch * total,
        **features,
    )  # fmt: skip
    return found.view(batch, new, *found.shape[1:])


def rows(states: torch.Tensor) -> torch.Tensor:
    """[batch, heads, tokens, size] as [batch * tokens, heads, size], contiguous to the last stride: where there is but
    one token torch calls any stride from it to the next contiguous, and each would be a kernel of its own.
    """
    batch, heads, tokens, size = states.shape
    return states.transpose(1, 2).reshape(-1).view(batch * tokens, heads, size)


def _in_pages(states: torch.Tensor) -> torch.Tensor:
    """[batch, heads, tokens, size] as [pages, PAGE, heads, size], each sequence from a page of its own on."""
    batch, heads, total, size = states.shape
    width = -(-total // PAGE)
    pages = states.new_empty((batch, width * PAGE, heads, size))
    pages[:, :total] = states.transpose(1, 2)
    return pages.view(batch * width, PAGE, heads, size)


def lengths_of(place: torch.device, count: int, new: int, total: int, page: int) -> Lengths:
    """Of `count` sequences of `total` tokens, `new` of them new, one behind the other in pages of `page` tokens, or in
    none (0). The same tensors in all layers of a step, but where a graph is recorded, which alone may fill them.
    """
    recorded = place.type == "cuda" and torch.cuda.is_current_stream_capturing()
    stream = torch.cuda.current_stream(place).cuda_stream if place.type == "cuda" else 0
    asked = (place, stream, count, new, total, page)
    found = None if recorded else _lengths.get(asked)
    if found is not None:
        return found
    width = -(-total // page) if page else 1
    found = Lengths(
        torch.arange(count * width, dtype=torch.int32, device=place).view(count, width),
        torch.arange(0, count * new + 1, new, dtype=torch.int32, device=place),
        torch.full((count,), total, dtype=torch.int32, device=place),
    )
    return found if recorded else _lengths.keep(asked, found)
