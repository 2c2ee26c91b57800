"""README's pictures as text, for a package index: its renderer shows no relative, embedded or inline-SVG picture.

PYTHONPATH=.:kernels python -m benchmarks.text_pictures   # writes the .txt beside each picture of README

`hatch_build.py` puts them in the pictures' places where no public address is known. The same inputs, the same bytes.
"""

from __future__ import annotations

import json
import math
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.choices import DATA, ROOT
from benchmarks.pictures import MODEL
from benchmarks.serving_results import NAMES, plotted
from heurgen import ir
from heurgen.audit.evidence import View, column_values, map_columns, views
from heurgen.audit.report.charts import column_scale
from heurgen.audit.report.data import Detail, Given, report
from heurgen.audit.report.scales import Scale
from heurgen.audit.report.words import config_tag
from heurgen.audit.score import score
from heurgen.ir.schema import read_model
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec

WIDE, TALL, WORST = 72, 18, 4
# Farther than this share of the map from every scenario: what the page hatches.
FAR = 0.1
# The left and the right end of the serving plot, as time of the other backend over ours.
LOW, HIGH = 0.9, 4.0


def value_at(scale: Scale, place: float) -> float:
    """The value at a place of a logarithmic axis, 0 to 1."""
    return float(scale.low * (scale.high / scale.low) ** place)


def cell(place: float, cells: int) -> int:
    return min(cells - 1, max(0, int(place * cells)))


def region_map(module: ir.HeuristicModule, view: View) -> list[str]:
    """The choice over the two features that matter most, by the letter of its config: small far from every scenario.

    The other features are those of the nearest scenario, as on the page; scenarios are `o`.
    """
    names = map_columns(view)
    scales = [column_scale(view, name) for name in names]
    assert all(s.kind == "log" for s in scales)
    spots = [[s.place(v) for v in column_values(view, name)] for s, name in zip(scales, names, strict=True)]
    placed = list(zip(*spots, strict=True))

    def letter(x: float, y: float) -> str:
        apart = [math.hypot(px - x, py - y) for px, py in placed]
        near = min(range(len(placed)), key=apart.__getitem__)
        shown = {n: round(value_at(s, at)) for n, s, at in zip(names, scales, (x, y), strict=True)}
        features = ir.with_derived(module, {**view.choices[near].features, **shown})
        tag = config_tag(ir.find_leaf(view.selector.tree, features).config)
        return tag if apart[near] <= FAR else tag.lower()

    grid = [[letter((u + 0.5) / WIDE, 1 - (v + 0.5) / TALL) for u in range(WIDE)] for v in range(TALL)]
    for x, y in placed:
        grid[cell(1 - y, TALL)][cell(x, WIDE)] = "o"
    labels = {cell(1 - t.at, TALL): t.label for t in scales[1].ticks}
    below = [" "] * (WIDE + 6)
    for tick in scales[0].ticks:
        below[cell(tick.at, WIDE) : cell(tick.at, WIDE) + len(tick.label)] = tick.label
    return [
        f"{names[1]} (log scale)",
        *(f"{labels.get(i, ''):>5} │{''.join(row)}" for i, row in enumerate(grid)),
        f"      └{'─' * WIDE}",
        f"       {''.join(below).rstrip()}   {names[0]} (log scale)",
    ]


def report_text() -> str:
    """The report's first screen: the sentence, the held-out figures, the map, the worst launches by name."""
    spec, module = read_spec(DATA / "unified_attention.toml"), read_model(MODEL)
    log = read_logs([DATA / "h200_unified_attention.csv"], spec)
    tables = cost_tables(log, spec)
    found = score(module, tables)
    page = report(Given(module, tables, found, log), Detail(400, 40, 40))
    section, view = page.sections[0], views(module, tables, found)[0]
    legend = [f"  {tag}  {pairs}" for tag, _, pairs in section.legend]
    worst = [
        line
        for item in section.lead.worst[:WORST]
        for line in (
            f"  {item.slowdown:>6}  {item.told}",
            f"          chosen {item.chosen}",
            f"          right  {item.best}",
        )
    ]
    return "\n".join(
        [
            f"{page.kernel} on {section.device}",
            section.lead.sentence,
            "held out:  " + "   ".join(f"{name} {value}" for name, value in section.lead.held_out),
            "",
            *region_map(module, view),
            "o: a measured launch; a letter: the config chosen there, small where no measured launch is near",
            *legend,
            "",
            "worst while held out:",
            *worst,
            "",
        ]
    )


def bar(values: dict[str, float], wide: int = 56) -> str:
    """Marks on a logarithmic axis from LOW to HIGH: `│` where both are as fast."""
    marks = [" "] * wide
    for name, value in [("│", 1.0), *values.items()]:
        marks[cell(math.log(value / LOW) / math.log(HIGH / LOW), wide)] = name
    return "".join(marks).rstrip()


def serving_text(rows: list[dict[str, Any]]) -> str:
    """The serving plot: time of the other backend over ours, a line a load; figures at the end of the line."""
    lines = ["time of the other backend / ours: right of │ ours is faster (log scale)"]
    lines.append(f"F: {NAMES['flash']}, T: {NAMES['triton']}; f, t: of earlier code")
    for mode, members in groupby(plotted(rows), key=lambda found: found[0]):
        lines += ["", f"{mode}:"]
        for _, label, over, old in members:
            letters = {
                b: letter.lower() if b in old else letter for b, letter in (("triton", "T"), ("flash", "F"))
            }
            marks = {letter: over[b] for b, letter in letters.items() if b in over}
            told = "  ".join(f"{letter} {value:.2f}" for letter, value in reversed(marks.items()))
            lines.append(f"{label:>38}  {bar(marks):56}  {told}")
    return "\n".join(lines) + "\n"


def pictures() -> dict[Path, str]:
    serving = ROOT / "benchmarks" / "h200" / "serving.json"
    return {
        ROOT / "docs" / "report-light.txt": report_text(),
        serving.with_suffix(".txt"): serving_text(json.loads(serving.read_text("utf-8"))["summary"]),
    }


if __name__ == "__main__":
    for path, drawn in pictures().items():
        path.write_text(drawn, encoding="utf-8")
        print(f"wrote {path}")
