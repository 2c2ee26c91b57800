"""The modules of tests/golden, one per feature of the renderer that a reader should see."""

from __future__ import annotations

from heurgen import ir

LEAF = ir.Leaf
TOOLS = {"torch": "2.9.0", "triton": "3.5.0"}
SEQS = ir.Feature("num_seqs", "int", "sequences", "sequences in the batch", low=1, high=256)
Q = ir.Feature("max_seqlen_q", "int", "tokens", "longest query", low=1, high=16384)
AVG_Q = ir.Feature("avg_seqlen_q", "float", "tokens", low=1.0, high=16384.0)
K = ir.Feature("max_seqlen_k", "int", "tokens", "longest context", low=16, high=131072)


def listing2() -> ir.HeuristicModule:
    """The trees of Listing 2 of the paper, as one joint tree."""
    parameters = ("BLOCK_M", "BLOCK_N")
    prefill = ir.Split("max_seqlen_k", 64, LEAF(1, 4, 1.02), LEAF(2, 31, 1.004))
    many = ir.Split("avg_seqlen_q", 4095.0, LEAF(0, 12, 1.031), prefill)
    tree = ir.Split("max_seqlen_q", 1, LEAF(0, 57, 1.012), many)
    nvidia = ir.Selector(
        "nvidia",
        parameters,
        ((16, 32), (64, 32), (64, 64)),
        tree,
        devices=("NVIDIA H100 80GB HBM3", "NVIDIA H200"),
        n_scenarios=104,
        n_measurements=12312,
    )
    amd = ir.Selector(
        "amd",
        parameters,
        ((16, 32),),
        LEAF(0, 40),
        devices=("AMD Instinct MI300X",),
        n_scenarios=40,
        n_measurements=40,
        costs_known=False,
    )
    provenance = {
        "heurgen": "0.1.0",
        "schema_version": 1,
        "log_hash": "3f1c5d2a90be" + 52 * "0",
        "n_measurements": 12352,
        "n_scenarios": 144,
        "devices": ["AMD Instinct MI300X", "NVIDIA H100 80GB HBM3", "NVIDIA H200"],
        "tools": TOOLS,
    }
    declared = tuple(ir.Parameter(p, "int") for p in parameters)
    return ir.HeuristicModule(
        "unified_attention", (SEQS, Q, AVG_Q, K), declared, (nvidia, amd), provenance=provenance
    )


def by_device() -> ir.HeuristicModule:
    """Device selectors, a vendor with a parameter of its own, categories, bools and a derived feature."""
    dtype = ir.Feature("dtype", "category", doc="of queries and cache", values=("bfloat16", "float16", "fp8"))
    causal = ir.Feature("causal", "bool", low=0, high=1)
    tokens = ir.Derived("kv_tokens", "num_seqs * max_seqlen_k", 16.0, 33554432.0)
    share = ir.Derived("tokens_per_seq", "max_seqlen_q // num_seqs")
    names = ("variant", "TILE_SIZE", "num_warps")
    configs = (("2d", 16, 4), ("3d", 64, 8), ("2d", 64, 4))
    fp8 = ir.Membership("dtype", ("bfloat16", "float16"), ("fp8",), True, LEAF(0, 9, 1.1), LEAF(2, 3, 1.0))
    flag = ir.Split("causal", 0, LEAF(1, 1, 2.5), ir.Split("tokens_per_seq", 2.0, LEAF(0, 5, 1.0), LEAF(2)))
    tree = ir.Split("kv_tokens", 65536.0, fp8, ir.Split("num_seqs", 8, flag, LEAF(1, 12, 1.02)))
    either = ir.Membership("dtype", ("fp8", "float16"), ("bfloat16",), False, LEAF(0), LEAF(1))
    nvidia = ir.Selector("nvidia", names, configs, tree, n_scenarios=30, n_measurements=900)
    h200 = ir.Selector("nvidia", names, configs, either, device="NVIDIA H200")
    b200 = ir.Selector("nvidia", names, configs, LEAF(2, 4, 1.0), device="B200 (x2)")
    amd_configs = (("2d", 16, 4, None), ("3d", 64, 8, 2))
    amd = ir.Selector("amd", (*names, "waves_per_eu"), amd_configs, ir.Split("num_seqs", 4, LEAF(0), LEAF(1)))
    parameters = (
        ir.Parameter("variant", "category"),
        ir.Parameter("TILE_SIZE", "int"),
        ir.Parameter("num_warps", "int"),
        ir.Parameter("waves_per_eu", "int", optional=True),
    )
    return ir.HeuristicModule(
        "paged_attention", (SEQS, Q, K, dtype, causal), parameters, (nvidia, h200, b200, amd), (tokens, share)
    )


