"""What kernels are called with, by name: tensors, and the constants of a layout.

Triton 3.6 takes named tuples: of pointers, whose members that are None are left out of the compiled kernel, and of
constexprs. Tensor descriptors and numbers stay arguments of their own: its launcher knows no descriptors inside a
tuple, and `do_not_specialize` speaks of whole arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Tensors(NamedTuple):
    """Pointers; shapes as `api.paged_attention`. None for what a call has not.

    slots     int64 [tokens]: where new K and V go in the pages, negative for nowhere; None where they are not written
    part      float32 scratch of split keys: acc [rows, D_PAD], then M [rows] and L [rows] of `part_rows` rows
    counters  int32 zeros that every launch leaves as zeros
    """

    q: Any
    k: Any
    v: Any
    new_k: Any
    new_v: Any
    out: Any
    table: Any
    cu: Any
    blocks: Any
    lens: Any
    alibi: Any
    sinks: Any
    q_scale: Any
    k_scale: Any
    v_scale: Any
    out_scale: Any
    slots: Any
    part: Any
    counters: Any


class WideTensors(NamedTuple):
    """Pointers of `widen_kernel`: fp8 pages, their 16-bit copy, the block table of each; lengths and scales; where the
    Q blocks of each sequence begin, None where nobody asks.
    """

    k: Any
    v: Any
    wide_k: Any
    wide_v: Any
    table: Any
    wide_table: Any
    cu: Any
    lens: Any
    k_scale: Any
    v_scale: Any
    blocks: Any


# Arguments between the tensors and the constants, in the order of every kernel; then those of a variant's own.
DESCRIPTORS = ("k_desc", "v_desc", "new_k_desc", "new_v_desc")
NUMBERS = ("part_rows", "scale", "softcap", "left", "right", "table_stride", "num_seqs")
OWN_NUMBERS = {
    "naive": (),
    "q_block": (),
    "split_kv": ("max_segments", "second_from"),
    "static_grid": ("forced", "second_from"),
    "mixed": ("max_segments", "prompt_blocks"),
    "warp_specialized": ("max_segments", "numbers", "programs"),
}


class Sizes(NamedTuple):
    """G: query heads per KV head; HKV: KV heads; PAGE: tokens of a page; D: head size, D_PAD as a power of two."""

    G: int
    HKV: int
    PAGE: int
    D: int
    D_PAD: int


class Strides(NamedTuple):
    """In elements: of a token and a head of q and out; a page, a token and a head of K and V; of new K, of new V."""

    Q_TOK: int
    Q_HEAD: int
    O_TOK: int
    O_HEAD: int
    K_PAGE: int
    K_TOK: int
    K_HEAD: int
    V_PAGE: int
    V_TOK: int
    V_HEAD: int
    NEW_TOK: int
    NEW_HEAD: int
    NEW_V_TOK: int
    NEW_V_HEAD: int


class Features(NamedTuple):
    """FRESH: new K and V are at hand; WRITE: they are, and are written to the pages (static_grid with DECODE alone);
    PREFIX: pages are read; TMA, TMA_NEW: pages, new tokens through descriptors; COMPUTE: type of the products;
    HALF: products with fp8 pages in float16; WORDS: their rows can be read as 16-bit words; FP8_MAX: largest number of
    an fp8 output, 0 for others; ABOVE, UPTO: a launch leaves out sequences of at most, of more than so many new tokens,
    0: none; UPTO is split_kv's; REST: of the others those that have no Q blocks in `blocks`, as warp_specialized's copy
    has no room for their keys (q_block alone).
    """

    FRESH: bool
    WRITE: bool
    PREFIX: bool
    TMA: bool
    TMA_NEW: bool
    CAUSAL: bool
    WINDOW: bool
    SOFTCAP: bool
    ALIBI: bool
    HALF: bool
    WORDS: bool
    COMPUTE: Any
    FP8_MAX: float
    ABOVE: int = 0
    UPTO: int = 0
    REST: bool = False
