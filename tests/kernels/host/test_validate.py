"""Bad input is refused before anything is launched, with what was found and what was expected."""

from __future__ import annotations

import re

import numpy
import pytest
import torch
from heurgen_kernels.api import paged_attention
from heurgen_kernels.caches import forget
from heurgen_kernels.host import validate
from heurgen_kernels.host.hardware import INTERPRETER, Device
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.kernels.batches import LIMITS, checked, config, error_of, make_batch, on_meta


def refused(message, device, out=None, config=None, **changes):
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), device=device) | changes
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        paged_attention(**batch, out=out, config=config)
    assert message in str(caught.value)


def test_shapes(device):
    q = torch.zeros(6, 4, 32, dtype=torch.float16, device=device)
    refused("q has shape (6, 128); expected [tokens, query heads, head size]", device, q=q.view(6, 128))
    refused("head size is 64 in q and 32 in the caches", device, q=torch.zeros(6, 4, 64, device=device))
    refused("3 query heads do not divide into 2 KV heads; expected a multiple", device, q=q[:, :3])
    caches = torch.zeros(4, 16, 2, 32, device=device)
    refused("key_cache has shape (4, 16, 64)", device, key_cache=caches.view(4, 16, 64))
    refused("differ in shape", device, value_cache=caches[:, :8])
    refused("head size is 36; supported: multiples of 8 from 16 to 256", device, q=torch.zeros(6, 4, 36),
            key_cache=torch.zeros(4, 16, 2, 36), value_cache=torch.zeros(4, 16, 2, 36))  # fmt: skip


def test_dtypes(device):
    q = torch.zeros(6, 4, 32, device=device)
    refused("the cache is torch.float16 and q is torch.float32", device, q=q)
    refused("q is torch.int32; expected", device, q=q.int())
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), device=device)
    refused("block_table is torch.int64; expected int32", device, block_table=batch["block_table"].long())
    refused("seq_lens is torch.int64; expected int32", device, seq_lens=batch["seq_lens"].long())
    out = torch.zeros(6, 4, 32, dtype=torch.float8_e4m3fn, device=device)
    refused("fp8 outputs need a scale", device, out=out)


def test_batch(device):
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), device=device)
    starts = batch["cu_seqlens_q"]
    refused("cu_seqlens_q has 2 entries for 2 sequences; expected 3", device, cu_seqlens_q=starts[:2])
    refused("block_table has 1 rows for 2 sequences", device, block_table=batch["block_table"][:1])
    refused("max_seqlen_q = 2 hold fewer", device, max_seqlen_q=2)
    refused("max_seqlen_k is 49 tokens; block_table has room for 48 (3 pages of 16)", device, max_seqlen_k=49)
    out = torch.zeros(5, 4, 32, dtype=torch.float16, device=device)
    refused("out has shape (5, 4, 32); expected (6, 4, 32), as q", device, out=out)


def test_lengths_on_the_host_are_read(device):
    if device != "cpu":
        pytest.skip("lengths on a GPU are not read back")
    lens = torch.tensor([21, 1000], dtype=torch.int32)
    refused("max_seqlen_k is 21; seq_lens holds 1000", device, seq_lens=lens)


def test_new_tokens(device):
    key = torch.zeros(6, 2, 32, dtype=torch.float16, device=device)
    refused("key and value go together", device, key=key)
    refused("key has shape (5, 2, 32); expected (6, 2, 32)", device, key=key[:5], value=key)
    refused("value is torch.float32 and q is torch.float16", device, key=key, value=key.float())


def test_a_scale_that_is_repeated_for_each_head_is_one_number(device):
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), device=device)
    whole = paged_attention(**batch, k_scale=torch.full((1, 1), 0.5, device=device).expand(2, 2))
    assert torch.equal(whole, paged_attention(**batch, k_scale=torch.tensor(0.5, device=device)))


def test_numbers(device):
    refused("scale is 0.0; expected a positive number", device, scale=0)
    refused("scale is nan; expected a positive number", device, scale=float("nan"))
    refused("softcap is -1.0; expected 0 (off) or a positive number", device, softcap=-1.0)
    wrong = torch.zeros(3, device=device)
    refused(
        "alibi_slopes has shape (3,), strides (1,); expected one number per query head, (4,), contiguous",
        device,
        alibi_slopes=wrong,
    )
    refused(
        "sinks has shape (3,), strides (1,); expected one number per query head, (4,), contiguous",
        device,
        sinks=wrong,
    )


