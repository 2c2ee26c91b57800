# ruff: noqa: E501
"""AutoHeuristic's choice strings -> parameters."""

from __future__ import annotations

from itertools import permutations

import pytest

from heurgen.ir import check_name
from heurgen.logs.importers.choices import parameter_order, parse_choice
from tests.logs.importers.heuristics import TRITON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extern_mm", {"type": "extern_mm"}),
        (TRITON, {"type": "triton", "BLOCK_M": "64", "BLOCK_K": "32", "BLOCK_N": "64", "num_stages": "3", "num_warps": "4"}),
        ("type=triton_BLOCK-M=128_BLOCK-K=-1", {"type": "triton", "BLOCK_M": "128", "BLOCK_K": "-1"}),
        ("type=triton_BLOCK-K=None", {"type": "triton", "BLOCK_K": ""}),
        ("type=triton_mm_persistent_GROUP-M=8", {"type": "triton_mm_persistent", "GROUP_M": "8"}),
        ("numwarps=4", {"num_warps": "4"}),
        ("type=a_type=b", {"type": "type=a_type=b"}),
        ("extern_x=3", {"type": "extern_x=3"}),
        ("class=1_time-ms=2", {"class_": "1", "time_ms_": "2"}),
        ("=", {"type": "="}),
        ("subgraph_decompose_k_mm_32_split_117", {"type": "decompose_k", "k_split": "32"}),
        ("subgraph_contiguous_mm_4", {"type": "subgraph_contiguous_mm"}),
    ],
)  # fmt: skip
def test_choices(text: str, expected: dict[str, str]) -> None:
    assert parse_choice(text) == expected


def test_parameter_order_does_not_depend_on_the_choices_order() -> None:
    choices = [{"z": "1", "num_warps": "4"}, {"a": "1", "type": "x", "BLOCK_N": "2", "BLOCK_M": "1"}]
    expected = ("type", "BLOCK_M", "BLOCK_N", "num_warps", "a", "z")
    assert {parameter_order(p) for p in permutations(choices)} == {expected}


def test_type_is_a_legal_parameter_on_every_python() -> None:
    check_name("type", "parameter")
