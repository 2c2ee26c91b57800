# ruff: noqa: E501
"""AutoHeuristic logs -> tuning logs."""

from __future__ import annotations

import json
import random
import time
import tomllib
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError, LogError, UsageError
from heurgen.ir import check_name
from heurgen.logs.importers.autoheuristic import import_autoheuristic
from heurgen.logs.importers.choices import parameter_order, parse_choice
from heurgen.logs.importers.common import Imported
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.logs.importers import synthetic

TRITON = "type=triton_BLOCK-M=64_BLOCK-K=32_BLOCK-N=64_numstages=3_numwarps=4"
METADATA = {
    "shared_memory": 232448,
    "device_capa": [9, 0],
    "name": "mixed_mm",
    "numerical_features": ["m", "k/(m*n)"],
    "categorical_features": ["dtype"],
}
HEADER = "m,k/(m*n),dtype,choice,feedback"
ROWS = (
    f"16,0.5,torch.float16,{TRITON},0.25",
    "16,0.5,torch.float16,extern_mm,inf",
    f"16,0.5,torch.float16,{TRITON},0.26",
    "4294967296,1e-05,torch.bfloat16,extern_mm,1.5",
)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(
        rows: Sequence[str] = ROWS, header: str = HEADER, metadata: Any = METADATA, name: str = "mm.txt"
    ) -> Path:
        first = metadata if isinstance(metadata, str) else json.dumps(metadata)
        (tmp_path / name).write_text("\n".join((first, header, *rows)) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


def read_back(imported: Imported, folder: Path) -> Any:
    """The log through the strict reader, by the drafted spec as it is."""
    (folder / "log.csv").write_text(imported.csv_text(), encoding="utf-8", newline="")
    (folder / "spec.toml").write_text(imported.spec_text(), encoding="utf-8")
    return read_logs([folder / "log.csv"], read_spec(folder / "spec.toml"))


def failure(kind: type[HeurgenError], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        import_autoheuristic(*args, **options)
    return str(caught.value)


def test_a_small_log(write: Write, tmp_path: Path) -> None:
    imported = import_autoheuristic([write()])
    assert imported.csv_text() == (
        "vendor,device,m,k_over_m_times_n,dtype,type,BLOCK_M,BLOCK_K,BLOCK_N,num_stages,num_warps,status,time_ms\n"
        "nvidia,sm_90 232448 B,16,0.5,torch.float16,extern_mm,,,,,,error,\n"
        "nvidia,sm_90 232448 B,16,0.5,torch.float16,triton,64,32,64,3,4,ok,0.25\n"
        "nvidia,sm_90 232448 B,16,0.5,torch.float16,triton,64,32,64,3,4,ok,0.26\n"
        "nvidia,sm_90 232448 B,4294967296,1e-05,torch.bfloat16,extern_mm,,,,,,ok,1.5\n"
    )
    assert imported.notes == (
        "device from the metadata: sm_90 232448 B (name it with --device)",
        "renamed features: 'k/(m*n)' is k_over_m_times_n",
        "4 rows, 1 of them failures",
    )
    assert imported.spec_text() == (
        "# Drafted by heurgen import autoheuristic from 4 rows of mixed_mm on sm_90 232448 B\n"
        "[kernel]\n"
        'name = "mixed_mm"\n'
        "\n"
        "[features]  # order = argument order of generated functions\n"
        'm = { type = "int" }\n'
        'k_over_m_times_n = { type = "float" }\n'
        'dtype = { type = "category" }\n'
        "\n"
        "[parameters]\n"
        'type = { type = "category" }\n'
        'BLOCK_M = { type = "int", optional = true }\n'
        'BLOCK_K = { type = "int", optional = true }\n'
        'BLOCK_N = { type = "int", optional = true }\n'
        'num_stages = { type = "int", optional = true }\n'
        'num_warps = { type = "int", optional = true }\n'
    )
    log = read_back(imported, tmp_path)
    assert (log.n_measurements, log.n_failures, log.n_scenarios, log.n_configs) == (4, 1, 2, 2)


def test_a_larger_log_reads_back(tmp_path: Path) -> None:
    imported = import_autoheuristic([synthetic.write(tmp_path / "a.txt", 40, repeats=3)])
    spec = tomllib.loads(imported.spec_text())
    assert spec["features"]["mat1_iscontig"] == {"type": "bool"}
    assert spec["features"]["using_tf32"] == {"type": "category"}
    assert spec["features"]["arith_intensity"] == {"type": "float"}
    assert spec["features"]["mat1_stride_0"] == {"type": "int"}
    log = read_back(imported, tmp_path)
    assert (log.n_measurements, log.n_scenarios, log.n_configs) == (2400, 40, 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extern_mm", {"type": "extern_mm"}),
        (TRITON, {"type": "triton", "BLOCK_M": "64", "BLOCK_K": "32", "BLOCK_N": "64", "num_stages": "3", "num_warps": "4"}),
        ("type=triton_BLOCK-M=128_BLOCK-K=-1", {"type": "triton", "BLOCK_M": "128", "BLOCK_K": "-1"}),
        ("type=triton_BLOCK-K=None", {"type": "triton", "BLOCK_K": ""}),
        ("type=triton_mm_persistent_GROUP-M=8", {"type": "triton_mm_persistent", "GROUP_M": "8"}),
        ("numwarps=4", {"num_warps": "4"}),
        ("type=a_type=b", {"type": "type=a_type=b"}),
        ("extern_x=3", {"type": "extern_x=3"}),
        ("class=1_time-ms=2", {"class_": "1", "time_ms_": "2"}),
        ("=", {"type": "="}),
    ],
)  # fmt: skip
def test_choices(text: str, expected: dict[str, str]) -> None:
    assert parse_choice(text) == expected


def test_parameter_order_does_not_depend_on_the_choices_order() -> None:
    choices = [{"z": "1", "num_warps": "4"}, {"a": "1", "type": "x", "BLOCK_N": "2", "BLOCK_M": "1"}]
    expected = ("type", "BLOCK_M", "BLOCK_N", "num_warps", "a", "z")
    assert {parameter_order(p) for p in permutations(choices)} == {expected}


def test_type_is_a_legal_parameter_on_every_python() -> None:
    check_name("type", "parameter")


def test_bare_choices_alone(write: Write, tmp_path: Path) -> None:
    rows = [f"{m},0.5,torch.float16,{c},{m}.5" for m in (1, 2) for c in ("orig", "pad")]
    imported = import_autoheuristic([write(rows)])
    assert tomllib.loads(imported.spec_text())["parameters"] == {"type": {"type": "category"}}
    assert "# dtype = " in imported.spec_text()
    assert read_back(imported, tmp_path).n_scenarios == 2


def test_tile_parameters_are_optional_before_a_bare_choice_is_seen(write: Write) -> None:
    spec = tomllib.loads(import_autoheuristic([write([ROWS[0]])]).spec_text())
    assert spec["parameters"].pop("type") == {"type": "category"}
    assert set(map(str, spec["parameters"].values())) == {"{'type': 'int', 'optional': True}"}


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), cut=st.integers(0, 40), new=st.text(max_size=8))
def test_any_damage_gives_a_log_or_one_clear_error(write: Write, at: int, cut: int, new: str) -> None:
    path = write()
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:at] + new + text[at + cut :], encoding="utf-8", errors="replace")
    try:
        imported = import_autoheuristic([path])
    except HeurgenError as error:
        message = str(error)
        assert all(c == " " or c.isprintable() for c in message)
    else:
        read_back(imported, path.parent)


