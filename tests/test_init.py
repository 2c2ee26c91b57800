"""The public names: typed for a checker, imported when first used."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import pytest

import heurgen
from heurgen.base.errors import EmitError, LogError, ModelError, SpecError
from tests.support import logs

SOURCE = Path(heurgen.__file__).read_text(encoding="utf-8")
TYPED = {
    alias.asname
    for node in ast.walk(ast.parse(SOURCE))
    if isinstance(node, ast.ImportFrom) and str(node.module).startswith("heurgen.")
    for alias in node.names
}


def test_every_name_is_typed_and_documented() -> None:
    assert set(dir(heurgen)) == TYPED
    for name in dir(heurgen):
        value = getattr(heurgen, name)
        assert name in ("__version__", "Node") or value.__doc__, f"{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'heurgen' has no attribute 'nothing'"):
        heurgen.nothing  # noqa: B018


def test_no_public_name_is_a_module() -> None:
    """A submodule of the same name would take its place as soon as anything imports it."""
    modules = {path.stem for path in Path(heurgen.__file__).parent.glob("*")}
    assert not modules & set(dir(heurgen))


class Frame:
    """What a polars, pyarrow or cudf frame has in common; each iterates over its columns."""

    def to_pandas(self) -> Any:
        raise AssertionError

    def __iter__(self) -> Any:
        return iter([[1], [2]])


@pytest.mark.parametrize(
    "given", [Frame(), io.StringIO("a,b\n"), io.BytesIO(b"a"), b"log.csv", None, 3, {"a": 1}]
)
@pytest.mark.parametrize("listed", [False, True])
def test_what_is_no_path_is_one_clear_error(given: Any, listed: bool) -> None:
    kind = type(given).__name__
    for read, error in ((heurgen.read_spec, SpecError), (heurgen.read_model, ModelError)):
        with pytest.raises(error) as caught:
            read(given)
        assert f"found '{kind}', expected a path" in str(caught.value)
    with pytest.raises(LogError) as log:
        heurgen.read_logs([given] if listed else given)
    assert f"found '{kind}', expected a path" in str(log.value)
    assert ("to_pandas()" in str(log.value)) == isinstance(given, Frame)
    assert ("give its path" in str(log.value)) == hasattr(given, "read")
    with pytest.raises(EmitError, match="expected a path"):
        heurgen.write_atomic(given, "text")


def test_what_is_no_text_is_one_clear_error(tmp_path: Path) -> None:
    file = io.StringIO("{}")
    with pytest.raises(ModelError, match=r"found 'StringIO', expected JSON text \(read_model reads a file"):
        heurgen.from_json(file)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="found 'PosixPath', expected text"):
        heurgen.read_module(Path("module.py"))  # type: ignore[arg-type]
    with pytest.raises(
        ModelError, match=r"found 'out/module.py', expected the text of a module \(read_module reads"
    ):
        heurgen.read_module("out/module.py")
    with pytest.raises(EmitError, match="cannot write: found 'bytes', expected text"):
        heurgen.write_atomic(tmp_path / "a", b"text")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_logs_may_come_from_a_generator(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path)
    found = heurgen.read_logs((path for path in [log]), heurgen.read_spec(spec))  # type: ignore[arg-type]
    assert found.content_hash == heurgen.read_logs(log, heurgen.read_spec(spec)).content_hash
