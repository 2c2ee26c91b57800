"""The card beside a log: LOG.card.toml says what measured it, and how. It is written before the first row.

[device]   vendor, name, driver, capability, ...; gpus: the most of them that measured at once
[tools]    a flat table of texts: versions that the times depend on; heurgen puts it into provenance
[method]   how the times were taken
[log]      the kernel and the hashes that --resume compares
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from heurgen._version import __version__
from heurgen.card import INTERPRETER
from heurgen.errors import UsageError, printable, quoted
from heurgen.tune.protocol import DeviceInfo
from heurgen.tune.timing import Method

Card: TypeAlias = Mapping[str, Mapping[str, Any]]
_EVENTS = (
    "device events around one launch after zeroing 1 GiB, host ahead of the device; configs take turns; "
    "a row is the median of its samples; losers are timed once; the best few have several rows"
)
_HOST = "host clock around one launch in Triton's interpreter on the CPU: says nothing about a GPU"


def card_path(log: Path) -> Path:
    """`h200.csv` -> `h200.card.toml`."""
    return log.with_name((log.name.removesuffix(".csv") or log.name) + ".card.toml")


def make_card(device: DeviceInfo, method: Method, log: Mapping[str, Any]) -> Card:
    """The card of a sweep; `log` is the [log] table."""
    interpreted = device.name == INTERPRETER
    tools = {**device.tools, "heurgen": __version__}
    if device.driver:
        tools["driver"] = device.driver
    facts = {k: v for k, v in asdict(device).items() if k != "tools" and v not in ("", 0)}
    timing = {**asdict(method), "few": list(method.few)}
    about = {"interpreted": interpreted, "timing": _HOST if interpreted else _EVENTS}
    return {"device": facts, "tools": dict(sorted(tools.items())), "method": {**about, **timing}, "log": log}


def write_card(path: Path, card: Card) -> None:
    """Write the card in one step."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(card_text(card), encoding="utf-8")
    os.replace(draft, path)


def card_text(card: Card) -> str:
    """A card as TOML."""
    tables = []
    for table, entries in card.items():
        tables.append(f"[{table}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in entries.items()))
    return "\n".join(tables)


def continue_card(path: Path, card: Card) -> None:
    """Compare the card at `path` with that of the sweep which goes on with its log, on any number of GPUs.

    Raises:
        UsageError: they are not of the same device, tools, kernel, workload, space and method.
    """
    old = _checked(path, card)
    gpus = int(card["device"]["gpus"])
    before = old["device"].get("gpus", 1)
    if type(before) is not int or before < gpus:
        write_card(path, {**old, "device": {**old["device"], "gpus": gpus}})


def _checked(path: Path, card: Card) -> Card:
    try:
        old = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot resume without the log's card: {error}", file=path) from error
    new = tomllib.loads(card_text(card))
    for table in ("device", "tools", "log", "method"):
        before, now = old.get(table, {}), new[table]
        for key in sorted(set(before) | set(now)):
            if before.get(key) != now.get(key) and (table, key) != ("device", "gpus"):
                raise UsageError(
                    f"cannot resume: {table} {key} was {quoted(before.get(key))}, is {quoted(now.get(key))}",
                    file=path,
                    hint="such times cannot be compared; start a new log",
                )
    return old


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    text = printable(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
