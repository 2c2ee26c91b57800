"""Taking Triton's compilation from it, in several threads; see warm_child.py for what is taken."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from heurgen_kernels.ahead import compiling, worker

JOB = compiling.Job(("module", "kernel"), {}, {}, {}, {}, ("hip", "gfx942", 64))


class Kernel:
    def _do_compile(self, key):
        return f"triton's {key}"


@pytest.fixture
def kernels(monkeypatch):
    made = Kernel(), Kernel()
    monkeypatch.setattr(compiling, "KERNELS", made)
    return made


def test_what_a_thread_replaces_is_its_own_and_put_back(kernels):
    other = SimpleNamespace(found=None)

    def elsewhere():
        other.found = kernels[0]._do_compile(2)

    def act(kernel, original, key):
        return kernel, original(key)

    with compiling.instead_of_compiling(act):
        assert [kernel._do_compile(1) for kernel in kernels] == [(kernel, "triton's 1") for kernel in kernels]
        with compiling.instead_of_compiling(lambda *_: "inner"):
            assert kernels[1]._do_compile(1) == "inner"
        assert kernels[1]._do_compile(1) == (kernels[1], "triton's 1")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert other.found == "triton's 2"
    assert [vars(kernel) for kernel in kernels] == [{}, {}]


def test_it_is_put_back_after_an_error(kernels):
    with pytest.raises(KeyError), compiling.instead_of_compiling(print):
        raise KeyError
    assert [vars(kernel) for kernel in kernels] == [{}, {}]


def test_two_threads_replace_it_in_turn(kernels):
    """Else the one that ends last would put back what the other put there: its launches would never launch again."""
    began, inside, end = threading.Event(), threading.Event(), threading.Event()

    def second():
        began.set()
        with compiling.instead_of_compiling(lambda *_: "second"):
            inside.set()
            end.wait(10)

    thread = threading.Thread(target=second)
    with compiling.instead_of_compiling(lambda *_: "first"):
        thread.start()
        began.wait(10)
        assert not inside.wait(0.1)
    assert inside.wait(10)
    end.set()
    thread.join()
    assert [kernel._do_compile(3) for kernel in kernels] == ["triton's 3"] * 2


@pytest.mark.parametrize("program", ["nowhere/python", "/bin/false"])
def test_a_worker_that_does_not_start_or_ends_leaves_the_work_to_the_launch(monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    assert not compiling.share([JOB] * 3, 2)


def test_files_of_the_working_directory_are_no_modules_of_the_worker(monkeypatch, tmp_path):
    """A server whose program is on the PATH does not import from where it was started, and went on alone."""
    (tmp_path / "random.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    ended, real = [], subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda *given, **more: ended.append(real(*given, **more)) or ended[0]
    )
    assert compiling.share([JOB], 1)
    assert [done.returncode for done in ended] == [0]


def test_without_jobs_nothing_starts(monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    compiling.share([], 2)


@pytest.mark.parametrize(("jobs", "processes", "started"), [(5, 2, 2), (2, 8, 2)])
def test_processes_take_jobs_until_none_is_left(monkeypatch, tmp_path, jobs, processes, started):
    """One that ends in the midst of a job loses that job alone; kernels that cannot be imported lose no other."""
    monkeypatch.setattr(worker, "compile", partial(note, tmp_path))
    given = [replace(JOB, options={"number": number}) for number in range(jobs)]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pickle.dumps((given, processes)))))
    worker.main()
    done = {int(path.name): path.read_text() for path in tmp_path.iterdir()}
    assert sorted(done) == list(range(jobs))
    assert len(set(done.values())) == started
    assert str(os.getpid()) not in done.values()


def note(folder, job):
    """Which process compiled it; the first one's ends."""
    number = job.options["number"]
    (folder / str(number)).write_text(str(os.getpid()))
    time.sleep(0.2)  # until the others have begun
    if number == 0:
        os._exit(1)


def test_orphans_compile_no_more(monkeypatch):
    """Of a first process that was killed."""
    compiled = []
    monkeypatch.setattr(worker, "compile", compiled.append)
    numbers, given = os.pipe()
    os.write(given, bytes(4))
    worker.work([JOB], numbers, first=0)
    assert compiled == []
    os.close(given)
    os.close(numbers)


