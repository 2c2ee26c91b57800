"""A kernel spec to change in one place, and what a changed one is refused with."""

from __future__ import annotations

import pytest

from heurgen.base.errors import SpecError
from heurgen.spec.draft_toml import Draft, Entry, to_toml
from heurgen.spec.kernel_spec import KernelSpec, parse_spec

GOOD = """[kernel]
name = "k"
[features]
n = { type = "int" }
dtype = { type = "category", values = ["a", "b"] }
[derived]
[parameters]
BM = { type = "int" }
[log]
"""


def feature(line: str) -> str:
    return GOOD.replace('n = { type = "int" }', line)


def parameter(line: str) -> str:
    return GOOD.replace('BM = { type = "int" }', line)


def derived(line: str) -> str:
    return GOOD.replace("[derived]", f"[derived]\n{line}")


def log(line: str) -> str:
    return GOOD + line


def refused(text: str) -> str:
    """The message, without the file's name."""
    with pytest.raises(SpecError) as error:
        parse_spec(text, "FILE")
    return str(error.value).removeprefix("FILE")


def spec_to_toml(spec: KernelSpec) -> str:
    """The spec as TOML; reading it gives back an equal spec.

    Raises:
        SpecError: a string holds a lone surrogate, which TOML cannot write.
    """
    return to_toml(
        Draft(
            name=spec.name,
            features=tuple(map(Entry, spec.features)),
            parameters=tuple(map(Entry, spec.parameters)),
            derived=spec.derived,
            log=spec.log,
            group=spec.group,
        )
    )
