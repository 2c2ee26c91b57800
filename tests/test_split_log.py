"""data/split_log.py: what it writes does not depend on the order in which several GPUs finished."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from heurgen.tune.run import TuneOptions, run_tune
from tests.tune.fakes import FakeExecutor

ROOT = Path(__file__).parents[1]
TARGET = "tests.tune.fakes:tunable"
Rows = list[list[str]]


def workload(folder: Path) -> Path:
    path = folder / "w.toml"
    tables = [
        f"[[scenario]]\nM = {m}\nN = {n}\ndtype = 'float16'\nlengths = [[1, {m}]]\n"
        for m in (512, 8, 64, 32, 4096)
        for n in (1024, 64)
    ]
    path.write_text("\n".join(tables))
    return path


def split(folder: Path, sweep: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "data/split_log.py", sweep, folder / "w.toml", TARGET, folder / name],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def read(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def shuffled(rows: Rows, seed: int) -> Rows:
    """Chunks of several scenarios take turns; within a scenario the order stays."""
    left: dict[str, Rows] = defaultdict(list)
    for row in rows:
        left[row[0]].append(row)
    mixed, chance = [], random.Random(seed)
    while left:
        name = chance.choice(sorted(left))
        mixed += left[name][:7]
        left[name] = left[name][7:]
        if not left[name]:
            del left[name]
    return mixed


def test_the_order_of_finishing_leaves_no_trace(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.csv"
    run_tune(TuneOptions(TARGET, sweep, workload(tmp_path)), executor=FakeExecutor())
    assert split(tmp_path, sweep, "a").returncode == 0
    header, *rows = read(sweep)
    with sweep.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *shuffled(rows, 1)])
    assert read(sweep)[1:] != rows
    assert split(tmp_path, sweep, "b").returncode == 0
    for end in (".csv", "_test.csv", ".card.toml", "_test.card.toml"):
        assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / f"b{end}").read_bytes()
    train, test = (read(tmp_path / f"a{end}")[1:] for end in (".csv", "_test.csv"))
    assert sorted(train + test) == sorted(rows)
    sizes = [tuple(map(int, r[3:5])) for r in train + test]
    assert list(dict.fromkeys(m for m, _ in sizes[: len(train)])) == [
        m for m in (512, 8, 64, 32, 4096) if any(m == int(r[3]) for r in train)
    ]
    assert not {r[3] for r in train} & {r[3] for r in test}  # equal lengths on one side
    assert len({r[0] for r in test}) == 2  # two groups would be 4 of 10 scenarios


def test_a_log_of_another_workload(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.csv"
    workload(tmp_path)
    run_tune(TuneOptions(TARGET, sweep), executor=FakeExecutor())
    done = split(tmp_path, sweep, "a")
    first = min(r[0] for r in read(sweep)[1:])
    assert done.returncode == 1
    assert done.stderr == f"{sweep}: scenario {first!r} is not of the workload {tmp_path / 'w.toml'}\n"
    assert not (tmp_path / "a.csv").exists()
