# ruff: noqa: E501
"""Caches as triton-dejavu writes them: what each part must be, and what their paths say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError, LogError, UsageError
from tests.logs.importers.caches import TAIL, WriteCache, cache
from tests.logs.importers.helpers import import_dejavu, reread


def failure(kind: type[HeurgenError], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        import_dejavu(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("where", "device", "vendor"),
    [
        ("dejavu_0.7/cuda_12.4/torch_2.5/triton_3.1/gpu_NVIDIA_A100/k/code_version-1/default/cache.json", "NVIDIA A100", "nvidia"),
        ("dejavu_0.7/rocm_6.2.4/torch_2.5/triton_3.1/gpu_Instinct_MI210/k/cache.json", "Instinct MI210", "amd"),
        ("cuda_12.4/gpu_H20/k/cache.json", "H20", "nvidia"),
        ("gpu_Tesla_V100/k/cache.json", "Tesla V100", "nvidia"),
        ("my__kernel__AMD_Radeon__triton3.3.0__abc.dejavu.json", "AMD Radeon", "amd"),
    ],
)  # fmt: skip
def test_device_and_vendor_from_the_path(
    write_cache: WriteCache, where: str, device: str, vendor: str
) -> None:
    imported = import_dejavu([write_cache(cache(), where)])
    assert {row[:2] for row in imported.rows} == {(vendor, device)}


def test_arguments_override_the_path(write_cache: WriteCache) -> None:
    imported = import_dejavu([write_cache(cache())], device="My GPU", vendor="acme")
    assert {row[:2] for row in imported.rows} == {("acme", "My GPU")}


def test_unknown_device_and_vendor(write_cache: WriteCache) -> None:
    path = write_cache(cache(), "plain/cache.json")
    assert failure(UsageError, [path]) == f"{path} does not say the device (say which: --device NAME)"
    assert failure(UsageError, [path], device="X1") == (
        f"{path}: the vendor of the device 'X1' is unknown (say which: --vendor nvidia)"
    )
    assert failure(UsageError, [path], device="X1", vendor="N V") == (
        "found the vendor 'N V', expected a vendor in lower-case letters, digits and underscores, such as nvidia"
    )
    assert "'a\\x1bb' is no device name" in failure(UsageError, [path], device="a\x1bb", vendor="amd")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["ms"], "0.25"),
        (["ms", "min_ms", "max_ms"], "0.25"),
        (["min_ms", "median_ms", "max_ms"], "0.5"),
        (["mean_us", "max_us"], "0.00025"),
        (["p20_ms", "p80_ms", "avg_s"], "1000.0"),
        (None, "0.25"),
    ],
)
def test_which_timing_counts(write_cache: WriteCache, labels: list[str] | None, expected: str) -> None:
    data = cache()
    data["timings"] = {k: [0.25, 0.5, 1.0] for k in data["timings"]}
    data["timings_data"] = {"labels": labels} if labels else None
    assert {row[-1] for row in import_dejavu([write_cache({k: v for k, v in data.items() if v})]).rows} == {
        expected
    }


KEY = "('16', 'True', '0.5', 'torch.float16')"


def only(key: str = KEY, winner: Any = f"BLOCK_N: 32, {TAIL}", timing: Any = (0.25,)) -> dict[str, Any]:
    return cache(cache={key: winner}, timings={key: timing})


def test_a_value_that_is_an_empty_text_is_blank(write_cache: WriteCache) -> None:
    """Triton writes a modifier of loads that is not set as nothing at all."""
    keys = (KEY, KEY.replace("16", "128", 1))
    winners = {k: f"BLOCK: 16, cache_modifier: {m}, {TAIL}" for k, m in zip(keys, ("", ".cg"), strict=True)}
    found = import_dejavu([write_cache(cache(cache=winners, timings={key: [0.5] for key in keys}))])
    place = found.columns.index("cache_modifier")
    assert sorted(row[place] for row in found.rows) == ["", ".cg"]


@pytest.mark.parametrize(
    ("data", "row", "message"),
    [
        ("{", 1, "is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ('{"keys": [],\n "keys": []}', 1, "the key 'keys' is there twice in one object"),
        ("[" * 100_000, None, None),
        ("[1]", None, "found a list, expected an object"),
        (cache(keys=None), None, "has no 'keys' (expected a triton-dejavu cache.json with keys, cache and timings)"),
        (cache(timings=None), None, "has no 'timings' (expected a triton-dejavu cache.json with keys, cache and timings)"),
        (cache(cache=[]), 10, "'cache' is a list, expected an object"),
        (cache(keys={}), 5, "'keys' is a dict, expected an array"),
        (cache(cache={}), 10, "has no winner in 'cache'"),
        (cache(keys=["a", 1, "c"]), 5, "'keys' holds '1', expected names"),
        (cache(keys=["a", "b", "a"]), 6, "'keys' holds the name 'a' twice or it is taken"),
        (only("('16', 'True')"), 11, "the key \"('16', 'True')\" has 2 values, expected 3 as in 'keys', then dtypes"),
        (only("('1', '2', '3', '4')"), 11, "the key \"('1', '2', '3', '4')\" has 4 values, expected 3 as in 'keys', then dtypes"),
        (only("__import__('os').system('true')"), 11, "the key \"__import__('os').system('true')\" is no tuple of strings"),
        (only("('1', ['2'], '3')"), 11, "the key \"('1', ['2'], '3')\" is no tuple of strings"),
        (only("(" * 5000), 11, None),
        (only("('', '2', '3')"), None, "the value of 'MAX_SEQ_Q' in the key \"('', '2', '3')\" is blank"),
        (only(winner=7), 11, f'the winner of "{KEY}" is \'7\', expected \'NAME: value, NAME: value\''),
        (only(winner="BLOCK 32"), 11, f'the winner of "{KEY}" is \'BLOCK 32\', expected \'NAME: value, NAME: value\''),
        (only(winner="A: 1, A: 2"), 11, f'the winner of "{KEY}" names A twice'),
        (only(timing=[]), 11, f'the time of "{KEY}" is \'None\', expected a finite number above 0'),
        (only(timing=[0]), 11, f'the time of "{KEY}" is \'0\', expected a finite number above 0'),
        (only(timing=[-1.0]), 11, f'the time of "{KEY}" is \'-1.0\', expected a finite number above 0'),
        (only(timing=["1"]), 11, f'the time of "{KEY}" is \'1\', expected a finite number above 0'),
        (only(timing=[True]), 11, f'the time of "{KEY}" is \'True\', expected a finite number above 0'),
        (only(timing=[float("inf")]), 11, f'the time of "{KEY}" is \'inf\', expected a finite number above 0'),
        (only(timing=[float("nan")]), 11, f'the time of "{KEY}" is \'nan\', expected a finite number above 0'),
        (only(timing=[10**400]), 11, None),
        (cache(timings={KEY: [1.0]}), 12, "'timings' lacks the key \"('128', 'False', '0.5', 'torch.float16')\""),
        (cache(timings_data={"labels": ["furlongs"]}), 23, "no label in \"['furlongs']\" is a median or mean with its unit (expected 'ms' for example)"),
        (cache(timings_data={"labels": "ms"}), 22, "'timings_data.labels' is no list of labels"),
    ],
)  # fmt: skip
def test_malformed(write_cache: WriteCache, data: Any, row: int | None, message: str | None) -> None:
    path = write_cache(data)
    with pytest.raises(LogError) as caught:
        import_dejavu([path])
    assert caught.value.file == str(path)
    if message is not None:
        place = str(path) if row is None else f"{path}:{row}"
        assert str(caught.value) == f"{place}: {message}"


def test_key_lengths_that_differ(write_cache: WriteCache) -> None:
    keys = ["('1', '2', '3', 'torch.float16')", "('2', '2', '3')"]
    data = cache(cache=dict.fromkeys(keys, f"BLOCK_N: 1, {TAIL}"), timings={k: [1.0] for k in keys})
    path = write_cache(data)
    assert failure(LogError, [path]) == (
        f"{path}:12: the key \"('2', '2', '3')\" has 3 values, and keys before it 4"
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "gpu_AMD_X/none.json"
    assert failure(LogError, [missing]) == f"{missing}: cannot be read: No such file or directory"
    assert failure(LogError, [tmp_path]) == f"{tmp_path}: this is a directory, expected a file"
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    assert (
        failure(LogError, [tmp_path / "latin.json"])
        == f"{tmp_path}/latin.json:1: byte 7 (0xe9) is no UTF-8 (save the file as UTF-8)"
    )


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 800), cut=st.integers(0, 40), new=st.text(max_size=8))
def test_any_damage_gives_a_log_or_one_clear_error(
    write_cache: WriteCache, at: int, cut: int, new: str
) -> None:
    text = json.dumps(cache(), indent=1)
    path = write_cache((text[:at] + new + text[at + cut :]).encode("utf-8", "replace").decode())
    try:
        imported = import_dejavu([path])
    except HeurgenError as error:
        message = str(error)
        assert all(c == " " or c.isprintable() for c in message)
    else:
        reread(imported)
