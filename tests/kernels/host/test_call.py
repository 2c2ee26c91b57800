"""What shapes, strides, types and devices say of a call."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.host.call import DTYPE_NAMES, layout_of, signature_of
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.select import FEATURES

from tests.kernels.batches import checked, halves, make_batch, slots_of

H100 = Device("nvidia", (9, 0), 114)
LENGTHS = [(5, 40), (1, 33), (0, 7)]
GIVEN = {
    "num_seqs",
    "total_query_tokens",
    "max_seqlen_q",
    "max_seqlen_k",
    "total_seqlen_k",
    "window",
    "softcap",
}


def test_a_layout_says_what_the_tensors_say():
    call = checked(make_batch(LENGTHS, (12, 4), 32, 16), H100)
    layout = layout_of(call, H100)
    assert (layout.tokens, layout.num_seqs, layout.group, layout.heads, layout.heads_kv) == (6, 3, 3, 12, 4)
    assert (layout.pages, layout.room, layout.table_stride) == (9, 64, 4)
    assert (layout.place, layout.index, layout.device, layout.host) == (torch.device("cpu"), -1, H100, True)


@pytest.mark.parametrize(("fresh", "sinks"), [(False, False), (True, False), (False, True)])
def test_features_are_those_of_the_selectors_in_their_order(fresh, sinks):
    batch = make_batch(LENGTHS, (12, 4), 32, 16, fresh=fresh) | ({"sinks": torch.ones(12)} if sinks else {})
    found = layout_of(checked(batch, H100), H100).features
    names = [name for name in FEATURES if name not in GIVEN]
    assert dict(zip(names, found, strict=True)) == {
        "num_query_heads": 12, "num_kv_heads": 4, "head_size": 32, "page_size": 16, "dtype": "float16",
        "fresh": fresh, "sinks": sinks, "avg_seqlen_q": 2.0, "multiprocessors": 114,
    }  # fmt: skip


def test_the_type_is_the_caches():
    batch = make_batch([(1, 9)], cache=torch.float8_e5m2, dtype=torch.bfloat16)
    assert "float8_e5m2" in layout_of(checked(batch, H100), H100).features
    assert {str(dtype).removeprefix("torch.") for dtype in DTYPE_NAMES} == set(DTYPE_NAMES.values())


def test_without_sequences_there_is_no_mean():
    batch = make_batch([(1, 9)])
    batch |= {"q": batch["q"][:0], "seq_lens": batch["seq_lens"][:0], "block_table": batch["block_table"][:0]}
    batch["cu_seqlens_q"] = batch["cu_seqlens_q"][:1]
    assert layout_of(checked(batch | {"max_seqlen_q": 0, "max_seqlen_k": 0}), H100).features[-2] == 0.0


def kind_of(batch, device=H100):
    return layout_of(checked(batch, device), device).kind


def test_a_kind_is_shared_by_batches_of_any_lengths():
    kinds = {kind_of(make_batch([(n, 90)] * n, seed=n)) for n in (1, 2, 5)}
    assert len(kinds) == 1


def test_a_kind_tells_layouts_and_types_apart():
    plain, fresh = make_batch(LENGTHS), make_batch(LENGTHS, fresh=True)
    fresh["slot_mapping"] = slots_of(fresh)
    other = [
        fresh, fresh | {"value": fresh["value"].repeat(1, 2, 1)[:, :2]},
        make_batch(LENGTHS, (4, 4)), make_batch(LENGTHS, (2, 2)), make_batch(LENGTHS, size=64),
        make_batch(LENGTHS, page=32),
        make_batch(LENGTHS, dtype=torch.bfloat16), make_batch(LENGTHS, cache=torch.float8_e4m3fn),
        make_batch(LENGTHS, fresh=True), halves(plain), plain | {"key_cache": halves(plain)["key_cache"]},
        plain | {"value_cache": halves(plain)["value_cache"]}, plain | {"out": torch.empty(6, 4, 32)},
        plain | {"out": torch.empty(6, 4, 64, dtype=torch.float16)[..., :32]},
        plain | {"q": torch.zeros(6, 4, 64, dtype=torch.float16)[..., :32], "out": torch.empty_like(plain["q"])},
        plain | {"alibi_slopes": torch.ones(4)}, plain | {"alibi_slopes": torch.ones(4).half()},
        plain | {"sinks": torch.ones(4)}, plain | {"k_scale": torch.ones(1)}, plain | {"v_scale": torch.ones(1)},
        plain | {"q_scale": torch.ones(1)},
        plain | {"out": torch.empty(6, 4, 32).to(torch.float8_e4m3fn), "output_scale": torch.ones(1)},
    ]  # fmt: skip
    kinds = [kind_of(plain), kind_of(plain, Device("nvidia", (8, 0), 114)), *map(kind_of, other)]
    assert len(set(kinds)) == len(kinds)


TENSORS = ("q", "k", "v", "out", "table", "cu", "lens", "new_k", "new_v", "alibi", "sinks", "q_scale", "k_scale",
           "v_scale", "out_scale", "slots")  # fmt: skip


def changes(tensor):
    """The tensor with another shape, other strides, another type, on another device."""
    apart = torch.empty((*tensor.shape, 2), dtype=tensor.dtype)[..., 0]
    return (tensor[:0], apart, tensor.to(torch.float64), tensor.to("meta"))


def test_a_signature_holds_shape_strides_type_and_device_of_every_tensor():
    call = checked(make_batch(LENGTHS, fresh=True), H100)
    call.alibi, call.sinks = torch.ones(4), torch.ones(4)
    call.q_scale, call.k_scale, call.v_scale, call.out_scale, call.slots = torch.ones(5, 1).unbind()
    found = [signature_of(call)]
    for name in TENSORS:
        tensor = getattr(call, name)
        for other in changes(tensor) if name in TENSORS[:7] else (None, *changes(tensor)):
            setattr(call, name, other)
            found.append(signature_of(call))
        setattr(call, name, tensor.clone())
        assert signature_of(call) == found[0]
    assert len(set(found)) == len(found)


def test_calls_on_two_gpus_that_are_alike_differ_in_kind():
    """By which plans and compiled kernels are kept: a loaded kernel is of one GPU."""
    batch = make_batch(LENGTHS, (12, 4), 32, 16)
    elsewhere = {name: v.to("meta") if isinstance(v, torch.Tensor) else v for name, v in batch.items()}
    assert kind_of(batch) == kind_of(batch)
    assert kind_of(elsewhere) != kind_of(batch)
