"""The child process of the tuner: `python -m heurgen.tune.worker FD KIND TARGET PARENT`.

It answers the requests of `heurgen.tune.executors` over the pipe FD until the pipe closes. KIND is "gpu",
"graph" (a GPU whose launches are recorded), "interpret" or
`package.module:function`, a function of the target that gives a Session (tests use that).
PARENT is the id of the process that started it, without which it does not live on.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from heurgen.base.errors import HeurgenError
from heurgen.tune.engines import Session
from heurgen.tune.protocol import Scenario
from heurgen.tune.target import bounded, first_line, load_target
from heurgen.tune.timing import Failure

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: Sequence[str]) -> int:
    """Serve until the pipe closes."""
    descriptor, kind, path, parent = arguments
    end_with_parent(int(parent))
    connection: Connection[Any, Any] = Connection(int(descriptor))
    try:
        session = make_session(kind, path)
        connection.send(session.device())
    except Exception as error:  # the parent prints it
        reason = str(error) if isinstance(error, HeurgenError) else first_line(error)
        connection.send(Failure("error", bounded(reason)))
        return 2
    gc.disable()  # a collection inside a timed launch would be a stall of the host
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        serve(connection, session)
    return 0


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even while a launch hangs and holds the GIL."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


def make_session(kind: str, path: str) -> Session:
    """The session that measures `path`."""
    target = load_target(path)
    if kind in ("gpu", "graph", "interpret"):
        from heurgen.tune.gpu import InterpreterSession, TorchSession

        return InterpreterSession(target) if kind == "interpret" else TorchSession(target, kind == "graph")
    module, _, name = kind.partition(":")
    factory: Callable[[Any], Session] = getattr(importlib.import_module(module), name)
    return factory(target)


def serve(connection: Connection[Any, Any], session: Session) -> None:
    """Answer requests; returns when the session is broken, so that the parent starts another."""
    opened: str | None = None
    while True:
        request = connection.recv()
        match request:
            case ("open", Scenario() as scenario):
                gc.collect()
                connection.send(_attempt("error", partial(session.open, scenario)))
            case ("compile", Scenario() as scenario, config):
                answer = None
                if opened != scenario.id:
                    answer = _attempt("compile_error", partial(session.open, scenario))
                    opened = scenario.id if answer is None else None
                if answer is None:
                    reason = _attempt("compile_error", partial(session.compile, config))
                    answer = Failure("unfit", bounded(reason)) if isinstance(reason, str) else reason
                _reply(connection, session, None if _crowded(answer) else answer)
            case ("reading",):
                read = getattr(session, "reading", None)
                connection.send(None if read is None else _attempt("error", read))
            case ("check", configs):
                for config in configs:
                    reason = _attempt("error", partial(session.check, config))
                    answer = Failure("wrong", bounded(reason)) if isinstance(reason, str) else reason
                    _reply(connection, session, answer)
            case ("sample", configs):
                for config in configs:
                    _reply(connection, session, _attempt("error", partial(session.sample, config)))


def _reply(connection: Connection[Any, Any], session: Session, answer: Any) -> None:
    """Send an answer. After a failure that broke the device's context, only a new process can go on."""
    if isinstance(answer, Failure) and session.broken():
        connection.send(Failure("crash", answer.reason))
        raise EOFError
    connection.send(answer)


def _crowded(answer: Failure | None) -> bool:
    """Whether a compiler had no memory left, which the compilers beside it fill with inputs of their own. That says
    nothing of the config: the process that measures has the device alone, and compiles what is missing.
    """
    return answer is not None and answer.reason.startswith("OutOfMemoryError")


def _attempt(status: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:  # whatever a launch, a compiler or a stranger's code raises
        unfit = type(error).__name__ in ("OutOfResources", "OutOfMemoryError")
        return Failure("unfit" if unfit else status, first_line(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