@pytest.mark.parametrize("variant", ["naive", "q_block", "split_kv"])
def test_caps_are_as_high_as_they_are_exact(device, variant):
    """A tanh of exponentials in float32 is as coarse as the cap is high: 1e6 was 3 % wrong, 1e9 64 %."""
    batch = make_batch([(1, 37), (5, 18)], heads=(4, 2), device=device)
    assert error_of(batch, config(variant), softcap=1e4) < LIMITS[torch.float16]
    with pytest.raises(
        ValueError, match=re.escape("softcap is 10001.0; expected 0 (off) or a positive number of at")
    ):
        paged_attention(**batch, softcap=10001, config=config(variant))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": float("inf")}, "scale is inf; expected a positive number"),
        ({"max_seqlen_q": -1}, "max_seqlen_q is -1; expected 0 or more tokens"),
        ({"max_seqlen_k": -1}, "max_seqlen_k is -1; expected 0 or more tokens"),
        (
            {"total_seqlen_k": 43},
            "total_seqlen_k is 43; 2 sequences of at most max_seqlen_k = 21 attend to 0 to 42 tokens",
        ),
        ({"key": torch.zeros(6, 2, 32).half()}, "key and value go together: one of them is None"),
        (
            {"key_cache": torch.zeros(4, 16, 0, 32).half(), "value_cache": torch.zeros(4, 16, 0, 32).half()},
            "4 query heads do not divide into 0 KV heads; expected a multiple",
        ),
        (
            {"output_scale": torch.ones(1)},
            "out is torch.float16 and output_scale is given; fp8 outputs need a scale, others take none",
        ),
        (
            {"out": torch.zeros(6, 4, 32).to(torch.float8_e4m3fn)},
            "out is torch.float8_e4m3fn and output_scale is None; fp8 outputs need a scale, others take none",
        ),
        (
            {"q": torch.zeros(6, 4, 64).half()[..., ::2]},
            "q must be contiguous along the head size (stride 2)",
        ),
    ],
)
def test_messages(changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        checked(make_batch([(1, 21), (5, 18)], heads=(4, 2)) | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.zeros(6, 0, 32).half()}, "0 query heads do not divide into 2 KV heads; expected a multiple"),
        (
            {"key_cache": torch.zeros(4, 0, 2, 32).half(), "value_cache": torch.zeros(4, 0, 2, 32).half()},
            "key_cache has shape (4, 0, 2, 32); a page holds 1 or more tokens",
        ),
        (
            {"out": torch.zeros(6, 1, 32).half().expand(6, 4, 32)},
            "out has strides (32, 0, 1); expected a place of its own for each element",
        ),
        ({"sinks": torch.zeros(4).int()}, "sinks is torch.int32; expected float16, bfloat16, float32 or float64"),
        (
            {"sinks": torch.zeros(8)[::2]},
            "sinks has shape (4,), strides (2,); expected one number per query head, (4,), contiguous",
        ),
        ({"k_scale": torch.ones(1).double()}, "k_scale is torch.float64; expected float32"),
        ({"v_scale": torch.ones(0)}, "v_scale has shape (0,); expected one number for all tokens and heads"),
        ({"v_scale": torch.ones(2)}, "v_scale has shape (2,); expected one number for all tokens and heads"),
        ({"k_scale": 0.5}, "k_scale is 0.5; expected a tensor on cpu"),
        ({"sinks": [0.0] * 4}, "sinks is [0.0, 0.0, 0.0, 0.0]; expected a tensor on cpu"),
        ({"block_table": None}, "block_table is None; expected a tensor on cpu"),
        ({"seq_lens": [21, 18]}, "seq_lens is [21, 18]; expected a tensor on cpu"),
        ({"q": [1.0]}, "q is [1.0]; expected a tensor"),
        ({"q": [1.0], "out": torch.zeros(6, 4, 32).half()}, "q is [1.0]; expected a tensor"),
        ({"window": None}, "window is None; expected a pair, (left, right)"),
        ({"window": (3,)}, "window is (3,); expected a pair, (left, right)"),
        ({"scale": None}, "scale is None; expected a number"),
        ({"softcap": "off"}, "softcap is 'off'; expected a number"),
        ({"max_seqlen_q": 5.0}, "max_seqlen_q is 5.0; expected a whole number of tokens"),
        ({"max_seqlen_k": None}, "max_seqlen_k is None; expected a whole number of tokens"),
        ({"causal": torch.tensor([True, False])}, "causal is tensor([ True, False]); expected True or False"),
        ({"total_seqlen_k": 39.5}, "total_seqlen_k is 39.5; expected a whole number of tokens"),
    ],
)  # fmt: skip
def test_what_no_kernel_can_take(changes, message):
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2)) | changes
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        paged_attention(**batch, config=config("q_block"))


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((3.0, 0), "window[0] is 3.0; expected a whole number of tokens"),
        ((3, None), "window[1] is None; expected a whole number of tokens"),
        ((-2, 0), "window is (-2, 0); expected 0 to 1073741823 tokens to either side, or -1 for all"),
        ((0, -2), "window is (0, -2); expected 0 to 1073741823 tokens to either side, or -1 for all"),
        ((2**30, 0), "window is (1073741824, 0); expected 0 to 1073741823 tokens to either side, or -1 for all"),
        ((0, 2**30), "window is (0, 1073741824); expected 0 to 1073741823 tokens to either side, or -1 for all"),
    ],
)  # fmt: skip
def test_windows(window, message):
    """A bound on the right that ends where 32 bits end hid keys."""
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        paged_attention(**batch, window=window, causal=False, config=config("q_block"))
    for bound in (0, 2**30 - 1):
        paged_attention(**batch, window=(bound, bound), causal=False, config=config("q_block"))


