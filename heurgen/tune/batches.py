"""Ragged batches: how long the sequences of a batch are, and the features that a launch knows of them.

A sequence is (query tokens, tokens attended to, the query's own included): (1, n) decodes its n-th token,
(n, n) is a fresh prompt, (q, n) with 1 < q < n a chunk of a prompt whose first n - q tokens are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal, TypeAlias, get_args

from heurgen.base.errors import SpecError

Lengths: TypeAlias = tuple[tuple[int, int], ...]
Distribution: TypeAlias = Literal["equal", "uniform", "lognormal", "one_long"]
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)

# Relative length of a sequence, drawn before the longest is scaled to 1. "uniform" is what a batch
# looks like some way into its life; "lognormal" (sigma 1) is the long tail seen in conversation traces;
# "one_long" a straggler.
_DRAWS: dict[str, Callable[[Random], float]] = {
    "equal": lambda random: 1.0,
    "uniform": lambda random: random.uniform(0.5, 1.0),
    "lognormal": lambda random: random.lognormvariate(0.0, 1.0),
    "one_long": lambda random: random.uniform(1 / 32, 1 / 8),
}


def draw_lengths(
    random: Random,
    num_seqs: int,
    decode_share: float,
    tokens: int,
    distribution: str,
    prefix_share: float,
    query_tokens: int = 0,
) -> Lengths:
    """Lengths of a batch whose longest sequence attends to 60 to 100 % of `tokens` (all, if "equal").

    `decode_share` of the sequences query one token; the rest query all but `prefix_share` of their
    tokens, or `query_tokens` where that is not 0 (speculation checks a few tokens of each sequence).
    The longest varies so that thresholds between the sizes of a workload are learnt from data,
    not from gaps.
    """
    if distribution != "equal":
        tokens = round(tokens * random.uniform(0.6, 1.0))
    relative = [_DRAWS[distribution](random) for _ in range(num_seqs)]
    if distribution == "one_long":
        relative[random.randrange(num_seqs)] = 1.0
    longest = max(relative)
    totals = [max(1, round(tokens * r / longest)) for r in relative]
    decodes = round(num_seqs * decode_share)
    kinds = [True] * decodes + [False] * (num_seqs - decodes)
    random.shuffle(kinds)
    return tuple(
        (1, total)
        if decode
        else (min(query_tokens, total) or max(1, total - int(total * prefix_share)), total)
        for decode, total in zip(kinds, totals, strict=True)
    )


def batch_features(lengths: Lengths) -> dict[str, int | float]:
    """What the host knows of a batch before the launch. Averages have 3 decimals, as they are logged."""
    n = len(lengths)
    queries, totals = [q for q, _ in lengths], [k for _, k in lengths]
    return {
        "num_seqs": n,
        "total_query_tokens": sum(queries),
        "max_seqlen_q": max(queries),
        "avg_seqlen_q": round(sum(queries) / n, 3),
        "max_seqlen_k": max(totals),
        "avg_seqlen_k": round(sum(totals) / n, 3),
        "decode_share": round(sum(q == 1 for q in queries) / n, 3),
    }


def attended_pairs(lengths: Lengths) -> int:
    """Query-key pairs under a causal mask: what attention costs, up to a factor of heads and head size."""
    return sum(q * k - q * (q - 1) // 2 for q, k in lengths)


def lengths_from(features: Mapping[str, Any]) -> Lengths:
    """Lengths that agree with features as far as whole numbers can.

    Needs num_seqs, max_seqlen_q, max_seqlen_k; uses decode_share, total_query_tokens or avg_seqlen_q,
    total_seqlen_k or avg_seqlen_k.

    Raises:
        SpecError: the features contradict each other.
    """
    n, longest_q, longest_k = (int(features[k]) for k in ("num_seqs", "max_seqlen_q", "max_seqlen_k"))
    if min(n, longest_q) < 1 or longest_k < longest_q:
        raise SpecError(
            f"no batch has num_seqs {n}, max_seqlen_q {longest_q}, max_seqlen_k {longest_k}",
            hint="expected num_seqs >= 1 and 1 <= max_seqlen_q <= max_seqlen_k",
        )
    share = float(features.get("decode_share", 1.0 if longest_q == 1 else 0.0))
    decodes = n if longest_q == 1 else min(n - 1, max(0, round(n * share)))
    prompts = n - decodes
    default_q = features.get("avg_seqlen_q", (decodes + prompts * longest_q) / n) * n
    queries = _spread(prompts, longest_q, int(features.get("total_query_tokens", default_q)) - decodes)
    queries += [1] * decodes
    default_k = round(features.get("avg_seqlen_k", longest_k) * n)
    totals = _spread(n, longest_k, int(features.get("total_seqlen_k", default_k)))
    return tuple((q, max(q, k)) for q, k in zip(queries, totals, strict=True))


def _spread(count: int, longest: int, total: int) -> list[int]:
    """`count` lengths, the first `longest`, the others as equal as `total` allows, each 1..longest."""
    if count == 0:
        return []
    rest = min(max(total - longest, count - 1), longest * (count - 1))
    low, more = divmod(rest, count - 1) if count > 1 else (0, 0)
    return [longest] + [low + (i < more) for i in range(count - 1)]
