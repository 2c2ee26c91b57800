from __future__ import annotations

import csv
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import LogError, UsageError
from heurgen.tune.executors import ProcessExecutor
from heurgen.tune.protocol import DeviceInfo, Scenario
from heurgen.tune.resume import Journal, LoggedRow, RowFormat
from heurgen.tune.run import TuneOptions, run_tune
from heurgen.tune.timing import Failure, Method
from tests.tune.fakes import FakeExecutor, FakeGpus

FORMAT = RowFormat(("M", "flag"), ("BLOCK_M", "variant"))
DEVICE = DeviceInfo("nvidia", "GPU, big")
DEVICES = {("nvidia", "GPU, big")}
SCENARIO = Scenario("s1", {"M": 3, "flag": True})
CONFIG = {"BLOCK_M": 16, "variant": "2d"}
GOOD = FORMAT.row(DEVICE, SCENARIO, CONFIG, 0.0123456789)
BAD = FORMAT.row(DEVICE, SCENARIO, {"BLOCK_M": 32, "variant": None}, Failure("error", 'x, "y"'))
TEXT = (
    "scenario,vendor,device,M,flag,BLOCK_M,variant,status,time_ms,reason\n"
    's1,nvidia,"GPU, big",3,true,16,2d,ok,0.012346,\n'
    's1,nvidia,"GPU, big",3,true,32,,error,,"x, ""y"""\n'
)
ROWS = (
    LoggedRow("nvidia", "GPU, big", "s1", ("3", "true"), ("16", "2d"), 0.012346),
    LoggedRow("nvidia", "GPU, big", "s1", ("3", "true"), ("32", ""), None, 'error: x, "y"'),
)


def written(path: Path) -> Path:
    journal = Journal(path, FORMAT, DEVICES, resume=False)
    journal.append([GOOD, BAD])
    journal.close()
    return path


def test_text_and_recovery(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv")
    assert path.read_text() == TEXT
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    assert journal.rows == ROWS
    assert not journal.dropped
    journal.append([GOOD])
    journal.close()
    assert path.read_text() == TEXT + TEXT.splitlines(keepends=True)[1]


@pytest.mark.parametrize("cut", [1, 2, 5, 9, 20, 40])
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "log.csv")
    os.truncate(path, len(TEXT) - cut)
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    journal.close()
    assert (journal.rows, journal.dropped) == (ROWS[:1], True)
    assert path.read_text() == "".join(TEXT.splitlines(keepends=True)[:2])


