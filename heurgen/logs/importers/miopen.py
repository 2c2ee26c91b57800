"""MIOpen's find-db -> measurements: the best few solvers of every convolution, with times in ms.

`in_c-in_h-in_w-FHxFW-out_c-out_h-out_w-batch-PHxPW-SHxSW-DHxDW-bias-layout-dtype-direction[_gG]=solver:ms,workspace,
algorithm;...`, 17 fields for three dimensions (sizes DxHxW). A solver that is not listed was not among the best or
does not apply: not measured. A perf-db has lines of the same keys with what was tuned in place of a time
(`solver:2,8,4,16`), and no algorithm: it is refused. The file's name says architecture and compute units: gfx942130 has
0x130 = 304, gfx906_60 (as older versions write it) 60. Types that tensors are cast to (`_ciFP8`) are part of `dtype`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heurgen.base.errors import quoted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.devices import amd_device
from heurgen.logs.importers.foreign import Foreign, csv_time, lines

_NAME = re.compile(
    r"(gfx(?:1[0-9]{3}|[2-9][0-9][0-9a-f]))(?:_(?P<units>[0-9]{1,4})|(?P<hex>[0-9a-f]{2,3}))\."
)
_KEY = re.compile(
    r"(?P<in_c>[0-9]+)-(?:(?P<in_d>[0-9]+)-)?(?P<in_h>[0-9]+)-(?P<in_w>[0-9]+)-(?P<fil>[0-9]+(?:x[0-9]+){1,2})-"
    r"(?P<out_c>[0-9]+)-(?:(?P<out_d>[0-9]+)-)?(?P<out_h>[0-9]+)-(?P<out_w>[0-9]+)-(?P<batch>[0-9]+)-"
    r"(?P<pad>[0-9]+(?:x[0-9]+){1,2})-(?P<stride>[0-9]+(?:x[0-9]+){1,2})-(?P<dil>[0-9]+(?:x[0-9]+){1,2})-"
    r"(?P<bias>[0-9]+)-(?P<layout>[A-Z0-9]+c?(?:-[A-Z]+c?)*?)-(?P<dtype>[A-Z0-9]+)-(?P<direction>[FBW])(?P<rest>(?:_g[0-9]+|_c[iwo][A-Z0-9]+)*)"
)
_LINE = re.compile(r"[0-9]+-[0-9]+-[0-9]+-[^=\n]{10,200}=[A-Za-z]")
_ALGORITHM = re.compile(r"miopenConvolution[A-Za-z]+")
_SOLVER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")


def recognises(file: Foreign) -> bool:
    return "fdb.txt" in file.name or _LINE.match(file.text[:400]) is not None


def import_miopen(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("miopen")
    found.kernel = "convolution"
    for file in files:
        name = _NAME.match(file.name)
        units = (int(name["hex"], 16) if name["hex"] else int(name["units"])) if name else None
        told = amd_device(name[1], units) if name else None
        device, vendor = found.place(file.file, told, options)
        for row, line in lines(file):
            _line(file, row, line, (vendor, device, units), found)
    return found.imported(options)


def _line(file: Foreign, row: int, line: str, place: tuple[str, str, int | None], found: Collected) -> None:
    key, equals, entries = line.partition("=")
    if not equals:
        raise file.error("found no '=' between a problem and its solvers", row=row)
    features = problem(file, row, key)
    if place[2] is not None:
        features["cu_num"] = str(place[2])
    scenario = found.scenario(place[0], place[1], features)
    seen = set()
    for entry in entries.split(";"):
        if not entry:
            continue
        solver, time = _solver(file, row, entry)
        if solver in seen:
            raise file.error(f"the solver {quoted(solver)} is there twice", row=row)
        seen.add(solver)
        found.add(scenario, {"solver": solver}, time, "ok" if time is not None else "invalid")
    if not seen:
        raise file.error("the problem has no solver", row=row)


def problem(file: Foreign, row: int, key: str) -> dict[str, str]:
    """A problem's features, numbers without leading zeros; `groups` is 1 where the key does not say."""
    match = _KEY.fullmatch(key) if len(key) < 400 else None
    if match is None:
        raise file.error(
            f"the problem is {quoted(key)}, expected 15 fields between '-' (17 for 3D)",
            row=row,
            hint="in_c-in_h-in_w-FHxFW-out_c-out_h-out_w-batch-PHxPW-SHxSW-DHxDW-bias-layout-dtype-direction",
        )
    dims = 3 if match["in_d"] else 2
    axes = "dhw"[3 - dims :]
    features = {n: match[n] for n in ("batch", "in_c", "in_h", "in_w", "out_c", "out_h", "out_w")}
    # A problem of two dimensions has depth 1; `dims` tells it from one of three.
    features |= {n: match[n] or "1" for n in ("in_d", "out_d")}
    features |= {"dims": str(dims), "fil_d": "1", "pad_d": "0", "stride_d": "1", "dil_d": "1"}
    for name in ("fil", "pad", "stride", "dil"):
        sizes = match[name].split("x")
        if len(sizes) != dims:
            raise file.error(f"found {quoted(match[name])}, expected {dims} sizes", row=row)
        features |= {f"{name}_{axis}": size for axis, size in zip(axes, sizes, strict=True)}
    numbers = {n: str(int(v)) for n, v in features.items() if len(v) < 16}
    if len(numbers) < len(features):
        raise file.error("found a size of more than 15 digits", row=row)
    rest = [part for part in match["rest"].split("_") if part]
    groups = next((part[1:16] for part in rest if part[0] == "g"), "1")
    dtype = "_".join([match["dtype"], *(part for part in rest if part[0] == "c")])
    words = {
        "bias": match["bias"],
        "layout": match["layout"],
        "dtype": dtype,
        "direction": match["direction"],
    }
    return {**numbers, "groups": groups, **words}


def _solver(file: Foreign, row: int, entry: str) -> tuple[str, float | None]:
    """`solver:ms,workspace,algorithm`; in gfx906's old form `algorithm:solver,ms,...`."""
    first, colon, rest = entry.partition(":")
    fields = rest.split(",")
    if colon and _ALGORITHM.fullmatch(first):
        first, fields = fields[0], fields[1:]
    elif colon:
        _check_algorithm(file, row, entry, fields)
    if not colon or not fields or not _SOLVER.fullmatch(first):
        raise file.error(f"found {quoted(entry)}, expected solver:ms,workspace,algorithm", row=row)
    return first, csv_time(file, fields[0], row, first)


def _check_algorithm(file: Foreign, row: int, entry: str, fields: Sequence[str]) -> None:
    """Refuses an entry of a perf-db: its first number would be taken for a time."""
    if len(fields) < 3 or not fields[2][:1].isalpha():
        raise file.error(
            f"found {quoted(entry)}, expected solver:ms,workspace,algorithm",
            row=row,
            hint="a perf-db holds no times: import the find-db, *.fdb.txt or *.ufdb.txt",
        )
