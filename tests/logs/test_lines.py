"""Lines of cells: what is split and looked up is what the cells are, however many of them a line shares with others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heurgen.logs import lines
from heurgen.logs.lines import LineReader, coded, interner, parts

CELLS = st.sampled_from(["", "a", "b", "a b"])


def test_texts_are_numbered_in_order_of_appearance() -> None:
    codes = interner()
    assert coded(["x", "y", "x", ""], codes).tolist() == [0, 1, 0, 2]
    assert list(codes) == ["x", "y", ""]


@given(st.text(alphabet="ab\n", max_size=30), st.integers(1, 8), st.integers(0, 3))
def test_parts_are_the_lines(text: str, size: int, start: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PART", size)
        found = list(parts(text, start))
    whole = text[start:]
    wanted = whole.removesuffix("\n").split("\n") if whole else []
    assert list(itertools.chain(*found)) == wanted
    assert all(sum(map(len, part[:-1])) + len(part) - 1 <= size for part in found)


def test_parts_end_where_they_are_told_to() -> None:
    assert list(parts("a\nb\n\n\n", 2, 3)) == [["b"]]
    assert list(parts("", 0, 0)) == []


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.sampled_from([",", ', "']))
def test_codes_stand_for_the_cells(data: st.DataObject, width: int, shared: int, separator: str) -> None:
    """Whether or not many lines share their first cells, in parts that follow each other."""
    columns = [interner() for _ in range(width)]
    table = LineReader(separator, columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_SHARED", shared)
        for _ in range(2):
            rows = data.draw(st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=8))
            codes: Any = table.read([separator.join(row) for row in rows])
            texts = [list(c) for c in columns]
            assert [
                tuple(t[c[i]] for t, c in zip(texts, codes, strict=True)) for i in range(len(rows))
            ] == rows


def test_first_cells_are_coded_once() -> None:
    """What lines share is one text: its cells are looked up once a part, the others line by line."""
    asked: list[str] = []

    class Column(dict[str, int]):
        def __missing__(self, text: str) -> int:
            asked.append(text)
            return 7

    found = LineReader(",", [Column(), Column(), Column()]).read([f"s,x,{i}" for i in range(16)])
    assert found is not None
    assert [c.tolist() for c in found] == [[7] * 16] * 3
    assert asked == ["s", "x", *map(str, range(16))]


@pytest.mark.parametrize("bad", ["a", "a,b", "a,b,c,d", ""])
@pytest.mark.parametrize("first", ["x,y,1", "x,y,z"])
def test_a_line_of_another_width_is_none(bad: str, first: str) -> None:
    table = LineReader(",", [interner() for _ in range(3)])
    assert table.read([first, bad, first]) is None
    many = table.read([first] * 20)
    assert many is not None
    assert [c.dtype for c in many] == [np.int64] * 3
    assert table.read([first] * 20 + [bad]) is None
