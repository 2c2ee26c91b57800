"""Measurements that stand out."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.logs import SPEC as BENCHMARK_SPEC
from benchmarks.logs import write_log
from heurgen.logs.costs import CostTable
from heurgen.logs.outliers import stand_out_notes, stand_outs
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import Column, KernelSpec, LogColumns, read_spec
from tests.support.documents import ROOT
from tests.trees.modelled import attention, mixed_matmul

BLOCKS = (16, 32, 64, 128)
SPEC = KernelSpec("k", (Column("n", "int"),), (Column("BM", "int"), Column("BN", "int")))
HEADER = ["vendor", "device", "n", "BM", "BN", "status", "time_ms"]
# (n, BM, BN) -> times; no time: failed.
Grid = dict[tuple[int, int, int], list[float | None]]


def grid(scenarios: int = 12) -> Grid:
    """Each step of BM costs 1.2x, of BN 1.1x."""
    return {
        (n, 16 << i, 16 << j): [n * 1.2**i * 1.1**j]
        for n in range(1, scenarios + 1)
        for i in range(4)
        for j in range(4)
    }


def log_of(folder: Path, cells: Grid, spec: KernelSpec = SPEC, *, comment: str = "") -> TuningLog:
    rows = [
        ["nvidia", "H200", *cell, "oom" if t is None else "ok", t]
        for cell, times in cells.items()
        for t in times
    ]
    with (folder / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*HEADER, "reason"], *([*row, comment] for row in rows)])
    return read_logs(folder / "log.csv", spec)


def slowed(cells: Grid, factor: float, *at: tuple[int, int, int]) -> Grid:
    return {c: [t * factor for t in times if t] if c in at else times for c, times in cells.items()}


def test_a_slow_cell_is_named_with_its_line_and_factor(tmp_path: Path) -> None:
    log = log_of(tmp_path, slowed(grid(), 2.0, (3, 32, 32), (5, 64, 64)))
    found = stand_outs(log)
    path = str(tmp_path / "log.csv")
    assert [(s.file, s.line) for s in found] == [(path, 2 + 2 * 16 + 5), (path, 2 + 4 * 16 + 10)]
    # One step away are 1.2, 1 / 1.2, 1.1 and 1 / 1.1: their median is (1.1 + 1 / 1.1) / 2.
    assert [s.factor for s in found] == pytest.approx([4 / (1.1 + 1 / 1.1)] * 2)
    assert stand_out_notes(found, log) == (
        f"2 of 192 measurements stand out from those of configs one step away (worst: line 39 of {path}, 2.0x): "
        "measure them again",
    )
    assert stand_out_notes(found[:1], log)[0].startswith("1 of 192 measurements stands out from those")
    assert not stand_outs(log_of(tmp_path, grid()))
    assert not stand_out_notes((), log)


def test_lines_are_right_where_cells_hold_line_breaks(tmp_path: Path) -> None:
    log = log_of(tmp_path, slowed(grid(), 2.0, (3, 32, 32)), comment="a\nb")
    assert [s.line for s in stand_outs(log)] == [2 + 2 * (2 * 16 + 5)]


def test_what_is_slow_elsewhere_or_beside_it_too_does_not_stand_out(tmp_path: Path) -> None:
    everywhere = [(n, 32, 32) for n in range(1, 13)]
    assert not stand_outs(log_of(tmp_path, slowed(grid(), 2.0, *everywhere)))
    assert not stand_outs(log_of(tmp_path, slowed(grid(), 2.0, *everywhere[:3])))
    assert len(stand_outs(log_of(tmp_path, slowed(grid(), 2.0, *everywhere[:2])))) == 2
    # BM = 32 and BN = 32 take as long as BM = 32 and BN = 16.
    alike = slowed(slowed(grid(), 2.0, (3, 32, 32)), 2.2, (3, 32, 16))
    assert not stand_outs(log_of(tmp_path, alike))


def test_too_few_scenarios_or_neighbours_say_nothing(tmp_path: Path) -> None:
    assert len(stand_outs(log_of(tmp_path, slowed(grid(11), 2.0, (3, 32, 32))))) == 1
    assert not stand_outs(log_of(tmp_path, slowed(grid(10), 2.0, (3, 32, 32))))
    assert not stand_outs(log_of(tmp_path, slowed(grid(), 2.0, (3, 16, 16))))  # a corner has two neighbours
    two_failed: Grid = {(3, 16, 32): [None], (3, 64, 32): [None]}
    assert not stand_outs(log_of(tmp_path, slowed(grid(), 2.0, (3, 32, 32)) | two_failed))
    line = {c: t for c, t in slowed(grid(), 2.0, (3, 32, 32)).items() if c[2] == 32}
    assert not stand_outs(log_of(tmp_path, line))


def test_a_category_has_no_order(tmp_path: Path) -> None:
    """Of a corner's values any other is one step away: six neighbours."""
    spec = replace(SPEC, parameters=(Column("BM", "category"), Column("BN", "category")))
    corner = slowed(grid(), 4.0, (3, 128, 128))  # in the order of texts, too
    assert not stand_outs(log_of(tmp_path, corner))
    assert len(stand_outs(log_of(tmp_path, corner, spec))) == 1


