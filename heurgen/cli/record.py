"""The command that listens: record."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heurgen.base.errors import printable
from heurgen.base.text import counted
from heurgen.cli.common import examples, files_data, json_option, log_output_option, note, print_json, say

if TYPE_CHECKING:
    from heurgen.tune.recording.run import Recorded


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "heurgen record -o log.csv -- python bench.py", "heurgen record -o logs/ -- pytest -q bench"
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@log_output_option("LOG.csv")
@json_option
def record(command: tuple[str, ...], output: str, as_json: bool) -> None:
    """Run a program and log every @triton.autotune sweep in it, with a spec beside the log.

    Several kernels become LOG.KERNEL.csv each; a folder as output gets KERNEL.csv. A spec that is there already is
    kept. The program's own exit status is passed on. With --json what the program prints goes to stderr.
    """
    from heurgen.base.writing import check_outputs, make_folder, write_all
    from heurgen.tune.recording.run import check_place
    from heurgen.tune.recording.run import record as run

    named = [word for word in command if os.path.isfile(word)]
    check_outputs([output], named, folders=True)
    check_place(Path(output))
    done = run(command, Path(output), to_stderr=as_json)
    texts, kept = _texts(done)
    check_outputs(texts, named)
    for path in texts:
        make_folder(path.parent)
    written = write_all(texts) | dict.fromkeys(kept, False)
    note((*done.notes, *(f"{path} was there and is kept: no draft is written" for path in kept)))
    if as_json:
        print_json(_data(done, written))
    for kernel, files in () if as_json else done.files.items():
        say(
            f"wrote {printable(files[0])}: {counted(len(done.logs[kernel].rows), 'row')}, spec: {printable(files[1])}"
        )
    if done.status:
        note([f"the program ended with status {done.status}"])
        sys.exit(done.status if done.status > 0 else 128 - done.status)


def _texts(done: Recorded) -> tuple[dict[Path, str], list[Path]]:
    """What to write, by path, and the specs that are there: someone may have confirmed their guesses."""
    from heurgen.logs.importers.common import check_readable

    texts: dict[Path, str] = {}
    kept = []
    for kernel, imported in done.logs.items():
        log, spec = done.files[kernel]
        texts[log], draft = imported.csv_text(), imported.spec_text()
        check_readable(texts[log], draft)
        if spec.exists():
            kept.append(spec)
        else:
            texts[spec] = draft
    return texts, kept


def _data(done: Recorded, written: Mapping[Path, bool]) -> dict[str, Any]:
    logs = [
        {
            "kernel": kernel,
            "rows": len(imported.rows),
            "files": files_data({path: written[path] for path in done.files[kernel]}),
        }
        for kernel, imported in done.logs.items()
    ]
    return {"status": done.status, "logs": logs, "notes": list(done.notes)}


COMMANDS = (record,)
