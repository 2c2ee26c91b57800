"""What an importer collects -> a tuning log with a spec draft: names, constants, order, what must be complete."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen.base.errors import HeurgenError, UsageError
from heurgen.logs.importers.collect import WINNERS_ONLY, Collected, Options, with_constants
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import reread


def collected(*, winners_only: bool = False) -> Collected:
    """Two scenarios of two devices, two configs, a failure."""
    found = Collected("made-up", winners_only=winners_only)
    h200 = found.scenario("nvidia", "H200", {"m": "10", "n": "8"})
    mi300 = found.scenario("amd", "MI300X", {"m": "9", "n": "8"})
    found.add(h200, {"BLOCK-M": "64", "w": "4"}, 1.5)
    found.add(h200, {"BLOCK-M": "16", "w": "4"}, None, "OOM\x1b")
    found.add(mi300, {"BLOCK-M": "16", "w": "", "cu": "2"}, 0.25)
    return found


def test_rows_in_one_order_and_names_made_safe() -> None:
    imported = collected().imported(Options(const={"dtype": "bf16"}, rename={"n": "width"}))
    assert imported.csv_text() == (
        "vendor,device,m,width,dtype,BLOCK_M,w,cu,status,time_ms\n"
        "amd,MI300X,9,8,bf16,16,,2,ok,0.25\n"
        "nvidia,H200,10,8,bf16,16,4,,OOM\\x1b,\n"
        "nvidia,H200,10,8,bf16,64,4,,ok,1.5\n"
    )
    assert imported.notes == ("renamed: 'BLOCK-M' is BLOCK_M", "3 rows, 1 of them failed")
    assert reread(imported).n_scenarios == 2
    spec = parse_spec(imported.spec_text())
    assert [f.name for f in spec.features] == ["m", "dtype"]
    by_name = {p.name: p for p in spec.parameters}
    assert (by_name["w"].vendors, by_name["cu"].vendors) == (("nvidia",), ("amd",))
    assert not spec.log.winners_only


def test_the_spec_says_what_was_imported_and_its_noise() -> None:
    found = collected()
    found.noises += [0.5, 0.01, 0.03]
    text = found.imported(Options()).spec_text()
    assert text.startswith("# Drafted by heurgen import made-up from 3 rows on H200, MI300X\n")
    assert "noise = 0.03  # median over the measurements" in text
    found.noises += [3.0, 4.0, 5.0, 6.0]  # of launches that something stalled: more than a spec takes
    assert parse_spec(found.imported(Options()).spec_text()).log.noise == 1.0


def test_winners_are_marked_and_told_apart() -> None:
    found = collected(winners_only=True)
    found.add(0, {"BLOCK-M": "32", "w": "4"}, None)
    imported = found.imported(Options())
    assert imported.columns[0] == "scenario"
    assert WINNERS_ONLY in imported.notes
    assert parse_spec(imported.spec_text()).log.winners_only


def test_an_equal_winner_counts_once() -> None:
    found = collected(winners_only=True)
    found.add(0, {"BLOCK-M": "64", "w": "4"}, 1.5)
    assert len(found.imported(Options()).rows) == 3


def incomplete() -> Collected:
    found = collected()
    found.add(found.scenario("nvidia", "H200", {"m": "1"}), {"BLOCK-M": "16"}, 1.0)
    return found


def failed() -> Collected:
    found = Collected("made-up")
    found.add(found.scenario("nvidia", "H200", {"m": "1"}), {"w": "1"}, None, "OOM")
    return found


def valueless() -> Collected:
    found = Collected("made-up")
    found.add(found.scenario("nvidia", "H200", {"m": "1"}), {"w": ""}, 1.0)
    return found


def featureless() -> Collected:
    found = Collected("made-up")
    found.add(found.scenario("nvidia", "H200", {}), {"w": "1"}, 1.0)
    return found


@pytest.mark.parametrize(
    ("found", "options", "message"),
    [
        (Collected("made-up"), Options(), "the files hold no measurement that made-up wrote"),
        (failed(), Options(), "every measurement of made-up failed: 'OOM'"),
        (valueless(), Options(), "no config that made-up wrote has a value"),
        (featureless(), Options(), "the files name no feature (add one: --const NAME=VALUE)"),
        (
            incomplete(),
            Options(),
            "1 of 3 scenarios lack the feature 'n', the first: device=H200, m=1 (import files of one kind of problem "
            "at a time)",
        ),
        (
            collected(),
            Options(rename={"x": "y"}),
            "cannot rename 'x': no file has it (names: m, n, BLOCK-M, w, cu)",
        ),
        (
            collected(),
            Options(rename={"m": "class"}),
            "cannot rename 'm' to 'class' (a name is an ASCII identifier, no keyword)",
        ),
        (
            collected(),
            Options(rename={"m": "w"}),
            "two columns would be named 'w' (map one of them to a free name with --rename)",
        ),
        (
            collected(),
            Options(const={"m": "1"}),
            "two columns would be named 'm' (map one of them to a free name with --rename)",
        ),
        (
            collected(),
            Options(const={"a b": "1"}),
            "found --const 'a b=1', expected NAME=VALUE (a name is an ASCII identifier, a value is printable text "
            "without spaces around it)",
        ),
    ],
)
def test_what_does_not_fit(found: Collected, options: Options, message: str) -> None:
    with pytest.raises(HeurgenError) as error:
        found.imported(options)
    assert str(error.value) == message


def test_constants_of_a_log_that_is_made() -> None:
    imported = collected().imported(Options())
    assert with_constants(imported, {}) is imported
    added = with_constants(imported, {"dtype": "bf16"})
    assert added.columns == (*imported.columns[:-2], "dtype", "status", "time_ms")
    assert {row[-3] for row in added.rows} == {"bf16"}
    assert reread(replace(added)).n_measurements == 3
    with pytest.raises(UsageError) as error:
        with_constants(imported, {"m": "1"})
    assert str(error.value) == "the files have a column 'm': it is no constant to add"


def test_a_feature_called_device_does_not_take_the_place_of_the_device() -> None:
    found = Collected("k")
    for device in ("left", "right"):
        found.add(found.scenario("nvidia", "H200", {"device": device}), {"b": "1"}, 1.0)
    imported = found.imported(Options())
    assert imported.columns[:3] == ("vendor", "device", "device_")
    assert [row[:3] for row in imported.rows] == [("nvidia", "H200", "left"), ("nvidia", "H200", "right")]
