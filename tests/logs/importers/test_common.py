"""What the importers share: types guessed from text, names made safe, rows in one order."""

from __future__ import annotations

import pytest

from heurgen import ir
from heurgen.base.errors import LogError
from heurgen.logs.importers.common import (
    Imported,
    check_readable,
    check_text,
    column_type,
    feature_entries,
    formula_note,
    only,
    parted,
    safe_name,
    sorted_rows,
    sorted_values,
    usable_name,
)
from heurgen.spec.draft_toml import Draft


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", ""], "int"),
        (["9007199254740992"], "int"),
        (["9007199254740993"], "float"),
        (["1", "2.5", "1e-3"], "float"),
        (["1e999"], "category"),
        ([".5"], "category"),
        (["True", "false"], "bool"),
        (["TRUE", "FALSE"], "bool"),
        (["True", "1"], "bool"),
        (["True", "False", "1", "0", ""], "bool"),
        (["True", "2"], "category"),
        (["bf16", "1"], "category"),
        (["", ""], "category"),
        ([], "category"),
    ],
)
def test_the_narrowest_type_that_holds_every_value(values: list[str], expected: str) -> None:
    assert column_type(values) == expected


def test_numbers_by_size_blanks_first() -> None:
    assert sorted_values(["10", "9", "", "-1"], "int") == ["", "-1", "9", "10"]
    assert sorted_values(["1e1", "9.5", "", "-1"], "float") == ["", "-1", "9.5", "1e1"]
    assert sorted_values(["10", "9", "b"], "category") == ["10", "9", "b"]


def test_rows_by_every_column_in_turn() -> None:
    rows = [("b", "10", "x"), ("a", "10", "y"), ("a", "9", "z"), ("a", "10", "x")]
    assert sorted_rows(rows) == [("a", "9", "z"), ("a", "10", "x"), ("a", "10", "y"), ("b", "10", "x")]


def test_two_winners_of_one_situation_get_a_scenario_each() -> None:
    columns, apart = ["m", "BM"], [("1", "16"), ("2", "16")]
    assert parted(columns, apart, 1) == (columns, apart, [])
    assert parted(columns, [*apart, ("2", "32")], 1) == (
        ["scenario", "m", "BM"],
        [("0", "1", "16"), ("1", "2", "16"), ("2", "2", "32")],
        ["1 scenario shares all features with another: a scenario column parts them"],
    )


def test_features_that_never_vary_become_comments_beside_others() -> None:
    entries = feature_entries([("m", {"1", "2"}), ("n", {"64"})])
    assert [(e.column.name, e.active, e.remark) for e in entries] == [
        ("m", True, ""),
        ("n", False, "constant here: 64"),
    ]
    assert all(e.active for e in feature_entries([("m", {"1"}), ("n", {"64"})]))


def test_a_constant_is_shown_within_forty_characters() -> None:
    assert only([]) == ""
    assert only(["x" * 40]) == "x" * 40
    assert only(["x" * 41]) == "x" * 37 + "..."
    assert only(["a\x1b"]) == "a\\x1b"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BLOCK_M", "BLOCK_M"),
        ("m*k", "m_times_k"),
        ("m/n", "m_over_n"),
        ("m+n", "m_plus_n"),
        ("a - b", "a_b"),
        ("1x", "f_1x"),
        ("é", "f"),
        ("_", "f"),
        ("__x", "x"),
        ("class", "class_"),
        ("time_ms", "time_ms_"),
        ("x" * 500, "x" * (ir.MAX_NAME // 2)),
    ],
)
def test_safe_names(name: str, expected: str) -> None:
    assert safe_name(name) == expected
    assert usable_name(safe_name(name))


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert safe_name("m", {"m"}) == "m_2"
    assert safe_name("m", {"m", "m_2"}) == "m_3"
    assert safe_name("class", {"class_"}) == "class_2"  # C++ reserves names with two underscores


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:3: it is blank"),
        ("a\x1b", "f:3: it 'a\\x1b' holds control or invisible characters"),
        (" a", "f:3: it ' a' has spaces around it"),
    ],
)
def test_text_that_no_cell_can_show(text: str, message: str) -> None:
    with pytest.raises(LogError) as error:
        check_text(text, "it", file="f", row=3)
    assert str(error.value) == message
    assert check_text("a b", "it") == "a b"


def test_what_cannot_be_read_back_is_refused() -> None:
    """The row is shown: its line was one of a log that is not written."""
    spec = '[kernel]\nname = "k"\n[features]\nm = { type = "int" }\n[parameters]\nBM = { type = "int" }\n'
    log = "vendor,device,m,BM,time_ms\nnvidia,H200,1,16,1.0\n"
    check_readable(log, spec)
    with pytest.raises(LogError) as error:
        check_readable(log + "nvidia,H200,2,16,0\n", spec)
    assert str(error.value).startswith(
        "column 'time_ms': the row 'vendor=nvidia, device=H200, m=2, BM=16, time_ms=0' cannot be imported: found '0', "
        "expected a finite"
    )


def test_cells_that_look_like_formulas_are_told() -> None:
    def note(*cells: str) -> list[str]:
        return formula_note(Imported(("a",), [(c,) for c in cells], Draft("k", (), ())))

    assert note("a", "-1", "-1e-3") == []
    assert note("=1+1", "@x") == [
        "2 texts, such as '=1+1', begin like a formula: do not open the log in a spreadsheet that runs formulas"
    ]
