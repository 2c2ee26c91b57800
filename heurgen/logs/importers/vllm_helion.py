"""Configs of vLLM's Helion kernels, `<kernel>/<device>.json` -> winners.

`[{"key": {"intermediate": 2048, "numtokens": 1}, "config": {...}}]`, before that an object whose keys name the sizes,
`"intermediate_2048_numtokens_1": {...}`. No time is there. A key without sizes ("default") is for what no other serves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json
from heurgen.logs.importers.helion import flat

_SIZE = re.compile(r"([A-Za-z][A-Za-z0-9_]*?)_(-?[0-9]{1,15})(?:_|$)")
_LISTED = re.compile(r'\s*\[\s*\{\s*"(?:key|config)"\s*:\s*\{')
_NAMED = re.compile(r'\s*\{\s*"[A-Za-z][A-Za-z0-9_-]*"\s*:\s*\{\s*"[a-z0-9_]+"\s*:')
_DEFAULT = "default"


def recognises(file: Foreign) -> bool:
    """What a config of Helion has: block sizes, and how programs get their ids.

    Helion may leave out what has its default value, the latter too. In a list `block_sizes` is enough.
    """
    if '"block_sizes"' not in file.text:
        return False
    return bool(_LISTED.match(file.text) or (_NAMED.match(file.text) and '"pid_type"' in file.text))


def folders_say(file: Foreign) -> tuple[str, str]:
    """Kernel and device: files of two may hold the same winners."""
    folders = re.split(r"[/\\]", file.file)[:-1]
    return folders[-1] if folders else "kernel", file.name.partition(".")[0].replace("_", " ")


def import_vllm_helion(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("vllm-helion", winners_only=True)
    found.kernel = one_kernel((folders_say(file)[0] for file in files), options.kernel)
    defaults = 0
    for file in (f for f in files if folders_say(f)[0] == found.kernel):
        device, vendor = found.place(file.file, folders_say(file)[1], options)
        for at, sizes, config in _entries(file):
            if not sizes:
                defaults += 1
                continue
            cells = flat(file, at, a(file, config, dict, at))
            if not cells:
                raise file.error("the config is empty", at=at, path=at)
            found.add(found.scenario(vendor, device, sizes), cells, None)
    if defaults:
        found.notes.append(f"{counted(defaults, 'config')} for no sizes left out")
    return found.imported(options)


def _entries(file: Foreign) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Where a winner stands, the sizes that it is for, and its config."""
    data = parse_json(file)
    if isinstance(data, list):
        for i, entry in enumerate(data):
            row = a(file, entry, dict, f"[{i}]")
            key = a(file, row.get("key") or {}, dict, f"[{i}].key", "key")
            yield f"[{i}]", {n: cell(file, v, f"[{i}].key.{n}") for n, v in key.items()}, row.get("config")
        return
    for key, config in a(file, data, dict, "").items():
        yield key, {} if key == _DEFAULT else _sizes(file, key), config


def _sizes(file: Foreign, key: str) -> dict[str, str]:
    """ "hidden_size_2048_group_shape_m_-1": hidden_size is 2048, group_shape_m is -1."""
    pairs = _SIZE.findall(key)
    if not pairs or "_".join(f"{n}_{v}" for n, v in pairs) != key or len(dict(pairs)) < len(pairs):
        raise file.error(f"found the key {quoted(key)}, expected <name>_<number>, once or more", at=key)
    return dict(pairs)
