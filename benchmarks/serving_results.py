"""What `serving.py` measured, as one file of a device: rows, medians, a plot and the table of docs/serving.md.

    python benchmarks/serving_results.py FOLDER...        # folders that serving.py wrote, of one device
    python benchmarks/serving_results.py --again h200     # docs from what is there

The runs go to benchmarks/DEVICE/serving.csv, .json and .png, each with the folder that it came from (`start`): times of
one start of the engines are compared. A line is what the newest code took that measured ours beside FlashAttention-3;
stock Triton's time is of the newest code that measured the two side by side. Rows of other code are dropped, and what
is not of the newest code has a mark in the table and is hollow in the plot. The picture goes to docs too; the table,
and what misses its line, between two comments in docs/serving.md. README's picture as text and its table are made of
serving.json by `python -m benchmarks.text_pictures` and `python -m benchmarks.kernel_figures --write`.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

BACKENDS = ("triton", "flash", "heurgen")
NAMES = {"triton": "vLLM's Triton kernels", "flash": "FlashAttention-3", "heurgen": "heurgen"}
VALUES = ("seconds", "first_token_s", "step_s", "prompt_host_s", "decode_host_s")
WHAT = {"seconds": "", "first_token_s": ", first token", "step_s": ", a step"}
MODES = ("default", "full_decode")
HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
# (words, line, value, what FlashAttention-3's and stock Triton's time over ours should be)
TABLE = (
    ("one request, 500 + 100 tokens", "500 + 100", "seconds", None, None),
    ("500 + 500", "500 + 500", "seconds", None, None),
    ("500 + 1000", "500 + 1000", "seconds", 1.025, 1.02),
    ("500 + 2000", "500 + 2000", "seconds", None, None),
    ("500 + 4000", "500 + 4000", "seconds", None, None),
    ("first token of 500", "500 + 1", "seconds", None, None),
    ("first token of 8000", "8000 + 1", "seconds", None, None),
    ("first token of 30,000", "30000 + 64", "first_token_s", 1.0, 3.4),
    ("a step after it", "30000 + 64", "step_s", 1.03, None),
    ("16 requests of 30,000, a step", "16 x 30000", "step_s", 1.04, None),
    ("64 at once, 100 to 4000 + 64 to 256", "64 at once", "seconds", 1.02, 1.35),
    ("a step of the 64, all prompts done", "64 at once", "step_s", None, None),
    ("256 at once, the same lengths", "256 at once", "seconds", 1.02, 1.35),
    ("a step of the 256, all prompts done", "256 at once", "step_s", None, None),
    ("500 at once, 1 to 8000 + 1 to 32", "500 of 1 to 8000", "seconds", 1.02, 1.35),
    ("8 prompts of 12,000 to 20,000 at once, all done", "8 long prompts", "seconds", 1.02, None),
    ("their first tokens, in the mean", "8 long prompts", "first_token_s", None, None),
    ("64 at once, fp8 cache", "64 at once, fp8 cache", "seconds", None, None),
    ("first token of 30,000, fp8 cache", "30000 + 64, fp8 cache", "first_token_s", None, None),
    ("a step after it, fp8 cache", "30000 + 64, fp8 cache", "step_s", None, None),
)  # fmt: skip


def code_of(row: dict[str, Any]) -> str:
    return row.get("code") or "earlier"


def newest(rows: list[dict[str, Any]], codes: list[str], other: str) -> list[dict[str, Any]]:
    """Of one mode and line, those of the newest code and its starts that measured ours and the other backend."""
    for code in reversed(codes):
        mine = [row for row in rows if code_of(row) == code]
        starts = {row.get("start") for row in mine if row["backend"] == other}
        mine = [row for row in mine if row.get("start") in starts]
        if {"heurgen", other} <= {row["backend"] for row in mine}:
            return mine
    return []


def summary(rows: list[dict[str, Any]], codes: list[str] | None = None) -> list[dict[str, Any]]:
    """Medians of the runs, and each backend's time over ours, see `ratio_of`; nothing of a value that a run lacks, or
    that is 0.

    codes: oldest first; None: as they come. `code` of a line is what its medians of ours and FlashAttention-3 are of,
    `stock_code` what stock Triton's ratio is of.
    """
    codes = codes or list(dict.fromkeys(map(code_of, rows)))
    found = []
    for mode, kind, name in dict.fromkeys((row["mode"], row["kind"], row["line"]) for row in rows):
        these = [row for row in rows if (row["mode"], row["line"]) == (mode, name)]
        beside, stock = newest(these, codes, "flash"), newest(these, codes, "triton")
        main = beside or stock or these
        for value in VALUES:
            ours, medians, ratios = middle(main, "heurgen", value), {}, {}
            if ours is None:
                continue
            for backend, mine in (("triton", stock), ("flash", beside)):
                theirs, ratio = middle(mine, backend, value), ratio_of(mine, backend, value)
                if theirs is not None and ratio is not None:
                    medians[backend], ratios[backend] = theirs, ratio
            line = {"mode": mode, "kind": kind, "line": name, "value": value}
            medians["heurgen"] = ours
            of = {"code": code_of(main[0]), "stock_code": code_of(stock[0]) if stock else None}
            found.append({**line, "medians": medians, "over_ours": ratios, **of})
    return found


def ratio_of(rows: list[dict[str, Any]], backend: str, value: str) -> float | None:
    """The backend's median over ours of each start, and of these the geometric mean: starts are on several machines,
    and have not as many runs each.
    """
    ratios = []
    for start in dict.fromkeys(row.get("start") for row in rows):
        mine = [row for row in rows if row.get("start") == start]
        theirs, own = middle(mine, backend, value), middle(mine, "heurgen", value)
        if theirs is None or own is None:
            return None
        ratios.append(theirs / own)
    return statistics.geometric_mean(ratios) if ratios else None


def middle(rows: list[dict[str, Any]], backend: str, value: str) -> float | None:
    times = [row.get(value) for row in rows if row["backend"] == backend]
    if not times or None in times:
        return None
    return statistics.median(times) or None


def kept(rows: list[dict[str, Any]], codes: list[str]) -> list[dict[str, Any]]:
    """The rows that `summary` uses, in the table's order of modes."""
    found = []
    for mode, name in dict.fromkeys((row["mode"], row["line"]) for row in rows):
        these = [row for row in rows if (row["mode"], row["line"]) == (mode, name)]
        used = {code_of(row) for other in ("flash", "triton") for row in newest(these, codes, other)}
        found += [row for row in these if code_of(row) in used]
    order = [line for _, line, *_ in TABLE]
    return sorted(
        found, key=lambda r: (MODES.index(r["mode"]), order.index(r["line"]) if r["line"] in order else 99)
    )