def test_repeats_that_agree_are_believed(tmp_path: Path) -> None:
    slow = slowed(grid(), 2.0, (3, 32, 32))
    once = slow[3, 32, 32][0] or 0.0
    assert not stand_outs(log_of(tmp_path, slow | {(3, 32, 32): [once, once * 1.02]}))
    repeated = stand_outs(log_of(tmp_path, slow | {(3, 32, 32): [once / 2, once]}))
    assert [(s.line, round(s.factor, 2)) for s in repeated] == [(2 + 2 * 16 + 6, 1.49)]
    assert not stand_outs(log_of(tmp_path, slow | {(3, 32, 32): [once / 2, once, once / 2]}))


def test_logs_of_winners_say_nothing(tmp_path: Path) -> None:
    spec = replace(SPEC, log=LogColumns(winners_only=True))
    slow = slowed(grid(), 2.0, (3, 32, 32))
    assert stand_outs(log_of(tmp_path, slow))
    assert not stand_outs(log_of(tmp_path, slow, spec))


def test_other_scenarios_are_those_of_the_device(tmp_path: Path) -> None:
    """On the second device the config is slow in each of its few scenarios."""
    log_of(tmp_path, grid(120))
    text = (tmp_path / "log.csv").read_text()
    log_of(tmp_path, slowed(grid(11), 2.0, *((n, 32, 32) for n in range(1, 12))))
    (tmp_path / "other.csv").write_text(text.replace("H200", "H100"))
    assert not stand_outs(read_logs([tmp_path / "log.csv", tmp_path / "other.csv"], SPEC))


def test_times_at_random_have_no_yardstick(tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", 100, 200, quote=False, jsonl=False, zipped=False)
    (tmp_path / "spec.toml").write_text(BENCHMARK_SPEC)
    assert stand_outs(read_logs(tmp_path / "log.csv", read_spec(tmp_path / "spec.toml"))) == ()


def modelled(folder: Path, table: CostTable, disturbed: float) -> tuple[int, int, int]:
    """How many cells were slowed 2x, how many of these stand out, and how many others."""
    draw, slow, lines = (
        random.Random(0),
        set(),
        [["vendor", "device", "n", *table.parameters, "status", "time_ms"]],
    )
    for s, c in np.argwhere(np.isfinite(table.times)).tolist():
        hit = draw.random() < disturbed
        time = float(table.times[s, c]) * (2 if hit else 1)
        lines.append(
            [
                "nvidia",
                "A100",
                *map(str, (s, *("" if v is None else v for v in table.configs[c]))),
                "ok",
                repr(time),
            ]
        )
        slow |= {len(lines)} if hit else set()
    with (folder / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    kinds = zip(table.parameters, zip(*table.configs, strict=True), strict=True)
    parameters = [Column(p, "category" if isinstance(v[-1], str) else "int", optional=True) for p, v in kinds]
    log = read_logs(folder / "log.csv", KernelSpec("k", (Column("n", "int"),), tuple(parameters)))
    named = {s.line for s in stand_outs(log)}
    return len(slow), len(slow & named), len(named - slow)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_modelled_kernels_hardly_stand_out_and_slowed_cells_do(tmp_path: Path, noise: float) -> None:
    for table in (attention(300, noise=noise), mixed_matmul(100, noise=noise)):
        cells = int(np.isfinite(table.times).sum())
        assert modelled(tmp_path, table, 0.0)[2] <= 0.004 * cells
        slow, found, others = modelled(tmp_path, table, 0.01)
        assert found >= 0.85 * slow > 50
        assert others <= 0.004 * cells


def test_the_h200_log() -> None:
    log = read_logs(ROOT / "data/h200_unified_attention.csv", read_spec(ROOT / "data/unified_attention.toml"))
    found = stand_outs(log)
    assert len(found) == 114
    assert (found[0].line, round(found[0].factor, 1)) == (4893, 92.8)
    assert list(found) == sorted(found, key=lambda s: -s.factor)
