"""Workload files: the scenarios to measure. Any mix of three kinds of tables:

    [[batch]]                       # ragged batches; every combination of the lists, thinned to `count`
    name = "decode"                 # starts the scenarios' ids
    count = 40                      # at most so many scenarios, spread evenly by hash; all without it
    num_seqs = [1, 8, 64]           # batch size
    tokens = [1024, 16384]          # the longest sequence attends to 60 to 100 % of these
    decode_share = 1.0              # share of the sequences that query one token; default 0
    distribution = ["uniform", "lognormal"]   # equal | uniform | lognormal | one_long; default uniform
    prefix_share = 0.0              # share of a prompt that is cached already; default 0
    query_tokens = 4                # new tokens of each prompt in place of that share: speculation
    heads = [[32, 8]]               # (query heads, KV heads)
    head_size = 128
    page_size = [16, 128]
    dtype = "bfloat16"
    max_query_tokens = 131072       # combinations beyond these are left out
    max_tokens = 4194304            # over the whole batch
    max_pairs = 1e9                 # query-key pairs under a causal mask

    [[grid]]                        # any kernel: every combination of feature values, thinned to `count`
    name = "square"
    M = [128, 1024]
    dtype = ["float16"]
    where = ["M * N <= 1e8"]        # constraints over the features

    [[scenario]]                    # one scenario, feature by feature; `heurgen advise` writes these
    id = "x"                        # optional
    num_seqs = 4
    lengths = [[1, 100], [20, 20]]  # optional; else made up from num_seqs, max_seqlen_q, max_seqlen_k, ...
    configs = [{ BLOCK_M = 16 }]    # optional: measure these configs alone

A top-level `seed` (default 0) draws other lengths and another selection. Further keys of a batch are
features of the kernel. Scenarios are the same for the same file and seed, on any machine, and ids
depend on content alone.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from random import Random
from typing import Any

from heurgen.base.errors import SpecError, quoted
from heurgen.base.text import MAX_LABEL, is_label
from heurgen.base.toml import Part, Source, Table, read_toml
from heurgen.ir import ColumnType
from heurgen.tune.batches import (
    DISTRIBUTIONS,
    attended_pairs,
    batch_features,
    draw_lengths,
    lengths_from,
)
from heurgen.tune.constraints import parse
from heurgen.tune.protocol import Scenario

MAX_SCENARIOS = 100_000
# Sequences of one batch, and of all batches that one table makes: their lengths are drawn one by one.
MAX_SEQS = 65_536
MAX_DRAWN = 20_000_000
MAX_TOKENS = 1 << 31
# What a float64, and so a training column, still holds exactly.
MAX_INT = 1 << 53
_IN_CODE = Source()
_LIMITS = ("max_query_tokens", "max_tokens", "max_pairs")
_GRID_KEYS = ("name", "count", "where")
# Keys of each kind of table that are no features, whatever the kernel calls its own.
_OWN_KEYS = {
    "batch": frozenset(("name", "count", "heads", *_LIMITS)),
    "grid": frozenset(_GRID_KEYS),
    "scenario": frozenset(("id", "lengths", "configs")),
}
_LENGTH_KEYS = ("num_seqs", "decode_share", "tokens", "distribution", "prefix_share", "query_tokens")

# Llama-3-8B shapes (32 query heads, 8 KV heads of size 128), as in section 7 of "The Anatomy of a
# Triton Attention Kernel": lengths vary inside a batch; decode, prefill (fresh and chunked) and mixed;
# 16 to 131072 tokens.
_LLAMA = {"heads": [[32, 8]], "head_size": 128, "page_size": 16, "dtype": "bfloat16", "max_tokens": 4_194_304}
LLAMA_3_8B: Mapping[str, Any] = {
    "batch": [
        {
            "name": "decode",
            "count": 50,
            "num_seqs": [1, 2, 4, 8, 16, 32, 64, 128, 256],
            "tokens": [16, 64, 256, 1024, 4096, 16384, 65536, 131072],
            "decode_share": 1.0,
            "distribution": ["uniform", "lognormal"],
            **_LLAMA,
        },
        {
            "name": "prefill",
            "count": 35,
            "num_seqs": [1, 2, 4, 8, 16, 32],
            "tokens": [16, 64, 256, 1024, 4096, 16384, 32768, 131072],
            "distribution": ["uniform", "lognormal"],
            "prefix_share": [0.0, 0.5, 0.96875],
            "max_query_tokens": 65536,
            "max_pairs": 4e8,
            **_LLAMA,
        },
        {
            "name": "mixed",
            "count": 25,
            "num_seqs": [2, 8, 32, 128],
            "tokens": [128, 512, 2048, 8192, 32768],
            "decode_share": [0.5, 0.9],
            "prefix_share": [0.0, 0.5],
            "max_query_tokens": 65536,
            "max_pairs": 4e8,
            **_LLAMA,
        },
    ]
}


@dataclass(frozen=True, slots=True)
class _Reader:
    features: Mapping[str, ColumnType]
    seed: int


def read_workload(path: Path) -> Table:
    """What a workload file holds, and where.

    Raises:
        SpecError: the file cannot be read, or is no TOML.
    """
    return read_toml(path)


def make_scenarios(
    workload: Mapping[str, Any], features: Mapping[str, ColumnType], source: Source = _IN_CODE
) -> tuple[Scenario, ...]:
    """The scenarios of a workload for a kernel with these features, in file order, equal ones once.

    `source` is the file of a workload that was read.

    Raises:
        SpecError: an unknown or missing key, a value of the wrong type, or no scenario at all.
    """
    made: dict[str, Scenario] = {}
    place: tuple[Part, ...] = ()
    try:
        reader = _Reader(features, _checked_seed(workload))
        for kind, number, table in _tables(workload):
            place = (kind, number)
            _check_given(kind, features)
            for scenario in _READERS[kind](reader, table):
                if made.setdefault(scenario.id, scenario) != scenario:
                    hint = "equal ones count once; give another id"
                    raise SpecError(f"two scenarios that differ have the id {quoted(scenario.id)}", hint=hint)
    except SpecError as error:
        place += () if error.column is None else (error.column,)
        row = source.line_of(place)
        raise SpecError(
            error.message, file=source.file, row=row, column=error.column, hint=error.hint
        ) from error
    if not made:
        raise SpecError("the workload holds no scenario", file=source.file, hint="loosen its limits")
    return tuple(made.values())


def _checked_seed(workload: Mapping[str, Any]) -> int:
    seed = workload.get("seed", 0)
    if type(seed) is not int or abs(seed) > MAX_INT:
        raise SpecError(f"seed must be a whole number, found {quoted(seed)}")
    return seed


def _tables(workload: Mapping[str, Any]) -> list[tuple[str, int, Mapping[str, Any]]]:
    """The kind, the number among its kind, and the table itself."""
    for key in workload:
        if key != "seed" and key not in _READERS:
            raise SpecError(
                f"unknown key {quoted(key)}", hint="expected seed, [[batch]], [[grid]], [[scenario]]"
            )
    for kind in _READERS:
        tables = workload.get(kind, [])
        if not isinstance(tables, Sequence) or not all(isinstance(t, Mapping) for t in tables):
            raise SpecError(f"expected [[{kind}]] tables, found {quoted(tables)}")
    return [(kind, i, table) for kind in _READERS for i, table in enumerate(workload.get(kind, []))]


def _check_given(kind: str, features: Iterable[str]) -> None:
    """SpecError for a feature with the name of a key: who gives it has given something else."""
    if taken := sorted(_OWN_KEYS[kind].intersection(features)):
        elsewhere = "give it in [[scenario]]" if taken[0] not in _OWN_KEYS["scenario"] else "rename it"
        raise SpecError(
            f"[[{kind}]] cannot give the feature {quoted(taken[0])}: it has a key of that name",
            hint=elsewhere,
        )


def _batch(reader: _Reader, table: Mapping[str, Any]) -> Iterator[Scenario]:
    name, limits = _name(table, "name", "batch"), {k: _limit(table, k) for k in _LIMITS}
    options: dict[str, list[Any]] = {
        "decode_share": [0.0],
        "distribution": ["uniform"],
        "prefix_share": [0.0],
    }
    options |= {k: _listed(v) for k, v in table.items() if k not in ("name", "count", "heads", *_LIMITS)}
    if "heads" in table:
        options["heads"] = _heads(table["heads"])
    for key in ("num_seqs", "tokens"):
        if key not in options:
            raise SpecError(f"[[batch]] {quoted(name)} needs {key}")
    unknown = sorted(set(options) - set(_LENGTH_KEYS) - {"heads"} - set(reader.features))
    unknown = [k for k in unknown if k not in ("head_size", "page_size", "dtype")]
    if unknown:
        raise SpecError(f"unknown key {quoted(unknown[0])} in [[batch]] {quoted(name)}")
    _check_batch(options)
    _check_size(options)
    made = (_one_batch(reader, name, setting, limits) for setting in _product(options))
    yield from _thinned([s for s in made if s is not None], table.get("count"), reader.seed)


def _one_batch(
    reader: _Reader, name: str, setting: Mapping[str, Any], limits: Mapping[str, float]
) -> Scenario | None:
    drawn = {k: setting[k] for k in _LENGTH_KEYS if k in setting}
    # Heads and page sizes see the same lengths, so that their scenarios can be compared.
    lengths = draw_lengths(Random(_digest([reader.seed, drawn])), **drawn)
    features = batch_features(lengths)
    counted = (features["total_query_tokens"], sum(k for _, k in lengths), attended_pairs(lengths))
    if any(n > limits[k] for k, n in zip(_LIMITS, counted, strict=True)):
        return None
    extra = {k: v for k, v in setting.items() if k not in _LENGTH_KEYS and k != "heads"}
    if "heads" in setting:
        extra["num_query_heads"], extra["num_kv_heads"] = setting["heads"]
    return _scenario(reader, name, {**features, **extra}, lengths)


def _grid(reader: _Reader, table: Mapping[str, Any]) -> Iterator[Scenario]:
    name, where = _name(table, "name", "grid"), [parse(text) for text in _listed(table.get("where", []))]
    options = {k: _listed(v) for k, v in table.items() if k not in _GRID_KEYS}
    _check_spelling(options, reader.features, name)
    for constraint in where:
        if unknown := sorted(constraint.names - set(options)):
            raise SpecError(
                f"the constraint {quoted(constraint.text)} reads {quoted(unknown[0])}",
                hint=f"which is no key of [[grid]] {quoted(name)}",
            )
    rows = [row for row in _product(options) if all(c.holds(row) for c in where)]
    made = [_scenario(reader, name, row, _made_up(row)) for row in rows]
    yield from _thinned(made, table.get("count"), reader.seed)


def _check_spelling(options: Mapping[str, Any], features: Mapping[str, ColumnType], name: str) -> None:
    """SpecError for a key that is nearly one of the table's: taken as a further feature, which a kernel need not name,
    `wheres` would limit nothing.
    """
    for key in options:
        if key not in features and (meant := get_close_matches(key[:100], _GRID_KEYS, n=1, cutoff=0.8)):
            hint = f"did you mean {quoted(meant[0])}?"
            raise SpecError(f"unknown key {quoted(key)} in [[grid]] {quoted(name)}", hint=hint)


def _explicit(reader: _Reader, table: Mapping[str, Any]) -> Iterator[Scenario]:
    features = {k: v for k, v in table.items() if k not in ("id", "lengths", "configs")}
    given = table.get("lengths")
    lengths = _made_up(features) if given is None else _checked_lengths(given)
    made = _scenario(reader, "scenario", features, lengths)
    configs = table.get("configs", ())
    if not isinstance(configs, list | tuple) or not all(_is_config(c) for c in configs):
        raise SpecError(f"configs must be a list of tables of plain values, found {quoted(configs)}")
    yield Scenario(_name(table, "id", made.id), made.features, made.lengths, made.seed, tuple(configs))


# The kinds of tables, in the order of their scenarios.
_READERS = {"batch": _batch, "grid": _grid, "scenario": _explicit}


def _made_up(features: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    needed = {"num_seqs": MAX_SEQS, "max_seqlen_q": MAX_TOKENS, "max_seqlen_k": MAX_TOKENS}
    if not all(k in features for k in needed):
        return ()
    for key, most in needed.items():
        if type(features[key]) is not int or not 1 <= features[key] <= most:
            raise SpecError(
                f"expected a whole number of 1 to {most}, found {quoted(features[key])}", column=key
            )
    for key in ("decode_share", "total_query_tokens", "avg_seqlen_q", "total_seqlen_k", "avg_seqlen_k"):
        if key in features and not (_is_number(features[key]) and abs(features[key]) <= MAX_INT):
            raise SpecError(f"expected a number, found {quoted(features[key])}", column=key)
    return lengths_from(features)


def _scenario(
    reader: _Reader, name: str, features: Mapping[str, Any], lengths: tuple[tuple[int, int], ...]
) -> Scenario:
    known = {**features, **(batch_features(lengths) if lengths else {})}
    if lengths and "total_seqlen_k" in reader.features:  # for those who ask: ids are hashes of what is known
        known["total_seqlen_k"] = sum(k for _, k in lengths)
    missing = [k for k in reader.features if k not in known]
    if missing:
        raise SpecError(f"a scenario lacks the feature {quoted(missing[0])}", hint="give it in the workload")
    typed = {k: _typed(k, v, reader.features.get(k)) for k, v in known.items()}
    content = _digest([typed, lengths])
    return Scenario(f"{name}-{content[:10]}", typed, lengths, int(content[:8], 16))


def _typed(name: str, value: Any, kind: ColumnType | None) -> Any:
    match kind:
        case "int" if _is_number(value) and value == int(value) and abs(value) <= MAX_INT:
            return int(value)
        case "float" if _is_number(value):
            return float(value)
        case "bool" if type(value) is bool:
            return value
        case "category" if type(value) is str and value.strip() == value != "" and value.isprintable():
            return value
        case None if type(value) in (bool, str) or _is_number(value):
            return value
    expected = "plain value" if kind is None else f"value of a feature of type {kind}"
    raise SpecError(f"{quoted(value)} is no {expected}", column=name)


def _is_number(value: Any) -> bool:
    """Whether it is a finite number that a float holds; bools are none."""
    try:
        return type(value) in (int, float) and math.isfinite(float(value))
    except OverflowError:
        return False


def _is_config(value: Any) -> bool:
    return isinstance(value, Mapping) and all(type(v) in (bool, str) or _is_number(v) for v in value.values())


def _name(table: Mapping[str, Any], key: str, default: str) -> str:
    """A scenario's id, or the start of ids: a cell of the log that reads as itself."""
    name = table.get(key, default)
    if not (isinstance(name, str) and is_label(name)):
        raise SpecError(
            f"expected 1 to {MAX_LABEL} printable characters without spaces around them, found {quoted(name)}",
            column=key,
        )
    return name


