"""benchmarks/serving.py without an engine: what it asks in which order, and what it makes of the answers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[1] / "benchmarks/serving.py"
_SPEC = importlib.util.spec_from_file_location("serving", PATH)
serving = importlib.util.module_from_spec(_SPEC)
sys.modules["serving"] = serving  # its data classes look for their module
_SPEC.loader.exec_module(serving)


class Fake:
    """An engine that takes a millisecond a token."""

    def __init__(self, backend: str, asked: list[Any], factor: float) -> None:
        self.backend, self.asked, self.factor = backend, asked, factor

    def ask(self, requests: Any, seed: int, logprobs: Any = None, marks: tuple[int, ...] = ()) -> Any:
        self.asked.append((self.backend, seed, len(requests), marks))
        each = 0.001 * self.factor
        tokens = sum(count for _, count in requests)
        return {
            "seconds": each * tokens, "first_token_s": each, "step_s": each, "output_tokens": tokens,
            "marks": {str(mark): each * mark for mark in marks}, "compiles": {}, "decode_host_s": None,
        }  # fmt: skip


def options(**given: Any) -> Namespace:
    return Namespace(
        **{"outputs": [100, 500], "load": 20, "lines": list(serving.lines([], 0)), "runs": 2} | given
    )


def test_all_lines_are_measured_before_any_is_measured_again():
    asked: list[Any] = []
    engines = [Fake("flash", asked, 1.2), Fake("heurgen", asked, 1.0)]
    rows = list(serving.measured(engines, options(), time.monotonic() + 600))
    assert [backend for backend, *_ in asked] == ["flash", "heurgen"] * (len(asked) // 2)
    assert [run for _, run, *_ in asked] == sorted(run for _, run, *_ in asked)
    assert {row["run"] for row in rows} == {1, 2}
    assert {row["run"] for row in rows if row["kind"] in ("load", "decode16")} == {1}
    first = [row["backend"] for row in rows if (row["kind"], row["run"]) == ("prompt500", 1)]
    assert first == ["flash", "heurgen"] * 10
    assert sorted({row["line"] for row in rows if row["kind"] == "latency"}) == ["500 + 100", "500 + 500"]
    assert [row["seconds"] for row in rows[:4]] == pytest.approx([0.12, 0.6, 0.1, 0.5])
    found = serving.summary([{"mode": "default", **row} for row in rows])
    assert all(line["over_ours"]["flash"] == pytest.approx(1.2) for line in found)
    assert {line["value"] for line in found} == {"seconds", "first_token_s", "step_s"}


def test_nothing_begins_behind_the_deadline():
    asked: list[Any] = []
    assert list(serving.measured([Fake("heurgen", asked, 1)], options(), time.monotonic() - 1)) == []
    assert asked == []


def test_the_others_go_on_where_an_engine_ends():
    class Dead(Fake):
        def ask(self, *args: Any, **given: Any) -> Any:
            super().ask(*args, **given)
            raise RuntimeError("the engine ended")

    asked: list[Any] = []
    engines = [Dead("flash", asked, 1), Fake("heurgen", asked, 1)]
    rows = list(serving.measured(engines, options(), time.monotonic() + 600))
    assert {row["backend"] for row in rows} == {"heurgen"}
    assert sum(backend == "flash" for backend, *_ in asked) == 1


def test_all_threads_of_engines_run_on_the_same_processors():
    mine = sorted(os.sched_getaffinity(0))
    command = [
        sys.executable,
        "-c",
        "import threading; threading.Thread(target=input).start(); print(1, flush=True)",
    ]
    with ExitStack() as stack:
        pair = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(2)
        ]
        for one in pair:
            one.stdout.readline()
        serving.pin([one.pid for one in pair], mine[-1:])
        for one in pair:
            threads = [int(name) for name in os.listdir(f"/proc/{one.pid}/task")]
            assert len(threads) > 1
            assert all(os.sched_getaffinity(thread) == set(mine[-1:]) for thread in threads)
            one.stdin.close()
    assert sorted(os.sched_getaffinity(0)) == mine


@pytest.mark.parametrize("nothing", [0.0, None])
def test_a_value_that_nothing_was_measured_of_has_no_ratio(tmp_path, nothing):
    row = {"mode": "full_decode", "kind": "prompt500", "line": "500 + 1", "run": 1, "decode_host_s": None}
    ours = row | {"backend": "heurgen", "seconds": 0.02, "first_token_s": 0.02, "prompt_host_s": nothing}
    theirs = row | {"backend": "flash", "seconds": 0.03, "first_token_s": nothing, "prompt_host_s": 0.01}
    serving.write([theirs, ours], tmp_path)
    summary = json.loads((tmp_path / "serving.json").read_text())["summary"]
    ratios = {line["value"]: line["over_ours"] for line in summary}
    assert ratios == {"seconds": {"flash": pytest.approx(1.5)}, "first_token_s": {}}


def test_results_of_several_calls_become_one(tmp_path, monkeypatch):
    row = {"kind": "long", "line": "30000 + 64", "run": 1, "first_token_s": 1.0, "step_s": 0.006}
    for name, mode, more in (("a", "default", {}), ("b", "full_decode", {"decode_host_s": 0.0001})):
        rows = [
            {"mode": mode, "backend": backend, "seconds": seconds, **row, **more}
            for backend, seconds in (("flash", 3.0), ("heurgen", 2.0))
        ]
        (tmp_path / name).mkdir()
        serving.write(rows, tmp_path / name)
    parts = [str(tmp_path / name) for name in "ab"]
    monkeypatch.setattr(sys, "argv", ["serving.py", "-o", str(tmp_path / "all"), "--merge", *parts])
    serving.main()
    summary = json.loads((tmp_path / "all" / "serving.json").read_text())["summary"]
    ratios = {line["mode"]: line["over_ours"]["flash"] for line in summary if line["value"] == "seconds"}
    assert ratios == {"default": 1.5, "full_decode": 1.5}
    assert len((tmp_path / "all" / "serving.csv").read_text().splitlines()) == 5
