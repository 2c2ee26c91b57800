from __future__ import annotations

import datetime
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import SpecError, quoted
from heurgen.base.toml import Source
from heurgen.ir import ColumnType
from heurgen.tune.batches import attended_pairs, batch_features
from heurgen.tune.workloads import LLAMA_3_8B, make_scenarios, read_workload

FEATURES: dict[str, ColumnType] = {
    "num_seqs": "int",
    "total_query_tokens": "int",
    "max_seqlen_q": "int",
    "avg_seqlen_q": "float",
    "max_seqlen_k": "int",
    "avg_seqlen_k": "float",
    "decode_share": "float",
    "num_query_heads": "int",
    "num_kv_heads": "int",
    "head_size": "int",
    "page_size": "int",
    "dtype": "category",
}
BATCH: dict[str, Any] = {
    "num_seqs": [1, 4, 16],
    "tokens": [100, 1000],
    "decode_share": [0.0, 0.5, 1.0],
    "heads": [[32, 8], [28, 4]],
    "head_size": 128,
    "page_size": [16, 784],
    "dtype": "bfloat16",
}

EXPLICIT: dict[str, Any] = {
    "lengths": [[1, 7], [5, 5]],
    "num_query_heads": 32,
    "num_kv_heads": 8,
    "head_size": 128,
    "page_size": 16,
    "dtype": "bfloat16",
}


def test_an_equal_scenario_counts_once() -> None:
    twice = {"scenario": [{**EXPLICIT, "id": "x"}, {**EXPLICIT, "id": "x"}]}
    assert [s.id for s in make_scenarios(twice, FEATURES)] == ["x"]


def test_the_default_workload_covers_llama() -> None:
    scenarios = make_scenarios(LLAMA_3_8B, FEATURES)
    assert 100 <= len(scenarios) <= 120
    assert len({s.id for s in scenarios}) == len(scenarios)
    longest = [int(s.features["max_seqlen_k"]) for s in scenarios]
    assert min(longest) <= 16
    assert 65536 < max(longest) <= 131072
    assert {s.features["num_query_heads"] for s in scenarios} == {32}
    assert {s.id.split("-")[0] for s in scenarios} == {"decode", "prefill", "mixed"}
    assert sum(len(set(s.lengths)) > 1 for s in scenarios) > 0.7 * len(scenarios)
    assert any(1 < 4 * q < k for s in scenarios for q, k in s.lengths)
    assert all(attended_pairs(s.lengths) <= 4e8 for s in scenarios if not s.id.startswith("decode"))


def test_every_kind_of_batch() -> None:
    scenarios = make_scenarios({"batch": [BATCH]}, FEATURES)
    assert len(scenarios) == 3 * 2 * 3 * 2 * 2
    for scenario in scenarios:
        assert scenario.features == {**scenario.features, **batch_features(scenario.lengths)}
        assert all(1 <= q <= k <= 1000 for q, k in scenario.lengths)
    by_lengths = {s.lengths for s in scenarios}
    assert len(by_lengths) == len(scenarios) / 4  # heads and pages see the same lengths


def test_all_keys_of_a_batch_for_those_who_ask() -> None:
    """Not for others: scenario ids are hashes of what is known, and logs are resumed by them."""
    plain = make_scenarios({"batch": [BATCH]}, FEATURES)
    assert all("total_seqlen_k" not in s.features for s in plain)
    for scenario in make_scenarios({"batch": [BATCH]}, {**FEATURES, "total_seqlen_k": "int"}):
        assert scenario.features["total_seqlen_k"] == sum(k for _, k in scenario.lengths)


def test_prefix_share_and_distributions() -> None:
    table = {**BATCH, "decode_share": 0.0, "tokens": 4096, "num_seqs": 8, "page_size": 16, "heads": [8, 8]}
    for name in ("equal", "uniform", "lognormal", "one_long"):
        (scenario,) = make_scenarios(
            {"batch": [{**table, "distribution": name, "prefix_share": 0.75}]}, FEATURES
        )
        assert scenario.features["num_kv_heads"] == 8
        assert all(q == max(1, k - int(k * 0.75)) for q, k in scenario.lengths)
        ks = sorted(k for _, k in scenario.lengths)
        assert (ks[-1] == 4096) == (name == "equal")
        if name == "one_long":
            assert ks[-2] <= ks[-1] / 7
        if name == "uniform":
            assert ks[0] >= ks[-1] / 2 - 1


