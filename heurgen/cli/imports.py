"""The command group `import`: one subcommand a kind of file, and `auto`, all through one flow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from heurgen.base.errors import HeurgenError, printable
from heurgen.cli.common import examples, files_data, json_option, log_output_option, note, print_json, say

# Field of `importers.collect.Options` -> its option. The kinds say which of them they take.
_OPTIONS: dict[str, Any] = {
    "device": click.option("--device", metavar="NAME", help="Device, where the files do not tell."),
    "vendor": click.option("--vendor", metavar="NAME", help="Vendor, where the device's name does not tell."),
    "rename": click.option(
        "--rename", multiple=True, metavar="OLD=NEW", help="Rename a feature or parameter."
    ),
    "const": click.option(
        "--const", multiple=True, metavar="NAME=VALUE", help="A feature the files do not say."
    ),
    "keys": click.option("--keys", metavar="A,B,...", help="Names of the key, in the decorator's order."),
    "key_from": click.option(
        "--key-from", metavar="FILE.py:FUNCTION", help="Read them from its @triton.autotune; nothing is run."
    ),
    "features": click.option(
        "--feature", "features", multiple=True, metavar="NAME", help="Name of a number of the problem size."
    ),
    "kernel": click.option(
        "--kernel", metavar="NAME", help="Of files with several kernels, the one to take."
    ),
}


class _Kinds(click.Group):
    """The subcommands, made from the registry when they are asked for: `heurgen --help` imports none of it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from heurgen.logs.importers.registry import AUTO, IMPORTERS

        return [AUTO, *(i.kind for i in IMPORTERS)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        from heurgen.logs.importers.registry import AUTO, BY_KIND

        if name == AUTO:
            title = "Find out what the files are, and read them."
            return _command(AUTO, title, tuple(_OPTIONS), "cache/*.json -o log.csv --write-spec kernel.toml")
        importer = BY_KIND.get(name)
        return _command(name, importer.title, importer.takes, importer.example) if importer else None


def _command(kind: str, title: str, takes: tuple[str, ...], example: str) -> click.Command:
    def run(files: tuple[str, ...], output: str, write_spec: str | None, as_json: bool, **given: Any) -> None:
        _import(kind, files, (output, write_spec), given, as_json)

    command = json_option(run)
    command = click.argument("files", nargs=-1, required=True, metavar="FILE...")(command)
    command = log_output_option("LOG.csv")(command)
    command = click.option("--write-spec", metavar="SPEC.toml", help="Write a spec for the log too.")(command)
    for name in takes:
        command = _OPTIONS[name](command)
    return click.command(kind, help=title, epilog=examples(f"heurgen import {kind} {example}"))(command)


def _import(
    kind: str,
    files: tuple[str, ...],
    outputs: tuple[str, str | None],
    given: dict[str, Any],
    as_json: bool,
) -> None:
    """`outputs` are the log and the spec."""
    from dataclasses import replace

    from heurgen.base.text import counted
    from heurgen.base.writing import check_outputs, check_parents, is_special, write_all
    from heurgen.logs.importers.collect import Options
    from heurgen.logs.importers.common import check_readable
    from heurgen.logs.importers.registry import import_logs, name_pairs

    keys = tuple(k.strip() for k in (given.pop("keys", None) or "").split(",") if k.strip())
    for name in ("rename", "const"):
        given[name] = name_pairs(given.get(name) or (), f"--{name}")
    output, write_spec = outputs
    check_outputs(outputs, files)
    check_parents(outputs)
    imported = import_logs(kind, files, Options(**given, keys=keys))
    log, spec, rows = imported.csv_text(), imported.spec_text(), len(imported.rows)
    imported = replace(imported, rows=())  # a million rows take as much as reading them again
    check_readable(log, spec)
    # Someone may have confirmed the guesses of one that is there.
    kept = write_spec is not None and os.path.exists(write_spec) and not is_special(Path(write_spec))
    written = write_all({output: log, write_spec: spec} if write_spec and not kept else {output: log})
    written |= {write_spec: False} if write_spec and kept else {}
    note(imported.notes)
    if write_spec and kept:
        note([f"{write_spec} was there and is kept: no draft is written{_misfit(write_spec, output, log)}"])
    if not as_json:
        say(f"wrote {printable(output)}: {counted(rows, 'row')}")
        return
    drafted = imported.draft.to_dict(imported.columns)
    print_json(
        {
            "kind": imported.kind,
            "files": files_data(written),
            "rows": rows,
            **drafted,
            "notes": list(imported.notes),
        }
    )


def _misfit(spec: str, output: str, log: str) -> str:
    """Why a spec that was there does not read the log that is written beside it, as the end of a sentence."""
    from heurgen.logs.tuning_log import parse_log
    from heurgen.spec.kernel_spec import read_spec

    try:
        parse_log(output, log, read_spec(spec))
    except HeurgenError as error:
        return f", though it does not fit the log: {error}; remove it for a draft"
    return ""


import_ = _Kinds(
    "import",
    help="Turn logs of other tools into tuning logs.",
    epilog=examples("heurgen import auto cache/*.json -o log.csv --write-spec kernel.toml"),
)
COMMANDS = (import_,)
