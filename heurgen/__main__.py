"""The command `heurgen`, and `python -m heurgen`."""

import sys


def run() -> None:
    """Ctrl-C while the command is still imported ends as it does later, in a line (see `cli.common.INTERRUPTED`)."""
    try:
        from heurgen.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)
    main(prog_name="heurgen")


if __name__ == "__main__":
    run()
