"""Attention written out in plain torch, sequence by sequence: what the kernels are compared with."""

from __future__ import annotations

import torch


def reference_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    scale: float,
    key: torch.Tensor | None = None,
    value: torch.Tensor | None = None,
    causal: bool = True,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    q_scale: float = 1.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    output_scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Shapes as `paged_attention`; computes in `dtype` (float32 or float64) and returns [tokens, heads,
    head size].

    window: keys kept to the (left, right) of each query, -1 for no bound. The output is divided by output_scale.
    """
    out = torch.zeros(q.shape, dtype=dtype, device=q.device)
    starts, lengths = cu_seqlens_q.tolist(), seq_lens.tolist()
    for index, k_len in enumerate(lengths):
        first, last = starts[index], starts[index + 1]
        if last == first or k_len == 0:
            continue
        keys = _keys(key_cache, block_table[index], k_len, key, first, last, k_scale, dtype)
        values = _keys(value_cache, block_table[index], k_len, value, first, last, v_scale, dtype)
        step = max(1, 2**27 // max(k_len * q.shape[1], 1))
        for begin in range(first, last, step):
            end = min(begin + step, last)
            position = torch.arange(begin - first, end - first, device=q.device) + k_len - (last - first)
            rows = q[begin:end].to(dtype) * q_scale
            scores = _scores(rows, keys, position, scale, causal, window, softcap, alibi_slopes)
            out[begin:end] = _softmax_times(scores, values, sinks) / output_scale
    return out


def _keys(
    cache: torch.Tensor,
    pages: torch.Tensor,
    k_len: int,
    new: torch.Tensor | None,
    first: int,
    last: int,
    scale: float,
    dtype: torch.dtype,
) -> torch.Tensor:
    """[k_len, KV heads, head size] of one sequence: its pages in order, then the new tokens where given.

    `scale` belongs to the cache; new tokens are not quantised.
    """
    page_size = cache.shape[1]
    cached = k_len if new is None else k_len - (last - first)
    used = pages[: -(-cached // page_size)].long()
    old = cache[used].reshape(-1, *cache.shape[2:])[:cached].to(dtype) * scale
    return old if new is None else torch.cat([old, new[first:last].to(dtype)])


def _scores(
    rows: torch.Tensor,
    keys: torch.Tensor,
    position: torch.Tensor,
    scale: float,
    causal: bool,
    window: tuple[int, int],
    softcap: float,
    alibi_slopes: torch.Tensor | None,
) -> torch.Tensor:
    """[heads, tokens, keys], masked with -inf. Chunks of `reference_attention` bound the memory."""
    group = rows.shape[1] // keys.shape[1]
    by_group = rows.unflatten(1, (keys.shape[1], group))
    scores = torch.einsum("qhgd,khd->hgqk", by_group, keys).flatten(0, 1) * scale
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    distance = torch.arange(keys.shape[0], device=rows.device)[None, :] - position[:, None]
    if alibi_slopes is not None:
        scores = scores + alibi_slopes.to(scores.dtype)[:, None, None] * distance
    right = 0 if causal else window[1]
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if right >= 0:
        hidden |= distance > right
    if window[0] >= 0:
        hidden |= distance < -window[0]
    return scores.masked_fill(hidden, float("-inf"))


def _softmax_times(scores: torch.Tensor, values: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """softmax(scores) @ values as [tokens, heads, head size]; a sink adds exp(sink) to a head's
    denominator.
    """
    top = scores.amax(-1, keepdim=True)
    if sinks is not None:
        top = torch.maximum(top, sinks.to(scores.dtype)[:, None, None])
    top = torch.where(top == float("-inf"), 0.0, top)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + torch.exp(sinks.to(scores.dtype)[:, None, None] - top)
    weights = weights / torch.where(total == 0, 1.0, total)
    group = scores.shape[0] // values.shape[1]
    by_group = weights.unflatten(0, (values.shape[1], group))
    return torch.einsum("hgqk,khd->qhgd", by_group, values).flatten(1, 2)
