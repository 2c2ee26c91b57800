"""Inductor's max-autotune logs -> measurements.

Files of TORCHINDUCTOR_MM_LOGGING_FILE, _FLEX_ATTENTION_LOGGING_FILE and _CONV_LOGGING_FILE: one JSON list of
`{"(M, K, N)": [choices]}`, `{"('forward', B, Hq, ...)": [choices]}` or `{"query_shape": ..., "choices": [choices]}`,
a choice being `{"type", "time" (ms), BLOCK_M, ...}`; and what max-autotune prints (`AUTOTUNE mm(64x4096, ...)`,
with `strides:` that become `arg0_layout`, ...).
The JSON names neither dtype nor device: `--const dtype=bfloat16 --device NAME`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import (
    Foreign,
    a,
    cell,
    csv_number,
    parse_json,
    python_value,
    setting,
    time_in,
    time_of,
)
from heurgen.logs.importers.printed import Line, by_process

_MM = ("M", "K", "N")
# Of a batched product Inductor takes the first two sizes of the first matrix: its K is not logged.
_BATCHED = ("B", "M", "N")
# Of these it takes the sizes of the last two inputs, which are scales: (1, 1, 1) where there is one of a matrix.
_SCALED = ("scaled_mm", "_scaled_mm", "scaled_grouped_mm", "_scaled_grouped_mm")
_FLEX = ("B", "Hq", "Hkv", "seq_len_q", "seq_len_kv", "qk_head_dim", "v_head_dim")
# Key -> the names of its sizes, by how many there are; FlexDecoding has tensors of five dimensions, the third of 1.
_SHAPES = {
    "query_shape": ("B Hq seq_len_q qk_head_dim", "B Hq seq_len_q - qk_head_dim"),
    "key_shape": ("- Hkv seq_len_kv -", "- Hkv seq_len_kv - -"),
    "value_shape": ("- - - v_head_dim", "- - - - v_head_dim"),
    "input_shape": ("batch in_c in_w", "batch in_c in_h in_w", "batch in_c in_d in_h in_w"),
    "weight_shape": (
        "out_c in_c_per_group fil_w",
        "out_c in_c_per_group fil_h fil_w",
        "out_c in_c_per_group fil_d fil_h fil_w",
    ),
}
_OWN = ("time", "kernel_type", *_FLEX)
# What a line begins behind, where a logger wrote it.
_BEFORE = r"(?:^|[\]:]| - )"
# A logger writes it before the first line of a message alone ("INFO worker AUTOTUNE mm(...)").
_TITLE = re.compile(r"(?:^|[\]:\s])AUTOTUNE ([A-Za-z_][A-Za-z0-9_.]*)\(([0-9x, ]*)\)\s*$")
_STRIDES = re.compile(_BEFORE + r"\s*strides: ?([\[(].*)$")
_DTYPES = re.compile(_BEFORE + r"\s*dtypes: ?([A-Za-z0-9_.]+(?:, ?[A-Za-z0-9_.]+)*)")
_CHOICE = re.compile(
    _BEFORE + r"\s{0,16}([A-Za-z_][A-Za-z0-9_.:]*) {1,16}([0-9.]+|inf|nan) ms(?: {1,16}[0-9.]+%)?( .*|)\s*$"
)
# Parameters that stand on lines of their own below their choice, as pages show them.
_CONTINUED = re.compile(_BEFORE + r"\s{0,16}([A-Za-z_][A-Za-z0-9_]*=[^=].*)$")
_TAKES = re.compile(r"AUTOTUNE (benchmarking )?takes")
# "s0", and "u0" of a size that the program computes.
_SYMBOL = re.compile(r"\b[su][0-9]+\b")
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=('[^']*'|\"[^\"]*\"|[^,]+)(?:, |$)")
# Names that end in a number, which every tuning of a program gives anew.
_NUMBERED = re.compile(r"(triton|decompose_k|contiguous|cutedsl|flydsl|nv)_(.+)_[0-9]+")
_SPLIT = re.compile(r"mm_([0-9]+)_split")
# What torch 2.15 says behind the name of such a kernel: the operands change places, the bias is added in it.
_NV_FLAGS = ("swap_ab", "bias")
# The templates that a matrix product had first: "triton" alone.
_PLAIN = ("mm", "bmm")
_ADDING = ("addmm", "baddbmm")
_MM_NAMES = ("mm", "addmm", "bmm", "baddbmm", "int_mm", "scaled_mm", "_scaled_mm", "_int_mm")
# What Inductor tells a template beside its config. Of a product sizes, blocks and layouts say it already; a convolution
# and FlexAttention have it from the problem, and their shapes do not say all of it.
_IMPLIED = re.compile(r"EVEN_K|[AB]_ROW_MAJOR")
_OF_CONVOLUTION = re.compile(r"(?:KERNEL|STRIDE|PADDING)_[DHW]|GROUPS|UNROLL")
_OF_FLEX = re.compile(r"(?!BLOCK_[MN][12]?$|USE_TMA$)[A-Z][A-Z0-9_]*")


def recognises(file: Foreign) -> bool:
    head = file.text[:65536]
    if _is_printed(file):
        text = r"(?:^|[\]:)\s|]|\x1b\[[0-9;]*m)AUTOTUNE [a-z_0-9.]+\("
        return re.search(text, file.text, re.MULTILINE) is not None
    return re.search(r'"\(\s*(\'|[0-9su])|"invoke"|"(query|input)_shape"', head) is not None


def _is_printed(file: Foreign) -> bool:
    """Whether it is text, such as "[rank0]: AUTOTUNE mm(...)", rather than JSON."""
    return not file.text.lstrip().startswith("[") or "AUTOTUNE " in file.text


def import_inductor(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("inductor")
    rows: list[tuple[tuple[str, str], Row]] = []
    for file in files:
        place = found.place(file.file, None, options)
        read = _printed(file, found) if _is_printed(file) else _logged(file, found)
        rows += ((place, row) for row in read if options.kernel in (None, row[0]))
    kinds = {kind for _, (kind, *_) in rows}
    if len(kinds) > 1:
        raise UsageError(
            f"the files hold {', '.join(sorted(kinds))}", hint=f"one at a time: --kernel {min(kinds)}"
        )
    if options.kernel and not kinds:
        raise UsageError(f"the files hold nothing of {quoted(options.kernel)}")
    found.kernel = kinds.pop() if kinds else "kernel"
    told = {name for _, (kind, features, *_) in rows for name in features if _told(kind).fullmatch(name)}
    without = {tuple(features.items()) for _, (_, features, *_) in rows if told.isdisjoint(features)}
    if told and without:
        what = counted(len(without), "problem")
        found.notes.append(f"{what} without a template left out: nothing says {', '.join(sorted(told))}")
    for (device, vendor), (_, features, config, time) in rows:
        if not told or not told.isdisjoint(features):
            status = "ok" if time is not None else "invalid"
            found.add(found.scenario(vendor, device, features), config, time, status)
    return found.imported(options)


Row = tuple[str, dict[str, str], dict[str, str], float | None]
Choice = tuple[dict[str, str], float | None]


# --- the JSON files ---------------------------------------------------------------------------------------


def _logged(file: Foreign, found: Collected) -> Iterator[Row]:
    calls, symbolic, concrete, alike = 0, list[tuple[str, str]](), 0, 0
    for i, entry in _elements(file, found):
        if "invoke" in entry:
            calls += 1
        elif "choices" in entry and (key := _symbolic_shape(entry)):
            symbolic.append((key, f"[{i}]"))
        elif "choices" in entry:
            concrete += 1
            rows = [*_by_shapes(file, entry, f"[{i}]")]
            yield from (kept := _fastest(rows))
            alike += len(rows) - len(kept)
        else:
            for key in (k for k in entry if k != "kernel_type"):
                if _SYMBOL.search(key):
                    symbolic.append((key, f"[{i}]"))
                else:
                    concrete += 1
                    rows = [*_by_key(file, key, entry[key], entry, f"[{i}]")]
                    yield from (kept := _fastest(rows))
                    alike += len(rows) - len(kept)
    if symbolic and not concrete:
        key, path = symbolic[0]
        said = f"found the key {quoted(key)}, expected a tuple of sizes"
        raise file.error(said, at=key, path=path, hint="a symbolic size? compile with dynamic=False")
    if symbolic:
        found.notes.append(f"{counted(len(symbolic), 'tuning')} of symbolic sizes left out")
    if calls:
        found.notes.append(f"{counted(calls, 'record')} of calls without timings left out")
    if alike:
        said = f"{counted(alike, 'choice')} of templates that the log does not tell apart"
        found.notes.append(f"{said}: of each config in a tuning the fastest counts")


def _elements(file: Foreign, found: Collected) -> Iterator[tuple[int, dict[str, Any]]]:
    """The elements of a log less those of scaled products, whose sizes it does not have."""
    tunings, scaled, unnamed = 0, 0, 0
    for i, element in enumerate(a(file, parse_json(file), list, "")):
        entry = a(file, element, dict, f"[{i}]")
        if entry.get("kernel_type") in _SCALED:
            scaled += 1
            continue
        tunings += "invoke" not in entry
        unnamed += not entry.keys() & {"invoke", "choices", "kernel_type"} and "('" not in next(
            iter(entry), "('"
        )
        yield i, entry
    if scaled:
        said = f"{counted(scaled, 'tuning')} of scaled products: the log has the sizes of their scales alone"
        if not tunings:
            raise file.error(said, hint="import what max-autotune prints instead")
        found.notes.append(f"left out, {said}")
    if unnamed:
        found.notes.append(
            f"{counted(unnamed, 'tuning')} of products without an operation, as torch before 2.13 logs them: taken for "
            "mm; where addmm or bmm (whose sizes would be B, M, N) were tuned too, import what max-autotune prints"
        )


def _fastest(rows: Sequence[Row]) -> list[Row]:
    """Of the choices of a tuning each config once: the log names no templates, nor which of ATen's kernels.

    They are no repeats of one measurement. Who takes such a config is given the faster of its kernels.
    """
    best: dict[tuple[tuple[str, str], ...], Row] = {}
    for row in sorted(rows, key=lambda row: math.inf if row[3] is None else row[3]):
        best.setdefault(tuple(row[2].items()), row)
    return list(best.values())


def _symbolic_shape(entry: Mapping[str, Any]) -> str | None:
    return next((str(entry[k]) for k in _SHAPES if k in entry and _SYMBOL.search(str(entry[k]))), None)


def _by_key(file: Foreign, key: str, choices: Any, entry: Mapping[str, Any], path: str) -> Iterator[Row]:
    parts = python_value(key)
    if not isinstance(parts, tuple):
        raise file.error(f"found the key {quoted(key)}, expected a tuple of sizes", at=key, path=path)
    flex = bool(parts) and isinstance(parts[0], str)
    batched = entry.get("kernel_type") in ("bmm", "baddbmm")
    names, sizes = (_FLEX, parts[1:]) if flex else (_BATCHED if batched else _MM, parts)
    if len(sizes) != len(names) or not all(type(s) is int and 0 < s < 2**53 for s in sizes):
        raise file.error(f"found the key {quoted(key)}, expected ({', '.join(names)})", at=key, path=path)
    kind = f"flex_attention_{parts[0]}" if flex else cell(file, entry.get("kernel_type", "mm"), path, key)
    features = dict(zip(names, map(str, sizes), strict=True))
    for config, time in _choices(file, choices, key, f"{path}.{key}"):
        yield kind, features, config, time


def _by_shapes(file: Foreign, entry: Mapping[str, Any], path: str) -> Iterator[Row]:
    features: dict[str, str] = {}
    for key, names in _SHAPES.items():
        if key not in entry:
            continue
        shape = entry[key]
        sizes = re.findall(
            r"[0-9]{1,15}|[A-Za-z][A-Za-z0-9]*", shape if isinstance(shape, str) else str(shape)
        )
        named = {len(text.split()): text.split() for text in names}
        if len(sizes) not in named or not all(s.isdigit() for s in sizes):
            expected = " or ".join(map(str, named))
            raise file.error(f"found the shape {quoted(shape)}, expected {expected} sizes", at=key, path=path)
        found = zip(named[len(sizes)], sizes, strict=True)
        features |= {n: str(int(s)) for n, s in found if n != "-"}
    if not features:
        raise file.error("found choices without shapes", path=path)
    conv = "in_c" in features
    features = features if conv else {n: features[n] for n in _FLEX if n in features}
    kind = cell(
        file, entry.get("kernel_type", "conv" if conv else "forward"), f"{path}.kernel_type", "kernel_type"
    )
    choices = [*_choices(file, entry["choices"], "choices", f"{path}.choices")]
    yield from _tuning(kind if conv else f"flex_attention_{kind}", features, choices)


def _choices(file: Foreign, data: Any, key: str, path: str) -> Iterator[Choice]:
    for i, choice in enumerate(a(file, data, list, path, key)):
        if choice is None:  # a choice that could not be described
            continue
        row = a(file, choice, dict, f"{path}[{i}]", key)
        config = {k: setting(file, v, f"{path}[{i}].{k}", key) for k, v in row.items() if k not in _OWN}
        if not config:
            raise file.error("the choice names no parameter", at=key, path=f"{path}[{i}]")
        yield config, time_in(file, row, "time", f"{path}[{i}]", at=key)


# --- what max-autotune prints -----------------------------------------------------------------------------


def _printed(file: Foreign, found: Collected) -> Iterator[Row]:
    """What each process printed."""
    any_choice = False
    for lines in by_process(file):
        for choice in _blocks(file, lines, found):
            any_choice = True
            yield choice
    if not any_choice:
        raise file.error("found no block that max-autotune prints", hint="AUTOTUNE mm(...), then its choices")


def _blocks(file: Foreign, lines: Sequence[Line], found: Collected) -> Iterator[Row]:
    """Blocks of `AUTOTUNE mm(64x4096, 4096x128)`, `strides: ...`, `dtypes: ...` and a line for each choice."""
    kind, sizes, features, unread = "", list[list[int]](), dict[str, str](), 0
    choices: list[Choice] = []
    for at, (row, text) in enumerate(lines):
        if "AUTOTUNE " in text:
            yield from _tuning(kind, features, choices)
            choices = []
            title = _TITLE.search(text)
            kind, sizes = (title[1], _sizes(file, row, title[2])) if title else ("", [])
            features = _shape(kind, sizes)
            unread += title is None and _TAKES.search(text) is None
        elif kind and (strides := _STRIDES.search(text)):
            features |= _layouts(file, row, kind, sizes, strides[1])
        elif kind and (dtypes := _DTYPES.search(text)):
            features["dtype"] = cell(file, _dtype(kind, dtypes[1]), f"line {row}: dtypes")
        elif kind and (choice := _CHOICE.search(text)):
            time = time_of(file, csv_number(file, choice[2], row, choice[1]), f"line {row}")
            choices.append((_described(file, kind, choice, lines, at), time))
    yield from _tuning(kind, features, choices)
    if unread:
        found.notes.append(f"{counted(unread, 'tuning')} of symbolic sizes left out")


def _tuning(kind: str, features: dict[str, str], choices: Sequence[Choice]) -> Iterator[Row]:
    """The choices of one tuning: what its templates are told of the problem belongs to the launch, not to a config."""
    told, problem = _told(kind), dict[str, str]()
    if kind not in _MM_NAMES:
        problem = {k: v for config, _ in choices for k, v in config.items() if told.fullmatch(k)}
    for config, time in choices:
        yield kind, features | problem, {k: v for k, v in config.items() if not told.fullmatch(k)}, time


def _told(kind: str) -> re.Pattern[str]:
    """The names of what the templates of a kind are told of the problem."""
    return _IMPLIED if kind in _MM_NAMES else _OF_FLEX if kind.startswith("flex_") else _OF_CONVOLUTION


def _described(
    file: Foreign, kind: str, choice: re.Match[str], lines: Sequence[Line], at: int
) -> dict[str, str]:
    """The config of a choice, the line `lines[at]`: its parameters stand behind it, or on the lines below it.

    Raises:
        LogError: a template of Triton has none. Its name is numbered anew in every tuning, so that all would be one.
    """
    said = [choice[3].removeprefix(" CuteDSL template").rstrip(")")]
    for _, text in lines[at + 1 : at + 100]:
        if (more := _CONTINUED.search(text)) is None:
            break
        said.append(more[1])
    fields = (f for s in said for f in _FIELD.finditer(s.strip().rstrip(",")))
    config = {f[1]: f[2].strip("'\" ") for f in fields}
    if choice[1].startswith("triton_") and not config:
        raise file.error(
            f"the choice {quoted(choice[1])} names no parameter",
            row=lines[at][0],
            hint="older versions of torch print names alone; log with TORCHINDUCTOR_MM_LOGGING_FILE",
        )
    return {k: v for k, v in (_implementation(kind, choice) | config).items() if v != "None"}


def _implementation(kind: str, choice: re.Match[str]) -> dict[str, str]:
    """`type`, as PyTorch calls the template where the name tells it, without the number of this tuning.

    A product has several templates of Triton, and one set of parameters means another kernel in each.
    """
    name, words = choice[1], [w for w in choice[3].split() if "=" not in w]
    if name.startswith("cutlass_") and words:  # behind it a hash of the code
        return {"type": "cutlass", "kernel": words[0]}
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        return {"type": "triton" if name.startswith("triton_") else name}
    maker, template = numbered[1], numbered[2]
    if maker == "triton":
        plain = kind not in _MM_NAMES or template in _PLAIN
        return {"type": "triton" if plain else f"triton::{template}"}
    if maker == "decompose_k" and (split := _SPLIT.fullmatch(template)):
        return {"type": maker, "k_split": split[1]}
    kernel = {"kernel": words[1]} if maker == "nv" and len(words) > 1 else {}
    flags = {flag: "True" for flag in words[2:] if kernel and flag in _NV_FLAGS}
    return {"type": f"{maker}_{template}"} | kernel | flags


def _sizes(file: Foreign, row: int, text: str) -> list[list[int]]:
    """The sizes of every operand that has a dimension."""
    operands = [t.strip().split("x") for t in text.split(",") if t.strip()]
    if not operands or not all(s.isdigit() and len(s) < 16 for t in operands for s in t):
        raise file.error(f"found the shapes {quoted(text)}, expected sizes such as 64x4096", row=row)
    return [list(map(int, t)) for t in operands]


def _shape(kind: str, sizes: Sequence[Sequence[int]]) -> dict[str, str]:
    if kind in _MM_NAMES and len(sizes) >= 2:
        first, second = sizes[-2:] if kind in _ADDING else sizes[:2]
        if len(first) == len(second) >= 2 and first[-1] == second[-2]:
            batch = {"B": str(first[0])} if len(first) == 3 else {}
            return {**batch, "M": str(first[-2]), "K": str(first[-1]), "N": str(second[-1])}
    return {f"arg{i}_dim{j}": str(s) for i, t in enumerate(sizes) for j, s in enumerate(t)}


def _dtype(kind: str, text: str) -> str:
    """The operands' dtype; of a product of several dtypes each: it is another problem than one of the first alone."""
    each = [t.strip().removeprefix("torch.") for t in text.split(",")]
    known = each[: 3 if kind in _ADDING else 2] if kind in _MM_NAMES else each[:1]
    return each[0] if len(set(known)) == 1 else ",".join(known)