def test_count_thins_evenly_and_keeps_ids() -> None:
    everything = make_scenarios({"batch": [BATCH]}, FEATURES)
    few = make_scenarios({"batch": [{**BATCH, "count": 20}]}, FEATURES)
    assert len(few) == 20
    assert {s.id for s in few} < {s.id for s in everything}
    other = make_scenarios({"seed": 1, "batch": [{**BATCH, "count": 20}]}, FEATURES)
    assert {s.id for s in few} != {s.id for s in other}


def test_limits() -> None:
    table = {**BATCH, "max_query_tokens": 1500, "max_tokens": 5000, "max_pairs": 1e6}
    scenarios = make_scenarios({"batch": [table]}, FEATURES)
    assert 0 < len(scenarios) < 64
    assert all(s.features["total_query_tokens"] <= 1500 for s in scenarios)  # type: ignore[operator]
    assert all(sum(k for _, k in s.lengths) <= 5000 and attended_pairs(s.lengths) <= 1e6 for s in scenarios)


def test_the_same_on_any_machine(tmp_path: Path) -> None:
    code = (
        "from heurgen.tune.workloads import *; from tests.tune.test_workloads import FEATURES;"
        "print([(s.id, s.seed, s.lengths) for s in make_scenarios(LLAMA_3_8B, FEATURES)])"
    )
    root = str(Path(__file__).parents[2])
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": root},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = [(s.id, s.seed, s.lengths) for s in make_scenarios(LLAMA_3_8B, FEATURES)]
    assert there == f"{here}\n"


def test_grid() -> None:
    features: dict[str, ColumnType] = {"M": "int", "K": "float", "flag": "bool"}
    table = {"name": "g", "M": [1, 2], "K": [1, 2.5], "flag": True, "where": "M * K < 5"}
    scenarios = make_scenarios({"grid": [table]}, features)
    assert [dict(s.features) for s in scenarios] == [
        {"M": 1, "K": 1.0, "flag": True},
        {"M": 1, "K": 2.5, "flag": True},
        {"M": 2, "K": 1.0, "flag": True},
    ]
    assert all(s.id.startswith("g-") and s.lengths == () for s in scenarios)


def test_explicit_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        """
        [[scenario]]
        id = "mine"
        num_seqs = 4
        max_seqlen_q = 100
        max_seqlen_k = 1000
        avg_seqlen_q = 40.0
        avg_seqlen_k = 500
        decode_share = 0.5
        [[scenario]]
        lengths = [[1, 7], [5, 5]]
        configs = [{ BLOCK_M = 16 }]
        """
    )
    wanted: dict[str, ColumnType] = {k: v for k, v in FEATURES.items() if "seqlen" in k or k == "num_seqs"}
    one, two = make_scenarios(read_workload(path).data, wanted)
    assert one.id == "mine"
    assert one.lengths == ((100, 1000), (58, 334), (1, 333), (1, 333))
    assert one.features["avg_seqlen_q"] == 40.0
    assert two.features["max_seqlen_k"] == 7
    assert two.configs == ({"BLOCK_M": 16},)


def test_a_launch_of_traffic_is_measured_as_it_was() -> None:
    """`advise --traffic` writes what a selector was asked, which says how many tokens were attended to in all."""
    asked = {"num_seqs": 40, "max_seqlen_q": 1, "total_query_tokens": 40, "max_seqlen_k": 5000}
    asked["total_seqlen_k"] = 120000
    (made,) = make_scenarios({"scenario": [asked]}, dict.fromkeys(asked, "int"))
    assert {name: made.features[name] for name in asked} == asked
    assert sum(attended for _, attended in made.lengths) == 120000


