"""Compile a config for a target without a GPU and say whether it fits: shared and tensor memory, registers, spills.

Compiling does not check limits: the compiler accepts 352 KB of shared memory for sm_90 and 128 KB of LDS
for gfx942.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from ..config import Config, normalise
from ..device.widen import widen_kernel
from ..host import combine
from ..host.apart import apart, crowded, separable
from ..host.call import Call
from ..host.hardware import Device
from ..host.launch import arguments_of, dispatched
from ..host.plan import launch_grid, make_plan
from ..host.select import choose_segments
from ..host.validate import check
from ..host.widen import COPY_LIMIT, widened
from ..host.widen import OPTIONS as WIDENING
from ..host.widen import arguments_of as widening_arguments

TARGETS = {
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_86": GPUTarget("cuda", 86, 32),
    "sm_89": GPUTarget("cuda", 89, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx90a": GPUTarget("hip", "gfx90a", 64),
}
# Bytes of shared memory (LDS) that one block may use: CUDA C++ programming guide, table of compute capabilities
# (227 KB for 9.0 and 10.0, 163 KB for 8.0, 99 KB for 8.6, 8.9 and 12.0); AMD CDNA 2 and 3 instruction set guides
# (64 KB).
SHARED_LIMIT = {
    "sm_90": 227 * 1024, "sm_80": 163 * 1024, "sm_86": 99 * 1024, "sm_89": 99 * 1024, "sm_100": 227 * 1024,
    "sm_120": 99 * 1024, "gfx942": 65536, "gfx90a": 65536,
}  # fmt: skip
# Columns of tensor memory, which 10.0 alone has: PTX ISA, tcgen05.
TENSOR_LIMIT = 512
# What a launch is told of such a device; the processors are an H200's, an A100's, an RTX 3090's, an L40S's, a B200's,
# an RTX 5090's, an MI300X's and an MI250X's die's.
DEVICES = {
    "sm_90": Device("nvidia", (9, 0), 132, "", SHARED_LIMIT["sm_90"]),
    "sm_80": Device("nvidia", (8, 0), 108, "", SHARED_LIMIT["sm_80"]),
    "sm_86": Device("nvidia", (8, 6), 82, "", SHARED_LIMIT["sm_86"]),
    "sm_89": Device("nvidia", (8, 9), 142, "", SHARED_LIMIT["sm_89"]),
    "sm_100": Device("nvidia", (10, 0), 148, "", SHARED_LIMIT["sm_100"]),
    "sm_120": Device("nvidia", (12, 0), 170, "", SHARED_LIMIT["sm_120"]),
    "gfx942": Device("amd", None, 304, "gfx942"),
    "gfx90a": Device("amd", None, 104, "gfx90a"),
}
# Registers per thread: 255 for CUDA; 512 vector registers (accumulation registers included) for CDNA.
REGISTER_LIMIT = {target: 512 if target.startswith("gfx") else 255 for target in TARGETS}


@dataclass(frozen=True, slots=True)
class Resources:
    """What a compiled kernel uses. shared in bytes, registers per thread, spills as the compiler counts
    them, tensor in columns.
    """

    shared: int
    registers: int
    spills: int
    tensor: int = 0

    def reason(self, target: str) -> str | None:
        """Why the kernel does not fit the target, or None."""
        if self.shared > SHARED_LIMIT[target]:
            return f"needs {self.shared} bytes of shared memory, {target} has {SHARED_LIMIT[target]}"
        if self.registers > REGISTER_LIMIT[target]:
            return f"needs {self.registers} registers, {target} has {REGISTER_LIMIT[target]}"
        if self.tensor > TENSOR_LIMIT:
            return f"needs {self.tensor} columns of tensor memory, {target} has {TENSOR_LIMIT}"
        if self.spills:
            return f"spills {self.spills} registers"
        return None


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout a config is compiled for.

    element: "bf16", "fp16"; fresh: new tokens' K and V are at hand; decode: each sequence has `query_tokens` new
    tokens; sequences: of the batch; written: new tokens are written to the pages; fp8: pages are, with scales; halves:
    K and V are halves of one tensor, heads outside tokens, as vLLM lays them out.
    """

    num_query_heads: int = 32
    num_kv_heads: int = 8
    head_size: int = 128
    page_size: int = 16
    element: str = "bf16"
    fresh: bool = False
    decode: bool = False
    query_tokens: int = 1
    sequences: int = 2
    window: bool = False
    softcap: bool = False
    sinks: bool = False
    written: bool = False
    halves: bool = False
    fp8: bool = False


