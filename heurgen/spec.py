"""The kernel spec: the columns that are features, parameters and bookkeeping, and what they may hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from heurgen.expr import Expr
from heurgen.ir import ColumnType


@dataclass(frozen=True, slots=True)
class Column:
    """A feature or a parameter as the spec describes it.

    `min`, `max` and `values` are enforced on logs, not at launch. `optional` and `vendors` are for
    parameters: a blank cell is None; the parameter exists for these vendors alone (empty: for all).
    """

    name: str
    type: ColumnType
    min: float | None = None
    max: float | None = None
    values: tuple[str, ...] = ()
    unit: str = ""
    doc: str = ""
    optional: bool = False
    vendors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    name: str
    expression: Expr


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Names of the bookkeeping columns, and the relative noise where a log has no repeats."""

    vendor: str = "vendor"
    device: str = "device"
    time: str = "time_ms"
    status: str = "status"
    scenario: str = "scenario"
    noise: float = 0.02


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """The roles of a log's columns. Feature order is the argument order of generated functions."""

    name: str
    features: tuple[Column, ...]
    parameters: tuple[Column, ...]
    derived: tuple[DerivedColumn, ...] = ()
    log: LogColumns = field(default_factory=LogColumns)

    def parameters_of(self, vendor: str) -> tuple[Column, ...]:
        """The parameters that exist for a vendor, in spec order."""
        return tuple(p for p in self.parameters if not p.vendors or vendor in p.vendors)