def _limit(table: Mapping[str, Any], key: str) -> float:
    value = table.get(key, math.inf)
    if value != math.inf and not (_is_number(value) and value > 0):
        raise SpecError(f"expected a number above 0, found {quoted(value)}", column=key)
    return float(value)


def _thinned(scenarios: list[Scenario], count: Any, seed: int) -> list[Scenario]:
    if count is None or (type(count) is int and count >= len(scenarios)):
        return scenarios
    if type(count) is not int or count < 1:
        raise SpecError(f"count must be a whole number above 0, found {quoted(count)}")
    kept = set(sorted((s.id for s in scenarios), key=lambda i: _digest([seed, i]))[:count])
    return [s for s in scenarios if s.id in kept]


def _product(options: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    size = math.prod(len(v) for v in options.values())
    if size > MAX_SCENARIOS:
        raise SpecError(f"{size} combinations, expected at most {MAX_SCENARIOS}")
    return (dict(zip(options, values, strict=True)) for values in itertools.product(*options.values()))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _heads(value: Any) -> list[Any]:
    pairs = value if isinstance(value, list) and value and isinstance(value[0], list | tuple) else [value]
    for pair in pairs:
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and _divides(*pair)):
            raise SpecError(f"heads must be [query heads, KV heads], a multiple each, found {quoted(pair)}")
    return pairs


