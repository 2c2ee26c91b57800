"""The allow-list: a generated header is cut into tokens again, and each must be one that we write."""

from __future__ import annotations

import re

from heurgen.base.errors import EmitError, quoted
from heurgen.render.allowed import check_characters
from heurgen.render.names import Names

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*(?=\n))
      | (?P<directive>(?<=\n)\#[^\n]*(?=\n))
      | (?P<string>(?<![A-Za-z0-9_])"(?:[\ !\#->@-\[\]-~]|\\(?:[0-7]{3}|["\\?]))*")
      | (?P<number>(?<![A-Za-z0-9_.])[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?(?:LL)?(?![A-Za-z0-9_.]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>::|<=|==|!=|&&|\|\||\[\[|\]\]|[-+*/<>=!?:;,.(){}])
      | (?P<space>[ \n]+)""",
    re.VERBOSE,
)
DIRECTIVES = frozenset(
    (
        "#pragma once",
        "#include <cfloat>",
        "#include <cmath>",
        "#include <cstdint>",
        "#include <optional>",
        "#include <stdexcept>",
        "#include <string>",
        "#include <string_view>",
        "#if defined(__FAST_MATH__)",
        '#error "heurgen: NaN and infinities are compared here, compile without -ffast-math"',
        "#if defined(__clang__)",
        "#pragma clang fp contract(off)",
        "#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)",
        "#pragma GCC push_options",
        '#pragma GCC optimize("fp-contract=off")',
        "#pragma GCC pop_options",
        "#endif",
    )
)
_WORDS = frozenset(
    "heurgen detail namespace struct std int64_t string_view optional nullopt double bool true false const constexpr "
    "inline noexcept maybe_unused return if static_cast static_assert FLT_EVAL_METHOD select vendor device "
    "capability refuse message value char throw noreturn void string invalid_argument "
    "provenance lesser greater ratio floor_div modulo a b fmod floor copysign rest quotient whole".split()
)


def defined(plan: Names) -> frozenset[str]:
    """The functions and types that the plan names."""
    return frozenset((*(f"select_{prefix}" for prefix in plan.prefixes.values()), *plan.types.values()))


def check(text: str, words: frozenset[str]) -> None:
    """Check every token of a header; nothing is compiled. `words`: the model's, beside those of every header.

    Raises:
        EmitError: there is a character, a directive or a word that such headers do not have.
    """
    check_characters(text)
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        line = text.count("\n", 0, place) + 1
        if not found:
            raise EmitError(f"generated headers do not contain {quoted(text[place : place + 20])}", row=line)
        kind, token = found.lastgroup, found[0]
        if kind == "directive" and token not in DIRECTIVES:
            raise EmitError(f"generated headers do not contain {quoted(token)}", row=line)
        if kind == "word" and token not in _WORDS and token not in words:
            raise EmitError(f"generated headers do not contain the word {quoted(token)}", row=line)
        if kind == "comment" and (token.endswith("\\") or "?" in token):
            raise EmitError("a comment of a generated header goes on in the next line", row=line)
        place = found.end()
