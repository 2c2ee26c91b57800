"""Data cards: the versions of the tools, and the facts of the devices on which all cards agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import SpecError
from heurgen.logs.card import DeviceFacts, read_devices, read_tools, strangers


def cards(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{i}.card.toml" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_the_versions_of_all_cards(tmp_path: Path) -> None:
    texts = (
        '[tools]\ntorch = "2.11"\ntriton = "3.6"\n',
        '[tools]\ntorch = "2.10"\ncuda = "13.0"\n',
        "[device]\n",
    )
    assert read_tools(cards(tmp_path, *texts)) == {
        "cuda": ["13.0"],
        "torch": ["2.10", "2.11"],
        "triton": ["3.6"],
    }
    assert read_tools([]) == {}


@pytest.mark.parametrize("text", ["", "[tools]\ntorch = 2\n", "[tools.torch]\nversion = '2'\n"])
def test_tools_that_are_no_table_of_texts(tmp_path: Path, text: str) -> None:
    (path,) = cards(tmp_path, text)
    with pytest.raises(SpecError) as error:
        read_tools([path])
    assert str(error.value).startswith(str(path))
    assert "has no flat table of strings" in str(error.value)


def test_facts_of_a_device(tmp_path: Path) -> None:
    text = (
        '[device]\nname = "H200"\ncapability = "9.0"\nmultiprocessors = 132\ngpus = 8\nindex = 3\nnote = "x"\n'
        "nan = nan\n'two words' = 1\nclock = 1.5\n"
    )
    assert read_devices(cards(tmp_path, text)) == {
        "H200": DeviceFacts("9.0", {"multiprocessors": 132.0, "clock": 1.5})
    }


def test_what_cards_of_one_device_agree_on(tmp_path: Path) -> None:
    first = '[device]\nname = "H200"\ncapability = "9.0"\na = 1\nb = 2\n'
    second = '[device]\nname = "H200"\na = 1\nb = 3\nc = 4\n'
    other = '[device]\nname = "MI300X"\ncapability = "gfx942"\n'
    nameless = "[device]\na = 9\n"
    assert read_devices(cards(tmp_path, first, second, other, nameless)) == {
        "H200": DeviceFacts("9.0", {"a": 1.0, "c": 4.0}),
        "MI300X": DeviceFacts("gfx942", {}),
    }
    paths = cards(tmp_path, second, first)
    assert read_devices(paths)["H200"].capability == "9.0"
    assert read_devices(cards(tmp_path, first, first.replace("9.0", "10.0")))["H200"].capability is None


def test_a_card_of_no_device_in_the_logs_is_told() -> None:
    """A card says `NVIDIA H100`, the log the driver's name: no feature of the device was compared, without a word."""
    measured = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
    assert strangers(["NVIDIA H200"], measured) == []
    assert strangers(["NVIDIA H100", "NVIDIA H200"], measured) == [
        "the card of 'NVIDIA H100' is of no device in the logs, which have 'NVIDIA H100 80GB HBM3', 'NVIDIA H200': "
        "devices are told by their names"
    ]


def test_the_capability_of_amds_devices_is_theirs_whatever_is_switched_on(tmp_path: Path) -> None:
    """As torch says it, and so `heurgen tune`; a launcher asks for gfx942, and no selector answered for it."""
    card = '[device]\nname = "MI300X"\ncapability = "gfx942:sramecc+:xnack-"\n'
    assert read_devices(cards(tmp_path, card))["MI300X"].capability == "gfx942"


@pytest.mark.parametrize(
    "text", ["device = 3\n", "[device]\nname = 3\n", '[device]\nname = "a"\ncapability = 9.0\n']
)
def test_devices_that_are_none(tmp_path: Path, text: str) -> None:
    (path,) = cards(tmp_path, text)
    with pytest.raises(SpecError, match=str(path)):
        read_devices([path])
