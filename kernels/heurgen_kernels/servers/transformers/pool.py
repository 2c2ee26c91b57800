"""What a batch of `generate_batch` hands to a layer, as each release of Transformers keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache as cached
from inspect import signature
from typing import Any, NamedTuple

import torch


class Pool(NamedTuple):
    """A layer's cached tokens.

    tokens      K and V, each [tokens of the pool, KV heads, head size]
    pages       the same, each [pages, tokens of a page, KV heads, head size]; None, as are `tokens`, where a sequence's
                tokens do not lie in pages, as a window's do not
    read        where the tokens of all sequences lie, one sequence after another; empty where all tokens are new
    write       where the new ones go
    ends        of sequences in `read`: [sequences + 1], int32
    longest_q, longest_k   new tokens, and tokens, of a sequence
    """

    tokens: tuple[torch.Tensor, torch.Tensor] | None
    pages: tuple[torch.Tensor, torch.Tensor] | None
    read: torch.Tensor
    write: torch.Tensor
    ends: torch.Tensor
    longest_q: int
    longest_k: int


def is_pool(cache: Any) -> bool:
    """Whether a cache is one of continuous batching: that of `generate` goes by the same name from 5.24 on."""
    return hasattr(cache, "layer_to_allocator") or hasattr(cache, "layer_index_to_group_indices")


def pool_of(cache: Any, layer: int, given: Mapping[str, Any]) -> Pool:
    """given: the keywords of a batch."""
    of_layer = _of_allocator if hasattr(cache, "layer_to_allocator") else _of_group
    index, kind, tokens, pages = of_layer(cache, layer)
    # 5.19 renamed the lengths, which had been "max_seqlen_q" and "max_seqlen_k"
    lengths = "max_length" if "max_length_q" in given else "max_seqlen"
    return Pool(
        tokens, pages, given["read_index"][index], given["write_index"][index].long(),
        _of_kind(given["cu_seq_lens_k"], kind).to(torch.int32), int(given[f"{lengths}_q"]),
        int(_of_kind(given[f"{lengths}_k"], kind)),
    )  # fmt: skip


def _of_kind(by_kind: Any, kind: str) -> Any:
    """Before 5.19 a model whose layers are all of one kind has no dict of kinds."""
    return by_kind[kind] if isinstance(by_kind, dict) else by_kind


def _of_allocator(cache: Any, layer: int) -> tuple[int, str, Any, Any]:
    """(group, kind, tokens, pages) from 5.18 on."""
    allocator = cache.layer_to_allocator[layer]
    if not getattr(allocator, "supports_block_table", False):
        return allocator.index, getattr(allocator, "layer_type", "sliding_attention"), None, None
    tokens, pages = allocator._kv_token_views[layer], allocator.get_cache_for_block_table(layer)
    return allocator.index, getattr(allocator, "layer_type", "full_attention"), tokens, pages


def _of_group(cache: Any, layer: int) -> tuple[int, str, Any, Any]:
    """As `_of_allocator`, before 5.18."""
    group, place = cache.layer_index_to_group_indices[layer]
    if cache.sliding_windows[layer] != 1:
        return group, "sliding_attention", None, None
    tokens = cache.key_cache[place], cache.value_cache[place]
    return group, "full_attention", tokens, tuple(t.view(-1, cache.block_size, *t.shape[1:]) for t in tokens)


def gathered(
    cache: Any, key: torch.Tensor, value: torch.Tensor, layer: int, given: Mapping[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of all tokens, [1, KV heads, tokens, head size], as Transformers gathers them and writes the new ones."""
    kind = type(cache)
    keywords: dict[str, Any] = {name: given[name] for name in ("read_index", "write_index")}
    if _takes_keywords(kind.update):
        keywords = {"kwargs": dict(given)}
    states = kind.update(cache, key_states=key, value_states=value, layer_idx=layer, **keywords)
    k, v = (found if found.dim() == 4 else found.transpose(0, 1)[None] for found in states)
    return k, v


@cached
def _takes_keywords(update: Callable[..., Any]) -> bool:
    """From 5.19 on, where tensors return as they come."""
    return "kwargs" in signature(update).parameters
