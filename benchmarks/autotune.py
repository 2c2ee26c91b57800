"""@triton.autotune with what `heurgen emit --target triton-autotune` writes, against the full autotune.

    cd examples
    heurgen tune matmul:tunable -o matmul.csv
    heurgen init matmul.csv -o matmul.toml && heurgen train matmul.csv --spec matmul.toml -o matmul.json
    heurgen emit matmul.json -o matmul_tuned.py --target triton-autotune
    PYTHONPATH=.. python ../benchmarks/autotune.py matmul_tuned.py

The kernel is that of examples/matmul.py, the shapes are none that were tuned. Printed are, per shape: configs tried and
seconds until the first launch has returned, then the time of the config that each of the two keeps, timed in turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import geometric_mean, median
from types import ModuleType
from typing import Any

import torch
import triton

# Between and beyond the shapes of the example's workload, whole tiles and not.
SHAPES = tuple((m, n, k) for m in (24, 100, 512, 3000) for n in (192, 2048) for k in (256, 2000))
REPEATS = 5
Bench = Callable[..., Sequence[float]]


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Result:
    """`tried` configs, `seconds` until the first launch has returned, `ms` of the config that was kept."""

    tried: int
    seconds: float
    ms: float


class Tuned:
    """The kernel under one autotuner that counts what it tries."""

    def __init__(self, kernel: Any, configs: list[Any], prune: dict[str, Any] | None, bench: Bench) -> None:
        self.tried, self.bench = 0, bench
        tuner = triton.autotune(configs, key=["M", "N", "K"], prune_configs_by=prune, do_bench=self._counted)
        self.kernel = tuner(kernel)

    def _counted(self, call: Callable[[], None], quantiles: Sequence[float]) -> Sequence[float]:
        self.tried += 1
        return self.bench(call, quantiles=quantiles)

    def launch(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        (m, k), n = a.shape, b.shape[1]

        def grid(meta: dict[str, Any]) -> tuple[int, int]:
            return triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"])

        self.kernel[grid](a, b, c, m, n, k)


def compared(
    kernel: Any,
    full: list[Any],
    module: ModuleType,
    shapes: Iterable[tuple[int, int, int]],
    bench: Bench,
    device: str,
) -> list[tuple[tuple[int, int, int], Result, Result]]:
    """Per shape the full autotune's result and the pruned one's."""
    found = []
    for shape in shapes:
        m, n, k = shape
        a, b = (torch.randn(s, device=device).half() for s in ((m, k), (k, n)))
        c = torch.empty((m, n), dtype=a.dtype, device=device)
        tuners = [
            Tuned(kernel, full, None, bench),
            Tuned(kernel, list(module.CONFIGS), module.PRUNE_CONFIGS_BY, bench),
        ]
        seconds = []
        for tuner in tuners:
            began = time.perf_counter()
            tuner.launch(a, b, c)
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
            assert torch.allclose(c.float(), a.float() @ b.float(), rtol=2e-2, atol=0.05 * math.sqrt(k))
        times: list[list[float]] = [[], []]
        for _ in range(REPEATS):
            for tuner, own in zip(tuners, times, strict=True):
                own.append(bench(partial(tuner.launch, a, b, c), quantiles=(0.5, 0.2, 0.8))[0])
        both = [Result(t.tried, s, median(own)) for t, s, own in zip(tuners, seconds, times, strict=True)]
        found.append((shape, both[0], both[1]))
    return found


def report(found: list[tuple[tuple[int, int, int], Result, Result]]) -> str:
    lines = [
        "shape                tried: full / pruned    first launch, s: full / pruned    ms: full / pruned"
    ]
    for shape, full, pruned in found:
        lines.append(
            f"{'x'.join(map(str, shape)):20} {full.tried:6} / {pruned.tried:<6} {full.seconds:16.2f} / "
            f"{pruned.seconds:<8.2f} {full.ms:20.4f} / {pruned.ms:<8.4f} {pruned.ms / full.ms:.3f}x"
        )
    ratios = [pruned.ms / full.ms for _, full, pruned in found]
    tried = [sum(r.tried for r in column) for column in ([f for _, f, _ in found], [p for _, _, p in found])]
    lines.append(
        f"tried {tried[0]} / {tried[1]}; time {geometric_mean(ratios):.3f}x, worst {max(ratios):.3f}x"
    )
    return "\n".join(lines)


def all_configs(space: Iterable[dict[str, Any]]) -> list[Any]:
    """The whole space as triton.Configs."""
    options = ("num_warps", "num_stages")
    return [
        triton.Config({n: v for n, v in c.items() if n not in options}, **{n: c[n] for n in options})
        for c in space
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "module", type=Path, help="what emit --target triton-autotune wrote for examples/matmul.py"
    )
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="so many of them, drawn with a seed")
    arguments = parser.parse_args()
    shapes = Random(3).sample(SHAPES, arguments.shapes)
    example = loaded(Path(__file__).parents[1] / "examples" / "matmul.py")
    space = example.tunable.space.parameters
    configs = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    bench = triton.runtime.driver.active.get_benchmarker()
    found = compared(example.kernel, all_configs(configs), loaded(arguments.module), shapes, bench, "cuda")
    print(torch.cuda.get_device_name(), "triton", triton.__version__)
    print(report(found))


if __name__ == "__main__":
    main()
