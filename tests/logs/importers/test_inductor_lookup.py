# ruff: noqa: E501  (messages stand whole)
"""Inductor's lookup tables: winners."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, winners, write

LOOKUP = "((torch.float16, [8, 16], [16, 1]), (torch.float16, [16, 4], [4, 1]))+mm"


WRONG: Wrong = {
    "inductor-lookup": [
        ("t.json", H, "[]", "FILE: found a list, expected an object"),
        ("t.json", H, "{}", "the files hold no measurement that inductor-lookup wrote"),
        ("t.json", H, '{"mm": []}', "FILE:1: found the key 'mm', expected [device+]inputs+op"),
        ("t.json", H, json.dumps({LOOKUP: []}), "FILE:1: the key has no config"),
        ("t.json", H, json.dumps({"(1)+mm": 1}), "FILE:1: column \"'(1)+mm'\": found a number, expected a list"),
        ("t.json", H, json.dumps({LOOKUP: [{"BLOCK_M": 1}]}), "FILE:1: the config has no template_id"),
        ("t.json", H, json.dumps({"(1, 2)+mm": [{"template_id": "a"}]}), "FILE:1: found the inputs '(1, 2)', expected (dtype, "
         "shape, stride) of each"),
        ("t.json", H, json.dumps({"(open('x'))+mm": [{"template_id": "a"}]}), "FILE:1: found the inputs \"(open('x'))\", expected "
         "(dtype, shape, stride) of each"),
        ("t.json", Options(), json.dumps({LOOKUP: [{"template_id": "a"}]}), "FILE does not say the device (say which: --device NAME)"),
        ("t.json", H, '{"a": 1, "a": 2}', "FILE:1: the key 'a' is there twice in one object"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=20, deadline=None)
@given(winners)
def test_winners(tmp_path_factory: pytest.TempPathFactory, found: dict[int, int]) -> None:
    lookup = {
        f"NVIDIA H200+((torch.float16, [{m}, 16], [16, 1]), (torch.float16, [16, 4], [4, 1]))+mm": [
            {"template_id": "triton::mm", "BLOCK": b, "template_hash": "x"}
        ]
        for m, b in found.items()
    }
    table = write(tmp_path_factory.mktemp("lookup"), "table.json", json.dumps(lookup))
    imported = import_logs("auto", [table], Options())
    assert set(columns(imported, "device", "M", "BLOCK")) == {
        ("NVIDIA H200", str(m), str(b)) for m, b in found.items()
    }
    assert "winners_only = true" in imported.spec_text()


@pytest.mark.parametrize(
    "device",
    ["NVIDIA H200", "gfx942:sramecc+:xnack-", "gfx90a:sramecc+:xnack+", "Intel(R) Data Center GPU Max 1550"],
)
def test_devices_as_torch_names_them(tmp_path: Path, device: str) -> None:
    key = f"{device}+((torch.float16, [8, 16], [16, 1]), (torch.float16, [16, 32], [1, 16]))+alpha=1&beta=0.5+mm"
    table = {key: [{"template_id": "triton::mm", "BLOCK_M": 64}]}
    imported = import_logs("auto", [write(tmp_path, "t.json", json.dumps(table))], Options())
    assert columns(imported, "device", "M", "N", "K") == [(device, "8", "32", "16")]