def test_a_last_line_of_zeros_is_dropped(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv")
    with path.open("ab") as file:
        file.write(b"\0" * 30 + b"\n")
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    journal.close()
    assert (journal.rows, journal.dropped) == (ROWS, True)


def test_a_torn_header_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(TEXT[:10])
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    journal.close()
    assert path.read_text() == TEXT.splitlines(keepends=True)[0]


def test_a_log_with_line_ends_of_windows_goes_on(tmp_path: Path) -> None:
    """It was refused for its columns, which are those of the sweep."""
    path = tmp_path / "log.csv"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    assert journal.rows == ROWS
    journal.append([GOOD])
    journal.close()
    assert path.read_bytes().endswith(TEXT.splitlines(keepends=True)[1].encode())
    again = Journal(path, FORMAT, DEVICES, resume=True)
    again.close()
    assert (again.rows, again.dropped) == ((*ROWS, ROWS[0]), False)


def test_foreign_logs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(LogError) as caught:
        Journal(path, FORMAT, DEVICES, resume=True)
    assert str(caught.value) == (
        f"{path}:1: the columns are not those of this sweep"
        " (resume with the same target and space, or choose another name)"
    )
    path.write_text(TEXT.replace("GPU, big", "other", 1))
    with pytest.raises(LogError, match=r"log.csv:2: no row of this sweep"):
        Journal(path, FORMAT, DEVICES, resume=True)
    assert path.read_text() == TEXT.replace("GPU, big", "other", 1)  # it is left as it was


@pytest.mark.parametrize("time", ["-0.012346", "0.000000", "nan", "inf", ""])
def test_a_time_that_is_none_is_refused(tmp_path: Path, time: str) -> None:
    """A hand or a tool wrote it; rankings take its logarithm."""
    path = tmp_path / "log.csv"
    path.write_text(TEXT.replace("0.012346", time))
    with pytest.raises(LogError, match=r"log.csv:2: no row of this sweep"):
        Journal(path, FORMAT, DEVICES, resume=True)


@pytest.mark.parametrize("resume", [False, True])
def test_no_empty_log_stays_where_the_disk_is_full_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    path = tmp_path / "log.csv"
    full_after(monkeypatch, 20)
    with pytest.raises(UsageError) as caught:
        Journal(path, FORMAT, DEVICES, resume)
    assert str(caught.value) == f"{path}: cannot write the log: No space left on device"
    monkeypatch.undo()
    assert not path.exists()
    written(path)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    journal = Journal(path, FORMAT, DEVICES, resume=False)
    with pytest.raises(UsageError, match="another sweep is writing this log"):
        Journal(path, FORMAT, DEVICES, resume=True)
    journal.close()
    with pytest.raises(UsageError) as caught:
        Journal(path, FORMAT, DEVICES, resume=False)
    assert str(caught.value) == (
        f"{path}: the log exists already (--resume continues it; or choose another name)"
    )


SWEEP = """
import sys
from pathlib import Path
from heurgen.tune.run import TuneOptions, run_tune
from tests.tune.fakes import FakeExecutor, FakeGpus
executor = FakeExecutor(pace=0.001)
run_tune(TuneOptions("tests.tune.fakes:tunable", Path(sys.argv[1]), resume=True), executor=executor)
"""


def test_killed_at_random_moments_and_resumed(tmp_path: Path) -> None:
    path, moments = tmp_path / "log.csv", random.Random(4)
    root, before, kills = str(Path(__file__).parents[2]), "", 0
    for _ in range(40):
        wanted = before.count("\n") + moments.randrange(5, 90)
        process = subprocess.Popen(
            [sys.executable, "-c", SWEEP, str(path)],
            env={**os.environ, "PYTHONPATH": root, "FAKE_LOG": str(path), "FAKE_ENOUGH": str(wanted)},
            stderr=subprocess.PIPE,
        )
        grown(path, process, wanted)
        time.sleep(moments.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        text = path.read_text()
        assert text.startswith(before[: before.rfind("\n") + 1])  # what was written stays written
        before = text
        if process.returncode == 0:
            break
        kills += 1
        if kills == 2:  # as if the machine had gone down in the middle of a line
            with path.open("a") as file:
                file.write(text.splitlines()[-1][:25])
            before = text
    assert process.returncode == 0
    assert kills >= 3
    executor = FakeExecutor()
    run_tune(TuneOptions("tests.tune.fakes:tunable", tmp_path / "whole.csv"), executor=executor)
    assert cells(path) == cells(tmp_path / "whole.csv")
    assert repeats(path) >= {3}


def cells(path: Path) -> set[tuple[str, ...]]:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    first = {tuple(r[:-2]) for r in rows}
    assert len({r[:-1] for r in first}) == len(first)  # no cell both failed and succeeded
    return first


def repeats(path: Path) -> set[int]:
    with path.open(newline="") as file:
        counts = Counter(tuple(r[:-2]) for r in list(csv.reader(file))[1:] if r[-3] == "ok")
    assert set(counts.values()) <= set(range(1, 7))
    return set(counts.values())


GPUS = """
import signal
import sys
from pathlib import Path
from heurgen.tune.executors import ProcessExecutor
from heurgen.tune.run import TuneOptions, run_tune
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under nohup and in some CI
target = "tests.tune.fakes:tunable"
executor = ProcessExecutor(target, "tests.tune.fakes:FakeGpu", compilers=2)
print(run_tune(TuneOptions(target, Path(sys.argv[1]), resume=True), executor=executor).state)
"""


def on_gpus(path: Path, names: str, trace: Path, enough: int) -> subprocess.Popen[str]:
    """A sweep in a process of its own, over pretend GPUs in processes of their own; see `fakes.crawl`."""
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    given = {"FAKE_GPUS": names, "FAKE_TRACE": str(trace), "FAKE_LOG": str(path), "FAKE_ENOUGH": str(enough)}
    return subprocess.Popen(
        [sys.executable, "-c", GPUS, str(path)],
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2]), **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def grown(path: Path, process: subprocess.Popen[str], lines: int) -> None:
    """Wait until the log has so many lines, or the process ends."""
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < lines):
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("end", "turns"), [(signal.SIGKILL, ("A,A", "A,A,A", "A")), (signal.SIGINT, ("A,A", "A"))]
)
def test_several_gpus_stopped_and_resumed_on_other_numbers(
    tmp_path: Path, end: signal.Signals, turns: tuple[str, ...]
) -> None:
    path, before = tmp_path / "log.csv", ""
    for turn, names in enumerate(turns, 1):
        trace = tmp_path / f"trace{turn}"
        last = turn == len(turns)
        enough = sys.maxsize if last else before.count("\n") + 30
        process = on_gpus(path, names, trace, enough)
        if not last:
            grown(path, process, enough)
            process.send_signal(end)
        output, errors = process.communicate(timeout=300)
        text = path.read_text()
        if last or end == signal.SIGINT:
            assert output == ("finished\n" if last else "interrupted\n"), errors
        assert text.startswith(before[: before.rfind("\n") + 1])
        launches = [line.split(maxsplit=2) for line in trace.read_text().splitlines()]
        lost = {(name, *json.loads(config).values()) for _, name, config in launches} - logged(path)
        kept = trace.parent / "log.samples"
        held = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        lost -= {(where[2], *json.loads(where[3]).values()) for where in held}
        # The launch that each GPU was at; where the parent is starved, what it had not yet read of a chunk.
        assert len(lost) <= Method().chunk * len(names.split(","))
        measured_on = {(name, gpu) for gpu, name, _ in launches}
        assert len(measured_on) == len({name for name, _ in measured_on})
        before = text
    run_tune(TuneOptions("tests.tune.fakes:tunable", tmp_path / "whole.csv"), executor=FakeExecutor())
    assert {(c[0], *c[3:]) for c in cells(path)} == {(c[0], *c[3:]) for c in cells(tmp_path / "whole.csv")}
    assert repeats(path) >= {3}


