"""The paged-attention kernels as a tunable for `heurgen tune` (its protocol: heurgen/tune/protocol.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch

from ..api import paged_attention
from ..config import normalise
from ..host.apart import parts_of, taken_apart
from ..host.dispatch import compiling
from ..host.hardware import device_of
from ..host.nearest import unspilled
from ..host.segments import cutter, with_segments
from ..host.select import NO_WINDOW
from .reference import reference_attention

# Types of the cache; with fp8 caches Q is bfloat16.
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float8_e4m3fn": torch.float8_e4m3fn}
SOFTCAP = 50.0  # of Gemma 2
MANY = 12  # parts of split keys, so many that another launch combines them


@dataclass(slots=True)
class Inputs:
    """One batch on the device; shapes as `paged_attention`. `arguments` are its keywords."""

    q: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    block_table: torch.Tensor
    cu_seqlens_q: torch.Tensor
    seq_lens: torch.Tensor
    out: torch.Tensor
    arguments: dict[str, Any]


def drafts(inputs: Inputs, config: Mapping[str, Any]) -> Inputs:
    """As many sequences, each of a token: told to have more than a decode has, where the config takes them apart."""
    num_seqs, (_, heads, size) = inputs.seq_lens.shape[0], inputs.q.shape
    few = parts_of(normalise(config), heads // inputs.key_cache.shape[2], size).few
    arguments = inputs.arguments | {"max_seqlen_q": few + 1}
    arguments |= {name: arguments[name][:num_seqs] for name in ("key", "value") if name in arguments}
    starts = torch.arange(num_seqs + 1, dtype=torch.int32, device=inputs.q.device)
    return replace(
        inputs, q=inputs.q[:num_seqs], out=inputs.out[:num_seqs], cu_seqlens_q=starts, arguments=arguments
    )


def make_inputs(
    lengths: tuple[tuple[int, int], ...], features: Mapping[str, Any], device: str, seed: int
) -> Inputs:
    """Random K, V and Q, a random block table that repeats no page, and NaN in what no token owns.

    lengths: (query tokens, tokens attended to) per sequence. With the feature `fresh` the new tokens' K and V are
    handed over contiguously and their slots in the cache are NaN. fp8 caches hold 448 there, and have scales.
    """
    heads, heads_kv = int(features["num_query_heads"]), int(features["num_kv_heads"])
    size, page = int(features["head_size"]), int(features["page_size"])
    kept, fresh = DTYPES[str(features["dtype"])], bool(features.get("fresh", False))
    dtype = kept if kept.itemsize > 1 else torch.bfloat16
    generator = torch.Generator(device=device).manual_seed(seed)
    table = _block_table(lengths, page, seed)
    total = sum(_pages(lengths, page)) + 1
    caches = [
        torch.randn((total, page, heads_kv, size), generator=generator, device=device, dtype=dtype)
        for _ in "kv"
    ]
    tokens = sum(q for q, _ in lengths)
    _poison(caches, table.to(device), lengths, page, fresh)
    if kept is not dtype:
        caches = [cache.nan_to_num_(448.0).to(kept) for cache in caches]
    q, key, value = (
        torch.randn((tokens, n, size), generator=generator, device=device, dtype=dtype)
        for n in (heads, heads_kv, heads_kv)
    )
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    starts[1:] = torch.tensor([n for n, _ in lengths], dtype=torch.int32).cumsum(0)
    arguments: dict[str, Any] = {
        "max_seqlen_q": max((n for n, _ in lengths), default=0),
        "max_seqlen_k": max((n for _, n in lengths), default=0),
        "total_seqlen_k": sum(n for _, n in lengths),
        "scale": size**-0.5,
    }
    if fresh:
        arguments |= {"key": key, "value": value}
    if kept is not dtype:
        scales = torch.tensor([0.5, 0.75], device=device)
        arguments |= {"k_scale": scales[:1], "v_scale": scales[1:]}
    arguments |= _mask(features)
    if features.get("sinks"):
        arguments["sinks"] = torch.randn(heads, generator=generator, device=device, dtype=dtype)
    lens = torch.tensor([n for _, n in lengths], dtype=torch.int32)
    return Inputs(
        q,
        caches[0],
        caches[1],
        table.to(device),
        starts.to(device),
        lens.to(device),
        torch.empty_like(q),
        arguments,
    )


def _pages(lengths: tuple[tuple[int, int], ...], page: int) -> list[int]:
    """How many pages of `page` tokens each sequence owns."""
    return [-(-k // page) for _, k in lengths]


def _block_table(lengths: tuple[tuple[int, int], ...], page: int, seed: int) -> torch.Tensor:
    """[num_seqs, most pages of one] int32: every page but 0, shuffled; page 0, which nobody owns, fills rows up."""
    pages = _pages(lengths, page)
    order = list(range(1, sum(pages) + 1))
    Random(seed).shuffle(order)
    table = torch.zeros((len(lengths), max(pages, default=1) or 1), dtype=torch.int32)
    first = 0
    for row, count in enumerate(pages):
        table[row, :count] = torch.tensor(order[first : first + count], dtype=torch.int32)
        first += count
    return table


def _mask(features: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for which scores count and how: window and soft cap."""
    found: dict[str, Any] = {}
    if features.get("window", NO_WINDOW) < NO_WINDOW:
        found["window"] = (int(features["window"]) - 1, -1)
    if features.get("softcap"):
        found["softcap"] = SOFTCAP
    return found


