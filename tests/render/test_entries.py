"""What `select` and `shortlist` have in common."""

from __future__ import annotations

import pytest

from heurgen.render import names
from heurgen.render.entries import has_devices, signature, tables
from heurgen.render.text import Code
from tests.render.examples import by_device, listing2, spellings


def test_where_a_launch_runs_is_asked_as_far_as_it_matters() -> None:
    returns = Code("Config")
    plain = signature(listing2(), names.plan(listing2()), "select", returns)
    assert plain == (
        "def select(\n    *,\n    vendor: str,\n    num_seqs: int,\n    max_seqlen_q: int,\n"
        "    avg_seqlen_q: float,\n    max_seqlen_k: int,\n) -> Config:"
    )
    devices = signature(by_device(), names.plan(by_device()), "shortlist", returns).split("\n")
    assert devices[:5] == [
        "def shortlist(",
        "    *,",
        "    vendor: str,",
        "    device: str | None = None,",
        "    num_seqs: int,",
    ]
    capable = signature(spellings(), names.plan(spellings()), "select", returns).split("\n")
    assert capable[3:6] == [
        "    device: str | None = None,",
        "    capability_: str | None = None,",
        "    capability: int,",
    ]
    assert [has_devices(m) for m in (listing2(), by_device(), spellings())] == [False, True, True]


@pytest.mark.parametrize("entry", ["select", "shortlist"])
def test_devices_and_capabilities_are_looked_up_with_their_vendor(entry: str) -> None:
    found = tables(spellings(), names.plan(spellings()), entry, Code("Config"))
    prefix = {"select": "", "shortlist": "_SHORTLISTS"}[entry]
    table = {"select": "SELECTORS", "shortlist": "SHORTLISTS"}[entry]
    assert found.by_vendor == (
        f'{table}: dict[str, Callable[..., Config]] = {{"nvidia": {entry}_nvidia, "amd": {entry}_amd}}'
    )
    assert (found.by_device or "").split("\n") == [
        f"{prefix}_BY_DEVICE: dict[tuple[str, str], Callable[..., Config]] = {{",
        f'    ("nvidia", "NVIDIA A100"): {entry}_nvidia_a100,',
        f'    ("nvidia", "NVIDIA H100"): {entry}_nvidia_h100,',
        f'    ("nvidia", "NVIDIA H200"): {entry}_nvidia_h200,',
        "}",
    ]
    assert (found.by_capability or "").split("\n") == [
        f"{prefix}_BY_CAPABILITY: dict[tuple[str, str], Callable[..., Config]] = {{",
        f'    ("nvidia", "8.0"): {entry}_nvidia_a100,',
        f'    ("nvidia", \'9.0"\'): {entry}_nvidia_h100,',
        "}",
    ]


def test_without_devices_there_is_one_table() -> None:
    found = tables(listing2(), names.plan(listing2()), "select", Code("Config"))
    assert (found.by_device, found.by_capability) == (None, None)
    found = tables(by_device(), names.plan(by_device()), "select", Code("Config"))
    assert (found.by_device is None, found.by_capability) == (False, None)
