"""The child's side of the pipe: an answer for every request, whatever a launch raises."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from heurgen.tune import worker
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings
from heurgen.tune.timing import Failure
from tests.tune.fakes import FakeSession

SCENARIO = Scenario("s1", {"M": 8})
OTHER = Scenario("s2", {"M": 9})


class OutOfResources(Exception):
    """As Triton's."""


class Session:
    """Does what a config says: {"raise": an exception, "say": an answer, "break": whether the device is gone}."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.gone = False
        self.refusals: list[Exception] = []

    def device(self) -> DeviceInfo:
        return DeviceInfo("nvidia", "H200")

    def open(self, scenario: Scenario) -> None:
        self.done.append(f"open {scenario.id}")
        if self.refusals:
            raise self.refusals.pop()

    def _do(self, config: Any) -> Any:
        self.done.append("do")
        self.gone = config.get("break", False)
        if "raise" in config:
            raise config["raise"]
        return config.get("say")

    def check(self, config: Settings) -> str | None:
        found: str | None = self._do(config)
        return found

    def compile(self, config: Settings) -> str | None:
        found: str | None = self._do(config)
        return found

    def sample(self, config: Settings) -> float:
        found: float = self._do(config)
        return found

    def broken(self) -> bool:
        return self.gone


class Pipe:
    """The child's end, with all requests in it; then the parent closes its end."""

    def __init__(self, requests: Sequence[Any]) -> None:
        self.requests, self.answers = list(requests), list[Any]()

    def recv(self) -> Any:
        if not self.requests:
            raise EOFError
        return self.requests.pop(0)

    def send(self, answer: Any) -> None:
        self.answers.append(answer)

    def close(self) -> None:
        pass


def answers(session: Any, *requests: Any) -> list[Any]:
    """What the child sends until the pipe is closed, or it gives up."""
    pipe = Pipe(requests)
    with pytest.raises(EOFError):
        worker.serve(pipe, session)  # type: ignore[arg-type]
    return pipe.answers


def test_an_answer_for_every_config() -> None:
    bad = ValueError("grid too large\nlong advice")
    assert answers(
        Session(),
        ("open", SCENARIO),
        ("check", [{}, {"say": "relative error 0.5"}, {"raise": bad}]),
        ("sample", [{"say": 1.5}, {"raise": bad}, {"say": 2.5}]),
    ) == [
        None,
        None,
        Failure("wrong", "relative error 0.5"),
        Failure("error", "ValueError: grid too large"),
        1.5,
        Failure("error", "ValueError: grid too large"),
        2.5,
    ]


OUT_OF_MEMORY = type("OutOfMemoryError", (Exception,), {})("3 TB")


@pytest.mark.parametrize("error", [OutOfResources("shared memory"), OUT_OF_MEMORY])
def test_what_does_not_fit_is_no_error(error: Exception) -> None:
    assert answers(Session(), ("sample", [{"raise": error}])) == [
        Failure("unfit", f"{type(error).__name__}: {error}")
    ]


def test_what_a_block_has_no_room_for_is_found_when_it_is_compiled() -> None:
    error = OutOfResources("shared memory")
    assert answers(Session(), ("compile", SCENARIO, {"raise": error})) == [
        Failure("unfit", "OutOfResources: shared memory")
    ]


def test_memory_that_other_compilers_take_is_no_verdict() -> None:
    """Sixteen of them, each with inputs of 6 GB, filled an H100: rows said `unfit` of configs that run alone."""
    assert answers(Session(), ("compile", SCENARIO, {"raise": OUT_OF_MEMORY})) == [None]
    session = Session()
    session.refusals = [OUT_OF_MEMORY]
    assert answers(session, *[("compile", SCENARIO, {})] * 2) == [None, None]
    assert session.done == ["open s1", "open s1", "do"]


def test_inputs_to_compile_with_are_made_once_a_scenario() -> None:
    session = Session()
    compile_ = ("compile", SCENARIO, {})
    found = answers(
        session,
        compile_,
        ("compile", SCENARIO, {"say": "needs 300000 bytes"}),
        ("compile", OTHER, {}),
        compile_,
    )
    assert found == [None, Failure("unfit", "needs 300000 bytes"), None, None]
    assert [d for d in session.done if d != "do"] == ["open s1", "open s2", "open s1"]


def test_inputs_that_cannot_be_made_are_tried_again() -> None:
    session = Session()
    session.refusals = [RuntimeError("no memory")]
    found = answers(session, ("compile", SCENARIO, {}), ("compile", SCENARIO, {}))
    assert found == [Failure("compile_error", "RuntimeError: no memory"), None]
    assert session.done == ["open s1", "open s1", "do"]


def test_inputs_before_those_that_cannot_be_made_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    made = session.open

    def refused(scenario: Scenario) -> None:
        made(scenario)
        if scenario is OTHER:
            raise RuntimeError("no memory")

    monkeypatch.setattr(session, "open", refused)
    compile_ = ("compile", SCENARIO, {})
    answers(session, compile_, ("compile", OTHER, {}), compile_)
    assert [d for d in session.done if d != "do"] == ["open s1", "open s2", "open s1"]


@pytest.mark.parametrize("kind", ["check", "sample", "compile"])
def test_after_a_failure_that_breaks_the_device_there_are_no_more_answers(kind: str) -> None:
    bad: Any = {"raise": RuntimeError("illegal access"), "break": True}
    request = (kind, SCENARIO, bad) if kind == "compile" else (kind, [bad, {"say": None}])
    assert answers(Session(), request, ("reading",)) == [Failure("crash", "RuntimeError: illegal access")]


def test_a_condition_where_the_session_can_read_it() -> None:
    assert answers(Session(), ("reading",)) == [None]
    session: Any = Session()
    session.reading = lambda: "52 degrees"
    assert answers(session, ("reading",)) == ["52 degrees"]


@pytest.fixture
def collected() -> Iterator[None]:
    yield
    gc.enable()  # `main` turns it off in its own process


def test_what_the_child_says_first(collected: None) -> None:
    def started(kind: str) -> tuple[Any, int]:
        pipe = Pipe([])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker, "end_with_parent", lambda parent: None)
            patch.setattr(worker, "Connection", lambda number: pipe if number == 5 else None)
            status = worker.main(["5", kind, "tests.tune.fakes:tunable", "1"])
        return pipe.answers[0], status

    device, status = started("tests.tune.fakes:FakeSession")
    assert (device.name, status) == ("Fake, GPU", 0)
    assert started("tests.tune.fakes:no_device") == (Failure("error", "RuntimeError: no GPU here"), 2)
    assert isinstance(
        worker.make_session("tests.tune.fakes:FakeSession", "tests.tune.fakes:tunable"), FakeSession
    )