def plotted(found: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, float], list[str]]]:
    """The lines of the plot: mode, label, time of each other backend over ours, which of them are of older code."""
    last = newest_code(found)
    keys = [(line, value) for _, line, value, *_ in TABLE]
    shown = [row for row in found if (row["line"], row["value"]) in keys]
    shown.sort(key=lambda row: (MODES.index(row["mode"]), keys.index((row["line"], row["value"]))))
    return [
        (
            row["mode"], row["line"] + WHAT[row["value"]], row["over_ours"],
            [b for b in row["over_ours"] if row["stock_code" if b == "triton" else "code"] != last],
        )
        for row in shown
    ]  # fmt: skip


def newest_code(found: list[dict[str, Any]]) -> str:
    """What `write` put last."""
    return str(found[0].get("newest", found[0]["code"])) if found else ""


def plot(found: list[dict[str, Any]], path: Path) -> None:
    try:
        from matplotlib import pyplot
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    shown = plotted(found)
    if not any(over for _, _, over, _ in shown):
        return
    figure, both = pyplot.subplots(
        1, 2, sharey=True, figsize=(9, 1 + 0.27 * len(shown)), gridspec_kw={"width_ratios": [3, 2]}
    )
    modes = [mode for mode, *_ in shown]
    for axes, backend, colour in zip(both, ("flash", "triton"), ("tab:blue", "tab:gray"), strict=True):
        points = [
            (over[backend], i, backend in old) for i, (_, _, over, old) in enumerate(shown) if backend in over
        ]
        for hollow in (False, True):
            found_here = [(ratio, i) for ratio, i, old in points if old == hollow]
            if found_here:
                axes.plot(
                    *zip(*found_here, strict=True), "o", color=colour,
                    markerfacecolor="none" if hollow else colour,
                )  # fmt: skip
        axes.axvline(1.0, color="black", linewidth=0.8)
        if "full_decode" in modes[1:]:
            axes.axhline(modes.index("full_decode") - 0.5, color="black", linewidth=0.5, linestyle=":")
        axes.grid(axis="both", color="0.92", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_title(NAMES[backend] + " / ours", fontsize=10)
    both[0].set_yticks(range(len(shown)), [f"{mode}: {label}" for mode, label, *_ in shown])
    both[0].set_ylim(len(shown) - 0.4, -0.6)
    figure.supxlabel(
        "time of the other backend / ours: right of the line ours is faster; hollow: earlier code", fontsize=9
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def write(rows: list[dict[str, Any]], folder: Path, codes: list[str] | None = None) -> list[dict[str, Any]]:
    """serving.csv and serving.json; the summary."""
    with (folder / "serving.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    codes = codes or list(dict.fromkeys(map(code_of, rows)))
    found = [{**row, "newest": codes[-1]} for row in summary(rows, codes)]
    text = json.dumps({"codes": codes, "summary": found, "runs": rows}, indent=1)
    (folder / "serving.json").write_text(text + "\n", encoding="utf-8")
    return found


def report(found: list[dict[str, Any]]) -> None:
    for row in found:
        ratios = ", ".join(f"{NAMES[b]} / ours {ratio:.3f}" for b, ratio in row["over_ours"].items())
        ours = row["medians"]["heurgen"]
        print(f"{row['mode']:12} {row['line']:22} {row['value']:14} {ours:.4f} s  {ratios}")


def shown_time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.4g} s"
    return f"{seconds * 1e3:.3g} ms"


def shown(found: list[dict[str, Any]]) -> str:
    """What stands between the two comments of a device: the table, and a line for each that is missed."""
    lines = [f"- {line}" for line in missed(found)]
    return "\n".join(
        [
            table(found),
            "",
            "**Missed**; every other line is met:" if lines else "Every line is met.",
            "",
            *lines,
        ]
    ).rstrip()


def table(found: list[dict[str, Any]]) -> str:
    """The table of docs/serving.md, in Markdown."""
    by_key = {(row["mode"], row["line"], row["value"]): row for row in found}
    codes = [newest_code(found)]
    lines = [
        "| | line | "
        + " | ".join(f"{mode}: ours | FlashAttention-3 | stock Triton" for mode in MODES)
        + " |",
        "|---|---|" + "---|" * 6,
    ]
    for words, line, value, *wanted in TABLE:
        rows = [by_key.get((mode, line, value)) for mode in MODES]
        if not any(rows):
            continue
        flash, triton = (f"{want:g}" if want else "" for want in wanted)
        cells = [words, flash + (f" ({triton})" if triton else "")]
        for row in rows:
            cells += ["", "", ""] if row is None else cells_of(row, wanted, codes)
        lines.append("| " + " | ".join(cells) + " |")
    notes = [f"{'*' * i} code `{code}`" for i, code in enumerate(codes) if i]
    escaped = "; ".join(note.replace("*", "\\*") for note in notes)
    return "\n".join(lines) + (f"\n\nOf earlier code: {escaped}." if notes else "")


def cells_of(row: dict[str, Any], wanted: list[float | None], codes: list[str]) -> list[str]:
    """Ours, FlashAttention-3's ratio, stock Triton's; bold reaches the line. codes: grows by those that are marked."""

    def marked(text: str, code: str) -> str:
        if code not in codes:
            codes.append(code)
        return text + "\\*" * codes.index(code)

    cells = [marked(shown_time(row["medians"]["heurgen"]), row["code"])]
    for backend, want, code in (("flash", wanted[0], row["code"]), ("triton", wanted[1], row["stock_code"])):
        ratio = row["over_ours"].get(backend)
        if ratio is None:
            cells.append("")
            continue
        text = f"{ratio:.3f}"
        text = f"**{text}**" if want and ratio >= want else text
        cells.append(marked(text, code) if backend == "triton" else text)
    return cells


def missed(found: list[dict[str, Any]]) -> list[str]:
    """A sentence for each line that is missed."""
    wanted = {(line, value): lines for _, line, value, *lines in TABLE}
    last, said = newest_code(found), []
    for row in found:
        what = f"`{row['mode']}`: {row['line']}{WHAT.get(row['value'])}"
        lines = wanted.get((row["line"], row["value"]), [None, None])
        for backend, line, code in zip(("flash", "triton"), lines, ("code", "stock_code"), strict=True):
            ratio = row["over_ours"].get(backend)
            if line is not None and ratio is not None and ratio < line:
                old = " (earlier code)" if row[code] != last else ""
                said.append(f"{what}: {NAMES[backend]} / ours {ratio:.4f}, line {line:g}{old}")
    return said


def place(text: str, device: str, made: str) -> str:
    """The page with the device's table between its comments. ValueError where they are not there."""
    pattern = re.compile(rf"(<!-- serving: {device} -->\n).*?(<!-- serving: end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(
            f"docs/serving.md has no comments <!-- serving: {device} --> and <!-- serving: end -->"
        )
    return pattern.sub(lambda match: f"{match[1]}\n{made}\n\n{match[2]}", text)


def publish(
    device: str, rows: list[dict[str, Any]], codes: list[str], base: Path = HERE, docs: Path = DOCS
) -> None:
    """Everything of a device from its rows."""
    folder = base / device
    folder.mkdir(exist_ok=True)
    found = write(kept(rows, codes), folder, codes)
    plot(found, folder / "serving.png")
    if (folder / "serving.png").exists():
        shutil.copyfile(
            folder / "serving.png", docs / ("serving.png" if device == "h200" else f"serving_{device}.png")
        )
    page = docs / "serving.md"
    page.write_text(place(page.read_text(encoding="utf-8"), device, shown(found)), encoding="utf-8")
    report(found)
    print("", *missed(found), sep="\n")


def name_of(device: str) -> str:
    """h200 of "NVIDIA H200", h100 of "NVIDIA H100 80GB HBM3": the folder of a device's files."""
    return device.removeprefix("NVIDIA ").split()[0].split("-")[0].lower()


def runs_of(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    path = folder / "serving.json"
    if not path.exists():
        return [], []
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["runs"], found.get("codes") or list(dict.fromkeys(map(code_of, found["runs"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--again", metavar="DEVICE", help="h200 or h100: docs from what is there")
    given = parser.parse_args()
    new: list[dict[str, Any]] = [
        {**row, "start": f"{folder.resolve().parent.name}/{folder.name}"}
        for folder in given.folders
        for row in runs_of(folder)[0]
    ]
    devices = {name_of(row["device"]) for row in new} or {given.again}
    if len(devices) != 1 or None in devices:
        parser.error(f"folders of one device, or --again; found {devices}")
    (device,) = devices
    rows, codes = runs_of(HERE / device)
    codes = [*codes, *dict.fromkeys(code for row in new if (code := code_of(row)) not in codes)]
    publish(device, rows + [row for row in new if row not in rows], codes)


if __name__ == "__main__":
    main()
