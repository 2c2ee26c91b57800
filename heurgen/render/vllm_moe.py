"""IR -> vLLM's and SGLang's config files of their fused-MoE kernel.

The output folder is what VLLM_TUNED_CONFIG_FOLDER names. A file is for one E, N, device, dtype and block shape; its
entries are for numbers of tokens M, and vLLM takes the entry nearest to a launch's M. Entries at both ends of every
step make that nearest entry the model's own answer. SGLang reads the same entries in the same way, from
SGLANG_MOE_CONFIG_DIR/configs/triton_3_5_1; where it names the file otherwise it gets one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from heurgen import ir
from heurgen.base.errors import EmitError, UsageError, quoted
from heurgen.render import config_files
from heurgen.render.axis import Stretch, steps
from heurgen.render.target import Rendered, Request

TARGET = "vllm-moe"
REQUIRED = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
PARAMETERS = (
    *REQUIRED,
    *(
        "SPLIT_K",
        "num_warps",
        "num_stages",
        "num_ctas",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "grf_mode",
    ),
)
FIELDS = ("M", "E", "N", "dtype", "block_shape", "per_channel_quant")
# 16-bit weights have no dtype in the file's name.
_UNNAMED = frozenset(
    ("", "none", "auto", "bf16", "fp16", "bfloat16", "float16", "torch.bfloat16", "torch.float16")
)


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    """One file per situation and device, and the manifest.

    Raises:
        UsageError: a file's E or N is unknown, or a feature that matters has no value.
        EmitError: a parameter is none of vLLM's, or a name cannot be a file's.
    """
    axis = config_files.axis_feature(module, config_files.AXIS, request.names)
    # Of a name that both servers look for vLLM's comes first: it may be for several cards.
    answering = [
        (reader, device, selector)
        for reader, named in enumerate((device_name, _spelled))
        for device, selector in config_files.answering(module, request, named).values()
    ]
    files: dict[str, str] = {}
    about: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for at in config_files.situations(request, FIELDS, PARAMETERS, module):
        here: dict[str | None, str] = {}
        for reader, device, selector in answering:
            fixed = config_files.fixed_features(module, selector, axis, request.names, at)
            path = file_names(_fields(at, fixed, request.names), device)[reader]
            if path is None or path in here:
                continue
            notes += config_files.unseen(module, selector, fixed)
            found = steps(module, selector, axis, fixed)
            here[path] = config_files.dumps(
                {str(m): _config(step, request) for step in found for m in _ends(step)}
            )
            config_files.keep(files, path, here[path])
            about.setdefault(path, {"device": device, "for": fixed})
    selectors = [selector for _, _, selector in answering]
    text = config_files.manifest(module, selectors, TARGET, axis, files, about)
    return Rendered({**files, config_files.MANIFEST: text}, tuple(dict.fromkeys(notes)))


def _ends(step: Stretch) -> tuple[int, ...]:
    """The entries of a step: its first and its last M, so that no M is nearer to another step's entry."""
    if step.last is None or step.last == step.first:
        return (step.first,)
    return (step.first, step.last)


def _config(step: Stretch, request: Request) -> dict[str, ir.Value]:
    named = config_files.renamed(step.config, request.names, PARAMETERS, REQUIRED, "vLLM's fused MoE")
    for name, value in named.items():
        if type(value) is not int:
            raise EmitError(f"{name} takes the value {value!r}, expected ints: vLLM reads nothing else")
    return named


def _fields(at: Mapping[str, str], fixed: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The parts of a file's name: from --at, else from the features of the same names."""
    return {field: at.get(field, fixed.get(names.get(field, field))) for field in FIELDS[1:]}


def file_names(fields: Mapping[str, Any], device: str) -> tuple[str | None, str]:
    """The names that vLLM's and SGLang's `get_config_file_name` look for; vLLM's None where SGLang alone has one.

    Raises:
        UsageError: E or N is missing or no positive int.
        EmitError: the device or the dtype has characters that no such file has.
    """
    e, n = (_size(fields, name) for name in ("E", "N"))
    named, dtype = str(fields.get("dtype") or ""), ""
    if named.lower() not in _UNNAMED:
        dtype = f",dtype={_safe(named)}"
    blocks = _block_shape(str(fields.get("block_shape") or ""))
    shape = f",block_shape=[{blocks[0]}, {blocks[1]}]" if blocks else ""
    sglang = f"E={e},N={n},device_name={_safe(_spelled(device))}{dtype}{shape}"
    if str(fields.get("per_channel_quant")).lower() in ("true", "1"):  # only SGLang's names tell
        return None, f"{sglang},per_channel_quant=True.json"
    vllm = f"E={e},N={n},device_name={_safe(device_name(device))}{dtype}{shape}.json"
    return vllm.replace(" ", ""), f"{sglang}.json"


def device_name(device: str) -> str:
    """As vLLM names it in a file's name; every card with H200 in its name shares one file."""
    name = _spelled(device)
    return "NVIDIA_H200" if "H200" in name.split("_") else name


def _spelled(device: str) -> str:
    return re.sub(r"[\s/]+", "_", device)


def _block_shape(text: str) -> tuple[int, int] | None:
    """`[128,128]` as its numbers; None for weights that are not quantised by blocks."""
    if text.lower() in ("", "none"):
        return None
    found = re.fullmatch(r"\[([1-9][0-9]{0,6}), ?([1-9][0-9]{0,6})\]", text)
    if not found:
        raise UsageError(f"block_shape is {quoted(text)}, expected [N,K] with two positive ints")
    return int(found[1]), int(found[2])


def _size(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 1:
        found = "and none is said" if value is None else f"found {quoted(value)}"
        raise UsageError(f"a file of vLLM's is for one {name}, {found}", hint=f"say it: --at {name}=NUMBER")
    return number


def _safe(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.()+-]*", name) or len(name) > 100:
        raise EmitError(f"{quoted(name)} cannot be a part of a file's name")
    return name