@pytest.mark.parametrize(
    ("key", "meant"), [("wher", "where"), ("wheres", "where"), ("counts", "count"), ("nam", "name")]
)
def test_a_misspelt_limit_of_a_grid_is_no_feature(key: str, meant: str) -> None:
    """It was one that the kernel does not name, and all scenarios were measured."""
    features: dict[str, ColumnType] = {"m": "int"}
    with pytest.raises(SpecError) as error:
        make_scenarios({"grid": [{"m": [1, 2], key: ["m > 1"]}]}, features)
    assert str(error.value) == f"unknown key '{key}' in [[grid]] 'grid' (did you mean '{meant}'?)"
    for own in (features | {key: "int"}, features):  # the kernel's own name, and one that is like none
        make_scenarios({"grid": [{"m": [1, 2], key if key in own else "amount": 1}]}, own)


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("grid", "count", "give it in [[scenario]]"),
        ("batch", "heads", "give it in [[scenario]]"),
        ("scenario", "id", "rename it"),
    ],
)
def test_a_feature_with_the_name_of_a_key_is_not_said_to_be_left_out(kind: str, name: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_scenarios({kind: [{name: [1, 2]}]}, {name: "int"})
    message = f"[[{kind}]] cannot give the feature '{name}': it has a key of that name ({hint})"
    assert str(caught.value) == message
    (made,) = make_scenarios({"scenario": [{"count": 3}]}, {"count": "int"})
    assert made.features == {"count": 3}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"bath": []}, "unknown key 'bath' (expected seed, [[batch]], [[grid]], [[scenario]])"),
        ({"seed": "x"}, "seed must be a whole number, found 'x'"),
        ({}, "the workload holds no scenario (loosen its limits)"),
        ({"batch": {}}, "expected [[batch]] tables, found '{}'"),
        ({"batch": [{**BATCH, "speed": 3}]}, "unknown key 'speed' in [[batch]] 'batch'"),
        ({"batch": [{"tokens": 3}]}, "[[batch]] 'batch' needs num_seqs"),
        (
            {"batch": [{**BATCH, "num_seqs": 0}]},
            "column 'num_seqs': expected a whole number above 0, found '0'",
        ),
        (
            {"batch": [{**BATCH, "decode_share": 2}]},
            "column 'decode_share': expected a share of 0 to 1, found '2'",
        ),
        (
            {"batch": [{**BATCH, "distribution": "x"}]},
            "column 'distribution': expected one of equal, uniform, lognormal, one_long, found 'x'",
        ),
        (
            {"batch": [{**BATCH, "heads": [[5, 2]]}]},
            "heads must be [query heads, KV heads], a multiple each, found '[5, 2]'",
        ),
        ({"batch": [{**BATCH, "count": 0}]}, "count must be a whole number above 0, found '0'"),
        ({"batch": [{**BATCH, "dtype": 3}]}, "column 'dtype': '3' is no value of a feature of type category"),
        (
            {"grid": [{"num_seqs": [1]}]},
            "a scenario lacks the feature 'total_query_tokens' (give it in the workload)",
        ),
        (
            {"scenario": [{"num_seqs": 1, "max_seqlen_q": 9, "max_seqlen_k": 3}]},
            "no batch has num_seqs 1, max_seqlen_q 9, max_seqlen_k 3"
            " (expected num_seqs >= 1 and 1 <= max_seqlen_q <= max_seqlen_k)",
        ),
        (
            {"scenario": [{"lengths": [[3, 2]]}]},
            "column 'lengths': expected [[query tokens, tokens attended to], ...], 1 <= query <= all",
        ),
        (
            {"grid": [{"M": 1, "where": "N < 3"}]},
            "the constraint 'N < 3' reads 'N' (which is no key of [[grid]] 'grid')",
        ),
        (
            {"batch": [{**BATCH, "max_tokens": "many"}]},
            "column 'max_tokens': expected a number above 0, found 'many'",
        ),
        (
            {"batch": [{**BATCH, "max_pairs": math.nan}]},
            "column 'max_pairs': expected a number above 0, found 'nan'",
        ),
        (
            {"scenario": [{**EXPLICIT, "configs": 5}]},
            "configs must be a list of tables of plain values, found '5'",
        ),
        (
            {"scenario": [{**EXPLICIT, "configs": [{"A": [1]}]}]},
            "configs must be a list of tables of plain values, found \"[{'A': [1]}]\"",
        ),
        (
            {"batch": [{**BATCH, "num_seqs": 10**9}]},
            "column 'num_seqs': expected at most 65536, found '1000000000'",
        ),
        (
            {"batch": [{**BATCH, "num_seqs": [65535] * 20}]},
            "column 'num_seqs': the batches hold 31456800 sequences, expected at most 20000000",
        ),
        (
            {"scenario": [{"num_seqs": 10**9, "max_seqlen_q": 1, "max_seqlen_k": 3}]},
            "column 'num_seqs': expected a whole number of 1 to 65536, found '1000000000'",
        ),
        (
            {"scenario": [{"num_seqs": "four", "max_seqlen_q": 1, "max_seqlen_k": 3}]},
            "column 'num_seqs': expected a whole number of 1 to 65536, found 'four'",
        ),
        (
            {"scenario": [{"num_seqs": 4, "max_seqlen_q": 1, "max_seqlen_k": 3, "avg_seqlen_k": math.nan}]},
            "column 'avg_seqlen_k': expected a number, found 'nan'",
        ),
        ({"seed": 10**400}, f"seed must be a whole number, found '1{'0' * 56}...'"),
        (
            {"batch": [{**BATCH, "page_size": 10**400}]},
            f"column 'page_size': '1{'0' * 56}...' is no value of a feature of type int",
        ),
        (
            {"scenario": [{**EXPLICIT, "when": datetime.date(2026, 1, 1)}]},
            "column 'when': '2026-01-01' is no plain value",
        ),
        *(
            (
                {"scenario": [{**EXPLICIT, "id": bad}]},
                "column 'id': expected 1 to 200 printable characters without spaces around them, "
                f"found {quoted(bad)}",
            )
            for bad in ("", "two\nlines", " x", 5, "x" * 201)
        ),
        (
            {"batch": [{**BATCH, "name": "a\nb"}]},
            "column 'name': expected 1 to 200 printable characters without spaces around them, found 'a\\nb'",
        ),
        (
            {"scenario": [{**EXPLICIT, "id": "x"}, {**EXPLICIT, "id": "x", "page_size": 32}]},
            "two scenarios that differ have the id 'x' (equal ones count once; give another id)",
        ),
        (
            {"grid": [{"a": list(range(400)), "b": list(range(400))}]},
            "160000 combinations, expected at most 100000",
        ),
    ],
)
def test_bad_workloads(workload: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_scenarios(workload, FEATURES, Source("w.toml"))
    assert str(caught.value) == f"w.toml: {message}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[[grid]]\nM = 1\n\n[[grid]]\nname = "b"\nM = [2, "x"]\n', 6),
        ('[[grid]]\nM = 1\n\n[[grid]]\nM = 2\nwhere = ["M >"]\n', 4),
        ('[[scenario]]\nid = "a"\nM = 1\n[[scenario]]\nid = "a"\nM = 2\n', 4),
        ("[[scenario]]\nM = 1\n[[scenario]]\nN = 2\n", 3),
        ('[[scenario]]\nM = 1\nconfigs = []\n[[scenario]]\nid = " "\nM = 2\n', 5),
    ],
)
def test_an_error_names_the_line_of_the_key_or_else_of_its_table(
    tmp_path: Path, text: str, line: int
) -> None:
    """A workload that `heurgen advise` wrote has dozens of tables."""
    path = tmp_path / "w.toml"
    path.write_text(text)
    workload = read_workload(path)
    with pytest.raises(SpecError) as caught:
        make_scenarios(workload.data, {"M": "int"}, workload.source)
    assert (caught.value.file, caught.value.row) == (str(path), line)
