"""Attention for Transformers 5: `register()`, then a model with attn_implementation="heurgen".

`generate` takes prompts without padding from the kernels, and decodes with soft caps and sinks, and hands everything
else to Transformers' own `sdpa`, to the model's `eager` where a layer asks for what that lacks. Continuous batching
(`generate_batch`) writes and reads its pages in place: the block table is made of the indices that Transformers has for
each token, once a batch, and no copy of the cached tokens is gathered. Releases that ask for the prefix take
"paged|heurgen", and `continuous(model)` is the way that every release takes: from 5.19 on names for continuous batching
are Transformers' own and ones with "flash" in them, here "heurgen_flash", the same function.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache, partial
from inspect import signature
from typing import Any

import torch
import triton

from ...api import paged_attention
from ...host.hardware import device_of
from ...host.validate import HIGHEST_CAP
from .fallback import elsewhere, own_attention, sdpa
from .masks import batching, causal_mask, chosen_mask, hands_over, left_of, mask, packed_mask
from .pool import Pool, gathered, is_pool, pool_of
from .warm import before_others
from .whole import attend, rows

logger = logging.getLogger("transformers.heurgen")
CONTINUOUS, PAGED = "heurgen_flash", "paged|heurgen"
NAMES = ("heurgen", PAGED, CONTINUOUS, f"paged|{CONTINUOUS}")
DTYPES = (torch.float16, torch.bfloat16)
# Kernels are compiled for compute capabilities from this one on; bfloat16's matrix products came with it.
CAPABILITY = (8, 0)
# Keywords that change nothing where there is no mask: a server's, and those that Transformers takes for every model.
SILENT = {
    "position_ids", "cache_position", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "max_seqlen_q",
    "max_seqlen_k", "seq_idx", "num_items_in_batch", "use_cache", "output_hidden_states", "output_router_logits",
    "logits_to_keep", "return_dict", "read_index", "write_index", "block_table", "logits_indices",
    "logits_processor_args",
}  # fmt: skip
_told: set[str] = set()


def register() -> None:
    """Makes the names known to Transformers; again has no effect. ImportError without Transformers 5."""
    from transformers import AttentionInterface, AttentionMaskInterface

    for name in NAMES:
        AttentionInterface.register(name, paged if name == PAGED else attention)
        AttentionMaskInterface.register(name, mask)


def continuous(model: Any, *, warm_up: bool = False) -> Any:
    """The model, whose attention is ours in `generate_batch`. NotImplementedError where it computes attention on its
    own: requests of a batch lie one behind the other, and would see each other.

    warm_up: whether the first batch compiles, in parallel processes, all that later ones can launch, as a server wants
    it; else kernels compile when they are first launched, of which a few batches need a few.

    The name goes into the configs as it is: `set_attn_implementation` looks for names with "flash" in them on the hub.
    """
    register()
    own: Any = getattr(model, "config", None)
    if own is not None and not hands_over(own.get_text_config(decoder=True)):
        raise NotImplementedError(
            f"{type(model).__name__} computes attention on its own, in which requests of generate_batch would see each"
            " other: take generate"
        )
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation") and (config is own or hands_over(config)):
            config._attn_implementation = batched_name()
    model._heurgen_warm_up = warm_up
    if not getattr(model, "_heurgen_batches", False):
        model._heurgen_batches = True
        model.register_forward_pre_hook(_begins, with_kwargs=True)
        model.register_forward_hook(_ends, with_kwargs=True, always_call=True)
    return model


def batched_name() -> str:
    """Our name for `generate_batch`, which asks for "paged|" in it until 5.18."""
    import transformers

    release = [int(part) for part in transformers.__version__.split(".")[:2]]
    return f"paged|{CONTINUOUS}" if release < [5, 19] else CONTINUOUS


def _begins(model: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """From 5.24 on `generate` hands its cache over by this name, too, and layers update the caches of both."""
    cache: Any = kwargs.get("cache")
    pages = is_pool(cache)
    batching.layers, batching.updated = set() if pages else None, frozenset()
    batching.tables = {} if pages else None
    batching.warm_up = bool(pages and model._heurgen_warm_up)
    name = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if pages and name in NAMES and layers_update():
        cache.update = partial(_remembered, cache)


def _ends(model: Any, args: Any, kwargs: Mapping[str, Any], output: Any) -> None:
    left, batching.layers = batching.updated - (batching.layers or set()), None
    batching.updated, batching.tables = frozenset(), None
    cache: Any = kwargs.get("cache")
    if is_pool(cache):  # a manager that is kept may hand it to other attention next
        vars(cache).pop("update", None)
    if left and output is not None:
        raise NotImplementedError(
            f"layers {sorted(left)} of generate_batch compute attention without heurgen"
        )


@cache
def layers_update() -> bool:
    """Whether models update caches of continuous batching before they ask for attention (Transformers 5.24)."""
    from transformers.models.llama.modeling_llama import LlamaAttention

    return "cache" in signature(LlamaAttention.forward).parameters


@torch.compiler.disable
def _remembered(
    cache: Any, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, kwargs: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """In the place of the cache's own `update`, which would gather: attention is handed the cache, new K and new V."""
    batching.updated |= {layer_idx}
    kwargs["cache"] = cache
    return key_states, value_states


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
    plain = attention_mask is None and softcap is None and s_aux is None and cache is None
    if plain and query.shape[2] == 1 and _decodes(module, kwargs):
        out, _ = sdpa()(
            module, query, key, value, None, dropout=dropout, scaling=scaling, is_causal=is_causal
        )
        return out, None
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    features = {"scale": scale, "softcap": softcap or 0.0, "sinks": s_aux}
    besides = {name: given for name, given in {"s_aux": s_aux, **kwargs}.items() if _speaks(name, given)}
    if softcap and softcap > HIGHEST_CAP:  # which the kernels refuse
        besides["softcap"] = softcap
    if cache is not None:
        features["window"] = (-1 if sliding_window is None else sliding_window - 1, -1)
        return _paged(module, query, key, value, attention_mask, cache, dropout, features, besides, kwargs)  # type: ignore[no-any-return]
    if batching.layers is not None:
        raise _dropped(module)
    asked = {"softcap": softcap, "sliding_window": sliding_window, "is_causal": is_causal}
    if attention_mask is not None and "indices" in besides:
        attention_mask = chosen_mask(attention_mask, besides.pop("indices"), key.shape[2])
    config = getattr(module, "config", None)
    if config is not None and not hands_over(config):
        # without a mask it may see every key, and say nowhere that it is not causal
        return own_attention(module, query, key, value, attention_mask, dropout, scale, asked | besides)
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if attention_mask is None and kwargs.get("cu_seq_lens_q") is not None:
        attention_mask = packed_mask(query, key, kwargs["cu_seq_lens_q"], kwargs["cu_seq_lens_k"], causal)
    left = left_of(attention_mask, query, key)
    reason = why_not(
        query, key, value, None if left is not None else attention_mask, dropout, causal, besides
    )
    if reason is None:
        return attend(query, key, value, left is not None or causal, left, features), None
    _tell(reason)
    if attention_mask is None and causal and 1 < query.shape[2] != key.shape[2]:
        attention_mask = causal_mask(query, key)
    return elsewhere(module, query, key, value, attention_mask, dropout, scale, causal, asked | besides)


