"""What targets share that write folders of config files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen import ir
from heurgen.base.errors import EmitError, UsageError
from heurgen.render import config_files
from heurgen.render.axis import LAST_TRIED
from heurgen.render.target import Request

LEAF = ir.Leaf
DTYPE = ir.Feature("dtype", "category", values=("bf16", "fp8"), unknown="error", aliases=(("half", "bf16"),))
FEATURES = (
    ir.Feature("M", "int", low=1, high=64),
    ir.Feature("K", "int", low=8, high=9),
    ir.Feature("share", "float", low=0.5, high=0.5),
    ir.Feature("causal", "bool"),
    DTYPE,
    ir.Feature("layout", "category", values=("row",)),
)
TREE = ir.Split("work", 64.0, LEAF(0), ir.Split("M", 4, LEAF(0), LEAF(1)))
SELECTOR = ir.Selector(
    "nvidia", ("B", "w"), ((16, 4), (32, None)), TREE, devices=("NVIDIA H200", "NVIDIA B200")
)
MODULE = ir.HeuristicModule(
    "k",
    FEATURES,
    (ir.Parameter("B", "int"), ir.Parameter("w", "int", optional=True)),
    (SELECTOR,),
    (ir.Derived("work", "M * K"), ir.Derived("unread", "causal")),
    {"z": 1, "a": {"d": 1, "c": 2}},
)


# --- situations -------------------------------------------------------------------------------------------


def test_a_file_a_situation_and_one_where_none_is_said() -> None:
    assert config_files.situations(Request(), ("E",), (), MODULE) == ({},)
    at = ({"E": "1", "K": "2"}, {"E": "3"})
    assert config_files.situations(Request(at=at, names={"E": "x"}), ("E",), (), MODULE) == at


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            Request(at=({"E": "1"}, {"e": "1", "zz": "2"})),
            "--at names 'e' (known names: E, F, K, causal, dtype, layout, share)",
        ),
        # Both were taken and meant nothing: a table runs over all M, and the model chooses parameters.
        (
            Request(at=({"M": "1"},)),
            "--at names 'M' (known names: E, F, K, causal, dtype, layout, share)",
        ),
        (
            Request(at=({"B": "16"},)),
            "--at names 'B' (known names: E, F, K, causal, dtype, layout, share)",
        ),
        (
            Request(at=({"share": "1"},), names={"M": "share"}),
            "--at names 'share' (known names: E, F, K, causal, dtype, layout)",
        ),
        (Request(names={"K": "E"}), "--map names 'K' (known fields: B, E, F, M)"),
    ],
)
def test_names_that_are_neither_field_nor_feature(request_: Request, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        config_files.situations(request_, ("F", "E", "M"), ("B",), MODULE)
    assert str(caught.value) == message


def fixed(at: dict[str, str], names: dict[str, str] | None = None) -> dict[str, Any]:
    return config_files.fixed_features(MODULE, SELECTOR, "M", names or {}, at)


def test_a_feature_has_what_is_said_else_the_one_value_that_training_saw() -> None:
    plain = {"K": 9, "share": 0.5, "dtype": "fp8", "layout": "row"}
    assert fixed({"K": "9", "dtype": "fp8"}) == plain
    assert fixed({"size": "9", "dtype": "fp8"}, {"size": "K"}) == plain
    said = {"K": "-3", "share": "1e3", "causal": "TRUE", "dtype": "half", "layout": "column"}
    found = fixed(said)
    assert found == {"K": -3, "share": 1000.0, "causal": True, "dtype": "bf16", "layout": "column"}
    assert [type(v) for v in found.values()] == [int, float, bool, str, str]
    assert [
        fixed({"K": "1", "dtype": "fp8", "causal": text})["causal"] for text in ("true", "1", "False", "0")
    ] == [
        1,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({}, "the model's answer depends on K, which a file must fix (say its value: --at K=VALUE)"),
        ({"K": "9.0"}, "--at K=9.0: '9.0' is no int"),
        ({"K": "1", "share": "x"}, "--at share=x: 'x' is no float"),
        ({"K": "1", "causal": "yes"}, "--at causal=yes: 'yes' is no bool"),
        ({"K": "1", "dtype": "int8"}, "--at dtype=int8: unknown dtype 'int8', known: 'bf16', 'fp8'"),
    ],
)
def test_values_that_a_file_cannot_fix(at: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        fixed(at)
    assert str(caught.value) == message


def test_a_tested_feature_must_be_fixed_too() -> None:
    tested = replace(SELECTOR, tree=ir.Split("causal", 0, LEAF(0), LEAF(1)))
    with pytest.raises(UsageError, match="depends on causal"):
        config_files.fixed_features(MODULE, tested, "M", {}, {"K": "1", "dtype": "fp8"})
    found = config_files.fixed_features(MODULE, tested, "M", {}, {"causal": "0", "dtype": "fp8"})
    assert "K" not in found


def test_a_category_that_refuses_others_must_be_fixed_though_no_test_reads_it() -> None:
    """An empty one was taken, and refused as unknown when the model was asked."""
    with pytest.raises(UsageError) as caught:
        fixed({"K": "9"})
    said = "the model's answer depends on dtype, which a file must fix (say its value: --at dtype=VALUE; training saw "
    assert str(caught.value) == f"{said}'bf16', 'fp8')"


# --- axis and devices -------------------------------------------------------------------------------------


def test_the_axis_is_a_number_by_its_own_name_or_the_model_s() -> None:
    assert config_files.axis_feature(MODULE, "M", {}) == "M"
    assert config_files.axis_feature(MODULE, "tokens", {"tokens": "share"}) == "share"
    for names in ({}, {"tokens": "causal"}, {"tokens": "dtype"}):
        with pytest.raises(UsageError) as caught:
            config_files.axis_feature(MODULE, "tokens", names)
        assert str(caught.value) == (
            f"the model has no number '{names.get('tokens', 'tokens')}', over which the file's table runs "
            "(say which of its numbers it is, --map tokens=NAME; it has: M, K, share)"
        )
    bare = replace(MODULE, features=(DTYPE,), derived=(), selectors=(replace(SELECTOR, tree=LEAF(0)),))
    with pytest.raises(UsageError, match="it has: none"):
        config_files.axis_feature(bare, "M", {})


def test_devices_are_those_asked_for_or_trained_on() -> None:
    own = replace(SELECTOR, device="NVIDIA H200")
    assert config_files.devices(own, Request(device="X")) == ("X",)
    assert config_files.devices(own, Request()) == ("NVIDIA H200",)
    assert config_files.devices(SELECTOR, Request()) == ("NVIDIA H200", "NVIDIA B200")
    with pytest.raises(UsageError) as caught:
        config_files.devices(replace(SELECTOR, devices=()), Request())
    assert str(caught.value) == (
        "the model does not say on which device it was trained (say it with --device NAME)"
    )


def test_a_device_is_answered_by_its_own_selector() -> None:
    """Files of an H200 had the answers of all the vendor's devices."""
    own = replace(SELECTOR, device="NVIDIA H200", tree=LEAF(1))
    both = replace(MODULE, selectors=(SELECTOR, own))
    found = config_files.answering(both, Request(), str.lower)
    assert found == {"nvidia h200": ("NVIDIA H200", own), "nvidia b200": ("NVIDIA B200", SELECTOR)}
    assert config_files.answering(both, Request(device="NVIDIA H200"), str) == {
        "NVIDIA H200": ("NVIDIA H200", own)
    }
    # one file for devices that answer differently: their vendor's answer
    assert config_files.answering(both, Request(), lambda _: "x") == {"x": ("NVIDIA H200", SELECTOR)}
    alike = replace(both, selectors=(replace(SELECTOR, devices=("NVIDIA H200", "NVIDIA H200")), own))
    assert config_files.answering(alike, Request(), str) == {"NVIDIA H200": ("NVIDIA H200", own)}


