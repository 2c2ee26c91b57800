"""What `pruned = true` of a spec does: held-out slowdowns with and without it.

    python -m benchmarks.pruned

The attention logs that ship, whose sweeps left out configs that cannot win a class of batches, with the settings of
heurgen.toml; 5 divisions, the 16-bit one once, the one of fp8 caches four times. Three minutes.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from benchmarks.held_out import DATA, held_out, learner, packaged, shown
from heurgen.trees import FitOptions
from heurgen.trees.compare import divisions

REPEATS = {"paged_attention": 1, "paged_attention_fp8": 4}


def main() -> None:
    shipped = tomllib.loads((DATA.parent / "heurgen.toml").read_text())["heuristic"]
    print(f"{'':40s} geomean   p95    max  not measured")
    for entry in shipped:
        repeats = REPEATS.get(Path(entry["model"]).stem)
        if repeats is None:
            continue
        table = packaged(Path(entry["spec"]).name, *(Path(log).name for log in entry["logs"]))
        names = ("strategy", "max_configs", "max_depth", "max_leaves", "tail")
        choose = learner(FitOptions(**{name: entry[name] for name in names}))
        for pruned in (False, True):
            told = replace(table, pruned=pruned)
            figures = held_out(told, choose, divisions(told, 5, repeats))
            print(f"{Path(entry['model']).stem + f', pruned = {pruned}':40s}", *shown(figures), flush=True)


if __name__ == "__main__":
    main()
