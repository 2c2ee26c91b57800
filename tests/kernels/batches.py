"""Batches with poisoned page tails and outputs, and their comparison with the float64 reference."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.config import Config
from heurgen_kernels.host import validate
from heurgen_kernels.host.call import Call
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.tools.reference import reference_attention

LIMITS = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-3}


def on_meta(value: Any) -> Any:
    """An argument without memory, where it is a tensor."""
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def make_batch(
    lengths,
    heads=(4, 2),
    size=32,
    page=16,
    dtype=torch.float16,
    fresh=False,
    device="cpu",
    cache=None,
    seed=0,
) -> dict[str, Any]:
    """Keywords of `paged_attention`. Slots that no cached token owns hold NaN (fp8: 448), `out` holds NaN."""
    generator = torch.Generator().manual_seed(seed)
    cached = [k - (q if fresh else 0) for q, k in lengths]
    counts = [-(-k // page) for _, k in lengths]
    total = sum(counts) + 2
    pages = list(range(total))
    random.Random(seed).shuffle(pages)
    table = torch.full((len(lengths), max(counts, default=0) + 1), pages[-1], dtype=torch.int32)
    used = torch.zeros(total, page, dtype=torch.bool)
    first = 0
    for row, count in enumerate(counts):
        mine = torch.tensor(pages[first : first + count], dtype=torch.int32)
        table[row, :count] = mine
        first += count
        flat = torch.zeros(count * page, dtype=torch.bool)
        flat[: cached[row]] = True
        used[mine.long()] = flat.view(count, page)
    tokens = sum(q for q, _ in lengths)
    starts = torch.tensor([0] + [q for q, _ in lengths], dtype=torch.int32).cumsum(0).to(torch.int32)
    shapes = {"q": (tokens, heads[0], size), "key_cache": (total, page, heads[1], size)}
    shapes["value_cache"] = shapes["key_cache"]
    if fresh:
        shapes["key"] = shapes["value"] = (tokens, heads[1], size)
    batch: dict[str, Any] = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    for name in batch:
        if name.endswith("_cache"):
            batch[name][~used] = float("nan") if cache is None else 448.0
        batch[name] = (
            batch[name].to(cache if cache is not None and name.endswith("_cache") else dtype).to(device)
        )
    batch |= {"block_table": table.to(device), "cu_seqlens_q": starts.to(device)}
    batch["seq_lens"] = torch.tensor([k for _, k in lengths], dtype=torch.int32).to(device)
    batch |= {"max_seqlen_q": max(q for q, _ in lengths), "max_seqlen_k": max(k for _, k in lengths)}
    return batch | {"scale": size**-0.5}


def halves(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch with K and V as halves of one tensor [pages, KV heads, page, 2 * head size], as vLLM keeps them."""
    both = (
        torch.cat([batch["key_cache"], batch["value_cache"]], -1).transpose(1, 2).contiguous().transpose(1, 2)
    )
    size = batch["key_cache"].shape[-1]
    return batch | {"key_cache": both[..., :size], "value_cache": both[..., size:]}


