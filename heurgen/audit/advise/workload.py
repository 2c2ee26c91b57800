"""Advice as a workload file: `[[scenario]]` tables, as `heurgen tune --workload` reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from heurgen.audit.advise import Advice
from heurgen.base import toml
from heurgen.base.errors import UsageError, printable, quoted
from heurgen.base.text import is_label

# Of a [[scenario]] of `heurgen.tune.workloads`.
_OWN_KEYS = frozenset(("id", "lengths", "configs"))


def to_workload(advice: Sequence[Advice], kernel: str, vendor: str) -> str:
    """The TOML text: best scenario first, the reasons as comments. Parameters that do not apply are left out.

    Raises:
        UsageError: a feature has the name of a key of [[scenario]], which stands there once.
    """
    if taken := sorted(_OWN_KEYS & {name for item in advice for name in item.features}):
        message = (
            f"a workload cannot give the feature {quoted(taken[0])}: [[scenario]] has a key of that name"
        )
        raise UsageError(message, hint="rename it in the tunable and in the spec")
    lines = [
        f"# What to measure next for {printable(kernel)} on {vendor}, by `heurgen advise`: the best first.",
        "# heurgen tune TARGET --workload THIS.toml -o more.csv",
    ]
    for i, item in enumerate(advice, 1):
        lines += ["", f"# {i}. {printable('; '.join(item.reasons))}", "[[scenario]]"]
        lines.append(f"id = {toml.string(_name(item))}")
        lines += [f"{toml.key(k)} = {_value(v)}" for k, v in item.features.items()]
        lines.append("configs = [")
        lines += [f"  {_inline(c)}," for c in item.configs]
        lines.append("]")
    return "\n".join(lines) + "\n"


def _name(item: Advice) -> str:
    """The id of a measured scenario; of a new one, and where a workload takes no such id, a name by its content."""
    if is_label(item.scenario):
        return item.scenario
    # Two measured ones may have equal features, and tune takes no name twice.
    content = json.dumps(dict(item.features), sort_keys=True) + item.scenario
    return f"advised-{hashlib.sha256(content.encode()).hexdigest()[:10]}"


def _value(value: Any) -> str:
    return toml.number(value) if isinstance(value, float) else toml.value(value)


def _inline(config: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{toml.key(k)} = {_value(v)}" for k, v in config.items() if v is not None) + " }"
