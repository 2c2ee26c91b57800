"""`torch.ops.heurgen.paged_attention` and `.matmul`: custom ops with fake kernels, so that
torch.compile(fullgraph=True) works.

Importing this module registers the ops. Attention's takes the features of inference servers; configs and
heuristics are chosen inside it, so nothing of the choice is traced. They have no backward.
"""

from __future__ import annotations

from typing import Any

import torch

from .api import paged_attention
from .defaults import GRAPH
from .gemm.api import matmul


@torch.library.custom_op("heurgen::paged_attention", mutates_args=())
def paged_attention_op(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
    key: torch.Tensor | None = None,
    value: torch.Tensor | None = None,
    causal: bool = True,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    total_seqlen_k: int | None = None,
    recorded: bool = False,
) -> torch.Tensor:
    """As `api.paged_attention`, with the window as two ints.

    recorded: decodes that a CUDA graph will replay after the lengths changed on the device, where they are read then.
    """
    return paged_attention(
        q, key_cache, value_cache, block_table, cu_seqlens_q, seq_lens, max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k, scale=scale, key=key, value=value, causal=causal,
        window=(window_left, window_right), softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks,
        k_scale=k_scale, v_scale=v_scale, total_seqlen_k=total_seqlen_k,
        out=torch.empty(q.shape, dtype=q.dtype, device=q.device), config=GRAPH if recorded else None,
    )  # fmt: skip


@paged_attention_op.register_fake
def _fake(q: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)


@torch.library.custom_op("heurgen::matmul", mutates_args=())
def matmul_op(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    gated: bool = False,
    w_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """As `gemm.api.matmul`."""
    return matmul(x, w, bias, w_scale=w_scale, residual=residual, gated=gated)


@matmul_op.register_fake
def _fake_matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: Any = None,
    residual: Any = None,
    gated: bool = False,
    w_scale: Any = None,
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], w.shape[0] // 2 if gated else w.shape[0]))


def positional(batch: dict[str, Any]) -> tuple[Any, ...]:
    """The op's leading positional arguments out of keywords of `paged_attention`."""
    names = [
        "q",
        "key_cache",
        "value_cache",
        "block_table",
        "cu_seqlens_q",
        "seq_lens",
        "max_seqlen_q",
        "max_seqlen_k",
        "scale",
    ]
    return tuple(batch[name] for name in names)