# --- configs ----------------------------------------------------------------------------------------------


def test_a_config_by_the_launcher_s_names_without_what_does_not_apply() -> None:
    found = config_files.renamed(
        {"B": 16, "w": None, "s": 2}, {"BLOCK": "B"}, ("BLOCK", "s"), ("BLOCK",), "X"
    )
    assert found == {"BLOCK": 16, "s": 2}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"BLOCK": 16, "t": 2, "s": 1}, "X knows no parameter 's'"),
        ({"u": None}, "X needs BLOCK, which the model does not choose"),
    ],
)
def test_configs_that_the_launcher_cannot_take(config: dict[str, ir.Value], message: str) -> None:
    with pytest.raises(EmitError) as caught:
        config_files.renamed(config, {}, ("BLOCK", "u"), ("BLOCK", "u"), "X")
    hint = "--map BLOCK=NAME says what a parameter is called in the model"
    assert str(caught.value) == f"{message} ({hint})"


# --- the manifest -----------------------------------------------------------------------------------------


def test_the_manifest_says_what_each_file_is_and_hashes_itself() -> None:
    about = {"a.json": {"for": {"K": 8}}}
    text = config_files.manifest(MODULE, (SELECTOR,), "x", "M", {"a.json": "{}\n"}, about)
    data = json.loads(text)
    assert data.pop("checksum") == hashlib.sha256((json.dumps(data, indent=4) + "\n").encode()).hexdigest()
    assert data == {
        "format": "heurgen-manifest",
        "version": 1,
        "regenerate": "heurgen emit MODEL.json --target x",
        "kernel": "k",
        "vendor": "nvidia",
        "slowdown_known": True,
        "exact_up_to": LAST_TRIED,
        "files": {"a.json": {"sha256": hashlib.sha256(b"{}\n").hexdigest(), "for": {"K": 8}}},
        "provenance": {"a": {"c": 2, "d": 1}, "z": 1},
    }
    assert list(data["provenance"]["a"]) == ["c", "d"]
    other = json.loads(config_files.manifest(MODULE, (SELECTOR,), "x", "causal", {}, {}))
    assert other["exact_up_to"] is None


