"""What reading a log leaves to say: copies, ignored columns, statuses that look like success, dropped scenarios."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.cells import ABSENT, Cells, Codes
from heurgen.logs.column_names import is_default, is_label, is_result, names_kernel, success_words
from heurgen.logs.naming import plain
from heurgen.logs.objective import piled_note
from heurgen.logs.outcomes import OK, UNTIMED
from heurgen.logs.typed_columns import TypedColumns
from heurgen.spec.kernel_spec import KernelSpec, number

# Why a config failed, a column of every log that the tuner writes.
_WHY = "reason"
# Repeats that are this many times apart are no noise.
_APART = 2
Times = NDArray[np.float64]


def notes(
    cells: Cells, spec: KernelSpec, columns: TypedColumns, codes: tuple[Codes, Codes], dropped_rows: Codes
) -> list[str]:
    """Lines for stderr.

    `codes` are the scenario and the config of each row, `dropped_rows` rows of the scenarios in which no config
    succeeded.
    """
    scenario, config = codes
    found = [f"{path} has the same content as {earlier}: read once" for path, earlier in cells.copies]
    cell = scenario * (int(config.max()) + 1) + config
    found += _ignored_notes(cells, spec, scenario, cell)
    for parameter in spec.parameters:
        if parameter.name not in cells.codes and any(
            map(parameter.exists_for, map(str, columns.vendor.values))
        ):
            found.append(f"no file has a column {quoted(parameter.name)}: blank in every row")
    for status in columns.status.values:
        if status != OK and success_words("status", [str(status)]):
            said = f"unless [log] says success = [{quoted(status)}]"
            found.append(f"the status {quoted(status)} counts as a failure, {said}")
    found += _blank_statuses(cells, spec, columns)
    found += _two_vendors(cells, columns)
    found += _disagreements(cells, columns.time, cell)
    found += piled_note(spec.log, columns.time, scenario, cell)
    if spec.log.winners_only:
        found += _several_winners(columns.time, scenario, config)
    if len(dropped_rows):
        path, line = cells.place(int(dropped_rows.min()))
        share = f"{len(dropped_rows)} of {counted(int(scenario.max()) + 1, 'scenario')} dropped"
        found.append(f"{share}: no config succeeded (the first is on line {line} of {path})")
        if silent := _silent(columns, scenario, dropped_rows):
            found.append(
                f"every config failed in every scenario on {silent}: a model knows nothing of what works there"
            )
    return found


def _silent(columns: TypedColumns, scenario: Codes, dropped_rows: Codes) -> str:
    """The devices of which no scenario is left."""
    kept = ~np.isin(scenario, scenario[dropped_rows])
    names = np.unique(columns.device.codes[~kept]), np.unique(columns.device.codes[kept])
    return ", ".join(quoted(columns.device.values[code]) for code in np.setdiff1d(*names).tolist())


def _blank_statuses(cells: Cells, spec: KernelSpec, columns: TypedColumns) -> list[str]:
    """Of rows that say nothing and have a time: a status column that names failures alone has blanks for success."""
    if "" not in columns.status.values:
        return []
    blank = columns.status.codes == columns.status.values.index("")
    codes = cells.codes[spec.log.time]
    timed = [i for i in np.unique(codes[blank]).tolist() if (number(cells.texts[spec.log.time][i]) or 0) > 0]
    rows = np.flatnonzero(blank & np.isin(codes, timed))
    if not len(rows):
        return []
    path, line = cells.place(int(rows[0]))
    success = ", ".join(map(quoted, [*spec.log.success, ""]))
    return [
        f"a blank status counts as a failure, in {counted(len(rows), 'row')} with a time (the first: line {line} of "
        f"{path}), unless [log] says success = [{success}]"
    ]


def _two_vendors(cells: Cells, columns: TypedColumns) -> list[str]:
    """A device that rows of two vendors name: each vendor's selectors learn from some of its rows."""
    pairs = np.stack([columns.device.codes, columns.vendor.codes])
    (device, vendor), first, rows = np.unique(pairs, axis=1, return_index=True, return_counts=True)
    names, counts = np.unique(device, return_counts=True)
    if not (several := names[counts > 1].tolist()):
        return []
    own = np.flatnonzero(device == several[0])
    rare, common = own[np.argsort(rows[own], kind="stable")][[0, -1]].tolist()
    wrong, right = (columns.vendor.values[vendor[i]] for i in (rare, common))
    path, line = cells.place(int(first[rare]))
    more = f" The same holds for {counted(len(several) - 1, 'more device')}" if len(several) > 1 else ""
    return [
        f"the device {quoted(columns.device.values[several[0]])} is of {wrong} in {counted(int(rows[rare]), 'row')} "
        f"(the first: line {line} of {path}) and of {right} in {int(rows[common])}: is one of them wrong?{more}"
    ]


