"""`heurgen init` on the kinds of table that people have: problems are features, launches are parameters."""

from __future__ import annotations

import csv
import io
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.support.drafts import draft_spec

Values = dict[str, list[Any]]
# kind -> (features, parameters, other columns, the time's column, its texts, delimiter, what [log] says)
KINDS: dict[str, tuple[Values, Values, Values, str, str, dict[str, Any]]] = {
    "convolution": (
        {
            "in_c": [3, 64], "in_h": [14, 56], "fil_h": [1, 3], "out_c": [64, 128], "pad_h": [0, 1], "stride_h": [1, 2],
            "groups": [1, 2], "direction": ["F", "B"],
        },
        {"solver": ["ConvAsm", "Winograd", "Gemm"]},
        {"kernelName": ["k1", "k2", "k3"], "device": ["gfx942"]}, "time_ms", ",", {},
    ),
    "gemm": (
        {"M": [1, 64, 4096], "N": [4096, 11008], "dtype": ["bf16", "fp8"]},
        {"BLOCK_SIZE_M": [16, 64], "GROUP_SIZE_M": [1, 8], "num_stages": [2, 3]},
        {"tflops": [1.5, 2.5, 3.5], "device": ["NVIDIA A100-SXM4-80GB"]}, "time_us", ",", {"unit": None},
    ),
    "attention": (
        {"batch": [1, 64], "seq_len": [128, 2048], "head_dim": [64, 128], "causal": [True, False]},
        {"BLOCK_M": [64, 128], "num_warps": [4, 8]},
        {"gpu_name": ["NVIDIA H200"]}, "latency (ms)", ",", {"time": "latency (ms)"},
    ),
    "throughput": (
        {"num_tokens": [1, 4096], "hidden_size": [2048, 8192]}, {"BLOCK_SIZE": [256, 1024], "num_warps": [2, 4]},
        {"device": ["AMD Instinct MI300X"]}, "gbps", ",", {"objective": "max"},
    ),
    "tokens per second": (
        {"tokens": [1, 4096], "hidden": [2048, 8192]}, {"tile": [256, 1024], "threads": [64, 128]},
        {"gpu": ["NVIDIA L40S"]}, "tokens_per_s", ",", {"objective": "max"},
    ),
    "failures": (
        {"m": [1, 512], "n": [64, 4096]}, {"block_m": [16, 64, 128, 256], "num_warps": [4, 8]},
        {"device": ["NVIDIA H100 80GB HBM3"]}, "time", ",", {"failures": ("-1", "nan", "oom")},
    ),
    "failures of Triton": (
        {"m": [1, 512], "n": [64, 4096]}, {"block_m": [16, 64, 128, 256], "num_warps": [4, 8]},
        {"device": ["NVIDIA H100 80GB HBM3"]}, "ms", ",",
        {"failures": ("0.0", "compilationerror", "out of resource: shared memory", "outofresources")},
    ),
    "semicolon": (
        {"n_rows": [1, 512], "n_cols": [64, 4096]}, {"BLOCK": [16, 64], "num_warps": [4, 8]},
        {"device": ["NVIDIA H100"]}, "mean_time", ";", {},
    ),
    "tab": (
        {"query_len": [1, 7], "kv_len": [128, 4096]}, {"tile_size": [16, 32], "num_segments": [1, 8]},
        {"arch": ["sm_90"], "run": [1], "host": ["a"]}, "kernel_ns", "\t", {"time": "kernel_ns"},
    ),
    "Kernel Tuner's names": (
        {"x_size": [1000, 10**7], "reduction_dim": [0, 1]},
        {"block_size_x": [128, 512], "vector_length": [1, 4], "use_shmem": [0, 1], "tile_size_y": [1, 2]},
        {"device": ["NVIDIA A100"]}, "timing_ms", ",", {},
    ),
    "names that say nothing": (
        {"alpha": [2, 5, 9], "beta": ["r", "s"], "gamma": [1, 20000]}, {"num_warps": [2, 4], "delta": [1, 3]},
        {"device": ["NVIDIA A100"]}, "elapsed_us", ",", {},
    ),
}  # fmt: skip


def table(kind: str) -> str:
    """Every problem with every config, problems in the outer loops, features before parameters."""
    features, parameters, others, time, delimiter, _ = KINDS[kind]
    dice = random.Random(kind)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow([*features, *parameters, *others, time])
    for row in itertools.product(*features.values(), *parameters.values()):
        value: Any = dice.uniform(1.0, 9.0)
        if kind == "failures":
            value = dice.choice([value] * 4 + ["OOM", "-1", "nan"])
        if kind == "failures of Triton":
            words = ["OutOfResources", "CompilationError", "out of resource: shared memory", "0.0"]
            value = dice.choice([value] * 4 + words)
        writer.writerow([*row, *(dice.choice(v) for v in others.values()), value])
    return out.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_guesses_are_right(tmp_path: Path, kind: str) -> None:
    features, parameters, _, time, _, said = KINDS[kind]
    path = tmp_path / "log.csv"
    path.write_text(table(kind))
    spec = parse_spec(draft_spec([path]))
    assert {f.name for f in spec.features} == set(features)
    assert {p.name for p in spec.parameters} == set(parameters)
    assert spec.log.time == time
    assert {key: getattr(spec.log, key) for key in said} == said
    log = read_logs([path], spec)
    n = 1
    for values in features.values():
        n *= len(values)
    assert log.n_scenarios == n