class Unfit(Exception):
    """As Triton's OutOfResources."""


@pytest.fixture
def made(kernels, monkeypatch):
    """What `compile_ahead` does of calls that note when they are made; nothing is on disk."""
    monkeypatch.setattr(compiling, "not_on_disk", lambda jobs: jobs)
    monkeypatch.setattr(compiling, "share", lambda jobs, processes: None)
    return []


def test_what_processes_failed_at_is_tried_once_a_kernel(monkeypatch):
    """With a Triton that refuses a kernel the launches compiled every kind of it again, one after the other."""
    tried, on_disk = [], {"of the second", "second on disk"}

    def kernel(name, works):
        def compile(key, *_):
            tried.append((name, key))
            if not works:
                raise Unfit(f"{name} {key}")
            return key

        return SimpleNamespace(fn=SimpleNamespace(__qualname__=name), _do_compile=compile)

    first, second = kernel("first", False), kernel("second", True)
    monkeypatch.setattr(compiling, "KERNELS", (first, second))
    monkeypatch.setattr(compiling, "job_of", lambda kernel, job: job)
    monkeypatch.setattr(compiling, "not_on_disk", lambda jobs: [job for job in jobs if job not in on_disk])
    with compiling.refused_once():
        for key, job in ((1, "a"), (2, "b"), (3, None), (4, "second on disk")):
            with pytest.raises(Unfit, match="first 1" if key == 2 else f"first {key}"):
                first._do_compile(key, job)
        assert second._do_compile(1, "of the second") == 1
    assert tried == [("first", 1), ("first", 3), ("first", 4), ("second", 1)]


@pytest.mark.parametrize(("tried", "compiled"), [(True, [1, 3]), (False, [1, 2, 3])])
def test_launches_compile_all_that_no_process_tried(monkeypatch, tried, compiled):
    seen = []

    def compile(key, *_):
        seen.append(key)
        raise Unfit

    kernel = SimpleNamespace(fn=SimpleNamespace(__qualname__="kernel"), _do_compile=compile)
    monkeypatch.setattr(compiling, "KERNELS", (kernel,))
    monkeypatch.setattr(compiling, "job_of", lambda kernel, job: job)
    monkeypatch.setattr(compiling, "not_on_disk", lambda jobs: jobs)
    monkeypatch.setattr(compiling, "share", lambda jobs, processes: tried)
    calls = [partial(compiling_of, kernel, number, job) for number, job in ((1, "a"), (2, "b"), (3, None))]
    with pytest.raises(Unfit):
        compiling.compile_ahead(calls, 2)
    assert seen == compiled


def compiling_of(kernel, key, job):
    return kernel._do_compile(key, job)


def call(made, number, error=None):
    def note():
        made.append(number)
        if error is not None:
            raise error

    return note


def test_what_does_not_fit_leaves_nothing_else_out(made):
    calls = [
        call(made, 1),
        call(made, 2, Unfit("shared memory")),
        call(made, 3, Unfit("threads")),
        call(made, 4),
    ]
    with pytest.raises(Unfit, match="shared memory"):
        compiling.compile_ahead(calls, 1)
    assert made == [1, 2, 3, 4] * 2
    assert compiling.compile_ahead([calls[0], calls[3]], 1) == 0


def test_what_no_launch_takes_ends_it_at_once(made):
    with pytest.raises(ValueError, match="a bad config"):
        compiling.compile_ahead([call(made, 1, ValueError("a bad config")), call(made, 2)], 1)
    assert made == [1]


@pytest.mark.parametrize(
    ("processes", "at_hand", "shared"), [(1, 8, []), (3, 8, [3]), (None, 8, [8]), (None, 1, [])]
)
def test_work_is_shared_among_several_processes_alone(made, monkeypatch, processes, at_hand, shared):
    """One would have to start, and the launches wait for it."""
    asked = []
    monkeypatch.setattr(compiling, "share", lambda jobs, processes: asked.append(processes))
    monkeypatch.setattr(compiling.os, "sched_getaffinity", lambda _: set(range(at_hand)))
    assert compiling.compile_ahead([call(made, 1)], processes) == 0
    assert (asked, made) == (shared, [1, 1])
