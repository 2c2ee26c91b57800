"""The checksum line of a generated file, in the manner of CPython's Argument Clinic."""

from __future__ import annotations

import hashlib
import re

from heurgen.base.errors import ModelError

# A Python module has it behind "#", a C++ header behind "//".
_LINE = re.compile(r"^(?:#|//) checksum sha256 ([0-9a-f]{64})\n", re.MULTILINE)
_EMPTY = re.compile(r"^(#|//) checksum sha256 0{64}$", re.MULTILINE)


def digest(text: str) -> str:
    """SHA-256 over the text without its checksum line, as UTF-8 with `\\n` line ends."""
    plain = _LINE.sub("", text.replace("\r\n", "\n"), count=1)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def seal(text: str) -> str:
    """The text with its placeholder line filled in."""
    return _EMPTY.sub(rf"\g<1> checksum sha256 {digest(text)}", text, count=1)


def verify(text: str) -> None:
    """Check that nobody edited a generated module.

    Raises:
        ModelError: there is no checksum line, or it does not fit the text.
    """
    found = _LINE.search(text.replace("\r\n", "\n"))
    if not found:
        raise ModelError(
            "the module has no checksum line", hint="expected a module that `heurgen emit` wrote, unchanged"
        )
    if found[1] != digest(text):
        raise ModelError(
            "the checksum does not fit the text: the module was edited by hand",
            hint="run `heurgen build` or `heurgen emit` to write it again",
        )
