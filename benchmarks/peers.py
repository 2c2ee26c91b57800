"""Other implementations to measure beside ours: FlashAttention-3 and vLLM's Triton kernel, from vLLM
0.33.0's wheel.

Set HEURGEN_PEERS to a folder with `_vllm_fa3_C.abi3.so` and the two files of `vllm/v1/attention/ops/`, or install
vLLM. A peer that is not there is skipped with a message. Nothing of either is part of this project.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch

SEGMENTS = 16  # NUM_PAR_SOFTMAX_SEGMENTS of vLLM's Triton backend
MIN_GRID = 128  # MIN_LAUNCH_GRID_SIZE_2D


def _folder() -> Path | None:
    given = os.environ.get("HEURGEN_PEERS")
    return Path(given) if given else None


def load_fa3() -> str | None:
    """None when `torch.ops._vllm_fa3_C` can be called, else why not."""
    folder = _folder()
    try:
        if folder is not None:
            torch.ops.load_library(str(folder / "_vllm_fa3_C.abi3.so"))
        else:
            importlib.import_module("vllm.vllm_flash_attn._vllm_fa3_C")
    except (OSError, ImportError) as error:
        return f"FlashAttention-3 is not there: {str(error).splitlines()[0]}"
    return None


def fa3_plan(inputs: Any) -> torch.Tensor:
    """FlashAttention-3's scheduler metadata of a batch, found on the device; layers of a model may share it."""
    a, q = inputs.arguments, inputs.q
    left = a.get("window", (-1, -1))[0]
    right, cap = (0 if left >= 0 else -1), a.get("softcap", 0.0)
    plan: torch.Tensor = torch.ops._vllm_fa3_C.get_scheduler_metadata(
        inputs.seq_lens.shape[0], a["max_seqlen_q"], a["max_seqlen_k"], q.shape[1], inputs.key_cache.shape[2],
        q.shape[2], q.shape[2], q.dtype, inputs.seq_lens, inputs.cu_seqlens_q, None, None, None, None,
        inputs.key_cache.shape[1], 0, True, left, right, cap > 0, 0, None, 0,
    )  # fmt: skip
    return plan


def fa3_call(inputs: Any, metadata: bool | torch.Tensor = True) -> Callable[[], torch.Tensor]:
    """A paged FlashAttention-3 call over the batch, with its window, soft cap and sinks; its scheduler metadata is
    computed here, outside any timing, unless it is given; without any (False) every call computes it.
    """
    a = inputs.arguments
    left = a.get("window", (-1, -1))[0]
    right, cap = (0 if left >= 0 else -1), a.get("softcap", 0.0)
    plan = metadata if isinstance(metadata, torch.Tensor) else fa3_plan(inputs) if metadata else None
    out = torch.empty_like(inputs.q)

    def call() -> torch.Tensor:
        torch.ops._vllm_fa3_C.fwd(
            inputs.q, inputs.key_cache, inputs.value_cache, None, None, None, out, inputs.cu_seqlens_q,
            None, None, None, inputs.seq_lens, a["max_seqlen_q"], a["max_seqlen_k"], inputs.block_table, None, None,
            None, None, None, None, None, None, a["scale"], True, left, right, cap, True, plan, 0, None, 0,
            a.get("sinks"), 1, 0, None,
        )  # fmt: skip
        return out

    return call


def fa3_fp8_call(inputs: Any) -> Callable[[], torch.Tensor]:
    """FlashAttention-3 on fp8 pages, Q quantised to fp8 too (here, outside any timing): another computation than ours,
    whose Q is 16 bits wide and whose weights are rounded to 16 bits, there to fp8.
    """
    a, table = inputs.arguments, (inputs.seq_lens.shape[0], inputs.key_cache.shape[2])
    left = a.get("window", (-1, -1))[0]
    right, cap = (0 if left >= 0 else -1), a.get("softcap", 0.0)
    q, out = inputs.q.to(inputs.key_cache.dtype), torch.empty_like(inputs.q)
    one = torch.ones(1, device=q.device)
    q_scale, k_scale, v_scale = (scale.expand(table) for scale in (one, a["k_scale"], a["v_scale"]))
    plan = fa3_plan(replace(inputs, q=q))

    def call() -> torch.Tensor:
        torch.ops._vllm_fa3_C.fwd(
            q, inputs.key_cache, inputs.value_cache, None, None, None, out, inputs.cu_seqlens_q, None, None, None,
            inputs.seq_lens, a["max_seqlen_q"], a["max_seqlen_k"], inputs.block_table, None, None, None, None, None,
            q_scale, k_scale, v_scale, a["scale"], True, left, right, cap, True, plan, 0, None, 0, a.get("sinks"), 1,
            0, None,
        )  # fmt: skip
        return out

    return call


