"""The plugin against the real attention classes of both ends of the tested range of vLLM."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from heurgen_kernels.servers import vllm as plugin

from tests.kernels.servers.vllm_wheels import VERSIONS, fetch, source

CHILD = Path(__file__).with_name("vllm_child.py")


def had(version: str) -> None:
    place = fetch(version)
    if isinstance(place, str):
        pytest.skip(place)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_with_the_real_classes(version):
    """Every check of `vllm_child`, in one process: name -> what is wrong, None where nothing is."""
    had(version)
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "kernels")))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.servers.vllm_child", version],
        capture_output=True, text=True, cwd=root, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 5
    assert {name: wrong for name, wrong in found.items() if wrong is not None} == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_vllm_warms_kernels_up_before_graphs_and_before_its_compile_monitor(version):
    """The plugin stands behind the name `kernel_warmup` in the module of the worker."""
    had(version)
    tree = ast.parse(source(version, "vllm/v1/worker/gpu_worker.py"))
    (method,) = (
        node for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.lstrip("_") == "compile_or_warm_up_model"
        and "kernel_warmup(" in ast.unparse(node)  # 0.33 wraps it
    )  # fmt: skip
    calls = [ast.unparse(node.func) for node in _in_order(method) if isinstance(node, ast.Call)]
    monitor = next(i for i, name in enumerate(calls) if "jit_monitor" in name)
    assert calls.index("kernel_warmup") < calls.index("self.model_runner.capture_model") < monitor


def _in_order(node):
    return sorted(
        (found for found in ast.walk(node) if hasattr(found, "lineno")),
        key=lambda n: (n.lineno, n.col_offset),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_layer_finds_the_backend_by_its_name(version):
    had(version)
    text = source(version, "vllm/model_executor/layers/attention/attention.py")
    assert "AttentionBackendEnum[self.attn_backend.get_name()]" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_the_layer_leaves_writing_to_a_forward_that_includes_it(version):
    had(version)
    text = source(version, "vllm/model_executor/layers/attention/attention.py")
    assert text.count("not self.attn_backend.forward_includes_kv_cache_update") == 2
    slots = source(version, "vllm/v1/attention/backends/triton_attn.py")
    assert "slot_mapping=slot_mapping," in slots


@pytest.mark.parametrize("version", ["0.26.0", "0.29.1rc2", "0.33.0", "0.33.4.dev3+gabc"])
def test_versions_in_the_tested_range_are_taken(version):
    assert plugin.refused(version) is None


@pytest.mark.parametrize("version", ["0.25.9", "0.34.0", "1.0", "dev", ""])
def test_other_versions_are_refused_with_the_range(version):
    said = plugin.refused(version)
    assert said is not None
    assert "0.26.0 to below 0.34" in said
    assert (version or "unknown") in said


def test_the_entry_point_is_declared():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    points = project["project"]["entry-points"]["vllm.general_plugins"]
    module, _, name = points["heurgen"].partition(":")
    assert getattr(sys.modules[module], name) is plugin.register
