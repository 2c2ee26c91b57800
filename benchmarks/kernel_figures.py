"""Tables of docs/kernel_figures.md, the Llama's page and the README, of what benchmarks and `make gpu-check` wrote.

PYTHONPATH=.:kernels python -m benchmarks.kernel_figures [--write]

The selectors' table replays what ships on scenarios that training never saw. --write puts each table between its marks
and copies the pictures of models.py and llama.py to docs/; tests/test_figures.py compares. Ratios are another's time /
ours, so above 1 ours is faster; means are geometric; what reaches its line is bold.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from benchmarks.choices import ROOT, written
from benchmarks.figure_tables import BOTH, DEVICES, FOLDER, by_device, count, markdown, mean, reached, read
from benchmarks.held_out import HEURISTICS, packaged, shown
from benchmarks.matmul_figures import fp8_weights, matmul_classes, matmul_lines, matmul_rows, unread_layers
from heurgen.audit.score import Choice, figures, replay
from heurgen.ir.schema import read_model

DOCS = ROOT / "docs"
PAGE = DOCS / "kernel_figures.md"
LLAMA = DOCS / "tutorials" / "llama.md"
ELSEWHERE = {"llama": LLAMA, "llama kernels": LLAMA, "servers": ROOT / "README.md"}
# Pictures of benchmarks, and what they are called in docs/.
PICTURES = {
    "h200/models.png": "models.png",
    "h100/models.png": "models_h100.png",
    "h200/llama.png": "llama.png",
}
FLASH, STOCK = "fa3 / ours", "vllm / ours"
CONTIGUOUS = "contiguous fa3 / ours fresh"
# Models with heads of 256, whose cells have a line of their own.
WIDE = "Gemma"


def proof() -> str:
    """The record of `make gpu-check`."""
    record = read(".", "gpu_check")
    tests, versions = record["tests"], record["versions"]
    passed = ", ".join(f"{found['passed']} of {part}" for part, found in tests.items())
    code = ", ".join(f"`{code[:12]}` of {part}" for part, code in record["code"].items())
    rows = (
        ("device", f"{record['device']}, torch {versions['torch']}, Triton {versions['triton']}"),
        ("hash of the code", code),
        ("tests passed", passed),
        ("configs launched and compared", tests["kernels"]["configs_launched"]),
    )
    return markdown(" | ", rows)


# Attention: benchmarks/models.py


def cells(device: str) -> dict[tuple[str, str], dict[str, float]]:
    """(model, class of batches) -> the numbers of a cell."""
    found = read(device, "models")["cells"]
    return {(model, kind): line for model, kinds in found.items() for kind, line in kinds.items()}


def numbers(device: str, name: str, kind: str | None = None) -> list[tuple[float, str]]:
    """(number, model) of the cells, of a class alone, that have this number."""
    found = cells(device).items()
    return [(line[name], m) for (m, k), line in found if name in line and kind in (None, k)]


def average(device: str, name: str, kind: str | None = None) -> float:
    return mean(value for value, _ in numbers(device, name, kind))


def attention_classes(device: str) -> str:
    rows = []
    for kind in dict.fromkeys(kind for _, kind in cells(device)):
        least, model = min(numbers(device, FLASH, kind))
        beside: list[str] = []
        for name in (CONTIGUOUS, STOCK):
            found = numbers(device, name, kind)
            beside.append(f"{average(device, name, kind):.2f} ({min(found)[0]:.2f})" if found else "")
        flash = (average(device, name, kind) for name in (FLASH, "graph fa3 / graph ours"))
        rows.append((kind, *(f"{x:.2f}" for x in flash), f"{least:.3f} ({model})", *beside))
    head = "batches | mean | under graphs | least cell | contiguous (least) | vLLM's Triton kernel (least)"
    return markdown(head, rows)


def attention_models() -> str:
    models = [read(device, "models")["summary"]["models"] for device in DEVICES]
    return markdown(f"model | {BOTH}", ((name, *(f"{m[name]:.2f}" for m in models)) for name in models[0]))


def attention_lines(device: str) -> dict[tuple[str, str], str]:
    """What issue 12 asks of the cells."""
    flash = {(model, kind): line[FLASH] for (model, kind), line in cells(device).items() if FLASH in line}
    good = sum(x >= (0.95 if model.startswith(WIDE) else 0.92) for (model, _), x in flash.items())
    models = read(device, "models")["summary"]["models"]
    untold = average(device, "untold / ours")
    return {
        ("all cells, mean", "1.15"): reached(average(device, FLASH), 1.15),
        ("the same under graphs", "1.15"): reached(average(device, "graph fa3 / graph ours"), 1.15),
        ("least mean of a model", "1.0"): reached(min(models.values()), 1.0),
        ("cells of at least 0.92 (heads of 256: 0.95)", "all"): count(good, len(flash)),
        ("contiguous FlashAttention-3, long prompts", "1.0"): reached(average(device, CONTIGUOUS, "long"), 1.0),
        ("vLLM's Triton kernel, least cell", "1.0"): reached(min(numbers(device, STOCK))[0], 1.0),
        ("time without `total_seqlen_k` / with it", "1.04"): reached(untold, 1.04, most=True),
        **floors(device),
    }  # fmt: skip


def floors(device: str) -> dict[tuple[str, str], str]:
    """Batches whose time is near what memory or the matrix unit allows."""
    result = read(device, "models")
    rate = result["copy TB/s"] * 1e9  # bytes a ms
    decodes = [
        b for b in result["batches"] if b["class"] in ("single", "decode") and b["bytes floor"] * rate >= 64e6
    ]
    long = [b for b in result["batches"] if b["class"] == "long"]
    good = sum(b["bytes floor"] / b["ours"] >= 0.85 for b in decodes)
    fast = sum(b["matrix floor"] / b["ours"] >= 0.82 for b in long)
    return {
        ("decodes of 64 MB of K and V and more at 85 % of the copy rate", "all"): count(good, len(decodes)),
        ("long prompts at 82 % of the matrix rate", "all"): count(fast, len(long)),
    }


def layouts(device: str) -> str:
    """Layers and batches drawn at random: benchmarks/layouts.py."""
    points = read(device, "layouts")["points"]
    return drawn([(row["class"], row) for row in points])


def served(device: str) -> str:
    """Batches as a server's steps have them, of such layers and of models' ones: `benchmarks/layouts.py --served`."""

    def kind(lengths: list[list[int]]) -> str:
        rest = any(q >= 64 and k - q >= 2000 for q, k in lengths)
        return "with the rest of a long prompt" if rest else "without"

    points = read(device, "served")["points"]
    return drawn(sorted(((kind(row["lengths"]), row) for row in points), key=lambda point: point[0]))


def drawn(points: list[tuple[str, dict[str, Any]]]) -> str:
    """A row for each kind of (kind, point), and one of all."""
    rows = []
    for kind in (*dict.fromkeys(kind for kind, _ in points), "all"):
        group = [row for known, row in points if kind in (known, "all")]
        flash, graphs, stock = ([row[n] for row in group] for n in (FLASH, "graph fa3 / graph ours", STOCK))
        good = count(sum(x >= 0.92 for x in flash), len(flash))
        rows.append((kind, f"{mean(flash):.3f}", f"{mean(graphs):.3f}", f"{min(flash):.2f}", good,
                     f"{mean(stock):.2f} ({min(stock):.2f})"))  # fmt: skip
    return markdown(
        "batches | mean | under graphs | least | at 0.92 and more | vLLM's Triton kernel (least)", rows
    )


def fp8_caches() -> str:
    """Llama-3 8B over e4m3 pages."""
    columns = [cells(device) for device in DEVICES]
    model = next(model for model, _ in columns[0] if model.endswith("fp8"))
    kinds = [kind for m, kind in columns[0] if m == model]
    names = ("fp8 fa3 / ours", STOCK)
    rows = ((kind, *(f"{c[model, kind][name]:.2f}" for name in names for c in columns)) for kind in kinds)
    head = (f"{d.upper()}: {name}" for name in ("FlashAttention-3", "vLLM's Triton kernel") for d in DEVICES)
    return markdown(f"batches | {' | '.join(head)}", rows)


# Selectors, on scenarios that training never saw

H200_TEST, H100_TEST = "hopper_paged_attention_test.csv.gz", "h100_paged_attention_test.csv.gz"
SERVED_TEST = "h200_paged_attention_served_test.csv.gz"
FEW_TEST = "h200_paged_attention_few_test.csv.gz"
APART_TEST = "h200_paged_attention_apart_test.csv.gz"
ATTENTION, PRODUCTS = (1.05, 1.20, 1.6), (1.04, 1.15, math.inf)
# What, device, models, log of the test, and what is asked: geometric mean, p95, max.
SELECTORS = (
    ("attention, 16-bit caches", "H200", ("paged_attention",), H200_TEST, ATTENTION),
    ("attention, fp8 caches", "H200", ("paged_attention_fp8",), H200_TEST, ATTENTION),
    ("attention, both", "H200", ("paged_attention", "paged_attention_fp8"), H200_TEST, ATTENTION),
    ("attention, 16-bit caches", "H100", ("paged_attention",), H100_TEST, ATTENTION),
    ("attention, fp8 caches", "H100", ("paged_attention_fp8",), H100_TEST, ATTENTION),
    ("attention, a server's steps", "H200", ("paged_attention",), SERVED_TEST, ATTENTION),
    ("attention, 16 query heads at most", "H200", ("paged_attention",), FEW_TEST, ATTENTION),
    ("attention, batches that trees disagree on", "H200", ("paged_attention",), APART_TEST, ATTENTION),
    ("linear layers", "H200", ("matmul",), "h200_matmul_test.csv.gz", PRODUCTS),
    ("linear layers", "H100", ("matmul",), "h100_matmul_test.csv.gz", PRODUCTS),
    ("linear layers, fp8 weights", "H200", ("matmul_fp8",), "h200_matmul_fp8_test.csv.gz", PRODUCTS),
)


@cache
def chosen(model: str, log: str) -> tuple[Choice, ...]:
    """What a shipped selector chooses in a log, of the caches that launches ask it about."""
    module = read_model(HEURISTICS / f"{model}.json")
    choices = replay(module, packaged(f"hopper_{model}.toml", log))
    if not model.startswith("paged_attention"):
        return tuple(choices)
    fp8 = model.endswith("fp8")
    return tuple(c for c in choices if c.features["dtype"].startswith("float8") == fp8)


def selectors() -> str:
    rows = []
    for what, device, models, log, lines in SELECTORS:
        found = figures([c for model in models for c in chosen(model, log)])
        values = (found.geomean_slowdown, found.p95_slowdown, found.max_slowdown)
        texts = (
            "" if v is None else reached(v, line, places, most=True)
            for v, line, places in zip(values, lines, (4, 3, 2), strict=True)
        )
        near = f"{100 * (found.within_1_1 or 0):.0f} %"
        rows.append(
            (what, device, found.n_scenarios, *texts, near, f"{100 * (found.invalid_share or 0):.2f} %")
        )
    return markdown("selector | device | scenarios | geomean | p95 | max | within 1.1x | invalid", rows)


STATIC_GRID = {
    "eager": "of all kinds, launched eagerly", "graph": "of those, in graphs",
    "equal": "of equal and of uniform lengths, in graphs", "long": "of few and long sequences",
    "served": "in vLLM's layout, the new tokens written by the launch",
}  # fmt: skip
# Measured after training, and no part of it: heurgen.toml has the logs above.
HELD_OUT_STATIC_GRID = {"more": "of 1 to 256 sequences of 700 to 45,000 keys, in graphs"}


def static_grid(logs: dict[str, str]) -> str:
    rows = []
    for log, what in logs.items():
        table = packaged("static_grid.toml", f"h200_static_grid_{log}.csv.gz")
        found = figures(replay(read_model(HEURISTICS / "static_grid.json"), table))
        rows.append(
            (f"`data/h200_static_grid_{log}.csv.gz`", f"{found.n_scenarios} {what}", *shown(found)[:3])
        )
    return markdown("log | batches | geomean | p95 | max", rows)


def worst_choices() -> str:
    rows = []
    for what, device, models, log, _ in SELECTORS:
        if len(models) == 1:
            worst = max(chosen(models[0], log), key=lambda c: c.slowdown or 0.0)
            configs = (f"`{' '.join(map(str, config))}`" for config in (worst.chosen, worst.best))
            rows.append((what, device, f"{worst.slowdown:.2f}", launch_of(worst.features), *configs))
    return markdown("selector | device | slowdown | launch | chosen | best", rows)


def launch_of(features: dict[str, Any]) -> str:
    """A launch in a few words."""
    if "M" in features:
        return f"{'gated ' if features['gated'] else ''}{features['M']} x {features['N']} x {features['K']}"
    newest = features["max_seqlen_q"]
    seen = [f"{features['num_seqs']} sequences", f"{newest} new tokens at most" if newest > 1 else "decodes"]
    seen.append(f"{features['total_seqlen_k']:,} keys")
    seen.append(f"{features['num_query_heads']}/{features['num_kv_heads']} heads of {features['head_size']}")
    return ", ".join(seen) + (f", window {features['window']}" if features["window"] < 1 << 30 else "")


# The host: benchmarks/host.py

PARTS = {
    "selection, a new question": "select_new", "the same question": "select_same", "keys divided": "cut",
    "whole launch": "paged_attention", "vLLM": "vllm", "FlashAttention-3": "fa3",
}  # fmt: skip


def host() -> str:
    found = read("h200", "host")["host_time"]
    rows = []
    for batch in dict.fromkeys(name.split(", ")[0] for name in found):
        both = [found[f"{batch}, {source}"] for source in ("pages", "fresh")]
        texts = (" / ".join(f"{f[p]:.{0 if f[p] >= 10 else 2}f}" for f in both) for p in PARTS.values())
        rows.append((batch, *texts))
    return markdown(" | ".join(["batch", *PARTS]), rows)


# The Llama: benchmarks/llama.py


def llama() -> str:
    rows = []
    lines = ((device, line) for device in DEVICES for line in read(device, "llama")["summary"])
    for device, line in sorted(lines, key=lambda found: (DEVICES.index(found[0]), found[1]["batch"])):
        times = (f"{line['token_ms'][backend]:.2f}" for backend in ("heurgen", "sdpa", "fa3"))
        ratios = [f"{line[f'{name}, best other / ours']:.3f}" for name in ("token_ms", "first_token_ms")]
        rows.append((device.upper(), line["batch"], *times, *ratios))
    head = "device | batch | ms a token: ours | cuBLAS, PyTorch's attention | cuBLAS, FlashAttention-3"
    return markdown(f"{head} | best other / ours | first token, best other / ours", rows)


FUSED = {
    "output": "ours with the residual", "gate and up": "ours with SiLU and the product",
    "down": "ours with the residual",
}  # fmt: skip


def llama_kernels() -> str:
    """Microseconds of single kernels, the post's figure 8; of attention the post's text has the ratio alone."""
    record = read("h200", "llama")
    rows = []
    for kernel, post in record["post"]["kernels"].items():
        found = record["kernels_us"][kernel]
        times = f"{found['heurgen']:.1f} / {found['sdpa']:.1f}"
        times += f" (FlashAttention-3 {found['fa3']:.1f})" if "fa3" in found else ""
        name = ", ".join([kernel, FUSED[kernel]] if kernel in FUSED else [kernel])
        rows.append(
            (name, times, "1.6 times (its text)" if "fa3" in found else f"{post['triton']} / {post['cuda']}")
        )
    return markdown(
        "kernel | ours / cuBLAS or PyTorch's attention, H200 | Triton / CUDA in the post, H100", rows
    )


# In vLLM: benchmarks/serving.py, by serving_results.py

SERVED = (
    ("one request, 500 tokens + 1000 new ones", "500 + 1000", "seconds"),
    ("first token of a prompt of 30,000", "30000 + 64", "first_token_s"),
    ("a step after it", "30000 + 64", "step_s"),
    ("64 requests at once", "64 at once", "seconds"),
)


def servers() -> str:
    """Time of vLLM's FlashAttention-3 backend over ours, with full graphs of decodes; a star where code is older."""
    found = [
        {
            (row["line"], row["value"]): row
            for row in read(d, "serving")["summary"]
            if row["mode"] == "full_decode"
        }
        for d in DEVICES
    ]
    rows = []
    for words, *place in SERVED:
        lines = [by_line[place[0], place[1]] for by_line in found]
        old = ("\\*" if line["code"] != line["newest"] else "" for line in lines)
        rows.append(
            (words, *(f"{line['over_ours']['flash']:.3f}{o}" for line, o in zip(lines, old, strict=True)))
        )
    return markdown(f" | {BOTH}", rows)