def _poison(
    caches: list[torch.Tensor],
    table: torch.Tensor,
    lengths: tuple[tuple[int, int], ...],
    page: int,
    fresh: bool,
) -> None:
    """NaN in page 0, which no sequence owns, and in the slots behind a sequence's last cached token."""
    for cache in caches:
        cache[0] = float("nan")
    for row, (q_len, k_len) in enumerate(lengths):
        cached = k_len - q_len if fresh else k_len
        for index in range(cached // page, -(-k_len // page)):
            for cache in caches:
                cache[table[row, index], max(cached - index * page, 0) :] = float("nan")
            if index > cached // page + 1:  # the rest of a fresh prompt's pages: one each is enough
                break


class Tunable:
    """See heurgen/tune/protocol.py for what each attribute is."""

    name = "paged_attention"
    features: Mapping[str, str] = {
        "num_seqs": "int",
        "total_query_tokens": "int",
        "max_seqlen_q": "int",
        "max_seqlen_k": "int",
        "total_seqlen_k": "int",
        "window": "int",
        "softcap": "bool",
        "num_query_heads": "int",
        "num_kv_heads": "int",
        "head_size": "int",
        "page_size": "int",
        "dtype": "category",
        "fresh": "bool",
        "sinks": "bool",
    }
    sources = tuple(sorted(str(p) for p in Path(__file__).parents[1].rglob("*.py")))

    @property
    def space(self) -> Any:
        from heurgen.tune.protocol import Space

        return Space(
            parameters={
                "variant": ("q_block", "split_kv", "mixed", "warp_specialized"),
                "BLOCK_M": (16, 32, 64, 128, 192),
                "TILE_SIZE": (16, 32, 64, 128),
                "num_warps": (1, 2, 4),
                "num_stages": (2, 3, 5),
                "programs_per_sm": (0, 1, 2, 3, 4, 6, 8, 12, 16),
            },
            # What never won a scenario by more than a few percent on one H200, or spills, is left out.
            constraints=(
                # 0: keys are not cut
                "(programs_per_sm == 0) == (variant == 'q_block') or variant in ('mixed', 'warp_specialized')",
                # decodes: mma.sync, 16 keys of a tile for each warp; with 32 one or two warps spill
                "BLOCK_M > 16 or TILE_SIZE == 16 * num_warps or (TILE_SIZE == 128 and num_warps == 4)",
                "BLOCK_M > 16 or variant == 'split_kv' or (variant == 'q_block' and TILE_SIZE in (32, 64, 128))",
                "BLOCK_M > 16 or num_stages == 2 or TILE_SIZE < 128",
                "BLOCK_M > 16 or num_stages < 5 or (TILE_SIZE == 32 and variant == 'split_kv')",
                "BLOCK_M > 16 or num_stages > 2 or TILE_SIZE > 32",
                "BLOCK_M > 16 or variant == 'split_kv' or num_stages == 2 or TILE_SIZE == 32",
                # a few new tokens of each sequence: rows that one block of 16 does not hold
                "BLOCK_M != 32 or (variant == 'split_kv' and TILE_SIZE == 64 and num_warps == 4 and num_stages == 2)",
                # prompts: wgmma; 16 rows per warp, since 32 rows per warp spill and were no faster
                "BLOCK_M not in (32, 64) or programs_per_sm in (0, 1, 2, 3, 4, 6)",
                "BLOCK_M != 64 or (num_warps == 4 and TILE_SIZE in (32, 64) and num_stages <= 3)",
                "BLOCK_M != 64 or variant != 'split_kv' or TILE_SIZE == 64",
                "BLOCK_M != 64 or variant != 'mixed' or num_stages == 2",
                # 64 rows are a consumer's of the warp-specialised kernel, num_warps its warps; over fp8 pages mixed has
                # it for prompts, and programs_per_sm is of the decodes
                "BLOCK_M < 128 or variant in ('warp_specialized', 'mixed')",
                "variant != 'warp_specialized' or BLOCK_M >= 128",
                "variant != 'mixed' or BLOCK_M < 128 or (BLOCK_M == 128 and programs_per_sm in (4, 6))",
                "BLOCK_M < 128 or (num_warps == 4 and (variant == 'mixed' or programs_per_sm in (0, 1, 2, 4)))",
                "BLOCK_M != 128 or (TILE_SIZE == 64 and num_stages == 3) or (TILE_SIZE == 128 and num_stages == 2)",
                "BLOCK_M != 192 or (TILE_SIZE == 128 and num_stages == 3 and programs_per_sm < 4)",
            ),
        )

    @property
    def workload(self) -> Mapping[str, Any]:
        from heurgen.tune.workloads import LLAMA_3_8B

        layout = {"fresh": [False, True], "window": NO_WINDOW, "softcap": False, "sinks": False}
        batches = [{**table, **layout} for table in LLAMA_3_8B["batch"]]
        return {**LLAMA_3_8B, "batch": batches}

    def inputs(self, scenario: Any, device: str) -> Inputs:
        return make_inputs(scenario.lengths, scenario.features, device, scenario.seed)

    def launch(self, inputs: Inputs, config: Mapping[str, Any]) -> torch.Tensor:
        return paged_attention(
            inputs.q, inputs.key_cache, inputs.value_cache, inputs.block_table, inputs.cu_seqlens_q,
            inputs.seq_lens, out=inputs.out, config=config, **inputs.arguments,
        )  # fmt: skip

    def compile(self, inputs: Inputs, config: Mapping[str, Any]) -> None:
        """As `launch`, which launches nothing, bound or not. Of a batch that is taken apart: keys cut and not, with
        sequences between decodes and prompts and without.
        """
        given = [(inputs, config)]
        if taken_apart(normalise(config)):
            parts = [{**config, "programs_per_sm": 0, "num_segments": count} for count in (1, MANY)]
            given = [(batch, part) for batch in (inputs, drafts(inputs, config)) for part in parts]
        with compiling():
            for batch, part in given:
                self.launch(batch, part)

    def reference(self, inputs: Inputs) -> torch.Tensor:
        names = ("scale", "key", "value", "window", "softcap", "sinks")
        given = {k: inputs.arguments[k] for k in names if k in inputs.arguments}
        given |= {k: float(inputs.arguments[k]) for k in ("k_scale", "v_scale") if k in inputs.arguments}
        return reference_attention(
            inputs.q, inputs.key_cache, inputs.value_cache, inputs.block_table, inputs.cu_seqlens_q,
            inputs.seq_lens, **given,
        )  # fmt: skip

    def reset(self, inputs: Inputs) -> None:
        inputs.out.fill_(float("nan"))

    def scenario_class(self, scenario: Any) -> str:
        """What changes the compiled code: types, shapes of a head and a page, the source of K and V,
        decode.
        """
        f = scenario.features
        group = f["num_query_heads"] // f["num_kv_heads"]
        longest = min(f["max_seqlen_q"] * group, 257)
        layout = (
            f[k]
            for k in (
                "num_query_heads",
                "num_kv_heads",
                "head_size",
                "page_size",
                "dtype",
                "fresh",
                "softcap",
                "sinks",
            )
        )
        rows = next(edge for edge in (group, 16, 32, 64, 128, 257) if longest <= edge)
        return " ".join(str(part) for part in (*layout, rows, f["num_seqs"] == 1, f["window"] < NO_WINDOW))

    def work(self, scenario: Any) -> float:
        return float(sum(q * k for q, k in scenario.lengths))

    def applies(self, config: Mapping[str, Any], scenario: Any) -> bool:
        """Configs that another one of the space repeats, or that are hopeless, are left out of a scenario."""
        f, variant = scenario.features, config["variant"]
        group = f["num_query_heads"] // f["num_kv_heads"]
        rows = f["max_seqlen_q"] * group
        block = config["BLOCK_M"]
        if block in (32, 64) and rows <= 16:
            return False
        if rows > {16: 4095, 32: 256, 64: 1024 if variant == "split_kv" else rows}.get(block, rows):
            return False
        if block == 192 and rows < 192:
            return False
        if (
            variant == "mixed"
            and block == 128
            and not (f["dtype"].startswith("float8") and f["head_size"] >= 64)
        ):
            return False
        if f["head_size"] > 128 and (block, config["TILE_SIZE"]) in ((64, 64), (128, 128), (16, 16)):
            return False  # spills, or the launch takes tiles of 64
        return not (variant == "mixed" and (f["max_seqlen_q"] == 1 or f["num_seqs"] == 1))

    def launched(self, config: Mapping[str, Any], scenario: Any, device: Any) -> Mapping[str, Any]:
        """What `programs_per_sm` comes to: `num_segments`, the same for many of its values, and itself where the kernel
        finds the number of parts; 128 rows for 192 where the launch takes these. A batch that is taken apart is
        launched as the config says.
        """
        f, heads_kv = scenario.features, scenario.features["num_kv_heads"]
        given = normalise(config)
        if taken_apart(given):  # decodes and prompts are cut each by a rule of their own, see `host/apart.py`
            return config
        window = f.get("window", NO_WINDOW)  # static_grid has no such feature
        left = window - 1 if window < NO_WINDOW else -1
        taken, programs = with_segments(given, 1), 0
        if given.programs_per_sm:
            group = f["num_query_heads"] // heads_kv
            # a sweep in the interpreter says nothing of processors, launches there assume some
            processors = device.multiprocessors or device_of(torch.device("cpu")).processors
            choose = cutter(given, group, heads_kv, f["head_size"], processors)
            taken, programs = choose(
                f["num_seqs"], f["total_query_tokens"], f["max_seqlen_q"], f["max_seqlen_k"], f["total_seqlen_k"], left
            )  # fmt: skip
        both = f["fresh"] and f["max_seqlen_k"] > f["max_seqlen_q"]
        runs = unspilled(taken, f["head_size"], both, left >= 0, f.get("softcap", False))._asdict()
        found = {name: runs[name] for name in (*config, "num_segments") if name != "programs_per_sm"}
        return found | {"programs_per_sm": config["programs_per_sm"]} if programs else found


tunable = Tunable()
