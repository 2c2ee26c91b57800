"""The heat map: every drawn scenario under every config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen.audit.evidence import View
from heurgen.audit.report.charts import level_of
from heurgen.audit.report.coding import coded, packed
from heurgen.audit.report.words import value_text

if TYPE_CHECKING:
    from heurgen.logs.costs import Floats

# Codes of cells after the classes of slowdown.
_FAILED, _UNMEASURED = 6, 7


def heat(view: View, rows: Sequence[int], most: int) -> dict[str, Any]:
    """Scenario x config: the class of a slowdown (see `charts.CLASSES`), failed or unmeasured.

    `rows` are places in the view; they are ordered by leaf, then by the chosen config's slowdown, and `order` is
    that order of them. Columns are ordered by use, then by wins; those never measured are left out, and of more
    than `most` those after: `left_out` is how many. `shipped` is the selector's number of a column's config, -1 where
    it does not ship.
    """
    order = _order(view, rows)
    shipped, columns, n_measured = _columns(view, most)
    costs = view.costs[np.ix_([rows[i] for i in order], columns)]
    configs = [view.table.configs[c] for c in columns]
    return {
        "order": coded(order),
        "cells": [packed(line) for line in _levels(costs)],
        "parameters": list(view.table.parameters),
        "configs": [coded([value_text(v) for v in values]) for values in zip(*configs, strict=True)],
        "shipped": coded([shipped.get(c, -1) for c in columns]),
        "left_out": n_measured - len(columns),
    }


def _order(view: View, rows: Sequence[int]) -> list[int]:
    slow = np.where(np.isfinite(view.slowdown), view.slowdown, np.inf)[list(rows)]
    return [int(i) for i in np.lexsort((slow, view.leaf[list(rows)]))]


def _columns(view: View, most: int) -> tuple[dict[int, int], list[int], int]:
    """(table column -> the selector's number, for what ships; the columns to show; how many were measured)."""
    shipped = {c.column: c.leaf.config for c in view.choices if c.column is not None}
    width = view.costs.shape[1]
    finite = np.where(np.isfinite(view.costs), view.costs, np.inf)
    wins = np.bincount(finite.argmin(axis=1), minlength=width)
    used = np.array([c.column for c in view.choices if c.column is not None], dtype=np.int64)
    use = np.bincount(used, minlength=width)
    order = np.lexsort((np.arange(width), -wins, -use))
    measured = [int(c) for c in order if not np.isnan(view.costs[:, c]).all()]
    return shipped, measured[:most], len(measured)


def _levels(costs: Floats) -> list[list[int]]:
    def code(x: float) -> int:
        if math.isnan(x):
            return _UNMEASURED
        return _FAILED if math.isinf(x) else level_of(math.exp(x))

    return [[code(x) for x in row] for row in costs.tolist()]