def _layouts(file: Foreign, row: int, kind: str, sizes: Sequence[Sequence[int]], text: str) -> dict[str, str]:
    """How each operand lies in memory: tunings of equal sizes and other strides are other scenarios."""
    known = (
        sizes[: 3 if kind in _ADDING else 2] if kind in _MM_NAMES else sizes
    )  # behind matrices: scales, a bias
    if _SYMBOL.search(text):  # sizes are printed as numbers, strides are not: "[64*(((s0 + 7)//8)), 1]"
        return {f"arg{i}_layout": "symbolic" for i in range(len(known))}
    strides = [[s.strip() for s in t.split(",")] for t in re.findall(r"[\[(]([^\[\]()]+)[\])]", text)]
    if [len(t) for t in strides] != [len(t) for t in sizes]:
        raise file.error(f"found the strides {quoted(text)}, expected one of each size above", row=row)
    layouts = [_layout(*pair) for pair in zip(known, strides[: len(known)], strict=True)]
    return {f"arg{i}_layout": cell(file, layout, f"line {row}: strides") for i, layout in enumerate(layouts)}


def _layout(sizes: Sequence[int], strides: Sequence[str]) -> str:
    """`row`, `column` (of the last two dimensions) or `channels_last` where dense; else the strides ("4104x1")."""
    inner = [*range(len(sizes))]
    for name, order in (
        ("row", inner),
        ("column", [*inner[:-2], *inner[:-3:-1]]),
        ("channels_last", [0, *inner[2:], *inner[1:2]]),
    ):
        dense = {d: math.prod(sizes[i] for i in order[place + 1 :]) for place, d in enumerate(order)}
        if all(sizes[d] == 1 or strides[d] == str(step) for d, step in dense.items()):
            return name
    return "x".join(strides)
