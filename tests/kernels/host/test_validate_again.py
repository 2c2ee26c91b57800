"""Signatures that were found good are remembered: what differs from them is checked as a first call is."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.caches import Cache
from heurgen_kernels.host import validate

from tests.kernels.batches import checked, make_batch

BAD_AFTER_GOOD = [
    ("q has shape", lambda b: {"q": b["q"].flatten(1)}),
    ("q must be contiguous", lambda b: {"q": b["q"].transpose(1, 2).contiguous().transpose(1, 2)}),
    ("q is torch.int32", lambda b: {"q": b["q"].int()}),
    ("query heads do not divide", lambda b: {"q": b["q"][:, :3]}),
    ("head size is 16 in q and 32", lambda b: {"q": b["q"][:, :, :16]}),
    ("key_cache has shape", lambda b: {"key_cache": b["key_cache"].flatten(2)}),
    ("value_cache has shape", lambda b: {"value_cache": b["value_cache"].flatten(2)}),
    ("differ in shape", lambda b: {"key_cache": b["key_cache"][:1]}),
    ("differ in shape", lambda b: {"value_cache": b["value_cache"][:1]}),
    ("key_cache must be contiguous", lambda b: {"key_cache": twisted(b["key_cache"])}),
    ("value_cache must be contiguous", lambda b: {"value_cache": twisted(b["value_cache"])}),
    ("key_cache is torch.float32", lambda b: {"key_cache": b["key_cache"].float()}),
    ("value_cache torch.float32", lambda b: {"value_cache": b["value_cache"].float()}),
    ("the cache is torch.float32", lambda b: {n: b[n].float() for n in ("key_cache", "value_cache")}),
    ("key and value go together", lambda b: {"value": None}),
    ("key has shape", lambda b: {"key": b["key"][:-1]}),
    ("value has shape", lambda b: {"value": b["value"][:, :1]}),
    ("value is torch.float32", lambda b: {"value": b["value"].float()}),
    ("key must be contiguous", lambda b: {"key": twisted(b["key"])}),
    ("expected the same", lambda b: {"value": torch.cat([b["value"]] * 2, 2)[..., : b["value"].shape[2]]}),
    ("block_table has shape", lambda b: {"block_table": b["block_table"][0]}),
    ("block_table is torch.int64", lambda b: {"block_table": b["block_table"].long()}),
    ("block_table has 1 rows", lambda b: {"block_table": b["block_table"][:1]}),
    ("block_table must be contiguous", lambda b: {"block_table": twisted(b["block_table"])}),
    ("has room for 0", lambda b: {"block_table": b["block_table"][:, :0]}),
    ("cu_seqlens_q has shape", lambda b: {"cu_seqlens_q": b["cu_seqlens_q"][None]}),
    ("cu_seqlens_q is torch.int64", lambda b: {"cu_seqlens_q": b["cu_seqlens_q"].long()}),
    ("cu_seqlens_q has 2 entries", lambda b: {"cu_seqlens_q": b["cu_seqlens_q"][:2]}),
    ("cu_seqlens_q and seq_lens must be", lambda b: {"cu_seqlens_q": doubled(b["cu_seqlens_q"])}),
    ("seq_lens has shape", lambda b: {"seq_lens": b["seq_lens"][None]}),
    ("seq_lens is torch.int64", lambda b: {"seq_lens": b["seq_lens"].long()}),
    ("entries for 1 sequences", lambda b: {"seq_lens": b["seq_lens"][:1]}),
    ("cu_seqlens_q and seq_lens must be", lambda b: {"seq_lens": doubled(b["seq_lens"])}),
    ("out has shape", lambda b: {"out": b["q"][:-1]}),
    ("out must be contiguous", lambda b: {"out": twisted(b["q"])}),
    ("expected a place of its own", lambda b: {"out": torch.empty(999).as_strided(b["q"].shape, (16, 32, 1))}),
    ("out is torch.int32", lambda b: {"out": b["q"].int()}),
    ("fp8 outputs need a scale", lambda b: {"out": b["q"].to(torch.float8_e4m3fn)}),
    ("others take none", lambda b: {"output_scale": torch.ones(1)}),
    ("alibi_slopes has shape", lambda b: {"alibi_slopes": torch.ones(3)}),
    ("sinks has shape", lambda b: {"sinks": doubled(torch.ones(4))}),
    *((f"{name} is on meta", lambda b, name=name: {name: b[name].to("meta")})
      for name in ("key_cache", "value_cache", "block_table", "cu_seqlens_q", "seq_lens", "key", "value")),
    ("and q on meta", lambda b: {"q": b["q"].to("meta")}),
    ("out is on meta", lambda b: {"out": b["q"].to("meta")}),
    *((f"{name} is on meta", lambda b, name=name: {name: torch.ones(4, device="meta")})
      for name in ("alibi_slopes", "sinks", "q_scale", "k_scale", "v_scale")),
    *((f"{name} has shape (2,); expected one number", lambda b, name=name: {name: torch.ones(2)})
      for name in ("q_scale", "k_scale", "v_scale")),
    ("max_seqlen_q is -1", lambda b: {"max_seqlen_q": -1}),
    ("max_seqlen_q = 2 hold fewer", lambda b: {"max_seqlen_q": 2}),
    ("max_seqlen_k is -1", lambda b: {"max_seqlen_k": -1}),
    ("has room for 48", lambda b: {"max_seqlen_k": 99}),
    ("seq_lens holds 91", lambda b: {"seq_lens": b["seq_lens"] + 70}),
    ("scale is nan", lambda b: {"scale": float("nan")}),
    ("softcap is inf", lambda b: {"softcap": float("inf")}),
]  # fmt: skip


def twisted(tensor):
    """The same shape, its last two dimensions laid out the other way round."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def doubled(tensor):
    """The same shape, every other element of a longer one."""
    return tensor.repeat_interleave(2)[::2]


@pytest.mark.parametrize(("said", "change"), BAD_AFTER_GOOD, ids=[said for said, _ in BAD_AFTER_GOOD])
def test_a_bad_call_is_refused_after_a_good_one(said, change):
    """Signatures found good are remembered; whatever differs from them is checked as the first call was."""
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), fresh=True)
    batch["out"] = torch.empty_like(batch["q"])
    checked(batch)
    checked(batch)
    messages = []
    for forget in (False, True):
        if forget:
            validate._good.clear()
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            checked(batch | change(batch))
        messages.append(str(caught.value))
        checked(batch)
    assert said in messages[0]
    assert messages[0] == messages[1]


def test_signatures_are_forgotten_before_they_are_too_many(monkeypatch):
    monkeypatch.setattr(validate, "_good", Cache(4))
    for count in range(1, 12):
        checked(make_batch([(1, 21)] * count, heads=(4, 2)))
        assert 0 < len(validate._good) <= 4


def test_calls_that_differ_in_tokens_and_pages_alone_are_of_one_kind():
    few, many = (checked(make_batch([(1, 21)] * count, heads=(4, 2))) for count in (2, 9))
    assert (few.layout.num_seqs, many.layout.num_seqs) == (2, 9)
    assert few.layout.kind == many.layout.kind
    assert few.layout.kind != checked(make_batch([(1, 21)] * 2, heads=(4, 1))).layout.kind