ELEMENTS = {"bf16": torch.bfloat16, "fp16": torch.float16}
TYPES = {
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.float32: "fp32",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.float8_e4m3fnuz: "fp8e4b8",
    **{dtype: name for name, dtype in ELEMENTS.items()},
}
# New and all tokens of a sequence that is compiled for; numbers are no part of a kernel, but for one token.
PROMPT, CONTEXT = 2048, 8192


def meta_call(shape: Shape, target: str) -> Call:
    """A checked call of tensors without memory, laid out as for a device of the target."""
    most = shape.query_tokens if shape.decode else PROMPT
    tokens = shape.sequences * most
    pages = -(-CONTEXT // shape.page_size)
    element = ELEMENTS[shape.element]

    def meta(*sizes: int, dtype: torch.dtype = element) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device="meta")

    cache = (shape.sequences * pages, shape.page_size, shape.num_kv_heads, shape.head_size)
    device = DEVICES[target]
    # CDNA 3's own fp8 numbers have no negative zero
    fp8 = torch.float8_e4m3fnuz if target == "gfx942" else device.fp8[0]
    kept = fp8 if shape.fp8 else element
    scale = meta(1, dtype=torch.float32) if shape.fp8 else None
    k, v = meta(*cache, dtype=kept), meta(*cache, dtype=kept)
    if shape.halves:
        both = meta(cache[0], shape.num_kv_heads, shape.page_size, 2 * shape.head_size, dtype=kept).transpose(
            1, 2
        )
        k, v = both[..., : shape.head_size], both[..., shape.head_size :]
    new, has_new = (tokens, shape.num_kv_heads, shape.head_size), shape.fresh or shape.written
    call = Call(
        q=meta(tokens, shape.num_query_heads, shape.head_size), k=k, v=v,
        table=meta(shape.sequences, pages, dtype=torch.int32), cu=meta(shape.sequences + 1, dtype=torch.int32),
        lens=meta(shape.sequences, dtype=torch.int32),
        out=meta(tokens, shape.num_query_heads, shape.head_size), max_q=most, max_k=CONTEXT, scale=1.0,
        new_k=meta(*new) if has_new else None, new_v=meta(*new) if has_new else None,
        slots=meta(tokens, dtype=torch.int64) if shape.written else None,
        left=1023 if shape.window else -1, softcap=30.0 if shape.softcap else 0.0,
        sinks=meta(shape.num_query_heads) if shape.sinks else None, k_scale=scale, v_scale=scale,
    )  # fmt: skip
    call.choose = choose_segments(None, device.vendor)
    check(call, device)
    return call


def compile_config(config: Any, target: str, shape: Shape | None = None) -> Resources:
    """Compile what a launch of the config would run on a target of TARGETS, and read what it uses. 0.5 to 5 s.

    Of fp8 pages under warp_specialized: the kernel that reads their copy; `compile_widening` is of the one before it.
    Where `mixed` takes prompts and decodes apart, or many parts are combined by a second launch: the most that either
    kernel uses.
    """
    call, config = meta_call(shape or Shape(), target), normalise(config)
    found = [_compile(part, given, target) for part, given in launched(call, config)]
    return Resources(*(max(numbers) for numbers in zip(*map(astuple, found), strict=True)))


def launched(call: Call, config: Config) -> Sequence[tuple[Call, Config]]:
    """The calls, with their configs, that a launch over fp8 pages makes after their copy; the call alone elsewhere."""
    if separable(call, config):
        return apart(call, config) or [(call, config)]
    if call.layout.copied and config.variant == "warp_specialized":
        return [(widened(call) or call, config)]
    return [(call, config)]


