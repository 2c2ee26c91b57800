"""Run the tests against mutants, a fork for each: started by `python -m tests.mutation` inside `mutants/`.

HEURGEN_MUTANTS holds {"mutants": names, "tests": folders, "out": a file to append fates to}.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state
from mutmut.utils.format_utils import mangled_name_from_mutant_name

KILLED, SURVIVED, UNREACHED = "killed", "survived", "no test reaches it"
LONGEST = 3.0  # CPU seconds of tests that a mutant meets, beside the first
TIMES = 10  # a mutant that takes so many times longer than its tests hangs, and counts as killed
MEMORY = 16 << 30


class Runner:
    """Collects as pytest does, then runs the tests once as they are and again for each mutant."""

    def __init__(self, work: dict[str, object]) -> None:
        self.mutants = list(map(str, work["mutants"]))  # type: ignore[call-overload]
        self.out = Path(str(work["out"]))
        self.seconds: dict[str, float] = {}
        self.reached: dict[str, list[str]] = defaultdict(list)
        self.failed: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Failed("collection failed")
        items = {item.nodeid: item for item in session.items}
        self.measure(items)
        with self.out.open("a") as out:
            for name in self.mutants:
                fate, why = self.try_mutant(name, items)
                out.write(json.dumps([name, fate, why]) + "\n")
                out.flush()
        return True

    def measure(self, items: dict[str, pytest.Item]) -> None:
        """CPU seconds of each test, and which tests reach a function; in a fork, so that no cache is filled here.

        A test that fails without a mutant (the detour to a mutant makes calls deeper) decides nothing.
        """
        answer, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(answer)
            set_mutant_under_test("stats")
            for nodeid, item in items.items():
                begun = time.process_time()
                self.run(item)
                self.seconds[nodeid] = time.process_time() - begun
                for function in state()._stats if not self.failed else ():
                    self.reached[function].append(nodeid)
                state()._stats.clear()
                self.failed = None
            with os.fdopen(write, "w") as pipe:
                json.dump([self.seconds, self.reached], pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(answer) as pipe:
            self.seconds, self.reached = json.load(pipe)
        os.waitpid(pid, 0)
        set_mutant_under_test("")

    def try_mutant(self, name: str, items: dict[str, pytest.Item]) -> tuple[str, str]:
        own = name.removeprefix(
            "kernels."
        )  # pytest's path holds kernels/: the module's name begins behind it
        tests = self.tests_of(mangled_name_from_mutant_name(own))
        if not tests:
            return UNREACHED, ""
        limit = int(2 + TIMES * sum(self.seconds[t] for t in tests))
        answer, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(answer)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.alarm(60 + 10 * limit)  # a mutant that waits takes no CPU time
            set_mutant_under_test(own)
            for test in tests:
                self.run(items[test])
                if self.failed:
                    os.write(write, self.failed.encode())
                    os._exit(1)
            os._exit(0)
        os.close(write)
        with os.fdopen(answer) as pipe:
            why = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return (SURVIVED, "") if status == 0 else (KILLED, why or f"status {status}")

    def tests_of(self, function: str) -> list[str]:
        """The tests that reach it, those of its mirror file first, then the quick; LONGEST in all."""
        module = function.rpartition(".")[0].rpartition(".")[2]
        mirror = f"/test_{module}.py"
        found = sorted(
            self.reached.get(function, ()), key=lambda t: self.seconds[t] * (0.1 if mirror in t else 1.0)
        )
        chosen, spent = found[:1], 0.0
        for test in found[1:]:
            spent += self.seconds[test]
            if spent <= LONGEST:
                chosen.append(test)
        return chosen

    def run(self, item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def main() -> int:
    work = json.loads(os.environ.pop("HEURGEN_MUTANTS"))
    gc.disable()
    arguments = [
        "-q",
        "-m",
        "not slow and not gpu and not browser",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    return int(pytest.main([*arguments, *work["tests"]], plugins=[Runner(work)]))


if __name__ == "__main__":
    sys.exit(main())