def test_vendor_and_device(write: Write) -> None:
    imported = import_autoheuristic([write()], vendor="amd", device="AMD Instinct MI300X")
    assert {row[:2] for row in imported.rows} == {("amd", "AMD Instinct MI300X")}
    assert not any("metadata" in n for n in imported.notes)
    assert failure(UsageError, [write()], vendor="N V") == (
        "'N V' is no vendor (vendor names match [a-z][a-z0-9_]*)"
    )
    assert failure(UsageError, [write()], device="") == "'' is no device name (say which: --device NAME)"
    assert failure(UsageError, []) == "no file to import (name at least one AutoHeuristic log)"


def test_several_devices(write: Write, tmp_path: Path) -> None:
    other = write(metadata=METADATA | {"device_capa": [8, 0], "shared_memory": 166912}, name="a100.txt")
    imported = import_autoheuristic([write(), other])
    assert {row[1] for row in imported.rows} == {"sm_80 166912 B", "sm_90 232448 B"}
    assert read_back(imported, tmp_path).n_scenarios == 4


def test_row_column_and_file_order_do_not_matter(write: Write) -> None:
    def text(imported: Imported) -> tuple[str, str]:
        return imported.csv_text(), imported.spec_text()

    expected = text(import_autoheuristic([write()]))
    assert text(import_autoheuristic([write(ROWS[::-1])])) == expected
    turned = [",".join(reversed(row.split(","))) for row in ROWS]
    assert text(import_autoheuristic([write(turned, ",".join(reversed(HEADER.split(","))))])) == expected
    files = [write(ROWS[:2], name="z.txt"), write(ROWS[2:3], name="b.txt"), write(ROWS[3:], name="c.txt")]
    assert {text(import_autoheuristic(p)) for p in permutations(files)} == {expected}


