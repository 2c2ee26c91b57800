"""FlashInfer's autotuning caches -> winners, by their number in that build.

The file of `autotune(cache=...)`, as vLLM and SGLang keep one, says its build and device, and of every problem the
winner, a runner and its tactic:

    {"_metadata": {"flashinfer_version": "0.7.4", "cudnn_version": "91300", "gpu": "NVIDIA B200"},
     "('fp4_gemm', 'CutlassFp4GemmRunner', ((16, 4096), (4096, 2048)), (torch.bfloat16,))": ["CutlassFp4GemmRunner", 7]}

The managed cache (v2) has a folder a build, in it `manifest.json` with what is `_metadata` above, and a file
`entries/*.json` for every problem: `{"key": "('fp4_gemm', ...)", "runner": "CutlassFp4GemmRunner", "tactic": 7}`.
A problem is the operator, which is the kernel, the sizes of its tensors (`arg0_dim1`; 0 where there is no such
dimension), and what else tells launches apart (`extra_0`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from heurgen.base.errors import quoted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, parse_json, python_value, read_foreign, setting
from heurgen.logs.importers.helion import flat

_HEAD = 65_536
_BUILD = '"flashinfer_version"'
_ENTRY = re.compile(r'"key"\s*:\s*"\(\'')
_MANIFEST = "manifest.json"
# What no literal is in a key: a dtype, a member of an enumeration.
_BARE = re.compile(
    r"(?<=[(, ])(?:(torch\.[a-z][a-z0-9_]{0,63})|<([A-Za-z_][A-Za-z0-9_.]{0,127}): [^<>]{0,64}>)(?=[,)])"
)
# A problem's operator and features, its runner and tactic.
_Winner = tuple[str, dict[str, str], dict[str, str]]


def recognises(file: Foreign) -> bool:
    head = file.text[:_HEAD]
    return _BUILD in head or ('"runner"' in head and '"tactic"' in head and _ENTRY.search(head) is not None)


def folders_say(file: Foreign) -> str:
    """The folder of the build: entries of two may hold the same winner."""
    return "" if _BUILD in file.text[:_HEAD] else _build_folder(file)


def import_flashinfer(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("flashinfer", winners_only=True, absent="0")
    read = [(file, a(file, parse_json(file), dict, "")) for file in files]
    manifests = {os.path.dirname(file.file): data for file, data in read if _is_manifest(data)}
    winners = [(file, data, [*_winners(file, data)]) for file, data in read if not _is_manifest(data)]
    known = {operator for _, _, rows in winners for operator, _, _ in rows}
    found.kernel = one_kernel(known, options.kernel) if known else "kernel"
    builds: dict[tuple[str, ...], Foreign] = {}
    for file, data, rows in winners:
        told = data.get("_metadata") if "key" not in data else _manifest(file, manifests)
        build = {
            k: setting(file, v, f"_metadata.{k}") for k, v in a(file, told or {}, dict, "_metadata").items()
        }
        builds.setdefault(tuple(build.get(n, "") for n in sorted(build) if n.endswith("_version")), file)
        device, vendor = found.place(file.file, build.get("gpu"), options)
        for _, problem, config in (row for row in rows if row[0] == found.kernel):
            found.add(found.scenario(vendor, device, problem), config, None)
    _check_build(builds)
    return found.imported(options)


def _is_manifest(data: dict[str, Any]) -> bool:
    return "flashinfer_version" in data


def _build_folder(file: Foreign) -> str:
    return os.path.dirname(os.path.dirname(file.file))


def _manifest(file: Foreign, manifests: dict[str, Any]) -> Any:
    """What the build of an entry says of itself: the manifest that was given, else the one in the entry's build."""
    folder = _build_folder(file)
    beside = os.path.join(folder, _MANIFEST)
    if folder not in manifests:
        manifests[folder] = parse_json(read_foreign(beside)) if os.path.isfile(beside) else {}
    return manifests[folder]


def _check_build(builds: dict[tuple[str, ...], Foreign]) -> None:
    if len(builds) > 1:
        raise builds[max(builds)].error(
            f"the winners are of {len(builds)} builds, whose tactics have other numbers",
            hint="import those of one build at a time",
        )


def _winners(file: Foreign, data: dict[str, Any]) -> Iterator[_Winner]:
    if "key" in data:
        key = a(file, data["key"], str, "key")
        yield *_problem(file, key, "key"), _config(file, data.get("runner"), data.get("tactic"), key)
        return
    for key, value in data.items():
        if key.startswith("_"):  # the build, and records of other protocols
            continue
        winner = a(file, value, list, key, key)
        if len(winner) < 2:
            raise file.error(f"found {quoted(winner)}, expected [runner, tactic]", at=key)
        yield *_problem(file, key, key), _config(file, winner[0], winner[1], key)


def _problem(file: Foreign, key: str, at: str) -> tuple[str, dict[str, str]]:
    """The operator and the features of a key."""
    fields = python_value(_BARE.sub(lambda m: repr(m[1] or m[2]), key))
    if not _is_key(fields):
        expected = "('operator', 'runner', ((size, ...), ...), (...))"
        raise file.error(f"found the key {quoted(key)}, expected {expected}", at=at)
    operator, _, shapes, *extras = fields
    features = {f"arg{i}_dim{j}": str(size) for i, shape in enumerate(shapes) for j, size in enumerate(shape)}
    more = extras[0] if extras else ()
    return operator, features | {f"extra_{i}": setting(file, v, key) or "none" for i, v in enumerate(more)}


def _is_key(fields: Any) -> bool:
    if not isinstance(fields, tuple) or len(fields) not in (3, 4) or not isinstance(fields[-1], tuple):
        return False
    shapes = fields[2]
    return (
        all(isinstance(name, str) and name for name in fields[:2])
        and isinstance(shapes, tuple)
        and all(
            isinstance(shape, tuple) and all(type(s) is int and abs(s) < 2**53 for s in shape)
            for shape in shapes
        )
    )


def _config(file: Foreign, runner: Any, tactic: Any, key: str) -> dict[str, str]:
    return flat(file, key, {"runner": a(file, runner, str, f"{key}: runner"), "tactic": tactic})
