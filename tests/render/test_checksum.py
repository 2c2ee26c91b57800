"""The checksum line of a generated file."""

from __future__ import annotations

import pytest

from heurgen.base.errors import ModelError
from heurgen.render.checksum import digest, seal, verify
from tests.support.generated import UNSEALED

TEXT = f"# SPDX\n{UNSEALED}\nx = 1\n"
CPP = f"// SPDX\n// {UNSEALED[2:]}\nint x;\n"


@pytest.mark.parametrize("text", [TEXT, CPP])
def test_a_sealed_text_verifies_whatever_its_line_ends(text: str) -> None:
    sealed = seal(text)
    assert 64 * "0" not in sealed
    assert len(sealed) == len(text)
    verify(sealed)
    verify(sealed.replace("\n", "\r\n"))
    assert digest(sealed) == digest(text)
    assert seal(sealed) == sealed


@pytest.mark.parametrize("change", [("x = 1", "x = 2"), ("# SPDX\n", ""), ("x = 1\n", "x = 1")])
def test_an_edit_is_noticed(change: tuple[str, str]) -> None:
    with pytest.raises(ModelError) as caught:
        verify(seal(TEXT).replace(*change))
    assert str(caught.value) == (
        "the checksum does not fit the text: the module was edited by hand "
        "(run `heurgen build` or `heurgen emit` to write it again)"
    )


def test_a_second_checksum_line_is_part_of_the_text() -> None:
    double = seal(TEXT) + f"# checksum sha256 {64 * '1'}\n"
    with pytest.raises(ModelError, match="does not fit"):
        verify(double)


def test_one_placeholder_is_filled_in() -> None:
    assert seal(f"{TEXT}{UNSEALED}\n").endswith(f"\n{UNSEALED}\n")


def test_a_text_without_the_line_is_no_module_of_ours() -> None:
    for text in ("x = 1\n", seal(TEXT).replace("# checksum", "#checksum"), f"  {UNSEALED}\n"):
        with pytest.raises(ModelError) as caught:
            verify(text)
        assert caught.value.message == "the module has no checksum line"
        assert caught.value.hint == "expected a module that `heurgen emit` wrote, unchanged"
