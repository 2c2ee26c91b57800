"""How long `heurgen import autoheuristic` takes for half a million rows, and how much memory.

    python -m benchmarks.importers [ROWS]

Prints seconds to read, sort and write the log as CSV, and the peak resident size of the process in MiB.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from heurgen.logs.importers.autoheuristic import import_autoheuristic
from tests.logs.importers.synthetic import choices, lines


def main(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mm.txt")
        per_shape = len(choices()) * 5
        text = lines(n_rows // per_shape, repeats=5)
        rows = text[2:]
        random.Random(0).shuffle(rows)
        path.write_text("\n".join(text[:2] + rows) + "\n")
        del text, rows
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.perf_counter()
        imported = import_autoheuristic([path])
        read = time.perf_counter() - start
        Path(folder, "log.csv").write_text(imported.csv_text(), encoding="utf-8", newline="")
        total = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rows {len(imported.rows)}  read {read:.2f} s  with CSV {total:.2f} s")
    print(f"peak {peak:.0f} MiB (before the import {before:.0f} MiB)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
