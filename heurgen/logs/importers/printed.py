"""What a program printed while it tuned: the lines of every process, without what launchers write before them.

Processes tune at the same time, so that their lines are mixed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from heurgen.logs.importers.foreign import Foreign

# What launchers write before each line of a process ("[rank0]:", "(Worker_TP0 pid=27)", in colours); it tells apart the
# lines of several. What loggers write ends in "]" or ":"; the hour that it may begin with is no process.
_SOURCE = re.compile(
    r"\s{0,16}(\[[A-Za-z_]*[0-9]+\]:|\[[0-9]+,[0-9]+\]<std(?:out|err)>:|\([A-Za-z][^()]{0,99}pid=[^()]{1,99}\)|[0-9]{1,5}:(?![0-9]))"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST = 4000
# The number of a line in its file, and its text.
Line = tuple[int, str]


def by_process(file: Foreign) -> Collection[list[Line]]:
    """The lines of each process, to 4,000 characters."""
    sources: dict[str, list[Line]] = {}
    for row, line in enumerate(file.text.split("\n"), 1):
        text = _COLOUR.sub("", line[:_MOST]) if "\x1b" in line else line[:_MOST]
        source = _SOURCE.match(text)
        rest = text[source.end() if source else 0 :]
        sources.setdefault(source[1] if source else "", []).append((row, rest))
    return sources.values()
