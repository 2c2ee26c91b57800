"""The reader of TOML: types, places, and errors that say where."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heurgen.base import toml
from heurgen.base.errors import HeurgenError, SpecError
from heurgen.base.toml import Table, parse_toml, read_toml

TEXT = '''\
seed = 3
note = """
[batch]
seed = 4
"""
[[batch]]
count = 40
share = 0.5

[[batch]]
count = "many"
tokens = [1, "x"]
[batch.inner]
flag = 1
[tools]
torch = "2.11"
torch2 = inf
'''


def test_values() -> None:
    top = parse_toml(TEXT)
    first, second = top.tables("batch")
    assert (top.integer("seed"), top.integer("other", 7)) == (3, 7)
    assert (first.integer("count", low=1), first.number("share")) == (40, 0.5)
    assert (second.table("none").data, top.tables("none")) == ({}, ())
    assert top.table("tools").text("torch") == "2.11"
    assert top.table("tools").text("cuda", None) is None
    assert top.texts("names", ()) == ()


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda t: t.only("batch"), "w.toml:1: column 'seed': unknown key 'seed' (known: batch)"),
        (
            lambda t: t.table("tools").only("torchh", "torch2"),
            "w.toml:16: column 'tools.torch': unknown key 'torch' (did you mean 'torchh'?)",
        ),
        (
            lambda t: t.tables("batch")[1].integer("count"),
            "w.toml:11: column 'batch 2.count': found 'many', expected a whole number",
        ),
        (
            lambda t: t.tables("batch")[0].integer("count", high=39, expected="at most 39"),
            "w.toml:7: column 'batch 1.count': found 40, expected at most 39",
        ),
        (
            lambda t: t.tables("batch")[1].texts("tokens"),
            "w.toml:12: column 'batch 2.tokens': found [1, 'x'], expected a list of strings",
        ),
        (
            lambda t: t.tables("batch")[1].table("inner").flag("flag"),
            "w.toml:14: column 'batch 2.inner.flag': found 1, expected true or false",
        ),
        (
            lambda t: t.table("tools").number("torch2"),
            "w.toml:17: column 'tools.torch2': found inf, expected a finite number",
        ),
        (lambda t: t.text("kind"), "w.toml: column 'kind': is missing, expected a string"),
        (lambda t: t.table("seed"), "w.toml:1: column 'seed': found 3, expected a table"),
        (lambda t: t.tables("tools"), "w.toml:15: column 'tools': found {'torch': '2.11', 'torch2': inf}"),
    ],
)
def test_errors(read: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(parse_toml(TEXT, "w.toml"))  # type: ignore[operator]
    assert str(caught.value).startswith(message)


def test_a_bool_is_no_number_and_a_table_made_in_code_has_no_place() -> None:
    table = Table({"a": True, "b": 2**80, "c": ["x", "x"]})
    for key in "ab":
        with pytest.raises(SpecError, match="expected a whole number"):
            table.integer(key)
        with pytest.raises(SpecError, match="expected a finite number"):
            table.number(key)
    with pytest.raises(SpecError) as caught:
        table.texts("c")
    assert str(caught.value) == "column 'c': 'x' is listed twice"


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    cases = {
        b"a = 1\nb = \xff": r":2: byte 10 \(0xff\) is no UTF-8",
        b"a = 1\nb\0": ":2: byte 7 is NUL, expected text",
        b"a = = 1": "this is no TOML: Invalid value, at character 5",
    }
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(SpecError, match=message):
            read_toml(path)
    with pytest.raises(SpecError, match="cannot be read: No such file or directory"):
        read_toml(tmp_path / "none.toml")
    monkeypatch.setattr(toml, "MAX_BYTES", 10)
    path.write_text("a = 1  # eleven")
    with pytest.raises(SpecError) as caught:
        read_toml(path)
    assert str(caught.value) == f"{path}: is larger than 10 bytes (that is the most that heurgen reads)"


@given(st.text(alphabet="[]{}=\"'\n.#a1 -,\\", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        table = parse_toml(text, "x")
    except SpecError:
        return
    for key in table:
        for read in (table.text, table.integer, table.number, table.flag, table.texts, table.tables):
            with contextlib.suppress(HeurgenError):
                read(key)


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab. \"'\n", max_size=3), inner),
    max_leaves=6,
)


@given(VALUES)
def test_what_is_written_reads_back(value: object) -> None:
    assert tomllib.loads(f"a = {toml.value(value)}") == {"a": value}


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("a\"\\b", r'"a\"\\b"'), ("\b\t\n\f\r", r'"\b\t\n\f\r"'), (" \xe9\u4e2d", '" \xe9\u4e2d"'),
        ("\x1b\u202e\uffff", r'"\u001b\u202e\uffff"'), ("\U00010000\U000e0041", '"\U00010000' + r'\U000e0041"'),
    ],
)  # fmt: skip
def test_strings(text: str, literal: str) -> None:
    assert toml.string(text) == literal
    assert tomllib.loads(f"a = {literal}") == {"a": text}


@pytest.mark.parametrize(
    ("name", "key"), [("a-b_1", "a-b_1"), ("a.b", '"a.b"'), ("", '""'), ("\xe9", '"\xe9"'), ("a b", '"a b"')]
)
def test_keys(name: str, key: str) -> None:
    assert toml.key(name) == key


@pytest.mark.parametrize(
    ("number", "text"),
    [(3, "3"), (3.0, "3"), (0.5, "0.5"), (-0.0, "0"), (2.0**53, str(2**53)), (1e300, "1e+300")],
)
def test_numbers_that_are_whole_are_written_as_ints_of_64_bits(number: float, text: str) -> None:
    assert toml.number(number) == text


def test_values_of_every_kind() -> None:
    data = {"a": True, "b c": [1, 0.5, "x"], "left out": None, "d": {}}
    assert toml.value(data) == '{ a = true, "b c" = [1, 0.5, "x"], d = {} }'
    assert toml.value(False) == "false"
    assert toml.comment("a\nb\x1b ") == "# a\\nb\\x1b"
    assert toml.comment("") == "#"


PLACES = """\
"a b".'c' = 1
text = QQQone lineQQQ
more = QQQ
hidden = 1
QQQ
[x."y"]
z = 2
[[t]]
[t.u]
v = 3
[[t]]
v = 4
""".replace("QQQ", "'''")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("a b", "c"), 1), (("text",), 2), (("hidden",), None), (("x",), None), (("x", "y"), 6), (("x", "y", "z"), 7),
        (("x", "y", "none"), 6), (("t",), 8), (("t", 0), 8), (("t", 0, "u"), 9), (("t", 0, "u", "v"), 10),
        (("t", 1), 11), (("t", 1, "v"), 12), ((), None),
    ],
)  # fmt: skip
def test_a_place_has_the_line_of_its_longest_known_part(
    place: tuple[toml.Part, ...], line: int | None
) -> None:
    assert toml.Source("f", PLACES).line_of(place) == line


def test_a_key_keeps_its_letters() -> None:
    assert toml.Source("f", "\nX\"X = 1\n'XaX' = 2").line_of(("XaX",)) == 3


def test_an_error_of_syntax_has_its_line_and_character() -> None:
    with pytest.raises(SpecError) as caught:
        parse_toml("a = 1\nb =    = 2", "f")
    assert str(caught.value) == "f:2: this is no TOML: Invalid value, at character 8"
    with pytest.raises(SpecError) as caught:
        parse_toml("a = [1", "f")
    assert str(caught.value).startswith("f: this is no TOML: ")


def test_the_ends_of_what_a_number_can_be() -> None:
    table = Table({"n": 7, "x": 0.5, "big": 2**63 - 1, "small": 1 - 2**63})
    assert table.integer("n", low=7, high=7) == 7
    assert (table.integer("big"), table.integer("small")) == (2**63 - 1, 1 - 2**63)
    assert (table.number("x", low=0.5, high=0.5), table.number("big")) == (0.5, 2**63 - 1)
    for read in (
        lambda: table.integer("n", low=8), lambda: table.integer("n", high=6),
        lambda: table.number("x", low=0.6), lambda: table.number("x", high=0.4),
    ):  # fmt: skip
        with pytest.raises(
            SpecError, match=r"^column '[nx]': found (7|0\.5), expected a (whole|finite) number$"
        ):
            read()
    with pytest.raises(SpecError) as caught:
        Table({"n": 1}).texts("n", expected="names")
    assert str(caught.value) == "column 'n': found 1, expected names"
    with pytest.raises(SpecError) as caught:
        Table({}).table("n").text("x", expected="a word")
    assert str(caught.value) == "column 'n.x': is missing, expected a word"
    assert (
        str(Table({"n": 1}).wrong("n", "text", "mend it")) == "column 'n': found 1, expected text (mend it)"
    )
    assert str(Table({}).wrong("n", "text", "mend it")) == "column 'n': is missing, expected text (mend it)"
