"""Seconds of `heurgen_kernels.warm_up` for a model: cold, and from Triton's cache. Each in a process of its own.

    PYTHONPATH=kernels python benchmarks/warm_up.py [-o FILE.json] [MODEL...]

What vLLM's warm-up asks for: views of a fused projection, pages of 16 tokens, K and V of a head side by side, batches
of up to 256 sequences and 8192 new tokens, contexts of up to 32768, decodes recorded in graphs. Models with two kinds
of layers compile for both. Needs a GPU; as many processes compile as there are processors at hand.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# query heads, KV heads, head size, then what layers have: a window (w), a soft cap (c), sinks (s)
MODELS = {
    "Llama-3.1 8B": [(32, 8, 128, "")],
    "Gemma-3 27B": [(32, 16, 128, "w"), (32, 16, 128, "")],
    "Gemma-3 4B": [(8, 4, 256, "w"), (8, 4, 256, "")],
    "Gemma-2 9B": [(16, 8, 256, "wc"), (16, 8, 256, "c")],
    "gpt-oss": [(64, 8, 64, "ws"), (64, 8, 64, "s")],
}
SEQS, TOKENS, LONGEST, PAGE = 256, 8192, 32768, 16


def layouts_of(heads: int, heads_kv: int, size: int, features: str) -> list[Any]:
    import torch
    from heurgen_kernels import Layout
    from heurgen_kernels.servers.vllm.batch import LONG_CHUNK

    row = (heads + 2 * heads_kv) * size, size
    one = Layout(
        heads, heads_kv, size, PAGE, fresh=(False,), fresh_from=2, window="w" in features, softcap="c" in features,
        sinks=torch.bfloat16 if "s" in features else None, written=True, stored=True, q_strides=row,
        new_strides=(row, row), page_strides=(2 * PAGE * heads_kv * size, 2 * size, 2 * PAGE * size),
    )  # fmt: skip
    if size > 128 or one.window or one.softcap:
        return [one]
    chunks = dataclasses.replace(
        one, fresh=(True,), fresh_from=LONG_CHUNK, pages=False, written=False, stored=False
    )
    return [one, chunks]


def measure(model: str) -> dict[str, Any]:
    """In this process."""
    began = time.perf_counter()
    import torch
    from heurgen_kernels import warm_up
    from heurgen_kernels.servers.vllm.batch import graph_config

    torch.zeros(1, device="cuda")
    imported = time.perf_counter() - began
    kinds = MODELS[model]
    layouts = [layout for kind in kinds for layout in layouts_of(*kind)]
    graphs = {graph_config(seqs, 1, *kind[:3]): None for kind in kinds for seqs in range(1, SEQS + 1)}
    done = warm_up(
        layouts, max_num_seqs=SEQS, max_num_batched_tokens=TOKENS, max_seqlen=LONGEST,
        graphs=[config for config in graphs if config is not None], max_graph_seqlen_q=1,
    )  # fmt: skip
    return dataclasses.asdict(done) | {"import_s": imported, "device": torch.cuda.get_device_name()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.models[0])))
        return
    found: dict[str, Any] = {"processors": len(os.sched_getaffinity(0))}
    for model in given.models:
        with tempfile.TemporaryDirectory() as cache:
            for name in ("cold", "cached"):
                done = subprocess.run(
                    [sys.executable, __file__, "--here", model],
                    env=os.environ | {"TRITON_CACHE_DIR": cache},
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                found.setdefault(model, {})[name] = json.loads(done.stdout.splitlines()[-1])
                print(model, name, found[model][name], flush=True)
    if given.output is not None:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
