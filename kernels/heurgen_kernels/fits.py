"""Compile a config for a target without a GPU and say whether it fits: shared memory, registers, spills.

Compiling does not check limits: the compiler accepts 352 KB of shared memory for sm_90 and 128 KB of LDS
for gfx942.
"""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from .descriptors import SHARED_LAYOUT
from .mixed import mixed_kernel
from .naive import naive_kernel
from .plan import WARP_SPECIALIZED, before_hopper, kept_rows, parts_at_once, register_cap, unspilled
from .q_block import q_block_kernel
from .segments import block_rows
from .select import choose_segments
from .split_kv import split_kv_kernel
from .static_grid import static_grid_kernel
from .warp_specialized import warp_specialized_kernel

TARGETS = {
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_80": GPUTarget("cuda", 80, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx90a": GPUTarget("hip", "gfx90a", 64),
}
# Bytes of shared memory (LDS) that one block may use: CUDA C++ programming guide, table of compute
# capabilities
# (227 KB for 9.0, 163 KB for 8.0); AMD CDNA 2 and 3 instruction set guides (64 KB).
SHARED_LIMIT = {"sm_90": 227 * 1024, "sm_80": 163 * 1024, "gfx942": 65536, "gfx90a": 65536}
# Registers per thread: 255 for CUDA; 512 vector registers (accumulation registers included) for CDNA.
REGISTER_LIMIT = {"sm_90": 255, "sm_80": 255, "gfx942": 512, "gfx90a": 512}


@dataclass(frozen=True, slots=True)
class Resources:
    """What a compiled kernel uses. shared in bytes, registers per thread, spills as the compiler counts
    them.
    """

    shared: int
    registers: int
    spills: int

    def reason(self, target: str) -> str | None:
        """Why the kernel does not fit the target, or None."""
        if self.shared > SHARED_LIMIT[target]:
            return f"needs {self.shared} bytes of shared memory, {target} has {SHARED_LIMIT[target]}"
        if self.registers > REGISTER_LIMIT[target]:
            return f"needs {self.registers} registers, {target} has {REGISTER_LIMIT[target]}"
        if self.spills:
            return f"spills {self.spills} registers"
        return None


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout a config is compiled for. element: "bf16", "fp16"; descriptors: TMA for pages that allow
    it.
    """

    num_query_heads: int = 32
    num_kv_heads: int = 8
    head_size: int = 128
    page_size: int = 16
    element: str = "bf16"
    fresh: bool = False
    decode: bool = False


def compile_config(config: Any, target: str, shape: Shape | None = None) -> Resources:
    """Compile the config's kernel for a target of TARGETS and read what it uses. 0.5 to 5 s."""
    shape = shape or Shape()
    config = unspilled(config, shape.fresh)
    if target == "sm_80":
        config = before_hopper(config)
    kernel, constants = _kernel_constants(config, shape, target)
    signature, attrs = _signature(kernel, constants, shape)
    specialised = config.variant == "warp_specialized"
    options: dict[str, Any] = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    cap = register_cap(config, constants[(kernel.arg_names.index("D_PAD"),)], target == "sm_90")
    if target.startswith("sm_") and cap is not None:
        options["maxnreg"] = cap
    if target.startswith("gfx"):
        for name in ("waves_per_eu", "matrix_instr_nonkdim"):
            if getattr(config, name, None) is not None:
                options[name] = getattr(config, name)
    source = (GluonASTSource if specialised else ASTSource)(kernel, signature, constants, attrs)
    compiled = triton.compile(
        source, target=TARGETS[target], options=WARP_SPECIALIZED if specialised else options
    )
    if target.startswith("gfx"):
        return _amd_resources(compiled)
    return _nvidia_resources(compiled, target)