def _compile(call: Call, config: Config, target: str) -> Resources:
    plan = make_plan(call, config)
    _, items, blocks = launch_grid(plan, call)
    combined = combine.combines(plan, call)
    rest, numbers = arguments_of(plan, call, 0, items, blocks, combined)
    found = resources(plan.kernel, dispatched(plan, call, rest, numbers), plan.options, target)
    if not combined:
        return found
    arguments = (call.tensors(rest), *combine.arguments_of(plan, call, numbers[0]))
    second = resources(combine.KERNELS[plan.variant], arguments, combine.OPTIONS, target)
    return Resources(*map(max, astuple(found), astuple(second)))


def compile_widening(target: str, shape: Shape) -> Resources:
    """Compile the kernel that copies a layout's fp8 pages to 16-bit ones, of all sequences, of prompts alone, and of
    those that there is room for: the most that it uses.
    """
    call = meta_call(shape, target)
    found = []
    for copy in (widened(call), widened(call, 4, 32), _crowd(shape, target)[0][0]):
        assert copy is not None
        found.append(resources(widen_kernel, widening_arguments(call, copy), WIDENING, target))
    return Resources(*(max(numbers) for numbers in zip(*map(astuple, found), strict=True)))


def compile_rest(target: str, shape: Shape) -> Resources:
    """Compile the kernel that reads the fp8 pages of prompts that a copy has no room for."""
    return _compile(*_crowd(shape, target)[-1], target)


def _crowd(shape: Shape, target: str) -> list[tuple[Call, Config]]:
    """The launches of a call whose keys at their most are too many for a copy, see `host.apart`."""
    call = meta_call(shape, target)
    call.max_k, call.left = COPY_LIMIT, COPY_LIMIT if shape.window else -1
    parts = apart(call, crowded(Config("warp_specialized", 128, 64, 4, 2)))
    assert parts is not None
    return parts


def resources(kernel: Any, arguments: Sequence[Any], options: dict[str, Any], target: str) -> Resources:
    """What a kernel uses that is compiled for a target of TARGETS, given the arguments of a launch."""
    compiled = triton.compile(source_of(kernel, arguments), target=TARGETS[target], options=options)
    if target.startswith("gfx"):
        return _amd_resources(compiled)
    return _nvidia_resources(compiled, target)


def source_of(kernel: Any, arguments: Sequence[Any]) -> ASTSource:
    """A kernel with the types and constants that Triton's dispatch would find, pointers aligned. A named tuple
    among the arguments that is no constant holds pointers; numbers are specialised as there: ones are constants.
    """
    signature: dict[str, Any] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    for number, (parameter, value) in enumerate(zip(kernel.params, arguments, strict=True)):
        specialised = isinstance(value, int) and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (specialised and value == 1):
            signature[parameter.name], constants[number,] = "constexpr", value
        elif isinstance(value, tuple):
            signature[parameter.name] = type(value)(*(_type(tensor) for tensor in value))
            for place, tensor in enumerate(value):
                if tensor is None:
                    constants[number, place] = None
                else:
                    attributes[number, place] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = _type(value)
            whole = isinstance(value, torch.Tensor) or (specialised and value % 16 == 0)
            if whole and not parameter.do_not_specialize_on_alignment:
                attributes[number,] = [["tt.divisibility", 16]]
    return (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, signature, constants, attributes)


def _type(value: Any) -> str:
    """Triton's name for the type of an argument."""
    if value is None:
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return f"*{TYPES[value.dtype]}"
    if hasattr(value, "block_shape"):
        block = f"{TYPES[value.base.dtype]}[{', '.join(map(str, value.block_shape))}]"
        return f"tensordesc<{block},{value.layout!r}>" if hasattr(value, "layout") else f"tensordesc<{block}>"
    return "fp32" if isinstance(value, float) else "i32"


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
    tensor = getattr(compiled.metadata, "tmem_size", None) or 0
    return Resources(compiled.metadata.shared, registers, stack // 4, tensor)