def test_json_is_ascii_and_nothing_that_json_lacks() -> None:
    assert (
        config_files.dumps({"b": "\xe9", "a": [1]})
        == '{\n    "b": "\\u00e9",\n    "a": [\n        1\n    ]\n}\n'
    )
    for value, why in (
        (float("nan"), "a value has no JSON: Out of range float values are not JSON compliant"),
        ({1}, "a value has no JSON: Object of type set is not JSON serializable"),
        ((1, 2), "the data does not read back from JSON as it was written"),
    ):
        with pytest.raises(EmitError) as caught:
            config_files.dumps({"x": value})
        assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    "text",
    [
        *(
            None,
            "",
            "{",
            "[]",
            "1",
            "{}",
            '{"files": ["a"]}',
            '{"files": {"a\\u0000": 1, "gone": 1}}',
            "\x80",
        ),
        *(
            "[" * 100_000,
            f'{{"files": {{"{"a" * 5000}": 1}}}}',
            f'{{"files": {{"{__file__}": 1, "../b": 1}}}}',
        ),
    ],
    ids=range(12),
)
def test_a_folder_without_a_manifest_of_ours_has_nothing_left_behind(
    tmp_path: Path, text: str | None
) -> None:
    (folder := tmp_path / "out").mkdir()
    (folder / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    if text is not None:
        (folder / config_files.MANIFEST).write_bytes(text.encode("latin-1"))
    assert config_files.left_behind(folder, ()) == []
    assert config_files.left_behind(folder / "a", ()) == []


def test_what_a_manifest_listed_and_its_successor_does_not_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / config_files.MANIFEST).write_text('{"files": {"b": {}, "sub/a": {}, "gone": {}, "kept": {}}}')
    (tmp_path / "sub").mkdir()
    for name in ("b", "sub/a", "kept"):
        (tmp_path / name).write_text("{}")
    assert config_files.left_behind(tmp_path, ("kept",)) == ["b", "sub/a"]
