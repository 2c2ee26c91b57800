"""Small modules that tests share."""

from __future__ import annotations

from heurgen.ir import Derived, Feature, HeuristicModule, Leaf, Membership, Parameter, Selector, Split

FEATURES = (
    Feature("num_seqs", "int", "sequences", "sequences in the batch", (), 1, 128),
    Feature("avg_seqlen_k", "float", "tokens", "", (), 16.0, 8192.0),
    Feature("dtype", "category", "", "", ("bfloat16", "float16", "fp8")),
    Feature("causal", "bool", low=0, high=1),
)
PARAMETERS = (
    Parameter("variant", "category"),
    Parameter("BLOCK_M", "int"),
    Parameter("waves_per_eu", "int", optional=True),
)
PROVENANCE = {
    "heurgen": "0.1.0",
    "schema_version": 1,
    "log_hash": "ab" * 32,
    "n_measurements": 1200,
    "n_failures": 3,
    "n_scenarios": 40,
    "devices": ["AMD Instinct MI300X", "NVIDIA H200"],
    "tools": {"torch": ["2.11"], "triton": ["3.6"]},
}


def two_vendors() -> HeuristicModule:
    """All node types, a derived feature, an optional parameter of one vendor, a winners-only vendor."""
    nvidia = Split(
        "kv_tokens",
        4096.0,
        Membership("dtype", ("bfloat16",), ("float16", "fp8"), True, Leaf(0, 9, 1.02), Leaf(1, 4, 1.1)),
        Split("num_seqs", 64, Leaf(1, 20, 1.25), Split("causal", 0, Leaf(0, 1, 1.0), Leaf(2, 2, 1.5))),
    )
    ranges = {"num_seqs": (1, 128), "avg_seqlen_k": (16.0, 8192.0), "kv_tokens": (16.0, 1048576.0)}
    return HeuristicModule(
        kernel="unified_attention",
        features=FEATURES,
        derived=(Derived("kv_tokens", "num_seqs * avg_seqlen_k", 16.0, 1048576.0),),
        parameters=PARAMETERS,
        selectors=(
            Selector(
                "amd",
                ("variant", "BLOCK_M", "waves_per_eu"),
                (("2d", 16, None), ("2d", 64, 2)),
                Split("num_seqs", 8, Leaf(0, 2), Leaf(1, 2)),
                devices=("AMD Instinct MI300X",),
                ranges={"num_seqs": (1, 16)},
                n_scenarios=4,
                n_measurements=4,
                costs_known=False,
            ),
            Selector(
                "nvidia",
                ("variant", "BLOCK_M"),
                (("2d", 16), ("3d", 16), ("2d", 64)),
                nvidia,
                devices=("NVIDIA H200",),
                ranges=ranges,
                n_scenarios=36,
                n_measurements=1196,
                choice={"strategy": "joint", "depth": 3, "held_out": {"geomean_slowdown": 1.05}},
            ),
        ),
        provenance=PROVENANCE,
    )
