# ruff: noqa: E501  (messages stand whole)
"""Configs of vLLM's Helion kernels: winners, of both forms of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns

NONE = Options()


def config(block: int, *, pid: str = "flat") -> dict[str, Any]:
    return {
        "block_sizes": [1, block],
        "loop_orders": [[0, 1]],
        "range_flattens": [None],
        "num_warps": 4,
        "pid_type": pid,
    }


def imported(folder: Path, data: object, name: str = "nvidia_b200.json", kind: str = "auto") -> Imported:
    (folder / "silu_mul").mkdir(exist_ok=True)
    (folder / "silu_mul" / name).write_text(json.dumps(data, indent=2))
    return import_logs(kind, [str(folder / "silu_mul")], NONE)


def test_a_list_of_keys_and_configs(tmp_path: Path) -> None:
    """It was of no known kind, and `init` takes no lists of lists."""
    data = [{"key": {"m": m, "k": 64}, "config": config(16 * m)} for m in (1, 2)]
    found = imported(tmp_path, [*data, {"key": {}, "config": config(8)}])
    assert found.notes[:2] == ("vllm-helion files", "1 config for no sizes left out")
    assert columns(found, "vendor", "device", "m", "k", "block_sizes_1", "loop_orders", "time_ms") == [
        ("nvidia", "nvidia b200", "1", "64", "16", "[[0,1]]", ""),
        ("nvidia", "nvidia b200", "2", "64", "32", "[[0,1]]", ""),
    ]
    spec = parse_spec(found.spec_text())
    assert (spec.name, spec.log.winners_only) == ("silu_mul", True)


def test_sizes_in_a_name_and_several_devices(tmp_path: Path) -> None:
    key = "hidden_size_2048_group_shape_m_-1_num_tokens_4"
    imported(tmp_path, {key: config(16)})
    found = imported(tmp_path, {key: config(16), "default": config(8)}, "amd_instinct_mi350x.json")
    assert columns(found, "device", "hidden_size", "group_shape_m", "num_tokens", "block_sizes_1") == [
        ("amd instinct mi350x", "2048", "-1", "4", "16"),
        ("nvidia b200", "2048", "-1", "4", "16"),
    ]


def test_a_config_without_what_has_its_default(tmp_path: Path) -> None:
    """It was of no known kind to `auto`: Helion leaves out a `pid_type` of "flat"."""
    data = [{"key": {"m": m}, "config": {"block_sizes": [16 * m], "num_warps": 4}} for m in (1, 2)]
    found = imported(tmp_path, data)
    assert found.notes[0] == "vllm-helion files"
    assert columns(found, "m", "block_sizes_0", "num_warps") == [("1", "16", "4"), ("2", "32", "4")]


ONE = '[{"key": {"m": 1}, "config": %s}]'
NAME = "expected <name>_<number>, once or more"
WRONG: Wrong = {
    "vllm-helion": [
        ("a.json", H, "", "FILE: the file is empty"),
        ("a.json", H, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("a.json", H, "3", "FILE: found a number, expected an object"),
        ("a.json", H, "[]", "the files hold no measurement that vllm-helion wrote"),
        ("a.json", H, "[3]", "FILE: column '[0]': found a number, expected an object"),
        ("a.json", H, '[{"key": 3}]', "FILE:1: column '[0].key': found a number, expected an object"),
        ("a.json", H, '[{"key": {"m": [1]}}]', "FILE: column '[0].key.m': found '[1]', expected a number or text"),
        ("a.json", H, '[{"key": {"m": 1}}]', "FILE: column '[0]': found null, expected an object"),
        ("a.json", H, ONE % "{}", "FILE: column '[0]': the config is empty"),
        ("a.json", H, '{"m": {}}', f"FILE:1: found the key 'm', {NAME}"),
        ("a.json", H, '{"m_1_m_2": {}}', f"FILE:1: found the key 'm_1_m_2', {NAME}"),
        ("a.json", H, '{"m_1-n_2": {}}', f"FILE:1: found the key 'm_1-n_2', {NAME}"),
        ("best.json", NONE, ONE % '{"num_warps": 4}', "FILE: the vendor of the device 'best' is unknown (say which: --vendor nvidia)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)
