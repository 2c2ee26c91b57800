"""What does not change from call to call of products that are alike: the kernel, its constants, how work is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..host.bound import Bound, Slots
from .call import Product, ProductLayout
from .config import Config
from .device.scales import BLOCK, SIDE, WITHIN
from .device.stream_k import stream_k_matmul
from .device.vector import vector_matmul
from .device.warp_specialized import warp_specialized_matmul
from .device.work import PARTS, STREAM, WHOLE

# Partial sums of shared tiles may take this much memory; beyond it K is cut less.
SCRATCH_LIMIT = 1 << 30
# Bytes that the last of warp_specialized's programs with a part of a tile reads to add them up, alone.
LAST_READS = 1 << 19
# Rows of tiles that are filled before the next ones: with 132 processors what they read at a time is about square.
GROUP = 8
# By consumers: their warps and the producer's (rounded up to four) share the 65,536 registers of a processor.
WARP_SPECIALIZED = {1: {"num_warps": 4, "maxnreg": 255}, 2: {"num_warps": 4, "maxnreg": 168}}
# Shared memory of a block on Hopper (CUDA C++ programming guide, 227 KB), less its barriers and their alignment.
SHARED_MEMORY = 227 * 1024 - 2048
# Bytes of a program's shared memory that scales of blocks and the alignment of what is loaded may take.
RESERVED = 1024
# Sums of products that a thread of vector has registers for, beside what it loads.
VECTOR_SUMS = 128
# Columns that warp_specialized stores at once (its STORED), rows of a consumer (HALF), columns of a step (UNIT).
STORED, HALF, UNIT = 128, 64, 64


class Form(NamedTuple):
    """How warp_specialized computes a tile: swap: the weight is the left operand; consumers of 64 of its rows; rows of
    the right one, block_b and extra, see the kernel.
    """

    swap: bool
    consumers: int
    block_b: int
    extra: int


class Work(NamedTuple):
    """How the tiles of one product are shared, see `device/work.py`. slots: blocks of partial sums."""

    m_tiles: int
    n_tiles: int
    units: int
    whole: int
    left: int
    splits: int
    items: int
    programs: int
    slots: int

    @property
    def mode(self) -> int:
        return int((STREAM if self.left else PARTS if self.slots else WHOLE).value)


@dataclass(slots=True)
class Plan:
    """swap: the weight is the left operand. slot: partial sums of a slot. counters: of a tile. form: of
    warp_specialized.
    """

    kernel: Any
    constants: tuple[Any, ...]
    options: dict[str, Any]
    config: Config
    swap: bool
    slot: int
    counters: int
    sources: tuple[Slots, ...] = ()
    form: Form | None = None
    bound: Bound | None = None

    @property
    def specialised(self) -> bool:
        return self.kernel is warp_specialized_matmul


def addresses_of(call: Product) -> tuple[int, int, int, int, int, int]:
    """Of x, weight, bias, residual, out and scale; 0 for None."""
    bias, residual, scale = call.bias, call.residual, call.scale
    return (
        call.x.data_ptr(), call.weight.data_ptr(), 0 if bias is None else bias.data_ptr(),
        0 if residual is None else residual.data_ptr(), call.out.data_ptr(), 0 if scale is None else scale.data_ptr(),
    )  # fmt: skip


def specialises(call: Product) -> bool:
    """Whether tensor descriptors can read and write the call's tensors, on a device that has Hopper's instructions."""
    return describes(call, call.x, call.weight, call.residual, call.out) and call.out.shape[1] % 8 == 0


def describes(call: Product, *tensors: torch.Tensor | None) -> bool:
    """Whether the device has tensor descriptors, and they can describe these tensors of the call."""
    return call.layout.device.hopper and all(
        tensor.stride(0) > 0 and tensor.stride(0) * tensor.itemsize % 16 == 0 and tensor.data_ptr() % 16 == 0
        for tensor in tensors
        if tensor is not None
    )


def adapted(config: Config, call: Product) -> Config:
    """The config, or the nearest one that this call and GPU can run: `unspilled`, `fitted`."""
    return fitted(unspilled(config, call), call)


def unspilled(config: Config, call: Product) -> Config:
    """`able`, in tiles whose registers have room."""
    if call.scale is not None and config.variant == "warp_specialized":
        config = config._replace(BLOCK_N=swapped_width(config))  # a weight of 8 bits is the left operand
    found = able(config, call)
    capability = call.layout.device.capability
    before_hopper = capability is not None and capability < (9, 0)
    if before_hopper and found.variant == "stream_k" and call.gated and call.scale is not None:
        # steps of 256 of both weights spill on an A100, and so do tiles of both that are taken apart and scaled
        halved = call.layout.scaled >= BLOCK.value and bytes_alone(call)
        width = max(16, found.BLOCK_N // 2) if halved else found.BLOCK_N
        return found._replace(BLOCK_N=width, BLOCK_K=min(found.BLOCK_K, 128))
    return found


def bytes_alone(call: Product) -> bool:
    """Whether the device's compiler has no e4m3, as NVIDIA's before the capability 8.9, and the weight is of it."""
    capability = call.layout.device.capability
    return capability is not None and capability < (8, 9) and call.scale is not None


def able(config: Config, call: Product) -> Config:
    """The config, or the nearest one for which the tensors lie right, on this GPU."""
    if config.variant == "vector":
        return config._replace(num_warps=warps_that_hold(config, call.gated))
    if config.variant == "stream_k_tma":
        if not describes(call, call.x, call.weight):
            return portable(config, call)
        return config._replace(num_stages=stages_that_load(config, call))
    if config.variant == "warp_specialized":
        if not specialises(call):
            return unstored(config, call)
        if call.gated:  # two sums for each row: 256 columns of both would spill
            return config._replace(BLOCK_M=min(config.BLOCK_M, 128), BLOCK_N=swapped_width(config))
    elif call.layout.size % 16 and call.layout.size % config.BLOCK_K and call.layout.counted < 8:
        # The last step's columns end inside 16 bytes: stream_k loads few at a time, descriptors need not.
        if specialises(call):
            return Config("warp_specialized", config.BLOCK_M, 128, 64, 4, 12, 1, 1)
        if call.layout.counted == 1:
            return in_turn(config._replace(BLOCK_K=32, num_stages=2), call)
    return config


def swapped_width(config: Config) -> int:
    """BLOCK_N of warp_specialized where the weight is the left operand: rows of one consumer or of two."""
    return HALF if config.BLOCK_M < 128 and config.BLOCK_N == HALF else 2 * HALF


def fitted(config: Config, call: Product) -> Config:
    """The config, or the nearest one that has room in the shared memory of a device with little of it: fewer stages,
    then shorter steps. A program takes the steps that are loaded ahead of the one that it multiplies; behind the loop,
    where the sums change their layout, it takes these in float32, in the same memory: of a tile of fewer columns, then.
    """
    if call.layout.device.room is None:
        return config
    room = call.layout.device.room - RESERVED
    while room < 4 * config.BLOCK_M * config.BLOCK_N and config.BLOCK_N > 16:
        config = config._replace(BLOCK_N=config.BLOCK_N // 2)
    while (config.num_stages - 1) * step_bytes(config, call) > room:
        if config.num_stages > 2:
            config = config._replace(num_stages=config.num_stages - 1)
        else:
            config = config._replace(BLOCK_K=config.BLOCK_K // 2)
    return config


def step_bytes(config: Config, call: Product) -> int:
    """Of a step of stream_k or vector in shared memory: of x, the weight, its rows' scales."""
    rows = (2 if call.gated else 1) * config.BLOCK_N
    step: int = (2 * config.BLOCK_M + call.weight.itemsize * rows) * config.BLOCK_K
    if call.layout.scaled == WITHIN.value:
        step += 4 * rows * -(-config.BLOCK_K // SIDE.value)
    return step


def unstored(config: Config, call: Product) -> Config:
    """What runs in place of warp_specialized. Where x and the weight have descriptors, as with an odd number of columns
    (a vocabulary of 50257), it is what was the best of them on an H200: 1.10 to 1.14 of each product's own best one,
    where `portable` was 1.7.
    """
    if call.gated or call.scale is not None or not describes(call, call.x, call.weight):
        return portable(config, call)
    rows, stages = (32, 6) if config.BLOCK_M <= 32 else (64, 5)
    return Config("stream_k_tma", rows, 128, 64, 4, stages, 1, 1)


def portable(config: Config, call: Product) -> Config:
    """What runs in place of a config that needs tensor descriptors.

    Hopper has them, and lacks them for rows that are no multiples of 16 bytes: tiles of 64 rows at the most, see
    `in_turn`, and for many rows of x copies in the place of it and the weight (`padding.py`). Other devices lack them
    for all rows, load most of them 16 bytes at a time all the same, and nobody has measured any: there 128 rows stay,
    as whole tiles, since sums of parts beside a residual would spill.
    """
    hopper = call.layout.device.hopper
    if config.BLOCK_M >= 128 and not hopper:
        return Config("stream_k", 128, 64, 32, 8, 3)
    rows = min(config.BLOCK_M, 64)
    if hopper and rows > 16 and not call.gated and call.scale is None:
        columns, step, stages = unread_tile(rows, call)
        tile = Config("stream_k", rows, columns, step, 4, stages, config.num_splits, config.programs_per_sm)
        return in_turn(tile, call)
    # Over fp8 weights gated tiles of 32 rows spill: on Hopper in steps of 64 (36 to 76 registers, where N is odd), on
    # sm_80 in steps of 32 (two).
    wide = rows > 32 or (rows > 16 and call.gated and hopper)
    warps, step = (8, 32) if wide else (4, 64)
    tiles = Config("stream_k", rows, 64, step, warps, 3, config.num_splits, config.programs_per_sm)
    return in_turn(tiles, call)


def unread_tile(rows: int, call: Product) -> tuple[int, int, int]:
    """(BLOCK_N, BLOCK_K, num_stages) of a tile of so many rows of x that no descriptor reads, where four warps were
    faster than eight: of 7 to 9 such tiles the best on one H100, of ten weights, 24 to 256 rows.
    """
    if rows <= 32:
        return 64, 64, 4
    # loads of one or two numbers are dearer than the processors that wide tiles leave idle
    least = 8192 if call.layout.counted >= 4 else 4096
    return (128, 32, 4) if call.layout.width >= least else (64, 64, 3)


def in_turn(config: Config, call: Product) -> Config:
    """The config with two programs for each of Hopper's processors, which wait for single loads in turn, unless it says
    into how many parts K is cut. On one H200 (bfloat16, K no multiple of eight) the same tiles took 1.2 to 1.4 times as
    long with one of them and up to nine times with fewer, as the whole tiles of few rows are.
    """
    if call.layout.device.hopper and config.num_splits <= 1:
        return config._replace(num_splits=1, programs_per_sm=2)
    return config


def warps_that_hold(config: Config, gated: bool) -> int:
    """Warps whose registers have room for vector's sums, at least num_warps."""
    sums = config.BLOCK_M * config.BLOCK_N * config.BLOCK_K * (2 if gated else 1)
    return max(config.num_warps, sums // (32 * VECTOR_SUMS))


def stages_that_load(config: Config, call: Product) -> int:
    """Steps of stream_k_tma that shared memory has room for, at most num_stages."""
    return max(1, min(config.num_stages, SHARED_MEMORY // step_bytes(config, call)))


def stages_that_fit(config: Config, form: Form, call: Product) -> int:
    """Steps of warp_specialized that shared memory has room for beside what is stored, at most num_stages."""
    rows = form.consumers * HALF
    of_a = call.weight.itemsize if form.swap else 2
    step = (of_a * (2 if call.gated else 1) * rows + 2 * (form.block_b + form.extra)) * UNIT
    staging = rows * (min(form.block_b, STORED) + form.extra) * 2
    return min(config.num_stages, (SHARED_MEMORY - staging) // step)


def plan_key(config: Config, layout: ProductLayout, work: Work, aligned: Any) -> tuple[Any, ...]:
    """Products of one key run the same compiled kernel."""
    size, counted = layout.size, layout.counted
    passed = (size == counted, size % (16 * counted) == 0)
    sizes = (size % 16 == 0, size % 16 == 8, size % config.BLOCK_K == 0)
    return config, layout.kind, counted, aligned, passed, sizes, work.m_tiles == 1, work.mode


def make_plan(call: Product, config: Config, work: Work) -> Plan:
    """The plan of a call that was checked, for the device of its layout; config: `adapted`."""
    gated, slot, kind = call.gated, slot_of(config, call.gated), call.layout.scaled
    if config.variant == "warp_specialized":
        form = form_of(config, gated or kind > 0)
        swap, consumers, block_b, extra = form
        constants: tuple[Any, ...] = (
            block_b, extra, consumers, stages_that_fit(config, form, call), GROUP, swap, gated, work.mode, kind,
        )  # fmt: skip
        weight, x = ((1,), (2,)) if swap else ((2, 3) if extra else (2,), (1,))
        sources = (weight, x, (4,) if call.residual is None else (4, 5))
        options = WARP_SPECIALIZED[consumers]
        return Plan(warp_specialized_matmul, constants, options, config, swap, slot, consumers, sources, form)
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    even, counted = call.layout.size % config.BLOCK_K == 0, call.layout.counted
    tile = (config.BLOCK_M, config.BLOCK_N, config.BLOCK_K, GROUP)
    if config.variant == "vector":
        constants = (*tile, gated, even, counted, config.num_stages, kind)
        return Plan(vector_matmul, constants, options, config, False, slot, 0)
    described = config.variant == "stream_k_tma"
    swap = config.BLOCK_M < 64 <= config.BLOCK_N and call.layout.device.hopper and not kind
    batch = max(1, min(8, 64 * 32 * config.num_warps // (config.BLOCK_M * config.BLOCK_N)))
    constants = (*tile, swap, gated, even or described, work.mode, batch, counted, kind)
    return Plan(stream_k_matmul, constants, options, config, swap, slot, 1, ((2,), (1,)) if described else ())


def form_of(config: Config, swap: bool) -> Form:
    """Of a config of warp_specialized. The left operand is 64 rows to each consumer, and the right one the tile's other
    side. x is on the left in tiles of 128 rows of it, and in those of 64 whose BLOCK_N no consumers share evenly or is
    wider than two have; in all others, and where it has to be (swap: gated or of 8 bits), the weight is.
    """
    swap = swap or config.BLOCK_M not in (64, 128) or (config.BLOCK_M == 64 and config.BLOCK_N in (64, 128))
    consumers = (config.BLOCK_N if swap else config.BLOCK_M) // HALF
    rows = config.BLOCK_M if swap else config.BLOCK_N
    block_b = 1 << rows.bit_length() - 1
    return Form(swap, consumers, block_b, rows - block_b)


def slot_of(config: Config, gated: bool) -> int:
    """Partial sums of a tile."""
    if config.variant == "warp_specialized":
        _, consumers, block_b, extra = form_of(config, gated)
        return (2 if gated else 1) * consumers * HALF * (block_b + extra)
    return (2 if gated else 1) * config.BLOCK_M * config.BLOCK_N


def share(config: Config, rows: int, width: int, size: int, gated: bool, processors: int) -> Work:
    """How the programs of a launch share a product's tiles; config: `adapted`; rows, width: of the output, size: K."""
    m_tiles, n_tiles = -(-rows // config.BLOCK_M), -(-width // config.BLOCK_N)
    units, tiles = -(-size // config.BLOCK_K), m_tiles * n_tiles
    specialised, slot = config.variant == "warp_specialized", 4 * slot_of(config, gated)
    most = SCRATCH_LIMIT // slot
    programs, whole, splits = tiles, 0, min(config.num_splits or 1, units)
    if config.programs_per_sm:
        programs = processors * config.programs_per_sm
        left = tiles % programs
        whole = tiles - left
        streams = config.num_splits == 0 and m_tiles == 1 and units * left >= programs
        if streams and left and 2 * programs <= most:
            return Work(m_tiles, n_tiles, units, whole, left, 1, whole, programs, 2 * programs)
        parts = LAST_READS // slot if specialised else programs
        splits = min(programs // left, units, parts) if left else 1
    elif specialised:
        programs = processors
    while splits > 1 and (tiles - whole) * splits > most:
        splits //= 2
    if splits == 1:
        whole = tiles
    items = whole + (tiles - whole) * splits
    slots = items - whole
    if not specialised:
        programs = items
    return Work(m_tiles, n_tiles, units, whole, 0, splits, items, min(programs, items), slots)
