"""Following a selector along its paths finds all that it can answer."""

from __future__ import annotations

from random import Random

import pytest
from heurgen_kernels.ahead.answers import answers
from heurgen_kernels.defaults import default_config
from heurgen_kernels.host.select import FEATURES, NO_WINDOW, bind

RANGES = {
    "num_seqs": (1, 256), "total_query_tokens": (1, 8192), "max_seqlen_q": (1, 8192), "max_seqlen_k": (1, 131072),
    "total_seqlen_k": (1, 256 * 131072), "avg_seqlen_q": (0, 8192),
}  # fmt: skip
FIXED = {"num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, "dtype": "bfloat16",
         "fresh": False, "multiprocessors": 132, "window": NO_WINDOW, "softcap": False, "sinks": False}  # fmt: skip


def drawn(rng):
    """A batch of any sizes within RANGES, as the values of FEATURES."""

    def size(low, high):
        return min(high, max(low, int(low * (high / low) ** rng.random())))

    num_seqs, longest = size(1, 256), size(1, 131072)
    query = rng.choice([1, size(1, 8192)])
    tokens = min(size(1, num_seqs * query), 8192)
    return {
        "num_seqs": num_seqs, "total_query_tokens": tokens, "max_seqlen_q": query, "max_seqlen_k": longest,
        "total_seqlen_k": size(1, num_seqs * longest), "avg_seqlen_q": tokens / num_seqs,
    }  # fmt: skip


def values_of(given):
    return tuple({**FIXED, **given}[name] for name in FEATURES)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_what_the_shipped_selector_answers_is_found_with_where(dtype):
    select, layout = bind(None, "nvidia", dtype != "bfloat16"), {"dtype": dtype}
    found = answers(select, {name: {**FIXED, **RANGES, **layout}[name] for name in FEATURES})
    rng = Random(0)
    for _ in range(3000):
        given = {**drawn(rng), **layout}
        config = select(values_of(given))
        assert any(
            answer.config == config
            and all(low <= given[name] <= high for name, (low, high) in answer.within.items())
            for answer in found
        ), given


def test_what_the_default_answers_is_found():
    def select(values):
        return default_config(vendor="nvidia", **dict(zip(FEATURES, values, strict=True)))

    found = {
        answer.config[:5]
        for answer in answers(select, {name: {**FIXED, **RANGES}[name] for name in FEATURES})
    }
    rng = Random(1)
    assert {select(values_of(drawn(rng)))[:5] for _ in range(3000)} <= found


def test_a_path_narrows_what_it_compares():
    def select(values):
        (n,) = values
        if n <= 10:
            return "ten" if n > 4 else "four"
        return "half" if float(n) / 2.0 <= 7.5 else "equal" if n == 16 else "more"

    found = {answer.config: answer.within["n"] for answer in answers(select, {"n": (1, 100)})}
    assert found == {"four": (1, 4), "ten": (5, 10), "half": (11, 100), "equal": (16, 16), "more": (11, 100)}


def test_arithmetic_keeps_every_result():
    def select(values):
        a, b = values
        return min(max(a - b, 3), 7) if 100 // a > 20 else (a + b) * 2 >= 100

    seen = set()
    for answer in answers(select, {"a": (1, 40), "b": (0, 40)}):
        config = answer.config
        low, high = (config, config) if isinstance(config, int) else (config.low, config.high)
        seen |= set(range(int(low), int(high) + 1))
    brute = {int(select((a, b))) for a in range(1, 41) for b in range(41)}
    assert brute <= seen


def test_remainders_are_followed():
    """What a derived feature may be, and `heurgen train` advises for sizes by which configs fail."""

    def select(values):
        n, k = values
        if n % 16.0 <= 0.0:
            return "aligned" if 300 % n > k else "less"
        return "odd" if (k % (n - 40) if n - 40 else 0.0) > 3 else "other"

    for n, k in (((1, 60), (0, 40)), ((33, 40), (5, 5)), ((48, 48), (1, 50)), ((50, 60), (7, 9))):
        brute = {select((a, b)) for a in range(n[0], n[1] + 1) for b in range(k[0], k[1] + 1)}
        found = {answer.config for answer in answers(select, {"n": n, "k": k})}
        assert brute <= found
        assert ("aligned" in found) == ("less" in found) == (n[0] <= 48 <= n[1])


def test_a_divisor_that_is_read_twice_is_no_zero_on_any_path():
    """As generated code has a ratio of a ratio; it ended in ZeroDivisionError."""

    def select(values):
        (n,) = values
        ratio = 3.0 / (7.0 / (n - 5) if n - 5 else 0.0) if (7.0 / (n - 5) if n - 5 else 0.0) else 0.0
        return "many" if ratio > 2 else "few"

    assert {answer.config for answer in answers(select, {"n": (0, 19)})} == {"many", "few"}


def test_a_selector_that_does_more_is_refused():
    with pytest.raises(ValueError, match="cannot be followed along its paths"):
        answers(lambda values: {1: "one"}[values[0]], {"n": (1, 3)})


def test_a_selector_of_too_many_paths_is_refused():
    def select(values):
        return [values[0] * i > 3 for i in range(1, 20)]  # no comparison narrows the next

    with pytest.raises(ValueError, match="more than"):
        answers(select, {"n": (0, 9)})
