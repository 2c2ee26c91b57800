"""`python -m heurgen`."""

from heurgen.cli import main

main(prog_name="heurgen")