def test_numbers_that_numpy_or_a_tensor_counted():
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2))
    counted = {
        "max_seqlen_q": numpy.int64(5),
        "max_seqlen_k": torch.tensor(21),
        "total_seqlen_k": numpy.int32(39),
    }
    whole = paged_attention(**batch, window=(9, -1), config=config("split_kv"))
    given = paged_attention(**batch | counted, window=(numpy.int64(9), -1), config=config("split_kv"))
    assert torch.equal(whole, given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cu_seqlens_q": [1, 2, 6]}, "cu_seqlens_q is [1, 2, 6]; expected 0, then where sequences end, 6 at most"),
        ({"cu_seqlens_q": [0, 6, 1]}, "cu_seqlens_q is [0, 6, 1]; expected 0, then where sequences end, 6 at most"),
        ({"cu_seqlens_q": [0, 1, 7]}, "cu_seqlens_q is [0, 1, 7]; expected 0, then where sequences end, 6 at most"),
        ({"max_seqlen_q": 4}, "max_seqlen_q is 4; a sequence has 5 new tokens"),
        ({"seq_lens": [21, 22]}, "max_seqlen_k is 21; seq_lens holds 22"),
        ({"seq_lens": [-1, 18]}, "seq_lens holds -1; expected 0 or more tokens"),
        ({"block_table": [[0, 1], [0, 9]]}, "block_table holds page 9 for sequence 1; the caches have 6 pages"),
        ({"block_table": [[0, -1], [0, 1]]}, "block_table holds page -1 for sequence 0; the caches have 6 pages"),
    ],
)  # fmt: skip
def test_what_lies_in_host_memory_is_read(changes, message):
    """At every call: it may change where it lies. On a GPU it would synchronise."""
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2))
    checked(batch)
    changes = {
        k: torch.tensor(v, dtype=torch.int32) if isinstance(v, list) else v for k, v in changes.items()
    }
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        checked(batch | changes)


def test_pages_that_no_token_sees_may_be_anything():
    """Of sequences without new tokens, of new tokens that are at hand, and before a window."""
    batch = make_batch([(0, 21), (5, 53)], heads=(4, 2))
    batch["block_table"] = torch.tensor([[99] * 4, [99, 99, 0, 1]], dtype=torch.int32)
    call = checked(batch | {"block_table": batch["block_table"].clamp(max=5)})
    call.table, call.left = batch["block_table"], 16
    validate.check(call)
    call.left = 15 + 1 + 1
    with pytest.raises(ValueError, match="block_table holds page 99 for sequence 1"):
        validate.check(call)
    fresh = make_batch([(5, 37)], heads=(4, 2), fresh=True)
    fresh["block_table"] = torch.tensor([[0, 1, 99]], dtype=torch.int32)
    checked(fresh)
    checked(fresh | {"slot_mapping": torch.full((5,), -1)})


def test_of_new_tokens_beside_pages_each_sequence_is_looked_at():
    """The longest may have the most new tokens, which need no pages, or few."""
    batch = make_batch([(1, 60), (16, 16)], heads=(4, 2), fresh=True)
    batch["block_table"] = batch["block_table"][:, :3].contiguous()
    with pytest.raises(ValueError, match=r"^sequence 0 has 59 tokens in pages; block_table has room for 48$"):
        checked(batch)


