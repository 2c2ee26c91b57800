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

import pandas as pd
import pytest

PATH = Path(__file__).parents[1] / "benchmarks/serving.py"
sys.path.insert(0, str(PATH.parent))  # as for a script: its modules are beside it
_SPEC = importlib.util.spec_from_file_location("serving", PATH)
serving = importlib.util.module_from_spec(_SPEC)
sys.modules["serving"] = serving  # its data classes look for their module
_SPEC.loader.exec_module(serving)
results = importlib.import_module("serving_results")
kinds = importlib.import_module("serving_kinds")


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
    first = [row["backend"] for row in rows if (row["kind"], row["run"]) == ("prompt500", 1)]
    assert first == ["flash", "heurgen"] * 10
    assert sorted({row["line"] for row in rows if row["kind"] == "latency"}) == ["500 + 100", "500 + 500"]
    assert [row["seconds"] for row in rows[:4]] == pytest.approx([0.12, 0.6, 0.1, 0.5])
    found = results.summary([{"mode": "default", **row} for row in rows])
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
    results.write([theirs, ours], tmp_path)
    summary = json.loads((tmp_path / "serving.json").read_text())["summary"]
    ratios = {line["value"]: line["over_ours"] for line in summary}
    assert ratios == {"seconds": {"flash": pytest.approx(1.5)}, "first_token_s": {}}


def test_times_are_compared_within_a_start(tmp_path):
    """One of two machines is twice as fast, and had three times as many runs of ours."""
    row = {"mode": "default", "kind": "long", "line": "30000 + 64", "run": 1}
    slow, fast = ({**row, "start": name} for name in "ab")
    rows = [slow | {"backend": "flash", "seconds": 4.4}, slow | {"backend": "heurgen", "seconds": 4.0}]
    rows += [
        fast | {"backend": "flash", "seconds": 2.2},
        *[fast | {"backend": "heurgen", "seconds": 2.0}] * 3,
    ]
    (found,) = results.summary(rows)
    assert found["over_ours"] == {"flash": pytest.approx(1.1)}


LONG = {"kind": "long", "line": "30000 + 64", "run": 1, "device": "NVIDIA H200"}
PAGE = "before\n<!-- serving: h200 -->\nold\n<!-- serving: end -->\nafter\n"


def long_run(mode: str, backend: str, code: str, first: float) -> dict[str, Any]:
    more = {"mode": mode, "backend": backend, "code": code, "first_token_s": first, "step_s": first / 200}
    return {**LONG, **more, "seconds": 2 * first}


def published(tmp_path: Path, rows: list[dict[str, Any]], codes: list[str]) -> tuple[dict[str, Any], str]:
    (tmp_path / "serving.md").write_text(PAGE, encoding="utf-8")
    results.publish("h200", rows, codes, tmp_path, tmp_path)
    text = (tmp_path / "h200" / "serving.json").read_text(encoding="utf-8")
    return json.loads(text), (tmp_path / "serving.md").read_text(encoding="utf-8")


def test_of_each_line_the_newest_code_is_left_and_what_is_older_has_a_mark(tmp_path):
    old = [
        long_run("full_decode", b, "old", t) for b, t in (("flash", 1.0), ("heurgen", 1.1), ("triton", 4.4))
    ]
    other = [long_run("default", b, "old", t) for b, t in (("flash", 0.9), ("heurgen", 1.0))]
    new = [long_run("full_decode", b, "new", t) for b, t in (("flash", 1.02), ("heurgen", 1.0))]
    alone = [long_run("default", "heurgen", "new", 5.0)]
    found, page = published(tmp_path, old + other + new + alone, ["old", "new"])
    first = {row["mode"]: row for row in found["summary"] if row["value"] == "first_token_s"}
    assert first["full_decode"]["over_ours"] == {"triton": pytest.approx(4.0), "flash": pytest.approx(1.02)}
    assert first["full_decode"]["medians"]["heurgen"] == 1.0
    assert (first["full_decode"]["code"], first["full_decode"]["stock_code"]) == ("new", "old")
    assert first["default"]["over_ours"] == {"flash": pytest.approx(0.9)}
    assert len(found["runs"]) == 7
    row = "| first token of 30,000 | 1 (3.4) | 1 s\\* | 0.900 |  | 1 s | **1.020** | **4.000**\\* |"
    assert row in page
    assert page.startswith("before\n")
    assert page.endswith("<!-- serving: end -->\nafter\n")
    assert "old\n<!--" not in page
    assert "Of earlier code: \\* code `old`." in page


def test_what_nothing_newer_was_measured_of_stays_as_it_is(tmp_path):
    rows = [long_run("default", b, "old", t) for b, t in (("flash", 1.0), ("heurgen", 1.1), ("triton", 4.4))]
    found, _ = published(tmp_path, rows + [r | {"code": "older"} for r in rows], ["older", "old"])
    assert found["runs"] == rows
    again, _ = published(tmp_path, *results.runs_of(tmp_path / "h200"))
    assert again == found


def test_times_are_compared_within_one_start_of_the_engines(tmp_path):
    beside = [
        long_run("default", b, "new", t) | {"start": "a"} for b, t in (("flash", 1.02), ("heurgen", 1.0))
    ]
    stock = [
        long_run("default", b, "new", t) | {"start": "b"} for b, t in (("triton", 4.8), ("heurgen", 1.2))
    ]
    found, _ = published(tmp_path, beside + stock, ["new"])
    ratios = [row["over_ours"] for row in found["summary"] if row["value"] == "first_token_s"]
    assert ratios == [{"triton": pytest.approx(4.0), "flash": pytest.approx(1.02)}]


