"""Files that other tools wrote are hostile: bounded, and one clear error each whatever they hold."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from heurgen.base.errors import HeurgenError, LogError
from heurgen.logs.importers import foreign
from heurgen.logs.importers.registry import IMPORTERS, import_logs
from tests.logs.importers.helpers import KEYS, H

MOE = "E=8,N=64,device_name=NVIDIA_H200.json"


@pytest.mark.parametrize("kind", [i.kind for i in IMPORTERS])
@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x00", b"\x1f\x8bgarbage", b"BZhgarbage", b"[" * 5000, b"9" * 5000]
)
def test_any_file_is_refused_in_one_way(tmp_path: Path, kind: str, data: bytes) -> None:
    (tmp_path / "file.json").write_bytes(data)
    with pytest.raises(HeurgenError):
        import_logs(kind, [str(tmp_path / "file.json")], KEYS if kind == "triton" else H)


@pytest.mark.parametrize("kind", [i.kind for i in IMPORTERS])
def test_hostile_sizes_are_refused_in_one_way(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, options = tmp_path / "file.json", KEYS if kind == "triton" else H
    monkeypatch.setattr(foreign, "MAX_BYTES", 2**20)
    for data in (b"x" * (2**20 + 1), gzip.compress(bytes(2**22)), bz2.compress(bytes(2**22))):
        file.write_bytes(data)
        with pytest.raises(LogError) as error:
            import_logs(kind, [str(file)], options)
        assert str(error.value) == f"{file}: is larger than 1 MiB (that is the most that heurgen reads)"


@pytest.mark.parametrize(
    ("value", "time"), [(1.5, 1.5), (2, 2.0), (float("inf"), None), (float("nan"), None), (None, None)]
)
def test_infinity_nan_and_null_are_no_times(value: object, time: float | None) -> None:
    assert foreign.time_of(foreign.Foreign("a.json", ""), value, "time") == time
    assert foreign.time_in(foreign.Foreign("a.json", ""), {"t": value}, "t", "row") == time


@pytest.mark.parametrize("value", [0, -1, float("-inf"), True, "1.5", [1.5], 10**400])
def test_what_is_neither_a_time_nor_stands_for_none_is_an_error(value: object) -> None:
    file = foreign.Foreign("a.json", "")
    with pytest.raises(
        LogError, match=r"column 'row\.t': found .*, expected a finite time above 0, or Infinity"
    ):
        foreign.time_in(file, {"t": value}, "t", "row")
    with pytest.raises(LogError) as error:
        foreign.time_in(file, {"u": value}, "t", "row")
    assert str(error.value) == "a.json: column 'row': the key 't' is missing"


# Kinds that are no JSON.
TEXTS = ("miopen", "autoheuristic", "helion", "triton-printed", "hipblaslt", "hipblaslt-tuned", "tunableop")


@pytest.mark.parametrize("kind", [i.kind for i in IMPORTERS if i.kind not in TEXTS])
def test_too_many_values_and_deep_brackets_and_huge_numbers(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "MAX_VALUES", 1000)
    file, options = tmp_path / MOE, KEYS if kind == "triton" else H
    for value, message in (
        ("[" + "0," * 1000 + "0]", "holds more than 1000 values (split the file)"),
        ("[" * 900 + "]" * 900, None),
        ("9" * 5000, "is no JSON: Exceeds the limit (4300 digits) for integer string conversion"),
    ):
        file.write_text(f"[{value}]" if kind == "inductor" else f'{{"a": {value}}}')
        with pytest.raises(LogError) as error:
            import_logs(kind, [str(file)], options)
        assert message is None or str(error.value).partition(": value has")[0] == f"{file}:1: {message}"