def wide() -> ir.HeuristicModule:
    """Everything that must be broken over lines, and names that are awkward but legal."""
    long = "x" * 30
    features = tuple(ir.Feature(f"{long}_{i}", "int", doc="word " * 30) for i in range(4))
    values = tuple(f"{long} {i} \u202e\n\"'" for i in range(8))
    features += (ir.Feature("dtype", "category", values=values), ir.Feature("choose", "float"))
    names = (*(f"{long.upper()}_{i}" for i in range(4)), "count")
    configs = tuple((i, 0.1 * i, bool(i), f"{long} {i}", -i) for i in range(3))
    node: ir.Node = LEAF(0)
    for i in range(12):
        node = ir.Split("choose", float(100 + i), node, LEAF(i % 3, i, 1.0 + i / 100))
    tree = ir.Membership("dtype", values[:5], values[5:], False, node, LEAF(2))
    types: tuple[ir.ColumnType, ...] = ("int", "float", "bool", "category", "int")
    parameters = tuple(ir.Parameter(n, t) for n, t in zip(names, types, strict=True))
    selector = ir.Selector("nvidia", names, configs, tree, strategy="per-parameter")
    return ir.HeuristicModule(
        "wide", features, parameters, (selector,), provenance={"tools": {long: [long] * 9}}
    )


def constant() -> ir.HeuristicModule:
    """The smallest module: one config, one feature that nothing reads, no provenance."""
    selector = ir.Selector("any", ("BLOCK",), ((128,),), LEAF(0))
    return ir.HeuristicModule(
        "matmul", (ir.Feature("m", "int"),), (ir.Parameter("BLOCK", "int"),), (selector,)
    )


def spellings(unknown: ir.Unknown = "fallback") -> ir.HeuristicModule:
    """Other spellings of categories, devices that answer for their capability, a feature of that name, shortlists.

    `unknown` is what becomes of an unknown dtype.
    """
    aliases = (("half", "float16"), ("torch.bfloat16", "bfloat16"), ("torch.float16", "float16"))
    values = ("bfloat16", "float16", "fp8")
    dtype = ir.Feature("dtype", "category", values=values, unknown=unknown, aliases=aliases)
    layout = ir.Feature("layout", "category", values=("row",), aliases=(('it\'s "r"', "row"),))
    capability = ir.Feature("capability", "int", doc="a feature of that name")
    names, configs = ("BLOCK_M", "num_warps"), ((16, 4), (32, 4), (64, 8))
    either = ir.Membership(
        "dtype", ("fp8",), ("bfloat16", "float16"), False, LEAF(0, 3, 1.0), LEAF(1, 5, 1.0)
    )
    tree = ir.Membership("dtype", ("float16",), ("bfloat16", "fp8"), False, LEAF(2, 4, 1.0), either)
    own = ir.Split("capability", 8, ir.Leaf(0, shortlist=(0, 2)), ir.Leaf(1, shortlist=(1,)))
    selectors = (
        ir.Selector("nvidia", names, configs, tree),
        ir.Selector("nvidia", names, configs, own, device="NVIDIA A100", capability="8.0"),
        ir.Selector("nvidia", names, configs, either, device="NVIDIA H100", capability='9.0"'),
        ir.Selector("nvidia", names, configs, LEAF(2), device="NVIDIA H200"),
        ir.Selector("amd", names, configs, LEAF(0)),
    )
    parameters = tuple(ir.Parameter(n, "int") for n in names)
    return ir.HeuristicModule("gemm", (capability, dtype, layout), parameters, selectors)


EXAMPLES = {
    "listing2": listing2,
    "by_device": by_device,
    "wide": wide,
    "constant": constant,
    "spellings": spellings,
}
