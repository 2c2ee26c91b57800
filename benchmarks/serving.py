"""Served end to end by vLLM: stock Triton, FlashAttention-3 and ours, interleaved.

    python benchmarks/serving.py -o FOLDER [--modes full_decode,default] [--backends triton,flash,heurgen]
        [--lines latency,long,...] [--runs 3] [--budget 500]

Needs a GPU, vLLM within the plugin's tested range, and heurgen[kernels] beside it. Each backend is an engine in a
process of its own; all of a mode are up at the same time and idle while another one measures, and each measurement
goes round the engines `--runs` times, so that a drift of the machine meets all of them. Lines (prompt + output tokens):

    latency   one request, 500 + 100 to 4000, as in Fig. 9 of the paper
    long      one request, 30000 + 64: time to first token, and a step after it
    mix64, mix256   so many requests at once, 100 to 4000 + 64 to 256
    chunked   eight prompts of 12000 to 20000 at once, cut into chunks by vLLM: time to first token
    decode16  sixteen requests of 30000: a step once all have their first token (63 GB of cache at 32 layers)
    load      500 requests with prompts of 1 to 8000: what vLLM's monitor of compilation sees

Writes serving.csv (a row a run), serving.json (medians, ratios, first tokens compared), serving.png where matplotlib
is installed; prints the ratios.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

BACKENDS = ("triton", "flash", "heurgen")
NAMES = {"triton": "vLLM's Triton kernels", "flash": "FlashAttention-3", "heurgen": "heurgen"}
CHECKED = [(37, 8), (500, 8), (3000, 8)]


@dataclass(frozen=True, slots=True)
class Line:
    """A workload. value: what is compared, of `serving_engine.serve`'s answer; all are seconds, less is better."""

    name: str
    requests: list[tuple[int, int]]
    values: tuple[str, ...] = ("seconds",)
    backends: tuple[str, ...] = BACKENDS


def lines(outputs: list[int], count: int) -> dict[str, list[Line]]:
    """count: requests of `load`."""

    def drawn(
        count: int, prompts: tuple[int, int], answers: tuple[int, int], seed: int
    ) -> list[tuple[int, int]]:
        rng = Random(seed)
        return [(rng.randint(*prompts), rng.randint(*answers)) for _ in range(count)]

    rng = Random(5)
    load = [(round(8000 ** rng.random()), rng.randint(1, 32)) for _ in range(count)]
    return {
        "latency": [Line(f"500 + {n}", [(500, n)]) for n in outputs],
        "long": [Line("30000 + 64", [(30000, 64)], ("first_token_s", "step_s"))],
        "mix64": [Line("64 at once", drawn(64, (100, 4000), (64, 256), 7))],
        "mix256": [Line("256 at once", drawn(256, (100, 4000), (64, 256), 8))],
        "chunked": [Line("8 long prompts", drawn(8, (12000, 20000), (1, 1), 9), ("first_token_s",))],
        "decode16": [Line("16 x 30000", [(30000, 96)] * 16, ("step_s",))],
        "load": [Line(f"{count} of 1 to 8000", load)],
    }


@dataclass(slots=True)
class Engine:
    """A process of serving_engine.py."""

    backend: str
    process: subprocess.Popen[str]
    facts: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"the engine with {NAMES[self.backend]} ended; its log says why")
        found: dict[str, Any] = json.loads(text)
        return found

    def ask(self, requests: list[tuple[int, int]], seed: int, logprobs: int | None = None) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(
            json.dumps({"requests": requests, "seed": seed, "logprobs": logprobs}),
            file=self.process.stdin,
            flush=True,
        )
        return self.answer()


def start(backend: str, mode: str, given: argparse.Namespace) -> Engine:
    settings = {
        "backend": backend, "mode": mode, "layers": given.layers, "max_model_len": 32768, "gpus": given.gpus,
        "max_num_seqs": 256, "max_batched": given.max_batched, "cache_gib": given.cache_gib,
        "graphs": [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256],
    }  # fmt: skip
    log = (given.output / f"{mode}_{backend}.log").open("w", encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("serving_engine.py")), json.dumps(settings)]
    return Engine(
        backend,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True),
    )


def measure(mode: str, given: argparse.Namespace, deadline: float) -> Iterator[dict[str, Any]]:
    """A row of serving.csv for each run; the first of each kind warms up and is not written."""
    engines = [start(backend, mode, given) for backend in given.backends]
    try:
        for engine in engines:
            engine.facts = engine.answer()
            say(mode, NAMES[engine.backend], engine.facts)
        compare_tokens(mode, engines, given)
        for kind in given.lines:
            for line in lines(given.outputs, given.load)[kind]:
                these = [engine for engine in engines if engine.backend in line.backends]
                for run in range(1 if kind in ("load", "decode16") else given.runs + 1):
                    if time.monotonic() > deadline:
                        say("out of time before", mode, kind, line.name, "run", run)
                        return
                    for engine in these:
                        found = engine.ask(line.requests, run)
                        if run or kind in ("load", "decode16"):
                            yield {"mode": mode, "kind": kind, "line": line.name, "backend": engine.backend,
                                   "run": run, **found}  # fmt: skip
                say(mode, line.name, "done")
    finally:
        for engine in engines:
            engine.process.kill()


