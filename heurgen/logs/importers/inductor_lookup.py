"""Inductor's lookup tables (JSON of `torch._inductor.config.lookup_table.table`) -> winners.

A key is `[device+]((dtype, shape, stride), ...)[+scalars]+op`; its value a list of template configs, which replaces
Inductor's candidates. Of several the first is taken: tables are written best first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json, python_value

_KEY = re.compile(
    r"(?:(?P<device>[^(].*?)\+(?=\())?(?P<inputs>\(.*\))(?:\+[^+]*=.*)?\+(?P<op>[a-z_][a-z0-9_]*)", re.DOTALL
)
_DTYPE = re.compile(r"torch\.([a-z0-9_]+)")
_HASHES = ("template_hash", "hint_override")


def recognises(file: Foreign) -> bool:
    return '"template_id"' in file.text[:65536]


def import_inductor_lookup(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("inductor-lookup", winners_only=True)
    ops, more = set(), 0
    for file in files:
        for key, value in a(file, parse_json(file), dict, "").items():
            match = _KEY.fullmatch(key) if len(key) < 4000 else None
            if match is None:
                raise file.error(f"found the key {quoted(key)}, expected [device+]inputs+op", at=key)
            if options.kernel not in (None, match["op"]):
                continue
            ops.add(match["op"])
            configs = a(file, value, list, quoted(key), key)
            if not configs:
                raise file.error("the key has no config", at=key)
            more += len(configs) > 1
            device, vendor = found.place(file.file, match["device"], options)
            features = _inputs(file, key, match["inputs"])
            found.add(found.scenario(vendor, device, features), _config(file, key, configs[0]), None)
    if len(ops) > 1:
        hint = f"one at a time: --kernel {min(ops)}"
        raise files[0].error(f"the tables hold {', '.join(sorted(ops))}", hint=hint)
    if more:
        found.notes.append(f"{counted(more, 'key')} with several configs: the first is taken as the winner")
    found.kernel = ops.pop() if ops else "kernel"
    return found.imported(options)


def _inputs(file: Foreign, key: str, text: str) -> dict[str, str]:
    """`((torch.bfloat16, [128, 4096], [4096, 1]), ...)` as dtypes and dims; M, K, N of a matrix product."""
    tensors = python_value(_DTYPE.sub(r"'\1'", text))
    fits = isinstance(tensors, tuple) and all(
        isinstance(t, tuple) and len(t) >= 2 and isinstance(t[0], str) and isinstance(t[1], list)
        for t in tensors
    )
    sizes: list[Any] = [s for t in tensors for s in t[1]] if fits and tensors else []
    if not sizes or not all(type(s) is int and 0 <= s < 2**53 for s in sizes) or not tensors:
        raise file.error(f"found the inputs {quoted(text)}, expected (dtype, shape, stride) of each", at=key)
    first, second = tensors[0], tensors[1] if len(tensors) > 1 else tensors[0]
    if len(tensors) == 2 and len(first[1]) == len(second[1]) == 2 and first[1][1] == second[1][0]:
        return {"M": str(first[1][0]), "K": str(first[1][1]), "N": str(second[1][1]), "dtype": first[0]}
    features = {f"arg{i}_dtype": t[0] for i, t in enumerate(tensors)}
    return features | {f"arg{i}_dim{j}": str(s) for i, t in enumerate(tensors) for j, s in enumerate(t[1])}


def _config(file: Foreign, key: str, data: Any) -> dict[str, str]:
    config = a(file, data, dict, quoted(key), key)
    cells = {k: cell(file, v, f"{quoted(key)}: {k}", key) for k, v in config.items() if k not in _HASHES}
    if "template_id" not in cells:
        raise file.error("the config has no template_id", at=key)
    return {k: v for k, v in cells.items() if v}
