"""Selectors of any origin as callables of a launch's features in their order."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from heurgen_kernels import heuristics
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.selecting import bind_given, generated, picker, selector_for

from tests.golden import by_device

FEATURES = ("rows", "width", "size")


def default(values):
    return ("default", values)


def test_generated_modules_are_found_by_name_and_an_absent_one_is_none():
    assert generated("matmul").__name__ == f"{heuristics.__name__}.matmul"
    assert generated("no_such_kernel") is None


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (lambda rows, width, size: (rows, width, size), (1, 2, 3)),
        (lambda rows, width: (rows, width), (1, 2)),
        (lambda rows: rows, 1),
        (lambda width: width, 2),
        (lambda size, rows: (size, rows), (3, 1)),
        (lambda: "nothing asked", "nothing asked"),
    ],
)
def test_a_generated_selector_is_asked_what_it_takes_in_its_order(select, expected):
    module = SimpleNamespace(SELECTORS={"nvidia": select})
    assert bind_given(module, "nvidia", FEATURES, default)((1, 2, 3)) == expected


@pytest.mark.parametrize("heuristics", [3, "better.py", SimpleNamespace(select={"variant": "q_block"})])
def test_what_cannot_be_asked_is_named(heuristics):
    """A launch ended in Python's own error, that an int cannot be called."""
    with pytest.raises(
        ValueError, match=f"^heuristics is {re.escape(repr(heuristics))}; expected a generated"
    ):
        bind_given(heuristics, "nvidia", FEATURES, default)


def test_the_vendor_is_looked_up_once():
    selectors = {"nvidia": lambda rows: rows}
    bound = bind_given(SimpleNamespace(SELECTORS=selectors), "nvidia", FEATURES, default)
    del selectors["nvidia"]
    assert bound((4, 5, 6)) == 4


def test_the_default_answers_for_a_vendor_that_the_module_has_not():
    module = SimpleNamespace(SELECTORS={"nvidia": lambda rows: rows}, select=None)
    assert bind_given(module, "amd", FEATURES, default) is default


def test_callables_and_objects_with_select_are_told_everything_by_name():
    def answer(**features):
        return features

    expected = {"vendor": "amd", "rows": 1, "width": 2, "size": 3}
    for given in (answer, SimpleNamespace(select=answer)):
        assert bind_given(given, "amd", FEATURES, default)((1, 2, 3)) == expected


def test_a_selector_that_asks_for_what_no_launch_knows_is_refused_when_it_is_bound():
    said = "the heuristics ask for 'depth', 'age'; a launch knows rows, width, size: build them from a spec of these"
    with pytest.raises(ValueError, match=said):
        picker(lambda rows, depth, age: None, FEATURES)


@pytest.mark.parametrize(
    ("selectors", "said"),
    [
        ([1], r"^SELECTORS is \[1\]; expected functions of features, by vendor"),
        ({"nvidia": 3}, "^SELECTORS\\['nvidia'\\] is 3; expected a function of features"),
    ],
)
def test_selectors_that_are_none_are_named(selectors, said):
    """Python's own error told of a list that has no key, and of a number that has no signature."""
    with pytest.raises(ValueError, match=said):
        bind_given(SimpleNamespace(SELECTORS=selectors), "nvidia", FEATURES, default)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (Device("nvidia", (9, 0), 132, model="NVIDIA H200"), by_device.select_nvidia_h200),
        (Device("nvidia", (8, 0), 108, model="NVIDIA A100"), by_device.select_nvidia),
        (None, by_device.select_nvidia),
    ],
)
def test_a_device_that_a_module_knows_is_answered_for_by_its_own_selector(device, expected):
    assert selector_for(by_device, "nvidia", device) is expected


def test_others_of_its_capability_come_before_the_vendor():
    module = SimpleNamespace(SELECTORS={"nvidia": min}, _BY_CAPABILITY={("nvidia", "9.0"): max})
    assert selector_for(module, "nvidia", Device("nvidia", (9, 0), 114, model="NVIDIA H100 PCIe")) is max
    assert selector_for(module, "nvidia", Device("nvidia", (8, 0), 108, model="NVIDIA A100")) is min
