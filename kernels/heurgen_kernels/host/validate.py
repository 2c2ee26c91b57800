"""Checks before a launch: what is wrong, what was found and what would be right, as ValueError.

Signatures (shapes, strides, dtypes, devices) found good are remembered: a call with one of them is checked for its
numbers alone. Messages are built only when they are raised.
"""

from __future__ import annotations

from itertools import pairwise
from operator import index
from typing import Any

import torch

from ..caches import Cache, shared
from .call import NO_WINDOW, Call, CallLayout, layout_of, signature_of
from .hardware import FP8, Device, check_memory, device_of

FLOATS = (torch.float16, torch.bfloat16, torch.float32)

# Numbers of tokens: members of a call, as its caller names them.
WHOLE = {
    "max_q": "max_seqlen_q", "max_k": "max_seqlen_k", "total_k": "total_seqlen_k", "left": "window[0]",
    "right": "window[1]",
}  # fmt: skip
# Tensors that every call has, by the names that its caller knows.
REQUIRED = ("q", "key_cache", "value_cache", "block_table", "cu_seqlens_q", "seq_lens")
# All kernels but warp_specialized's have tanh from exponentials in float32: its steps near 1, times the cap, are those
# of the scores: 1e-3 with this one, while with a cap of 1e6 the output was 3 % wrong.
HIGHEST_CAP = 10_000
# Elements that a 32-bit offset of a kernel reaches.
REACH = 2**31 - 1

_good: Cache[tuple[Any, ...], CallLayout] = shared()


def check(call: Call, device: Device | None = None) -> None:
    """Sets the call's layout; ValueError where its tensors and numbers do not fit together.

    device: lay the launch out as for this device, whatever the tensors are on (meta tensors, say): for tools and tests.
    """
    try:
        signature: tuple[Any, ...] = signature_of(call)
        if device is not None:
            signature = (device, *signature)
        layout = _good.get(signature)
    except AttributeError:
        check_tensors(call)
        raise
    except TypeError:  # sizes that are traced have no hash
        check_placed(call)
        raise
    if layout is None:
        check_all(call)
        if device is None:
            check_placed(call)
        check_fp8(device or device_of(call.q.device), q=call.q, key_cache=call.k, out=call.out)
        layout = _good.keep(signature, layout_of(call, device))
    else:
        check_lengths(call, layout.tokens, layout.num_seqs, layout.room)
        check_numbers(call)
    if layout.host:
        check_placed(call)
        check_values(call)
    if call.total_k < 0:
        call.total_k, call.told = assumed_total(layout.num_seqs, call.max_k), False
    call.layout = layout


def assumed_total(num_seqs: int, max_seqlen_k: int) -> int:
    """Tokens attended to where a caller does not say: one sequence as long as the longest, the others 0.7 of it.

    Of eight shares (0.5 to 1) timed on an H200 in 494 batches of thirteen models' layers, a third each of equal
    lengths, of half the longest to all, and of next to none to all: 0.65 and 0.7 cost nothing in the mean beside being
    told (0.5: 1.024, 1: 1.028), and 0.7 has the better tail (p95 1.14, 1.19).
    """
    return num_seqs * max_seqlen_k - 3 * (num_seqs - 1) * max_seqlen_k // 10


def check_all(call: Call) -> None:
    check_query(call.q, call.k, call.v)
    check_new(call.q, call.k, call.new_k, call.new_v, call.slots)
    check_batch(call)
    check_output(call.q, call.out, call.out_scale)
    check_numbers(call)
    check_heads(call.q, alibi_slopes=call.alibi, sinks=call.sinks)
    check_reach(
        q=call.q, key_cache=call.k, value_cache=call.v, key=call.new_k, value=call.new_v, out=call.out
    )
    check_devices(**named(call))
    check_scales(
        q_scale=call.q_scale, k_scale=call.k_scale, v_scale=call.v_scale, output_scale=call.out_scale
    )


