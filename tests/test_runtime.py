"""observe: what it logs, how the file is bounded and survives a crash, and that a launch never suffers."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from heurgen.render.python import render_python
from heurgen.runtime import TrafficLog, observe
from tests.support.modules import two_vendors

ROW: dict[str, Any] = {"num_seqs": 8, "avg_seqlen_k": 100.0, "dtype": "fp8", "causal": True}


@pytest.fixture(scope="module")
def heuristics() -> ModuleType:
    module = ModuleType("generated_for_observe")
    exec(compile(render_python(two_vendors()), "generated", "exec"), module.__dict__)
    return module


def records(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_results_are_those_of_the_selector(heuristics: ModuleType, tmp_path: Path) -> None:
    watched = observe(heuristics.select, path=tmp_path / "t.csv")
    assert watched(vendor="nvidia", **ROW) is heuristics.select(vendor="nvidia", **ROW)
    bound = observe(heuristics.SELECTORS["amd"], path=tmp_path / "t.csv")
    assert bound(*ROW.values()) is heuristics.SELECTORS["amd"](**ROW)
    assert bound(**ROW) is bound(*ROW.values())
    with pytest.raises(ValueError, match="unknown vendor"):
        watched(vendor="intel", **ROW)


def test_every_nth_call_is_written_and_counts_for_n(heuristics: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    watched = observe(heuristics.select, sample=0.1, path=path)
    for n in range(1, 101):
        watched(vendor="nvidia", **{**ROW, "num_seqs": n})
    assert [r["num_seqs"] for r in records(path)] == [str(n) for n in range(10, 101, 10)]
    assert {r["count"] for r in records(path)} == {"10"}
    first = {"vendor": "nvidia", "num_seqs": "10", "avg_seqlen_k": "100.0", "dtype": "fp8", "causal": "true"}
    assert records(path)[0] == {**first, "count": "10"}


def test_scenarios_outside_training_are_written_once(heuristics: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    watched = observe(heuristics.SELECTORS["nvidia"], sample=0, path=path)
    for _ in range(3):
        for change in ({}, {"num_seqs": 129}, {"avg_seqlen_k": float("nan")}, {"dtype": 'a,"b"\n'}):
            watched(**{**ROW, **change})
    found = records(path)
    assert [r["num_seqs"] for r in found][:2] == ["129", "8"]
    assert [r["dtype"] for r in found if r["dtype"] != "fp8"] == ['a,"b"\n']
    assert {r["count"] for r in found} == {"1"}
    assert sum(r["num_seqs"] == "129" for r in found) == 1


def test_an_alias_of_a_category_lies_inside_training(tmp_path: Path) -> None:
    def select(dtype: str) -> str:
        return dtype

    path, domain = tmp_path / "t.csv", {"dtype": {"values": ("fp16",), "aliases": {"torch.float16": "fp16"}}}
    watched = observe(select, sample=0, path=path, domain=domain)
    for dtype in ("torch.float16", "fp16", "float16"):
        watched(dtype)
    assert [r["dtype"] for r in records(path)] == ["float16"]


def test_the_file_is_bounded_and_keeps_the_recent_rows(heuristics: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    watched = observe(heuristics.SELECTORS["nvidia"], sample=1, path=path, max_bytes=2000)
    for n in range(1, 1001):
        watched(**{**ROW, "num_seqs": n % 128 + 1, "avg_seqlen_k": float(n)})
    old = tmp_path / "t.csv.old"
    assert path.stat().st_size <= 2000
    assert old.stat().st_size <= 2000
    assert sorted(os.listdir(tmp_path)) == ["t.csv", "t.csv.old"]
    both = [float(r["avg_seqlen_k"]) for p in (old, path) for r in records(p)]
    assert both == [float(n) for n in range(1001 - len(both), 1001)]


def test_a_torn_row_does_not_spoil_the_next(heuristics: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    watched = observe(heuristics.SELECTORS["nvidia"], sample=1, path=path)
    watched(**ROW)
    with path.open("a") as file:
        file.write("8,10")
    watched(**ROW)
    assert path.read_text().splitlines()[1:] == ["8,100.0,fp8,true,1", "8,10", "8,100.0,fp8,true,1"]


def test_another_header_begins_a_new_file(heuristics: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("m,n,count\n1,2,3\n")
    observe(heuristics.SELECTORS["nvidia"], sample=1, path=path)(**ROW)
    assert (tmp_path / "t.csv.old").read_text() == "m,n,count\n1,2,3\n"
    assert len(records(path)) == 1


@pytest.mark.parametrize("begun", [False, True])
def test_of_two_that_find_the_file_full_one_renames_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """The other one was faster: it has renamed the file, and perhaps begun a new one."""
    path, old = tmp_path / "t.csv", tmp_path / "t.csv.old"
    full = "a,count\n" + "1,1\n" * 300
    path.write_text(full)

    def other(*_: Any) -> None:
        path.rename(old)
        if begun:
            path.write_text("a,count\n2,1\n")

    monkeypatch.setattr("fcntl.flock", other)
    log = TrafficLog(str(path), ["a"], 1000)
    log.add([3], 1)
    assert log.error is None
    assert old.read_text() == full
    assert path.read_text() == "a,count\n" + "2,1\n" * begun + "3,1\n"


def test_nobody_waits_for_who_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> None:
        raise BlockingIOError

    path = tmp_path / "t.csv"
    path.write_text("b,count\n1,1\n")
    monkeypatch.setattr("fcntl.flock", busy)
    log = TrafficLog(str(path), ["a"], 1000)
    log.add([3], 1)
    assert (log.error, path.read_text()) == (None, "b,count\n1,1\n")


def test_a_count_that_another_thread_took_past_zero_begins_again(
    heuristics: ModuleType, tmp_path: Path
) -> None:
    watched = observe(heuristics.SELECTORS["nvidia"], sample=0.5, path=tmp_path / "t.csv")

    class Slow(int):
        """While it is compared, another thread calls the same function."""

        def __ge__(self, low: object) -> bool:
            watched(**ROW)
            return True

    watched(**ROW)
    watched(**{**ROW, "num_seqs": Slow(8)})
    for _ in range(10):
        watched(**ROW)
    assert len(records(tmp_path / "t.csv")) >= 5


def test_an_error_ends_the_logging_and_not_the_launch(heuristics: ModuleType, tmp_path: Path) -> None:
    watched: Any = observe(heuristics.SELECTORS["nvidia"], sample=1, path=tmp_path / "missing" / "t.csv")
    assert watched(**ROW) is heuristics.SELECTORS["nvidia"](**ROW)
    assert isinstance(watched.log.error, FileNotFoundError)
    assert watched(**ROW) is heuristics.SELECTORS["nvidia"](**ROW)


def test_a_sample_of_next_to_nothing_writes_outsiders_alone(heuristics: ModuleType, tmp_path: Path) -> None:
    watched: Any = observe(heuristics.SELECTORS["nvidia"], sample=1e-320, path=tmp_path / "t.csv")
    watched(**ROW)
    assert not (tmp_path / "t.csv").exists()


def test_bad_arguments(heuristics: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"sample is 2, expected a share from 0 to 1"):
        observe(heuristics.select, sample=2)
    with pytest.raises(ValueError, match=r"max_bytes is 10, expected at least 1000"):
        observe(heuristics.select, max_bytes=10)

    def plain(m: int) -> int:
        return m

    with pytest.raises(ValueError, match=r"pass domain=module\.DOMAIN"):
        observe(plain)
    with pytest.raises(ValueError, match="expected `select` or a function of SELECTORS"):
        observe(lambda *args: args, domain={})
    assert observe(plain, domain={"m": {"low": 0, "high": 5}})(3) == 3


def test_what_is_no_selector_is_not_asked_for_its_domain(heuristics: ModuleType) -> None:
    """A module was told to pass domain=module.DOMAIN, and with it that it is no selector."""
    bound = partial(heuristics.select, vendor="nvidia")
    for given in (heuristics, heuristics.SELECTORS, bound):
        with pytest.raises(ValueError, match="expected `select` or a function of SELECTORS"):
            observe(given)  # type: ignore[arg-type]


WRITER = """
import sys
sys.path.insert(0, {root!r})
from heurgen.runtime import TrafficLog, observe
def select(m): return m
watched = observe(select, sample=1, path={path!r}, max_bytes=100_000_000, domain={{"m": {{"low": 0, "high": 5}}}})
print("ready", flush=True)
i = 0
while True:
    i += 1
    watched(i % 5)
