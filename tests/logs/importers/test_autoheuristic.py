# ruff: noqa: E501
"""AutoHeuristic logs -> tuning logs."""

from __future__ import annotations

import gzip
import json
import tomllib
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from heurgen.base.errors import HeurgenError, LogError, UsageError
from heurgen.logs.importers.autoheuristic import import_autoheuristic
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers import synthetic
from tests.logs.importers.helpers import (
    Case,
    H,
    Table,
    Wrong,
    cases,
    check_refusal,
    read_back,
    reread,
    tables,
    write,
)
from tests.logs.importers.heuristics import HEADER, METADATA, ROWS, TRITON, WriteHeuristic

HEURISTIC = {
    "shared_memory": 1,
    "device_capa": [9, 0],
    "name": "mm",
    "numerical_features": ["m"],
    "categorical_features": [],
}


def heuristic(
    row: str = "8,type=triton_BLOCK-M=64,0.5", header: str = "m,choice,feedback", **changes: Any
) -> str:
    return "\n".join([json.dumps(HEURISTIC | changes), header, row, ""])


WRONG: Wrong = {
    "autoheuristic": [
        ("mm.txt", H, "x\n", "FILE:1: the first line is no JSON object (expected AutoHeuristic's metadata)"),
        ("mm.txt", H, "[]\n", "FILE:1: the first line is a JSON list, expected an object"),
        ("mm.txt", H, "{}\n", "FILE:1: the metadata lacks 'shared_memory'"),
        ("mm.txt", H, heuristic(name=3), "FILE:1: 'name' is '3', expected text"),
        ("mm.txt", H, heuristic(numerical_features="m"), "FILE:1: 'numerical_features' is 'm', expected a list of names"),
        ("mm.txt", H, heuristic(categorical_features=["m"]), "FILE:1: 'm' is a numerical and a categorical feature"),
        ("mm.txt", H, heuristic(header="m,choice"), "FILE:2: column 'feedback': is missing"),
        ("mm.txt", H, heuristic(header="m,k,choice,feedback"), "FILE:2: column 'k': is no feature of the metadata"),
        ("mm.txt", H, heuristic("8,x"), "FILE:3: found 2 cells, expected 3 cells"),
        ("mm.txt", H, heuristic("big,x,1"), "FILE:3: column 'm': found 'big', expected a number"),
        ("mm.txt", H, heuristic("8,x,-1"), "FILE:3: column 'feedback': found '-1', expected a time above 0 in ms, inf or nan"),
        ("mm.txt", H, heuristic("8,\x1b,1"), "FILE:3: column 'choice': found '\\x1b', expected printable text without spaces around it"),
        ("mm.txt", Options(), heuristic(device_capa="9.0"), "FILE:1: device_capa '9.0' and shared_memory '1' name no device "
         "(expected [major, minor] and bytes, or say which: --device NAME)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


def failure(kind: type[HeurgenError], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        import_autoheuristic(*args, **options)
    return str(caught.value)


def test_a_small_log(write_heuristic: WriteHeuristic) -> None:
    imported = import_autoheuristic([write_heuristic()])
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
        "4 rows, 1 of them failed",
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
    log = reread(imported)
    assert (log.n_measurements, log.n_failures, log.n_scenarios, log.n_configs) == (4, 1, 2, 2)


def test_a_larger_log_reads_back(tmp_path: Path) -> None:
    imported = import_autoheuristic([synthetic.write(tmp_path / "a.txt", 40, repeats=3)])
    spec = tomllib.loads(imported.spec_text())
    assert spec["features"]["mat1_iscontig"] == {"type": "bool"}
    assert spec["features"]["using_tf32"] == {"type": "category"}
    assert spec["features"]["arith_intensity"] == {"type": "float"}
    assert spec["features"]["mat1_stride_0"] == {"type": "int"}
    log = reread(imported)
    assert (log.n_measurements, log.n_scenarios, log.n_configs) == (2400, 40, 20)


def test_bare_choices_alone(write_heuristic: WriteHeuristic) -> None:
    rows = [f"{m},0.5,torch.float16,{c},{m}.5" for m in (1, 2) for c in ("orig", "pad")]
    imported = import_autoheuristic([write_heuristic(rows)])
    assert tomllib.loads(imported.spec_text())["parameters"] == {"type": {"type": "category"}}
    assert "# dtype = " in imported.spec_text()
    assert reread(imported).n_scenarios == 2


def test_tile_parameters_are_optional_before_a_bare_choice_is_seen(write_heuristic: WriteHeuristic) -> None:
    spec = tomllib.loads(import_autoheuristic([write_heuristic([ROWS[0]])]).spec_text())
    assert spec["parameters"].pop("type") == {"type": "category"}
    assert set(map(str, spec["parameters"].values())) == {"{'type': 'int', 'optional': True}"}


def test_vendor_and_device(write_heuristic: WriteHeuristic) -> None:
    imported = import_autoheuristic([write_heuristic()], vendor="amd", device="AMD Instinct MI300X")
    assert {row[:2] for row in imported.rows} == {("amd", "AMD Instinct MI300X")}
    assert not any("metadata" in n for n in imported.notes)
    assert failure(UsageError, [write_heuristic()], vendor="N V") == (
        "'N V' is no vendor (vendor names match [a-z][a-z0-9_]*)"
    )
    for device in ("", " H100"):
        assert failure(UsageError, [write_heuristic()], device=device) == (
            f"{device!r} is no device name (say which: --device NAME)"
        )
    assert failure(UsageError, []) == "no file to import (name at least one AutoHeuristic log)"


def test_several_devices(write_heuristic: WriteHeuristic) -> None:
    other = write_heuristic(
        metadata=METADATA | {"device_capa": [8, 0], "shared_memory": 166912}, name="a100.txt"
    )
    imported = import_autoheuristic([write_heuristic(), other])
    assert {row[1] for row in imported.rows} == {"sm_80 166912 B", "sm_90 232448 B"}
    assert reread(imported).n_scenarios == 4


def in_folders(tmp_path: Path, **folders: tuple[int, str]) -> list[Path]:
    """folder=(capability's first number, row): a log in each."""
    paths = []
    for folder, (major, row) in folders.items():
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "mm.txt")
        paths[-1].write_text(heuristic(row, device_capa=[major, 0]))
    return paths


SLOW, FAST = "8,type=triton_BLOCK-M=64,0.5", "8,type=triton_BLOCK-M=64,0.25"


def test_devices_of_equal_metadata_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """As PyTorch writes them: autoheuristic/<torch.cuda.get_device_name()>/<name>.txt."""
    files = in_folders(tmp_path, NVIDIA_H100_80GB_HBM3=(9, SLOW), NVIDIA_H200=(9, FAST))
    imported = import_autoheuristic(files)
    assert [row[:2] + row[-1:] for row in imported.rows] == [
        ("nvidia", "NVIDIA H100 80GB HBM3", "0.5"),
        ("nvidia", "NVIDIA H200", "0.25"),
    ]
    said = "device from the folder's name: NVIDIA H100 80GB HBM3, NVIDIA H200 (name it with --device)"
    assert said in imported.notes
    assert not any("metadata" in note for note in imported.notes)
    assert {row[1] for row in import_autoheuristic(files[:1], device="mine").rows} == {"mine"}
    assert failure(UsageError, files, device="mine") == (
        "the files tell 2 devices (NVIDIA H100 80GB HBM3, NVIDIA H200), and --device would make them one "
        "(import them one at a time; train takes several logs)"
    )


def test_the_folder_tells_the_vendor_too(tmp_path: Path) -> None:
    files = in_folders(tmp_path, AMD_Instinct_MI300X=(9, SLOW), NVIDIA_H200=(9, FAST))
    assert [row[0] for row in import_autoheuristic(files).rows] == ["amd", "nvidia"]
    assert failure(UsageError, files, vendor="nvidia") == (
        "the files tell 2 vendors (amd, nvidia), and --vendor would make them one "
        "(import them one at a time; train takes several logs)"
    )


def test_a_folder_of_somebody_s_own_is_no_device(tmp_path: Path) -> None:
    imported = import_autoheuristic(in_folders(tmp_path, h100_march=(9, SLOW), nvidia=(9, FAST)))
    assert {row[1] for row in imported.rows} == {"sm_90 1 B"}


def test_folders_that_tell_no_device_are_of_one(tmp_path: Path) -> None:
    imported = import_autoheuristic(in_folders(tmp_path, monday=(9, SLOW), tuesday=(9, FAST)))
    assert {row[1] for row in imported.rows} == {"sm_90 1 B"}
    assert imported.notes[:2] == (
        "device from the metadata: sm_90 1 B (name it with --device)",
        "files of 2 folders are taken for those of one device, sm_90 1 B: where they are not, import one device at a time",
    )


def test_a_name_over_different_metadata_is_no_device(tmp_path: Path) -> None:
    first, second = in_folders(tmp_path, h100_and_a100=(9, SLOW), other=(8, FAST))
    second = second.rename(first.with_name("a100.txt"))
    assert {row[1] for row in import_autoheuristic([first, second]).rows} == {"sm_80 1 B", "sm_90 1 B"}


def test_a_folder_that_tells_no_device_beside_one_that_does(tmp_path: Path) -> None:
    known, other = files = in_folders(tmp_path, NVIDIA_H200=(9, SLOW), more=(9, FAST))
    assert failure(LogError, files) == (
        f"{other}: its folder tells no device, and that of {known}, with equal metadata, NVIDIA H200 "
        "(put it into a folder of its device's name, or import one device at a time: --device NAME)"
    )
    assert len(import_autoheuristic(files, device="NVIDIA H200").rows) == 2
    other.write_text(heuristic(FAST, device_capa=[8, 0]))
    assert {row[1] for row in import_autoheuristic(files).rows} == {"NVIDIA H200", "sm_80 1 B"}


def test_row_column_and_file_order_do_not_matter(write_heuristic: WriteHeuristic) -> None:
    def text(imported: Imported) -> tuple[str, str]:
        return imported.csv_text(), imported.spec_text()

    expected = text(import_autoheuristic([write_heuristic()]))
    assert text(import_autoheuristic([write_heuristic(ROWS[::-1])])) == expected
    turned = [",".join(reversed(row.split(","))) for row in ROWS]
    assert (
        text(import_autoheuristic([write_heuristic(turned, ",".join(reversed(HEADER.split(","))))]))
        == expected
    )
    files = [
        write_heuristic(ROWS[:2], name="z.txt"),
        write_heuristic(ROWS[2:3], name="b.txt"),
        write_heuristic(ROWS[3:], name="c.txt"),
    ]
    assert {text(import_autoheuristic(p)) for p in permutations(files)} == {expected}


def test_equal_files_are_taken_once(write_heuristic: WriteHeuristic) -> None:
    first, second = write_heuristic(name="a.txt"), write_heuristic(name="b.txt")
    imported = import_autoheuristic([second, first])
    assert len(imported.rows) == 4
    assert f"{second} has the content of {first}: taken once" in imported.notes


def test_hostile_feature_names(write_heuristic: WriteHeuristic) -> None:
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
    imported = import_autoheuristic([write_heuristic(rows, ",".join(names) + ",choice,feedback", metadata)])
    assert imported.columns[2 : 2 + len(names)] == (
        *("device_", "class_", "import_os", "f_1LEQmLEQ16", "x", "type_2", "f_2", "BLOCK_M_2"),
        *("a_times_b_2", "a_times_b", "f"),
    )
    assert all(c == "\n" or c.isprintable() for note in imported.notes for c in note)
    assert reread(imported).n_scenarios == 2


def test_different_heuristics(write_heuristic: WriteHeuristic) -> None:
    first, second = write_heuristic(), write_heuristic(metadata=METADATA | {"name": "mm"}, name="b.txt")
    message = failure(LogError, [first, second])
    assert message.endswith(" (import one heuristic at a time)")
    assert "its name is " in message


def test_one_of_the_heuristics_of_a_folder(tmp_path: Path) -> None:
    """PyTorch writes `autoheuristic/DEVICE/mm.txt` and `mixed_mm.txt` side by side."""
    for name in ("mm", "mixed_mm"):
        write(tmp_path, f"{name}.txt", heuristic(name=name))
    folder = [str(tmp_path)]
    for kind in ("autoheuristic", "auto"):
        imported = import_logs(kind, folder, Options(kernel="mm"))
        assert (imported.draft.name, len(imported.rows)) == ("mm", 1)
    with pytest.raises(UsageError) as error:
        import_logs("autoheuristic", folder, Options())
    assert str(error.value) == "the files are of 2 kernels (say which: --kernel mixed_mm or mm)"
    with pytest.raises(UsageError, match="no file is of the kernel 'pad_mm'"):
        import_logs("autoheuristic", folder, Options(kernel="pad_mm"))


def test_booleans_among_the_numerical_features(write_heuristic: WriteHeuristic) -> None:
    rows = [f"{m},{b},a,extern,1.0" for m, b in ((1, "True"), (2, "False"))]
    spec = tomllib.loads(import_autoheuristic([write_heuristic(rows)]).spec_text())
    assert spec["features"]["k_over_m_times_n"] == {"type": "bool"}


@settings(max_examples=15, deadline=None)
@given(tables)
def test_autoheuristic(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    head = {"shared_memory": 232448, "device_capa": [9, 0], "name": "mm", "numerical_features": ["m", "n"]}
    lines = [json.dumps(head | {"categorical_features": []}), "m,n,choice,feedback"]
    for (m, n, block, warps), time in table.items():
        choice = f"type=triton_BLOCK={block}_numwarps={warps}"
        lines.append(f"{m},{n},{choice},{('inf', 'nan')[len(lines) % 2] if time is None else repr(time)}")
    file = write(tmp_path_factory.mktemp("ah"), "mm.txt", "\n".join(lines) + "\n")
    packed = Path(file + ".gz")
    packed.write_bytes(gzip.compress(Path(file).read_bytes()))
    for path in (file, str(packed)):
        assert read_back(import_logs("auto", [path], Options()), "m", "n") == table
