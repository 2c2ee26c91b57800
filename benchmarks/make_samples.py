"""Small files that the tools themselves write, for tests of the importers: needs a GPU, takes under a minute.

    python benchmarks/make_samples.py OUT

OUT/triton/   Triton's autotuning cache of one matmul, three shapes x four configs (cache_results=True)
OUT/inductor/ mm.json, and what max-autotune prints (autotune.txt), of three matrix products
OUT/card.toml device and versions
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SHAPES = ((64, 512, 256), (512, 512, 512), (2048, 1024, 512))  # M, K, N

TRITON = f"""
import torch, triton, triton.language as tl

CONFIGS = [triton.Config({{"BLOCK_M": m, "BLOCK_N": n}}, num_warps=w) for m, n, w in
           ((16, 32, 4), (64, 64, 4), (128, 64, 8), (64, 128, 4))]

@triton.autotune(configs=CONFIGS, key=["M", "N", "K"], cache_results=True)
@triton.jit
def sample_matmul(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, 32):
        i = k + tl.arange(0, 32)
        left = tl.load(a + m[:, None] * K + i[None, :], mask=m[:, None] < M, other=0.0)
        right = tl.load(b + i[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        sums += tl.dot(left, right)
    tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))

for M, K, N in {SHAPES}:
    a, b, c = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((M, K), (K, N), (M, N)))
    sample_matmul[lambda x: (triton.cdiv(M, x["BLOCK_M"]), triton.cdiv(N, x["BLOCK_N"]))](a, b, c, M, N, K)
torch.cuda.synchronize()
"""
INDUCTOR = f"""
import torch
import torch._inductor.config as config

config.max_autotune_gemm = True
config.max_autotune_gemm_backends = "ATEN,TRITON"
product = torch.compile(torch.mm, dynamic=False)
for M, K, N in {SHAPES}:
    product(*(torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((M, K), (K, N))))
torch.cuda.synchronize()
"""
CARD = """
import torch, triton
print(f'device = "{torch.cuda.get_device_name()}"')
print(f'[tools]\\ntorch = "{torch.__version__}"\\ntriton = "{triton.__version__}"')
"""


def main() -> None:
    out = Path(sys.argv[1])
    cache = out / "cache"
    inductor = out / "inductor"
    inductor.mkdir(parents=True, exist_ok=True)
    script(out, "tuned.py", TRITON, {"TRITON_CACHE_DIR": str(cache / "triton")})
    for file in cache.rglob("*.autotune.json"):
        kept = out / "triton" / file.parent.name[:12]
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, kept)
    log = {
        "TORCHINDUCTOR_MM_LOGGING_FILE": str(inductor / "mm.json"),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    }
    printed = script(out, "compiled.py", INDUCTOR, log | {"TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")})
    (inductor / "autotune.txt").write_text(printed)
    (out / "card.toml").write_text(script(out, "card.py", CARD, {}))
    shutil.rmtree(cache)


def script(out: Path, name: str, code: str, environment: dict[str, str]) -> str:
    """Run code in a process of its own (triton.jit needs a file); what it prints."""
    (out / name).write_text(code)
    done = subprocess.run(
        [sys.executable, name],
        cwd=out,
        env={**os.environ, **{k: os.path.abspath(v) if "/" in v else v for k, v in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout)
    (out / name).unlink()
    return done.stdout


if __name__ == "__main__":
    main()
