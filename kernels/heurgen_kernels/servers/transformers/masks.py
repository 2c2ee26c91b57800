"""Which keys a token sees: masks that models get under our names, and those made from what layers hand over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import torch


class Batching(threading.local):
    """layers: those that have attended in the batch of `generate_batch` that a model computes now on this thread; None
    outside of one. torch.compile would break its graph at a ContextVar, once a layer.
    """

    layers: set[int] | None = None
    # those whose cache the model updated before it asked for attention (Transformers 5.24)
    updated: frozenset[int] = frozenset()
    # of the batch: places of cached tokens and the block table made of them, for all layers whose tokens lie there
    tables: dict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor]] | None = None
    # whether kernels are compiled ahead of batches of other sizes
    warm_up: bool = False


batching = Batching()
# By configs' classes.
_hand_over: dict[type, bool] = {}


def mask(
    *, q_length: int, kv_length: int, config: Any, allow_is_causal_skip: bool = True, **given: Any
) -> torch.Tensor | None:
    """Transformers' mask function under our names: [batch, 1, new tokens, keys].

    `sdpa`'s, of bool, and None where the last new token sees every key: those of a static cache that are not there yet
    need one. Models that compute attention on their own add masks to their scores and get `eager`'s. A batch of
    `generate_batch` has its cache, which says what each token sees.

    A mask that is causal, under a window or not, and nothing else is marked so: see `left_of`.
    """
    if batching.layers is not None:
        return None
    from transformers.masking_utils import eager_mask, sdpa_mask

    given = {"q_length": q_length, "kv_length": kv_length, "config": config, **given}
    if not hands_over(config):
        return eager_mask(**given)
    # Where a config says that prompts see what follows (PaliGemma), layers say of themselves that they are not causal:
    # a causal mask that is skipped would be none.
    both_ways = bool(getattr(config, "use_bidirectional_attention", False))
    plain = allow_is_causal_skip and not both_ways  # the mask function is causal, a window's or a chunk's
    if unpadded(**given):
        given["attention_mask"] = None
    left = causal_left(**given) if plain else None
    if left is not None and q_length in (1, kv_length) and not 0 <= left < kv_length - 1:
        # where keys are a window `sdpa_mask` makes one that hides nothing, at every step, and compiled before 5.24
        return None
    made = sdpa_mask(allow_is_causal_skip=plain and q_length in (1, kv_length), **given)
    if made is not None and left is not None and not torch.compiler.is_compiling():
        made.heurgen_left = left
    return made


def unpadded(
    *, kv_length: int, kv_offset: Any = None, attention_mask: torch.Tensor | None = None, **_: Any
) -> bool:
    """Whether no key is one of padding, by a mask [batch, tokens] that says which are. Arguments: a mask function's.

    Tokenizers make such masks, and before 5.18 `generate` kept them. They are read, as Transformers reads them, unless
    a graph is being made.
    """
    from transformers.utils.import_utils import is_tracing

    if attention_mask is None or not isinstance(kv_offset, int) or is_tracing(attention_mask):
        return False
    keys = attention_mask[:, kv_offset : kv_offset + kv_length]
    return keys.shape[1:] == (kv_length,) and bool(keys.all())


def causal_left(
    *, q_length: int, kv_length: int, config: Any, q_offset: Any = None, kv_offset: Any = None,
    local_size: int | None = None, attention_mask: Any = None, **_: Any,
) -> int | None:  # fmt: skip
    """Keys before its own that a token sees, -1 for all, where the last new token's is the last key; None where that is
    not known, or another shape hides some: chunks, which begin anew, and padding. Arguments: a mask function's.

    A static cache says on the device where it is.
    """
    if attention_mask is not None or not (isinstance(q_offset, int) and isinstance(kv_offset, int)):
        return None
    if kv_offset + kv_length != q_offset + q_length:
        return None
    if local_size is None:
        return -1
    chunk, window = (getattr(config, name, None) for name in ("attention_chunk_size", "sliding_window"))
    return local_size - 1 if local_size == window != chunk else None


def left_of(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> int | None:
    """`causal_left` of a mask that `mask` made for as many queries and keys; None of any other: a slice, a sum, a copy
    lacks the mark.
    """
    if mask is None or torch.compiler.is_compiling():
        return None
    whole = mask.shape == (query.shape[0], 1, query.shape[2], key.shape[2])
    left: int | None = getattr(mask, "heurgen_left", None)
    return left if whole else None


def hands_over(config: Any) -> bool:
    """Whether models of a config hand their attention over to functions other than `eager`, by what they say of
    themselves.
    """
    known: bool = _of_kind(type(config))
    return known


@torch.compiler.assume_constant_result  # else traced, where models' sources are read: no graph has that
def _of_kind(kind: Any) -> bool:
    known = _hand_over.get(kind)
    if known is None:
        known = _hand_over[kind] = _said_by(kind)
    return known


def _said_by(kind: Any) -> bool:
    from transformers import MODEL_MAPPING

    # Some configs have no model of their own: T5Gemma's parts have theirs, and InternLM3's model is Llama's.
    models = [model for model in _models() if model.config_class is kind]
    models = models or [model for model in _models() if _folder(model) == _folder(kind)]
    return all(
        model is not None
        and model._can_set_attn_implementation()
        and (model._supports_sdpa or (model._supports_flash_attn and model._supports_attention_backend))
        for model in models or [MODEL_MAPPING.get(kind, None)]
    )


def _folder(kind: type) -> str:
    return kind.__module__.rpartition(".")[0]


def _models() -> Iterator[Any]:
    """Classes of models that are imported."""
    from transformers import PreTrainedModel

    left = PreTrainedModel.__subclasses__()
    while left:
        model = left.pop()
        left += model.__subclasses__()
        yield model


def packed_mask(
    query: torch.Tensor, key: torch.Tensor, starts_q: torch.Tensor, starts_k: torch.Tensor, causal: bool,
    left: int = -1,
) -> torch.Tensor:  # fmt: skip
    """[1, 1, new tokens, tokens], of bool: what each sees of sequences that lie one behind the other. Behind them may
    be a server's padding, which sees nothing and is not seen. Nothing is read from the device, which a graph that is
    being recorded forbids.

    query, key: as in `attention`. starts_*: [sequences + 1]. left: keys before its own that a token sees, -1 for all;
    with causal. Models hand these over to names with "flash" in them, such as a vision tower's for its images.
    """
    tokens = torch.arange(query.shape[2], device=starts_q.device)
    keys = torch.arange(key.shape[2], device=starts_k.device)
    of_token = torch.searchsorted(starts_q[1:].contiguous(), tokens, right=True)
    of_key = torch.searchsorted(starts_k[1:].contiguous(), keys, right=True)
    seen = (of_token[:, None] == of_key[None, :]) & (tokens < starts_q[-1])[:, None]
    if causal:  # the last new token is the last of its sequence; padding has none
        last = starts_q.shape[0] - 2
        ends_q, ends_k = starts_q[1:][of_token.clamp(max=last)], starts_k[1:][of_key.clamp(max=last)]
        behind = (ends_k - keys)[None, :] - (ends_q - tokens)[:, None]
        seen &= behind >= 0
        if left >= 0:
            seen &= behind <= left
    return seen[None, None]


def causal_mask(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """[1, 1, new tokens, keys], of bool: the last new token sees every key. query, key: as in `attention`."""
    new, total = query.shape[2], key.shape[2]
    return torch.ones((1, 1, new, total), dtype=torch.bool, device=query.device).tril(total - new)


def chosen_mask(mask: torch.Tensor, chosen: torch.Tensor, keys: int) -> torch.Tensor:
    """The mask of those keys alone that each token chose (DeepSeek V3.2's indexer): of its type.

    mask: [batch, 1, new tokens, keys], of bool or to be added. chosen: [batch, new tokens, keys of each].
    """
    hidden = torch.ones((*chosen.shape[:2], keys), dtype=torch.bool, device=chosen.device)
    hidden = hidden.scatter_(-1, chosen.long(), False)[:, None]
    if mask.dtype == torch.bool:
        return mask & ~hidden
    return mask.masked_fill(hidden, torch.finfo(mask.dtype).min)
