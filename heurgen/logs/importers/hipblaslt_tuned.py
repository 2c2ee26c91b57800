"""What hipblaslt-bench writes into HIPBLASLT_TUNING_FILE -> winners, by their index in that build of the library.

    Git Version: 1a2b3c4d
    transA,transB,batch_count,m,n,k,a_type,b_type,c_type,compute_type,solution_index
    N,T,1,4096,6144,8192,f16_r,f16_r,f16_r,f32_r,300049

Every problem has both lines; later versions append the names of the solution and of its kernel. Neither a time nor the
device is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from heurgen.base.errors import quoted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, cell, lines

_INDEX = "solution_index"
_HEADER = re.compile(r"\s*(transA,transB,.*\bsolution_index\b.*)")
_RECOGNISED = re.compile(r"^[ \t]*transA,transB,[^\n]*\bsolution_index\b", re.MULTILINE)
_VERSION = re.compile(r"\s*Git Version: (.*)")


def recognises(file: Foreign) -> bool:
    return _RECOGNISED.search(file.text) is not None and "hipblaslt-Gflops," not in file.text


def import_hipblaslt_tuned(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("hipblaslt-tuned", winners_only=True, absent="none")
    found.kernel = "hipblaslt"
    builds: dict[str, Foreign] = {}
    for file in files:
        for build, problem, solution in _rows(file):
            builds.setdefault(build, file)
            device, vendor = found.place(file.file, None, options)
            found.add(found.scenario(vendor, device, problem), {_INDEX: solution}, None)
    if len(builds) > 1:
        said = ", ".join(quoted(b) if b else "none named" for b in sorted(builds))
        raise builds[max(builds)].error(
            f"the tunings are of {len(builds)} builds of hipBLASLt ({said}), whose solutions have other indices",
            hint="import those of one build at a time",
        )
    return found.imported(options)


def _rows(file: Foreign) -> Iterator[tuple[str, dict[str, str], str]]:
    """The build of the library, the problem and the solution of every tuning."""
    build, header, above = "", list[str](), 0
    for number, text in lines(file):
        if version := _VERSION.fullmatch(text):
            build = version[1].strip()
        elif names := _HEADER.fullmatch(text):
            _check_followed(file, above)
            header, above = _header(file, number, names[1]), number
        elif above:
            yield build, *_tuning(file, number, text, header)
            above = 0
        else:
            raise file.error(
                f"found {quoted(text)}, expected the header of a tuning: transA,transB,...", row=number
            )
    _check_followed(file, above)


def _check_followed(file: Foreign, header: int) -> None:
    if header:
        raise file.error("no values follow this header", row=header, hint="the file was cut off here")


def _header(file: Foreign, row: int, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
        raise file.error(f"two columns are named {quoted(twice)}", row=row)
    return names


def _tuning(file: Foreign, row: int, text: str, header: Sequence[str]) -> tuple[dict[str, str], str]:
    """The problem, which stands before the index, and the index."""
    cells = [c.strip() for c in text.split(",")]
    place = header.index(_INDEX)
    if len(cells) != len(header):
        raise file.error(f"found {len(cells)} cells, expected {len(header)}", row=row)
    if not re.fullmatch(r"[0-9]{1,15}", cells[place]):
        raise file.error(f"found {quoted(cells[place])}, expected an index", row=row, path=_INDEX)
    problem = {n: cell(file, c, f"line {row}: {n}") for n, c in zip(header[:place], cells, strict=False)}
    return problem, cells[place]
