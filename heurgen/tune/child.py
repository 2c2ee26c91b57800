"""A worker process (`python -m heurgen.tune.worker`) and the pipe to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from heurgen.tune.target import bounded
from heurgen.tune.timing import Failure

# Bytes of what a worker has printed, of which only its last words are ever read.
MAX_WORDS = 1 << 20
# Linux kills a worker when the *thread* that started it ends (see `worker.end_with_parent`): all workers are
# started by this one thread, which lives as long as the process.
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="heurgen-start")


def is_dead(answer: object) -> bool:
    """Whether what `Child.receive` gave is the failure after which the child is gone."""
    return isinstance(answer, Failure) and answer.status in ("crash", "timeout")


class Child:
    """One worker. `environment` is added to ours.

    It has its own process session, so that Ctrl-C reaches the parent alone. It ends when the pipe closes,
    and on Linux at once when the parent is killed, also while a launch hangs in it.
    """

    def __init__(self, target: str, kind: str, environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = Pipe(duplex=True)
        self.connection: Connection[Any, Any] = ours
        # Appended to, so that what is cut off leaves no hole.
        self._stderr = tempfile.TemporaryFile("a+b")  # noqa: SIM115 (it lives as long as the process)
        paths = os.pathsep.join(p or os.getcwd() for p in sys.path)
        variables = {**os.environ, "PYTHONPATH": paths, **(environment or {})}
        if kind == "interpret":
            variables["TRITON_INTERPRET"] = "1"
        self._process = _STARTER.submit(
            subprocess.Popen,
            [
                sys.executable,
                "-m",
                "heurgen.tune.worker",
                str(theirs.fileno()),
                kind,
                target,
                str(os.getpid()),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            env=variables,
            start_new_session=True,
        ).result()
        theirs.close()

    def send(self, *message: Any) -> None:
        """Send a request; a child that is gone shows itself when its answer is received."""
        with suppress(OSError):
            self.connection.send(message)

    def receive(self, limit: float) -> Any:
        """The next answer, or a Failure ("timeout" or "crash") after which the child is gone."""
        try:
            if self.connection.poll(limit):
                answer = self.connection.recv()
                self._forget_words()
                return answer
        except (EOFError, OSError):
            return Failure("crash", self.last_words())
        self.stop()
        return Failure("timeout", f"no answer within {limit:g} s")

    def last_words(self) -> str:
        """Why the process ended, with the last line that it printed."""
        code = self.stop(wait_s=5.0)
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 4000))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return bounded(f"the process ended with {how}" + (f": {lines[-1]}" if lines else ""))

    def _forget_words(self) -> None:
        """What a kernel prints at every launch must not fill the disk in a sweep of days."""
        if os.fstat(self._stderr.fileno()).st_size > MAX_WORDS:
            os.ftruncate(self._stderr.fileno(), 0)

    def kill(self) -> None:
        """End the process without waiting for its end."""
        self._process.kill()

    def stop(self, wait_s: float = 0.0) -> int:
        """End the process, after `wait_s` seconds to do so by itself; gives its exit status."""
        self.connection.close()
        try:
            return self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def finish(self) -> None:
        """End the process and let go of its files."""
        self.stop(wait_s=2.0)
        self._stderr.close()
