# ruff: noqa: E501  (messages stand whole)
"""vLLM's and SGLang's tuned JSON: winners."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from heurgen.base.errors import UsageError
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, winners, write

MOE = "E=8,N=64,device_name=NVIDIA_H200.json"
SGLANG = "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"


WRONG: Wrong = {
    "vllm": [
        (MOE, H, "[]", "FILE: found a list, expected an object"),
        (MOE, H, "{}", "the files hold no measurement that vllm wrote"),
        (MOE, H, '{"x": {}}', "FILE:1: found the key 'x', expected a number of tokens"),
        (MOE, H, '{"1": 3}', "FILE:1: column '1': found a number, expected an object"),
        (MOE, H, '{"1": {}}', "FILE:1: column '1': the config is empty"),
        (MOE, H, '{"1": {"BLOCK_SIZE_M": [1]}}', "FILE:1: column '1.BLOCK_SIZE_M': found '[1]', expected a number or text"),
        (MOE, H, '{"1": {"BLOCK_SIZE_M": " x"}}', "FILE:1: column '1.BLOCK_SIZE_M': found ' x', expected text of 1 to 4096 printable "
         "characters, without spaces around it"),
        (MOE, H, '{"1": {"B": 1}, "1": {"B": 2}}', "FILE:1: the key '1' is there twice in one object"),
        ("best.json", H, '{"1": {"B": 1}}', "FILE: the name 'best.json' does not say its problem (expected "
         "E=8,N=3584,device_name=NVIDIA_H200[,dtype=..][,block_shape=[..]].json or the like)"),
        ("E=8,N=64,device_name=Alien.json", Options(), '{"1": {"B": 1}}', "FILE: the vendor of the device 'Alien' is unknown "
         "(say which: --vendor nvidia)"),
        ("NVIDIA_H200_SHRINK.json", H, '{"1": {"2": {"B": 1}}}', "FILE:1: '1.2' ends after 2 levels"),
        ("NVIDIA_H200_SHRINK.json", H, '{"a": {"2": {"B": 1}}}', "FILE:1: found 'a', expected max_loras, num_slices, m, k, n, i"),
    ],
    "sglang": [
        (SGLANG, H, "", "FILE: the file is empty"),
        (SGLANG, H, "[", "FILE:1: is no JSON: Expecting value, at character 2"),
        (SGLANG, H, "3", "FILE: found a number, expected an object"),
        (SGLANG, H, '{"M=1": {}}', "FILE:1: found the key 'M=1', expected a number of tokens"),
        (SGLANG, H, '{"-1": {"B": 1}}', "FILE:1: found the key '-1', expected a number of tokens"),
        (SGLANG, H, '{"1": null}', "the files hold no measurement that vllm wrote"),
        ("E=8,N=64,device_name=.json", Options(), '{"1": {"B": 1}}', "FILE does not say the device (say which: --device NAME)"),
        (SGLANG, H, '{"1": {"B": null}}', "FILE:1: column '1': the config is empty"),
        (SGLANG, H, '{"1": {"B": NaN}}', "FILE:1: column '1.B': found 'nan', expected a number or text"),
        (SGLANG, H, '{"1": {"B": {"C": 1}}}', "FILE:1: column '1.B': found \"{'C': 1}\", expected a number or text"),
        ("E=8,E=9,device_name=NVIDIA_H200.json", H, '{"1": {"B": 1}}', "FILE: the name 'E=8,E=9,device_name=NVIDIA_H200.json' does not "
         "say its problem (expected E=8,N=3584,device_name=NVIDIA_H200[,dtype=..][,block_shape=[..]].json or the like)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=20, deadline=None)
@given(winners)
def test_winners(tmp_path_factory: pytest.TempPathFactory, found: dict[int, int]) -> None:
    body = {"triton_version": "3.5.1", **{str(m): {"BLOCK": b, "num_warps": 4} for m, b in found.items()}}
    name = "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
    imported = import_logs(
        "auto", [write(tmp_path_factory.mktemp("vllm"), name, json.dumps(body))], Options()
    )
    assert set(columns(imported, "device", "M", "BLOCK")) == {
        ("NVIDIA H200", str(m), str(b)) for m, b in found.items()
    }
    assert "winners_only = true" in imported.spec_text()


def test_lora(tmp_path: Path) -> None:
    body = {"4": {"1": {"16": {"4096": {"64": {"block_m": 16, "split_k": 8}}}}}}
    file = write(tmp_path, "NVIDIA_H200_SHRINK.json", json.dumps(body))
    imported = import_logs("auto", [file], Options())
    assert columns(imported, "device", "max_loras", "m", "k", "n", "block_m") == [
        ("NVIDIA H200", "4", "16", "4096", "64", "16")
    ]


def test_lora_as_sglang_tunes_it(tmp_path: Path) -> None:
    body = json.dumps({"16": {"BLOCK_N": 64}, "128": {"BLOCK_N": 32, "maxnreg": 160}})
    for kernel in ("shrink", "expand"):
        write(tmp_path, f"lora_{kernel},K=1024,R=64,S=3,device=NVIDIA_H200.json", body)
    imported = import_logs("auto", [str(tmp_path)], Options(kernel="csgmv_lora_shrink"))
    assert columns(imported, "device", "K", "R", "S", "chunk_size", "BLOCK_N", "maxnreg") == [
        ("NVIDIA H200", "1024", "64", "3", "16", "64", ""),
        ("NVIDIA H200", "1024", "64", "3", "128", "32", "160"),
    ]


def test_files_that_their_names_tell_apart_are_no_copies(tmp_path: Path) -> None:
    body = json.dumps({"1": {"BLOCK_SIZE_M": 16}})
    names = [f"E={e},N=64,device_name=NVIDIA_{d}.json" for e in (8, 16) for d in ("H100", "H200")]
    files = [write(tmp_path, name, body) for name in names]
    (tmp_path / "again").mkdir()
    files.append(write(tmp_path / "again", names[0], body))
    imported = import_logs("auto", files, Options())
    assert columns(imported, "device", "E") == [
        ("NVIDIA H100", "8"), ("NVIDIA H100", "16"), ("NVIDIA H200", "8"), ("NVIDIA H200", "16")
    ]  # fmt: skip
    assert sum("has the content of" in note for note in imported.notes) == 1


def test_another_backend_is_another_kernel(tmp_path: Path) -> None:
    """A folder of vLLM's that holds FlyDSL's configs was refused: the others lacked the feature 'backend'."""
    write(
        tmp_path,
        "E=8,N=64,device_name=AMD_Instinct_MI355X,dtype=int4_w4a16.json",
        '{"1": {"BLOCK_SIZE_M": 16}}',
    )
    name = "E=8,N=64,device_name=AMD_Instinct_MI355X,dtype=int4_w4a16,backend=flydsl.json"
    write(tmp_path, name, '{"2": {"tile_m": 32}}')
    with pytest.raises(UsageError, match="--kernel fused_moe or fused_moe_flydsl"):
        import_logs("auto", [str(tmp_path)], Options())
    imported = import_logs("auto", [str(tmp_path)], Options(kernel="fused_moe_flydsl"))
    assert columns(imported, "device", "dtype", "M", "tile_m") == [
        ("AMD Instinct MI355X", "int4_w4a16", "2", "32")
    ]


def test_one_kernel_of_a_folder(tmp_path: Path) -> None:
    for i, ending in enumerate(("", "_down"), 1):
        write(
            tmp_path, f"E=8,N=64,device_name=NVIDIA_H200{ending}.json", f'{{"{i}": {{"BLOCK_SIZE_M": 16}}}}'
        )
    message = r"the files are of 2 kernels \(say which: --kernel fused_moe or fused_moe_down\)"
    with pytest.raises(UsageError, match=message):
        import_logs("sglang", [str(tmp_path)], Options())
    imported = import_logs("sglang", [str(tmp_path)], Options(kernel="fused_moe_down"))
    assert columns(imported, "M") == [("2",)]
    with pytest.raises(
        UsageError, match=r"no file is of the kernel 'moe' \(found: fused_moe, fused_moe_down\)"
    ):
        import_logs("vllm", [str(tmp_path)], Options(kernel="moe"))


def test_a_device_that_is_said_is_no_name_for_those_of_several_files(tmp_path: Path) -> None:
    """Times and winners of an MI300X were an H200's."""
    for device in ("NVIDIA_H200", "AMD_Instinct_MI300X"):
        write(tmp_path, f"E=8,N=64,device_name={device}.json", '{"1": {"BLOCK_SIZE_M": 16}}')
    with pytest.raises(UsageError, match=r"the files tell 2 devices \(AMD Instinct MI300X, NVIDIA H200\)"):
        import_logs("vllm", [str(tmp_path)], Options(device="NVIDIA H200"))


def test_a_folder_as_sglang_ships_it(tmp_path: Path) -> None:
    """One file without a device, a size without a config, files of other kernels under names like these."""
    body = '{"1": {"BLOCK_SIZE_M": 16}, "64": null}'
    for name in (MOE, "E=8,N=128,device_name=.json", "provider=x,E=8,device_name=NVIDIA_H200.json"):
        write(tmp_path, name, body)
    for kind in ("auto", "sglang"):
        found = import_logs(kind, [str(tmp_path)], Options())
        assert columns(found, "N", "M", "BLOCK_SIZE_M") == [("64", "1", "16")]
        notes = "\n".join(found.notes)
        assert "E=8,N=128,device_name=.json: left out, it does not say the device" in notes
        assert "1 size without a config left out" in notes
        assert "left out, the first: " in notes
    found = import_logs("sglang", [str(tmp_path)], Options(device="NVIDIA H20"))
    assert "2 sizes without a config left out" in found.notes
    assert columns(found, "device", "N") == [("NVIDIA H20", "64"), ("NVIDIA H20", "128")]
