"""Which column holds the times, in which unit, and which rows are none."""

from __future__ import annotations

import pytest

from heurgen.base.errors import LogError
from heurgen.logs.cells import parse_cells
from heurgen.logs.draft import drafted_spec
from heurgen.spec.kernel_spec import KernelSpec

ROWS = [(m, n, b) for m in (16, 64) for n in (4096, 8192) for b in (32, 64)]


def drafted(head: str, *rows: str) -> KernelSpec:
    return drafted_spec(parse_cells([("t.csv", "\n".join((head, *rows)) + "\n")]))[0]


def google(unit: str = "us", **units: str) -> list[str]:
    """Rows of Google Benchmark's whose sizes are counters; `units` of other rows, by their numbers (`_3`)."""
    return [
        f"gemm/{m}/{n}/{b},{90 + i},{m + b}.5,{m + b},{units.get(f'_{i}', unit)},,H200,{m},{n},{b}"
        for i, (m, n, b) in enumerate(ROWS)
    ]


GOOGLE = "name,iterations,real_time,cpu_time,time_unit,error_occurred,device,M,N,BLOCK"


def test_the_unit_that_a_column_says_is_that_of_the_times() -> None:
    spec = drafted(GOOGLE, *google())
    assert (spec.log.time, spec.log.unit) == ("real_time", "us")
    assert [f.name for f in spec.features] == ["M", "N"]
    assert [p.name for p in spec.parameters] == ["BLOCK"]
    assert drafted(GOOGLE.replace("real_time", "real_time_ms"), *google()).log.unit is None


@pytest.mark.parametrize(
    ("own", "unit"),
    [("number_per_run", "s"), ("rounds,ops", "s"), ("rounds,x", None), ("time_ms,number_per_run", None)],
)
def test_averages_of_torch_and_pytest_are_in_seconds(own: str, unit: str | None) -> None:
    rows = [f"H200,{m},{b},1e-{4 + b // 64},{m + b}.5,{b % 7}" for m, n, b in ROWS if n == 4096]
    text = "\n".join((f"device,M,BLOCK,median,{own}{',y' if ',' not in own else ''}", *rows, ""))
    spec, notes = drafted_spec(parse_cells([("t.csv", text)]))
    assert spec.log.unit == unit
    assert bool(notes) == (own == "rounds,x")


@pytest.mark.parametrize("unit", ["GB", "", "%"])
def test_other_units_say_nothing_of_the_times(unit: str) -> None:
    assert drafted(GOOGLE, *google(unit)).log.unit is None


@pytest.mark.parametrize("name", ["time_unit", "metric_unit", "real_time_units"])
def test_times_of_several_units_are_refused(name: str) -> None:
    """Google Benchmark has a unit for every benchmark: such times were read as if of one."""
    header = GOOGLE.replace("time_unit", name)
    with pytest.raises(
        LogError, match=rf"t.csv:5: column '{name}': found the unit 'ms', expected 'us' as above"
    ):
        drafted(header, *google(_3="ms"))


@pytest.mark.parametrize("ends", [("mean", "median", "stddev", "cv"), ("mean", "stddev")])
def test_aggregates_are_no_measurements(ends: tuple[str, ...]) -> None:
    more = [google()[0].replace(",", f"_{end},", 1) for end in ends]
    with pytest.raises(
        LogError, match=r"t.csv:10: column 'name': found 'gemm/16/4096/32_mean', expected a measurement"
    ):
        drafted(GOOGLE, *google(), *more)
    assert drafted(GOOGLE, *google(), *more[:1]).log.time == "real_time"  # it may be called so


def test_rows_that_are_called_aggregates_are_no_measurements() -> None:
    rows = [f"iteration,{row}" for row in google()]
    rows[-1] = rows[-1].replace("iteration", "aggregate")
    with pytest.raises(
        LogError, match=r"t.csv:9: column 'run_type': found 'aggregate', expected a measurement"
    ):
        drafted(f"run_type,{GOOGLE}", *rows)


@pytest.mark.parametrize(
    "own", ["Created,Runtime", "Start Time,Duration", "when,_runtime", "when,time_this_iter_s"]
)
def test_the_time_of_a_whole_run_is_that_of_no_kernel(own: str) -> None:
    """W&B's, MLflow's and Ray's, which took the place of the kernel's time."""
    rows = [f"2026-11-01 10:00:0{i},{m % 7}.5,H200,{m},{n},{b},{m + b}.5" for i, (m, n, b) in enumerate(ROWS)]
    assert drafted(f"{own},device,M,N,BLOCK,kernel_us", *rows).log.time == "kernel_us"
    with pytest.raises(LogError, match="no column looks like the time of a measurement"):
        drafted(f"{own},device,M,N,BLOCK,label", *rows)


def test_a_duration_is_a_time_where_no_run_began() -> None:
    rows = [f"H200,{m},{n},{b},{m + b}.5" for m, n, b in ROWS]
    assert drafted("device,M,N,BLOCK,duration", *rows).log.time == "duration"


def test_raw_times_are_of_several_launches() -> None:
    """torch.utils.benchmark: a raw time is that of `number_per_run` launches, which differ from row to row."""
    rows = [
        f'{{"raw_times": [{m + b}.5], "number_per_run": {b}, "M": {m}, "BLOCK": {b}}}' for m, _, b in ROWS
    ]
    with pytest.raises(LogError, match="no column looks like the time of a measurement"):
        drafted(rows[0], *rows[1:])


NCU = "Process Name,Grid Size,CC,device,M,N,BLOCK,gpu__time_duration.sum,launch__registers_per_thread"


def ncu(time: str = "{}.5") -> list[str]:
    """Rows of Nsight Compute's, to which somebody added what was launched."""
    return [
        f'python{b % 3},"({m}, {b}, 1)",9.{b % 3},H200,{m},{n},{b},"{time.format(m + b)}",{b + m % 3}'
        for m, n, b in ROWS
    ]


def test_what_nsight_compute_notes_of_a_launch_is_no_parameter() -> None:
    spec = drafted(NCU, *ncu())
    assert spec.log.time == "gpu__time_duration.sum"
    assert [f.name for f in spec.features] == ["M", "N"]
    assert [p.name for p in spec.parameters] == ["BLOCK"]


def test_a_row_of_units_is_no_failure() -> None:
    place = r"t.csv:2: column 'gpu__time_duration.sum': found the unit 'us', expected a time"
    with pytest.raises(LogError, match=place + r' \(delete the row of units; unit = "us" in \[log\]'):
        drafted(NCU, ",,,,,,,us,register/thread", *ncu())


@pytest.mark.parametrize("time", ["1,{:03}.5", "12,345,{:03}", "1,{:03}"])
def test_commas_between_thousands_are_told(time: str) -> None:
    with pytest.raises(
        LogError, match=r"'gpu__time_duration.sum' holds commas between thousands: write 1234.5"
    ):
        drafted(NCU, *ncu(time))
