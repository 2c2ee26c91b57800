"""The one family of exceptions that heurgen raises for bad input.

HeurgenError
  UsageError    the command line, or arguments that do not fit together
  SpecError     a kernel spec or a project file
  LogError      a tuning log, or a foreign log
  ModelError    a model JSON, a generated module, or an estimator that has no IR
  EmitError     text that must not be written (a name clash, a node outside the allow-list)
"""

from __future__ import annotations


class HeurgenError(Exception):
    """What was found, what was expected, where, and what to do about it.

    `file`, `row` (1-based line of the file) and `column` (name or key) are None where they do not apply.
    """

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = None if file is None else str(file)
        self.row = row
        self.column = column
        self.hint = hint

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = printable(self.file) + (f":{self.row}" if self.row is not None else "") + ": "
        elif self.row is not None:
            place = f"line {self.row}: "
        column = f"column {quoted(self.column)}: " if self.column is not None else ""
        hint = f" ({printable(self.hint)})" if self.hint else ""
        return f"{place}{column}{printable(self.message)}{hint}"


class UsageError(HeurgenError):
    """The command line, or arguments that do not fit together."""


class SpecError(HeurgenError):
    """A kernel spec or a project file."""


class LogError(HeurgenError):
    """A tuning log, or a foreign log."""


class ModelError(HeurgenError):
    """A model JSON, a generated module, or an estimator that has no IR."""


class EmitError(HeurgenError):
    """Text that must not be written."""


# Letters, marks and symbols that nothing shows: Unicode's Default_Ignorable_Code_Point outside C and Z, and the
# blank Braille pattern. A name with one of them reads like another name.
_INVISIBLE = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0,
     *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
)  # fmt: skip


def printable(text: object) -> str:
    """Text fit for a terminal or a page: control, bidi and invisible characters become escapes."""
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(c if _shows(c) else ascii(c)[1:-1] for c in whole)


def _shows(c: str) -> bool:
    return c.isprintable() and ord(c) not in _INVISIBLE


def quoted(text: object, limit: int = 60) -> str:
    """A found value as an error message shows it: quoted, escaped, and cut where it is long."""
    try:
        whole = str(text)
    except (ValueError, RecursionError):  # an int of more than 4300 digits, or such a one in a list
        whole = f"a {type(text).__name__} that cannot be shown"
    return literal(whole if len(whole) <= limit else whole[: limit - 3] + "...")


def literal(text: str) -> str:
    """A text in quotes for a person: letters of every script as they are, what hides or steers as escapes."""
    return repr(printable(text)).replace("\\\\", "\\")
