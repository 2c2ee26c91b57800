"""What ships was run on a GPU as it ships: the record of `make gpu-check` is of today's code."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.conftest import turned
from tests.kernels.test_gpu_matmul import FORMS

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("gpu_check", ROOT / "benchmarks/gpu_check.py")
gpu_check = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(gpu_check)


def test_the_code_was_proved():
    record = json.loads(gpu_check.RECORD.read_text())
    assert not gpu_check.unproved(record), "run `make gpu-check` on a GPU"
    assert set(record["code"]) == set(record["tests"]) == set(gpu_check.PARTS)
    assert record["tests"]["kernels"]["configs_launched"] >= 10
    assert record["tests"]["kernels"]["passed"] > 100
    assert record["tests"]["transformers"]["passed"] > 10


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "heurgen_kernels"
    shutil.copytree(
        gpu_check.PACKAGE, folder, ignore=shutil.ignore_patterns("*.pyc", "__pycache__", "*.json")
    )
    return folder


def changed(package, name, old, new):
    path = package / name
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))
    return gpu_check.code_hash(package)


def test_the_hash_is_of_what_runs(package):
    before = gpu_check.code_hash(package)
    assert before == gpu_check.code_hash()
    assert changed(package, "host/plan.py", "from __future__", "# a remark\n\nfrom __future__") == before
    assert changed(package, "host/scratch.py", '"""Counters of', '"""The counters of') == before
    assert changed(package, "tools/reference.py", "2**27", "2**26") == before
    assert (
        changed(package, "heuristics/paged_attention.py", "return _CONFIG_1 ", "return _CONFIG_0 ") == before
    )
    other = "heuristics/vllm_unified_attention.py"  # of a kernel that no launch here runs
    assert changed(package, other, "num_stages=", "num_stages=1 + ") == before
    for name, old, new in (
        ("host/scratch.py", "1 << 20", "1 << 21"),
        ("device/block.py", "segments > 1", "segments > 2"),
        ("config.py", "BLOCK_M: int = 16", "BLOCK_M: int = 32"),
        ("heuristics/static_grid.py", "    return ", "    return 1 + "),
    ):
        after = changed(package, name, old, new)
        assert after != before, name
        before = after


def test_what_tests_of_products_launch_beside_the_selector_is_proved(package):
    name = "heuristics/matmul.py"
    record = {"code": {"kernels": gpu_check.code_hash(package, "kernels")}, "configs": gpu_check.launched()}
    assert {*gpu_check.chosen()[name], *map(repr, FORMS)} == set(record["configs"][name])
    first = gpu_check.chosen(package)[name][0]
    form = next(form for form in map(repr, FORMS) if form not in gpu_check.chosen()[name])
    path = package / name
    path.write_text(path.read_text() + f"\n_CONFIG_99 = {form}\n")
    assert gpu_check.unproved(record, package) == ""
    path.write_text(path.read_text() + f"\n_CONFIG_99 = {first.replace('num_warps=', 'num_warps=1')}\n")
    assert "num_warps=1" in gpu_check.unproved(record, package)


def test_a_selector_may_choose_among_fewer_configs_than_were_proved(package):
    record = {
        "code": {"kernels": gpu_check.code_hash(package, "kernels")},
        "configs": gpu_check.chosen(package),
    }
    assert gpu_check.unproved(record, package) == ""
    name = "heuristics/matmul.py"
    first, *others = record["configs"][name]
    fewer = record | {"configs": record["configs"] | {name: others}}
    assert gpu_check.unproved(fewer, package) == f"selectors choose configs that the record has not: {first}"
    changed(package, "heuristics/paged_attention.py", "num_stages=2", "num_stages=7")
    assert "num_stages=7" in gpu_check.unproved(record, package)
    changed(package, "host/scratch.py", "1 << 20", "1 << 21")
    assert gpu_check.unproved(record, package) == "what runs changed, of kernels"


def test_a_part_is_proved_again_where_it_changed(package):
    parts = tuple(gpu_check.PARTS)
    before = {part: gpu_check.code_hash(package, part) for part in parts}
    changed(package, "servers/transformers/whole.py", "PAGE = 16", "PAGE = 32")
    assert gpu_check.code_hash(package, "kernels") == before["kernels"]
    assert gpu_check.code_hash(package, "transformers") != before["transformers"]
    after = [gpu_check.code_hash(package, part) for part in parts]
    changed(package, "servers/vllm/backend.py", "REFUSALS = (", "REFUSALS = (KeyError, ")
    assert after == [gpu_check.code_hash(package, part) for part in parts]
    ran = {"device": "a GPU", "versions": {}}
    tests = {part: {"whole_table": False} for part in parts}
    record = {**ran, "code": before, "tests": tests, "configs": gpu_check.launched()}
    assert gpu_check.kept(record, ran, False) == []  # all is proved: asked for, all is proved again
    other = record | {"code": before | {"transformers": "of other code"}}
    assert gpu_check.unproved(other) == "what runs changed, of transformers"
    assert gpu_check.kept(other, ran, False) == ["kernels"]
    assert gpu_check.kept(other, ran, True) == gpu_check.kept({}, ran, False) == []
    assert gpu_check.kept(other, {**ran, "device": "another"}, False) == []
    assert gpu_check.kept(record | {"code": before | {"kernels": "of other code"}}, ran, False) == [
        "transformers"
    ]


def test_the_workers_are_shared_among_the_gpus():
    assert [gpu_check.workers(1, cores) for cores in (1, 8, 16)] == [1, 8, 14]
    assert gpu_check.workers(4, 64) == 56
    assert gpu_check.workers(4, 2) == 4
    assert [turned("0,1,2", f"gw{k}") for k in range(4)] == ["0,1,2", "1,2,0", "2,0,1", "0,1,2"]


def test_an_interrupted_check_goes_on_where_it_was(tmp_path):
    ran = "import os\n" + "".join(
        f"def test_{name}(): open(os.environ['RAN'], 'a').write('{name}')\n" for name in "abcd"
    )
    (tmp_path / "test_some.py").write_text(ran)
    journal = tmp_path / "check.json.journal"
    journal.write_text("proof\ntest_some.py::test_b\ntest_some.py::test_c\ntest_some.py::te")
    passed = gpu_check.noted(journal, "proof")
    assert passed == ["test_some.py::test_b", "test_some.py::test_c"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "benchmarks"), "GPU_JOURNAL": str(journal), "GPU_PASSED": "2",
        "RAN": str(tmp_path / "ran"),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "gpu_journal", "test_some.py"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert sorted((tmp_path / "ran").read_text()) == ["a", "d"]
    assert sorted(gpu_check.noted(journal, "proof")) == [f"test_some.py::test_{name}" for name in "abcd"]
    assert gpu_check.noted(journal, "proof of other code") == []
    assert journal.read_text() == "proof of other code\n"
