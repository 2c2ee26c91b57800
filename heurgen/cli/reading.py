"""What commands read: models, generated modules, and logs beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heurgen.ir import HeuristicModule
    from heurgen.logs.cells import Cells
    from heurgen.logs.costs import CostTable
    from heurgen.logs.tuning_log import TuningLog
    from heurgen.spec.kernel_spec import KernelSpec


def read_any(path: str) -> HeuristicModule:
    """A model, or a generated module, which is parsed and never imported."""
    from heurgen.base.errors import HeurgenError, ModelError
    from heurgen.base.reading import read_text
    from heurgen.ir.schema import MAX_BYTES, read_model

    if Path(path).suffix != ".py":
        return read_model(path)
    from heurgen.render.reader import read_module

    try:
        return read_module(read_text(path, ModelError, MAX_BYTES))
    except HeurgenError as error:
        raise ModelError(error.message, file=path, row=error.row, hint=error.hint) from error


def read_log(
    logs: tuple[str, ...], spec: str, *models: tuple[str | None, HeuristicModule | None]
) -> tuple[KernelSpec, TuningLog, tuple[CostTable, ...]]:
    """The logs; a model that does not fit them is refused by its file's name, since a command may read two."""
    return read_cells_too(logs, spec, *models)[:3]


def read_cells_too(
    logs: tuple[str, ...], spec: str, *models: tuple[str | None, HeuristicModule | None]
) -> tuple[KernelSpec, TuningLog, tuple[CostTable, ...], Cells]:
    """`read_log`, and the cells of the logs, for columns that the spec does not name."""
    from heurgen.audit.score import check_columns
    from heurgen.base.errors import ModelError
    from heurgen.logs.cells import read_cells
    from heurgen.logs.costs import cost_tables
    from heurgen.logs.tuning_log import typed_log
    from heurgen.spec.kernel_spec import read_spec

    kernel = read_spec(spec)
    cells = read_cells(logs)
    log = typed_log(cells, kernel)
    tables = cost_tables(log, kernel)
    for path, module in models:
        try:
            if module is not None:
                check_columns(module, tables)
        except ModelError as error:
            raise ModelError(error.message, file=path, hint=error.hint) from error
    return kernel, log, tables, cells
