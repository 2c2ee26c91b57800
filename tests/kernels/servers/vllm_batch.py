"""Batches as vLLM hands them to a backend, for the checks of vllm_child.py."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from heurgen_kernels.tools.reference import reference_attention

HEADS, HEADS_KV, SIZE, PAGE = 4, 2, 32, 16


class Batch:
    """A batch as vLLM hands it over. lengths: (new tokens, all tokens). layout: how pages lie in memory.

    The new tokens' slots hold NaN; `expected` are the pages with their K and V.
    """

    def __init__(self, lengths, layout="NHD", padding=0):
        generator = torch.Generator().manual_seed(0)
        self.lengths, self.tokens = lengths, sum(new for new, _ in lengths)
        rows = self.tokens + padding
        pages = [-(-total // PAGE) for _, total in lengths]
        self.table = torch.zeros((len(lengths), max(pages) + 1), dtype=torch.int32)
        order, first = torch.randperm(sum(pages), generator=generator).int() + 1, 0
        for row, count in enumerate(pages):
            self.table[row, :count] = order[first : first + count]
            first += count
        shape = (sum(pages) + 1, HEADS_KV, PAGE, 2 * SIZE)
        physical = (0, 2, 1, 3) if layout == "NHD" else (0, 1, 2, 3)
        flat = torch.randn([shape[i] for i in physical], generator=generator).half()
        self.kv_cache = flat.permute([physical.index(i) for i in range(4)])
        fused = torch.randn((rows, (HEADS + 2 * HEADS_KV) * SIZE), generator=generator).half()
        q, k, v = fused.split([HEADS * SIZE, HEADS_KV * SIZE, HEADS_KV * SIZE], dim=-1)
        self.query, self.key, self.value = (
            q.view(-1, HEADS, SIZE),
            k.view(-1, HEADS_KV, SIZE),
            v.view(-1, HEADS_KV, SIZE),
        )
        self.output = torch.full((rows, HEADS, SIZE), float("nan")).half()
        self.starts = torch.tensor([0, *(n for n, _ in lengths)], dtype=torch.int32).cumsum(0).int()
        self.lens = torch.tensor([n for _, n in lengths], dtype=torch.int32)
        found = [
            int(self.table[row, at // PAGE]) * PAGE + at % PAGE
            for row, (new, total) in enumerate(lengths)
            for at in range(total - new, total)
        ]
        self.slots = torch.tensor(found + [-1] * padding)
        page, place = self.slots[: self.tokens] // PAGE, self.slots[: self.tokens] % PAGE
        new = torch.cat((self.key, self.value), -1)[: self.tokens]
        self.expected = self.kv_cache.clone()
        self.expected.transpose(1, 2)[page, place] = new
        self.kv_cache.transpose(1, 2)[page, place] = float("nan")
        self.common = SimpleNamespace(
            query_start_loc=self.starts, query_start_loc_cpu=self.starts, seq_lens=self.lens, num_reqs=len(lengths),
            num_actual_tokens=rows, max_query_len=max(n for n, _ in lengths), max_seq_len=max(n for _, n in lengths),
            block_table_tensor=self.table, slot_mapping=self.slots, causal=True, mm_req_doc_ranges=None,
            rswa_prefix_lens=None, seq_lens_cpu_upper_bound=self.lens,
        )  # fmt: skip

    def written(self):
        """Whether new K and V are in their pages, and nothing else was changed."""
        return torch.equal(self.kv_cache, self.expected)

    def reference(self, **more):
        cache = self.expected.transpose(1, 2)
        return reference_attention(
            self.query[: self.tokens], cache[..., :SIZE], cache[..., SIZE:], self.table, self.starts, self.lens,
            scale=SIZE**-0.5, **more,
        )  # fmt: skip

    def forward(self, impl, metadata):
        layer = SimpleNamespace(_k_scale=torch.ones(()), _v_scale=torch.ones(()), _q_scale=torch.ones(()))
        return impl.forward(
            layer, self.query, self.key, self.value, self.kv_cache, metadata, output=self.output
        )


def error_of(found, expected):
    return float((found.double() - expected.double()).norm() / expected.double().norm())
