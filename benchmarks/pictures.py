"""The pictures of docs/learning.md, drawn from the H200 log and the model that ships: the same inputs, the same bytes.

PYTHONPATH=.:kernels python -m benchmarks.pictures      # writes docs/learning-costs.svg and docs/learning-size.svg
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.choices import ROOT, h200
from heurgen.ir import HeuristicModule
from heurgen.ir.schema import read_model
from heurgen.logs.costs import CostTable
from heurgen.trees.build import choices

MODEL = ROOT / "kernels/heurgen_kernels/heuristics/vllm_unified_attention.json"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 256, 40, 44, 46
INK, SOFT, CHOSEN = "#1f2933", "#9aa5b1", "#c2410c"


def x_of(slowdown: float, most: float) -> float:
    """Logarithmic: 1x at the left end, `most` at the right one."""
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(slowdown) / math.log(most)


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def svg(title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{title}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>'
    )
    return "\n".join((head, *parts, "</svg>")) + "\n"


def ticks(values: Sequence[float], most: float) -> list[str]:
    lines = []
    for value in values:
        x = x_of(value, most)
        lines.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{SOFT}" stroke-width="0.5"/>')
        lines.append(text(x, HEIGHT - BOTTOM + 16, f"{value:g}x", "middle"))
    return lines


def costs(table: CostTable, module: HeuristicModule) -> str:
    """Every config of five scenarios by its slowdown, and the one that the tree chooses."""
    slowdown = np.exp(table.log_slowdown)
    chosen = choices(module.selectors[0], table, np.arange(table.n_scenarios))
    worst = np.where(np.isfinite(slowdown), slowdown, 0).max(axis=1)
    rows = np.argsort(worst, kind="stable")[np.linspace(0, len(worst) - 1, 5).astype(int)]
    most = float(2 ** math.ceil(math.log2(worst.max())))
    parts = [
        text(16, 24, "Slowdown of every measured config in five launches; ringed: what the tree chooses")
    ]
    parts += ticks([2.0**k for k in range(int(math.log2(most)) + 1)], most)
    for i, row in enumerate(rows.tolist()):
        y = TOP + 22 + i * (HEIGHT - TOP - BOTTOM - 30) / 4
        f = table.features_of(row)
        parts.append(
            text(
                16,
                y + 4,
                f"{f['num_seqs']} sequences, {f['total_query_tokens']} new tokens, longest {f['max_seqlen_k']}",
            )
        )
        measured = sorted(slowdown[row][np.isfinite(slowdown[row])].tolist())
        dots = "".join(f'<circle cx="{x_of(v, most):.1f}" cy="{y:.0f}" r="3"/>' for v in measured)
        parts.append(f'<g fill="{INK}" fill-opacity="0.18">{dots}</g>')
        at = x_of(float(slowdown[row, chosen[row]]), most)
        parts.append(
            f'<circle cx="{at:.1f}" cy="{y:.0f}" r="6" fill="none" stroke="{CHOSEN}" stroke-width="2"/>'
        )
    parts.append(
        text(WIDTH - RIGHT, HEIGHT - 10, "slowdown over the best config of the launch, log scale", "end")
    )
    return svg("Slowdown of every config in five launches", parts)


def size(module: HeuristicModule) -> str:
    """What cross-validation found for every number of configs, and what ships."""
    choice = module.selectors[0].choice
    curve = [(int(p["max_configs"]), math.exp(p["mean_log_slowdown"])) for p in choice["curve"]]
    top = max(s for _, s in curve)
    parts = [text(16, 24, "Held-out slowdown (geometric mean) by the number of configs; ringed: what ships")]
    left, right, low, high = 60, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP + 10
    step = (right - left) / (len(curve) - 1)

    def y_of(s: float) -> float:
        return low - (low - high) * math.log(s) / math.log(top)

    for value in (1.0, 1.05, 1.1, 1.2, 1.4, 1.7):
        if value <= top * 1.001:
            y = y_of(value)
            parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="{SOFT}" stroke-width="0.5"/>')
            parts.append(text(left - 8, y + 4, f"{value:g}x", "end"))
    points = [(left + i * step, y_of(s)) for i, (_, s) in enumerate(curve)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="2"/>')
    for (x, y), (n, s) in zip(points, curve, strict=True):
        ships = n == choice["configs"]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{INK}"/>')
        if ships:
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="none" stroke="{CHOSEN}" stroke-width="2"/>'
            )
        parts.append(text(x, low + 16, str(n), "middle"))
        parts.append(text(x, y - 14, f"{s:.3f}", "middle", CHOSEN if ships else INK))
    parts.append(text(right, HEIGHT - 10, "configs that may ship", "end"))
    return svg("Held-out slowdown by the number of configs", parts)


def pictures() -> dict[Path, str]:
    module = read_model(MODEL)
    return {
        ROOT / "docs/learning-costs.svg": costs(h200(), module),
        ROOT / "docs/learning-size.svg": size(module),
    }


if __name__ == "__main__":
    for path, drawn in pictures().items():
        path.write_text(drawn, encoding="utf-8")
        print(f"wrote {path}")
