"""The card beside a log: what it says, where it lies, and what must agree before a log goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen._version import __version__
from heurgen.base.errors import UsageError
from heurgen.logs.card import INTERPRETER, card_path
from heurgen.tune.cards import (
    Card,
    cards_of,
    check_card,
    check_sweep,
    make_card,
    path_for,
    read_card,
    write_card,
)
from heurgen.tune.timing import Method
from tests.tune.fakes import DEVICE

ABOUT: Mapping[str, Any] = {"kernel": "k", "source_sha256": "a", "scenarios": 8}


def card(**changes: Any) -> Card:
    return make_card(replace(DEVICE, **changes), Method(), ABOUT)


def with_entry(old: Card, table: str, **entries: Any) -> Card:
    return {**old, table: {**old[table], **entries}}


def test_what_a_card_says(tmp_path: Path) -> None:
    write_card(tmp_path / "c.toml", card())
    found = read_card(tmp_path / "c.toml")
    assert found["device"] == {
        "vendor": "nvidia", "name": "Fake, GPU", "driver": "1.2", "capability": "9.0", "multiprocessors": 132,
        "shared_memory": 232448, "memory": 1 << 37, "gpus": 1,
    }  # fmt: skip
    assert found["tools"] == {"driver": "1.2", "heurgen": __version__, "torch": "2.11.0", "triton": "3.6.0"}
    assert found["log"] == ABOUT
    assert found["method"]["timing"].startswith("device events around one launch")
    assert not found["method"]["interpreted"]
    assert "driver" not in card(driver="")["tools"]
    assert "capability" not in card(capability="")["device"]
    graph = make_card(DEVICE, Method(mode="graph"), ABOUT)["method"]["timing"]
    assert graph.startswith("device events around each of the launches of a recorded graph")
    interpreted = card(name=INTERPRETER)["method"]
    assert (interpreted["interpreted"], interpreted["timing"][:10]) == (True, "host clock")


def test_a_card_for_each_device(tmp_path: Path) -> None:
    log = tmp_path / "h[2]00.csv"
    assert card_path(log) == tmp_path / "h[2]00.card.toml"
    assert cards_of(log) == {}
    for name in ("NVIDIA H100", "NVIDIA  h100!", "GPU/3"):
        device = replace(DEVICE, name=name)
        path = path_for(log, device, cards_of(log))
        write_card(path, card(name=name))
        assert path_for(log, device, cards_of(log)) == path
    names = ["h[2]00.card.toml", "h[2]00.card.nvidia-h100.toml", "h[2]00.card.gpu-3.toml"]
    assert {p.name: c["device"]["name"] for p, c in cards_of(log).items()} == dict(
        zip(names, ["NVIDIA H100", "NVIDIA  h100!", "GPU/3"], strict=True)
    )
    third = path_for(log, replace(DEVICE, name="nvidia.h100"), cards_of(log))
    assert third.name == "h[2]00.card.nvidia-h100-2.toml"
    assert path_for(log, replace(DEVICE, name="***"), cards_of(log)).name == "h[2]00.card.nvidia.toml"
    assert path_for(log, replace(DEVICE, vendor="amd", name="GPU/3"), cards_of(log)).name.endswith(
        "gpu-3-2.toml"
    )
    assert card_path(Path(".csv")).name == ".csv.card.toml"
    assert [str(card_path(Path(folder))) for folder in ("", ".", "/")] == [
        ".card.toml", ".card.toml", "/.card.toml"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"driver": "9"}, "cannot resume: device driver was '1.2', is '9'"),
        ({"capability": ""}, "cannot resume: device capability was '9.0', is 'None'"),
        ({"tools": {"torch": "2.12"}}, "cannot resume: tools torch was '2.11.0', is '2.12'"),
    ],
)
def test_a_log_goes_on_with_the_same_tools_alone(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_card(Path("c.toml"), card(), card(**change))
    assert str(caught.value) == f"c.toml: {message} (such times cannot be compared; start a new log)"


@pytest.mark.parametrize("key", ["shard", "scenarios", "configs", "space_sha256", "target_slowdown"])
def test_other_options_are_not_told_that_times_differ(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_card(Path("c.toml"), with_entry(card(), "log", **{key: 7}), card())
    assert str(caught.value) == (
        f"c.toml: cannot resume: log {key} was '7', is '{ABOUT.get(key)}' "
        "(resume with the options that it began with; other ones take a new log, and merge joins the two)"
    )


@pytest.mark.parametrize(
    ("key", "what"), [("workload_sha256", "workloads"), ("space_sha256", "spaces of configs")]
)
def test_a_log_that_joins_sweeps_does_not_go_on(key: str, what: str) -> None:
    """It was told that a hash was None, and to resume with the options that it began with."""
    sweep = with_entry(card(), "log", workload_sha256="a", space_sha256="b")
    joined = {**sweep, "log": {k: v for k, v in sweep["log"].items() if k != key}}
    for check in (check_card, check_sweep):
        with pytest.raises(UsageError) as caught:
            check(Path("c.toml"), joined, sweep)
        assert str(caught.value) == (
            f"c.toml: cannot resume: the log joins sweeps of several {what} (sweep what is missing into a new log; "
            "merge joins the two)"
        )


def test_what_may_differ() -> None:
    """How many GPUs there are; and what cards did not say before there was a choice."""
    check_card(Path("c.toml"), card(), card(gpus=4))
    new = card()
    old = {**new, "method": {k: v for k, v in new["method"].items() if k not in ("mode", "graph_launches")}}
    check_card(Path("c.toml"), old, new)
    with pytest.raises(UsageError, match="cannot resume: method mode was 'eager', is 'graph'"):
        check_card(Path("c.toml"), old, with_entry(new, "method", mode="graph"))


def test_another_device_joins_with_the_same_sweep() -> None:
    other = with_entry(card(name="H100", driver="9", tools={}), "log", configs=3)
    check_sweep(Path("c.toml"), other, card())
    for table, key in (("log", "source_sha256"), ("log", "shard"), ("method", "samples")):
        with pytest.raises(UsageError) as caught:
            check_sweep(Path("c.toml"), with_entry(other, table, **{key: "x"}), card())
        here = ABOUT.get(key) if table == "log" else Method().samples
        assert str(caught.value) == (
            f"c.toml: 'Fake, GPU' cannot join the log: {table} {key} is 'x' on 'H100', here '{here}' "
            "(such times cannot be compared; start a new log)"
        )


def test_cards_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[device]\n[tools]\n[log]\n")
    with pytest.raises(UsageError) as caught:
        read_card(path)
    assert str(caught.value) == f"{path}: the log's card has no table [method]"
    path.write_text("[device\n")
    with pytest.raises(UsageError) as caught:
        read_card(path)
    assert str(caught.value).startswith(f"{path}:1: cannot read the log's card: ")


@pytest.mark.parametrize(
    ("device", "log", "said"),
    [
        ('gpus = "x"', "", "2: column 'device.gpus': cannot read the log's card: found 'x', expected a whole"),
        ("gpus = inf", "", "2: column 'device.gpus': cannot read the log's card: found inf, expected a whole"),
        ("gpus = 0", "", "2: column 'device.gpus': cannot read the log's card: found 0, expected a whole"),
        ("", "parameters = 3", "5: column 'log.parameters': cannot read the log's card: found 3, expected a list"),
    ],
)  # fmt: skip
def test_a_card_that_was_edited(tmp_path: Path, device: str, log: str, said: str) -> None:
    """`merge` counts the GPUs and reads which columns are parameters: both ended in a traceback."""
    path = tmp_path / "c.toml"
    path.write_text(f"[device]\n{device}\n[tools]\n[log]\n{log}\n[method]\n")
    with pytest.raises(UsageError) as caught:
        read_card(path)
    assert str(caught.value).startswith(f"{path}:{said}")
