"""A progress bar with the remaining time on a terminal, silence off it (rich is not even imported)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from heurgen.tune.sweep import Progress


@contextmanager
def progress_bar(stream: TextIO | None = None) -> Iterator[Callable[[Progress], None]]:
    """A callback for `run_tune` that draws on `stream` (stderr) if that is a terminal, else does nothing."""
    stream = stream or sys.stderr
    if stream is None or not stream.isatty():  # None: the caller closed it
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    ]
    with Bar(*columns, console=Console(file=stream), transient=True) as bar:
        tasks = {p: bar.add_task(p, total=None, visible=False, left="") for p in ("compile", "measure")}

        def show(progress: Progress) -> None:
            bar.update(
                tasks[progress.phase],
                completed=progress.done,
                total=progress.total,
                left=remaining_text(progress.remaining_s),
                visible=True,
            )

        yield show


def remaining_text(seconds: float | None) -> str:
    """ "4 min 05 s left" """
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min left"
    return f"{minutes} min {rest:02} s left" if minutes else f"{rest} s left"
