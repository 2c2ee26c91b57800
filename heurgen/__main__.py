"""The command `heurgen`, and `python -m heurgen`."""

import os
import signal
import sys

_INTERRUPTED = 130  # as `cli.common` has it, which is not imported yet
_TERMINATED = 143  # as a shell says it of SIGTERM


def run() -> None:
    """Ctrl-C while the command is still imported ends as it does later, in a line.

    SIGTERM, of a scheduler or a CI's time limit, ends as Ctrl-C does: what was made is kept, what is half made is not.
    """
    _hold_closed_streams()
    stopped = []

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)
    try:
        _main()
    except SystemExit as end:
        sys.exit(_TERMINATED if stopped and end.code == _INTERRUPTED else end.code)


def _main() -> None:
    try:
        from heurgen.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        sys.exit(_INTERRUPTED)
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
