"""Llama end to end: ours, torch.compile with cuBLAS and PyTorch's attention, and FlashAttention-3 with cuBLAS.

    PYTHONPATH=kernels python benchmarks/llama.py -o FOLDER [--batches 2,1,8,64] [--backends heurgen,sdpa,fa3]
        [--layers 32] [--prompt 512] [--tokens 256] [--rounds 3] [--budget 150]

examples/llama.py with random weights in Llama-3-8B's shape, bf16: one set of weights for all backends, each compiled
with torch.compile, prompt and decode step recorded as a CUDA graph each. A round generates with each backend in turn,
so that a drift of the machine meets all of them; wall-clock times, medians of the rounds. First, processes of their own
compile what a batch launches, so that the caches on disk have it. FlashAttention-3: see peers.py; without it it is left
out with a message. No round begins after --budget seconds.

Tokens: all backends then decode the same tokens (`sdpa`'s choices), and logits are compared, two sequences also with
the same model in float32: `noise` is each backend's distance from that. A token that differs is a near-tie where `sdpa`
preferred its own by no more than six times its noise.

Writes llama.json and llama.csv after each batch, llama.png where matplotlib is installed, beside the figures 7 and 8 of
"CUDA-Free Inference for LLMs" (pytorch.org/blog/cuda-free-inference-for-llms, 2024-09-04).
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import multiprocessing
import os
import statistics
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Before torch is imported, and the same in the processes that compile ahead.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks")]

import llama  # noqa: E402 (the example, which stands first in the path)
import llama_parts as parts  # noqa: E402
import torch  # noqa: E402
from kernel_names import foreign, launched, our_kernels  # noqa: E402

BACKENDS = ("heurgen", "sdpa", "fa3")
NAMES = {"heurgen": "heurgen", "sdpa": "cuBLAS, PyTorch's attention", "fa3": "cuBLAS, FlashAttention-3"}
# What the post measured on an H100: ms a token of its figure 7 (Llama3-8B, compiled, batch 2, 512 in, 256 out), the
# share of the CUDA models' speed that its text gives, and microseconds of its figure 8 (batch 1, 44 tokens).
POST = {
    "source": "https://pytorch.org/blog/cuda-free-inference-for-llms",
    "ms a token": {"triton": 10.61, "cuda": 8.59},
    "speed, text": [0.76, 0.78],
    "kernels": {
        "QKV": {"triton": 25, "cuda": 21}, "attention": {"triton": 13, "cuda": 8},
        "output": {"triton": 21, "cuda": 17}, "gate and up": {"triton": 84, "cuda": 83},
        "down": {"triton": 58, "cuda": 42},
    },
}  # fmt: skip
STEPS = 48  # of the comparison of logits


@dataclass
class Record:
    """What was found so far; `write` makes files of it."""

    facts: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    tokens: dict[str, Any] = field(default_factory=dict)
    kernels: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def failed(self, what: str, error: BaseException) -> None:
        """One backend's failure does not lose what the others do."""
        self.errors[what] = f"{type(error).__name__}: {str(error)[:400]}"
        say(what, "failed")
        traceback.print_exception(error, limit=-8)


def say(*words: Any) -> None:
    print(f"[{time.monotonic() - STARTED:6.1f}s]", *words, flush=True)


STARTED = time.monotonic()


def compile_one(job: tuple[str, int, int, int, bool]) -> str | None:
    """Runs a layer, the embedding and the head once, on a batch, for what lies in caches on disk afterwards."""
    backend, batch, prompt, tokens, decodes = job
    try:
        parts.add_fa3()
        a = llama.Architecture(layers=1)
        model = llama.Llama(a, llama.random_weights(a, "cuda", torch.bfloat16), backend).compile()
        state = llama.State(model, batch, prompt + tokens)
        if decodes:
            model.decode(state)
        else:
            model.prompt(torch.zeros((batch, prompt), dtype=torch.int64, device="cuda"), state)
        torch.cuda.synchronize()
    except Exception as error:  # the measurement meets it again, and says so
        return f"compiling ahead, {backend}, batch {batch}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        model = state = None
        gc.collect()
        torch.cuda.empty_cache()
    return None