def named(call: Call) -> dict[str, Any]:
    """The tensors of a call by the names that its caller knows."""
    return {
        "q": call.q, "key_cache": call.k, "value_cache": call.v, "block_table": call.table, "cu_seqlens_q": call.cu,
        "seq_lens": call.lens, "key": call.new_k, "value": call.new_v, "slot_mapping": call.slots, "out": call.out,
        "alibi_slopes": call.alibi, "sinks": call.sinks, "q_scale": call.q_scale, "k_scale": call.k_scale,
        "v_scale": call.v_scale, "output_scale": call.out_scale,
    }  # fmt: skip


def check_placed(call: Call) -> None:
    """Launches ask again where an address is 0: a tensor may have been wrapped or freed since its signature was found
    good.
    """
    check_memory(**named(call))


def check_given(q: object, window: Any, causal: Any, **numbers: Any) -> None:
    """Of a call that could not be put together: which of what it is made of is not what it must be."""
    check_are_tensors(q=q)
    check_pair("window", window)
    try:
        bool(causal)
    except (RuntimeError, ValueError):
        raise ValueError(f"causal is {causal!r:.80}; expected True or False") from None
    for name, number in numbers.items():
        try:
            float(number)
        except (TypeError, ValueError):
            raise ValueError(f"{name} is {number!r:.80}; expected a number") from None


def check_are_tensors(**tensors: object) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name} is {tensor!r:.80}; expected a tensor")


def check_pair(name: str, window: Any) -> None:
    try:
        _, _ = window
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {window!r:.80}; expected a pair, (left, right)") from None


def check_tensors(call: Call) -> None:
    """Of a call that has something else in the place of a tensor, or nothing where it needs one."""
    for name, tensor in named(call).items():
        if not isinstance(tensor, torch.Tensor) and (tensor is not None or name in REQUIRED):
            place = "" if name == "q" else f" on {call.q.device}"
            raise ValueError(f"{name} is {tensor!r:.80}; expected a tensor{place}")


def check_query(q: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor) -> None:
    """q [tokens, query heads, head size]; caches [pages, page size, KV heads, head size]."""
    if not (q.dim() == 3):
        raise ValueError(f"q has shape {tuple(q.shape)}; expected [tokens, query heads, head size]")
    for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
        if not (cache.dim() == 4):
            raise ValueError(
                f"{name} has shape {tuple(cache.shape)}; expected [pages, page size, KV heads, head size]"
            )
    if not (key_cache.shape == value_cache.shape):
        raise ValueError(
            f"key_cache {tuple(key_cache.shape)} and value_cache {tuple(value_cache.shape)} differ in shape"
        )
    size = q.shape[2]
    if not (key_cache.shape[3] == size):
        raise ValueError(f"head size is {size} in q and {key_cache.shape[3]} in the caches")
    if not (16 <= size <= 256 and size % 8 == 0):
        raise ValueError(f"head size is {size}; supported: multiples of 8 from 16 to 256")
    heads, heads_kv = q.shape[1], key_cache.shape[2]
    if not (heads_kv > 0 and heads > 0 and heads % heads_kv == 0):
        raise ValueError(f"{heads} query heads do not divide into {heads_kv} KV heads; expected a multiple")
    if not (key_cache.shape[1] > 0):
        raise ValueError(f"key_cache has shape {tuple(key_cache.shape)}; a page holds 1 or more tokens")
    for name, tensor in (("q", q), ("key_cache", key_cache), ("value_cache", value_cache)):
        if not (tensor.stride(-1) == 1):
            raise ValueError(f"{name} must be contiguous along the head size (stride {tensor.stride(-1)})")
    if not (q.dtype in FLOATS or q.dtype in FP8):
        raise ValueError(f"q is {q.dtype}; expected float16, bfloat16, float32 or fp8")
    if not (key_cache.dtype == value_cache.dtype):
        raise ValueError(f"key_cache is {key_cache.dtype}, value_cache {value_cache.dtype}")
    if not (key_cache.dtype == q.dtype or key_cache.dtype in FP8):
        raise ValueError(
            f"the cache is {key_cache.dtype} and q is {q.dtype}; expected the same type, or an fp8 cache"
        )