def logged(path: Path) -> set[tuple[object, ...]]:
    with path.open(newline="") as file:
        names = ("BLOCK_M", "BLOCK_N", "num_warps")
        return {(r["scenario"], *(int(r[n]) for n in names)) for r in csv.DictReader(file) if r["num_warps"]}


def pretend(monkeypatch: pytest.MonkeyPatch, names: str, trace: Path) -> ProcessExecutor:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("FAKE_GPUS", names)
    monkeypatch.setenv("FAKE_TRACE", str(trace))
    monkeypatch.setenv("FAKE_PACE", "0.0005")
    return ProcessExecutor("tests.tune.fakes:tunable", "tests.tune.fakes:FakeGpu", compilers=2)


def test_a_child_that_dies_costs_its_own_gpu_one_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, trace = tmp_path / "log.csv", tmp_path / "trace"
    executor = pretend(monkeypatch, "A,A!", trace)
    summary = run_tune(TuneOptions("tests.tune.fakes:tunable", path), executor=executor)
    assert (summary.state, summary.missing, set(summary.failures)) == ("finished", 0, {"unfit", "crash"})
    with path.open(newline="") as file:
        crashed = [(r["scenario"], r["reason"]) for r in csv.DictReader(file) if r["status"] == "crash"]
    gpu_of = {
        name: gpu for gpu, name, _ in (line.split(maxsplit=2) for line in trace.read_text().splitlines())
    }
    assert {(gpu_of[name], reason) for name, reason in crashed} == {
        ("1", "the process ended with signal SIGABRT")
    }
    checks = (tmp_path / "trace.checks").read_text().splitlines()
    assert len(checks) == len(set(checks))