def compare_tokens(mode: str, engines: list[Engine], given: argparse.Namespace) -> None:
    """Greedy tokens of each engine beside FlashAttention-3's, and how near the two were where they part."""
    answers = {engine.backend: engine.ask(CHECKED, 11, 5)["answers"] for engine in engines}
    (given.output / f"{mode}_tokens.json").write_text(json.dumps(answers), encoding="utf-8")
    if "flash" not in answers:
        return
    for backend, ours in answers.items():
        for (prompt, _), mine, theirs in zip(CHECKED, ours, answers["flash"], strict=True):
            say(mode, NAMES[backend], "prompt", prompt, parting(mine, theirs))


def parting(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Where two greedy answers part, and by how much each preferred its token: near-ties are within bf16's noise."""
    for step, (a, b) in enumerate(zip(mine["tokens"], theirs["tokens"], strict=True)):
        if a != b:
            gaps = [
                abs(probabilities.get(str(a), -math.inf) - probabilities.get(str(b), -math.inf))
                for probabilities in (mine["logprobs"][step], theirs["logprobs"][step])
            ]
            return f"tokens part at step {step}, log-probabilities apart by {gaps[0]:.4f} and {gaps[1]:.4f}"
    off = max(
        abs(x - y)
        for one, other in zip(mine["logprobs"], theirs["logprobs"], strict=True)
        for x, y in [(one[t], other[t]) for t in one if t in other]
    )
    return f"{len(mine['tokens'])} tokens equal, log-probabilities within {off:.4f}"


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians of the runs, and each backend's time over ours."""
    found = []
    keys = list(dict.fromkeys((row["mode"], row["kind"], row["line"]) for row in rows))
    for mode, kind, name in keys:
        for value in ("seconds", "first_token_s", "step_s"):
            medians = {}
            for backend in BACKENDS:
                times = [
                    r[value] for r in rows if (r["mode"], r["line"], r["backend"]) == (mode, name, backend)
                ]
                if times and None not in times:
                    medians[backend] = statistics.median(times)
            if "heurgen" in medians:
                ratios = {b: medians[b] / medians["heurgen"] for b in medians if b != "heurgen"}
                found.append({"mode": mode, "kind": kind, "line": name, "value": value, "medians": medians,
                              "over_ours": ratios})  # fmt: skip
    return found


def plot(found: list[dict[str, Any]], path: Path) -> None:
    try:
        from matplotlib import pyplot
    except ImportError:
        say("no plot: matplotlib is not installed")
        return
    kept = {"latency": "seconds", "long": "first_token_s", "chunked": "first_token_s", "decode16": "step_s"}
    shown = [row for row in found if row["value"] == kept.get(row["kind"], "seconds") or
             (row["kind"], row["value"]) == ("long", "step_s")]  # fmt: skip
    figure, axes = pyplot.subplots(figsize=(9, 0.5 + 0.42 * len(shown)))
    for place, row in enumerate(shown):
        for backend, colour in (("triton", "tab:gray"), ("flash", "tab:blue")):
            ratio = row["over_ours"].get(backend)
            if ratio is not None:
                axes.plot(ratio, -place, "o", color=colour, label=NAMES[backend] if not place else None)
    what = {"seconds": "", "first_token_s": ", first token", "step_s": ", a step"}
    axes.set_yticks([-i for i in range(len(shown))],
                    [f"{row['mode']}: {row['line']}{what[row['value']]}" for row in shown])  # fmt: skip
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("time of the other backend / ours: right of the line ours is faster")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def say(*words: Any) -> None:
    print(f"[{time.monotonic() - STARTED:6.1f}s]", *words, file=sys.stderr, flush=True)


STARTED = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["full_decode", "default"])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=list(BACKENDS))
    parser.add_argument("--lines", type=lambda text: text.split(","), default=list(lines([], 0)))
    parser.add_argument("--outputs", type=lambda text: [int(n) for n in text.split(",")],
                        default=[100, 500, 1000, 2000, 4000], help="output tokens of `latency`")  # fmt: skip
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--load", type=int, default=500)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--gpus", type=int, default=1, help="tensor parallel")
    parser.add_argument("--max-batched", type=int, default=8192)
    parser.add_argument("--cache-gib", type=float, default=24.0, help="of each engine's pages")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no run begins")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for mode in given.modes:
        for row in measure(mode, given, STARTED + given.budget):
            rows.append(row)
            write(rows, given.output)
    found = summary(rows)
    plot(found, given.output / "serving.png")
    for row in found:
        ratios = ", ".join(f"{NAMES[b]} / ours {ratio:.3f}" for b, ratio in row["over_ours"].items())
        print(
            f"{row['mode']:12} {row['line']:22} {row['value']:14} {row['medians']['heurgen']:.4f} s  {ratios}"
        )


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    """After every run, so that what a time limit cuts off is kept."""
    with (folder / "serving.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps({"summary": summary(rows), "runs": rows}, indent=1)
    (folder / "serving.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
