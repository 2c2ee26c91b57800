"""What the calls of a model's attention layers look like, without their lengths."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch

from ..host.call import DTYPE_NAMES
from ..host.widen import COPY_LIMIT, PAGE, page_bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The tensors of a model's calls: what `paged_attention` compiles for, besides lengths and configs.

    num_query_heads, num_kv_heads, head_size, page_size   of one rank
    dtype         of q and of new K and V; q_dtype where q alone is quantised
    cache_dtype   of the pages, None for dtype; an fp8 cache comes with k_scale and v_scale
    out_dtype     None for dtype; an fp8 output comes with output_scale
    fresh         with new K and V at hand: False for batches without cached tokens (`has_prefix=False`), True for
                  others; () where they are always read from pages. fresh_from: their least max_seqlen_q
    pages         whether calls without new K and V come too
    causal, window, softcap, alibi   whether calls have them; sinks is their dtype, None where there are none
    written       whether launches of `graphs` write new K and V to the pages (`slot_mapping`)
    stored        whether a launch of its own writes them for other batches (`host.pages.write_pages`)
    *_strides     in elements, None for contiguous: q and out (tokens, heads), new K and new V a pair of these, pages
                  (pages, tokens, heads), of K and V equal, as in vLLM's one tensor for both

    ValueError for what is of another type; `warm_up` checks the rest.
    """

    num_query_heads: int
    num_kv_heads: int
    head_size: int
    page_size: int
    dtype: torch.dtype = torch.bfloat16
    q_dtype: torch.dtype | None = None
    cache_dtype: torch.dtype | None = None
    out_dtype: torch.dtype | None = None
    fresh: tuple[bool, ...] = ()
    fresh_from: int = 1
    pages: bool = True
    causal: bool = True
    window: bool = False
    softcap: bool = False
    alibi: bool = False
    sinks: torch.dtype | None = None
    written: bool = False
    stored: bool = False
    q_strides: tuple[int, int] | None = None
    out_strides: tuple[int, int] | None = None
    new_strides: tuple[tuple[int, int], tuple[int, int]] | None = None
    page_strides: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("num_query_heads", "num_kv_heads", "head_size", "page_size"):
            value = getattr(self, name)
            if not isinstance(value, Integral):
                raise ValueError(f"{name} is {value!r}; expected a whole number")
        for name in ("dtype", "q_dtype", "cache_dtype", "out_dtype", "sinks"):
            value = getattr(self, name)
            known = (*DTYPE_NAMES, *([torch.float64] if name == "sinks" else []))
            if value not in known and (value is not None or name == "dtype"):
                raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(str, known))}")
        check_flags(self, ("pages", "causal", "window", "softcap", "alibi", "written", "stored"))
        if not isinstance(self.fresh, tuple) or not all(
            has_prefix in (True, False) for has_prefix in self.fresh
        ):
            raise ValueError(f"fresh is {self.fresh!r}; expected a tuple of True and False, such as (False,)")
        if not isinstance(self.fresh_from, Integral) or self.fresh_from < 1:
            raise ValueError(f"fresh_from is {self.fresh_from!r}; expected a whole number of 1 and more")
        check_strides("q_strides", self.q_strides, ("tokens", "heads"))
        check_strides("out_strides", self.out_strides, ("tokens", "heads"))
        check_strides("page_strides", self.page_strides, ("pages", "tokens", "heads"))
        if self.new_strides is not None:
            if not isinstance(self.new_strides, tuple) or len(self.new_strides) != 2:
                raise ValueError(
                    f"new_strides is {self.new_strides!r}; expected a pair of new K and one of new V"
                )
            for strides in self.new_strides:
                check_strides("new_strides", strides, ("tokens", "heads"))


def check_flags(given: Any, names: tuple[str, ...]) -> None:
    """A number in the place of one, such as a window's or a soft cap's, would lead a selector elsewhere."""
    for name in names:
        value = getattr(given, name)
        if value not in (True, False):
            raise ValueError(f"{name} is {value!r}; expected True or False")


