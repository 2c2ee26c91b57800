"""Whether numbers are times or throughputs, where no name says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heurgen.logs.cells import parse_cells
from heurgen.logs.objective import is_unsaid, throughput_beside
from heurgen.logs.tuning_log import read_logs
from tests.logs.rows import SPEC, row, write

# Most configs near the best: 1 ms, seven times up to 1.6, one of 9.
TIMES = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 9.0)
NOTE = "most configs are nearer to the slowest than to the fastest, as if 'mean' held {} that are read as {}: if so, {}"


def notes(
    folder: Path, values: tuple[float, ...], *, time: str = "mean", scenarios: int = 10, **log: str
) -> list[str]:
    rows = [
        row(scenario=f"s{s}", n=str(s + 1), BM=str(16 * i), **{time: str(v * (s + 1))})
        for s in range(scenarios)
        for i, v in enumerate(values, 1)
    ]
    for r in rows:
        r.pop("time_ms") if time != "time_ms" else None
    spec = replace(SPEC, log=replace(SPEC.log, time=time, **log))  # type: ignore[arg-type]
    return [n for n in read_logs(write(folder, *rows), spec).notes if n.startswith("most configs")]


def test_numbers_that_pile_up_at_the_slow_end_are_noted(tmp_path: Path) -> None:
    rates = tuple(1 / t for t in TIMES)
    turned = NOTE.format("throughputs", "times", 'write objective = "max" in [log]')
    assert notes(tmp_path, rates) == [turned]
    assert notes(tmp_path, TIMES) == []
    assert notes(tmp_path, rates, objective="max") == []
    turned = NOTE.format("times", "throughputs", 'remove objective = "max" in [log]')
    assert notes(tmp_path, TIMES, objective="max") == [turned]


@pytest.mark.parametrize(
    "said",
    [{"time": "time_ms"}, {"time": "mean_us"}, {"unit": "us"}, {"scenarios": 9}, {"winners_only": True}],
)
def test_a_name_that_says_it_is_believed_and_few_scenarios_say_nothing(
    tmp_path: Path, said: dict[str, str]
) -> None:
    assert notes(tmp_path, tuple(1 / t for t in TIMES), **said) == []  # type: ignore[arg-type]


def test_what_is_near_or_of_few_configs_says_nothing(tmp_path: Path) -> None:
    assert notes(tmp_path, (1.0, *(1.09,) * 7)) == []
    assert notes(tmp_path, (1.0, *(9.0,) * 6)) == []
    assert len(notes(tmp_path, (1.0, *(9.0,) * 7))) == 1


def test_repeats_count_once(tmp_path: Path) -> None:
    """Else the slowest run of a config that was disturbed would be the worst config."""
    rows = [
        row(scenario=f"s{s}", n=str(s + 1), BM=str(16 * i), mean=str(value))
        for s in range(10)
        for i, t in enumerate(TIMES, 1)
        for value in (1 / t, 1 / t, 40.0)
    ]
    for r in rows:
        del r["time_ms"]
    found = read_logs(write(tmp_path, *rows), replace(SPEC, log=replace(SPEC.log, time="mean"))).notes
    assert [n.startswith("most configs") for n in found] == [False, True]


@pytest.mark.parametrize(
    ("text", "unsaid"),
    [("mean\n1.5\n", True), ("mean\n1.5 us\n", False), ("mean_us\n1.5\n", False), ("tflops\n1.5\n", False)],
)
def test_what_a_column_says(text: str, unsaid: bool) -> None:
    assert is_unsaid(parse_cells([("a.csv", text)]), text.partition("\n")[0]) == unsaid


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("a.csv", "n,unit\n1,GB/s\n2,GB/s\n", "GB/s"),
        ("a.csv", "n,Metric\n1,tflops\n2,gflops\n", "tflops"),
        ("a.csv", "n,metric\n1,tflops\n2,ms\n", None),
        ("a.csv", "n,what\n1,tflops\n2,tflops\n", None),
        ("log/gemm_tflops.csv", "n\n1\n", "gemm_tflops"),
        ("tflops/gemm.csv", "n\n1\n", None),
        ("bandwidth.csv", "n,unit\n1,rate\n", None),
    ],
)  # fmt: skip
def test_what_stands_beside(path: str, text: str, said: str | None) -> None:
    assert throughput_beside(parse_cells([(path, text)]), path) == said