def check_batch(call: Call) -> None:
    block_table, cu_seqlens_q, seq_lens = call.table, call.cu, call.lens
    for name, tensor, dims in (
        ("block_table", block_table, 2),
        ("cu_seqlens_q", cu_seqlens_q, 1),
        ("seq_lens", seq_lens, 1),
    ):
        if not (tensor.dim() == dims):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {dims} dimension(s)")
        if not (tensor.dtype == torch.int32):
            raise ValueError(f"{name} is {tensor.dtype}; expected int32")
    num_seqs = seq_lens.shape[0]
    if not (cu_seqlens_q.shape[0] == num_seqs + 1):
        raise ValueError(
            f"cu_seqlens_q has {cu_seqlens_q.shape[0]} entries for {num_seqs} sequences; "
            f"expected {num_seqs + 1}"
        )
    if not (block_table.shape[0] >= num_seqs):
        raise ValueError(f"block_table has {block_table.shape[0]} rows for {num_seqs} sequences")
    if not (cu_seqlens_q.is_contiguous() and seq_lens.is_contiguous()):
        raise ValueError("cu_seqlens_q and seq_lens must be contiguous")
    if not (block_table.stride(-1) == 1 or block_table.shape[1] == 1):
        raise ValueError("block_table must be contiguous along its rows")
    room = block_table.shape[1] * call.k.shape[1]
    check_lengths(call, call.q.shape[0], num_seqs, room)


def check_lengths(call: Call, tokens: int, num_seqs: int, room: int) -> None:
    """Lengths are checked by their declared maxima: reading them would synchronise with the device."""
    whole = type(call.max_q) is type(call.max_k) is type(call.total_k) is int
    if not (whole and type(call.left) is type(call.right) is int):
        as_whole_numbers(call)
    max_seqlen_q, max_seqlen_k = call.max_q, call.max_k
    if not (max_seqlen_q >= 0):
        raise ValueError(f"max_seqlen_q is {max_seqlen_q}; expected 0 or more tokens")
    if not (num_seqs * max_seqlen_q >= tokens or num_seqs == 0):
        raise ValueError(
            f"q holds {tokens} tokens; {num_seqs} sequences of at most max_seqlen_q = {max_seqlen_q} "
            "hold fewer"
        )
    if not (max_seqlen_k >= 0):
        raise ValueError(f"max_seqlen_k is {max_seqlen_k}; expected 0 or more tokens")
    if not (-1 <= call.total_k <= num_seqs * max_seqlen_k):
        raise ValueError(
            f"total_seqlen_k is {call.total_k}; {num_seqs} sequences of at most max_seqlen_k = {max_seqlen_k} "
            f"attend to 0 to {num_seqs * max_seqlen_k} tokens"
        )
    longest = max_seqlen_k
    if call.new_k is not None:
        # new tokens need no pages; how many a long sequence has is known for a batch of one alone
        longest -= max_seqlen_q if num_seqs == 1 else min(max_seqlen_q, longest)
    if not (longest <= room):
        raise ValueError(
            f"max_seqlen_k is {max_seqlen_k} tokens; block_table has room for {room} "
            f"({call.table.shape[1]} pages of {call.k.shape[1]})"
        )


def as_whole_numbers(call: Call) -> None:
    """What NumPy or a tensor counted becomes Python's numbers: kernels are compiled for types, plans ask for bits."""
    for field, name in WHOLE.items():
        value = getattr(call, field)
        try:
            setattr(call, field, index(value))
        except TypeError:
            raise ValueError(f"{name} is {value!r:.80}; expected a whole number of tokens") from None


