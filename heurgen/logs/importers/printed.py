"""What a program printed while it tuned: the lines of every process, without what launchers write before them.

Processes tune at the same time, so that their lines are mixed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from heurgen.logs.importers.foreign import Foreign

# What stands before each line of a process tells apart the lines of several. Launchers write "[rank0]:" and
# "(Worker_TP0 pid=27)", in colours; what collects output "vllm-1  |" (docker compose), "[pod/a/b]" (kubectl), "Nov 27
# 10:00:00 host python[12]:" (journald), "[INFO ] W-9000-model-stdout MODEL_LOG -" (TorchServe). What loggers write ends
# in "]" or ":"; the hour that it may begin with is no process.
_SOURCE = re.compile(
    r"\s{0,16}(\[[A-Za-z_]*[0-9]+\]:|\[[0-9]+,[0-9]+\]<std(?:out|err)>:|\([A-Za-z][^()]{0,99}pid=[^()]{1,99}\)"
    r"|[0-9]{1,5}:(?![0-9])|[A-Za-z0-9][A-Za-z0-9_.-]{0,99} {1,99}\| |\[pod/[^\]\s]{1,199}\] "
    r"|[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} \S{1,99} [^\s\[]{1,99}\[[0-9]{1,9}\]: "
    r"|(?:\[[A-Z]{4,5} ?\] )?W-[0-9]{1,5}-\S{1,199} MODEL_LOG - )"
)
# "2026-11-27T10:00:00.123Z", and what containers write behind it.
_TIME = re.compile(
    r"\s{0,16}[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?"
    r" (std(out|err) [FP] )?"
)
# A container's name, then a rank.
_SOURCES = 3
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST = 4000
# The number of a line in its file, and its text.
Line = tuple[int, str]


def by_process(file: Foreign) -> Collection[list[Line]]:
    """The lines of each process, to 4,000 characters."""
    sources: dict[str, list[Line]] = {}
    for row, line in enumerate(file.text.split("\n"), 1):
        text = _COLOUR.sub("", line[:_MOST]) if "\x1b" in line else line[:_MOST]
        source, rest = _parted(text)
        sources.setdefault(source, []).append((row, rest))
    return sources.values()


def _parted(text: str) -> tuple[str, str]:
    """What says whose line it is ("" where nothing does), and the line without it and without the time before it."""
    said, start = list[str](), 0
    for _ in range(_SOURCES):
        time = _TIME.match(text, start)
        start = time.end() if time else start
        source = _SOURCE.match(text, start)
        if source is None:
            break
        said.append(re.sub(r"[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} ", "", source[1]))
        start = source.end()
    return " ".join(said), text[start:]
