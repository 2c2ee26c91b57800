"""IR -> AITER's config files of its Triton GEMM kernels.

The output folder is AITER's `aiter/ops/triton/configs`. A file is for one architecture and family of kernels, and for
one (N, K) or for all; its entries are for ranges of M that end at AITER's own bounds, `M_LEQ_64` and so on. Both of
AITER's layouts are written: `gemm/<arch>-<config_name>...json`, whose readers know bounds from 4 on, and
`<arch>/triton/gemm/<family>/`, whose readers know 1 as well. A model whose answer changes elsewhere cannot be said
exactly: that is an error, or with --approximate each bucket takes the answer at its bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from heurgen import ir
from heurgen.base.errors import EmitError, UsageError, quoted
from heurgen.base.gpus import capability_of
from heurgen.base.text import counted
from heurgen.render import config_files
from heurgen.render.axis import Stretch, steps
from heurgen.render.target import Rendered, Request, one_selector

TARGET = "aiter-json"
BOUNDS = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
# Readers of the flat layout do not look for M_LEQ_1.
FLAT_BOUNDS = BOUNDS[1:]
FIELDS = ("M", "N", "K", "config_name", "arch")
REQUIRED = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K")
PARAMETERS = (
    *(*REQUIRED, "GROUP_SIZE_M", "num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack"),
    *("NUM_KSPLIT", "SPLITK_BLOCK_SIZE", "cache_modifier"),
)


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    """Two files per situation and architecture, one in each layout, and the manifest.

    Raises:
        UsageError: the family of kernels or the architecture is unknown, or a feature that matters has no value.
        EmitError: the answer changes at an M that is none of AITER's bounds, or a parameter is none of AITER's.
    """
    axis = config_files.axis_feature(module, config_files.AXIS, request.names)
    files: dict[str, str] = {}
    about: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    selectors: list[ir.Selector] = []
    for at in config_files.situations(request, FIELDS, PARAMETERS, module):
        for arch, selector in _answering(module, request, at).items():
            selectors.append(selector)
            fixed = config_files.fixed_features(module, selector, axis, request.names, at)
            fields = {f: at.get(f, fixed.get(request.names.get(f, f))) for f in FIELDS[1:]}
            notes += config_files.unseen(module, selector, fixed)
            found = steps(module, selector, axis, fixed)
            flat, nested = paths(fields, arch)
            if not request.approximate:
                _check(found, nested)
            for path, bounds in ((flat, FLAT_BOUNDS), (nested, BOUNDS)):
                wrong = differing(found, bounds)
                if not wrong or request.approximate:
                    config_files.keep(files, path, config_files.dumps(_buckets(found, bounds, request)))
                    about[path] = {"arch": arch, "for": fixed, "differs_from_the_model_at_M": wrong}
                if wrong:
                    # The nested layout has a bound more; where it is exact the flat file is left out.
                    notes.append(f"{path}: {'' if request.approximate else 'left out, '}{_said(wrong)}")
    text = config_files.manifest(module, selectors, TARGET, axis, files, about)
    return Rendered({**files, config_files.MANIFEST: text}, tuple(dict.fromkeys(notes)))


def _check(found: Sequence[Stretch], path: str) -> None:
    """Each situation has a file at least in the layout of more bounds, so that none falls back on AITER's defaults."""
    if wrong := differing(found, BOUNDS):
        raise EmitError(
            f"AITER's table cannot say it exactly: {_said(wrong)}",
            file=path,
            hint=f"its bounds are {', '.join(map(str, BOUNDS))}; --approximate takes the answer at each bound",
        )


def _said(wrong: Sequence[Sequence[int | None]]) -> str:
    ranges = [f"{a}" if a == b else f"{a} to {b}" if b is not None else f"{a} on" for a, b in wrong]
    more = f" and {counted(len(ranges) - 4, 'more range')}" if len(ranges) > 4 else ""
    return f"its buckets of M do not fit the model at M = {', '.join(ranges[:4])}{more}"


# --- the table --------------------------------------------------------------------------------------------


def _buckets(
    found: Sequence[Stretch], bounds: Sequence[int], request: Request
) -> dict[str, dict[str, ir.Value]]:
    """`M_LEQ_b`, and behind the last bound `M_GEQ_b`: readers try the first in ascending order, then the second."""
    table: dict[str, dict[str, ir.Value]] = {}
    for bound in bounds:
        table[f"M_LEQ_{bound}"] = _config(_at(found, bound), request)
    table[f"M_GEQ_{bounds[-1]}"] = _config(_at(found, bounds[-1] + 1), request)
    return table


