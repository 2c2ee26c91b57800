"""What TRITON_PRINT_AUTOTUNING=1 prints (Triton 3.4 and later) -> winners.

    Triton autotuning for function matmul,
    with key as (4096, 128, 'torch.float16'),
    finished after 1.20s,
    best config selected: BLOCK_M: 64, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None;

The key's names are given or read from the decorator, as for Triton's cache. Older versions print no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.dejavu import TRITON_DEFAULTS
from heurgen.logs.importers.dejavu_cache import printed_config
from heurgen.logs.importers.foreign import Foreign, python_value, setting
from heurgen.logs.importers.printed import by_process
from heurgen.logs.importers.triton_cache import Timings, Tuning, key_features, key_names, one_kernel

_BEGIN = "Triton autotuning for function "
_TUNING = re.compile(
    re.escape(_BEGIN) + r"([A-Za-z_][A-Za-z0-9_]*),? (?:with key as (\(.*\)), )?finished after [0-9.]+s[,;] "
    r"best config selected: (.*?);"
)
# A dtype among the values of the key, which is printed without quotes; those of tensors stand behind them, in quotes.
_BARE = re.compile(r"(?<=[(, ])(torch\.[a-z][a-z0-9_]{0,63})(?=[,)])")
# Where each of its lines begins, behind what a logger wrote.
_LINE = re.compile(r"(Triton autotuning for function |with key as |finished after |best config selected: ).*")
# The lines of one tuning.
_LINES = 4


def recognises(file: Foreign) -> bool:
    return _BEGIN in file.text


def import_triton_printed(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("triton-printed", winners_only=True)
    tunings = [tuning for file in files for tuning in _read(file, found)]
    if not tunings:
        raise files[0].error(
            "found no tuning with its key: Triton before 3.4 prints none",
            hint="heurgen record -- python PROGRAM writes every tuning down",
        )
    found.kernel = one_kernel(tunings, options)
    tunings = [t for t in tunings if t.kernel == found.kernel]
    names = key_names(options, "Triton", tunings[0].key)
    device, vendor = found.place(tunings[0].file, None, options)
    features = key_features(tunings, names, found.notes)
    configs = [dict(config) for t in tunings for config in t.timings]
    off = {n for n, value in TRITON_DEFAULTS.items() if all(c.get(n, value) == value for c in configs)}
    for tuning, config in zip(tunings, configs, strict=True):
        cells = {k: v for k, v in config.items() if k not in off}
        found.add(found.scenario(vendor, device, features[tuning.key]), cells, None)
    return found.imported(options)


def _read(file: Foreign, found: Collected) -> Iterator[Tuning]:
    unread = 0
    for lines in by_process(file):
        for at, (row, text) in enumerate(lines):
            if _BEGIN not in text:
                continue
            said = " ".join(_own(line) for _, line in lines[at : at + _LINES])
            tuning = _TUNING.search(said)
            if tuning is None or tuning[2] is None:
                unread += 1
                continue
            config = printed_config(file, tuning[2], tuning[3].strip(), row)
            timings: Timings = {tuple(config.items()): (None, None)}
            yield Tuning(
                file.file, (0.0, ""), tuning[1], _key(file, row, tuning[2]), frozenset(config), timings
            )
    if unread:
        found.notes.append(f"{counted(unread, 'tuning')} without a key or a config left out")


def _own(line: str) -> str:
    found = _LINE.search(line)
    return (found[0] if found else line).strip()


def _key(file: Foreign, row: int, text: str) -> tuple[str, ...]:
    values = python_value(_BARE.sub(r"'\1'", text))
    if not isinstance(values, tuple):
        raise file.error(f"found the key {quoted(text)}, expected a tuple of plain values", row=row)
    return tuple(setting(file, v, f"line {row}: key") for v in values)