def test_a_gpu_that_is_gone_ends_the_sweep_and_another_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, trace = tmp_path / "log.csv", tmp_path / "trace"
    options = TuneOptions("tests.tune.fakes:tunable", path, resume=True)
    with pytest.raises(UsageError) as caught:
        run_tune(options, executor=pretend(monkeypatch, "A,A!!", trace))
    assert str(caught.value) == "the device is gone: RuntimeError: no such GPU"
    summary = run_tune(options, executor=pretend(monkeypatch, "A", trace))
    assert (summary.state, summary.missing) == ("finished", 0)
    assert "crash" not in path.read_text()


def full_after(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The disk takes `size` more bytes, the last write of them in part."""
    real, left = os.write, [size]

    def write(file: int, text: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(file, text[: left[0]])
        left[0] -= written
        return written

    monkeypatch.setattr("heurgen.tune.resume.os.write", write)


def test_a_full_disk_leaves_whole_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a row must not stand where another lane writes on, also if there is room again by then."""
    path = written(tmp_path / "log.csv")
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    full_after(monkeypatch, 20)
    message = (
        f"{path}: cannot write the log: No space left on device"
        " (what was measured before is in it; --resume continues)"
    )
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            journal.append([GOOD])
        assert str(caught.value) == message
        monkeypatch.undo()
    journal.close()
    assert path.read_text() == TEXT
    again = Journal(path, FORMAT, DEVICES, resume=True)
    assert again.rows == ROWS
    again.close()


def test_a_row_that_is_deleted_is_measured_again(tmp_path: Path) -> None:
    """Also where the sweep was killed, and the launches that the row was made of lie beside the log."""
    path = tmp_path / "log.csv"

    class Killed(FakeExecutor):
        def sample(self, configs: Any) -> Any:
            for outcome in super().sample(configs):
                if len(self.launches) > 200:
                    shutil.copy(path.with_suffix(".samples"), tmp_path / "left")
                    raise KeyboardInterrupt
                yield outcome

    run_tune(TuneOptions("tests.tune.fakes:tunable", path), executor=Killed())
    shutil.copy(tmp_path / "left", path.with_suffix(".samples"))
    lines = path.read_text().splitlines(keepends=True)
    gone = next(line for line in lines if ",ok," in line)
    path.write_text("".join(line for line in lines if line != gone))
    again = FakeExecutor()
    run_tune(TuneOptions("tests.tune.fakes:tunable", path, resume=True), executor=again)
    (row,) = csv.reader([gone])
    config = {"BLOCK_M": int(row[6]), "BLOCK_N": int(row[7]), "num_warps": int(row[8])}
    assert (row[0], config) in again.launches


@pytest.mark.parametrize("removed", [False, True])
def test_a_log_that_is_replaced_ends_the_sweep(tmp_path: Path, removed: bool) -> None:
    """`sed -i` on it, or `mv`: all further rows would go into a file that nobody finds."""
    path = written(tmp_path / "log.csv")
    journal = Journal(path, FORMAT, DEVICES, resume=True)
    path.rename(tmp_path / "moved.csv")
    if not removed:
        path.write_text(TEXT)
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            journal.append([GOOD])
        assert str(caught.value) == (
            f"{path}: the log was removed or replaced while the sweep wrote it "
            "(--resume continues what is there now; an editor or `sed -i` puts a new file in its place)"
        )
    journal.close()
    assert (tmp_path / "moved.csv").read_text() == TEXT
    assert path.exists() != removed


def test_a_sweep_on_a_full_disk_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    full_after(monkeypatch, 20_000)
    with pytest.raises(UsageError, match=r"No space left on device .*--resume continues"):
        run_tune(TuneOptions("tests.tune.fakes:tunable", path), executor=FakeGpus(1))
    monkeypatch.undo()
    held = path.read_text()
    assert 1500 < len(held) <= 20_000
    summary = run_tune(TuneOptions("tests.tune.fakes:tunable", path, resume=True), executor=FakeGpus(2))
    assert (summary.state, summary.missing) == ("finished", 0)
    assert path.read_text().startswith(held)
