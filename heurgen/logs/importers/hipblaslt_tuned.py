"""What hipblaslt-bench writes into HIPBLASLT_TUNING_FILE -> winners, by their index in that build of the library.

    Git Version: 1a2b3c4d
    transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,solution_index
    N,T,1,4096,6144,8192,f16_r,f16_r,f16_r,f32_r,300049

Every problem has both lines. Later versions put the throughput and the time (`us`) before the index, and behind it the
names of the solution and of its kernel, or the device (`gcnArchName`, `CUs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heurgen.base.errors import quoted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.devices import amd_device
from heurgen.logs.importers.foreign import Foreign, cell, cells_line, csv_time, header_line, lines

_INDEX, _TIME = "solution_index", "us"
_ARCHITECTURE, _UNITS = "gcnArchName", "CUs"
# What the winner achieved, and how it was measured: not known at launch.
_RESULT = re.compile(r"hipblaslt-.*|us|rotating_buffer|flush|use_gpu_timer")
# What hipblaslt-bench prints between such lines; those who write tuning files do not.
_PRINTED = re.compile(r"^[ \t]*(?:\[[0-9]+\]:|Winner:|--Solution index:|Device ID )", re.MULTILINE)
_HEADER = re.compile(r"\s*(transA,transB,.*\bsolution_index\b.*)")
_RECOGNISED = re.compile(r"^[ \t]*transA,transB,[^\n]*\bsolution_index\b", re.MULTILINE)
_VERSION = re.compile(r"\s*Git Version: (.*)")


def recognises(file: Foreign) -> bool:
    return _RECOGNISED.search(file.text) is not None and _PRINTED.search(file.text) is None


@dataclass(frozen=True, slots=True)
class _Tuning:
    device: str | None
    problem: dict[str, str]
    solution: str
    time: float | None


def import_hipblaslt_tuned(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("hipblaslt-tuned", winners_only=True, absent="none")
    found.kernel = "hipblaslt"
    builds: dict[str, Foreign] = {}
    for file in files:
        for build, tuning in _rows(file):
            builds.setdefault(build, file)
            device, vendor = found.place(file.file, tuning.device, options)
            found.add(found.scenario(vendor, device, tuning.problem), {_INDEX: tuning.solution}, tuning.time)
    if len(builds) > 1:
        said = ", ".join(quoted(b) if b else "none named" for b in sorted(builds))
        raise builds[max(builds)].error(
            f"the tunings are of {len(builds)} builds of hipBLASLt ({said}), whose solutions have other indices",
            hint="import those of one build at a time",
        )
    return found.imported(options)


def _rows(file: Foreign) -> Iterator[tuple[str, _Tuning]]:
    """The build of the library, and every tuning."""
    build, header, above = "", list[str](), 0
    for number, text in lines(file):
        if version := _VERSION.fullmatch(text):
            build = version[1].strip()
        elif names := _HEADER.fullmatch(text):
            _check_followed(file, above)
            header, above = header_line(file, names[1], number), number
        elif above:
            yield build, _tuning(file, number, text, header)
            above = 0
        else:
            raise file.error(
                f"found {quoted(text)}, expected the header of a tuning: transA,transB,...", row=number
            )
    _check_followed(file, above)


def _check_followed(file: Foreign, header: int) -> None:
    if header:
        raise file.error("no values follow this header", row=header, hint="the file was cut off here")


def _tuning(file: Foreign, row: int, text: str, header: Sequence[str]) -> _Tuning:
    """The problem stands before the index, less what was achieved."""
    said = cells_line(file, text, row, header)
    for name in (n for n in (_INDEX, _UNITS) if n in said):
        if not re.fullmatch(r"[0-9]{1,15}", said[name]):
            expected = "an index" if name == _INDEX else "a number of compute units"
            raise file.error(f"found {quoted(said[name])}, expected {expected}", row=row, path=name)
    names = [n for n in header[: header.index(_INDEX)] if not _RESULT.fullmatch(n)]
    problem = {n: cell(file, said[n], f"line {row}: {n}") for n in names}
    architecture = said.get(_ARCHITECTURE, "").partition(":")[0]
    units = int(said[_UNITS]) if _UNITS in said else None
    time = csv_time(file, said[_TIME], row, _TIME, factor=1e-3) if _TIME in said else None
    device = amd_device(architecture, units) if architecture else None
    return _Tuning(device, problem, said[_INDEX], time)
