"""Independent sweeps of one kernel as one log: shards of a workload, or workloads that follow each other.

The result is the same whatever the order of the logs, and whatever was merged before. A line that stands in several
logs, as often as in the log that has it most often, is one measurement that was copied; all others are kept, so a
cell that was measured twice has two rows, which count as repeats. Lines are sorted.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heurgen.base.errors import LogError, UsageError, quoted
from heurgen.base.reading import read_text
from heurgen.base.text import counted
from heurgen.base.writing import is_special, write_all
from heurgen.logs.card import FIRST, LAST
from heurgen.tune.cards import COUNTED, Card, card_text, cards_of, path_for
from heurgen.tune.protocol import DeviceInfo
from heurgen.tune.resume import csv_text

MAX_BYTES = 1 << 31
SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")  # of a card, bounded as what may be a hostile one
# What cards of one device must share: other times cannot stand beside each other.
_AGREE = (("tools", None), ("method", None), ("log", "kernel"), ("log", "source_sha256"))


@dataclass(frozen=True, slots=True)
class Merged:
    """What was written. `copies` are lines that more than one log had, `missing` shards ("2/3") of those that were
    merged, where all logs are shards.
    """

    log: Path
    cards: tuple[Path, ...]
    rows: int
    scenarios: int
    copies: int
    missing: tuple[str, ...]


def merge(logs: Sequence[Path], output: Path) -> Merged:
    """Write one log, and a card for each device in it; none beside a device or a pipe (/dev/stdout).

    Raises:
        LogError: a log is none of the tuner's, has other columns, or a scenario with other features.
        UsageError: a log has no card, or cards disagree on the kernel's source, tools or method; or beside the output
            is the card of a device that none of the logs has.
    """
    header = _header(logs[0])
    counts: Counter[tuple[str, ...]] = Counter()
    features: dict[tuple[str, ...], tuple[tuple[str, ...], Path, int]] = {}
    total = 0
    for log in logs:
        rows = _rows(log, header, features)
        total += sum(rows.values())
        counts |= rows  # of each line the larger count
    cards = _cards(logs, output)  # which must agree, also where none is written
    if is_special(output):
        cards = {}
    elif stale := sorted(set(cards_of(output)) - set(cards)):
        hint = "remove it where its log is gone, or choose another name"
        raise UsageError("the card of another log is here", file=stale[0], hint=hint)
    missing = _missing([card for log in logs for card in cards_of(log).values()])
    lines = sorted(counts.elements(), key=lambda row: (row[1:3], row[0], row))
    texts = {output: csv_text([header, *lines])} | {path: card_text(card) for path, card in cards.items()}
    write_all(texts)
    names = {(row[0], row[1], row[2]) for row in counts}
    return Merged(output, tuple(cards), counts.total(), len(names), total - counts.total(), missing)


def _missing(cards: Sequence[Card]) -> tuple[str, ...]:
    """Shards of the workloads that none of the cards is of; none where a card is of no shard: it may hold them."""
    found: dict[tuple[str, int], set[int]] = {}
    for card in cards:
        match = SHARD.fullmatch(str(card["log"].get("shard")))
        if match is None:
            return ()
        key = (str(card["log"].get("workload_sha256")), int(match[2]))
        found.setdefault(key, set()).add(int(match[1]))
    return tuple(
        f"{k}/{n}" for (_, n), there in sorted(found.items()) for k in range(1, n + 1) if k not in there
    )


def _header(log: Path) -> tuple[str, ...]:
    header = _read(log)[0]
    if tuple(header[:3]) != FIRST or tuple(header[-3:]) != LAST or len(set(header)) != len(header):
        hint = "merge is for logs of heurgen tune; train takes several logs of any kind"
        raise LogError("this is no log of the tuner", file=log, row=1, hint=hint)
    return tuple(header)


def _read(log: Path) -> list[list[str]]:
    try:
        records = list(csv.reader(io.StringIO(read_text(log, LogError, MAX_BYTES), newline=""), strict=True))
    except csv.Error as error:
        raise LogError(f"this is no CSV: {error}", file=log) from error
    if not records:
        raise LogError("the log is empty", file=log)
    return records


def _rows(
    log: Path,
    header: tuple[str, ...],
    features: dict[tuple[str, ...], tuple[tuple[str, ...], Path, int]],
) -> Counter[tuple[str, ...]]:
    """A log's lines with their counts, in the order of the header; checks that scenarios mean the same."""
    own, *records = _read(log)
    if sorted(own) != sorted(header):
        other = sorted(set(own) ^ set(header))[0] if set(own) != set(header) else own[0]
        raise LogError("the columns are not those of the first log", file=log, row=1, column=other)
    place = [own.index(name) for name in header]
    parameters = _parameters(log)
    columns = list(enumerate(header[3:-3], start=3))
    given = [i for i, name in columns if parameters is not None and name not in parameters]
    found: Counter[tuple[str, ...]] = Counter()
    for line, record in enumerate(records, start=2):
        if len(record) != len(header):
            raise LogError(
                f"found {counted(len(record), 'cell')}, expected {len(header)}", file=log, row=line
            )
        row = tuple(record[i] for i in place)
        found[row] += 1
        values, path, first = features.setdefault(row[:3], (tuple(row[i] for i in given), log, line))
        if given and values and values != tuple(row[i] for i in given):
            message = f"scenario {quoted(row[0])} has other features than on line {first} of {path}"
            raise LogError(message, file=log, row=line)
    return found