def differing(found: Sequence[Stretch], bounds: Sequence[int]) -> list[list[int | None]]:
    """The ranges [first, last] of M in which the buckets answer otherwise than the steps do."""
    starts = sorted({1, *(b + 1 for b in bounds), *(s.first for s in found)})
    wrong: list[list[int | None]] = []
    for first, following in zip(starts, [*starts[1:], None], strict=True):
        bound = next((b for b in bounds if first <= b), bounds[-1] + 1)
        if _at(found, first).config != _at(found, bound).config:
            last = None if following is None else following - 1
            if wrong and wrong[-1][1] == first - 1:
                wrong[-1][1] = last
            else:
                wrong.append([first, last])
    return wrong


def _at(found: Sequence[Stretch], m: int) -> Stretch:
    return next(s for s in found if s.last is None or m <= s.last)


def _config(step: Stretch, request: Request) -> dict[str, ir.Value]:
    named = config_files.renamed(step.config, request.names, PARAMETERS, REQUIRED, "AITER's GEMM")
    for name, value in named.items():
        if type(value) is not int and not (
            name == "cache_modifier" and value in ("", ".cg", ".ca", ".cs", ".cv")
        ):
            raise EmitError(
                f"{name} takes the value {quoted(value)}, expected an int: AITER reads nothing else"
            )
    if named.get("cache_modifier") == "":
        named["cache_modifier"] = None
    return named


# --- names ------------------------------------------------------------------------------------------------


def _answering(module: ir.HeuristicModule, request: Request, at: Mapping[str, str]) -> dict[str, ir.Selector]:
    """Architecture -> the selector that answers for it. One that is said (`at`, or a feature of one value) is alone.

    Where devices of one architecture have trees that differ, it is what `select` takes for that capability: their
    vendor's is of other architectures too.
    """
    name = request.names.get("arch", "arch")
    known = (config_files.constant(f) for f in module.features if f.name == name)
    said = at.get("arch", at.get(name)) or next(known, None)
    if not said:
        found = {a: s for a, (_, s) in config_files.answering(module, request, architecture).items()}
        return {arch: _of_arch(module, request, arch, selector) for arch, selector in found.items()}
    arch = _safe(str(said), r"gfx[0-9a-f]+", "arch")
    chosen = one_selector(module, request)
    alike = () if request.device else tuple(d for d in chosen.devices if capability_of(d) == arch)
    own = [module.selector(chosen.vendor, device, request.capability) for device in alike]
    alone = own[0] if own and all(s is own[0] for s in own) else chosen
    return {arch: _of_arch(module, request, arch, alone)}


def _of_arch(module: ir.HeuristicModule, request: Request, arch: str, found: ir.Selector) -> ir.Selector:
    """The selector, or in place of a vendor's the one that answers for unknown devices of the architecture."""
    if found.device is not None:
        return found
    return module.selector(found.vendor, request.device, request.capability or arch)


def architecture(device: str) -> str:
    """`gfx942` of "gfx942:sramecc+" or of "AMD Instinct MI300X".

    Raises:
        UsageError: the device is none that is known.
    """
    found = capability_of(device)
    if found is not None and found.startswith("gfx"):
        return found
    raise UsageError(f"the architecture of {quoted(device)} is unknown", hint="say it: --at arch=gfx942")


def paths(fields: Mapping[str, Any], arch: str) -> tuple[str, str]:
    """The file in AITER's flat layout and in its nested one.

    Raises:
        UsageError: there is no config name, or one of N and K without the other.
    """
    if not fields.get("config_name"):
        raise UsageError(
            "AITER's files are for a family of kernels", hint="say its name: --at config_name=GEMM-A16W16"
        )
    name = _safe(str(fields["config_name"]), r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}", "config_name")
    n, k = (fields.get(f) for f in ("N", "K"))
    if (n is None) != (k is None):
        raise UsageError(
            "AITER's files are for one N and K together, or for all", hint="say both or none with --at"
        )
    sizes = "" if n is None else f"-N={_size(n)}-K={_size(k)}"
    family = name.lower().replace("-", "_")
    nested = f"{name}{sizes}.json" if sizes else "DEFAULT.json"
    return f"gemm/{arch}-{name}{sizes}.json", f"{arch}/triton/gemm/{family}/{nested}"


def _size(value: Any) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", str(value)):
        raise UsageError(f"N and K of a file are positive ints, found {quoted(value)}")
    return int(value)


def _safe(text: str, pattern: str, what: str) -> str:
    if not re.fullmatch(pattern, text):
        raise UsageError(f"{what} is {quoted(text)}, expected {pattern}")
    return text