def _divides(query: Any, kv: Any) -> bool:
    return type(query) is int and type(kv) is int and 0 < kv <= query and query % kv == 0


def _check_batch(options: Mapping[str, list[Any]]) -> None:
    for key in ("num_seqs", "tokens", "query_tokens"):
        for value in options.get(key, ()):
            most = MAX_SEQS if key == "num_seqs" else MAX_TOKENS
            if type(value) is not int or value < 1:
                raise SpecError(f"expected a whole number above 0, found {quoted(value)}", column=key)
            if value > most:
                raise SpecError(f"expected at most {most}, found {quoted(value)}", column=key)
    for key in ("decode_share", "prefix_share"):
        for value in options[key]:
            if type(value) not in (int, float) or not 0 <= value <= 1:
                raise SpecError(f"expected a share of 0 to 1, found {quoted(value)}", column=key)
    for value in options["distribution"]:
        if value not in DISTRIBUTIONS:
            raise SpecError(
                f"expected one of {', '.join(DISTRIBUTIONS)}, found {quoted(value)}", column="distribution"
            )


def _check_size(options: Mapping[str, list[Any]]) -> None:
    """Refuse what would be drawn for minutes: the sum of `num_seqs` over all combinations."""
    others = math.prod(len(v) for k, v in options.items() if k != "num_seqs")
    if (drawn := others * sum(options["num_seqs"])) > MAX_DRAWN:
        raise SpecError(
            f"the batches hold {drawn} sequences, expected at most {MAX_DRAWN}", column="num_seqs"
        )


def _checked_lengths(value: Any) -> tuple[tuple[int, int], ...]:
    pairs = (
        [tuple(p) if isinstance(p, list | tuple) else () for p in value]
        if isinstance(value, list | tuple)
        else []
    )
    sound = [
        len(p) == 2 and all(type(n) is int for n in p) and 1 <= p[0] <= p[1] <= MAX_TOKENS for p in pairs
    ]
    if not pairs or not all(sound) or len(pairs) > MAX_SEQS:
        raise SpecError(
            "expected [[query tokens, tokens attended to], ...], 1 <= query <= all", column="lengths"
        )
    return tuple((p[0], p[1]) for p in pairs)


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
