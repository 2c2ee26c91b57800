"""The one family of exceptions that heurgen raises for bad input.

HeurgenError
  UsageError    the command line, or arguments that do not fit together
  SpecError     a kernel spec or a project file
  LogError      a tuning log, or a foreign log
  ModelError    a model JSON, a generated module, or an estimator that has no IR
  EmitError     text that must not be written (a name clash, a node outside the allow-list)
"""

from __future__ import annotations

import unicodedata


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


def printable(text: object) -> str:
    """Text fit for a terminal: control, bidi and invisible characters become escapes."""
    return "".join(
        c if c == " " or (unicodedata.category(c)[0] not in "CZ") else ascii(c)[1:-1] for c in str(text)
    )


def quoted(text: object, limit: int = 60) -> str:
    """A found value as an error message shows it: quoted, escaped, and cut where it is long."""
    whole = str(text)
    return repr(printable(whole if len(whole) <= limit else whole[: limit - 3] + "...")).replace("\\\\", "\\")
