"""What reading a log leaves to say: copies, ignored columns, statuses that look like success, dropped scenarios."""

from __future__ import annotations

import numpy as np

from heurgen.base.errors import quoted
from heurgen.logs.cells import ABSENT, Cells, Codes
from heurgen.logs.column_names import success_words
from heurgen.logs.outcomes import OK
from heurgen.logs.typed_columns import TypedColumns
from heurgen.spec.kernel_spec import KernelSpec

# Why a config failed, a column of every log that the tuner writes.
_WHY = "reason"


def notes(
    cells: Cells, spec: KernelSpec, columns: TypedColumns, scenario: Codes, dropped_rows: Codes
) -> list[str]:
    """Lines for stderr; `dropped_rows` are rows of the scenarios in which no config succeeded."""
    found = [f"{path} has the same content as {earlier}: read once" for path, earlier in cells.copies]
    found += _ignored_notes(cells, spec, scenario)
    for parameter in spec.parameters:
        if parameter.name not in cells.codes and any(
            map(parameter.exists_for, map(str, columns.vendor.values))
        ):
            found.append(f"no file has a column {quoted(parameter.name)}: blank in every row")
    for status in columns.status.values:
        if status != OK and success_words("status", [str(status)]):
            said = f"unless [log] says success = [{quoted(status)}]"
            found.append(f"the status {quoted(status)} counts as a failure, {said}")
    if len(dropped_rows):
        path, line = cells.place(int(dropped_rows.min()))
        share = f"{len(dropped_rows)} of {int(scenario.max()) + 1} scenarios dropped"
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


def _ignored_notes(cells: Cells, spec: KernelSpec, scenario: Codes) -> list[str]:
    named = {*spec.log.names, _WHY, *(c.name for c in (*spec.features, *spec.parameters))}
    ignored = sorted(name for name in cells.codes if name not in named)
    if not ignored:
        return []
    notes = [f"columns that the spec does not name are ignored: {', '.join(map(quoted, ignored))}"]
    if varying := [quoted(name) for name in ignored if _varies(cells.codes[name], scenario)]:
        notes.append(
            f"ignored columns that vary inside a scenario: {', '.join(varying)} "
            "(if the time depends on one, name it in the spec)"
        )
    return notes


def _varies(codes: Codes, scenario: Codes) -> bool:
    present = codes != ABSENT
    codes, scenario = codes[present], scenario[present]
    one = np.zeros(int(scenario.max()) + 1, dtype=np.int64)
    one[scenario] = codes
    return bool((codes != one[scenario]).any())
