"""CSV: split where there is no quote, parsed where there is one; the same cells, and one message for what is none."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import LogError
from heurgen.logs import delimited, lines
from heurgen.logs.delimited import Delimited, read_csv, record_line
from heurgen.logs.lines import interner


def table(text: str) -> tuple[Delimited, dict[str, list[str]]]:
    interners: defaultdict[str, defaultdict[str, int]] = defaultdict(interner)
    found = read_csv("log.csv", text, interners)
    texts = {name: list(codes) for name, codes in interners.items()}
    return found, {name: [texts[name][c] for c in codes] for name, codes in found.columns.items()}


def read(text: str) -> dict[str, list[str]]:
    return table(text)[1]


def refused(text: str) -> str:
    with pytest.raises(LogError) as error:
        read(text)
    return str(error.value)


def test_figures_beside_a_time_may_share_a_name_and_no_others() -> None:
    assert read("cpu,Noise,gpu,Noise\n1,2,3,4\n") == {
        "cpu": ["1"], "Noise": ["2"], "gpu": ["3"], "Noise.1": ["4"],
    }  # fmt: skip
    assert "'time': cells 1 and 2 of the header" in refused("time,time,Noise,Noise\n1,2,3,4\n")
    assert "'Noise.1': cells 2 and 3 of the header" in refused("Noise,Noise,Noise.1\n1,2,3\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_forms_of_one_table(end: str, quote: str, separator: str) -> None:
    rows = [["a", "b"], ["1", "x y"], ["", "'"]]
    text = end.join(separator.join(f"{quote}{c}{quote}" for c in row) for row in rows)
    for tail in ("", end, end * 3):
        assert read(text + tail) == {"a": ["1", ""], "b": ["x y", "'"]}


def test_a_comma_where_others_part_as_many_cells() -> None:
    assert read("a;b,c\n1,2\n") == {"a;b": ["1"], "c": ["2"]}
    assert read("a;b,c;d\n1;2,3;4\n") == {"a": ["1"], "b,c": ["2,3"], "d": ["4"]}
    assert read("a\n1\n") == {"a": ["1"]}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_what_parts_the_first_record_as_well_is_the_delimiter(delimiter: str) -> None:
    """Names that hold commas, in a table with semicolons."""
    text = delimiter.join(["n", "BM=16,BN=32,w=4", "BM=16,BN=64,w=4"]) + "\n" + delimiter.join("123")
    found = read_csv("t", text + "\n", defaultdict(interner))
    assert list(found.columns) == ["n", "BM=16,BN=32,w=4", "BM=16,BN=64,w=4"]


def test_spaces_after_every_separator_are_none_of_the_cells() -> None:
    text = 'n, m, o\n1, "x\ny", 3\n4, a b , 6\n'
    found = read_csv("t", text, defaultdict(interner))
    assert list(found.columns) == ["n", "m", "o"]
    assert read(text)["m"] == ["x\ny", "a b "]
    assert record_line(text, found.delimiter, 2) == 4
    assert refused("n, m\n1, 2, 3\n") == (
        "log.csv:2: found 3 cells, expected 2 as in the header (a cell that holds a comma needs quotes)"
    )
    assert read("n, m\n1,   2\n")["m"] == ["2"]
    assert list(read("n, m,o\n1, 2,3\n")) == ["n", " m", "o"]


def test_line_breaks_in_quotes_are_kept_as_they_are() -> None:
    assert read('n,m\r\n1,"x\r\ny"\r\n2,"x\ry"\r\n')["m"] == ["x\r\ny", "x\ry"]


def test_lines_of_records_with_line_breaks_in_quotes() -> None:
    found, _ = table('a,"b\nb"\n1,"x\r\n\r\nx"\n2,y\n3,"\n"\n4,z\n')
    assert found.text is not None
    assert [record_line(found.text, found.delimiter, row + 1) for row in range(4)] == [3, 6, 7, 9]
    assert table("a,b\n1,2\n")[0].text is None  # the line is the record's number + 1


@pytest.mark.parametrize("quote", ["", '"'])
def test_more_rows_than_a_chunk(quote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_CHUNK", 8)
    monkeypatch.setattr(lines, "_PART", 30)
    n = 50
    text = f"a,{quote}b{quote}\n" + "".join(f"{i},{i % 7}\n" for i in range(n))
    assert read(text + "\n\n") == {"a": [str(i) for i in range(n)], "b": [str(i % 7) for i in range(n)]}
    assert refused(text + "1\n") == f"log.csv:{n + 2}: found 1 cell, expected 2 as in the header"
    # Exactly whole chunks, then an empty line.
    assert read(f"{quote}a{quote}\n" + "1\n" * 16 + "\n") == {"a": ["1"] * 16}


def test_few_cells_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_CHUNK_CELLS", 2)
    assert read('a,b,"c"\n1,2,3\n4,5,6\n') == {"a": ["1", "4"], "b": ["2", "5"], "c": ["3", "6"]}


def test_too_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_COLUMNS", 3)
    assert refused("a,b,c,d\n") == "log.csv:1: found 4 columns, expected at most 3"
    assert read("a,b,c\n1,2,3\n")["c"] == ["3"]


BAD = {
    "empty": ("", ": the file is empty, expected a CSV header"),
    "only empty lines": ("\n\n", ":1: the first line is empty, expected the names of the columns"),
    "header only": ("a,b", ": the file has a header and no measurements"),
    "header and empty lines": ("a,b\n\n\n", ": the file has a header and no measurements"),
    "empty line": ("a,b\n1,2\n\n1,2\n", ":3: the line is empty (delete it)"),
    "line of spaces": ("a,b\n1,2\n  \n1,2\n", ":3: found 1 cell, expected 2 as in the header"),
    "comments above": (
        "# tuned, yesterday, by me\na,b\n1,2\n",
        ":2: found 2 cells, expected 3 as in the header "
        "(the first line is read as the header: delete comments above it)",
    ),
    "failed row of Google Benchmark": (
        'name,error_occurred,error_message,"M"\na,,,16\nb,true,"x"\n',
        ":3: found 3 cells, expected 4 as in the header "
        "(Google Benchmark leaves out the counters of what failed: add a comma for each)",
    ),
    "context above": (
        "2026-11-01\nRunning a\nname,b\n1,2\n",
        ":3: found 2 cells, expected 1 as in the header "
        "(the first line is read as the header: delete what stands above the table)",
    ),
    "short row": ("a,b,c\n1,2,3\n1,2\n", ":3: found 2 cells, expected 3 as in the header"),
    "long row": (
        "a,b\n1,2,3\n",
        ":2: found 3 cells, expected 2 as in the header (a cell that holds a comma needs quotes)",
    ),
    "long row after a quoted line break": (
        'a,b\n"x\ny",2\n1,2,3\n',
        ":4: found 3 cells, expected 2 as in the header (a cell that holds a comma needs quotes)",
    ),
    "pandas index": (
        ",a,b\n0,1,2\n",
        ":1: cell 1 of the header is empty (a pandas index? write with index=False)",
    ),
    "trailing comma": ("a,b,\n1,2,\n", ":1: cell 3 of the header is empty (is there a separator too many?)"),
    "column twice": (
        "a,b,a\n1,2,3\n",
        ":1: column 'a': cells 1 and 3 of the header have the same name (rename or remove one)",
    ),
    "open quote": ('a,b\n1,2\n1,"x\n1,2\n', ":3: a quote that opens in this record is never closed"),
    "open quote in the header": ('"a,b\n1,2\n', ":1: a quote that opens in this record is never closed"),
    "text after a quote": (
        'a,b\n1,"x"y\n',
        ":2: this is no CSV: ',' expected after '\"' (inside quotes, a quote is written twice: \"\")",
    ),
    "long cell": (
        "a,b\n1,%s\n" % ("x" * 200_000),
        ":2: a cell is longer than 131072 characters (is a quote left open?)",
    ),
    "open quote in the first record of a long file": (
        'a,b\n1,"2\n' + "1,2\n" * 50_000,
        ":2: a cell is longer than 131072 characters (is a quote left open?)",
    ),
    "open quote of a long file": (
        'a,b\n1,2\n"1,2\n' + "1,2\n" * 50_000,
        ":3: a cell is longer than 131072 characters (is a quote left open?)",
    ),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_bad_tables(case: str) -> None:
    text, expected = BAD[case]
    assert refused(text) == f"log.csv{expected}"


PLAIN = st.lists(st.sampled_from(["a", "b c", "", "1", "é", "\x0b", "'"]), min_size=1, max_size=3)


def check_both_ways(text: str) -> None:
    """Split or parsed: the same cells, or the same error."""

    def outcome() -> object:
        try:
            return read(text)
        except LogError as error:
            return str(error)

    split = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_read_plain", lambda *_: None)
        assert outcome() == split


@given(
    st.lists(PLAIN, min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\n\n", "\r"]),
    st.sampled_from(["", '"']),
)
def test_what_is_split_is_what_would_be_parsed(
    rows: list[list[str]], end: str, tail: str, quote: str
) -> None:
    """Rows may be of other widths than the header."""
    header = ["n", "m", "o"][: len(rows[0])]
    quoted = ([f"{quote}{cell}{quote}" for cell in row] for row in [header, *rows])
    check_both_ways(end.join(map(",".join, quoted)) + tail)


@settings(max_examples=300)
@given(st.sampled_from(['"a","b"\n', '"a"\n', "a,b\n"]), st.text(alphabet='"",,\nx', max_size=14))
def test_quotes_that_are_needed_or_wrong_are_never_split(header: str, body: str) -> None:
    check_both_ways(header + body)
    check_both_ways(f'{header}"x","{body}"\n')


def test_a_table_that_is_quoted_throughout_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_read_records", None)
    for separator in ",;\t":
        text = f'"a"{separator}"b"\r\n""{separator}"x y"\r\n"1"{separator}""\r\n'
        assert read(text) == {"a": ["", "1"], "b": ["x y", ""]}


def test_a_cell_may_be_long_but_not_too_long() -> None:
    long, longer = "x" * 131_072, "x" * 131_073
    assert read(f"a,b\n{long},1\n") == {"a": [long], "b": ["1"]}
    assert read(f"a,{long}\n1,2\n") == {"a": ["1"], long: ["2"]}
    for text, line in ((f"a,b\n{longer},1\n", 2), (f"a,{longer}\n1,2\n", 1)):
        assert (
            refused(text)
            == f"log.csv:{line}: a cell is longer than 131072 characters (is a quote left open?)"
        )


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_header_that_is_there_again_is_no_measurement(quote: str) -> None:
    """Two logs that `cat` joined; a record of two lines before it counts as two."""
    lines = [["m", "time"], ["1", "2"], ["m", "3"], ["m", "time"], ["4", "5"]]
    text = "".join(",".join(f"{quote}{cell}{quote}" for cell in line) + "\n" for line in lines)
    hint = "(delete it; logs of the same columns need not be joined: a command takes several)"
    assert refused(text) == f"log.csv:4: the header is there a second time {hint}"
    assert refused('m,time\n"1\n2",3\nm,time\n') == f"log.csv:4: the header is there a second time {hint}"
    assert read("m,time\nm,2\n1,time\n") == {"m": ["m", "1"], "time": ["2", "time"]}
