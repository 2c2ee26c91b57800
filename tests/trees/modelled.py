"""Cost tables of modelled kernels, shaped like the logs of PyTorch's AutoHeuristic: mm, mixed_mm, flex attention.

Times follow tiles, waves over an A100's 108 multiprocessors, padding, pipeline fill and memory. A config is measured
where its tile fits the shape (rounded up) and its buffers fit the shared memory.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from heurgen.logs.costs import CostTable, TableColumn
from tests.trees.synthetic import Floats, table

SMS = 108
SHARED = 164e3
MEMORY = 1.5e12

MM_PARAMETERS = ("type", "BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")
MM_CONFIGS = [
    (m, n, k, stages, warps)
    for m, n, k, stages, warps in (
        (16, 32, 16, 1, 2), (16, 64, 32, 2, 4), (16, 128, 64, 4, 8), (32, 32, 16, 1, 2), (32, 32, 128, 2, 4),
        (32, 64, 32, 5, 8), (64, 32, 32, 5, 8), (64, 32, 128, 5, 4), (64, 64, 16, 2, 4), (64, 64, 32, 2, 4),
        (64, 64, 64, 3, 8), (64, 64, 128, 5, 4), (64, 128, 32, 3, 4), (64, 128, 64, 3, 4), (128, 64, 32, 3, 4),
        (128, 64, 64, 3, 4), (128, 128, 32, 2, 8), (128, 128, 32, 3, 4), (128, 128, 64, 3, 4),
        (128, 128, 64, 5, 8),
    )
]  # fmt: skip


def matmul(n_scenarios: int = 2000, seed: int = 0, noise: float = 0.01) -> CostTable:
    """An mm log as AutoHeuristic collects it: shapes on and off powers of two, strides, dtypes, products.

    Times follow a model of tiles, waves over 108 multiprocessors, padding and pipeline fill; `extern_mm` is always
    measured, a Triton config only where its tile fits the (rounded-up) shape.
    """
    rng = np.random.RandomState(seed)
    m, n, k = (_sizes(rng, n_scenarios) for _ in range(3))
    transposed = rng.randint(0, 2, n_scenarios)
    dtype = rng.randint(0, 2, n_scenarios)
    times = np.full((n_scenarios, len(MM_CONFIGS) + 1), np.nan)
    flops = 2 * m * n * k / 250e12
    memory = 2 * (m * k + k * n + m * n) / MEMORY
    aligned = (m % 8 == 0) & (n % 8 == 0) & (k % 8 == 0)
    waves = np.ceil(np.ceil(m / 128) * np.ceil(n / 128) / SMS)
    extern = np.maximum(waves * (2 * 128 * 128 * k * SMS / 250e12), memory)
    times[:, 0] = 6e-6 + extern * np.where(aligned, 1.0, 2.2) + flops * 0.05
    for i, (bm, bn, bk, stages, warps) in enumerate(MM_CONFIGS):
        tiles = np.ceil(m / bm) * np.ceil(n / bn)
        slots = SMS * max(1, 8 // warps)
        speed = (bm * bn) ** 0.35 / (128 * 128) ** 0.35 * (1 - 0.25 / stages) * min(1.0, bk / 32) ** 0.2
        work = np.ceil(tiles / slots) * (2 * bm * bn * np.ceil(k / bk) * bk * slots / 230e12) / speed
        start = 5e-6 + 0.3e-6 * stages + 0.8e-6 * transposed * (bk > 32)
        fits = _fits(bm, m) & _fits(bn, n) & _fits(bk, k)
        times[:, i + 1] = np.where(fits, start + np.maximum(work, memory) * (1 + 0.1 * dtype), np.nan)
    times *= np.exp(noise * rng.randn(*times.shape)) * 1e3
    columns = [TableColumn(name, "int") for name in ("m", "k", "n")]
    columns += [TableColumn("mat1_stride_0", "int"), TableColumn("mat2_stride_0", "int")]
    columns += [TableColumn("mat1_dtype", "category", values=("bfloat16", "float16"))]
    columns += [TableColumn("mat2_iscontig", "bool")]
    columns += [
        TableColumn(name, "float", derived=True)
        for name in ("m_times_k", "m_times_n", "k_times_n", "intensity")
    ]
    X = np.column_stack([m, k, n, m * k, n * k, dtype, transposed, m * k, m * n, k * n])
    X = np.column_stack([X, m * n * k / (m * k + k * n + m * n)])
    configs = [("extern_mm", None, None, None, None, None), *(("triton", *c) for c in MM_CONFIGS)]
    return table(columns, X, times, configs, MM_PARAMETERS)


FLEX_CONFIGS = [
    (m, n, stages, warps)
    for m, n, warps, stages in product((32, 64, 128), (32, 64, 128), (4, 8), (2, 3))
    if not (m == 32 and warps == 8) and not (m == n == 128 and warps == 4)
]


def attention(n_scenarios: int = 600, seed: int = 0, noise: float = 0.01) -> CostTable:
    """A flex attention log: some two dozen configs, few patterns of what fits (by the head size)."""
    rng = np.random.RandomState(seed)
    batch, heads = 2.0 ** rng.randint(0, 6, n_scenarios), rng.choice([8.0, 16, 32, 64], n_scenarios)
    free = np.floor(2 ** (7 + 6 * rng.rand(n_scenarios)))
    q = np.where(rng.rand(n_scenarios) < 0.7, 2.0 ** rng.randint(7, 14, n_scenarios), free)
    kv = np.where(rng.rand(n_scenarios) < 0.8, q, 2.0 ** rng.randint(7, 14, n_scenarios))
    size, dtype = rng.choice([64.0, 128, 256], n_scenarios), rng.randint(0, 2, n_scenarios)
    memory = 4 * batch * heads * (q + kv) * size / MEMORY
    times = np.full((n_scenarios, len(FLEX_CONFIGS)), np.nan)
    for i, (bm, bn, stages, warps) in enumerate(FLEX_CONFIGS):
        shared = 2 * (bm + 2 * stages * bn) * size
        slots = SMS * np.clip(np.floor(SHARED / shared), 1, 16 // warps)
        speed = (bm / 128) ** 0.3 * (bn / 128) ** 0.15 * (1 - 0.2 / stages)
        speed = speed * (1 - 0.1 * (warps == 4 and bm == 128))
        speed = speed * np.where((size > 128) & (bm * bn > 64 * 64), 0.6, 1.0)
        waves = np.ceil(np.ceil(q / bm) * batch * heads / slots)
        work = waves * slots * bm * np.ceil(kv / bn) * bn * size * 4 / 200e12 / speed
        launched = 8e-6 + np.maximum(work, memory) * (1 + 0.05 * dtype)
        times[:, i] = np.where(shared < SHARED, launched, np.nan)
    times *= np.exp(noise * rng.randn(*times.shape)) * 1e3
    columns = [TableColumn(name, "int") for name in ("batch", "heads", "q", "kv", "head_size")]
    columns += [TableColumn("dtype", "category", values=("bfloat16", "float16"))]
    columns += [TableColumn("programs", "float", derived=True)]
    X = np.column_stack([batch, heads, q, kv, size, dtype, batch * heads * q])
    return table(columns, X, times, FLEX_CONFIGS, ("BLOCK_M", "BLOCK_N", "num_stages", "num_warps"))


LIMITED_CONFIGS = list(
    product((16, 32, 64, 128, 256), (16, 32, 64, 128), (1, 2, 3, 4), (2, 4, 8), (1, 4, 16))
)


def limited_attention(n_scenarios: int = 150, n_configs: int = 60, seed: int = 0) -> CostTable:
    """Attention by given features, with splits: a config fails where rows times head size times bytes do not fit."""
    rng, n = np.random.RandomState(seed), n_scenarios
    batch, heads = 2.0 ** rng.randint(0, 7, n), rng.choice([8.0, 16, 32, 64], n)
    q = np.where(rng.rand(n) < 0.3, 1.0, np.floor(2 ** (2 + 11 * rng.rand(n))))
    kv = np.maximum(q, np.floor(2 ** (5 + 10 * rng.rand(n))))
    size, width = rng.choice([64.0, 96, 128, 192, 256], n), rng.choice([1.0, 2, 4], n)
    drawn = np.random.RandomState(1).permutation(len(LIMITED_CONFIGS))[: n_configs - 1]
    configs = [LIMITED_CONFIGS[0], *(LIMITED_CONFIGS[i] for i in np.sort(drawn[drawn > 0]))]
    times = np.full((n, len(configs)), np.inf)
    for i, (bm, bn, stages, warps, splits) in enumerate(configs):
        shared = (bm + 2 * stages * bn) * size * width
        slots = 132 * np.clip(np.floor(228e3 / shared), 1, 16 // warps)
        speed = (bm / 128) ** 0.35 * (bn / 128) ** 0.2 * (1 - 0.25 / stages)
        speed = speed * np.where(bm * bn * size > 64 * 64 * 64 * warps, 0.65, 1.0)
        programs = np.ceil(q / bm) * batch * heads * np.minimum(splits, np.ceil(kv / bn))
        work = (
            np.ceil(programs / slots)
            * slots
            * bm
            * np.ceil(kv / splits / bn)
            * bn
            * size
            * 4
            / 400e12
            / speed
        )
        memory = 2 * width * batch * heads * (q + kv) * size / 3e12 / np.clip(programs / 132, 0.1, 1)
        merge = (splits > 1) * (3e-6 + 4 * batch * heads * q * size * splits / 3e12)
        times[:, i] = np.where(
            shared > 228e3, np.inf, 6e-6 + 0.5e-6 * stages + np.maximum(work, memory) + merge
        )
    times *= np.exp(0.02 * rng.randn(*times.shape)) * 1e3
    columns = [TableColumn(name, "int") for name in ("batch", "heads", "q", "kv", "head_size", "bytes")]
    X = np.column_stack([batch, heads, q, kv, size, width])
    names = ("BLOCK_M", "BLOCK_N", "num_stages", "num_warps", "num_splits")
    return table(columns, X, times, configs, names)


MIXED_CONFIGS = [
    (m, n, k, stages, warps)
    for m, n, k, stages, warps in product(
        (16, 32, 64, 128), (32, 64, 128), (32, 64, 128, 256), (2, 3, 5), (4, 8)
    )
    if m * n <= 128 * 64 and not (m * n < 1024 and warps == 8) and not (stages == 5 and k == 256)
]


def mixed_matmul(n_scenarios: int = 1200, seed: int = 0, noise: float = 0.01) -> CostTable:
    """A mixed_mm log: few rows by int8 weights, bound by memory, many configs of near-equal rank and a fallback."""
    rng = np.random.RandomState(seed)
    free = rng.randint(1, 129, n_scenarios).astype(float)
    m = np.where(rng.rand(n_scenarios) < 0.6, 2.0 ** rng.randint(0, 8, n_scenarios), free)
    k, n = (np.maximum(_sizes(rng, n_scenarios), 128) for _ in range(2))
    transposed = rng.randint(0, 2, n_scenarios)
    memory = (2 * m * k + k * n + 2 * m * n) / MEMORY
    times = np.full((n_scenarios, len(MIXED_CONFIGS) + 1), np.nan)
    times[:, 0] = 9e-6 + memory + 4 * k * n / MEMORY + 2 * m * n * k / 200e12
    for i, (bm, bn, bk, stages, warps) in enumerate(MIXED_CONFIGS):
        tiles = np.ceil(m / bm) * np.ceil(n / bn)
        slots = SMS * max(1, 8 // warps)
        speed = (bm * bn / 8192) ** 0.25 * (1 - 0.25 / stages) * min(1.0, bk / 64) ** 0.2
        work = np.ceil(tiles / slots) * 2 * bm * bn * np.ceil(k / bk) * bk * slots / 150e12 / speed
        fill = np.clip(tiles / SMS * stages * bk * bn / 16384, 0.05, 1.0)
        fits = _fits(bm, m) & _fits(bn, n) & _fits(bk, k) & ((2 * bm + bn) * bk * stages < SHARED)
        start = 5e-6 + 0.4e-6 * stages + 1e-6 * transposed * (bk > 64)
        times[:, i + 1] = np.where(fits, start + np.maximum(work, memory / fill), np.nan)
    times *= np.exp(noise * rng.randn(*times.shape)) * 1e3
    columns = [TableColumn(name, "int") for name in ("m", "k", "n")]
    columns += [TableColumn("mat2_iscontig", "bool")]
    columns += [TableColumn(name, "float", derived=True) for name in ("m_times_k", "k_times_n", "m_times_n")]
    X = np.column_stack([m, k, n, transposed, m * k, k * n, m * n])
    configs = [("fallback", None, None, None, None, None), *(("triton", *c) for c in MIXED_CONFIGS)]
    return table(columns, X, times, configs, MM_PARAMETERS)


def _fits(block: int, size: Floats) -> Floats:
    """Whether a block is no longer than the size rounded up to a power of two, or the least block."""
    return np.asarray(block <= np.maximum(2.0 ** np.ceil(np.log2(size)), 16))


def _sizes(rng: np.random.RandomState, n: int) -> Floats:
    free = np.floor(2.0 ** (13 * rng.rand(n))) + 1
    power = 2.0 ** rng.randint(0, 14, n)
    return np.where(rng.rand(n) < 0.5, power, np.where(rng.rand(n) < 0.5, np.ceil(free / 16) * 16, free))


def convolutions(layers: int = 24, seed: int = 0, noise: float = 0.02) -> CostTable:
    """Convolutions of some layers, each with eight batches in two dtypes, by five algorithms in tiles: Winograd runs
    for filters of 3, stride 1 and one group, FFT for filters of 3 and more at stride 1, one more for filters of 1.

    The height is the width, and the padding follows from the filter.
    """
    rng = np.random.RandomState(seed)
    rows = []
    for _ in range(layers):
        r, stride = int(rng.choice([1, 1, 3, 3, 3, 5, 7])), int(rng.choice([1, 1, 1, 2]))
        h, c = (
            int(rng.choice([7, 14, 28, 56, 112, 224])),
            int(rng.choice([3, 16, 32, 64, 96, 128, 256, 512, 1024])),
        )
        k = int(rng.choice([16, 32, 64, 96, 128, 256, 512, 1024]))
        if h >= 112:
            c, k = min(c, 64), min(k, 128)
        groups = int(rng.choice([1, 1, 1, 1, 2]))
        rows += [(2**n, c, h, h, k, r, stride, r // 2, groups, t) for n in range(8) for t in (0, 1)]
    X = np.array(rows, dtype=float)
    configs = [
        (kind, *tile, split)
        for kind in ("direct", "igemm", "winograd", "fft", "one")
        for tile in ((32, 32), (32, 64), (64, 64), (64, 128), (128, 64), (128, 128))
        for split in (1, 8)
        if (split == 1 or kind not in ("direct", "winograd"))
        and (tile[0] == tile[1] or kind not in ("fft", "one"))
    ]
    times = np.column_stack([_convolved(X, *config) for config in configs])
    times *= np.exp(noise * rng.randn(*times.shape)) * 1e3
    names = ("n", "c", "h", "w", "k", "r", "stride", "pad", "groups")
    columns = [
        *(TableColumn(x, "int") for x in names),
        TableColumn("dtype", "category", values=("fp16", "fp32")),
    ]
    return table(columns, X, times, configs=configs, parameters=("kind", "BLOCK_M", "BLOCK_N", "split"))


def _convolved(X: Floats, kind: str, bm: int, bn: int, split: int) -> Floats:
    """Seconds; inf where the algorithm does not run."""
    n, c, h, _, k, r, stride, pad, groups, wide = X.T
    p = np.floor((h + 2 * pad - r) / stride) + 1
    m, width = n * p * p, k / groups
    flops, fails = 2 * m * k * c * r * r / groups, np.zeros(len(X), dtype=bool)
    speed = (bm * bn) ** 0.3 / (128 * 128) ** 0.3 * (0.9 if split == 1 else 0.85) * np.ones(len(X))
    start, copied = 5e-6, n * h * h * c * 4 * 2 / 1.2e12
    if kind == "winograd":
        flops, fails, start = flops / 1.8, (r != 3) | (stride != 1) | (groups != 1), 9e-6 + copied
    elif kind == "fft":
        points = (p + r) ** 2
        flops = 3 * n * k * c / groups * points + 40 * n * (k + c) * points * np.log2(p + r)
        fails, speed = (stride != 1) | (r < 3), speed / 2
    elif kind == "one":
        fails, speed = r != 1, speed * 1.15
    else:
        slow = (c / groups > 16) if kind == "direct" else (c / groups) % 16 != 0
        speed = speed * np.where(slow, 0.45 if kind == "direct" else 0.4, 0.9 if kind == "direct" else 1.0)
    memory = (n * h * h * c + m * k + k * c * r * r / groups) * np.where(wide, 2, 4) / 1.2e12
    waves = np.ceil(np.ceil(m / bm) * np.ceil(width / bn) * groups * split / 120)
    work = (
        waves * 120 * bm * bn / (m * width * split * groups) * flops / (np.where(wide, 150e12, 20e12) * speed)
    )
    parts = (m * width * groups * 8 / 1.2e12 + 3e-6) if split > 1 else 0.0
    found: Floats = np.where(fails, np.inf, start + work + memory * (1.1 if split > 1 else 1.0) + parts)
    return found
