"""Where a model and a log come from, as names and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heurgen import ir
from heurgen.audit.score import group_name
from heurgen.base.errors import printable
from heurgen.base.text import counted

if TYPE_CHECKING:
    from heurgen.logs.tuning_log import TuningLog


def model_facts(module: ir.HeuristicModule) -> tuple[tuple[str, str], ...]:
    rows = [(printable(k).replace("_", " "), _flat(v)) for k, v in module.provenance.items()]
    for selector in module.selectors:
        name = group_name(selector.vendor, selector.device)
        n_leaves = sum(1 for _ in ir.leaves(selector.tree))
        size = f"{counted(n_leaves, 'leaf')}, depth {ir.depth(selector.tree)}"
        seen = (counted(selector.n_scenarios, "scenario"), counted(selector.n_measurements, "measurement"))
        trained = ", ".join(seen)
        costs = "" if selector.costs_known else "; winners only, slowdown unknown"
        rows.append(
            (f"selector {printable(name)}", f"{printable(selector.strategy)}; {size}; {trained}{costs}")
        )
    return tuple(rows)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{printable(k)} {_flat(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_flat, value)) or "none"
    return printable(value)


def n_dropped(log: TuningLog) -> int:
    """Scenarios in which no config succeeded: no figure counts them."""
    return int(log.dropped.sum())


def log_facts(log: TuningLog, same: bool) -> tuple[tuple[str, str], ...]:
    lost = n_dropped(log)
    more = f", and {lost} in which no config succeeded" if lost else ""
    return (
        ("content hash", f"sha256 {log.content_hash}" + (" (the training log)" if same else "")),
        ("measurements", f"{log.n_measurements}, {log.n_failures} of them failed"),
        ("scenarios", f"{log.n_scenarios - lost}{more}"),
        ("configs", str(log.n_configs)),
        ("devices", ", ".join(printable(d) for d in log.devices)),
    )