def apart(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch with the new tokens' V as a view of a wider projection, as a compiled model hands it over beside K."""
    value = batch["value"]
    return batch | {"value": torch.cat([torch.full_like(value, float("nan")), value], 1)[:, value.shape[1] :]}


def config(variant: str, block_m: int = 16, tile: int = 16, segments: int = 3) -> Config:
    split = variant in ("split_kv", "static_grid", "mixed")
    return Config(variant, block_m, tile, 4, 2, segments if split else 1)


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a contiguous tensor that begins one element behind a multiple of 16 bytes."""
    place = torch.empty(tensor.numel() + 17, dtype=tensor.dtype, device=tensor.device)
    first = 1 + (-place.data_ptr() % 16) // place.element_size()
    return place[first : first + tensor.numel()].view(tensor.shape).copy_(tensor)


def recorded(call):
    """The call as a CUDA graph, launched once before."""
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def replayed(**given: Any) -> torch.Tensor:
    """`paged_attention` as a graph's replay, into an output full of NaN."""
    graph = recorded(lambda: paged_attention(**given))
    given["out"].fill_(float("nan"))
    graph.replay()
    return given["out"]


@contextmanager
def freed(batch: dict[str, Any], left: int) -> Iterator[None]:
    """Inside, NaN lies in pages that no window of `left` keys behind a query reaches any more: a server takes such
    pages back.
    """
    caches = [batch["key_cache"], batch["value_cache"]]
    if caches[0].element_size() == 1:
        caches = [cache.view(torch.uint8) for cache in caches]  # 0x7f is NaN
    page, starts = caches[0].shape[1], batch["cu_seqlens_q"].tolist()
    slots = [
        (row, at)
        for row, length in enumerate(batch["seq_lens"].tolist())
        for at in range(max(length - starts[row + 1] + starts[row] - left, 0) // page * page)
    ]
    place = torch.tensor(slots, dtype=torch.int64, device=batch["q"].device).reshape(-1, 2)
    pages, rows = batch["block_table"][place[:, 0], place[:, 1] // page].long(), place[:, 1] % page
    kept = [cache[pages, rows].clone() for cache in caches]
    for cache in caches:
        cache[pages, rows] = 0x7F if cache.dtype == torch.uint8 else float("nan")
    yield
    for cache, values in zip(caches, kept, strict=True):
        cache[pages, rows] = values


def error_of(
    batch: dict[str, Any],
    setting: Config | None,
    out_dtype=None,
    place=lambda out: out,
    launch=paged_attention,
    **features: Any,
) -> float:
    """Relative error against the float64 reference, after one launch into `place` of an output full of NaN. Pages
    behind all windows hold NaN too, see `freed`.
    """
    q = batch["q"]
    out = place(torch.full(q.shape, float("nan"), device=q.device).to(out_dtype or q.dtype))
    left = features.get("window", (-1, -1))[0]
    with freed(batch, left) if left >= 0 else nullcontext():
        result = launch(**batch, **features, out=out, config=setting)
    given = {k: v for k, v in batch.items() if not k.startswith(("max_", "total_"))}
    numbers = {k: float(v) if k.endswith("_scale") else v for k, v in features.items()}
    for hint in ("has_prefix", "metadata", "heuristics", "slot_mapping"):
        numbers.pop(hint, None)
    expected = reference_attention(**given, **numbers, dtype=torch.float64)
    got = result.double()
    return float((got - expected).norm() / expected.norm())


def slots_of(batch: dict[str, Any]) -> torch.Tensor:
    """`slot_mapping` of a batch: where each of its new tokens lies in the pages."""
    page, starts, table = (
        batch["key_cache"].shape[1],
        batch["cu_seqlens_q"].tolist(),
        batch["block_table"].tolist(),
    )
    found = [
        table[row][at // page] * page + at % page
        for row, length in enumerate(batch["seq_lens"].tolist())
        for at in range(length - starts[row + 1] + starts[row], length)
    ]
    return torch.tensor(found, dtype=torch.int64, device=batch["q"].device)


def written(batch: dict[str, Any], setting: Config, without: tuple[int, ...] = (), **features: Any) -> float:
    """`error_of` of a launch that writes the new tokens, which are to lie in the pages afterwards, and nothing else.

    batch: with key and value. without: tokens that have no slot.
    """
    slots = slots_of(batch)
    slots[list(without)] = -1
    pages = {"key": batch["key_cache"], "value": batch["value_cache"]}
    before = {name: cache.clone() for name, cache in pages.items()}
    found = error_of(batch, setting, **features, slot_mapping=slots)
    for name, cache in pages.items():
        page, row = slots[slots >= 0] // cache.shape[1], slots[slots >= 0] % cache.shape[1]
        before[name][page, row] = batch[name][slots >= 0]
        assert torch.equal(bits(cache), bits(before[name])), name
        cache[page, row] = float("nan")  # as it was
    return found


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers, so that NaN equals itself."""
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


def checked(batch: dict[str, Any], device: Device | None = None) -> Call:
    """The call of keywords of `paged_attention`, after a launch's checks, as for `device`; nothing is launched."""
    given = {"out": torch.empty_like(batch["q"])} | batch
    names = {
        "q": "q", "k": "key_cache", "v": "value_cache", "table": "block_table", "cu": "cu_seqlens_q",
        "lens": "seq_lens", "out": "out", "max_q": "max_seqlen_q", "max_k": "max_seqlen_k", "scale": "scale",
        "new_k": "key", "new_v": "value", "slots": "slot_mapping", "softcap": "softcap", "alibi": "alibi_slopes",
        "sinks": "sinks",
        "q_scale": "q_scale", "k_scale": "k_scale", "v_scale": "v_scale", "out_scale": "output_scale",
        "total_k": "total_seqlen_k",
    }  # fmt: skip
    call = Call(**{field: given[name] for field, name in names.items() if name in given})
    validate.check(call, device)
    return call


def changed(batch, lengths):
    """Change the lengths where they are, as a server does between replays; the tokens that belong to a sequence."""
    starts = torch.tensor([0, *itertools.accumulate(q for q, _ in lengths)], dtype=torch.int32)
    batch["cu_seqlens_q"].copy_(starts)
    batch["seq_lens"].copy_(torch.tensor([k for _, k in lengths], dtype=torch.int32))
    return int(starts[-1])


def clean(batch):
    """No NaN behind a sequence's end, since that end moves."""
    for name in ("key_cache", "value_cache"):
        batch[name].nan_to_num_()
    return batch


def error_after_change(batch, lengths, out, launch_again):
    """Relative error of the rows that a sequence owns; the others must stay as they were."""
    tokens = changed(batch, lengths)
    out.fill_(float("nan"))
    launch_again()
    assert out[tokens:].isnan().all()
    given = {k: v for k, v in batch.items() if not k.startswith("max_")} | {"q": batch["q"][:tokens]}
    expected = reference_attention(**given, dtype=torch.float64)
    if tokens == 0:
        return 0.0
    return float((out[:tokens].double() - expected).norm() / expected.norm())
