"""The allow-list of a header's tokens."""

from __future__ import annotations

import pytest

from heurgen.base.errors import EmitError
from heurgen.render.cpp import render_cpp, tokens
from heurgen.render.names import plan
from tests.support.models import model

TEXT = render_cpp(model("constant"))
WORDS = frozenset(("matmul", "m", "BLOCK")) | tokens.defined(plan(model("constant")))
NOT_WORD = "generated headers do not contain the word"
NOT = "generated headers do not contain"


def refused(text: str) -> str:
    with pytest.raises(EmitError) as caught:
        tokens.check(text, WORDS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('#include "evil.h"\n', f"{NOT} '#include \"evil.h\"'"),
        ("#define x y\n", f"{NOT} '#define x y'"),
        ("int canary();\n", f"{NOT_WORD} 'int'"),
        ("asm(0);\n", f"{NOT_WORD} 'asm'"),
        ("/* comment */\n", f"{NOT_WORD} 'comment'"),
        ('R"(raw)"\n', f"{NOT_WORD} 'R'"),
        ("// goes on \\\n", "a comment of a generated header goes on in the next line"),
        ("// trigraph ??/\n", "a comment of a generated header goes on in the next line"),
        ("`\n", f"{NOT} '`\\n'"),
        ("'c'\n", f"{NOT} \"'c'\\n\""),
        ("1x\n", f"{NOT} '1x\\n'"),
        ('"\\x41"\n', f"{NOT} '\"\\x41\"\\n'"),
        ('"?"\n', f"{NOT} '\"?\"\\n'"),
        ('"' + "a" * 40, f"{NOT} '\"{'a' * 19}'"),
    ],
)
def test_a_foreign_token_is_refused_with_its_line(extra: str, message: str) -> None:
    tokens.check(TEXT, WORDS)
    line = TEXT.count("\n") + 1
    assert refused(TEXT + extra) == f"line {line}: {message}"


@pytest.mark.parametrize("character", ["\xe9", "\t", "\r", "\x00", "\x7f"])
def test_text_is_printable_ascii(character: str) -> None:
    assert refused(f"{TEXT}// {character}\n") == "the generated text holds characters outside printable ASCII"


def test_a_word_is_allowed_where_the_plan_names_it() -> None:
    assert {"Config", "select_any"} <= WORDS
    assert refused("// a\nselect_other\n") == f"line 2: {NOT_WORD} 'select_other'"
    tokens.check('select_any(BLOCK, 1.5e+3, -2LL, "a\\"\\001") <= m || m != 0;\n', WORDS)
