# ruff: noqa: E501  (messages stand whole)
"""FlashInfer's autotuning caches: winners, of both forms of the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import LogError
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, write

NONE = Options()
BUILD = {"flashinfer_version": "0.7.4", "cudnn_version": "91300", "gpu": "NVIDIA B200"}


def key(
    m: int, operator: str = "fp4_gemm", runner: str = "Cutlass", extras: str = ", (torch.bfloat16, None)"
) -> str:
    return f"('{operator}', '{runner}', (({m}, 64), (0,)){extras})"


def cache(winners: dict[str, Any] | None = None, **build: str) -> str:
    found = {key(8): ["Cutlass", 3]} if winners is None else winners
    return json.dumps({"_metadata": BUILD | build, **found, "_generation": "1a"}, indent=2)


def entry(m: int = 8, tactic: Any = 3) -> str:
    return json.dumps({"key": key(m), "runner": "Cutlass", "tactic": tactic, "profiling_policy": ["auto"]})


SHORT = "('o', 'r', (), ())"
EXPECTED = ", expected ('operator', 'runner', ((size, ...), ...), (...))"
WRONG: Wrong = {
    "flashinfer": [
        ("c.json", H, "[]", "FILE: found a list, expected an object"),
        ("c.json", H, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("c.json", H, cache({}), "the files hold no measurement that flashinfer wrote"),
        ("c.json", H, '{"x": ["R", 1]}', f"FILE:1: found the key 'x'{EXPECTED}"),
        ("c.json", H, '{"(1, 2, (), ())": ["R", 1]}', f"FILE:1: found the key '(1, 2, (), ())'{EXPECTED}"),
        ("c.json", H, "{\"('a', 'b', ((1.5,),), ())\": [\"R\", 1]}", f"FILE:1: found the key \"('a', 'b', ((1.5,),), ())\"{EXPECTED}"),
        ("c.json", H, '{"key": "(", "runner": "R", "tactic": 1}', f"FILE:1: found the key '('{EXPECTED}"),
        ("c.json", H, json.dumps({SHORT: 3}), f'FILE:1: column "{SHORT}": found a number, expected a list'),
        ("c.json", H, json.dumps({key(8): ["R"]}), "FILE:1: found \"['R']\", expected [runner, tactic]"),
        ("c.json", H, json.dumps({SHORT: [1, 2]}), f'FILE: column "{SHORT}: runner": found a number, expected a string'),
        ("c.json", NONE, json.dumps({key(8): ["R", 1]}), "FILE does not say the device (say which: --device NAME)"),
        ("c.json", NONE, cache(gpu="Alien"), "FILE: the vendor of the device 'Alien' is unknown (say which: --vendor nvidia)"),
        ("c.json", Options(kernel="x"), cache(), "no file is of the kernel 'x' (found: fp4_gemm)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


def test_one_file_for_all_problems(tmp_path: Path) -> None:
    """It was of no known kind."""
    moe = key(8, "trtllm::gemm1", "MoE", extras="")
    text = cache(
        {key(8): ["Cutlass", 3], key(16): ["Cudnn", [2, 1], ["auto", True]], moe: ["MoE", [32, [1, 7]]]}
    )
    file = write(tmp_path, "autotune_configs.json", text)
    found = import_logs("auto", [file], Options(kernel="fp4_gemm"))
    names = ("vendor", "device", "arg0_dim0", "arg0_dim1", "arg1_dim0", "extra_0", "extra_1")
    assert columns(found, *names, "runner", "tactic", "tactic_0", "tactic_1", "time_ms") == [
        ("nvidia", "NVIDIA B200", "8", "64", "0", "torch.bfloat16", "none", "Cutlass", "3", "", "", ""),
        ("nvidia", "NVIDIA B200", "16", "64", "0", "torch.bfloat16", "none", "Cudnn", "", "2", "1", ""),
    ]
    assert parse_spec(found.spec_text()).log.winners_only
    found = import_logs("auto", [file], Options(kernel="trtllm::gemm1"))
    assert columns(found, "arg0_dim0", "runner", "tactic") == [("8", "MoE", "[32,[1,7]]")]


def test_dimensions_and_members_of_enumerations(tmp_path: Path) -> None:
    """A tensor that is not there has no further dimensions."""
    other = "('fp4_gemm', 'Cutlass', ((8, 64), (4, 32)), (torch.bfloat16, <Act.Silu: 3>))"
    text = cache({key(8): ["Cutlass", 3], other: ["Cutlass", 1]})
    found = import_logs("auto", [write(tmp_path, "a.json", text)], NONE)
    assert columns(found, "arg1_dim0", "arg1_dim1", "extra_1", "tactic") == [
        ("0", "0", "none", "3"),
        ("4", "32", "Act.Silu", "1"),
    ]


def managed(folder: Path, **build: str) -> Path:
    (folder / "entries").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(BUILD | {"cache_schema": "v2"} | build))
    for m in (8, 16):
        write(folder / "entries", f"{m}.json", entry(m))
    return folder


def test_a_folder_with_a_file_for_every_problem(tmp_path: Path) -> None:
    managed(tmp_path / "v2/a", gpu="NVIDIA B200")
    managed(tmp_path / "v2/b", gpu="NVIDIA GB300")
    found = import_logs("auto", [str(tmp_path)], NONE)
    assert columns(found, "device", "arg0_dim0", "runner", "tactic") == [
        (device, m, "Cutlass", "3") for device in ("NVIDIA B200", "NVIDIA GB300") for m in ("8", "16")
    ]
    found = import_logs("auto", [str(tmp_path / "v2/b/entries/8.json")], NONE)
    assert columns(found, "device", "arg0_dim0") == [("NVIDIA GB300", "8")]


def test_tactics_of_two_builds_are_not_the_same(tmp_path: Path) -> None:
    files = [write(tmp_path, f"{v}.json", cache(flashinfer_version=v)) for v in ("0.7.2", "0.7.4")]
    with pytest.raises(LogError, match=r"0.7.4.json: the winners are of 2 builds, whose tactics have other"):
        import_logs("auto", files, NONE)
    assert len(import_logs("auto", files[:1], NONE).rows) == 1
