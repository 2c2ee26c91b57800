"""Seconds of `heurgen_kernels.warm_up` for a model: cold, and from Triton's cache. Each in a process of its own.

    PYTHONPATH=kernels python benchmarks/warm_up.py [-o FILE.json]

32/8 heads of 128, pages of 16, batches of up to 256 sequences and 8192 new tokens, contexts of up to 32768: what a
server of Llama-3.1-8B asks for. Needs a GPU; as many processes compile as there are processors at hand.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = """
import dataclasses, json, time
began = time.perf_counter()
import torch
from heurgen_kernels import Layout, warm_up
torch.zeros(1, device="cuda")
imported = time.perf_counter() - began
layout = Layout(num_query_heads=32, num_kv_heads=8, head_size=128, page_size=16, fresh=(False,))
done = warm_up([layout], max_num_seqs=256, max_num_batched_tokens=8192, max_seqlen=32768)
facts = {"import_s": imported, "device": torch.cuda.get_device_name()}
print(json.dumps(dataclasses.asdict(done) | facts))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path)
    output = parser.parse_args().output
    found = {"processors": len(os.sched_getaffinity(0))}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "cached", "cached again"):
            done = subprocess.run(
                [sys.executable, "-c", CODE],
                env=os.environ | {"TRITON_CACHE_DIR": cache},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            found[name] = json.loads(done.stdout.splitlines()[-1])
            print(name, found[name], flush=True)
    if output is not None:
        output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