def test_one_kv_head_has_any_stride_from_head_to_head():
    """Of a projection's columns: that of K by `unsqueeze`, that of V by an index. They were refused."""
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 1), fresh=True)
    rows = torch.cat([batch["key"], batch["value"]], 2).squeeze(1)
    batch |= {"key": rows[:, :32].unsqueeze(1), "value": rows[:, None, 32:]}
    assert batch["key"].stride(1) != batch["value"].stride(1)
    for variant in ("naive", "q_block", "split_kv"):
        assert error_of(batch, config(variant)) < LIMITS[torch.float16]


def test_slots_lie_in_the_pages():
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), fresh=True)
    slots = torch.tensor([0, 1, -1, 2, 3, 95])
    checked(batch | {"slot_mapping": slots})
    message = "slot_mapping holds 96; the caches have 6 pages of 16 tokens"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        checked(batch | {"slot_mapping": slots + 1})


def test_a_table_may_be_full():
    """48 tokens in three pages of 16."""
    assert checked(make_batch([(1, 21), (5, 18)], heads=(4, 2)) | {"max_seqlen_k": 48}).max_k == 48


def test_nothing_is_a_batch():
    """No tokens, no keys: maxima of 0 are lengths."""
    batch = make_batch([(0, 0), (0, 0)], heads=(4, 2))
    assert (batch["max_seqlen_q"], batch["max_seqlen_k"]) == (0, 0)
    assert checked(batch).layout.tokens == 0


@pytest.mark.parametrize(
    ("lengths", "fits"), [([(5, 52)], True), ([(4, 53)], False), ([(1, 52), (5, 20)], True)]
)
def test_new_tokens_need_no_pages(lengths, fits):
    """48 slots a sequence, and its new tokens beside; of several the longest may have them all."""
    batch = make_batch(lengths, heads=(4, 2), fresh=True) | {
        "seq_lens": torch.ones(len(lengths), dtype=torch.int32)
    }
    batch["block_table"] = batch["block_table"][:, :1].expand(-1, 3).contiguous()
    if fits:
        checked(batch)
        return
    with pytest.raises(ValueError, match="block_table has room for 48"):
        checked(batch)


def test_tensors_without_memory_are_refused():
    """A kernel would be given address 0."""
    batch = {name: on_meta(value) for name, value in make_batch([(1, 21)]).items()}
    with pytest.raises(ValueError, match=r"^tensors are on meta, without memory"):
        paged_attention(**batch)
    forget()
    batch, fake = make_batch([(1, 21)]), FakeTensorMode()
    with pytest.raises(
        ValueError, match=r"^key_cache is a FakeTensor without memory; expected plain tensors"
    ):
        paged_attention(**batch | {"key_cache": fake.from_tensor(batch["key_cache"])})