def _decodes(module: torch.nn.Module, given: Mapping[str, Any]) -> bool:
    """Whether a token that sees every key is left to `sdpa` unasked. A step of `generate` is the host's time: on one
    H200 a call takes 18 to 39 us of it in `sdpa`, 70 to 107 in ours, and what is asked of other calls takes some, too.
    """
    if batching.layers is not None or given.get("cu_seq_lens_q") is not None:
        return False
    return hands_over(getattr(module, "config", None)) and not any(
        _speaks(name, given[name]) for name in given
    )


@torch.compiler.disable  # a compiled model would be compiled anew for each layer: which have attended is told apart
def _paged(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, cache: Any,
    dropout: float, features: dict[str, Any], besides: dict[str, Any], given: dict[str, Any],
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """A batch of `generate_batch`. given: its keywords, besides: those of them that may change what is computed."""
    _check_batch(module, mask)
    reason = why_not(query, key, value, None, dropout, True, besides)
    if reason is None:
        layer: Any = module.layer_idx
        return _continuous(query, key, value, cache, layer, features, given), None
    _tell(reason)
    besides = {**besides, "softcap": features["softcap"] or None}
    return _gathered_elsewhere(module, query, key, value, cache, features, besides, given)


def _speaks(name: str, given: Any) -> bool:
    """Whether a keyword may change what is computed."""
    return name not in SILENT and given is not None and given is not False


@torch.compiler.assume_constant_result  # said while a graph is made, which a line in the log would break
def _tell(reason: str) -> None:
    if reason not in _told:
        _told.add(reason)
        logger.info("heurgen leaves attention to Transformers: %s", reason)


def paged(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    attention_mask: torch.Tensor | None, cache: Any = None, **kwargs: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """`attention` under the name that is for continuous batching alone."""
    if cache is None:
        raise _dropped(module)
    return attention(module, query, key, value, attention_mask, cache=cache, **kwargs)


def _check_batch(module: torch.nn.Module, mask: Any) -> None:
    """NotImplementedError where a layer asks a batch of `generate_batch` for what its cache cannot say."""
    attended = batching.layers
    if attended is None:
        return
    layer: Any = module.layer_idx
    if mask is not None or layer in attended:
        what = "has a mask of its own" if mask is not None else "attends twice, with other values,"
        raise NotImplementedError(
            f"{type(module).__name__} {what} in generate_batch, which heurgen does not have"
        )
    attended.add(layer)


def _dropped(module: torch.nn.Module) -> NotImplementedError:
    """Requests of a batch lie one behind the other: without its cache they would see each other."""
    return NotImplementedError(
        f"{type(module).__name__} is not handed the cache of generate_batch by its model"
    )


def why_not(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, dropout: float, causal: bool,
    besides: Mapping[str, Any],
) -> str | None:  # fmt: skip
    """Why a call of `generate` goes to Transformers; None where the kernels take it. besides: further keywords that
    may change what is computed.

    No mask means that a token sees every key, or those up to its own, and the last new one every key (see `mask`):
    windows are then no longer than that, but for one that a marked mask says, which is none here.
    """
    size = query.shape[-1]
    if mask is not None:
        return "a mask, of padding or of tokens that are not there yet"
    trained = any(getattr(given, "requires_grad", False) for given in (query, key, value, *besides.values()))
    if dropout or (trained and torch.is_grad_enabled()):
        return "training"
    unknown = besides.keys() - {"s_aux"}
    if unknown:
        return f"layers with {', '.join(sorted(unknown))}"
    known = (
        interpreted()
        if not query.is_cuda
        else (device_of(query.device).capability or CAPABILITY) >= CAPABILITY
    )
    if not known:
        return f"{query.device.type} devices other than GPUs of compute capability 8.0 and above"
    if query.dtype not in DTYPES or not query.dtype == key.dtype == value.dtype:
        return f"queries of type {query.dtype}"
    if not query.is_cuda and query.dtype == torch.bfloat16:
        return "bfloat16 in Triton's interpreter, whose products of it are wrong"
    if not (16 <= size <= 256 and size % 8 == 0) or value.shape[-1] != size:
        return f"heads of {size} and {value.shape[-1]}"
    if query.shape[0] != key.shape[0]:
        return "queries that all sequences share"
    return None


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels, on a CPU."""
    return bool(triton.knobs.runtime.interpret)


def _continuous(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cache: Any, layer: int, features: dict[str, Any],
    given: dict[str, Any],
) -> torch.Tensor:  # fmt: skip
    """query [1, query heads, tokens of all sequences, head size]; K and V likewise, of the new tokens alone."""
    pool = pool_of(cache, layer, given)
    packed = rows(query)
    lens = pool.ends[1:] - pool.ends[:-1]
    arguments: dict[str, Any] = {"max_seqlen_q": pool.longest_q, "max_seqlen_k": pool.longest_k, **features}
    if pool.tokens is None or pool.pages is None:
        pages, table = _token_pages(gathered(cache, key, value, layer, given), pool)
    else:
        pages = list(pool.pages)
        for tokens, new in zip(pool.tokens, (key, value), strict=True):
            tokens.index_copy_(0, pool.write, new.squeeze(0).transpose(0, 1))
        if pool.read.numel() == 0:  # prompts without cached tokens: the new ones are all there is
            width = -(-pool.longest_k // pages[0].shape[1])
            table = torch.zeros((lens.shape[0], width), dtype=torch.int32, device=lens.device)
            arguments |= {"key": rows(key), "value": rows(value), "has_prefix": False}
        else:
            table = table_of(pool, pages[0].shape[1])
    if batching.warm_up:
        before_others(cache, layer, packed, pages, pool.pages is not None, features)
    out = paged_attention(packed, pages[0], pages[1], table, given["cu_seq_lens_q"], lens, **arguments)
    return out.unsqueeze(0)


def table_of(pool: Pool, page: int) -> torch.Tensor:
    """`block_table`, once a batch for all layers whose tokens lie in the same places: half a dozen launches. Where no
    hook says what a batch is, for each layer.
    """
    tables, places = batching.tables, pool.read
    if tables is None:
        return block_table(places, pool.ends, pool.longest_k, page)
    asked = (places.data_ptr(), places.shape[0], pool.longest_k, page)
    if asked not in tables:  # the places are kept, so that their address stays theirs
        tables[asked] = places, block_table(places, pool.ends, pool.longest_k, page)
    return tables[asked][1]


def block_table(read: torch.Tensor, ends: torch.Tensor, longest: int, page: int) -> torch.Tensor:
    """Pages of each sequence, from the place of each of its tokens: [sequences, pages of the longest].

    read: where the tokens of all sequences lie, one sequence after another, ends[i] to ends[i + 1]. Tokens of a page
    lie one after another from its start on, so the first of each page says which it is.
    """
    first = torch.arange(0, max(longest, 1), page, device=read.device)
    place = (ends[:-1, None] + first[None, :]).clamp_(max=read.shape[0] - 1)
    return (read[place] // page).to(torch.int32)


def _token_pages(
    states: tuple[torch.Tensor, torch.Tensor], pool: Pool
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """(K and V, their block table) of tokens that lie one sequence after another: each is a page."""
    pages = [state.squeeze(0).transpose(0, 1).contiguous().unsqueeze(1) for state in states]
    first = torch.arange(max(pool.longest_k, 1), dtype=torch.int32, device=pool.ends.device)
    table = (pool.ends[:-1, None] + first[None, :]).clamp_(max=pages[0].shape[0] - 1).to(torch.int32)
    return pages, table


def _gathered_elsewhere(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cache: Any,
    features: dict[str, Any], besides: dict[str, Any], given: dict[str, Any],
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """A batch of `generate_batch` that the kernels lack something of: Transformers gathers and computes. Names with
    "flash" in them get no mask from it.
    """
    layer: Any = module.layer_idx
    ends = pool_of(cache, layer, given).ends
    key, value = gathered(cache, key, value, layer, given)
    left, _ = features["window"]
    mask = packed_mask(query, key, given["cu_seq_lens_q"], ends, True, left)
    return elsewhere(module, query, key, value, mask, 0.0, features["scale"], True, besides)
