"""MIOpen's published find-db as a cost table: which convolution solver, by measured times of an AMD GPU.

A problem lists at most four solvers: what it does not list was not measured (see ../shared/FORMATS.md, 6).
"""

from __future__ import annotations

import bz2
import re
from pathlib import Path

import numpy as np

from heurgen.logs.costs import CostTable, TableColumn
from tests.trees.synthetic import table

PATH = Path(__file__).parents[2] / "shared/data/published/miopen/gfx942130.HIP.fdb.txt.bz2"
NUMBERS = (
    *("in_c", "in_h", "in_w", "filter_h", "filter_w", "out_c", "out_h", "out_w", "batch", "pad_h", "pad_w"),
    *("stride_h", "stride_w", "dilation_h", "dilation_w", "groups"),
)
_KEY = re.compile(r"(.*)-(FP16|FP32|BF16|INT8)-([FBW])(?:_g(\d+))?")


def read_find_db(path: Path = PATH, dtype: str = "FP16") -> CostTable:
    """The 2-D problems of one dtype: 16 numbers, layout and direction; one parameter, the solver."""
    problems = []
    for line in bz2.decompress(path.read_bytes()).decode().splitlines():
        key, _, entries = line.strip().partition("=")
        found = _KEY.fullmatch(key)
        fields = found[1].split("-") if found else []
        if found is None or len(fields) != 13 or found[2] != dtype:
            continue
        numbers = [int(x) for field in (*fields[:7], fields[7], *fields[8:11]) for x in field.split("x")]
        times = {
            name: float(rest.split(",")[0])
            for name, _, rest in (e.partition(":") for e in entries.split(";"))
        }
        problems.append((numbers, int(found[4] or 1), fields[12], found[3], times))
    solvers = sorted({name for p in problems for name in p[4]})
    layouts = sorted({p[2] for p in problems})
    X = np.array(
        [[*n, g, layouts.index(layout), "BFW".index(way)] for n, g, layout, way, _ in problems], float
    )
    times = np.array([[p[4].get(name, np.nan) for name in solvers] for p in problems])
    columns = [TableColumn(name, "int") for name in NUMBERS]
    columns += [TableColumn("layout", "category", values=tuple(layouts))]
    columns += [TableColumn("direction", "category", values=("B", "F", "W"))]
    return table(columns, X, times, [(name,) for name in solvers], ("solver",))
