"""Every command and every Python block of docs/targets.md runs, in a folder with models of the kinds it speaks of."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from heurgen.ir.schema import to_json
from heurgen.render.registry import TARGETS
from tests.render import test_aiter_json, test_inductor, test_vllm_moe
from tests.support.documents import ROOT, run_step, steps
from tests.support.models import SHIPPED

TEXT = (ROOT / "docs/targets.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("targets")
    shutil.copy(SHIPPED / "static_grid.json", folder / "model.json")
    single = test_vllm_moe.module()
    constant = {"topk": 8}
    features = [
        f if f.name not in constant else type(f)(f.name, f.type, low=8, high=8) for f in single.features
    ]
    single = type(single)(
        single.kernel, tuple(features), single.parameters, single.selectors, single.derived, single.provenance
    )
    models = {
        "mm": test_inductor.module(),
        "moe": single,
        "gemm": test_aiter_json.module(16, 256),
        "gemm_steps": test_aiter_json.module(48, 100),
    }
    for name, module in models.items():
        (folder / f"{name}.json").write_text(to_json(module))
    return folder


@pytest.mark.slow
def test_commands_and_python_run(folder: Path) -> None:
    shown = steps(TEXT)
    assert len(shown) >= len(TARGETS)
    for step in shown:
        assert step.python or step.text.startswith("heurgen emit ")
        done = run_step(folder, step)
        assert done.returncode == 0, f"{step.text}\n{done.output}"
    made = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert "tuned/E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json" in made
    assert "configs/gemm/gfx942-GEMM-A16W16-N=4096-K=512.json" in made


def test_every_target_has_a_section() -> None:
    assert re.findall(r"^## (.+)$", TEXT, re.MULTILINE) == list(TARGETS)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((\.[^)#:]+)\)", TEXT):
        assert (ROOT / "docs" / target).resolve().exists(), target
