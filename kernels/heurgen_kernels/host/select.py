"""Which config to launch: the caller's, else the generated selector's, else the documented default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..caches import Cache, shared
from ..config import Config, normalise, normalised
from ..defaults import CHOICE, default_config
from ..device.static_grid import default_segments
from ..heuristics import static_grid
from ..selecting import Selector, bind_given, by_name, generated, picker
from .call import NO_WINDOW, Call
from .hardware import VENDOR, Device

FEATURES = (
    "num_seqs",
    "total_query_tokens",
    "max_seqlen_q",
    "max_seqlen_k",
    "total_seqlen_k",
    "window",
    "softcap",
    "num_query_heads",
    "num_kv_heads",
    "head_size",
    "page_size",
    "dtype",
    "fresh",
    "sinks",
    "avg_seqlen_q",
    "multiprocessors",
)
# Generated from decode batches that a device of the vendor measured.
SEGMENTS = {"nvidia": static_grid.nvidia_num_segments}
# AMD's selector has a module of its own: it is made from published winners, not from what we measured.
SHIPPED = {"nvidia": "paged_attention", "amd": "paged_attention_amd"}
# fp8 caches: other configs win there, five stages and one warp of 32 keys, which no 16-bit cache wants.
SHIPPED_FP8 = {"nvidia": "paged_attention_fp8"}


@dataclass(slots=True)
class Chooser:
    """Heuristics, kept so that their id stays theirs; a callable of the values of FEATURES; the last question (a layout
    and lengths) with its answer.
    """

    heuristics: Any
    select: Selector
    last: tuple[tuple[Any, ...], Config] = ((), Config())


# By heuristics, whether pages are fp8 (a process without such loads no selector for them), and the kind of GPU.
_choosers: Cache[tuple[int, bool, str], Chooser] = shared()


def choose(call: Call, heuristics: Any, vendor: str = VENDOR) -> Config:
    """The config for a call. The layers of a model ask the same question in turn: the last answer is kept, unless it
    can change (it is no named tuple): then the heuristics are asked again.

    vendor: whose selector is asked; that of another than this machine's is bound anew each time.
    """
    layout, max_q, max_k, total_k = call.layout, call.max_q, call.max_k, call.total_k
    asker = (id(heuristics), layout.fp8, layout.device.model)
    chooser = _choosers.get(asker)
    if chooser is None or vendor != VENDOR:
        chooser = Chooser(heuristics, bind(heuristics, vendor, layout.fp8, layout.device))
        if vendor == VENDOR:
            _choosers.keep(asker, chooser)
    window, softcap = call.left + 1 if call.left >= 0 else NO_WINDOW, call.softcap > 0
    asked, last = (layout, max_q, max_k, total_k, window, softcap), chooser.last
    if last[0] == asked:
        return last[1]
    # in the order of FEATURES, all known on the host
    answer = chooser.select(
        (layout.num_seqs, layout.tokens, max_q, max_k, total_k, window, softcap, *layout.features)
    )
    known = normalised.get(id(answer))
    if known is not None:  # a named tuple that was seen before
        chooser.last = (asked, known[1])
        return known[1]
    config = normalise(answer)
    if isinstance(answer, tuple):
        chooser.last = (asked, config)
    return config


def bind(heuristics: Any, vendor: str, fp8: bool = False, device: Device | None = None) -> Selector:
    """The selector of heuristics (None: the shipped ones) for a vendor, as a callable of the values of FEATURES.

    fp8: whether pages are. device: see `bind_given`; the shipped ones have none of their own.
    """
    if heuristics is None:
        return bind_shipped(vendor, fp8)
    return bind_given(heuristics, vendor, FEATURES, by_name(default_config, vendor, FEATURES), device)


def shipped(vendor: str, fp8: bool = False) -> Any:
    """The generated module of this package, or None where there is none (then the default chooses)."""
    return generated(SHIPPED_FP8.get(vendor, SHIPPED[vendor]) if fp8 else SHIPPED[vendor])


def bind_shipped(vendor: str, fp8: bool = False) -> Selector:
    """The shipped selector within what its log can speak for, the default elsewhere.

    Heads wider than any of the log: a config for narrow ones may not fit. AMD, where the default splits keys: the
    published winners are of a kernel that never does, so they know no better config there.
    """
    default, module = by_name(default_config, vendor, FEATURES), shipped(vendor, fp8)
    if module is None:
        return default
    select, pick = module.SELECTORS[vendor], picker(module.SELECTORS[vendor], FEATURES)
    head_size, widest = FEATURES.index("head_size"), module.DOMAIN["head_size"]["high"]

    def choose(values: tuple[Any, ...]) -> Any:
        if values[head_size] > widest:
            return default(values)
        if vendor == "amd" and (config := default(values)).variant == "split_kv":
            return config
        return select(*pick(values))

    return choose


def choose_segments(heuristics: Any, vendor: str = VENDOR) -> Any:
    """What the static grid asks inside the kernel: the caller's @triton.jit function or number, else the
    generated function of this package, else the documented guess.

    ValueError for a function whose arguments are not those of `defaults.CHOICE`.
    """
    given = getattr(heuristics, "choose_segments", None)
    if given is None:
        return SEGMENTS.get(vendor, default_segments)
    if type(given) is int:
        return given
    names = getattr(given, "arg_names", None)
    if names is None:
        raise ValueError(
            f"choose_segments is {given!r:.80}; expected a number, or a @triton.jit function of {CHOICE}"
        )
    if tuple(names) != CHOICE:
        raise ValueError(f"choose_segments takes {names}, expected a @triton.jit function of {CHOICE}")
    return given


__all__ = ["FEATURES", "NO_WINDOW", "Config", "bind_shipped", "choose", "shipped"]
