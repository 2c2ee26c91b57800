"""Keys of @triton.autotune, read from sources that are never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import HeurgenError
from heurgen.logs.importers.decorator import decorator_keys

SOURCE = """\
raise SystemExit
import triton
import triton as tr
from triton import autotune as tune
from triton.runtime.autotuner import autotune
from elsewhere import IMPORTED

COMMON: list[str] = ["M", "N"]
K = "K"
KEYS = [*COMMON, K]
tuned = triton.autotune(configs=[], key=KEYS)
AGAIN = ["a"]
AGAIN = ["b"]
LOOP = OTHER
OTHER = LOOP

@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (16, 32)], key=["M", "N"])
@triton.jit
def literal(x): ...

@tr.autotune([], COMMON + ["K"])
@triton.heuristics({"EVEN": lambda a: True})
@triton.jit
def concatenated(x): ...

@tune(configs=[], key=tuple(KEYS))
@triton.jit
def imported_name(x): ...

@autotune(configs=[], key=("M", K))
@triton.jit
def other_import(x): ...

@tuned
@triton.jit
def in_a_variable(x): ...

def plain(x): ...

@triton.jit
def inner(x): ...

applied = triton.autotune(configs=[], key=["M"])(inner)

if True:
    class Holder:
        @triton.autotune(configs=[], key=["n_rows"])
        def method(x): ...

@triton.autotune(configs=[], key=IMPORTED)
def from_elsewhere(x): ...

@triton.autotune(configs=[], key=[n for n in COMMON])
def computed(x): ...

@triton.autotune(configs=[], key=AGAIN)
def assigned_twice(x): ...

@triton.autotune(configs=[], key=LOOP)
def endless(x): ...

@triton.autotune(configs=[])
def without(x): ...

@triton.autotune(configs=[], key=["lambda"])
def bad_name(x): ...
"""


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        ("literal", ("M", "N")),
        ("concatenated", ("M", "N", "K")),
        ("imported_name", ("M", "N", "K")),
        ("other_import", ("M", "K")),
        ("in_a_variable", ("M", "N", "K")),
        ("inner", ("M",)),
        ("applied", ("M",)),
        ("method", ("n_rows",)),
    ],
)
def test_keys(tmp_path: Path, function: str, keys: tuple[str, ...]) -> None:
    (tmp_path / "k.py").write_text(SOURCE)
    assert decorator_keys(f"{tmp_path}/k.py:{function}") == keys


UNREAD = "key is no list of names that can be read without running the file: "
WRONG = {
    "from_elsewhere": f"FILE:50: {UNREAD}found 'IMPORTED' (--keys)",
    "computed": f"FILE:53: {UNREAD}found '[n for n in COMMON]' (--keys)",
    "assigned_twice": f"FILE:56: {UNREAD}found 'AGAIN' (--keys)",
    "endless": f"FILE:59: {UNREAD}names that stand for each other (--keys)",
    "without": "FILE:62: the decorator has no key (--keys)",
    "bad_name": "FILE:65: 'lambda' cannot name a feature",
    "plain": "FILE:38: plain has no @triton.autotune (autotuned there: AUTOTUNED)",
    "missing": "FILE: has no function 'missing' (autotuned there: AUTOTUNED)",
}


@pytest.mark.parametrize("function", WRONG)
def test_what_cannot_be_read(tmp_path: Path, function: str) -> None:
    (tmp_path / "k.py").write_text(SOURCE)
    with pytest.raises(HeurgenError) as error:
        decorator_keys(f"{tmp_path}/k.py:{function}")
    message = str(error.value).replace(f"{tmp_path}/k.py", "FILE")
    start, mark, names = message.partition("autotuned there: ")
    assert (start + "autotuned there: AUTOTUNED)" if mark else message) == WRONG[function]
    assert not mark or {"literal", "inner", "method"} <= set(names.rstrip(")").split(", "))


def test_no_python(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("def f(:\n")
    with pytest.raises(HeurgenError, match=r"k.py:1: is no Python$"):
        decorator_keys(f"{tmp_path}/k.py:f")


def test_a_kernel_that_is_defined_twice(tmp_path: Path) -> None:
    """One key is one key; of two nobody knows which the cache has."""
    kernel = "@triton.autotune(configs=[], key={})\n@triton.jit\ndef k(x): ...\n"
    file = tmp_path / "kernels.py"
    file.write_text("import triton\n" + kernel.format('["M"]') + kernel.format('("M",)'))
    assert decorator_keys(f"{file}:k") == ("M",)
    file.write_text("import triton\n" + kernel.format('["M"]') + kernel.format('["M", "N"]'))
    with pytest.raises(HeurgenError) as error:
        decorator_keys(f"{file}:k")
    assert str(error.value) == f"{file}:5: k is autotuned by other keys on another line, too (--keys)"