def test_a_device_has_one_folder_whatever_its_memory_is_called():
    names = ["NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"]
    assert [results.name_of(name) for name in names] == ["h200", "h100", "a100"]


def test_lines_that_are_missed_are_said():
    rows = [long_run("default", b, "new", t) for b, t in (("flash", 0.99), ("heurgen", 1.0), ("triton", 3.5))]
    said = results.missed(results.summary(rows, ["new"]))
    assert said == [
        "`default`: 30000 + 64, first token: FlashAttention-3 / ours 0.9900, line 1",
        "`default`: 30000 + 64, a step: FlashAttention-3 / ours 0.9900, line 1.03",
    ]


def test_a_page_without_a_place_for_the_table_is_an_error():
    with pytest.raises(ValueError, match="serving: h100"):
        results.place(PAGE, "h100", "table")


def test_a_warm_up_takes_thirty_seconds_cold_and_three_from_the_cache():
    """On one H100 with 16 processors, models with two kinds of layers among them; the page says what was measured."""
    root = Path(__file__).parents[1]
    found = json.loads((root / "benchmarks/h100/warm_up.json").read_text(encoding="utf-8"))
    page = (root / "docs/serving.md").read_text(encoding="utf-8")
    models = {name: times for name, times in found.items() if name != "processors"}
    assert (found["processors"], len(models)) == (16, 5)
    for name, times in models.items():
        cold, cached = times["cold"], times["cached"]
        assert cold["seconds"] <= 30, name
        assert cached["seconds"] <= 3, name
        assert (cold["compiled"] > 50, cached["compiled"]) == (True, 0), name
        row = next(
            line for line in page.splitlines() if line.startswith(f"| {name}") and line.count("|") == 5
        )
        assert f"| {cold['compiled']} | {cold['seconds']:.1f} s | {cached['seconds']:.1f} s |" in row


def test_every_kind_of_model_has_a_config(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(kinds.tempfile, "mkdtemp", lambda: str(tmp_path))
    for name, (_, architecture, _, _) in kinds.KINDS.items():
        told = json.loads(Path(kinds.folder_of(name), "config.json").read_text(encoding="utf-8"))
        assert told["architectures"] == [architecture]
    assert set(kinds.WARM) < set(kinds.KINDS)


def test_where_answers_part_is_said_with_the_distance_of_the_candidates():
    near, far = {5: -1.0, 6: -1.016}, {5: -1.0}
    ours = [([1, 2], [near, near]), ([5, 2], [near, near]), ([3, 5], [near, far])]
    stock = [([1, 2], [near, near]), ([6, 7], [near, near]), ([3, 6], [near, far])]
    said = {"answers": 3, "equal": 1, "parted": [(1, 0, 0.016), (2, 1, None)]}
    assert kinds.compared(ours, stock) == said


def test_vectors_that_point_elsewhere_are_told_apart():
    ours = [[1.0, 0.0], [0.6, 0.8], [float("nan"), 0.0]]
    said = kinds.compared_vectors(ours, [[1.0, 0.0], [0.8, 0.6], [1.0, 0.0]])
    assert (said["answers"], said["equal"], said["parted"][0]) == (3, 1, (1, 0, 0.96))


def test_what_the_page_says_of_vllm_033_was_measured():
    page = (PATH.parents[1] / "docs/serving.md").read_text(encoding="utf-8")
    table = page.partition("<!-- vllm 0.33 -->")[2].partition("<!-- vllm 0.33 end -->")[0]
    told = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    asked = {
        "one request, 500 + 500 tokens": ("500 + 500", "seconds"),
        "500 + 1000": ("500 + 1000", "seconds"),
        "first token of 500": ("500 + 1000", "first_token_s"),
        "first token of 8,000": ("8000 + 1", "first_token_s"),
        "first token of 30,000": ("30000 + 64", "first_token_s"),
        "a step after it": ("30000 + 64", "step_s"),
        "64 at once": ("64 at once", "seconds"),
        "500 at once, 1 to 8000 + 1 to 32": ("500 of 1 to 8000", "seconds"),
    }
    measured = {}
    for first, name in ((1, "serving.csv"), (4, "serving_38.csv")):
        runs = pd.read_csv(PATH.parent / "h200_vllm033" / name).astype(object)
        for row in results.summary(runs.where(runs.notna(), None).to_dict("records")):
            ours = row["medians"]["heurgen"]
            places = 2 if row["value"] == "step_s" else 1
            shown = f"{ours:.3f} s" if row["value"] == "seconds" else f"{ours * 1e3:.{places}f} ms"
            over = [f"{row['over_ours'][backend]:.3f}" for backend in ("flash", "triton")]
            measured[(first, row["line"], row["value"])] = [shown, *over]
    assert [row[0] for row in told] == list(asked)
    for name, *cells in told:
        for first in (1, 4):
            assert cells[first - 1 : first + 2] == measured.get((first, *asked[name]), ["", "", ""])
    kinds_033 = json.loads((PATH.parent / "h200_vllm033/serving_kinds.json").read_text(encoding="utf-8"))
    said = (len(kinds_033), sum(k["answers"] for k in kinds_033), sum(k["equal"] for k in kinds_033))
    assert said == (30, 810, 696)
    far = [abs(at) for kind in kinds_033 if kind["name"] != "gptoss" for _, _, at in kind["parted"]]
    assert max(far) < 0.07
