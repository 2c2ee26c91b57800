"""Triton's dispatch: what goes past it, what goes through it, in which order kernels are hashed."""

from __future__ import annotations

import ast
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import heurgen_kernels
import pytest
import triton.language as tl
from heurgen_kernels.host import dispatch

PACKAGE = Path(heurgen_kernels.__file__).parent


@pytest.fixture(autouse=True)
def no_profiler(monkeypatch):
    for chain in (dispatch._ENTER, dispatch._EXIT):
        monkeypatch.setattr(chain, "calls", [])


def test_launches_may_be_bound_but_inside_compiling():
    assert dispatch.bindable()
    with dispatch.compiling():
        assert not dispatch.bindable()
        with dispatch.compiling():
            assert not dispatch.bindable()
        assert not dispatch.bindable()
    assert dispatch.bindable()


def test_compiling_ends_with_an_error_too():
    with pytest.raises(KeyError), dispatch.compiling():
        raise KeyError
    assert dispatch.bindable()


def test_compiling_is_of_this_thread_alone():
    with dispatch.compiling(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(dispatch.bindable).result()


class Kernel:
    """Notes what becomes of it; `run` of what it compiles to loads, as Triton's does."""

    def __init__(self):
        self.noted = []

    @property
    def compiled(self):
        noted = self.noted

        class Compiled:
            run = property(lambda _: noted.append("loaded"))

        return Compiled()

    def __getitem__(self, grid):
        return lambda *given, **options: self.noted.append(("launched", grid, given, options)) or "compiled"

    def run(self, *given, grid, warmup, **options):
        self.noted.append(("warmed up" if warmup else "launched", grid, given, options))
        return self.compiled


def test_a_kernel_is_launched_but_inside_compiling_where_it_is_loaded():
    kernel, given = Kernel(), ((2, 3), (1, "x"), {"num_warps": 4})
    assert dispatch.through_triton(kernel, *given) == "compiled"
    assert kernel.noted.pop() == ("launched", *given)
    with dispatch.compiling():
        assert type(dispatch.through_triton(kernel, *given)).__name__ == "Compiled"
    assert kernel.noted == [("warmed up", *given), "loaded"]


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ("0 active drivers ([]). There should only be one.", "Triton finds no GPU; with TRITON_INTERPRET=1"),
        ("out of memory", "out of memory"),
    ],
)
def test_without_a_gpu_it_is_said_what_runs_on_a_cpu(theirs, said):
    class Failing(Kernel):
        def __getitem__(self, grid):
            raise RuntimeError(theirs)

    with pytest.raises(RuntimeError, match=f"^{said}"):
        dispatch.through_triton(Failing(), (1,), (), {})


def test_every_launch_goes_through_the_one_place():
    """`kernel[grid](...)` is written there alone: no launch can leave `compiling` aside."""
    launching = [
        f"{path.relative_to(PACKAGE)}: {ast.unparse(node.func)}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        if not isinstance(node.func.slice, ast.Constant)
    ]
    assert launching == ["host/dispatch.py: kernel[grid]"]


@pytest.mark.parametrize("chain", ["_ENTER", "_EXIT"])
def test_a_profiler_that_joins_a_chain_is_heard(monkeypatch, chain):
    monkeypatch.setattr(getattr(dispatch, chain), "calls", [print])
    assert not dispatch.bindable()


@pytest.mark.parametrize("name", ["launch_enter_hook", "launch_exit_hook"])
def test_a_profiler_that_takes_a_chains_place_is_heard(monkeypatch, name):
    monkeypatch.setitem(dispatch._KNOBS, name, print)
    assert not dispatch.bindable()
    monkeypatch.setitem(dispatch._KNOBS, name, dispatch._ENTER if "enter" in name else dispatch._EXIT)
    assert dispatch.bindable()


def test_kernels_are_hashed_in_the_order_of_modules_and_of_their_names(monkeypatch):
    class Kernel:
        def __init__(self, name):
            self.name = name

        @property
        def cache_key(self):
            hashed.append(self.name)

    hashed = []
    monkeypatch.setattr(dispatch, "JITFunction", Kernel)
    callees = SimpleNamespace(second=Kernel("second"), number=3, first=Kernel("first"))
    callers = SimpleNamespace(kernel=Kernel("kernel"), helper=len)
    dispatch.hash_in_turn((callees, callers))
    assert hashed == ["second", "first", "kernel"]


class Hooked:
    """A kernel that tells a hook of its constants as Triton does."""

    def __init__(self):
        self.told = []

    def _call_hook(self, hook, key, constants, options):
        text = json.dumps(list(constants.values()))  # as triton.runtime.jit.serialize_specialization_data
        return hook(key, json.loads(text))

    def __getitem__(self, grid):
        return lambda *_, **__: self._call_hook(
            lambda *told: self.told.append(told), "key", self.constants, None
        )


class Layout(NamedTuple):
    compute: object
    size: int


def test_hooks_of_compilation_hear_of_types_and_functions_within_constants():
    kernel = Hooked()
    kernel.constants = {"layout": Layout(tl.bfloat16, 3), "other": 7, "chooser": print}
    with pytest.raises(TypeError, match="not JSON serializable"):
        kernel[1]()
    for _ in range(2):
        dispatch.through_triton(kernel, (1,), (), {})
    assert (
        kernel.told
        == [("key", ["Layout(compute=triton.language.bfloat16, size=3)", 7, "<built-in function print>"])] * 2
    )


@pytest.mark.parametrize("error", [RuntimeError, TypeError])
def test_what_a_hook_raises_is_not_kept_from_the_launch(error):
    """It is asked once: its own TypeError is not taken for Triton's."""
    kernel, asked = Hooked(), []
    kernel.constants = {"layout": 3}

    def refuse(*told):
        asked.append(told)
        raise error("vLLM's monitor, --jit-monitor-mode=error")

    dispatch.hear(kernel)
    with pytest.raises(error, match="monitor"):
        kernel._call_hook(refuse, "key", kernel.constants, None)
    assert asked == [("key", [3])]


def test_a_triton_that_tells_hooks_of_no_constants():
    kernel = SimpleNamespace(_call_hook=lambda hook, key: hook(key))
    dispatch.hear(kernel)
    assert kernel._call_hook(str.upper, "key") == "KEY"


@pytest.mark.parametrize("constant", [tl.bfloat16, 3, (1, "a"), tl.constexpr(4)])
def test_what_triton_writes_itself_is_left_to_it(constant):
    kernel = SimpleNamespace(_call_hook=lambda hook, constants: hook(constants))
    dispatch.hear(kernel)
    given = {"a": constant}
    assert kernel._call_hook(lambda constants: constants, given) is given


@pytest.mark.parametrize("context", [nullcontext, dispatch.compiling])
def test_triton_without_a_gpu_is_told_in_other_words(context):
    """A warm-up ended in "0 active drivers ([]). There should only be one." where torch sees a GPU and Triton none."""

    class Absent:
        def run(self, *_, **__):
            raise RuntimeError("0 active drivers ([]). There should only be one.")

        def __getitem__(self, _):
            return self.run

    with context(), pytest.raises(RuntimeError, match=r"^Triton finds no GPU; "):
        dispatch.through_triton(Absent(), (1,), (), {})
