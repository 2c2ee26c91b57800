"""JSON lines: what the pattern of the first line reads, the parser reads too, and the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.logs import jsonl, lines
from heurgen.logs.cells import parse_cells, read_cells
from tests.logs.tables import refused

VALUES: Any = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=5), st.just("ok")
)
KEYS = ("time_ms", "a b", "é\n", 'q"')


def text_of(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, float) and value != value:
        return "nan"
    return str(value) if not isinstance(value, str) else value


@settings(max_examples=150, deadline=None)
@given(
    st.data(), st.integers(1, 4), st.sampled_from(["", " ", "\t"]), st.sampled_from(["\n", "\r\n", "\n\n"])
)
def test_every_line_is_read_as_the_parser_reads_it(
    tmp_path_factory: Any, data: st.DataObject, width: int, space: str, end: str
) -> None:
    keys = KEYS[:width]
    rows = data.draw(st.lists(st.tuples(*[VALUES] * width), min_size=1, max_size=6))
    separators = (f"{space},{space}", f"{space}:{space}")
    texts = [json.dumps(dict(zip(keys, r, strict=True)), separators=separators) for r in rows]
    path = tmp_path_factory.getbasetemp() / "log.jsonl"
    path.write_text(end.join(texts) + data.draw(st.sampled_from(["", end])), newline="")
    cells = read_cells([path])
    found = [tuple(cells.texts[k][cells.codes[k][i]] for k in keys) for i in range(cells.n)]
    assert found == [tuple(text_of(v) for v in row) for row in rows]
    step = end.count("\n")
    assert [cells.place(i)[1] for i in range(cells.n)] == [1 + i * step for i in range(len(rows))]


def test_parts_of_another_form(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(lines, "_PART", 40)
    rows: list[dict[str, Any]] = [{"a": i, "b": "x"} for i in range(20)]
    rows[7] = {"b": "y\\", "a": 7}
    rows[12] = {"a": 12, "c": None}
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    cells = read_cells([path])
    found = {k: [cells.texts[k][c] for c in cells.codes[k]] for k in cells.codes}
    assert found["a"] == [str(i) for i in range(20)]
    assert found["b"] == ["x"] * 7 + ["y\\"] + ["x"] * 4 + [""] + ["x"] * 7
    assert found["c"] == [""] * 20
    assert [cells.place(i)[1] for i in range(20)] == list(range(1, 21))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"n": 1}\n{"n": }\n', "FILE:2: this is no JSON line: Expecting value"),
        ('{"n": 1}\n[1]\n', "FILE:2: found no object, expected one on every line"),
        ('{"n": [1, [2]]}\n', "FILE:1: column 'n': found another list, expected a list of at most 16 numbers or texts"),
        ('{"n": [[1]]}\n', "FILE:1: column 'n': found another list, expected a list of at most 16 numbers or texts"),
        ('{"n": [' + "1," * 16 + "1]}\n", "FILE:1: column 'n': found another list, expected a list of at most 16 "),
        ('{"n": 1}\n\n' + '{"n":' * 7 + "2" + "}" * 7, "FILE:3: column 'n.n.n.n.n.n': found objects in 6 objects, "
         "expected at most 5"),
        ('{"a.b": 1, "a": {"b": 2}}\n', "FILE:1: column 'a.b': the key is there twice"),
        ('{"n": 1, "n": 2}\n', "FILE:1: column 'n': the key is there twice"),
        ("{}\n{}\n", "FILE: the lines name no column"),
        ("[" * 9000, "FILE: the file has a header and no measurements"),
        ('{"a":' + "[" * 99000, "FILE:1: this is no JSON line: "),
        ("{\n", "FILE:1: this is no JSON line: Expecting property name enclosed in double quotes"),
    ],
)  # fmt: skip
def test_bad_json_lines(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text, "log.jsonl").startswith(message)


@pytest.mark.parametrize("layout", ["compact", "indented", "a line each"])
def test_a_list_of_objects_is_a_table(tmp_path: Path, layout: str) -> None:
    rows = [
        {"M": 1, "config": {"BLOCK": 16}, "ms": 0.5},
        {"M": 2, "ms": None},
        {"config": {"BLOCK": 64}, "ms": 1e-3},
    ]
    text = {
        "compact": json.dumps(rows),
        "indented": "\n" + json.dumps(rows, indent=1) + "\n",
        "a line each": "[\n" + ",\n".join(map(json.dumps, rows)) + "]",
    }[layout]
    (tmp_path / "list.json").write_text(text)
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    listed, lines = read_cells([tmp_path / "list.json"]), read_cells([tmp_path / "lines.jsonl"])
    assert listed.texts == lines.texts
    assert {n: c.tolist() for n, c in listed.codes.items()} == {n: c.tolist() for n, c in lines.codes.items()}


def test_a_list_may_be_one_long_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As json.dump and pandas write it; its objects are bounded, as lines are."""
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"n": i, "x": "a" * 100} for i in range(10_000)]))
    assert path.stat().st_size > 2**20
    assert read_cells([path]).n == 10_000
    monkeypatch.setattr("heurgen.logs.jsonl.MAX_OBJECT", 40)
    for indent in range(9):
        path.write_text(
            "\ufeff" + json.dumps([{"n": i, "x": "a" * (i % 9)} for i in range(50)], indent=indent)
        )
        assert read_cells([path]).texts["n"] == [str(i) for i in range(50)]
    rows = [json.dumps({"n": i, "x": "a" * (90 * (i == 2))}) for i in range(9)]
    long = "FILE:3: the list is no JSON: Unterminated string starting at, or an object is longer than 40"
    assert refused(tmp_path, "[" + ",\n".join(rows) + "]", "log.json") == long