def contiguous_fa3_call(inputs: Any) -> Callable[[], torch.Tensor]:
    """FlashAttention-3 over prompts without cached tokens, K and V as the projection left them (`key`, `value`)."""
    a = inputs.arguments
    left = a.get("window", (-1, -1))[0]
    right, cap = (0 if left >= 0 else -1), a.get("softcap", 0.0)
    out = torch.empty_like(inputs.q)

    def call() -> torch.Tensor:
        torch.ops._vllm_fa3_C.fwd(
            inputs.q, a["key"], a["value"], None, None, None, out, inputs.cu_seqlens_q, inputs.cu_seqlens_q, None,
            None, None, a["max_seqlen_q"], a["max_seqlen_q"], None, None, None, None, None, None, None, None, None,
            a["scale"], True, left, right, cap, True, None, 0, None, 0, a.get("sinks"), 1, 0, None,
        )  # fmt: skip
        return out

    return call


class _Quant(IntEnum):
    NONE = 0
    FP8_PER_TENSOR = 1
    INT8_PER_TOKEN_HEAD = 2
    FP8_PER_TOKEN_HEAD = 3
    INT4_PER_TOKEN_HEAD = 4


def _module(name: str, **attributes: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    for key, value in attributes.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def load_vllm() -> tuple[Any, str | None]:
    """(vLLM's unified_attention, None) or (None, why not). Without vLLM its two files run beside stubs."""
    folder = _folder()
    try:
        if folder is None:
            module = importlib.import_module("vllm.v1.attention.ops.triton_unified_attention")
            return module.unified_attention, None
        return _load_stubbed(folder), None
    except (OSError, ImportError) as error:
        return None, f"vLLM's Triton kernel is not there: {str(error).splitlines()[0]}"


def _load_stubbed(folder: Path) -> Any:
    import logging

    import triton
    import triton.language as tl

    class Platform:
        def fp8_dtype(self) -> torch.dtype:
            return torch.float8_e4m3fn

        def is_device_capability_family(self, family: int) -> bool:
            return torch.cuda.get_device_capability()[0] * 10 == family

    _module("vllm", __path__=[])
    envs = _module("vllm.envs", VLLM_BATCH_INVARIANT=False)
    sys.modules["vllm"].envs = envs  # type: ignore[attr-defined]
    _module("vllm.logger", init_logger=logging.getLogger)
    _module("vllm.platforms", current_platform=Platform())
    _module("vllm.triton_utils", tl=tl, triton=triton)
    for package in ("vllm.v1", "vllm.v1.attention", "vllm.v1.attention.ops"):
        _module(package, __path__=[])
    _module("vllm.v1.kv_cache_interface", KVQuantMode=_Quant)
    for name in ("triton_attention_helpers", "triton_unified_attention"):
        full = f"vllm.v1.attention.ops.{name}"
        spec = importlib.util.spec_from_file_location(full, folder / f"{name}.py")
        if spec is None or spec.loader is None or not (folder / f"{name}.py").exists():
            raise ImportError(f"{name}.py is not in {folder}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules["vllm.v1.attention.ops.triton_unified_attention"].unified_attention


def vllm_call(unified: Any, inputs: Any) -> Callable[[], torch.Tensor]:
    """vLLM's launch with the thresholds and scratch that its backend passes by default."""
    a = inputs.arguments
    heads, heads_kv, size = inputs.q.shape[1], inputs.key_cache.shape[2], inputs.q.shape[2]
    threshold = MIN_GRID // heads_kv
    padded = 1 << (size - 1).bit_length()
    left = a.get("window", (-1, -1))[0]
    window = (left, 0 if left >= 0 else -1)
    shape = (inputs.seq_lens.shape[0], heads_kv)
    k_scale, v_scale = (a[name].expand(shape) if name in a else None for name in ("k_scale", "v_scale"))
    quantised = {"kv_quant_mode": _Quant.FP8_PER_TENSOR} if k_scale is not None else {}
    rows = threshold * 8
    scratch = torch.empty((rows, heads, SEGMENTS, padded), dtype=torch.float32, device=inputs.q.device)
    top, total = (
        torch.empty((rows, heads, SEGMENTS), dtype=torch.float32, device=inputs.q.device) for _ in "ml"
    )
    out = torch.empty_like(inputs.q)

    def call() -> torch.Tensor:
        unified(
            q=inputs.q, k=inputs.key_cache, v=inputs.value_cache, out=out, cu_seqlens_q=inputs.cu_seqlens_q,
            max_seqlen_q=a["max_seqlen_q"], seqused_k=inputs.seq_lens, max_seqlen_k=a["max_seqlen_k"],
            softmax_scale=a["scale"], causal=True, alibi_slopes=None, use_alibi_sqrt=False, window_size=window,
            block_table=inputs.block_table, softcap=a.get("softcap", 0), q_descale=None, k_descale=k_scale,
            v_descale=v_scale,
            seq_threshold_3D=threshold, num_par_softmax_segments=SEGMENTS, softmax_segm_output=scratch,
            softmax_segm_max=top, softmax_segm_expsum=total, sinks=a.get("sinks"), output_scale=None, **quantised,
        )  # fmt: skip
        return out

    return call
