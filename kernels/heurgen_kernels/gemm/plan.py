"""What does not change from call to call of products that are alike: the kernel, its constants, how work is shared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..caches import Cache
from ..host.bound import Bound, Slots
from .call import Product, ProductLayout
from .config import Config
from .device.stream_k import stream_k_matmul
from .device.warp_specialized import warp_specialized_matmul

# Partial sums of shared tiles may take this much memory; beyond it K is cut less.
SCRATCH_LIMIT = 1 << 30
# Rows of tiles that are filled before the next ones: with 132 processors what they read at a time is about square.
GROUP = 8
# Twelve warps, two consumers' and the producer's (rounded up to four), share the 65,536 registers of a processor.
WARP_SPECIALIZED = {"num_warps": 4, "maxnreg": 168}
# Shared memory of a block on Hopper (CUDA C++ programming guide, 227 KB), less its barriers and their alignment.
SHARED_MEMORY = 227 * 1024 - 2048
# Columns that warp_specialized stores at once (its STORED), rows of a consumer (HALF), columns of a step (UNIT).
STORED, HALF, UNIT = 128, 64, 64


class Work(NamedTuple):
    """How the tiles of one product are shared, see `work`. slots: blocks of partial sums; tiles: counters."""

    m_tiles: int
    n_tiles: int
    units: int
    whole: int
    left: int
    splits: int
    programs: int
    slots: int


@dataclass(slots=True)
class Plan:
    """swap: the weight is the left operand. slot: partial sums of a slot. counters: of a tile. works: by rows, width
    and size of a product.
    """

    kernel: Any
    constants: tuple[Any, ...]
    options: dict[str, Any]
    config: Config
    swap: bool
    slot: int
    counters: int
    sources: tuple[Slots, ...] = ()
    bound: Bound | None = None
    works: Cache[tuple[int, int, int], Work] = field(default_factory=Cache)

    @property
    def specialised(self) -> bool:
        return self.kernel is warp_specialized_matmul


def addresses_of(call: Product) -> tuple[int, int, int, int, int]:
    """Of x, weight, bias, residual (0 for None) and out."""
    bias, residual = call.bias, call.residual
    return (
        call.x.data_ptr(), call.weight.data_ptr(), 0 if bias is None else bias.data_ptr(),
        0 if residual is None else residual.data_ptr(), call.out.data_ptr(),
    )  # fmt: skip


def plan_key(call: Product, config: Config, addresses: tuple[int, ...]) -> tuple[Any, ...]:
    """Calls of one key run the same compiled kernel."""
    x, weight, bias, residual, out = addresses
    aligned: Any = not (x | weight | bias | residual | out) & 15
    if not aligned:
        aligned = tuple(address & 15 == 0 for address in addresses)
    return config, call.layout.kind, aligned, call.layout.size % config.BLOCK_K == 0


def specialises(call: Product) -> bool:
    """Whether tensor descriptors can read and write the call's tensors, on a device that has Hopper's instructions."""
    tensors = [tensor for tensor in (call.x, call.weight, call.residual, call.out) if tensor is not None]
    return (
        call.layout.device.hopper
        and call.out.shape[1] % 8 == 0
        and all(tensor.stride(0) % 8 == 0 and tensor.data_ptr() % 16 == 0 for tensor in tensors)
    )


def adapted(config: Config, call: Product) -> Config:
    """The config, or the nearest one that this call and GPU can run."""
    if config.variant == "warp_specialized":
        if not specialises(call):
            rows = min(config.BLOCK_M, 128)
            return Config(
                "stream_k", rows, 64, 32 if rows > 64 else 64, 4, 3, config.num_splits, config.programs_per_sm
            )
        if call.gated:  # two sums for each row: 256 columns of both would spill
            return config._replace(BLOCK_M=min(config.BLOCK_M, 128), BLOCK_N=128)
    return config


def stages_that_fit(config: Config, block_b: int, gated: bool) -> int:
    """Steps of warp_specialized that shared memory has room for beside what is stored, at most num_stages."""
    step = ((4 if gated else 2) * HALF + block_b) * UNIT * 2
    staging = 2 * HALF * min(block_b, STORED) * 2
    return min(config.num_stages, (SHARED_MEMORY - staging) // step)


def make_plan(call: Product, config: Config) -> Plan:
    """The plan of a call that was checked, for the device of its layout."""
    config = adapted(config, call)
    gated = call.gated
    if config.variant == "warp_specialized":
        swap = gated or config.BLOCK_M != 128
        block_b = config.BLOCK_M if swap else config.BLOCK_N
        constants: tuple[Any, ...] = (block_b, stages_that_fit(config, block_b, gated), GROUP, swap, gated)
        weight, x = (1, 2) if swap else (2, 1)
        sources = ((weight,), (x,), (3,) if call.residual is None else (3, 4))
        slot = (4 if gated else 2) * HALF * block_b
        return Plan(warp_specialized_matmul, constants, WARP_SPECIALIZED, config, swap, slot, 2, sources)
    swap = config.BLOCK_M < 64 <= config.BLOCK_N and call.layout.device.hopper
    even = call.layout.size % config.BLOCK_K == 0
    constants = (config.BLOCK_M, config.BLOCK_N, config.BLOCK_K, GROUP, swap, gated, even)
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    slot = (2 if gated else 1) * config.BLOCK_M * config.BLOCK_N
    return Plan(stream_k_matmul, constants, options, config, swap, slot, 1)


def work_of(plan: Plan, layout: ProductLayout) -> Work:
    """How the programs of a launch share a product's tiles."""
    key = (layout.rows, layout.width, layout.size)
    known = plan.works.get(key)
    return known or plan.works.keep(key, share(plan, layout))


def share(plan: Plan, layout: ProductLayout) -> Work:
    config, processors = plan.config, layout.device.processors
    m_tiles, n_tiles = -(-layout.rows // config.BLOCK_M), -(-layout.width // config.BLOCK_N)
    units, tiles = -(-layout.size // config.BLOCK_K), m_tiles * n_tiles
    if config.programs_per_sm:
        programs = min(processors * config.programs_per_sm, tiles * units)
        left = tiles % programs
        if units * left < programs:
            left = 0  # a share would be less than a step
        if 2 * programs * plan.slot * 4 <= SCRATCH_LIMIT:
            return Work(m_tiles, n_tiles, units, tiles - left, left, 1, programs, 2 * programs if left else 0)
    splits = min(config.num_splits, units)
    while splits > 1 and tiles * splits * plan.slot * 4 > SCRATCH_LIMIT:
        splits //= 2
    items = tiles * splits
    programs = min(items, processors) if plan.specialised else items
    return Work(m_tiles, n_tiles, units, items, 0, splits, programs, items if splits > 1 else 0)
