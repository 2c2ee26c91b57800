"""AITER's tuned CSVs and Triton JSON -> winners; what its tuners write to `--profile_file` -> measurements.

A CSV has a row a shape: arch or gfx (with cu_num: the device), the shape, the winner's parameters, `us` or `duration`
in microseconds (of HSTU: in milliseconds), and what followed (kernelName, tflops, bw, errRatio). From the first column
known to be a parameter to the time all are parameters; kernelName is one where no number says the kernel. Lines that
begin with # are comments. A profile has the columns of a tuned CSV and a row for every candidate: one that did not run
has the time -1 or inf, one whose result is wrong an error above what the tuners tolerate. A JSON file
`<arch>-GEMM-<kind>[-N=..-K=..].json` has a winner for each bound of M: `M_LEQ_64`, `M_GEQ_4096`, `any`; of older
versions `small`, `medium_M32`, `medium_M64`, `medium_M128`, `large`, `xlarge`; of MoE `small_M`, `medium_M`, `large_M`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heurgen.base.errors import printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.devices import amd_device
from heurgen.logs.importers.foreign import Foreign, a, cell, csv_number, csv_rows, parse_json, time_of
from heurgen.logs.vendors import vendor_of

_TIMES = ("us", "duration")
# Tables that tell their `duration` in milliseconds; it is microseconds in others.
_IN_MS = re.compile("hstu_")
# Of the winner, or for readers: never the choice itself.
_RESULTS = frozenset(
    "us duration us1 us2 err1 err2 errRatio err_ratio err tflops bw _tag model aiter_pr".split()
)
_ERRORS = ("errRatio", "err_ratio", "err")
# The part of wrong elements that the tuners tolerate where nobody says another.
_TOLERATED = 0.05
# A tuned CSV has a winner a shape, two where somebody tuned it again; a profile has tens of candidates.
_CANDIDATES = 3
# What the tuners write where they have nothing: pandas, and a kernel that did not run.
_NULL, _NO_KERNEL = "Null", ("None", "")
# The end of `_tag` of a row that AITER takes where the winner's library is missing.
_SECOND = "fallback"
_PARAMETERS = frozenset(
    "libtype kernel kernelId solidx splitK block_m ksplit run_1stage BV kernelName kernelName1 kernelName2 "
    "waves_per_eu".split()
)
# `block_size` is that of attention's pages.
_PARAMETER = re.compile(r"(?!block_size)(?:tile|wave|warp|block)_[a-z]+|(?!T_FLAT)[A-Z][A-Z0-9_]{2,}")
_COMMENT = re.compile(r"^#[^\r\n]*", re.MULTILINE)
_PLACE = ("gfx", "arch", "cu_num")
_BOUND = re.compile(r"M_(LEQ|GEQ)_([0-9]{1,9})|any")
# What older versions call their bounds.
_OLD = {"small": "M_LEQ_15", "large": "M_LEQ_256", "xlarge": "M_GEQ_257"}
_OLD_MOE = {"small_M": "M_LEQ_255", "medium_M": "M_LEQ_1023", "large_M": "M_GEQ_1024"}
_OLD_BOUND = re.compile(r"(?:small|medium|xlarge)_M([0-9]{1,9})")
_NAME = re.compile(r"(?:([A-Za-z0-9]+)-)?([A-Z].*?)((?:-[A-Z]+[0-9]*=[0-9]{1,9})*)\.json")
_FOLDER = re.compile(r"gfx[0-9a-f]{3,4}")


def recognises(file: Foreign) -> bool:
    if _is_json(file):
        return (
            re.search(r'"(M_LEQ_[0-9]+|M_GEQ_[0-9]+|medium_M[0-9]*|any)"\s*:\s*\{', file.text[:65536])
            is not None
        )
    first = _COMMENT.sub("", file.text[:65536]).strip().partition("\n")[0]
    header = [name.strip() for name in first.split(",")]
    return any(t in header for t in _TIMES) and any(
        n in header for n in (*_PLACE, *_PARAMETERS) if n != "kernel"
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a CSV: vendor and device, the features, the config, its time in ms or None, and how it ended."""

    place: tuple[str, str]
    features: dict[str, str]
    config: dict[str, str]
    time: float | None
    status: str


def folders_say(file: Foreign) -> tuple[str, str | None]:
    """Kernel and device: `DEFAULT.json` of two of them may hold the same winners."""
    return _told(file)[:2] if _is_json(file) else ("", None)