def compile_all(given: argparse.Namespace) -> None:
    jobs = [
        (backend, batch, given.prompt, given.tokens, decodes)
        for backend in given.backends
        for batch in given.batches
        for decodes in (True, False)
    ]
    workers = max(1, min(14, (os.cpu_count() or 2) - 2, len(jobs)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for failure in pool.map(compile_one, jobs):
                if failure:
                    say(failure)
        except BrokenProcessPool as error:  # what is not compiled ahead is compiled later
            say("compiling ahead:", error)


def measure_batch(
    batch: int, models: dict[str, llama.Llama], given: argparse.Namespace, record: Record
) -> None:
    """All backends at one batch: rounds, then the comparison of tokens, then, once, what a step launches."""
    runs = recorded(batch, models, given, record)
    for number in range(given.rounds):
        if number and time.monotonic() - STARTED > given.budget:
            say("out of time before round", number, "of batch", batch)
            break
        for backend, run in list(runs.items()):
            try:
                first, step = run.generate(given.tokens)
            except Exception as error:
                record.failed(f"{backend}, batch {batch}, round {number}", error)
                del runs[backend]
                continue
            record.rows.append({"batch": batch, "backend": backend, "round": number,
                                "first_token_ms": first, "token_ms": step})  # fmt: skip
    write(record, given.output)
    try:
        if len(runs) > 1:
            record.tokens[str(batch)] = parts.compare_tokens(runs, min(STEPS, given.tokens - 1))
        for backend, run in runs.items():
            if torch.cuda.is_available() and backend not in record.steps:
                record.steps[backend] = step_kernels(run)
    except Exception as error:
        record.failed(f"tokens and kernels, batch {batch}", error)


def recorded(
    batch: int, models: dict[str, llama.Llama], given: argparse.Namespace, record: Record
) -> dict[str, parts.Run]:
    """A run of each backend that can, warmed up, all with the same prompts."""
    a, norm = next((model.a, model.weights.norm) for model in models.values())
    generator = torch.Generator(norm.device).manual_seed(batch)
    shape = (batch, given.prompt)
    prompts = torch.randint(a.vocabulary, shape, generator=generator, device=norm.device)
    runs = {}
    for backend, model in models.items():
        try:
            run = parts.Run(model, prompts, given.tokens)
            run.generate(min(given.tokens, 16))
        except Exception as error:
            record.failed(f"{backend}, batch {batch}", error)
        else:
            runs[backend] = run
            say("batch", batch, backend, "is recorded")
    return runs


def step_kernels(run: parts.Run) -> dict[str, Any]:
    """Kernels of a decode step with how often each ran, and those among them that are not Triton's."""
    run.prompt()  # room for further steps
    names = launched(run.decode)
    return {"count": len(names), "foreign": foreign(names, our_kernels()), "kernels": Counter(names)}


def summary(record: Record) -> list[dict[str, Any]]:
    """Of each batch: medians, and the time of the other backends over ours."""
    found = []
    for batch in dict.fromkeys(row["batch"] for row in record.rows):
        line: dict[str, Any] = {"batch": batch}
        for value in ("token_ms", "first_token_ms"):
            medians = {}
            for backend in BACKENDS:
                times = [r[value] for r in record.rows if (r["batch"], r["backend"]) == (batch, backend)]
                if times:
                    medians[backend] = statistics.median(times)
            line[value] = medians
            others = {backend: time for backend, time in medians.items() if backend != "heurgen"}
            if "heurgen" in medians and others:
                line[f"{value}, others / ours"] = {b: time / medians["heurgen"] for b, time in others.items()}
                line[f"{value}, best other / ours"] = min(others.values()) / medians["heurgen"]
        found.append(line)
    return found


def write(record: Record, folder: Path) -> None:
    """After every batch, so that what a time limit cuts off is kept."""
    found = {
        **record.facts, "post": POST, "summary": summary(record), "kernels_us": record.kernels,
        "tokens": record.tokens, "decode_step": record.steps, "errors": record.errors,
    }  # fmt: skip
    (folder / "llama.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if record.rows:
        with (folder / "llama.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(record.rows[0]))
            writer.writeheader()
            writer.writerows(record.rows)


def plot(record: Record, path: Path) -> None:
    """The post's figures 7 and, where its kernels were measured, 8 beside ours: shares of the CUDA kernels' speed."""
    try:
        import matplotlib
    except ImportError:
        say("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    wide = 2 if record.kernels else 1
    figure, panels = pyplot.subplots(1, wide, figsize=(6 * wide, 4.2), squeeze=False)
    draw_steps(panels[0][0], record)
    if record.kernels:
        draw_kernels(panels[0][1], record)
    for axes in panels[0]:
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def draw_steps(axes: Any, record: Record) -> None:
    lines = [line for line in summary(record) if "token_ms, best other / ours" in line]
    post = POST["ms a token"]
    bars = {"the post, batch 2\n(H100)": post["cuda"] / post["triton"]}
    bars |= {f"heurgen,\nbatch {line['batch']}": line["token_ms, best other / ours"] for line in lines}
    drawn = axes.bar(list(bars), list(bars.values()), color=["tab:gray", *["tab:orange"] * len(lines)])
    axes.bar_label(drawn, fmt="%.2f")
    axes.axhspan(*POST["speed, text"], color="tab:gray", alpha=0.3, label="the post's text")
    axes.set_title(
        f"Figure 7: speed of a decode step, CUDA kernels = 1 ({record.facts['device']})", fontsize=9
    )


def draw_kernels(axes: Any, record: Record) -> None:
    names = list(POST["kernels"])
    for place, (who, colour) in enumerate((("the post (H100)", "tab:gray"), ("heurgen", "tab:orange"))):
        heights = []
        for name in names:
            us = POST["kernels"][name] if place == 0 else record.kernels.get(name, {})
            ours = us.get("triton", us.get("heurgen"))
            others = [value for key, value in us.items() if key in ("cuda", "sdpa", "fa3")]
            heights.append(min(others) / ours if ours and others else 0.0)
        at = [number + 0.4 * place for number in range(len(names))]
        axes.bar_label(axes.bar(at, heights, 0.38, color=colour, label=who), fmt="%.2f", fontsize=8)
    axes.set_xticks([number + 0.2 for number in range(len(names))], names)
    axes.set_title("Figure 8: speed of a kernel, best CUDA kernel = 1 (batch 1, 44 tokens)", fontsize=9)


def show(record: Record) -> None:
    for line in summary(record):
        for value in ("token_ms", "first_token_ms"):
            times = "  ".join(f"{NAMES[b]} {ms:.3f}" for b, ms in line[value].items())
            ratio = line.get(f"{value}, best other / ours")
            print(f"batch {line['batch']:3d} {value:15} {times}  best other / ours {ratio or 0:.3f}")
    for name, us in record.kernels.items():
        print(f"{name:12}", "  ".join(f"{backend} {value:.1f} us" for backend, value in us.items()))
    for batch, found in record.tokens.items():
        print(f"tokens, batch {batch}:", json.dumps(found))
    for backend, found in record.steps.items():
        print(f"{backend}: {found['count']} kernels a step, not Triton's:", *found["foreign"] or ["none"])
    for what, error in record.errors.items():
        print("ERROR", what, error)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--batches", type=numbers, default=[2, 1, 8, 64])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=list(BACKENDS))
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=256, help="to generate, the first one counted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=150.0, help="seconds after which no round begins")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/llama.py needs a GPU: torch sees none")
    missing = parts.add_fa3()
    if missing and "fa3" in given.backends:
        say("skipped:", missing)
        given.backends.remove("fa3")
    given.output.mkdir(parents=True, exist_ok=True)
    facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
             "setting": {name: getattr(given, name) for name in ("layers", "prompt", "tokens", "rounds")}}  # fmt: skip
    record = Record(facts)
    compile_all(given)
    say("compiled ahead")
    a = llama.Architecture(layers=given.layers)
    weights = llama.random_weights(a, "cuda", torch.bfloat16)
    models = {backend: llama.Llama(a, weights, backend).compile() for backend in given.backends}
    gc.disable()  # a collection would count as a step's time
    for batch in given.batches:
        if time.monotonic() - STARTED > given.budget:
            say("out of time before batch", batch)
            break
        measure_batch(batch, models, given, record)
        gc.collect()
        torch.cuda.empty_cache()
        write(record, given.output)
    record.kernels |= parts.kernel_times(a, weights, given.backends, record.failed)
    write(record, given.output)
    show(record)
    plot(record, given.output / "llama.png")
    say("done")


if __name__ == "__main__":
    main()