def test_equal_files_are_taken_once(write: Write) -> None:
    first, second = write(name="a.txt"), write(name="b.txt")
    imported = import_autoheuristic([second, first])
    assert len(imported.rows) == 4
    assert f"{second} has the content of {first}: taken once" in imported.notes


def test_hostile_feature_names(write: Write, tmp_path: Path) -> None:
    names = [
        "device",
        "class",
        "import os",
        "1LEQmLEQ16",
        "__x",
        "type",
        "é",
        "BLOCK_M",
        "a*b",
        "a_times_b",
        "\x1b[",
    ]
    metadata = METADATA | {"numerical_features": names, "categorical_features": []}
    rows = [",".join([str(i)] * len(names)) + f",{TRITON},1.0" for i in (1, 2)]
    imported = import_autoheuristic([write(rows, ",".join(names) + ",choice,feedback", metadata)])
    assert imported.columns[2 : 2 + len(names)] == (
        *("device_", "class_", "import_os", "f_1LEQmLEQ16", "x", "type_2", "f_2", "BLOCK_M_2"),
        *("a_times_b_2", "a_times_b", "f"),
    )
    assert all(c == "\n" or c.isprintable() for note in imported.notes for c in note)
    assert read_back(imported, tmp_path).n_scenarios == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("16,0.5,torch.float16,extern_mm", ":7: found 4 cells, expected 5 cells"),
        ("16,0.5,torch.float16,extern_mm,1.0,2", ":7: found 6 cells, expected 5 cells"),
        ("x,0.5,torch.float16,extern_mm,1.0", ":7: column 'm': found 'x', expected a number"),
        ("None,0.5,torch.float16,extern_mm,1.0", ":7: column 'm': found 'None', expected a number"),
        ("1,nan,torch.float16,extern_mm,1.0", ":7: column 'k/(m*n)': found 'nan', expected a number"),
        ("1,,torch.float16,extern_mm,1.0", ":7: column 'k/(m*n)': found '', expected a number"),
        (
            "1,0.5,,extern_mm,1.0",
            ":7: column 'dtype': found '', expected printable text without spaces around it",
        ),
        (
            "1,0.5,a\x1bb,extern_mm,1.0",
            r":7: column 'dtype': found 'a\x1bb', expected printable text without spaces around it",
        ),
        ("1,0.5,a,,1.0", ":7: column 'choice': found '', expected printable text without spaces around it"),
        ("1,0.5,a,b,nan", ":7: column 'feedback': found 'nan', expected a time above 0 in ms, or inf"),
        ("1,0.5,a,b,-inf", ":7: column 'feedback': found '-inf', expected a time above 0 in ms, or inf"),
        ("1,0.5,a,b,0", ":7: column 'feedback': found '0', expected a time above 0 in ms, or inf"),
        ("1,0.5,a,b,-1", ":7: column 'feedback': found '-1', expected a time above 0 in ms, or inf"),
        ("1,0.5,a,b,1e999", ":7: column 'feedback': found '1e999', expected a time above 0 in ms, or inf"),
        ("1,0.5,a,b,", ":7: column 'feedback': found '', expected a time above 0 in ms, or inf"),
        ('1,0.5,"a"b,c,1', ":7: is no CSV: ',' expected after '\"'"),
    ],
)
def test_bad_rows(write: Write, row: str, message: str) -> None:
    path = write([*ROWS, row, ROWS[0], row])
    assert failure(LogError, [path]) == f"{path}{message}"


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in METADATA.items() if k != key}


