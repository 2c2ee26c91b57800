"""What the loop from a server's traffic to a better selector gained, on launches that it did not learn from.

    python benchmarks/traffic.py held_out=LOG.csv advised=LOG.csv rest=LOG.csv --spec SPEC.toml --traffic TRAFFIC.csv
        --before OLD.json --after NEW.json -o benchmarks/h200/traffic.csv

LOG.csv: sweeps of launches of the traffic: held out, asked for by `heurgen advise`, the others. Writes a row a launch:
its part, what differs between launches of one model, how often the traffic made it, milliseconds of the best measured
config and of what each model chooses. Prints docs/serving.md's table. A launch counts as often as the traffic made it;
what a log holds beside is left out.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from heurgen.audit.advise.traffic import Traffic, read_traffic
from heurgen.audit.score import replay
from heurgen.base.figures import Summary, summarise
from heurgen.ir import HeuristicModule
from heurgen.ir.schema import read_model
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec

FEATURES = ("num_seqs", "total_query_tokens", "max_seqlen_q", "max_seqlen_k", "total_seqlen_k", "fresh")
SIDES = {"before": "as it ships", "after": "with the advised launches"}


def rows_of(
    table: CostTable, traffic: Traffic, models: Mapping[str, HeuristicModule]
) -> list[dict[str, Any]]:
    """A row for each launch of the table that the traffic made. models: by the names of SIDES.

    ValueError where what a model chooses was not measured.
    """
    counts = {tuple(row.values()): count for row, count in zip(traffic.rows, traffic.counts, strict=True)}
    found: list[dict[str, Any]] = []
    for choices in zip(*(replay(model, table) for model in models.values()), strict=True):
        features, times = choices[0].features, table.times[choices[0].row]
        count, best = counts.get(tuple(features.values())), float(times[times > 0].min())
        if count is None:
            continue
        row = {name: features[name] for name in FEATURES} | {"count": round(count), "best_ms": round(best, 6)}
        for side, choice in zip(models, choices, strict=True):
            if choice.slowdown is None:
                raise ValueError(f"what is chosen {side} was not measured: {choice.name}")
            row[f"{side}_ms"] = round(best * choice.slowdown, 6)
        found.append(row)
    return found


def figures(rows: Iterable[Mapping[str, Any]], side: str) -> tuple[Summary, float]:
    """Slowdown of a side's choices, and their time over that of the best configs. Cells may be text."""
    read = [(int(row["count"]), float(row["best_ms"]), float(row[f"{side}_ms"])) for row in rows]
    unit = math.gcd(*(count for count, _, _ in read))
    slow = [math.log(mine / best) for count, best, mine in read for _ in range(count // unit)]
    chosen, least = (sum(row[0] * row[i] for row in read) for i in (2, 1))
    return summarise(slow), chosen / least


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table of the held-out launches."""
    held = [row for row in rows if row["part"] == "held_out"]
    lines = [
        f"| the selector, on {len(held)} held-out launches | geometric mean | p95 | worst | time / least |",
        "|---|---|---|---|---|",
    ]
    for side, name in SIDES.items():
        found, time = figures(held, side)
        cells = (found.geomean_slowdown, found.p95_slowdown, found.max_slowdown, time)
        lines.append(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", metavar="PART=LOG.csv")
    for name in ("spec", "traffic", *SIDES):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    spec, rows = read_spec(given.spec), []
    models = {side: read_model(getattr(given, side)) for side in SIDES}
    for part, _, log in (text.partition("=") for text in given.logs):
        (table,) = cost_tables(read_logs([log], spec), spec)
        seen = read_traffic([str(given.traffic)], spec, table.vendor)
        rows += [{"part": part, **row} for row in rows_of(table, seen, models)]
    with given.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(table_of(rows))


if __name__ == "__main__":
    main()
