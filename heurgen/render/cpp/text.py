"""The filters between values and C++ text; see heurgen.render.text for Python's."""

from __future__ import annotations

import math
import re

from heurgen.base.errors import EmitError, quoted
from heurgen.render import text
from heurgen.render.text import Code

# Words that C++17, C++20 or GNU mode reserves, and macros that common headers and GNU mode define in lower case or
# plainly; the many of <cstdint>, <cinttypes>, <climits>, <cfloat> and <cmath> are told by their form.
KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq".split()
)
MACROS = frozenset(
    "NULL EOF NAN INFINITY EDOM ERANGE EILSEQ BUFSIZ RAND_MAX linux unix i386 assert errno major minor makedev "
    "stdin stdout stderr min max near far small interface I DECIMAL_DIG MAXFLOAT math_errhandling".split()
)
_SIZES = "(FAST|LEAST)?(8|16|32|64)|MAX|PTR"
MACRO_FORMS = re.compile(
    rf"U?INT_?({_SIZES})?_(MAX|MIN|C|WIDTH)"
    r"|(U?(CHAR|SHRT|LONG|LLONG|LONG_LONG)|SCHAR|BOOL|S?SIZE|PTRDIFF|SIG_ATOMIC|WCHAR|WINT)_(MAX|MIN|WIDTH|BIT)"
    rf"|(PRI|SCN)[dioxXu]({_SIZES})"
    r"|(FLT|DBL|LDBL)_(DIG|MANT_DIG|DECIMAL_DIG|EPSILON|TRUE_MIN|NORM_MAX|HAS_SUBNORM|(MIN|MAX)((_10)?_EXP)?)"
    r"|FLT_(RADIX|ROUNDS|EVAL_METHOD)"
    r"|M_(E|LOG2E|LOG10E|LN2|LN10|PI|PI_2|PI_4|1_PI|2_PI|2_SQRTPI|SQRT2|SQRT1_2)(l|f(16|32|64|128)?x?)?"
    r"|FP_(NAN|INFINITE|ZERO|SUBNORMAL|NORMAL|(I|L)LOGB(0|NAN)|FAST_FMAF?L?|INT_(UPWARD|DOWNWARD|TOWARDZERO|TONEAREST|TONEARESTFROMZERO))"
    r"|(HUGE_VAL|SNAN)_?[FL]?[0-9]*X?|MATH_ERR(NO|EXCEPT)"
)
# Words that the header uses for itself inside functions.
OURS = frozenset(("std", "vendor", "device", "capability", "select", "provenance", "detail", "heurgen"))
_INT64 = 2**63


def identifier(name: str) -> Code:
    """A name of the model in C++: as it is, or with an underscore behind it where C++ or a macro owns it.

    Raises:
        EmitError: the name is no identifier, or C++ reserves names of its form.
    """
    found = text.identifier(name)
    if "__" in name or (name[0] == "_" and name[1:2].isupper()):
        raise EmitError(
            f"{quoted(name)} cannot be a name in C++, which reserves it",
            hint="names with two underscores, or with one before a capital; rename it in the log",
        )
    taken = name in KEYWORDS | MACROS | OURS or MACRO_FORMS.fullmatch(name)
    return Code(found + "_") if taken else found


def string(value: str, *, view: bool = False) -> Code:
    """A string literal of the UTF-8 bytes; `view`: a string_view of them, NUL bytes included."""
    data = value.encode("utf-8", "surrogatepass")
    literal = '"' + "".join(map(_character, data)) + '"'
    return Code(f"::std::string_view({literal}, {len(data)})" if view else literal)


def _character(byte: int) -> str:
    c = chr(byte)
    if c in '"\\?':  # two question marks could begin a trigraph
        return "\\" + c
    # Three octal digits end by themselves; a hexadecimal escape would take in what follows.
    return c if " " <= c <= "~" else f"\\{byte:03o}"


def number(value: int | float) -> Code:
    """An int as int64, a float as a double that reads back as the same one.

    Raises:
        EmitError: an int does not fit int64, or a float is not finite.
    """
    if type(value) is float:
        if not math.isfinite(value):
            raise EmitError(f"{value!r} cannot be written as a double")
        return Code(repr(value))
    if not -_INT64 <= value < _INT64:
        raise EmitError(f"{value} does not fit int64", hint="C++ has no wider standard integer")
    if value == -_INT64:
        return Code("(-9223372036854775807LL - 1)")
    return Code(f"{value}LL" if abs(value) >= 2**31 else str(value))


def comment(value: object, kept: str = "") -> Code:
    """Text for a // comment: one line of printable ASCII, no backslash at its end, no trigraph.

    `kept` are characters that Python's comments refuse and that mean nothing in C++'s.
    """
    marks = {c: chr(0xE000 + i) for i, c in enumerate(kept)}
    hidden = "".join(marks.get(c, c) for c in str(value) if not 0xE000 <= ord(c) < 0xE010)
    shown = text.comment(hidden).replace("?", "<U+003F>")
    for c, mark in marks.items():
        shown = Code(shown.replace(f"<U+{ord(mark):04X}>", c))
    return Code(shown)


def value(value: object) -> Code:
    """A value of a config.

    Raises:
        EmitError: it has no literal in C++.
    """
    if value is None:
        return Code("::std::nullopt")
    if isinstance(value, bool):
        return Code("true" if value else "false")
    if isinstance(value, int | float):
        return number(value)
    return string(str(value), view=True)