def test_a_row_of_a_list_is_where_its_object_begins(tmp_path: Path) -> None:
    text = '[\n {"n": 1,\n  "m": 2},\n\n {"n": 1, "n": 2}]'
    assert refused(tmp_path, text, "log.json") == "FILE:5: column 'n': the key is there twice"
    many = "[" + ",\n".join('{"n": 1}' for _ in range(5000)) + ',\n{"n": [[1]]}]'
    assert refused(tmp_path, many, "log.json").startswith("FILE:5001: column 'n': found another list")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"n": 1},\n 3]', "FILE:2: found no object, expected one for every row"),
        ('[{"n": 1}\n {"n": 2}]', "FILE:2: the list is no JSON: expected , or ] behind an object"),
        ('[{"n": 1},\n{"n": 2', "FILE:2: the list is no JSON: Expecting ',' delimiter"),
        ('[{"n": 1},\n]', "FILE:2: the list is no JSON: Expecting value"),
        ('[{"n": 1}]\n{"n": 2}\n', "FILE:1: found more behind the list"),
        ('[{"n": 1}', "FILE:1: the list is no JSON: expected , or ] behind an object"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text, "log.json") == message


PANDAS = 'pandas writes such with to_json(..., orient="records", lines=True)'
COLUMNS = {"M": {"0": 1, "1": 2}, "ms": {"0": 0.5, "1": 0.7}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"gpu": "H200", "runs": [{"M": i} for i in range(2)]}, "(write its objects a line each: jq -c '.runs[]')"),
        ({"a": {"runs.1": [{"M": 1}, {}]}}, "(write its objects a line each: jq -c '.a.runs.1[]')"),
        ({"runs'; rm": [{"M": 1}]}, "expected a list of at most 16 numbers or texts"),
        ({"stats": {"data": [0.5] * 20}}, "(if no launch depends on it: jq -c 'del(.stats.data)')"),
        ({"M": list(range(20))}, f"(a row is an object: {PANDAS})"),
        (COLUMNS, f"FILE:1: found an object of columns, expected one of a row on every line ({PANDAS})"),
    ],
)  # fmt: skip
def test_other_json_is_told_how_to_become_lines(tmp_path: Path, data: Any, message: str) -> None:
    assert refused(tmp_path, json.dumps(data) + "\n", "log.json").endswith(message)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"context": {"caches": [{}]}, "benchmarks": [{"M": 1}]}, "jq -c '.benchmarks[]'"),
        ({"meta": {}, "devices": [{"id": 0}], "benchmarks": [{"M": 1}]}, "jq -c '.benchmarks[]'"),
        ({"1": [{"runtime": 1}], "2": [{"runtime": 2}]}, "jq -c 'to_entries[] | {problem: .key} + .value[]'"),
    ],
)
def test_a_document_is_told_where_its_rows_are(tmp_path: Path, data: Any, hint: str) -> None:
    """Google Benchmark, pytest-benchmark and nvbench write their rows behind a context, KernelBench by problems."""
    message = "FILE:1: found one object over several lines, expected one on every line "
    assert refused(tmp_path, json.dumps(data, indent=2) + "\n", "log.json") == (
        f"{message}(write its objects a line each: {hint}; a known tuner's file is read by heurgen import auto)"
    )


