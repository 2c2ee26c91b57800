"""The card beside a log: LOG.card.toml says what measured it, and how. It is written before the first row.

[device]   vendor, name, driver, capability, ...; gpus: the most of them that measured at once
[tools]    a flat table of texts: versions that the times depend on; heurgen puts it into provenance
[method]   how the times were taken
[log]      the kernel and the hashes that --resume compares
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from heurgen._version import __version__
from heurgen.base import toml
from heurgen.base.errors import SpecError, UsageError, quoted
from heurgen.base.writing import write_atomic
from heurgen.logs.card import INTERPRETER, card_path, log_stem
from heurgen.tune.protocol import DeviceInfo
from heurgen.tune.timing import Method

# What cards say by saying nothing: those before there was a choice.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "method": {"mode": "eager", "graph_launches": 5, "most_repeats": 3}
}
# What a sweep may change of a card that it goes on with.
CHANGES = {("device", "gpus")}
# What a sweep goes through, and which of its numbers count it: a card that joins several sweeps has neither.
HASHES = {"workload_sha256": "workloads", "space_sha256": "spaces of configs"}
COUNTED = {"scenarios": "workload_sha256", "configs": "space_sha256"}
# What the words of the command ask for, and the times have nothing to do with.
_ASKS = {("log", key) for key in ("workload_sha256", "space_sha256", "scenarios", "configs")}
_ASKS |= {("log", key) for key in ("parameters", "shard", "target_slowdown")}
_ASKED = "resume with the options that it began with; other ones take a new log, and merge joins the two"
Card: TypeAlias = Mapping[str, Mapping[str, Any]]
_EVENTS = (
    "device events around one launch after reading 1 GiB, host ahead of the device; configs take turns; "
    "a row is the median of its samples; losers are timed once; the best few have several rows"
)
_GRAPH = (
    "device events around each of the launches of a recorded graph, each after reading 1 GiB in the graph; a sample is "
    "the median of a replay; configs take turns; a row is the median of its samples; losers are timed once; the best "
    "few have several rows"
)
_HOST = "host clock around one launch in Triton's interpreter on the CPU: says nothing about a GPU"


def cards_of(log: Path) -> dict[Path, Card]:
    """The cards beside a log, by path: one for each device in it.

    Raises:
        UsageError: one cannot be read, or is no card.
    """
    others = sorted(log.parent.glob(f"{glob.escape(log_stem(log))}.card.*.toml"))
    return {path: read_card(path) for path in (card_path(log), *others) if os.path.exists(path)}


def path_for(log: Path, device: DeviceInfo, cards: Mapping[Path, Card]) -> Path:
    """Where a device's card is, or will be: `h200.card.toml` for the first, `h200.card.nvidia-h100.toml` for others."""
    for path, card in cards.items():
        if (card["device"].get("vendor"), card["device"].get("name")) == (device.vendor, device.name):
            return path
    slug = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-") or device.vendor
    names = [card_path(log), log.parent / f"{log_stem(log)}.card.{slug}.toml"]
    names += [log.parent / f"{log_stem(log)}.card.{slug}-{i}.toml" for i in range(2, 100)]
    return next(path for path in names if path not in cards)


def make_card(device: DeviceInfo, method: Method, log: Mapping[str, Any]) -> Card:
    """The card of a sweep; `log` is the [log] table."""
    interpreted = device.name == INTERPRETER
    tools = {**device.tools, "heurgen": __version__}
    if device.driver:
        tools["driver"] = device.driver
    facts = {k: v for k, v in asdict(device).items() if k != "tools" and v not in ("", 0)}
    timing = {**asdict(method), "few": list(method.few)}
    how = _HOST if interpreted else _GRAPH if method.mode == "graph" else _EVENTS
    about = {"interpreted": interpreted, "timing": how}
    return {"device": facts, "tools": dict(sorted(tools.items())), "method": {**about, **timing}, "log": log}


def write_card(path: Path, card: Card) -> None:
    """Write the card in one step.

    Raises:
        EmitError: the folder is missing or read-only, or the disk is full.
    """
    write_atomic(path, card_text(card))


def card_text(card: Card) -> str:
    """A card as TOML."""
    tables = []
    for table, entries in card.items():
        tables.append(
            f"[{table}]\n" + "".join(f"{toml.key(k)} = {toml.value(v)}\n" for k, v in entries.items())
        )
    return "\n".join(tables)


def check_card(path: Path, old: Card, card: Card) -> None:
    """Compare the card of a log with that of a sweep which is to go on with it, on any number of GPUs.

    Raises:
        UsageError: they are not of the same device, tools, kernel, workload, space and method, or the log joins sweeps
            of several.
    """
    new = toml.parse_toml(card_text(card)).data
    _check_one_sweep(path, old, card)
    for table in ("device", "tools", "log", "method"):
        before, now = {**DEFAULTS.get(table, {}), **old[table]}, new[table]
        for key in sorted(set(before) | set(now)):
            if before.get(key) != now.get(key) and (table, key) not in CHANGES:
                raise UsageError(
                    f"cannot resume: {table} {key} was {quoted(before.get(key))}, is {quoted(now.get(key))}",
                    file=path,
                    hint=_ASKED
                    if (table, key) in _ASKS
                    else "such times cannot be compared; start a new log",
                )


def _check_one_sweep(path: Path, old: Card, card: Card) -> None:
    for key, what in HASHES.items():
        if key in card["log"] and key not in old["log"]:
            raise UsageError(
                f"cannot resume: the log joins sweeps of several {what}",
                file=path,
                hint="sweep what is missing into a new log; merge joins the two",
            )


# What cards of one log have in common, whatever their devices. The space's hash is over the configs of a vendor.
_COMMON = ("kernel", "target", "source_sha256", "workload_sha256", "scenarios", "shard", "target_slowdown")


def check_sweep(path: Path, other: Card, card: Card) -> None:
    """Compare the card of another device in a log with that of one which joins.

    Raises:
        UsageError: kernel, workload or method are not the same, or the log joins sweeps of several workloads or spaces.
    """
    _check_one_sweep(path, other, card)
    new = toml.parse_toml(card_text(card)).data
    pairs = [("log", key) for key in _COMMON] + [("method", key) for key in new["method"]]
    for table, key in pairs:
        if other[table].get(key) != new[table].get(key):
            raise UsageError(
                f"{quoted(new['device']['name'])} cannot join the log: {table} {key} is "
                f"{quoted(other[table].get(key))} on {quoted(other['device'].get('name'))}, here "
                f"{quoted(new[table].get(key))}",
                file=path,
                hint="such times cannot be compared; start a new log",
            )


def read_card(path: Path) -> Card:
    """A card that `write_card` wrote.

    Raises:
        UsageError: it cannot be read, lacks a table, or what is counted or listed in it is none.
    """
    try:
        top = toml.read_toml(path)
        for table in ("device", "tools", "log", "method"):
            if not isinstance(top.data.get(table), dict):
                raise UsageError(f"the log's card has no table [{table}]", file=path)
        top.table("device").integer("gpus", 1, low=1)
        top.table("log").texts("parameters", ())
    except SpecError as error:
        message = f"cannot read the log's card: {error.message}"
        raise UsageError(message, file=path, row=error.row, column=error.column) from error
    return top.data
