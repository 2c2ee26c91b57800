"""Host time of one launch and of its parts, beside vLLM's wrapper and FlashAttention-3's, in microseconds.

    python benchmarks/host.py [-o FILE.json]

bf16, 32/8 heads of 128, pages of 16. Medians over rounds after a warm-up; a round launches less than the launch queue
holds, behind a kernel that keeps the GPU busy, so that the host waits for nothing. Peers: see peers.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LLAMA = {"num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, "dtype": "bfloat16"}
BATCHES = {
    "decode": ((1, 700),) * 12,
    "prompt": ((600, 600),) * 2,
    "mixed": ((1, 700),) * 12 + ((600, 600),),
}
COLUMNS = (
    "validate", "select_same", "select_new", "cut", "key", "descriptors", "launch", "paged_attention", "vllm", "fa3",
)  # fmt: skip
IN_FLIGHT, ROUNDS, SPIN = 50, 41, 300_000


def microseconds(call: Callable[[], Any], launches: bool = False) -> float:
    """Of one call. launches: the call launches a kernel."""
    for _ in range(5):
        call()
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        if launches:
            torch.cuda._sleep(SPIN)
        start = time.perf_counter()
        for _ in range(IN_FLIGHT):
            call()
        found.append((time.perf_counter() - start) / IN_FLIGHT * 1e6)
    torch.cuda.synchronize()
    return statistics.median(found)


def parts(inputs: Any) -> dict[str, float]:
    from heurgen_kernels.api import paged_attention
    from heurgen_kernels.host import launch, plan, segments, select, validate
    from heurgen_kernels.host.call import Call

    given = (
        inputs.q, inputs.key_cache, inputs.value_cache, inputs.block_table, inputs.cu_seqlens_q, inputs.seq_lens,
    )  # fmt: skip
    a = inputs.arguments
    call = Call(
        *given, inputs.out, a["max_seqlen_q"], a["max_seqlen_k"], a["scale"], a.get("key"), a.get("value"),
        total_k=a["total_seqlen_k"],
    )  # fmt: skip
    validate.check(call)
    wish = select.choose(call, None)
    config = segments.cut(wish, call) if wish.programs_per_sm else wish
    for _ in range(2):
        launch.launch(call, config)
    chooser = select._choosers[id(None), False, call.layout.device.model]

    def another() -> None:
        chooser.last = ((), None)
        select.choose(call, None)

    def key() -> tuple[Any, ...]:
        return plan.plan_key(call, config, plan.addresses_of(call))

    made, addresses = launch._plans[key()], plan.addresses_of(call)

    return {
        "validate": microseconds(lambda: validate.check(call)),
        "select_same": microseconds(lambda: select.choose(call, None)),
        "select_new": microseconds(another),
        "cut": microseconds(lambda: segments.cut(wish, call)),
        "key": microseconds(key),
        "descriptors": microseconds(lambda: described(made, call, addresses)),
        "launch": microseconds(lambda: launch.launch(call, wish), True),
        "paged_attention": microseconds(lambda: paged_attention(*given, **a, out=inputs.out), True),
    }


def described(made: Any, call: Any, addresses: tuple[int, ...]) -> None:
    """The descriptors that a bound launch of a plan takes, as `launch` asks for them."""
    from heurgen_kernels.host import descriptors, launch

    _, k, v, new_k, new_v, *_ = addresses
    if made.tma[0]:
        key = (k, v, call.layout.pages)
        made.bound.descriptors(launch.SLOTS[0], key, descriptors.page_descriptors, made, call)
    if made.tma[1]:
        key = (new_k, new_v, call.layout.tokens)
        made.bound.descriptors(launch.SLOTS[1], key, descriptors.new_descriptors, made, call)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, help="write the table as JSON")
    output = parser.parse_args().output
    if not torch.cuda.is_available():
        print("benchmarks/host.py needs a GPU: torch sees none", file=sys.stderr)
        raise SystemExit(2)
    import peers
    import triton
    from heurgen_kernels.tools.tunable import make_inputs

    no_fa3, (vllm, no_vllm) = peers.load_fa3(), peers.load_vllm()
    for reason in filter(None, (no_fa3, no_vllm)):
        print(reason, file=sys.stderr)
    gc.disable()
    table: dict[str, dict[str, float]] = {}
    print("microseconds".ljust(15) + "".join(name.rjust(16) for name in COLUMNS))
    for name, lengths in BATCHES.items():
        for fresh in (False, True):
            inputs = make_inputs(lengths, {**LLAMA, "fresh": fresh}, "cuda", 0)
            row = parts(inputs)
            if vllm is not None:
                row["vllm"] = microseconds(peers.vllm_call(vllm, inputs), True)
            if no_fa3 is None:
                row["fa3"] = microseconds(peers.fa3_call(inputs), True)
            table[f"{name}, {'fresh' if fresh else 'pages'}"] = row
            cells = (f"{row[c]:16.2f}" if c in row else "-".rjust(16) for c in COLUMNS)
            print(list(table)[-1].ljust(15) + "".join(cells))
    if output is not None:
        versions = {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "triton": triton.__version__,
        }
        header = {"device": torch.cuda.get_device_name(), **versions, "unit": "microseconds"}
        output.write_text(json.dumps(header | {"host_time": table}, indent=2) + "\n")


if __name__ == "__main__":
    main()