def test_a_document_of_no_rows_or_too_long_a_one_is_no_json_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = json.dumps({"a": [1], "b": []}, indent=2)
    assert ":1: this is no JSON line" in refused(tmp_path, lines, "log.json")
    monkeypatch.setattr(jsonl, "MAX_DOCUMENT", 9)
    assert ":1: this is no JSON line" in refused(tmp_path, json.dumps({"a": [{}]}, indent=2), "log.json")


def test_objects_with_a_key_0_are_rows_where_others_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"sizes": {"0": 1}, "ms": 2}\n')
    assert {"sizes.0", "ms"} <= {*read_cells([path]).texts}


@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_lines_of_one_form_are_not_parsed(tmp_path: Path, monkeypatch: Any, separators: Any) -> None:
    rows = [{"a": i, "b": "x", "c": None} for i in range(20)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(r, separators=separators) for r in rows) + "\n")
    monkeypatch.setattr(jsonl, "_records", None)
    assert read_cells([path]).texts == {"a": [str(i) for i in range(20)], "b": ["x"], "c": [""]}


def test_cells_that_are_remembered_are_few(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(jsonl, "_KEPT", 3)
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"a": {i % 7}}}\n' for i in range(50)))
    cells = read_cells([path])
    assert [cells.texts["a"][c] for c in cells.codes["a"]] == [str(i % 7) for i in range(50)]


def test_the_usual_cause_of_a_first_line_that_is_none(tmp_path: Path) -> None:
    hint = " (one object a line, as in '{}'; what another tool wrote is read by heurgen import auto)"
    assert (
        refused(tmp_path, '{"a":\n1}\n', "log.jsonl")
        == f"FILE:1: this is no JSON line: Expecting value{hint}"
    )
    assert refused(tmp_path, '{"a": x}\n', "log.jsonl") == "FILE:1: this is no JSON line: Expecting value"
    assert (
        refused(tmp_path, '{"a": 1}\n{"a":\n', "log.jsonl") == "FILE:2: this is no JSON line: Expecting value"
    )


def test_objects_and_lists_are_columns_of_their_own() -> None:
    lines = [
        '{"gpu": {"name": "H200", "sm": 90}, "sizes": [4, 8], "ok": true}',
        '{"gpu": {"name": "A100"}, "sizes": [4], "note": {}, "ok": null}',
    ]
    cells = parse_cells([("t", "\n".join(lines))])
    found = {k: [cells.texts[k][c] for c in cells.codes[k]] for k in cells.codes}
    assert found == {
        "gpu.name": ["H200", "A100"],
        "gpu.sm": ["90", ""],
        "sizes.0": ["4", "4"],
        "sizes.1": ["8", ""],
        "ok": ["true", ""],
    }


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        ('{"sizes": [4, 8], "ok": true}', {"sizes.0", "sizes.1", "ok"}),
        ('{"ok": true, "gpu": {"name": "H200"}}', {"ok", "gpu.name"}),
        ('{"ok": true, "note": {}}', {"ok"}),
    ],
)
def test_a_key_with_a_list_or_an_object_is_no_column_itself(line: str, columns: set[str]) -> None:
    """It was one without cells, which `init` drafted and `validate` died of."""
    assert set(parse_cells([("t", f"{line}\n{line}\n")]).codes) == columns