TABLES: dict[str, Callable[[], str]] = {
    "proof": proof,
    "attention lines": lambda: by_device(attention_lines),
    "attention h200": lambda: attention_classes("h200"),
    "attention h100": lambda: attention_classes("h100"),
    "attention models": attention_models,
    "layouts h100": lambda: layouts("h100"),
    "layouts h200": lambda: layouts("h200"),
    "served h200": lambda: served("h200"),
    "fp8": fp8_caches,
    "selectors": selectors,
    "worst choices": worst_choices,
    "static grid held out": lambda: static_grid(HELD_OUT_STATIC_GRID),
    "static grid": lambda: static_grid(STATIC_GRID),
    "matmul h200": lambda: matmul_classes("h200"),
    "matmul h100": lambda: matmul_classes("h100"),
    "matmul lines": lambda: by_device(matmul_lines),
    "matmul rows": matmul_rows,
    "matmul unread": unread_layers,
    "matmul fp8": fp8_weights,
    "host": host,
    "llama": llama,
    "llama kernels": llama_kernels,
    "servers": servers,
}


def main() -> None:
    for name, table in TABLES.items():
        print(f"{name}\n\n{table()}")
        if "--write" in sys.argv:
            written(ELSEWHERE.get(name, PAGE), name, table())
    if "--write" in sys.argv:
        for measured, picture in PICTURES.items():
            shutil.copyfile(FOLDER / measured, DOCS / picture)


if __name__ == "__main__":
    main()
