"""Your own kernel, tuned and compiled to a launch heuristic, in 40 lines.

cd examples
heurgen tune matmul:tunable -o matmul.csv       # measures every config on every shape
heurgen init matmul.csv -o matmul.toml          # drafts the spec from the log
heurgen train matmul.csv --spec matmul.toml -o matmul.json
heurgen emit matmul.json -o matmul_heuristic.py

from matmul_heuristic import select_nvidia
c = matmul((a, b), select_nvidia(M=4096, N=4096, K=64)._asdict())
"""

from types import SimpleNamespace

import torch
import triton
import triton.language as tl

from heurgen.tune.protocol import Space


@triton.jit
def kernel(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + cols, mask=(k[:, None] < K) & (cols < N), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows * N + cols, total.to(c.dtype.element_ty), mask=(rows < M) & (cols < N))


def matmul(inputs, config):
    a, b = inputs
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, config["BLOCK_M"]), triton.cdiv(n, config["BLOCK_N"]))
    kernel[grid](a, b, c, m, n, k, **config)
    return c


def inputs(scenario, device):
    m, n, k = (scenario.features[name] for name in "MNK")
    draw = {"generator": torch.Generator(device).manual_seed(scenario.seed), "device": device}
    return torch.randn((m, k), **draw).half(), torch.randn((k, n), **draw).half()


tiles = {"BLOCK_M": (16, 64, 128), "BLOCK_N": (32, 128), "BLOCK_K": (32, 64)}
shapes = {"M": [16, 64, 256, 1024, 4096], "N": [64, 1024, 4096], "K": [64, 1024, 4096]}
tunable = SimpleNamespace(
    name="matmul",
    features={"M": "int", "N": "int", "K": "int"},
    space=Space(
        {**tiles, "num_warps": (4, 8), "num_stages": (2, 4)}, constraints=["BLOCK_M <= max(16, 2 * M)"]
    ),
    workload={"grid": [shapes]},
    inputs=inputs,
    launch=matmul,
    reference=lambda inputs: inputs[0].float() @ inputs[1].float(),
)