def import_aiter(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("aiter")
    found.kernel = one_kernel(map(_kernel, files), options.kernel)
    taken = [file for file in files if _kernel(file) == found.kernel]
    tables = {file.file: _csv(file, options, found) for file in taken if not _is_json(file)}
    profiles = {name for name, rows in tables.items() if _is_profile(rows)}
    found.winners_only = not profiles
    sized = [file for file in taken if _is_json(file) and _told(file)[2]]
    for file in taken:
        if profiles and file.file not in profiles:
            found.notes.append(
                f"{printable(file.file)}: left out, it holds winners, and others every candidate"
            )
        elif not _is_json(file):
            _add(file, tables[file.file], found)
        elif sized and file not in sized:
            found.notes.append(f"{printable(file.file)}: left out, it is for the sizes that have no file")
        else:
            _json(file, options, found)
    return found.imported(options)


def _is_json(file: Foreign) -> bool:
    return file.text.lstrip().startswith("{")


def _kernel(file: Foreign) -> str:
    """The kernel that a file's name tells."""
    if _is_json(file):
        return _told(file)[0]
    name = file.name.partition(".")[0]
    said = re.fullmatch(r"(.+?)_tuned(?:_(?:gemm|(?P<other>fmoe|bmm|batched_gemm)))?(?:_.*)?", name)
    return name if said is None else "_".join(filter(None, (said[1], said["other"])))


def _told(file: Foreign) -> tuple[str, str | None, dict[str, str]]:
    """Kernel, device and sizes of a JSON file: `gfx942-GEMM-A16W16-N=512-K=64.json`, `MI350X-GEMM-A16W16.json`, or
    `gfx942/triton/gemm/gemm_a16w16/DEFAULT.json`, whose kernel is its folder."""
    folders = re.split(r"[/\\]", file.file)[:-1]
    architecture = next((p for p in reversed(folders) if _FOLDER.fullmatch(p)), None)
    name = _NAME.fullmatch(file.name)
    sizes = {n: str(int(v)) for n, v in re.findall(r"-([A-Z]+[0-9]*)=([0-9]+)", name[3])} if name else {}
    if name and vendor_of(name[1] or ""):
        return name[2], name[1], sizes
    return ("kernel", None, {}) if architecture is None else (folders[-1], architecture, sizes)


# --- CSV --------------------------------------------------------------------------------------------------


def _csv(file: Foreign, options: Options, found: Collected) -> list[_Row]:
    if "\n#" in file.text or file.text.startswith("#"):
        file = replace(file, text=_COMMENT.sub("", file.text))
    header, rows = csv_rows(file, _TIMES)
    time = next((t for t in _TIMES if t in header), None)
    if time is None:
        raise file.error(
            f"found none of the columns {' and '.join(_TIMES)}", row=1, hint="an untuned list of shapes?"
        )
    features, parameters = _roles(file, header, header.index(time))
    left_out = [n for n in header if n not in (time, *features, *parameters, *_PLACE)]
    if left_out:
        found.notes.append(f"left out, results of the winner: {', '.join(left_out)}")
    read = [(i, n) for i, n in enumerate(header) if n not in left_out]
    error = next((header.index(n) for n in _ERRORS if n in header), None)
    factor = 1.0 if time == "duration" and _IN_MS.match(file.name) else 1e-3
    known: dict[str, str] = {}
    measured = []
    for line, cells in _first_choices(header, rows, found):
        row = {n: known.get(cells[i], "") or _cell(file, cells[i], line, n, known) for i, n in read}
        value = csv_number(file, row[time], line, time)
        ran = 0 < value < float("inf")  # AITER writes -1 or inf where nothing ran
        told, units = _device(file, line, row)
        place = found.place(file.file, told, options)
        of = {n: row[n] or "none" for n in features} | units
        config = {n: row[n] for n in parameters}
        duration = time_of(file, value, f"line {line}", factor=factor) if ran else None
        wrong = error is not None and _is_wrong(cells[error])
        status = "invalid" if not ran else "incorrect" if wrong else "ok"
        measured.append(_Row((place[1], place[0]), of, config, duration, status))
    return measured


def _is_wrong(text: str) -> bool:
    """Whether an error is above what the tuners tolerate; one that is no number says nothing."""
    try:
        return float(text) > _TOLERATED
    except ValueError:
        return False


def _is_profile(rows: Sequence[_Row]) -> bool:
    """Whether there is every candidate of a shape, not its winner alone."""
    shapes = {(row.place, *row.features.values()) for row in rows}
    candidates = {(row.place, *row.features.values(), None, *row.config.values()) for row in rows}
    return len(candidates) >= _CANDIDATES * max(len(shapes), 1)


def _add(file: Foreign, rows: Sequence[_Row], found: Collected) -> None:
    """Of winners only what ran is one; of candidates what did not run is a failure, where the row says its kernel."""
    kept = [row for row in rows if row.time is not None or not (found.winners_only or _is_unnamed(row))]
    for row in kept:
        good = found.winners_only or row.status == "ok"
        scenario = found.scenario(*row.place, row.features)
        found.add(scenario, row.config, row.time if good else None, "ok" if good else row.status)
    if len(kept) < len(rows):
        what = "shape" if found.winners_only else "candidate"
        found.notes.append(f"{counted(len(rows) - len(kept), what)} without a time left out: nothing ran")
    if not found.winners_only:
        wrong = sum(row.status == "incorrect" for row in kept)
        said = f"; {wrong} failed of an error above {_TOLERATED:g}" if wrong else ""
        found.notes.append(f"{printable(file.file)}: every candidate is there, not winners alone{said}")


def _is_unnamed(row: _Row) -> bool:
    names = [text for name, text in row.config.items() if name.startswith("kernelName")]
    return bool(names) and all(text in _NO_KERNEL for text in names)


def _first_choices(
    header: list[str], rows: Iterable[tuple[int, list[str]]], found: Collected
) -> Iterator[tuple[int, list[str]]]:
    """Rows less those that AITER takes for want of the winner's library: they are of slower configs."""
    tag = header.index("_tag") if "_tag" in header else None
    second = 0
    for line, cells in rows:
        if tag is not None and cells[tag].strip().endswith(_SECOND):
            second += 1
        else:
            yield line, cells
    if second:
        found.notes.append(f"{counted(second, 'row')} left out: for where the winner's library is missing")


def _cell(file: Foreign, text: str, line: int, column: str, known: dict[str, str]) -> str:
    """A cell; `known` holds those that were looked at."""
    said = text.strip()
    known[text] = cell(file, None if said in ("", _NULL) else said, f"line {line}: {column}")
    return known[text]


def _roles(file: Foreign, header: list[str], time: int) -> tuple[list[str], list[str]]:
    """Features and parameters, by their places before (or, of known parameters, after) the time."""
    told = [n for n in header if n in _PARAMETERS or _PARAMETER.fullmatch(n)]
    first = min((i for i, n in enumerate(header[:time]) if n in told), default=time)
    numbered = "kernelId" in header or "solidx" in header
    parameters = [n for n in header[first:time] if n not in _RESULTS and n not in _PLACE]
    parameters += [n for n in header[time + 1 :] if n in told and (n != "kernelName" or not parameters)]
    parameters = [n for n in parameters if n != "kernelName" or not numbered]
    if not parameters:
        raise file.error(f"found no parameter, such as {', '.join(sorted(_PARAMETERS))}", row=1)
    return [n for n in header[:first] if n not in _RESULTS and n not in _PLACE], parameters


def _device(file: Foreign, line: int, row: dict[str, str]) -> tuple[str | None, dict[str, str]]:
    units = row.get("cu_num", "")
    if units and not re.fullmatch(r"[0-9]{1,6}", units):
        raise file.error(
            f"found {quoted(units)}, expected a number of compute units", row=line, path="cu_num"
        )
    architecture = row.get("gfx") or row.get("arch")
    told = amd_device(architecture, int(units) if units else None) if architecture else None
    return told or (f"AMD GPU, {int(units)} CUs" if units else None), {
        "cu_num": str(int(units))
    } if units else {}


# --- JSON -------------------------------------------------------------------------------------------------


def _json(file: Foreign, options: Options, found: Collected) -> None:
    """A winner for each bound, at the bound itself: the largest M of `M_LEQ_`, the smallest of `M_GEQ_`.

    `any` is for what neither serves; it stands at the smallest such M.
    """
    _, told, shape = _told(file)
    device, vendor = found.place(file.file, told, options)
    data = a(file, parse_json(file), dict, "")
    bounds = _bounds(file, data)
    largest = max((int(k.split("_")[2]) for k in bounds if k.startswith("M_LEQ")), default=0)
    if any(int(k.split("_")[2]) <= largest + 1 for k in bounds if k.startswith("M_GEQ")):
        bounds.pop("any", None)
    for key, config in bounds.items():
        m = largest + 1 if key == "any" else int(key.split("_")[2])
        m = (
            max(m, largest + 1) if key.startswith("M_GEQ") else m
        )  # where M_LEQ reaches as far, that is asked first
        given = a(file, config, dict, key, key)
        cells = {k: cell(file, v, f"{key}.{k}", key) for k, v in given.items() if v is not None and v != ""}
        if not cells:
            raise file.error("the config is empty", at=key)
        features = {"M": str(max(m, 1)), **shape}
        found.add(found.scenario(vendor, device, features), cells, None)


def _bounds(file: Foreign, data: dict[str, Any]) -> dict[str, Any]:
    """`M_LEQ_<M>`, `M_GEQ_<M>` and `any` -> config.

    Older versions round M up to a power of two; what they call small ends below 16 or below 32, by the kernel, or
    where `small_M16` begins. Without a `medium` small and large are of other sizes than M.

    Raises:
        LogError: a key is none of these.
    """
    old = any(re.match("medium_M[0-9]", key) for key in data)
    named = _OLD_MOE if "medium_M" in data else {}
    bounds: dict[str, Any] = {}
    for key, config in data.items():
        name = named.get(key, key)
        if old and (rounded := _OLD_BOUND.fullmatch(key)):
            name = f"M_LEQ_{int(rounded[1])}"
        elif old and key in _OLD:
            name = "M_LEQ_8" if key == "small" and "small_M16" in data else _OLD[key]
        if not _BOUND.fullmatch(name) or name in bounds:
            raise file.error(f"found the key {quoted(key)}, expected M_LEQ_<M>, M_GEQ_<M> or any", at=key)
        bounds[name] = config
    return bounds
