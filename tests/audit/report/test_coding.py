"""Numbers and texts in few characters."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from heurgen.audit.report.coding import LETTERS, coded, to_script


def listed(coded: Any) -> list[Any]:
    """What the script reads from `coding.coded`."""
    if isinstance(coded, list):
        return coded
    wide, text = len(coded["v"]) > 64, coded["c"]
    numbers = [LETTERS.index(letter) for letter in text]
    places = [64 * a + b for a, b in zip(numbers[::2], numbers[1::2], strict=True)] if wide else numbers
    return [coded["v"][place] for place in places]


@given(
    st.lists(
        st.one_of(st.none(), st.integers(-5, 5), st.floats(0, 1).map(lambda x: round(x, 2)), st.text("ab"))
    )
)
def test_coded_values_are_read_back(values: list[Any]) -> None:
    found = coded(values)
    assert listed(found) == values
    assert len(to_script(found)) <= len(to_script(values))


def test_no_text_ends_the_script_element() -> None:
    text = to_script({"a": "</script><!--<script>&\u2028"})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!--<script>&\u2028"}
