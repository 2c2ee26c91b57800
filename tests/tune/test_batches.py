"""Lengths of batches: drawn from a few numbers, counted as features, and made again from these."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import SpecError
from heurgen.tune.batches import DISTRIBUTIONS, attended_pairs, batch_features, draw_lengths, lengths_from

LENGTHS = ((1, 100), (1, 51), (32, 32), (10, 200))


def drawn(distribution: str = "equal", **changes: Any) -> tuple[tuple[int, int], ...]:
    given = {"num_seqs": 8, "decode_share": 0.5, "tokens": 1000, "prefix_share": 0.75} | changes
    return draw_lengths(Random(1), distribution=distribution, **given)


def test_what_a_host_knows_of_a_batch() -> None:
    assert batch_features(LENGTHS) == {
        "num_seqs": 4,
        "total_query_tokens": 44,
        "max_seqlen_q": 32,
        "avg_seqlen_q": 11.0,
        "max_seqlen_k": 200,
        "avg_seqlen_k": 95.75,
        "decode_share": 0.5,
    }
    assert batch_features(((1, 1), (1, 1), (2, 2)))["avg_seqlen_q"] == 1.333


def test_pairs_under_a_causal_mask() -> None:
    assert attended_pairs(((1, 100),)) == 100
    assert attended_pairs(((4, 4),)) == 1 + 2 + 3 + 4
    assert attended_pairs(((2, 5), (1, 3))) == 4 + 5 + 3


def test_equal_sequences() -> None:
    lengths = drawn()
    assert sorted(lengths) == [(1, 1000)] * 4 + [(250, 1000)] * 4
    assert set(drawn(decode_share=1.0)) == {(1, 1000)}
    assert set(drawn(decode_share=0.0, prefix_share=0.0)) == {(1000, 1000)}
    assert set(drawn(decode_share=0.0, prefix_share=1.0)) == {(1, 1000)}
    assert set(drawn(decode_share=0.0, query_tokens=3)) == {(3, 1000)}
    assert set(drawn(decode_share=0.0, tokens=2, query_tokens=3)) == {(2, 2)}
    assert {kind for kind, _ in lengths[:4]} == {1, 250}  # they are mixed


@pytest.mark.parametrize("distribution", [d for d in DISTRIBUTIONS if d != "equal"])
def test_the_longest_has_sixty_percent_at_least(distribution: str) -> None:
    longest = {
        max(k for _, k in draw_lengths(Random(seed), 16, 0.5, 1000, distribution, 0.0)) for seed in range(20)
    }
    assert 600 <= min(longest) < 700
    assert 900 < max(longest) <= 1000
    totals = sorted(k for _, k in draw_lengths(Random(3), 16, 0.5, 1000, distribution, 0.0))
    low, high = {"uniform": (0.5, 1.0), "lognormal": (0.0, 0.7), "one_long": (1 / 33, 1 / 7)}[distribution]
    assert (
        low * totals[-1]
        <= totals[0]
        <= totals[-2]
        <= (1.0 if distribution != "one_long" else high) * totals[-1]
    )
    assert totals[8] <= high * totals[-1]


def test_lengths_from_the_largest_alone() -> None:
    assert lengths_from({"num_seqs": 3, "max_seqlen_q": 1, "max_seqlen_k": 9}) == ((1, 9),) * 3
    assert lengths_from({"num_seqs": 2, "max_seqlen_q": 5, "max_seqlen_k": 9}) == ((5, 9),) * 2
    half = {"num_seqs": 4, "max_seqlen_q": 5, "max_seqlen_k": 9, "decode_share": 0.5}
    assert lengths_from(half) == ((5, 9), (5, 9), (1, 9), (1, 9))
    one = {"num_seqs": 1, "max_seqlen_q": 5, "max_seqlen_k": 9, "decode_share": 1.0}
    assert lengths_from(one) == ((5, 9),)  # the longest query decides
    average = {"num_seqs": 3, "max_seqlen_q": 5, "max_seqlen_k": 9, "avg_seqlen_q": 3, "avg_seqlen_k": 5}
    assert lengths_from(average) == ((5, 9), (2, 3), (2, 3))
    assert lengths_from({**average, "total_query_tokens": 12}) == ((5, 9), (4, 4), (3, 3))
    total = {"num_seqs": 3, "max_seqlen_q": 1, "max_seqlen_k": 9, "total_seqlen_k": 14}
    assert lengths_from(total) == ((1, 9), (1, 3), (1, 2))


@pytest.mark.parametrize("bad", [{"num_seqs": 0}, {"max_seqlen_q": 0}, {"max_seqlen_k": 4}])
def test_features_that_contradict_each_other(bad: dict[str, int]) -> None:
    with pytest.raises(SpecError, match="no batch has num_seqs "):
        lengths_from({"num_seqs": 3, "max_seqlen_q": 5, "max_seqlen_k": 9} | bad)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 300)), min_size=1, max_size=20))
def test_lengths_from_features_agree_with_them(pairs: list[tuple[int, int]]) -> None:
    lengths = tuple((q, q + more) for q, more in pairs)
    features = {**batch_features(lengths), "total_seqlen_k": sum(k for _, k in lengths)}
    made = batch_features(lengths_from(features))
    for name in ("num_seqs", "max_seqlen_q", "max_seqlen_k", "total_query_tokens"):
        assert made[name] == features[name]
    assert (
        abs(made["decode_share"] - features["decode_share"]) * len(pairs) < 1.5
        or features["avg_seqlen_q"] < 3
    )
