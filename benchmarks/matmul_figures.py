"""Tables of linear layers, of what benchmarks/matmul.py and benchmarks/matmul_fp8.py wrote: see kernel_figures.py."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.figure_tables import DEVICES, count, markdown, mean, reached, read

WAYS = ("cublas / ours", "graph cublas / graph ours")
LINES = {"1 to 16": (1.05, 0.95), "17 to 128": (1.0, 0.9), "256 on": (0.95, 0.88)}  # geometric mean, least


def products(device: str) -> list[dict[str, Any]]:
    return list(read(device, "matmul")["cells"])


def matmul_classes(device: str) -> str:
    rows = []
    found = products(device)
    for kind, rows_of_x in dict.fromkeys((row["kind"], row["class"]) for row in found):
        group = [row for row in found if (row["kind"], row["class"]) == (kind, rows_of_x)]
        line = LINES[rows_of_x][0]
        ways = [[row[way] for row in group] for way in WAYS]
        texts = [t for v in ways for t in (reached(mean(v), line), f"{median(v):.2f}", f"{min(v):.2f}")]
        rows.append((kind, rows_of_x, len(group), f"{line:.2f}", *texts))
    head = "products | rows | cells | asked | eager: mean | median | least | replayed: mean | median | least"
    return markdown(head, rows)


def matmul_rows() -> str:
    """Plain products of few rows, eager."""
    plain = {d: [row for row in products(d) if row["kind"] == "plain"] for d in DEVICES}
    few = sorted({row["M"] for row in plain["h200"] if row["M"] <= 16})
    rows = (
        (d.upper(), *(f"{mean(r['cublas / ours'] for r in plain[d] if r['M'] == m):.2f}" for m in few))
        for d in DEVICES
    )
    return markdown(f"rows | {' | '.join(map(str, few))}", rows)


def unread_layers() -> str:
    """Plain products of weights whose rows no descriptor reads or writes: means by layer and class of rows."""
    found = read("h200", "matmul_unread")["cells"]
    rows = []
    for layer in dict.fromkeys(row["layer"] for row in found):
        own = {
            label: [row for row in found if (row["layer"], row["class"]) == (layer, label)] for label in LINES
        }
        texts = [
            f"{mean([row[way] for row in group]):.2f} ({min(row[way] for row in group):.2f})"
            for group in own.values() for way in WAYS
        ]  # fmt: skip
        rows.append((layer, *texts))
    head = " | ".join(f"{label} rows: eager | replayed" for label in LINES)
    return markdown(f"N x K | {head}", rows)


def matmul_lines(device: str) -> dict[tuple[str, str], str]:
    """What issue 16 asks of the cells beside the means above."""
    found = products(device)
    good = sum(min(row[way] for way in WAYS) >= LINES[row["class"]][1] for row in found)
    heavy = [r for r in found if r["kind"] == "plain" and r["M"] <= 16 and r["N"] * r["K"] * 2 >= 16e6]
    least = ", ".join(f"{rows}: {line}" for rows, (_, line) in LINES.items())
    near = [
        sum(row[f"{way}: share of the copy rate"] >= 0.85 for row in heavy) for way in ("ours", "graph ours")
    ]
    return {
        (f"cells of at least their line (rows {least}), eager and replayed", "all"): count(good, len(found)),
        ("16 rows at most, weights from 16 MB on, at 85 % of the copy rate: eager", "all"): count(near[0], len(heavy)),
        ("the same, replayed", "all"): count(near[1], len(heavy)),
    }  # fmt: skip


def fp8_weights() -> str:
    """bf16 weights' time, and cuBLAS's, over that of fp8 weights: benchmarks/matmul_fp8.py."""
    rows = []
    for device in DEVICES:
        found = read(device, "matmul_fp8")["cells"]
        for m in dict.fromkeys(cell["M"] for cell in found):
            group = [cell for cell in found if cell["M"] == m]
            ratios = [
                [c[b] / c[a] for c in group]
                for a, b in (("row", "bf16"), ("row", "cublas"), ("block", "bf16"))
            ]
            rows.append((device.upper(), m, len(group), *(f"{mean(r):.2f} ({min(r):.2f})" for r in ratios)))
    head = (
        "device | rows | layers | a scale a row: beside bf16 | beside cuBLAS | a scale a block: beside bf16"
    )
    return markdown(head, rows)