def freed(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize("name", ["q", "key_cache", "value_cache"])
@pytest.mark.parametrize(
    ("kind", "lose"), [("Tensor", freed), ("FakeTensor", lambda tensor: FakeTensorMode().from_tensor(tensor))]
)
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_tensors_without_memory_are_refused_after_a_good_call(device, name, kind, lose):
    batch = make_batch([(1, 21)], device=device)
    paged_attention(**batch)
    with pytest.raises(ValueError, match=f"^{name} is a {kind} without memory; expected plain tensors"):
        paged_attention(**batch | {name: lose(batch[name])})


def test_devices(device):
    elsewhere = torch.zeros(6, 4, 32, dtype=torch.float16, device="meta")
    refused("out is on meta and q on", device, out=elsewhere)


@pytest.mark.parametrize(
    ("name", "shape", "strides", "said"),
    [
        ("q", (6, 4, 32), (32, 2**30, 1), "heads of a token lie 3221225504 elements apart"),
        ("out", (6, 4, 32), (32, 2**30, 1), "heads of a token lie 3221225504 elements apart"),
        ("key", (6, 2, 32), (32, 2**31 - 32, 1), "heads of a token lie 2147483648 elements apart"),
        ("value", (6, 2, 32), (32, 2**31, 1), "heads of a token lie 2147483680 elements apart"),
        ("key_cache", (9, 16, 2, 32), (32, 2**28, 64, 1), "tokens of a page lie 4026531872 elements apart"),
        ("value_cache", (9, 16, 2, 32), (32, 2**28, 64, 1), "tokens of a page lie 4026531872 elements apart"),
    ],
)
def test_what_32_bits_do_not_reach(name, shape, strides, said):
    batch = make_batch([(1, 21), (5, 18)], heads=(4, 2), fresh=True)
    batch |= {n: torch.empty(9, 16, 2, 32).half().to("meta") for n in ("key_cache", "value_cache")}
    far = torch.empty(1, dtype=torch.float16, device="meta").as_strided(shape, strides)
    message = f"{name} has strides {strides}: the {said}; expected at most 2147483647"
    if name == "key":
        batch["value"] = far
    if name == "value":
        batch["key"] = batch["key"].as_strided(shape, (64, 32, 1))
        batch["slot_mapping"] = torch.zeros(6, dtype=torch.int64)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        checked(batch | {name: far})


def test_what_32_bits_reach():
    batch = {n: v.to("meta") if isinstance(v, torch.Tensor) else v
             for n, v in make_batch([(1, 21), (5, 18)], heads=(4, 2)).items()}  # fmt: skip
    far = torch.empty(1, dtype=torch.float16, device="meta")
    shape = batch["key_cache"].shape
    batch |= {n: far.as_strided(shape, (2**40, 32, 2**36, 1)) for n in ("key_cache", "value_cache")}
    batch["q"] = far.as_strided((6, 4, 32), (2**40, (2**31 - 33) // 3, 1))
    assert checked(batch | {"out": torch.empty_like(batch["q"])}, INTERPRETER).layout.tokens == 6


def test_configs(device):
    refused("config.variant is 'fast'; allowed: naive, q_block", device, config=config("fast"))
    refused("config.TILE_SIZE is 24; allowed: 16, 32, 64", device, config=config("q_block", tile=24))


def test_one_sequence_may_have_any_stride_as_for_torch():
    """A tensor with one element is contiguous whatever its stride is, and `.contiguous()` returns it as it is."""
    batch = make_batch([(1, 10)])
    table = torch.zeros(1, 2, dtype=torch.int32)
    table[0] = batch["block_table"][0, 0]
    few = batch | {
        "block_table": table.t()[:1].as_strided((1, 1), (1, 2)),
        "seq_lens": torch.tensor([[10, 7]], dtype=torch.int32)[:, 0],
    }
    assert few["seq_lens"].is_contiguous()
    assert few["seq_lens"].stride() == (2,)
    checked(few)


@pytest.mark.parametrize(
    ("shape", "strides", "shared"),
    [
        ((3, 4, 8), (32, 8, 1), False), ((3, 4, 8), (8, 24, 1), False), ((3, 4, 8), (100, 10, 1), False),
        ((3, 1, 8), (8, 0, 1), False), ((3, 4, 8), (4, 12, 1), True), ((3, 4, 8), (32, 0, 1), True),
        ((3, 4, 8), (16, 8, 1), True),
    ],
)  # fmt: skip
def test_elements_that_share_memory_are_found(shape, strides, shared):
    assert validate.overlaps(torch.zeros(400).as_strided(shape, strides)) is shared


FP8 = {name: getattr(torch, f"float8_{name}") for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")}


@pytest.mark.parametrize(
    ("device", "called", "has"),
    [
        (Device("nvidia", (8, 0), 108), "compute capability 8.0", ["e5m2"]),
        (Device("nvidia", (8, 9), 142), "compute capability 8.9", ["e4m3fn", "e5m2"]),
        (Device("nvidia", (9, 0), 132), "compute capability 9.0", ["e4m3fn", "e5m2"]),
        (Device("amd", None, 104, "gfx90a"), "gfx90a", ["e4m3fn", "e5m2"]),
        (Device("amd", None, 304, "gfx942"), "gfx942", [*FP8]),
        (INTERPRETER, "no GPU", ["e4m3fn", "e5m2"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_fp8_types_that_a_device_lacks_are_refused_with_those_that_it_has(device, called, has):
    """Behind this they would end in an error of the compiler, on gfx90a with the process."""
    said = f"of fp8 types this device ({called}) has " + ", ".join(str(FP8[name]) for name in has)
    for name, dtype in FP8.items():
        batch = make_batch([(1, 21)], cache=dtype)
        quantised = {"q": batch["q"].to(dtype), "out": batch["q"].clone()}
        for given, what in ((batch, "key_cache"), (batch | quantised, "q")):
            if name in has:
                checked(given, device)
                continue
            with pytest.raises(ValueError, match=re.escape(f"{what} is {dtype}; {said}")):
                checked(given, device)
        written = make_batch([(1, 21)]) | {"output_scale": torch.ones(1)}
        written["out"] = torch.empty_like(written["q"], dtype=dtype)
        if name not in has:
            with pytest.raises(ValueError, match=re.escape(f"out is {dtype}; {said}")):
                checked(written, device)
