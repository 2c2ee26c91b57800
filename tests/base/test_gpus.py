"""What is known of GPUs by their names."""

from __future__ import annotations

import pytest

from heurgen.base.gpus import capability_of


@pytest.mark.parametrize(
    ("device", "capability"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0"), ("nvidia h200", "9.0"), ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("Tesla T4", "7.5"), ("NVIDIA GeForce RTX 4090", "8.9"), ("AMD Instinct MI300X", "gfx942"),
        ("AMD_Instinct_MI355X", "gfx950"), ("gfx942:sramecc+:xnack-", "gfx942"), ("gfx90a", "gfx90a"),
        ("B200 (x2)", "10.0"), ("NVIDIA H1000", None), ("Radeon", None), ("", None), ("an A100 or an H100", None),
        ("H100 or H200", "9.0"), ("not gfx942", None),
    ],
)  # fmt: skip
def test_a_name_says_the_capability_where_it_names_one_product(device: str, capability: str | None) -> None:
    assert capability_of(device) == capability
