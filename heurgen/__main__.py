"""The command `heurgen`, and `python -m heurgen`."""

import os
import sys


def run() -> None:
    """Ctrl-C while the command is still imported ends as it does later, in a line (see `cli.common.INTERRUPTED`)."""
    _hold_closed_streams()
    try:
        from heurgen.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)
    main(prog_name="heurgen")


def _hold_closed_streams() -> None:
    """A log or a pipe must not get the number of a standard stream that the caller closed: children have others there.

    Python has found them closed by now, and /dev/null for reading takes no words, so that whoever writes still fails.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the least number that is free


if __name__ == "__main__":
    run()
