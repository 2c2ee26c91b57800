"""The filters between values and generated text. Nothing reaches a template except as a `Code`.

`literal` is the one way for a value into code, `identifier` for a name, `comment` and `prose` for text that a
person reads. All of them give ASCII without line breaks.
"""

from __future__ import annotations

import keyword
import math
from typing import Any

from heurgen.base.errors import EmitError, quoted
from heurgen.ir import MAX_NAME, MAX_TEXT, NAME

MAX_DIGITS = 400
MAX_NESTING = 20
# A name joins up to three: a vendor, a device, a parameter.
MAX_JOINED = 2 * MAX_TEXT + MAX_NAME + 40


class Code(str):
    """Text that went through a filter of this module and may be written as it is."""

    __slots__ = ()


def code(*parts: str) -> Code:
    """Join fixed text of ours and text that is `Code` already."""
    return Code("".join(parts))


def identifier(name: object) -> Code:
    """A name as it stands in code.

    Raises:
        EmitError: the name is not an ASCII identifier, is a keyword or a dunder, or is longer than MAX_JOINED.
    """
    if type(name) not in (str, Code) or not NAME.fullmatch(str(name)) or len(str(name)) > MAX_JOINED:
        raise EmitError(f"{quoted(name)} cannot be a name in generated code")
    if keyword.iskeyword(str(name)) or str(name).startswith("__"):
        raise EmitError(f"{quoted(name)} cannot be a name in generated code")
    return Code(name)


def literal(value: Any) -> Code:
    """A scalar as a Python literal that evaluates to an equal value of the same type.

    Raises:
        EmitError: the value is no finite number, bool, None or str, or is an int of more than 400 digits.
    """
    if value is None or type(value) is bool:
        return Code(repr(value))
    if type(value) is int and value.bit_length() < MAX_DIGITS * math.log2(10):
        return Code(repr(value))
    if type(value) is float and math.isfinite(value):
        return Code(repr(value))
    if type(value) is str:
        return Code(_string(value))
    found = f"an int of {value.bit_length()} bits" if type(value) is int else quoted(value)
    raise EmitError(f"{found} ({type(value).__name__}) cannot be written as a literal")


def _string(value: str) -> str:
    # Black's rule: double quotes unless that costs more escapes.
    quote = "'" if value.count('"') > value.count("'") else '"'
    return quote + "".join(_character(c, quote) for c in value) + quote


def _character(c: str, quote: str) -> str:
    if c in (quote, "\\"):
        return "\\" + c
    if c in "\n\r\t":
        return repr(c)[1:-1]
    if " " <= c <= "~":
        return c
    number = ord(c)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def prose(text: object) -> Code:
    """Text for a docstring: one line of printable ASCII without double quotes and backslashes."""
    return Code("".join(_readable(c, '"\\') for c in str(text)))


def comment(text: object) -> Code:
    """Text for a comment, as `prose`, and with nothing in it that a tool could take for an instruction.

    An encoding cookie (PEP 263), an editor's mode line and a linter's pragma need a colon or an equals sign.
    """
    return Code("".join(_readable(c, '"\\:=#') for c in str(text)))


def _readable(c: str, refused: str) -> str:
    if " " <= c <= "~" and c not in refused:
        return c
    if c == '"':
        return "'"
    return " " if c in "\t\n\r" else f"<U+{ord(c):04X}>"