def check_values(call: Call) -> None:
    """What lies in host memory, where kernels are interpreted: a wrong number would end the process. On a GPU reading
    these would synchronise with it.
    """
    starts, lengths, page = call.cu.tolist(), call.lens.tolist(), call.k.shape[1]
    new = [end - start for start, end in pairwise(starts)]
    if starts[0] != 0 or min(new, default=0) < 0 or starts[-1] > call.q.shape[0]:
        raise ValueError(
            f"cu_seqlens_q is {starts!s:.80}; expected 0, then where sequences end, {call.q.shape[0]} at most"
        )
    if max(new, default=0) > call.max_q:
        raise ValueError(f"max_seqlen_q is {call.max_q}; a sequence has {max(new)} new tokens")
    if min(lengths, default=0) < 0:
        raise ValueError(f"seq_lens holds {min(lengths)}; expected 0 or more tokens")
    columns = call.table.shape[1]
    for row, (tokens, length) in enumerate(zip(new, lengths, strict=True)):
        if tokens and length > call.max_k:
            raise ValueError(f"max_seqlen_k is {call.max_k}; seq_lens holds {length}")
        cached = length - tokens if call.new_k is not None else length
        first = max(length - tokens - call.left, 0) if call.left >= 0 else 0
        if not tokens or cached <= first:
            continue
        pages = -(-cached // page)
        if pages > columns:
            raise ValueError(
                f"sequence {row} has {cached} tokens in pages; block_table has room for {columns * page}"
            )
        for entry in call.table[row, first // page : pages]:
            if not (0 <= entry < call.k.shape[0]):
                raise ValueError(
                    f"block_table holds page {int(entry)} for sequence {row}; the caches have {call.k.shape[0]} pages"
                )
    if call.slots is not None and call.slots.numel() and int(call.slots.max()) >= call.k.shape[0] * page:
        raise ValueError(
            f"slot_mapping holds {int(call.slots.max())}; the caches have {call.k.shape[0]} pages of {page} tokens"
        )


def check_fp8(device: Device, **tensors: torch.Tensor) -> None:
    """Types that a device lacks would end in an error of the compiler, or with the process."""
    for name, tensor in tensors.items():
        if tensor.dtype in FP8 and tensor.dtype not in device.fp8:
            known = ", ".join(str(dtype) for dtype in device.fp8)
            raise ValueError(
                f"{name} is {tensor.dtype}; of fp8 types this device ({device.described}) has {known}"
            )


def check_devices(*, q: torch.Tensor, **tensors: torch.Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and tensor.device != q.device:
            raise ValueError(
                f"{name} is on {tensor.device} and q on {q.device}; all tensors must share a device"
            )


def check_new(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    key: torch.Tensor | None,
    value: torch.Tensor | None,
    slots: torch.Tensor | None,
) -> None:
    """key and value: [tokens, KV heads, head size], the new tokens' K and V in q's order; slots: `slot_mapping`."""
    if not ((key is None) == (value is None)):
        raise ValueError("key and value go together: one of them is None")
    if key is None or value is None:
        if slots is not None:
            raise ValueError("slot_mapping says where key and value are written; they are None")
        return
    shape = (q.shape[0], *key_cache.shape[2:])
    for name, tensor in (("key", key), ("value", value)):
        if not (tuple(tensor.shape) == shape):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {shape}")
        if not (tensor.dtype == q.dtype):
            raise ValueError(f"{name} is {tensor.dtype} and q is {q.dtype}; expected the same type")
        if not (tensor.stride(-1) == 1):
            raise ValueError(f"{name} must be contiguous along the head size")
    if slots is not None:
        check_slots(key_cache, key, slots)
    elif key.shape[1] > 1 and key.stride(1) != value.stride(1):
        raise ValueError(
            f"key has strides {key.stride()}, value {value.stride()}; expected the same from head to head"
        )


def check_slots(key_cache: torch.Tensor, key: torch.Tensor, slots: torch.Tensor) -> None:
    """Where new K and V are written as they are: pages of their type."""
    if not (slots.dtype == torch.int64 and tuple(slots.shape) == key.shape[:1] and slots.is_contiguous()):
        raise ValueError(
            f"slot_mapping is {slots.dtype} of shape {tuple(slots.shape)}; expected contiguous int64, one number per "
            f"token, ({key.shape[0]},)"
        )
    if not (key_cache.dtype == key.dtype):
        raise ValueError(
            f"slot_mapping is given, the cache is {key_cache.dtype} and key {key.dtype}; they are written as they are"
        )


def check_reach(**tensors: torch.Tensor | None) -> None:
    """Kernels count in 64 bits from token to token and from page to page; in 32 from head to head of a token, and from
    token to token of a page.
    """
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        parts, whole = ("tokens", "page") if tensor.dim() == 4 else ("heads", "token")
        # a stride that no second one uses is a constant of the kernel all the same
        reach = max(tensor.shape[1] - 1, 1) * tensor.stride(1) + tensor.shape[-1]
        if not (reach <= REACH):
            raise ValueError(
                f"{name} has strides {tensor.stride()}: the {parts} of a {whole} lie {reach} elements apart; expected "
                f"at most {REACH}"
            )


def check_output(q: torch.Tensor, out: torch.Tensor, output_scale: object) -> None:
    if not (out.shape == q.shape):
        raise ValueError(f"out has shape {tuple(out.shape)}; expected {tuple(q.shape)}, as q")
    if not (out.stride(-1) == 1):
        raise ValueError("out must be contiguous along the head size")
    if overlaps(out):
        raise ValueError(f"out has strides {out.stride()}; expected a place of its own for each element")
    if not (out.dtype in FLOATS or out.dtype in FP8):
        raise ValueError(f"out is {out.dtype}; expected float16, bfloat16, float32 or fp8")
    if not ((out.dtype in FP8) == (output_scale is not None)):
        raise ValueError(
            f"out is {out.dtype} and output_scale is {'given' if output_scale is not None else 'None'}; "
            "fp8 outputs need a scale, others take none"
        )


def check_numbers(call: Call) -> None:
    scale, softcap, left, right = call.scale, call.softcap, call.left, call.right
    if not (scale > 0 and scale < float("inf")):
        raise ValueError(f"scale is {scale}; expected a positive number")
    if not (0 <= softcap <= HIGHEST_CAP):
        raise ValueError(
            f"softcap is {softcap}; expected 0 (off) or a positive number of at most {HIGHEST_CAP}"
        )
    if not (-1 <= left < NO_WINDOW and -1 <= right < NO_WINDOW):
        raise ValueError(
            f"window is ({left}, {right}); expected 0 to {NO_WINDOW - 1} tokens to either side, or -1 for all"
        )


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements of a tensor share memory: a dimension begins anew before the ones inside it have ended."""
    order = sorted((stride, n) for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)
    reach = 0
    for stride, n in order:
        if stride <= reach:
            return True
        reach += (n - 1) * stride
    return False


def check_heads(q: torch.Tensor, **tensors: torch.Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and not (tuple(tensor.shape) == (q.shape[1],) and tensor.is_contiguous()):
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, strides {tensor.stride()}; expected one number per query "
                f"head, ({q.shape[1]},), contiguous"
            )
        if tensor is not None and tensor.dtype not in (*FLOATS, torch.float64):
            raise ValueError(f"{name} is {tensor.dtype}; expected float16, bfloat16, float32 or float64")


def check_scales(**scales: torch.Tensor | None) -> None:
    """One number for all tokens and heads; vLLM repeats it for each sequence and head without a copy."""
    for name, scale in scales.items():
        if scale is None:
            continue
        if scale.dtype != torch.float32:
            raise ValueError(f"{name} is {scale.dtype}; expected float32")
        several = any(n > 1 and stride for n, stride in zip(scale.shape, scale.stride(), strict=True))
        if several or not scale.numel():
            raise ValueError(
                f"{name} has shape {tuple(scale.shape)}; expected one number for all tokens and heads"
            )
