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


# Kinds that are no JSON.
TEXTS = ("miopen", "autoheuristic", "helion", "triton-printed")


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
