"""What the importers' tests share: made-up tables, what is read back, and wrong files with their messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError
from heurgen.logs.importers import dejavu
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import read_foreign
from heurgen.logs.importers.registry import import_logs
from heurgen.logs.tuning_log import TuningLog, parse_log
from heurgen.spec.kernel_spec import parse_spec
from tests.support.documents import PUBLISHED

published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"the published files are not at {PUBLISHED}")
H = Options(device="NVIDIA H200")
KEYS = Options(device="NVIDIA H200", keys=("M", "N"))
times = st.floats(1e-4, 1e4)
# (M, N, BLOCK, num_warps) -> a time, or None for a failure
Table = dict[tuple[int, int, int, int], float | None]
tables = st.dictionaries(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([16, 32, 64]), st.sampled_from([4, 8])),
    st.none() | times,
    min_size=1,
    max_size=12,
).filter(lambda t: any(v is not None for v in t.values()))
winners = st.dictionaries(st.integers(1, 4096), st.sampled_from([16, 32, 64]), min_size=1, max_size=8)
# The name of a file, options, its text, and the message; FILE stands for the path.
Case = tuple[str, Options, str, str]
# kind -> cases
Wrong = dict[str, list[Case]]


def import_dejavu(paths: Sequence[str | os.PathLike[str]], **said: Any) -> Imported:
    return dejavu.run([read_foreign(path) for path in paths], Options(**said))


def reread(imported: Imported) -> TuningLog:
    """The log through the strict reader, by the drafted spec as it is."""
    return parse_log("log", imported.csv_text(), parse_spec(imported.spec_text()))


def columns(imported: Imported, *names: str) -> list[tuple[str, ...]]:
    places = [imported.columns.index(n) for n in names]
    reread(imported)
    return [tuple(row[p] for p in places) for row in imported.rows]


def read_back(imported: Imported, *features: str) -> Table:
    rows = columns(imported, *features, "BLOCK", "num_warps", "time_ms")
    return {tuple(int(x) for x in r[:4]): float(r[4]) if r[4] else None for r in rows}  # type: ignore[misc]


def scenarios(table: Table) -> dict[tuple[int, int], Table]:
    found: dict[tuple[int, int], Table] = {}
    for key, time in table.items():
        found.setdefault(key[:2], {})[key] = time
    return found


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def cases(wrong: Wrong) -> list[tuple[str, Case]]:
    return [(kind, case) for kind, found in wrong.items() for case in found]


def check_refusal(folder: Path, kind: str, case: Case) -> None:
    name, options, text, message = case
    file = folder / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(HeurgenError) as error:
        import_logs(kind, [str(file)], options)
    found = str(error.value).replace(str(file), "FILE")
    assert "\x1b" not in found
    assert found == message
