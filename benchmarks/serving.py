"""Served end to end by vLLM: stock Triton, FlashAttention-3 and ours, interleaved.

    python benchmarks/serving.py -o FOLDER [--modes full_decode,default] [--backends triton,flash,heurgen]
        [--lines latency,long,...] [--runs 3] [--budget 500] [--alone]

Needs a GPU, vLLM within the plugin's tested range, and heurgen[kernels] beside it. Each backend is an engine in a
process of its own; all of a mode are up at the same time and idle while another one measures, and each measurement
goes round the engines before the next one begins, so that a drift of the machine meets all of them. All lines are
measured once before any is measured again, `--runs` times or until the budget ends. --alone: one engine after the
other, where memory does not hold two. --cache-dtype fp8: quantised pages, lines of their own. Lines (prompt + output
tokens):

    latency   one request, 500 + 100 to 4000, as in Fig. 9 of the paper: the times at which one run had so many
    long      one request, 30000 + 64: time to first token, and a step after it
    mix64, mix256   so many requests at once, 100 to 4000 + 64 to 256
    chunked   eight prompts of 12000 to 20000 at once, cut into chunks by vLLM: time to first token
    prompt500, prompt8000   one request of so many tokens + 1, ten times a run: time to first token
    decode16  sixteen requests of 30000: a step once all have their first token (63 GB of cache at 32 layers)
    load      500 requests with prompts of 1 to 8000: what vLLM's monitor of compilation sees

prompt_host_s and decode_host_s: host time of a step in the backend's code: its metadata, and of all layers the writes
to pages and the launches (a recorded decode has metadata alone); medians over steps until everyone had a first token,
and after. The engines of one GPU run on the same four processors. With --gpus above 1 the backends run in processes
of vLLM's that this one does not see into: no host times, no compilation, no memory.

Writes serving.csv (a row a run), serving.json (medians, ratios) and serving.png where matplotlib is installed; prints
the ratios. `serving_results.py` makes one file of several calls, and docs of it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from gpu_check import code_hash
from serving_results import BACKENDS, NAMES, plot, report, write

CHECKED = [(37, 8), (500, 8), (3000, 8)]


@dataclass(frozen=True, slots=True)
class Line:
    """A workload. warm: what is asked before the first run. marks: numbers of output tokens of its one request, each
    a line of its own. times: asked so often in a run, engines in turn.
    """

    name: str
    requests: list[tuple[int, int]]
    warm: list[tuple[int, int]]
    marks: tuple[int, ...] = ()
    times: int = 1


def lines(outputs: list[int], count: int) -> dict[str, Line]:
    """By kind. count: requests of `load`. Where the shapes of another line warm it up too, it has no warm-up."""

    def drawn(
        count: int, prompts: tuple[int, int], answers: tuple[int, int], seed: int
    ) -> list[tuple[int, int]]:
        rng = Random(seed)
        return [(rng.randint(*prompts), rng.randint(*answers)) for _ in range(count)]

    rng = Random(5)
    load = [(round(8000 ** rng.random()), rng.randint(1, 32)) for _ in range(count)]
    mix64, chunked = drawn(64, (100, 4000), (64, 256), 7), drawn(8, (12000, 20000), (1, 1), 9)
    return {
        "latency": Line("500 + {}", [(500, max(outputs, default=1))], [(500, 100)], tuple(outputs)),
        "long": Line("30000 + 64", [(30000, 64)], [(30000, 8)]),
        "prompt500": Line("500 + 1", [(500, 1)], [(500, 1)], times=10),
        "prompt8000": Line("8000 + 1", [(8000, 1)], [(8000, 1)], times=10),
        "mix64": Line("64 at once", mix64, mix64),
        "chunked": Line("8 long prompts", chunked, chunked),
        "mix256": Line("256 at once", drawn(256, (100, 4000), (64, 256), 8), []),
        "load": Line(f"{count} of 1 to 8000", load, []),
        "decode16": Line("16 x 30000", [(30000, 96)] * 16, []),
    }


@dataclass(slots=True)
class Engine:
    """A process of serving_engine.py."""

    backend: str
    process: subprocess.Popen[str]
    device: str = ""

    def ready(self, mode: str) -> bool:
        """Whether it came up; what it says of itself is printed."""
        try:
            facts = self.answer()
            say(mode, NAMES[self.backend], facts)
            self.device = facts["device"]
        except RuntimeError as error:  # the others are measured without it
            say(mode, error)
            return False
        return True

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError(f"the engine with {NAMES[self.backend]} ended; its log says why")
        found: dict[str, Any] = json.loads(text)
        return found

    def ask(
        self,
        requests: list[tuple[int, int]],
        seed: int,
        logprobs: int | None = None,
        marks: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        assert self.process.stdin is not None
        asked = {"requests": requests, "seed": seed, "logprobs": logprobs, "marks": marks}
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return self.answer()


def start(backend: str, mode: str, given: argparse.Namespace) -> Engine:
    settings = {
        "backend": backend, "mode": mode, "layers": given.layers, "max_model_len": 32768, "gpus": given.gpus,
        "max_num_seqs": 256, "max_batched": given.max_batched, "cache_gib": given.cache_gib,
        "cache_dtype": given.cache_dtype,
        "graphs": [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256],
    }  # fmt: skip
    log = (given.output / f"{mode}_{backend}.log").open("w", encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("serving_engine.py")), json.dumps(settings)]
    return Engine(
        backend,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True),
    )


def measure(mode: str, given: argparse.Namespace, deadline: float) -> Iterator[dict[str, Any]]:
    """A row of serving.csv for each run."""
    groups = [[backend] for backend in given.backends] if given.alone else [given.backends]
    for backends in groups:
        engines = [start(backend, mode, given) for backend in backends]
        try:
            ready = [engine for engine in engines if engine.ready(mode)]
            if given.gpus == 1:
                pin([engine.process.pid for engine in ready], sorted(os.sched_getaffinity(0))[-4:])
            compare_tokens(mode, ready, given)
            for row in measured(ready, given, deadline):
                named = row["line"] + ("" if given.cache_dtype == "auto" else f", {given.cache_dtype} cache")
                yield {"mode": mode, **row, "line": named, "device": ready[0].device, "code": ships()}
        finally:
            for engine in engines:
                engine.process.kill()
                engine.process.wait()  # its memory is the next one's


@cache
def ships() -> str:
    """What is measured: `gpu_check.py --hash` of the kernels that engines import, cut."""
    found = importlib.util.find_spec("heurgen_kernels")
    assert found is not None
    assert found.origin is not None
    return code_hash(Path(found.origin).parent)[:12]


def pin(processes: list[int], processors: list[int]) -> None:
    """All threads of the processes to the same processors: who is asked in turn takes them in turn.

    A first token of 500 is host time. Left alone, one engine may sit on a core that it shares with another job while
    the other does not: FlashAttention-3's took 27 ms or 16, for as long as its process lived.
    """
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.sched_setaffinity(int(thread.name), processors)


def measured(engines: list[Engine], given: argparse.Namespace, deadline: float) -> Iterator[dict[str, Any]]:
    """Rows without their mode. A line that took longer the last time than what is left of the budget is left out."""
    known, took = lines(given.outputs, given.load), dict.fromkeys(given.lines, 0.0)
    for run in range(given.runs + 1):
        for kind in given.lines:
            line, began = known[kind], time.monotonic()
            requests = line.requests if run else line.warm
            if not requests:
                continue
            if began + took[kind] > deadline:
                say("no time left for", kind, "run", run)
                continue
            for engine in list(engines) * (line.times if run else 1):
                if engine not in engines:
                    continue
                try:
                    found = engine.ask(requests, run, marks=line.marks if run else ())
                except (RuntimeError, OSError) as error:  # the others go on
                    say(kind, error)
                    engines.remove(engine)
                    continue
                marks = found.pop("marks")
                row = {"kind": kind, "line": line.name, "backend": engine.backend, "run": run, **found}
                if run:
                    yield from marked(row, line, marks) if line.marks else [row]
            took[kind] = time.monotonic() - began if run else 0.0
            say(kind, "run", run, f"{time.monotonic() - began:.1f} s")


def marked(row: dict[str, Any], line: Line, marks: dict[str, float]) -> Iterator[dict[str, Any]]:
    """A row for each number of tokens, of one run's row and the seconds at which it had so many."""
    for count in line.marks:
        yield row | {
            "line": line.name.format(count), "seconds": marks[str(count)], "output_tokens": count,
        }  # fmt: skip


def compare_tokens(mode: str, engines: list[Engine], given: argparse.Namespace) -> None:
    """Greedy tokens of each engine beside FlashAttention-3's, and how near the two were where they part."""
    answers = {engine.backend: engine.ask(CHECKED, 11, 5)["answers"] for engine in engines}
    (given.output / f"{mode}_{'_'.join(answers)}_tokens.json").write_text(
        json.dumps(answers), encoding="utf-8"
    )
    if "flash" not in answers or len(answers) == 1:
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
    parser.add_argument("--alone", action="store_true", help="one engine after the other")
    parser.add_argument("--cache-dtype", default="auto", help="vLLM's kv_cache_dtype")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for mode in given.modes:
        for row in measure(mode, given, STARTED + given.budget):
            rows.append(row)
            found = write(rows, given.output)  # after every run, so that what a time limit cuts off is kept
    if rows:
        plot(found, given.output / "serving.png")
        report(found)


if __name__ == "__main__":
    main()
