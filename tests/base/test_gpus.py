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
        ("H100 or H200", "9.0"), ("gfx942 or gfx950", None), ("gfx942 and gfx942:xnack-", "gfx942"),
        ("AMD gfx942, 304 CUs", "gfx942"), ("GFX90A", "gfx90a"), ("hip:gfx1100", "gfx1100"),
        ("AMD Radeon Graphics (gfx950:sramecc+:xnack-)", "gfx950"), ("gfx942_304", "gfx942"), ("gfx942130", "gfx942"),
        ("gfx90a68", "gfx90a"), ("gfx103036", "gfx1030"), ("gfx9-4-generic", None), ("agfx942", None),
        ("gfx94213x", None), ("AMD Instinct MI350P", "gfx950"), ("MI300", "gfx942"),
        ("AMD Instinct MI60 / MI50", "gfx906"),
        ("AMD Radeon RX 7900 XTX", "gfx1100"), ("AMD Radeon RX 9070 XT", "gfx1201"), ("AMD_Radeon_R9700", "gfx1201"),
        ("AMD Radeon RX 9060 XT", "gfx1200"), ("AMD Radeon Graphics", None),
        ("AMD Instinct MI100", "gfx908"), ("AMD Instinct MI250X / MI250", "gfx90a"), ("AMD Instinct MI210", "gfx90a"),
        ("AMD_Instinct_MI300X_OAM", "gfx942"), ("AMD_Instinct_MI325X_OAM", "gfx942"), ("AMD Instinct MI350X", "gfx950"),
        ("NVIDIA GH200 480GB", "9.0"), ("NVIDIA B200", "10.0"), ("NVIDIA B300 SXM6 AC", "10.3"),
        ("NVIDIA GB200", "10.0"), ("NVIDIA GB10", "12.1"), ("NVIDIA L40S", "8.9"),
        ("NVIDIA A10G", "8.6"), ("NVIDIA RTX A5500", "8.6"),
        ("NVIDIA GeForce RTX 5090", "12.0"), ("NVIDIA GeForce RTX 5060 Ti", "12.0"), ("NVIDIA GeForce RTX 3060", "8.6"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"), ("NVIDIA RTX 4000 SFF Ada Generation", "8.9"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"), ("Quadro RTX 6000", None),
        ("B200 (Blackwell)", "10.0"), ("Ada", None), ("a Blackwell", None), ("RTX Ada or RTX Blackwell", None),
    ],
)  # fmt: skip
def test_a_name_says_the_capability_where_it_names_one_product(device: str, capability: str | None) -> None:
    assert capability_of(device) == capability
