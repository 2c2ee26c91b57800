"""Attention that the kernels leave to Transformers: its own `sdpa`, or the model's `eager`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from inspect import getsource, signature
from typing import Any

import torch

from .masks import causal_mask


def elsewhere(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, dropout: float,
    scale: float, causal: bool, besides: Mapping[str, Any],
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """`sdpa`, or where a layer gives what that does not know, the model's own function.

    That one knows masks to be added alone.
    """
    given = {name: value for name, value in besides.items() if value is not None}
    if "softcap" not in given and not tensors_of(given) - keywords(sdpa()):
        out, _ = sdpa()(module, query, key, value, mask, dropout=dropout, scaling=scale, **given)
        return out, None
    if mask is None and causal and query.shape[2] > 1:
        mask = causal_mask(query, key)
    if mask is not None and mask.dtype == torch.bool:
        hidden = torch.finfo(query.dtype).min
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, hidden)
    return own_attention(module, query, key, value, mask, dropout, scale, given)


def sdpa() -> Callable[..., Any]:
    """Transformers' own."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward  # type: ignore[no-any-return]


def own_attention(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, dropout: float,
    scale: float, besides: Mapping[str, Any],
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """The model's own function, of a mask to be added."""
    own = own_function(module)
    unknown = tensors_of(besides) - keywords(own) - {"s_aux", "position_bias"}
    if unknown and asks_for_names(type(module).__module__):
        raise NotImplementedError(
            f"{type(module).__name__} hands over {', '.join(sorted(unknown))}, which heurgen does not know: take"
            ' attn_implementation="sdpa"'
        )
    return own(module, query, key, value, mask, dropout=dropout, scaling=scale, **besides)[0], None


def tensors_of(given: Mapping[str, Any]) -> set[str]:
    """Names of those that are tensors."""
    return {name for name, value in given.items() if isinstance(value, torch.Tensor)}


def own_function(module: torch.nn.Module) -> Callable[..., Any]:
    """The `eager` attention of the file that has the layer. NotImplementedError where it has none."""
    for cls in type(module).__mro__:
        found = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise NotImplementedError(
        f"{type(module).__name__} asks for attention that sdpa does not have; its file has no eager_attention_forward"
    )


@torch.compiler.assume_constant_result  # traced otherwise, whatever keeps it
def keywords(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters."""
    return _keywords(function)


@cache
def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(function).parameters)


@cache
def asks_for_names(file: str) -> bool:
    """Whether a model's file compares its implementation's name: others than `eager` and `sdpa` are then handed what
    these do not need, such as keys that were chosen, in place of a mask.
    """
    return bool(re.search(r"_attn_implementation (==|in) ", getsource(sys.modules[file])))
