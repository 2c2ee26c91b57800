"""The `heurgen` command: parse, call, print. Exit status: 0 done, 1 findings, 2 bad input or usage."""

from __future__ import annotations

import click

from heurgen._version import __version__
from heurgen.cli import audit, learn, logs, ship, tune
from heurgen.cli.common import CONTEXT, Group


@click.group(cls=Group, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="heurgen")
def main() -> None:
    """Turn GPU autotuning logs into small, dependency-free launch heuristics.

    A tuning log (CSV) and a kernel spec (TOML) give a model (JSON, the trees to review), and the model gives
    a Python module that a kernel imports.
    """


for _module in (logs, learn, ship, audit, tune):
    for _command in _module.COMMANDS:
        main.add_command(_command)
