"""The generated modules that a person can look at, and what tools and interpreters say of them."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from heurgen import ir
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from tests.render.examples import EXAMPLES

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FILES = [GOLDEN / f"{name}.py" for name in EXAMPLES]


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "build"), EXAMPLES.items(), ids=EXAMPLES)
def test_golden(name: str, build: Callable[[], ir.HeuristicModule], update_golden: bool) -> None:
    path = GOLDEN / f"{name}.py"
    text = render_python(build())
    if update_golden:
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8"), "see the diff, then run pytest --update-golden"
    assert read_module(text).vendors == build().vendors


def test_every_golden_file_has_an_example() -> None:
    assert sorted(GOLDEN.glob("*.py")) == sorted(FILES)


def test_mypy_strict_accepts_the_goldens(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--config-file",
        "",
        "--cache-dir",
    ]
    done = subprocess.run(
        [*command, str(tmp_path), *map(str, FILES)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_ruff_leaves_the_goldens_as_they_are() -> None:
    command = [sys.executable, "-m", "ruff"]
    options = ["--isolated", "--no-cache", "--line-length", "110"]
    for arguments in (
        ["format", "--check", *options],
        ["check", *options, "--select", "E4,E7,E9,F,I,W,UP,B,RET"],
    ):
        done = subprocess.run(
            [*command, *arguments, *map(str, FILES)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_goldens_import_without_anything_heavy() -> None:
    """Benchmarks tell the time that it takes, some 5 ms."""
    program = (
        f"import sys\nsys.path.insert(0, {str(GOLDEN)!r})\nimport {', '.join(EXAMPLES)}\n"
        "print(*sorted(m for m in sys.modules if not m.startswith('_')))"
    )
    command = [sys.executable, "-I", "-S", "-B", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {"typing", "dataclasses", "re", "enum", "inspect", "functools", "numpy", "heurgen", "json"}
    modules = set(done.stdout.split())
    assert {*EXAMPLES} <= modules
    assert not heavy & modules


def test_a_config_is_a_named_tuple() -> None:
    module = imported(GOLDEN / "by_device.py")
    row = {"num_seqs": 1, "max_seqlen_q": 1, "max_seqlen_k": 16, "dtype": "bfloat16", "causal": True}
    config = module.select(vendor="amd", **row)
    assert repr(config) == "AmdConfig(variant='2d', TILE_SIZE=16, num_warps=4, waves_per_eu=None)"
    assert config._fields == ("variant", "TILE_SIZE", "num_warps", "waves_per_eu")
    assert config._asdict()["TILE_SIZE"] == config.TILE_SIZE == config[1] == 16
    assert config == ("2d", 16, 4, None)
    assert config._replace(num_warps=2).num_warps == 2
    assert not hasattr(config, "__dict__")
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert type(again) is type(config)
    assert module.select(vendor="amd", **row) is config


def test_a_field_named_as_a_method_of_tuple() -> None:
    module = imported(GOLDEN / "wide.py")
    assert [c.count for c in (module._CONFIG_0, module._CONFIG_1, module._CONFIG_2)] == [0, -1, -2]
