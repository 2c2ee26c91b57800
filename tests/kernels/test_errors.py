"""Bad input is refused before anything is launched, with what was found and what was expected."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels.api import paged_attention

from tests.kernels.batches import config, make_batch


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
    refused(
        "cu_seqlens_q has 2 entries for 2 sequences; expected 3", device, cu_seqlens_q=starts[:2].contiguous()
    )
    refused("block_table has 1 rows for 2 sequences", device, block_table=batch["block_table"][:1])
    refused("max_seqlen_q = 2 hold fewer", device, max_seqlen_q=2)
    refused("max_seqlen_k is 49 tokens; block_table has room for 48 (3 pages of 16)", device, max_seqlen_k=49)
    out = torch.zeros(5, 4, 32, dtype=torch.float16, device=device)
    refused("out has shape (5, 4, 32); expected (6, 4, 32), as q", device, out=out)


def test_lengths_on_the_host_are_read(device):
    if device != "cpu":
        pytest.skip("lengths on a GPU are not read back")
    lens = torch.tensor([21, 1000], dtype=torch.int32)
    refused("block_table has room for 48", device, seq_lens=lens)


def test_new_tokens(device):
    key = torch.zeros(6, 2, 32, dtype=torch.float16, device=device)
    refused("key and value go together", device, key=key)
    refused("key has shape (5, 2, 32); expected (6, 2, 32)", device, key=key[:5], value=key)
    refused("value is torch.float32 and q is torch.float16", device, key=key, value=key.float())


def test_numbers(device):
    refused("scale is 0; expected a positive number", device, scale=0)
    refused("scale is nan; expected a positive number", device, scale=float("nan"))
    refused("softcap is -1.0; expected 0 (off) or a positive number", device, softcap=-1.0)
    wrong = torch.zeros(3, device=device)
    refused(
        "alibi_slopes has shape (3,); expected one number per query head, (4,)", device, alibi_slopes=wrong
    )
    refused("sinks has shape (3,); expected one number per query head, (4,)", device, sinks=wrong)


def test_devices(device):
    elsewhere = torch.zeros(6, 4, 32, dtype=torch.float16, device="meta")
    refused("out is on meta and q on", device, out=elsewhere)


def test_configs(device):
    refused("config.variant is 'fast'; known: naive, q_block", device, config=config("fast"))
    refused(
        "TILE_SIZE is 24; it must be a power of two of at least 16", device, config=config("q_block", tile=24)
    )
