"""Which config to launch: the caller's, else the generated selector's, else the documented default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .defaults import Config, default_config
from .launch import Call, multiprocessors

FEATURES = (
    "num_seqs",
    "total_query_tokens",
    "max_seqlen_q",
    "max_seqlen_k",
    "num_query_heads",
    "num_kv_heads",
    "head_size",
    "page_size",
    "dtype",
    "fresh",
    "multiprocessors",
)
DTYPE_NAMES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.float8_e4m3fnuz: "float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}
VENDOR = "amd" if torch.version.hip is not None else "nvidia"


def features_of(call: Call) -> tuple[Any, ...]:
    """The values of FEATURES, all known on the host. dtype is the cache's."""
    k = call.k
    return (
        call.lens.shape[0], call.q.shape[0], call.max_q, call.max_k, call.q.shape[1], k.shape[2], k.shape[3],
        k.shape[1], DTYPE_NAMES[k.dtype], call.new_k is not None, multiprocessors(k.device),
    )  # fmt: skip


_recent: dict[Any, tuple[tuple[Any, ...], Any]] = {}


def choose(call: Call, heuristics: Any) -> Any:
    """The config for a call. The layers of a model ask the same question in turn: the last answer is kept."""
    values = features_of(call)
    last = _recent.get(id(heuristics))
    if last is not None and last[0] == values:
        return last[1]
    config = _selector(heuristics)(dict(zip(FEATURES, values, strict=True)))
    _recent[id(heuristics)] = (values, config)
    return config


def _selector(heuristics: Any) -> Callable[[Mapping[str, Any]], Any]:
    """heuristics: None (the default), a generated module or mapping with `select`, or a
    callable(**features).
    """
    select = getattr(heuristics, "select", heuristics)
    if select is None:
        return lambda features: default_config(vendor=VENDOR, **features)
    domain = getattr(heuristics, "FEATURES", None)
    if domain is None:
        return lambda features: select(vendor=VENDOR, **features)
    return lambda features: select(vendor=VENDOR, **{name: features[name] for name in domain})


__all__ = ["FEATURES", "Config", "choose", "features_of"]
