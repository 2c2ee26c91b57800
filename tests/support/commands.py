"""`heurgen` in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from heurgen.cli import main


def run(*words: object) -> Result:
    """What a command line does; an exception that it should have caught is the test's."""
    return CliRunner().invoke(main, [str(w) for w in words], prog_name="heurgen", catch_exceptions=False)