def check_strides(name: str, strides: Any, of: tuple[str, ...]) -> None:
    """None, or as many elements from one to the next as what they are of."""
    if strides is None:
        return
    whole = isinstance(strides, tuple) and all(
        isinstance(stride, Integral) and not stride < 0 for stride in strides
    )
    if not whole or len(strides) != len(of):
        raise ValueError(f"{name} is {strides!r}; expected whole numbers of elements, ({', '.join(of)})")


def example(layout: Layout, device: torch.device, fresh: bool, written: bool = False) -> dict[str, Any]:
    """Keywords of `paged_attention` for one token of one sequence: a call that compiles as the layout's do.

    All but the lengths and the config. fresh: with new K and V; written: and the slots that they are written to.
    """
    heads, heads_kv, size = layout.num_query_heads, layout.num_kv_heads, layout.head_size
    cache_dtype, out_dtype = layout.cache_dtype or layout.dtype, layout.out_dtype or layout.dtype
    q_dtype = layout.q_dtype or layout.dtype

    def tensor(shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: torch.dtype) -> torch.Tensor:
        if strides is None:
            return torch.zeros(shape, dtype=dtype, device=device)
        room = 1 + sum((n - 1) * stride for n, stride in zip(shape, (*strides, 1), strict=True))
        flat = torch.zeros(room, dtype=dtype, device=device)
        return flat.as_strided(shape, (*strides, 1))

    def whole(*values: int) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    def one() -> torch.Tensor:
        return torch.ones((), dtype=torch.float32, device=device)

    def page() -> torch.Tensor:
        return tensor((1, layout.page_size, heads_kv, size), layout.page_strides, cache_dtype)

    def new(strides: tuple[int, int] | None) -> torch.Tensor | None:
        return tensor((1, heads_kv, size), strides, layout.dtype) if fresh or written else None

    new_strides = layout.new_strides or (None, None)
    scaled, quantised = cache_dtype != layout.dtype, out_dtype.itemsize == 1
    return {
        "q": tensor((1, heads, size), layout.q_strides, q_dtype),
        "key_cache": page(), "value_cache": page(), "key": new(new_strides[0]), "value": new(new_strides[1]),
        "slot_mapping": torch.zeros(1, dtype=torch.int64, device=device) if written else None,
        "out": tensor((1, heads, size), layout.out_strides, out_dtype),
        "block_table": whole(0).view(1, 1), "cu_seqlens_q": whole(0, 1), "seq_lens": whole(1),
        "scale": size**-0.5, "causal": layout.causal,
        "window": _window(layout), "softcap": 30.0 if layout.softcap else 0.0,
        "alibi_slopes": torch.ones(heads, dtype=torch.float32, device=device) if layout.alibi else None,
        "sinks": None if layout.sinks is None else torch.zeros(heads, dtype=layout.sinks, device=device),
        "q_scale": one() if q_dtype != layout.dtype else None, "k_scale": one() if scaled else None,
        "v_scale": one() if scaled else None, "output_scale": one() if quantised else None,
    }  # fmt: skip


def sparse(device: torch.device, empty: int = 1) -> dict[str, torch.Tensor]:
    """For an `example`: so many empty sequences before its own. With one few of a batch's tokens are of its longest
    query.
    """
    numbers = {"cu_seqlens_q": (0,) * (empty + 1) + (1,), "seq_lens": (0,) * empty + (1,)}
    made = {k: torch.tensor(v, dtype=torch.int32, device=device) for k, v in numbers.items()}
    return {**made, "block_table": torch.zeros((empty + 1, 1), dtype=torch.int32, device=device)}


def crowd(layout: Layout, device: torch.device) -> dict[str, Any]:
    """For an `example`: bounds with which the copy of fp8 pages may be too small, see `host.widen.pages_for`."""
    most = COPY_LIMIT // page_bytes(layout.num_kv_heads, layout.head_size) * PAGE + PAGE
    table = torch.zeros((1, -(-most // layout.page_size)), dtype=torch.int32, device=device)
    window = {"window": (most, -1 if layout.causal else most)} if layout.window else {}
    return {"block_table": table, "max_seqlen_k": most, **window}


def _window(layout: Layout) -> tuple[int, int]:
    """As vLLM's layers give it: a window of queries that see what follows them is symmetric."""
    if not layout.window:
        return (-1, -1)
    return (127, -1) if layout.causal else (127, 127)