def _kernel_constants(config: Any, shape: Shape, target: str) -> tuple[Any, dict[tuple[int, ...], Any]]:
    group = shape.num_query_heads // shape.num_kv_heads
    block_m, small_m = block_rows(config.BLOCK_M, group), block_rows(16, group)
    d_pad = max(triton.next_power_of_2(shape.head_size), 16)
    size, heads_kv = shape.head_size, shape.num_kv_heads
    segments = max(config.num_segments or 1, 1)
    kept = kept_rows(config.variant, group, block_m, shape.decode)
    chunk = parts_at_once(config, kept * d_pad, shape.decode)
    row = heads_kv * size
    values: dict[str, Any] = {
        "G": group, "HKV": heads_kv, "BLOCK_M": block_m, "TILE": config.TILE_SIZE, "PAGE": shape.page_size,
        "D": size,
        "D_PAD": d_pad, "Q_TOK": shape.num_query_heads * size, "Q_HEAD": size,
        "O_TOK": shape.num_query_heads * size,
        "O_HEAD": size, "K_PAGE": row * shape.page_size, "K_TOK": row, "K_HEAD": size,
        "V_PAGE": row * shape.page_size,
        "V_TOK": row, "V_HEAD": size, "NEW_TOK": row if shape.fresh else 0,
        "NEW_HEAD": size if shape.fresh else 0,
        "FRESH": shape.fresh, "PREFIX": True, "CAUSAL": True, "WINDOW": False, "SOFTCAP": False,
        "ALIBI": False,
        "COMPUTE": {"bf16": tl.bfloat16, "fp16": tl.float16}[shape.element], "FP8_MAX": 0.0,
        "SEGMENTS": segments, "KEPT": kept, "CHUNK": chunk, "FUSED": True, "DECODE": shape.decode,
        "SMALL_M": small_m, "PROCESSORS": 132 if target.startswith("sm") else 304,
        "CHOOSE": choose_segments(None, "nvidia" if target.startswith("sm") else "amd"),
    }  # fmt: skip
    hopper = target == "sm_90" and size == d_pad
    rows = math.gcd(shape.page_size, config.TILE_SIZE)
    specialised = config.variant == "warp_specialized"
    if specialised:
        values |= {"STAGES": config.num_stages, "CHUNK": rows}
    values["TMA"] = hopper and (specialised or rows == config.TILE_SIZE)
    values["TMA_NEW"] = hopper and shape.fresh
    kernels = {
        "naive": naive_kernel, "q_block": q_block_kernel, "split_kv": split_kv_kernel,
        "static_grid": static_grid_kernel, "mixed": mixed_kernel, "warp_specialized": warp_specialized_kernel,
    }  # fmt: skip
    kernel = kernels[config.variant]
    absent = {
        "blocks_ptr",
        "alibi_ptr",
        "sinks_ptr",
        "q_scale_ptr",
        "k_scale_ptr",
        "v_scale_ptr",
        "out_scale_ptr",
    }
    absent |= set() if values["TMA"] else {"k_desc", "v_desc"}
    absent |= set() if values["TMA_NEW"] else {"new_k_desc", "new_v_desc"}
    absent |= set() if shape.fresh else {"new_k_ptr", "new_v_ptr"}
    if config.variant in ("naive", "q_block"):
        absent |= {"part_ptr", "count_ptr"}
    if specialised:
        absent |= {"k_ptr", "v_ptr", "new_k_ptr", "new_v_ptr"} | (set() if segments > 1 else {"part_ptr"})
    constants = {name: values[name] for name in kernel.arg_names if name in values}
    constants |= {name: None for name in kernel.arg_names if name in absent}
    return kernel, {(kernel.arg_names.index(name),): value for name, value in constants.items()}


def _signature(
    kernel: Any, constants: dict[tuple[int, ...], Any], shape: Shape
) -> tuple[dict[str, str], Any]:
    ints = {"cu_ptr", "blocks_ptr", "lens_ptr", "table_ptr", "count_ptr"}
    signature, attrs = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if (index,) in constants:
            signature[name] = "constexpr"
        elif name.endswith("_desc"):
            signature[name] = _descriptor_type(name, kernel, constants, shape.element)
        elif name.endswith("_ptr"):
            kind = "i32" if name in ints else "fp32" if name == "part_ptr" else shape.element
            signature[name] = f"*{kind}"
            attrs[(index,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if name in ("scale", "softcap") else "i32"
    return signature, attrs


def _descriptor_type(name: str, kernel: Any, constants: dict[tuple[int, ...], Any], element: str) -> str:
    value = {n: constants.get((kernel.arg_names.index(n),)) for n in kernel.arg_names}
    if kernel is not warp_specialized_kernel:
        return f"tensordesc<{element}[{value['TILE']}, {value['D_PAD']}]>"
    rows = value["TILE"] if name.startswith("new") else value["CHUNK"]
    return f"tensordesc<{element}[{rows}, 64],{SHARED_LAYOUT!r}>"


def _amd_resources(compiled: Any) -> Resources:
    text = compiled.asm["amdgcn"]

    def read(name: str) -> int:
        return max((int(found) for found in re.findall(rf"\.{name}:\s+(\d+)", text)), default=0)

    return Resources(compiled.metadata.shared, read("vgpr_count"), read("vgpr_spill_count"))


def _nvidia_resources(compiled: Any, target: str) -> Resources:
    """Registers and local memory from the bundled cuobjdump. Stack is spilled registers for these kernels."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        text = subprocess.run(
            [str(tool), "-res-usage", file.name], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    registers = max((int(found) for found in re.findall(r"REG:(\d+)", text)), default=0)
    stack = max((int(found) for found in re.findall(r"(?:STACK|LOCAL):(\d+)", text)), default=0)
    return Resources(compiled.metadata.shared, registers, stack // 4)