"""


def test_kill_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    code = WRITER.format(root=str(Path(__file__).parents[1]), path=str(path))
    writers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    end = time.monotonic() + 60
    while time.monotonic() < end and not (path.exists() and path.stat().st_size > 200):
        time.sleep(0.01)
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    lines = path.read_text().splitlines()
    assert len(lines) > 20
    assert set(lines) <= {"m,count", *(f"{m},1" for m in range(5))}


def test_the_module_imports_nothing_but_the_standard_library() -> None:
    code = "import sys; before = set(sys.modules); import heurgen.runtime; print(sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    new = set(eval(out))
    assert not {m.split(".")[0] for m in new} - set(sys.stdlib_module_names) - {"heurgen"}


def test_a_call_that_is_not_written_is_one_call_more(heuristics: ModuleType, tmp_path: Path) -> None:
    """benchmarks/lookup.py measures what that costs."""
    bare = heuristics.SELECTORS["nvidia"]
    watched = observe(bare, path=tmp_path / "t.csv")
    assert calls_of(watched) == ["observed", *calls_of(bare)]


def calls_of(select: Callable[..., Any]) -> list[str]:
    """Names of all functions, in Python and C, that a launch calls."""
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name.strip("_"))
        elif event == "c_call":
            names.append(argument.__qualname__)

    values = list(ROW.values())
    sys.setprofile(note)
    try:
        select(*values)
    finally:
        sys.setprofile(None)
    return names[:-1]  # the last one ends it


INNER = "left seen every config inside bounds select make observed _left __seen _low0 Exception count log row"


@pytest.mark.parametrize("names", [[n] for n in INNER.split()] + [INNER.split()], ids=" ".join)
def test_features_may_have_any_name(names: list[str], tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(f"def select(*, {', '.join(names)}): return ({', '.join(names)},)", space)
    path = tmp_path / "t.csv"
    domain = {n: {"low": 0, "high": 9} for n in names}
    watched = observe(space["select"], sample=0.5, path=path, domain=domain)
    for value in (1, 2, 3, 99):
        given = dict.fromkeys(names, value)
        assert watched(**given) == tuple(given.values())
    rows = list(csv.reader(path.open(newline="")))
    assert rows[0] == [*names, "count_" if "count" in names else "count"]
    assert [r[-1] for r in rows[1:]] == ["2", "2", "1"]
    assert {r[0] for r in rows[1:]} == {"2", "99"}
    assert watched.log.error is None


def test_the_device_may_be_left_out_as_with_the_selector(tmp_path: Path) -> None:
    def select(*, vendor: str, device: str | None = None, n: int) -> tuple[object, ...]:
        return vendor, device, n

    watched = observe(select, sample=1, path=tmp_path / "t.csv", domain={"n": {"low": 0, "high": 9}})
    assert watched(vendor="amd", n=3) == ("amd", None, 3)
    assert watched(vendor="amd", n=3, device="X") == ("amd", "X", 3)
    assert [r["device"] for r in records(tmp_path / "t.csv")] == ["", "X"]
    assert watched.log.error is None
