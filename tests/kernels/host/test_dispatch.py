"""Whether launches go past Triton's dispatch, and in which order kernels are hashed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from heurgen_kernels.host import dispatch


@pytest.fixture(autouse=True)
def no_profiler(monkeypatch):
    for chain in (dispatch._ENTER, dispatch._EXIT):
        monkeypatch.setattr(chain, "calls", [])


def test_launches_are_bound_unless_inside_unbound():
    assert dispatch.bindable()
    with dispatch.unbound():
        assert not dispatch.bindable()
        with dispatch.unbound():
            assert not dispatch.bindable()
        assert not dispatch.bindable()
    assert dispatch.bindable()


def test_unbound_ends_with_an_error_too():
    with pytest.raises(KeyError), dispatch.unbound():
        raise KeyError
    assert dispatch.bindable()


def test_unbound_is_of_this_thread_alone():
    with dispatch.unbound(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(dispatch.bindable).result()


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
