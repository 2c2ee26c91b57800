"""What is given becomes one config of a kernel family: by name, checked once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy
import pytest
from heurgen_kernels.caches import Cache
from heurgen_kernels.parameters import Parameters


class Launch(NamedTuple):
    kind: str = "plain"
    block: int = 16
    parts: int = 1


class Other(NamedTuple):
    parts: int
    block: int


def refuse(config):
    if config.parts > 1 and config.kind == "plain":
        raise ValueError("config.parts is more than 1; plain has one")


@pytest.fixture
def parameters():
    allowed = {"kind": ("plain", "cut"), "block": (16, 32), "parts": range(1, 5)}
    return Parameters(Launch, allowed, refuse, Cache(4), Cache(4))


@dataclass
class Data:
    block: int
    kind: str = "cut"


class Attributes:
    block = 32
    unrelated = 7


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Launch("cut", 32, 2), Launch("cut", 32, 2)),
        (Other(1, 32), Launch(block=32)),
        ({"parts": 3, "kind": "cut"}, Launch("cut", 16, 3)),
        ({"block": None}, Launch()),
        (Data(32), Launch("cut", 32)),
        (Attributes(), Launch(block=32)),
        ({"block": numpy.int64(32)}, Launch(block=32)),
    ],
)
def test_each_way_to_say_a_config(parameters, given, expected):
    found = parameters.normalise(given)
    assert found == expected
    assert type(found) is Launch
    assert all(type(value) in (int, str) for value in found)
    assert parameters.normalise(expected) is found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"block": 48}, "config.block is 48; allowed: 16, 32"),
        ({"block": 16.0}, "config.block is 16.0; allowed: 16, 32"),
        ({"block": True}, "config.block is True; allowed"),
        ({"parts": 5}, "config.parts is 5; allowed: integers from 1 to 4"),
        ({"kind": 3}, "config.kind is 3; allowed: plain, cut"),
        ({"size": 3}, "config has size = 3; the parameters of a launch are kind, block, parts"),
        (7, "config is 7; expected an object with parameters of a launch: kind, block, parts"),
        ({"parts": 2}, "config.parts is more than 1; plain has one"),
    ],
)
def test_what_is_refused_is_named(parameters, given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parameters.normalise(given)
    assert not parameters.normalised
    assert not parameters.one


def test_tuples_are_looked_at_once_and_what_may_change_every_time(parameters):
    given, changing = Other(1, 32), {"block": 16}
    first = parameters.normalise(given)
    assert parameters.normalised[id(given)] == (given, first)
    assert parameters.normalise(changing).block == 16
    changing["block"] = 32
    assert parameters.normalise(changing) is first
    assert list(parameters.normalised) == [id(given)]


def test_what_is_remembered_is_bounded_and_kept_alive(parameters):
    for number in range(20):
        assert parameters.normalise(Launch("cut", 16, number % 4 + 1)).parts == number % 4 + 1
        assert len(parameters.normalised) <= 4