@pytest.mark.parametrize(
    ("metadata", "header", "message"),
    [
        ("m,k,choice", HEADER, ":1: the first line is no JSON object (expected AutoHeuristic's metadata)"),
        ("[1]", HEADER, ":1: the first line is a JSON list, expected an object"),
        (without("name"), HEADER, ":1: the metadata lacks 'name'"),
        (without("shared_memory"), HEADER, ":1: the metadata lacks 'shared_memory'"),
        (METADATA | {"name": 3}, HEADER, ":1: 'name' is '3', expected text"),
        (
            METADATA | {"numerical_features": "m"},
            HEADER,
            ":1: 'numerical_features' is 'm', expected a list of names",
        ),
        (
            METADATA | {"categorical_features": ["a", "a"]},
            HEADER,
            ":1: 'categorical_features' names a feature twice",
        ),
        (
            METADATA | {"categorical_features": ["m"]},
            HEADER,
            ":1: 'm' is a numerical and a categorical feature",
        ),
        (
            METADATA | {"device_capa": "9.0"},
            HEADER,
            ":1: device_capa '9.0' and shared_memory '232448' name no device "
            "(expected [major, minor] and bytes, or say which: --device NAME)",
        ),
        (METADATA, HEADER.replace("dtype", "m"), ":2: column 'm': is there twice"),
        (METADATA, HEADER + ",extra", ":2: column 'extra': is no feature of the metadata"),
        (METADATA, HEADER.replace(",choice", ""), ":2: column 'choice': is missing"),
        (METADATA, HEADER.replace("m,", ""), ":2: column 'm': is missing"),
    ],
)
def test_bad_heads(write: Write, metadata: Any, header: str, message: str) -> None:
    path = write(metadata=metadata, header=header)
    assert failure(LogError, [path]) == f"{path}{message}"


def test_files_that_hold_nothing_or_cannot_be_read(write: Write, tmp_path: Path) -> None:
    empty = write([])
    assert failure(LogError, [empty]) == f"{empty}: has no measurement"
    missing = tmp_path / "none.txt"
    assert failure(LogError, [missing]) == f"{missing}: cannot be read: No such file or directory"
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"\xe9")
    assert failure(LogError, [latin]) == f"{latin}:1: byte 0 (0xe9) is no UTF-8 (save the file as UTF-8)"


def test_different_heuristics(write: Write) -> None:
    first, second = write(), write(metadata=METADATA | {"name": "mm"}, name="b.txt")
    message = failure(LogError, [first, second])
    assert message.endswith(" (import one heuristic at a time)")
    assert "its name is " in message


def test_blank_lines_windows_line_ends_and_a_byte_order_mark(write: Write) -> None:
    path = write([ROWS[0], "", *ROWS[1:], "", ""])
    expected = import_autoheuristic([write(name="b.txt")]).csv_text()
    assert import_autoheuristic([path]).csv_text() == expected
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert import_autoheuristic([path]).csv_text() == expected


def test_booleans_among_the_numerical_features(write: Write) -> None:
    rows = [f"{m},{b},a,extern,1.0" for m, b in ((1, "True"), (2, "False"))]
    spec = tomllib.loads(import_autoheuristic([write(rows)]).spec_text())
    assert spec["features"]["k_over_m_times_n"] == {"type": "bool"}


def test_fifty_thousand_rows_take_few_seconds(tmp_path: Path) -> None:
    text = synthetic.lines(500, repeats=5)
    rows = text[2:]
    random.Random(0).shuffle(rows)
    path = tmp_path / "mm.txt"
    path.write_text("\n".join(text[:2] + rows) + "\n")
    start = time.process_time()
    assert import_autoheuristic([path]).csv_text().count("\n") == 50_001
    assert time.process_time() - start < 4.0
