"""The documented guess, around each of its limits."""

from __future__ import annotations

import pytest
from heurgen_kernels.config import Config
from heurgen_kernels.defaults import default_config

LAUNCH = {
    "vendor": "nvidia", "window": 1 << 30, "softcap": False, "num_query_heads": 32, "num_kv_heads": 8,
    "head_size": 128, "page_size": 16, "dtype": "bfloat16", "fresh": False, "sinks": False, "multiprocessors": 132,
}  # fmt: skip


def guess(num_seqs, longest, keys, tokens=None, **changes):
    tokens = num_seqs * longest if tokens is None else tokens
    return default_config(
        num_seqs=num_seqs, total_query_tokens=tokens, max_seqlen_q=longest, max_seqlen_k=keys,
        total_seqlen_k=num_seqs * keys, avg_seqlen_q=tokens / num_seqs, **(LAUNCH | changes),
    )  # fmt: skip


SMALL, LONG = Config("q_block", 64, 32, 4, 2, 1), Config("warp_specialized", 128, 128, 4, 2, 1)
MEDIUM = Config("warp_specialized", 128, 64, 4, 3, 1)


@pytest.mark.parametrize(
    ("num_seqs", "keys", "changes", "expected"),
    [
        (1, 127, {}, Config("q_block", 16, 128, 4, 2, 1)),
        (1, 128, {}, Config("split_kv", 16, 64, 4, 3, 2)),
        (1, 1023, {}, Config("split_kv", 16, 64, 4, 3, 8)),
        (1, 32767, {}, Config("split_kv", 16, 64, 4, 3, 16)),
        (1, 32768, {}, Config("split_kv", 16, 64, 4, 3, 32)),
        (2, 8192, {}, Config("split_kv", 16, 64, 4, 3, 16)),
        (3, 8192, {}, Config("split_kv", 16, 16, 1, 3, 16)),
        (49, 8192, {}, Config("split_kv", 16, 16, 1, 3, 2)),
        (50, 8192, {}, Config("q_block", 16, 128, 4, 2, 1)),
        (1000, 8192, {}, Config("q_block", 16, 128, 4, 2, 1)),
        (1, 100, {"head_size": 256}, Config("q_block", 16, 32, 4, 2, 1)),
        (1, 8192, {"head_size": 256}, Config("split_kv", 16, 32, 2, 3, 16)),
        (1, 8192, {"vendor": "amd"}, Config("split_kv", 16, 64, 4, 2, 16)),
    ],
)
def test_decodes_split_keys_until_the_processors_have_six_programs(num_seqs, keys, changes, expected):
    assert guess(num_seqs, 1, keys, **changes) == expected


@pytest.mark.parametrize(
    ("num_seqs", "longest", "keys", "more", "expected"),
    [
        (1, 4, 8192, {}, Config("split_kv", 16, 64, 4, 3, 16)),  # 16 rows still are a decode's block
        (1, 5, 8192, {}, Config("warp_specialized", 128, 128, 4, 2, 2)),
        (1, 5, 511, {}, SMALL),
        (1, 5, 512, {}, MEDIUM),
        (1, 4095, 4095, {}, MEDIUM),
        (1, 1055, 4096, {}, Config("warp_specialized", 128, 128, 4, 2, 2)),  # 263 blocks, 132 processors
        (1, 1056, 4096, {}, LONG),
        (1, 2000, 4096, {"vendor": "amd"}, Config("q_block", 64, 32, 4, 1, 1)),
        (
            10,
            4000,
            8192,
            {"tokens": 19_999},
            MEDIUM,
        ),  # less than half as many tokens as the longest would give
        (10, 4000, 8192, {"tokens": 20_000}, LONG),
        (10, 400, 500, {"tokens": 1_999}, MEDIUM),
        (10, 400, 500, {"tokens": 2_000}, SMALL),
    ],
)
def test_prompts_by_their_length_and_their_evenness(num_seqs, longest, keys, more, expected):
    assert guess(num_seqs, longest, keys, **more) == expected
