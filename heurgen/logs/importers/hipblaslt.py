"""What `hipblaslt-bench --print_kernel_info` prints -> measurements: the solutions of every problem that it timed.

    Device ID 0 : AMD Instinct MI300X gfx942:sramecc+:xnack-
    [0]:transA,transB,grouped_gemm,batch_count,m,n,k,...,hipblaslt-Gflops,hipblaslt-GB/s,us
        N,T,0,1,4096,6144,8192,...,918371,452.429,448.965
        --Solution index: 300049

Later versions have the index in a column, `solution_index`. With `--requested_solution -1` or `--algo_method all` the
block repeats, and `Winner:` repeats the best one. What stands before the throughput is the problem, less how it was
measured; an index is of one build of the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from heurgen.base.errors import quoted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, cell, cells_line, csv_time, header_line, lines
from heurgen.logs.importers.hipblaslt_tuned import recognises as is_tuning_file

_HEADER = re.compile(r"\s*(?:\[[0-9]+\]:?)?(transA,transB,.*hipblaslt-Gflops,.*)")
_DEVICE = re.compile(r"\s*Device ID ([0-9]+) : (.{1,99}?)\s{1,9}gfx[0-9a-f]+\b")
_TARGET = re.compile(r"Target device ID is ([0-9]+)")
_INDEX = re.compile(r"\s*--Solution index:\s*([0-9]+)\s*")
_WINNER = re.compile(r"\s*Winner:\s*")
_GFLOPS, _TIME, _COLUMN = "hipblaslt-Gflops", "us", "solution_index"
# How a problem was measured, among the columns that say what it is; with HIPBLASLT_BENCH_FREQ, _PERF or _EFF the clocks
# and the granularity of every solution, too.
_MEASURING = re.compile(
    r"rotating_buffer|flush|use_gpu_timer|num_cu('?s)?|tiles_per_cu|tile_?[01]_gran(ularity)?|(total|cu|wave)_gran|"
    r"mem_(read|write)_bytes|.*_freq[0-9]*|.*_MCLK"
)
# Whether the result was right, where hipblaslt-bench was asked to verify it: the tolerance that holds, or "failed".
_TOLERANCES = ("atol", "rtol")
_HINT = "run hipblaslt-bench with --print_kernel_info"


@dataclass(frozen=True, slots=True)
class _Row:
    device: str | None
    problem: dict[str, str]
    time: float | None
    status: str
    solution: str


def recognises(file: Foreign) -> bool:
    return "transA,transB," in file.text and f"{_GFLOPS}," in file.text and not is_tuning_file(file)


def import_hipblaslt(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("hipblaslt", absent="none")
    found.kernel = "hipblaslt"
    for file in files:
        for row in _rows(file):
            device, vendor = found.place(file.file, row.device, options)
            scenario = found.scenario(vendor, device, row.problem)
            found.add(scenario, {"solution_index": row.solution}, row.time, row.status)
    return found.imported(options)


def _rows(file: Foreign) -> Iterator[_Row]:
    """Every solution but the winners, which are printed twice."""
    header: list[str] = []
    pending: tuple[int, dict[str, str]] | None = None
    devices, target, winner = dict[str, str](), "0", False
    for number, text in lines(file):
        if device := _DEVICE.match(text):
            devices[device[1]] = device[2]
        elif said := _TARGET.search(text):
            target = said[1]
        elif _WINNER.fullmatch(text):
            _check_indexed(file, pending)
            winner = True
        elif names := _HEADER.fullmatch(text):
            _check_indexed(file, pending)
            header = header_line(file, names[1], number)
            if _TIME not in header:
                raise file.error(f"the header lacks the column {quoted(_TIME)}", row=number)
        elif header and text.count(",") >= len(header) - 1:
            _check_indexed(file, pending)
            pending = number, cells_line(file, text, number, header)
        index = _index(pending, text)
        if pending and index:
            if not winner:
                yield _row(file, *pending, devices.get(target), index)
            pending, winner = None, False
    _check_indexed(file, pending)


def _index(pending: tuple[int, dict[str, str]] | None, text: str) -> str | None:
    """The index of the measurement that was read last: of its own column, or of this line."""
    if pending and _COLUMN in pending[1]:
        text = f"--Solution index: {pending[1][_COLUMN]}"
    found = _INDEX.fullmatch(text)
    return found[1] if found else None


def _check_indexed(file: Foreign, pending: tuple[int, dict[str, str]] | None) -> None:
    if pending is not None:
        raise file.error("no solution index follows this measurement", row=pending[0], hint=_HINT)


def _row(file: Foreign, row: int, said: dict[str, str], device: str | None, solution: str) -> _Row:
    names = [n for n in takewhile(_GFLOPS.__ne__, said) if not _MEASURING.fullmatch(n)]
    problem = {n: cell(file, said[n], f"line {row}: {n}") for n in names}
    time = csv_time(file, said[_TIME], row, _TIME, factor=1e-3)
    if any(said.get(n) == "failed" for n in _TOLERANCES):
        return _Row(device, problem, None, "incorrect", solution)
    return _Row(device, problem, time, "ok" if time is not None else "invalid", solution)
