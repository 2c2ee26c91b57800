"""The child process of the tuner: `python -m heurgen.tune.worker FD KIND TARGET`.

It answers the requests of `heurgen.tune.executors` over the pipe FD until the pipe closes. KIND is "gpu",
"interpret" or `package.module:function`, a function of the target that gives a Session (tests use that).
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from heurgen.errors import HeurgenError
from heurgen.tune.executors import Session
from heurgen.tune.protocol import Scenario
from heurgen.tune.target import bounded, first_line, load_target
from heurgen.tune.timing import Failure


def main(arguments: Sequence[str]) -> int:
    """Serve until the pipe closes."""
    descriptor, kind, path = arguments
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


def make_session(kind: str, path: str) -> Session:
    """The session that measures `path`."""
    target = load_target(path)
    if kind in ("gpu", "interpret"):
        from heurgen.tune.gpu import InterpreterSession, TorchSession

        return TorchSession(target) if kind == "gpu" else InterpreterSession(target)
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
                connection.send(_attempt(session, "error", partial(session.open, scenario)))
            case ("compile", Scenario() as scenario, config):
                if opened != scenario.id:
                    failure = _attempt(session, "compile_error", partial(session.open, scenario))
                    if isinstance(failure, Failure):
                        connection.send(failure)
                        continue
                    opened = scenario.id
                reason = _attempt(session, "compile_error", partial(session.compile, config))
                answer = Failure("unfit", bounded(reason)) if isinstance(reason, str) else reason
                _reply(connection, session, answer)
            case ("check", configs):
                for config in configs:
                    reason = _attempt(session, "error", partial(session.check, config))
                    _reply(
                        connection,
                        session,
                        Failure("wrong", bounded(reason)) if isinstance(reason, str) else reason,
                    )
            case ("sample", configs):
                for config in configs:
                    _reply(connection, session, _attempt(session, "error", partial(session.sample, config)))


def _reply(connection: Connection[Any, Any], session: Session, answer: Any) -> None:
    """Send an answer. After a failure that broke the device's context, only a new process can go on."""
    if isinstance(answer, Failure) and session.broken():
        connection.send(Failure("crash", answer.reason))
        raise EOFError
    connection.send(answer)


def _attempt(session: Session, status: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:  # whatever a launch, a compiler or a stranger's code raises
        unfit = type(error).__name__ in ("OutOfResources", "OutOfMemoryError")
        return Failure("unfit" if unfit else status, first_line(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