def _parameters(log: Path) -> frozenset[str] | None:
    """The columns that are parameters, as the cards say; None where they are too old to say so."""
    for card in cards_of(log).values():
        names = card["log"].get("parameters")
        return None if names is None else frozenset(map(str, names))
    raise UsageError("the log has no card beside it", file=log, hint="it says how the times were taken")


def _cards(logs: Sequence[Path], output: Path) -> dict[Path, Card]:
    """One card a device over all logs, with the paths that they get beside the output."""
    merged: dict[tuple[str, str], tuple[Path, Card]] = {}
    for log in logs:
        for path, card in cards_of(log).items():
            key = (str(card["device"].get("vendor")), str(card["device"].get("name")))
            first = merged.setdefault(key, (path, card))
            _check(first, (path, card), same_device=True)
            merged[key] = (first[0], _joined(first[1], card))
    firsts = list(merged.values())
    for other in firsts[1:]:
        _check(firsts[0], other, same_device=False)
    paths: dict[Path, Card] = {}
    for (vendor, name), (_, card) in sorted(merged.items()):
        paths[path_for(output, DeviceInfo(vendor, name), paths)] = card
    return paths


def _check(a: tuple[Path, Card], b: tuple[Path, Card], *, same_device: bool) -> None:
    for table, key in _AGREE:
        if table == "tools" and not same_device:
            continue
        for name in sorted({*a[1][table], *b[1][table]}) if key is None else [key]:
            if a[1][table].get(name) != b[1][table].get(name):
                raise UsageError(
                    f"{table} {name} is {quoted(b[1][table].get(name))}, but "
                    f"{quoted(a[1][table].get(name))} in {a[0]}",
                    file=b[0],
                    hint="such times cannot stand in one log",
                )


def _joined(a: Card, b: Card) -> Card:
    """Two cards of one device as one: what differs between their sweeps is left out."""
    log: dict[str, Any] = {k: v for k, v in a["log"].items() if b["log"].get(k) == v and k != "shard"}
    for name, of in COUNTED.items():
        if of not in log:
            log.pop(name, None)
    tables: dict[str, Mapping[str, Any]] = {**a, "log": log}
    if a.get("conditions") != b.get("conditions"):
        tables.pop("conditions", None)
    gpus = [int(c["device"].get("gpus", 1)) for c in (a, b)]
    tables["device"] = {**a["device"], "gpus": max(gpus)}
    return tables
