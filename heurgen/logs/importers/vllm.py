"""vLLM's and SGLang's tuned JSON (fused MoE, block fp8, Mamba's state update, LoRA) -> winners.

The file's name says device and problem: `E=8,N=3584,device_name=NVIDIA_H200,dtype=fp8_w8a8.json`,
`N=..,K=..,device_name=..` (SGLang ships some with no device behind it),
`headdim=..,dstate=..,device_name=..,cache_dtype=..`; `backend=flydsl` at its end is another kernel. The body maps a
number of tokens (of a state update: batch times heads) to the winner. A LoRA file is `<device>_SHRINK.json` or
`<device>_EXPAND_TRUE.json`, its body nested by max_loras, num_slices, m, k, n; SGLang's is
`lora_shrink,K=..,R=..,S=..,device=...json`, its body by chunk size. SGLang's folder says the Triton version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from heurgen.base.errors import printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, a, cell, parse_json

_PAIR = re.compile(r"([A-Za-z_]+)=((?:\[[^\]]*\]|[^,\[\]])+|(?<=device_name=))(?:,|$)")
_PROBLEM = re.compile(r"(?:E|N|K|headdim)=[0-9].*device_name=")
_LORA = re.compile(r"(.+?)_((?:FUSED_MOE_LORA_W(?:13|2)_)?(?:SHRINK|EXPAND)(?:_TRUE|_FALSE)?)\.json")
_CHUNKED = re.compile(r"lora_(shrink|expand),(K=[0-9]{1,15},R=[0-9]{1,15},S=[0-9]{1,15}),device=(.+)\.json")
_LORA_LEVELS = ("max_loras", "num_slices", "m", "k", "n", "i")
_SUFFIX = re.compile(r"(_down)?\.json$")
# What a name leaves out where it is the default.
_DEFAULTS = {
    "fused_moe": {"dtype": "none", "block_shape": "none"},
    "block_fp8": {"dtype": "none", "block_shape": "none"},
    "selective_state_update": {"cache_dtype": "none"},
}
# What the keys of a body are numbers of, where they are not of tokens.
_SIZES = {
    "selective_state_update": "effective_batch",
    "csgmv_lora_shrink": "chunk_size",
    "csgmv_lora_expand": "chunk_size",
}
_NUMBER = re.compile(r"[0-9]{1,15}")


def recognises(file: Foreign) -> bool:
    return _PROBLEM.match(file.name) is not None or any(n.fullmatch(file.name) for n in (_LORA, _CHUNKED))


def import_vllm(files: Sequence[Foreign], options: Options) -> Imported:
    found, blank = Collected("vllm", winners_only=True), 0
    named = [(file, *_name(file)) for file in files]
    found.kernel = one_kernel((kind for _, kind, _, _ in named), options.kernel)
    named = [of for of in named if of[1] == found.kernel]
    any_placed = any(device for _, _, device, _ in named)
    for file, kind, device, features in named:
        if any_placed and not (device or options.device):
            found.notes.append(f"{printable(file.file)}: left out, it does not say the device")
            continue
        place = found.place(file.file, device, options)
        body = a(file, parse_json(file), dict, "")
        data = {key: config for key, config in body.items() if config is not None}
        blank += len(body) - len(data)
        rows = _nested(file, data, (), 0) if kind.startswith("lora") else _flat(file, data, kind)
        for size, config in rows:
            found.add(found.scenario(place[1], place[0], {**features, **size}), config, None)
    if blank:
        found.notes.append(f"{counted(blank, 'size')} without a config left out")
    return found.imported(options)


def _name(file: Foreign) -> tuple[str, str, dict[str, str]]:
    """The kernel, the device, and the features that the file's name says."""
    if lora := _LORA.fullmatch(file.name):
        return f"lora_{lora[2].lower()}", lora[1].replace("_", " "), {}
    if chunked := _CHUNKED.fullmatch(file.name):
        sizes = (pair.split("=") for pair in chunked[2].split(","))
        return f"csgmv_lora_{chunked[1]}", chunked[3].replace("_", " "), {n: str(int(v)) for n, v in sizes}
    stem, down = _SUFFIX.sub("", file.name), file.name.endswith("_down.json")
    pairs = _PAIR.findall(stem)
    told = {k: v.replace(", ", ",") for k, v in pairs}
    kind = "fused_moe" if "E" in told else "selective_state_update" if "headdim" in told else "block_fp8"
    if ",".join(f"{k}={v}" for k, v in pairs) != stem or "device_name" not in told or len(told) < len(pairs):
        raise file.error(
            f"the name {quoted(file.name)} does not say its problem",
            hint="expected E=8,N=3584,device_name=NVIDIA_H200[,dtype=..][,block_shape=[..]].json or the like",
        )
    device, backend = told.pop("device_name").replace("_", " "), told.pop("backend", "")
    features = {**_DEFAULTS[kind], **{k: cell(file, v, f"the file's name: {k}") for k, v in told.items()}}
    if kind == "fused_moe":
        features["per_channel_quant"] = told.get("per_channel_quant", "False")
    kernel = f"{kind}_{backend}" if backend else kind
    return kernel + "_down" * down, device, features


def _flat(file: Foreign, data: dict[str, Any], kind: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    size = _SIZES.get(kind, "M")
    for key, config in data.items():
        if key == "triton_version":
            continue
        if not _NUMBER.fullmatch(key):
            raise file.error(f"found the key {quoted(key)}, expected a number of tokens", at=key)
        yield {size: str(int(key))}, _config(file, config, key)


def _nested(
    file: Foreign, data: dict[str, Any], path: tuple[str, ...], level: int
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """LoRA: one level of keys for each of _LORA_LEVELS, the last only in files of fused MoE."""
    for key, value in data.items():
        here = (*path, key)
        entry = a(file, value, dict, ".".join(here), key)
        if not _NUMBER.fullmatch(key) or level >= len(_LORA_LEVELS):
            raise file.error(f"found {quoted('.'.join(here))}, expected {', '.join(_LORA_LEVELS)}", at=key)
        if any(isinstance(v, dict) for v in entry.values()):
            yield from _nested(file, entry, here, level + 1)
        elif len(here) < len(_LORA_LEVELS) - 1:
            raise file.error(f"{quoted('.'.join(here))} ends after {counted(len(here), 'level')}", at=key)
        else:
            sizes = [str(int(k)) for k in here]
            yield dict(zip(_LORA_LEVELS, sizes, strict=False)), _config(file, entry, ".".join(here))


def _config(file: Foreign, data: Any, key: str) -> dict[str, str]:
    config = a(file, data, dict, key, key)
    cells = {k: cell(file, v, f"{key}.{k}", key) for k, v in config.items() if v is not None}
    if not cells:
        raise file.error("the config is empty", at=key, path=key)
    return cells
