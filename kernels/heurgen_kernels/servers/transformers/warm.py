"""Kernels of `generate_batch`, compiled in its first batch: later ones are of other sizes, and ask for others."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache as cached
from typing import Any

import torch
import triton

from ...ahead.layouts import Layout
from ...ahead.warm import warm_up

logger = logging.getLogger("transformers.heurgen")
# Tokens of a sequence, at most, where tokens lie in no pages and no window says how many are kept.
LONGEST = 1 << 20


def before_others(
    cache: Any, layer: int, query: torch.Tensor, pages: Sequence[torch.Tensor], in_place: bool,
    features: Mapping[str, Any],
) -> None:  # fmt: skip
    """Compiles what later batches of such layers can launch, once for each kind of them and size of a pool.

    cache: Transformers'; query [tokens, query heads, head size]; pages: K's and V's, as `paged_attention` is told them,
    in_place: the pool's own, beside which prompts bring new K and V. features: of `paged_attention`.
    """
    if triton.knobs.runtime.interpret or (query.is_cuda and torch.cuda.is_current_stream_capturing()):
        return
    known = vars(cache).setdefault("heurgen_warm", set())
    if layer in known:
        return
    known.add(layer)
    left, sinks = features["window"][0], features["sinks"]
    count, page, heads, size = pages[0].shape
    longest = LONGEST if left < 0 else left + 1 + cache.max_batch_tokens
    kind = Layout(
        query.shape[1], heads, size, page, query.dtype, fresh=(False,) if in_place else (), window=left >= 0,
        softcap=features["softcap"] > 0, sinks=None if sinks is None else sinks.dtype,
        page_strides=pages[0].stride()[:3],
    )  # fmt: skip
    _warmed(kind, query.device, cache.max_batch_tokens, count * page if in_place else longest)


@cached
def _warmed(kind: Layout, device: torch.device, tokens: int, longest: int) -> None:
    """Failing here costs time later, so it ends no batch."""
    try:
        done = warm_up(
            [kind],
            max_num_seqs=tokens,
            max_num_batched_tokens=tokens,
            max_seqlen=longest,
            graphs=(),
            device=device,
        )
    except Exception:
        logger.exception("heurgen's warm-up failed; kernels compile as batches come")
        return
    logger.info(
        "heurgen warmed up %d kinds of launch in %.1f s, %d of their kernels compiled anew",
        done.launches, done.seconds, done.compiled,
    )  # fmt: skip
