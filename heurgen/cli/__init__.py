"""The `heurgen` command: parse, call, print. Exit status: 0 done, 1 findings, 2 bad input or usage."""

from __future__ import annotations

import click

from heurgen._version import __version__
from heurgen.cli import advise, audit, help, imports, learn, logs, record, ship, tune
from heurgen.cli.common import CONTEXT, Group

SECTIONS = (
    ("Bring a log", ("init", "import", "validate", "record", "merge")),
    ("Learn and judge", ("train", "evaluate", "advise")),
    ("Look into a model", ("audit", "show", "explain", "diff")),
    ("Ship it", ("emit", "build", "check")),
    ("Measure a kernel", ("tune",)),
    ("Understand an error", ("help",)),
)


@click.group(cls=Group, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="heurgen")
def main() -> None:
    """Turn GPU autotuning logs into small, dependency-free launch heuristics.

    A tuning log (CSV) and a kernel spec (TOML) give a model (JSON, the trees to review), and the model gives
    a Python module that a kernel imports.
    """


assert isinstance(main, Group)
main.sections = SECTIONS
for _module in (logs, imports, learn, ship, audit, advise, tune, record, help):
    for _command in _module.COMMANDS:
        main.add_command(_command)
