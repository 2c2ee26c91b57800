"""AutoHeuristic's choice strings -> parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from heurgen.logs.importers.common import safe_name

ParsedChoice: TypeAlias = dict[str, str]
# `torch._inductor` writes a Triton choice as key=value pairs joined by "_"; its keys hold no underscore.
_KEY = r"[A-Za-z][A-Za-z0-9-]*"
_STRUCTURED = re.compile(rf"{_KEY}=.*", re.DOTALL)
_NEXT_KEY = re.compile(rf"_(?={_KEY}=)")
# A choice that is a graph of its own has a number behind its name, another one in every tuning.
_SUBGRAPH = re.compile(r"(subgraph_.+)_[0-9]+")
_SPLIT = re.compile(r"subgraph_decompose_k_mm_([0-9]+)_split")
_RENAMED = {"numstages": "num_stages", "numwarps": "num_warps"}
_ORDER = ("type", "BLOCK_M", "BLOCK_K", "BLOCK_N", "num_stages", "num_warps")


def parse_choice(text: str) -> ParsedChoice:
    """`type=triton_BLOCK-M=64_numwarps=4` -> its parameters; any other text is a bare name: the `type`.

    Text that repeats a key is taken as a bare name too. `None` is a parameter that does not apply.
    """
    if not _STRUCTURED.fullmatch(text):
        name = numbered[1] if (numbered := _SUBGRAPH.fullmatch(text)) else text
        split = _SPLIT.fullmatch(name)
        return {"type": "decompose_k", "k_split": split[1]} if split else {"type": name}
    result: ParsedChoice = {}
    for pair in _NEXT_KEY.split(text):
        key, _, value = pair.partition("=")
        name = _RENAMED.get(key) or safe_name(key.replace("-", "_").rstrip("_"))
        if name in result:
            return {"type": text}
        result[name] = "" if value == "None" else value
    return result


def parameter_order(choices: Iterable[ParsedChoice]) -> tuple[str, ...]:
    """`type` and the tile parameters as AutoHeuristic orders them, then any others by name."""
    found = {name for choice in choices for name in choice}
    return (*(n for n in _ORDER if n in found), *sorted(found.difference(_ORDER)))