def _disagreements(cells: Cells, time: Times, cell: Codes) -> list[str]:
    """Repeats of a measurement (the same `cell`) that cannot be of the same code, device or clock."""
    rows = np.flatnonzero(time < UNTIMED)
    rows = rows[np.lexsort((time[rows], cell[rows]))]
    first, last = np.diff(cell[rows], prepend=-1) != 0, np.diff(cell[rows], append=-1) != 0
    fast, slow = rows[first], rows[last]
    bad = np.flatnonzero(time[slow] > _APART * time[fast])
    if not len(bad):
        return []
    pair = min(((int(fast[i]), int(slow[i])) for i in bad.tolist()), key=min)
    (path, line), (other, other_line) = map(cells.place, sorted(pair))
    where = (
        f"lines {line} and {other_line} of {path}"
        if path == other
        else f"line {line} of {path}, {other_line} of {other}"
    )
    return [
        f"{counted(len(bad), 'measurement')} took over {_APART} times as long when repeated (the first: {where}); "
        "the median counts"
    ]


def _several_winners(time: Times, scenario: Codes, config: Codes) -> list[str]:
    """Scenarios in which more than one config is said to be the winner."""
    ran = np.isfinite(time)
    winners = np.unique(np.stack([scenario[ran], config[ran]]), axis=1)[0]
    _, counts = np.unique(winners, return_counts=True)
    if not (several := int((counts > 1).sum())):
        return []
    which = "the fastest counts" if (time[ran] < UNTIMED).any() else "without times each counts as one"
    return [
        f"{several} of {counted(len(counts), 'scenario')} have several configs, though winners_only says that every "
        f"row is the winner: {which} (a scenario column parts tunings; a log of all configs goes without)"
    ]


def _ignored_notes(cells: Cells, spec: KernelSpec, scenario: Codes, cell: Codes) -> list[str]:
    named = {*spec.log.names, _WHY, *(c.name for c in (*spec.features, *spec.parameters))}
    ignored = sorted(name for name in cells.codes if name not in named)
    if not ignored:
        return []
    notes = [f"columns that the spec does not name are ignored: {', '.join(map(quoted, ignored))}"]
    inputs = (
        name
        for name in ignored
        if not (is_result(plain(name)) or is_label(plain(name)) or is_default(name, cells.texts[name]))
    )
    if varying := [quoted(name) for name in inputs if _varies(cells.codes[name], scenario)]:
        notes.append(
            f"ignored columns that vary inside a scenario: {', '.join(varying)} "
            "(if the time depends on one, name it in the spec)"
        )
    kernels = (n for n in ignored if names_kernel(plain(n)) and _varies(cells.codes[n], cell))
    return notes + [
        f"the ignored column {quoted(n)} holds {len({*cells.texts[n]} - {''})} kernels, and times of one config in one "
        "scenario are of several: give each kernel a log of its own, or name the column in the spec"
        for n in kernels
    ]


def _varies(codes: Codes, scenario: Codes) -> bool:
    present = codes != ABSENT
    codes, scenario = codes[present], scenario[present]
    one = np.zeros(int(scenario.max()) + 1, dtype=np.int64)
    one[scenario] = codes
    return bool((codes != one[scenario]).any())
