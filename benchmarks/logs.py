"""CPU seconds and peak memory from a tuning log of 1,000,000 rows to its cost tables.

    python benchmarks/logs.py [--scenarios 5000] [--configs 200] [--quote | --jsonl] [--gzip]

The log: 5,000 scenarios x 200 configs, 15 columns, one percent failures, as CSV or JSON lines. Limits: read in 10 s of
one core and 1 GB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import itertools
import json
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.logs.validation import validate
from heurgen.spec.kernel_spec import read_spec

SPEC = """[kernel]
name = "synthetic"
[features]
num_seqs = { type = "int", min = 1 }
max_seqlen_q = { type = "int", min = 1 }
max_seqlen_k = { type = "int", min = 1 }
avg_seqlen_q = { type = "float", min = 0 }
decode_share = { type = "float", min = 0, max = 1 }
dtype = { type = "category", values = ["bfloat16", "float16"] }
[derived]
kv_tokens = "num_seqs * max_seqlen_k"
[parameters]
BLOCK_M = { type = "int" }
BLOCK_N = { type = "int" }
num_warps = { type = "int" }
num_stages = { type = "int" }
"""
HEADER = ["scenario", "vendor", "device", "num_seqs", "max_seqlen_q", "max_seqlen_k", "avg_seqlen_q"]
HEADER += ["decode_share", "dtype", "BLOCK_M", "BLOCK_N", "num_warps", "num_stages", "status", "time_ms"]


def write_log(path: Path, scenarios: int, n_configs: int, *, quote: bool, jsonl: bool, zipped: bool) -> None:
    rows = _rows(random.Random(0), scenarios, n_configs)
    text = io.StringIO(newline="")
    if jsonl:
        text.writelines(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in rows)
    else:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL)
        writer.writerow(HEADER)
        writer.writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, 1) if zipped else data)


def _rows(draw: random.Random, scenarios: int, n_configs: int) -> Iterator[list[object]]:
    blocks = (16, 32, 64, 128, 256)
    configs = list(
        itertools.islice(itertools.product(blocks, blocks, (1, 2, 4, 8, 16), range(1, 9)), n_configs)
    )
    for scenario in range(scenarios):
        numbers = [draw.randint(1, 512), draw.randint(1, 8192), draw.randint(1, 131072)]
        shares = [round(draw.random() * 8192, 3), round(draw.random(), 4)]
        head = [scenario, "nvidia", "NVIDIA H200", *numbers, *shares, draw.choice(["bfloat16", "float16"])]
        for config in configs:
            ok = draw.random() > 0.01
            yield [*head, *config, *(("ok", round(draw.uniform(0.01, 5), 6)) if ok else ("error", None))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=int, default=5000)
    parser.add_argument("--configs", type=int, default=200, help="at most 1000")
    parser.add_argument("--quote", action="store_true", help="quote every cell")
    parser.add_argument("--jsonl", action="store_true", help="JSON lines")
    parser.add_argument("--gzip", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, spec_path = Path(folder, "log.csv"), Path(folder, "spec.toml")
        spec_path.write_text(SPEC)
        # In a process of its own, so that its memory does not count.
        write_apart(path, options)
        spec = read_spec(spec_path)
        start = time.process_time()
        log = read_logs([path], spec)
        read = time.process_time()
        tables = cost_tables(log, spec)
        done = time.process_time()
        validate(log, tables, spec)
        checked = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{log.n_measurements} rows, {log.n_scenarios} scenarios, {log.n_configs} configs")
    print(f"read_logs    {read - start:6.2f} s")
    print(f"cost_tables  {done - read:6.2f} s")
    print(f"validate     {checked - done:6.2f} s")
    print(f"peak memory  {peak:6.2f} GiB")


def write_apart(path: Path, options: argparse.Namespace) -> None:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    writer = context.Process(
        target=write_log,
        args=(path, options.scenarios, options.configs),
        kwargs={"quote": options.quote, "jsonl": options.jsonl, "zipped": options.gzip},
    )
    writer.start()
    writer.join()
    if writer.exitcode:
        raise SystemExit("the log could not be written")


if __name__ == "__main__":
    main()
