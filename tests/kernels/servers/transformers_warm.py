"""What `generate_batch` compiles behind its first batch: on a GPU that Triton believes in, where kernels do nothing.

    python -m tests.kernels.servers.transformers_warm

Prints a JSON object: of each model, the kernels that warm-ups asked for and those that later launches compiled. "cold"
is one without a warm-up.
"""

from __future__ import annotations

import json
from functools import partial

from tests.kernels.ahead.hopper import pretend, watching

pretend()

import torch  # noqa: E402
import transformers as hf  # noqa: E402
from heurgen_kernels.ahead import compiling  # noqa: E402
from heurgen_kernels.ahead.warm import WarmUp  # noqa: E402
from heurgen_kernels.servers import transformers as ours  # noqa: E402
from heurgen_kernels.servers.transformers import warm  # noqa: E402
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager  # noqa: E402

from tests.kernels.servers.tiny_models import GREEDY, gemma, gpt_oss, llama, prompts  # noqa: E402

PAGES = hf.ContinuousBatchingConfig(
    16, num_blocks=128, max_batch_tokens=96, use_async_batching=False, use_cuda_graph=False
)
ROUNDS = [(5,), (27, 3, 60, 1), (300,), (90, 2, 150), tuple(range(1, 30))]


def found(made, warm_up):
    """Of prompts, chunks and decodes, few and many of them."""
    seen, asked = [], []
    loop, warmed = ContinuousBatchingManager._run_generation_loop, warm.warm_up

    def watched(*given, **more):  # what replaces compiling does so for its own thread
        with watching() as those:
            seen.append(those)
            loop(*given, **more)

    def noted(*args, **kwargs):
        before = len(seen[-1].compiled)
        warmed(*args, **kwargs)
        asked.extend(seen[-1].compiled[before:])
        return WarmUp(0, 0, 0.0)

    ContinuousBatchingManager._run_generation_loop, warm.warm_up = watched, noted
    torch.manual_seed(0)
    model = ours.continuous(made("cpu"), warm_up=warm_up)
    for lengths in ROUNDS:
        requests = [ids.tolist() for ids in prompts("cpu", *lengths)]
        assert len(model.generate_batch(requests, GREEDY, continuous_batching_config=PAGES)) == len(requests)
    ContinuousBatchingManager._run_generation_loop, warm.warm_up = loop, warmed
    late = [name for those in seen for name, key in those.compiled if (name, key) not in asked]
    return {"asked": len(asked), "late": late, "launched": sum(len(those.launched) for those in seen)}


def main():
    ours.interpreted = lambda: True  # of the reasons not to launch on a CPU this is the first
    compiling.share = lambda jobs, processes: None
    cold = found(partial(llama, head_dim=32), False)
    print(
        json.dumps({"cold": cold, **{made.__name__: found(made, True) for made in (llama, gpt_oss, gemma)}})
    )


if __name__ == "__main__":
    main()
