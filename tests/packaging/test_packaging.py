"""Wheel and sdist: what they install, and that it works from there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.once import once

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    pytest.importorskip("hatchling", reason="building needs hatchling")
    return once(tmp_path_factory, "dist", build)


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, beside a stand-in for the distribution that is called `kernels`."""
    target = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        wheel.extractall(target)
    (target / "kernels").mkdir()
    (target / "kernels" / "__init__.py").write_text("OWNER = 'another project'\n")
    return target


def run(code: str, site: Path, tmp_path: Path) -> str:
    """Run code far from the checkout, with the installed wheel first on the path."""
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_installs_no_top_level_kernels(dist: Path) -> None:
    names = zipfile.ZipFile(next(dist.glob("*.whl"))).namelist()
    top = {name.split("/")[0] for name in names}
    assert {t for t in top if not t.endswith(".dist-info")} == {"heurgen", "heurgen_kernels"}
    assert "heurgen/py.typed" in names
    assert "heurgen/ir/model.schema.json" in names
    assert any(n.startswith("heurgen/templates/") for n in names)


def test_the_sdist_can_build_and_test(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = {n.split("/", 1)[-1] for n in sdist.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "heurgen.toml"}
    assert wanted <= names
    assert any(n.startswith("tests/") for n in names)
    assert any(n.startswith("templates/") for n in names)


def test_side_by_side_with_the_other_kernels(installed: Path, tmp_path: Path) -> None:
    code = "import kernels, heurgen_kernels; print(kernels.OWNER, heurgen_kernels.__file__)"
    out = run(code, installed, tmp_path)
    assert out.startswith("another project")
    assert out.endswith(str(installed / "heurgen_kernels" / "__init__.py"))


def test_an_installed_wheel_renders(installed: Path, tmp_path: Path) -> None:
    code = (
        "import heurgen\n"
        "from heurgen.ir import *\n"
        "s = Selector('amd', ('B',), ((1,), (2,)), Split('x', 4, Leaf(0), Leaf(1)))\n"
        "m = HeuristicModule('k', (Feature('x', 'int'),), (Parameter('B', 'int'),), (s,))\n"
        "print(heurgen.__file__); print('def select(' in heurgen.render_python(m))"
    )
    assert run(code, installed, tmp_path).splitlines() == [str(installed / "heurgen" / "__init__.py"), "True"]


def test_an_installed_wheel_helps(installed: Path, tmp_path: Path) -> None:
    code = (
        "from click.testing import CliRunner; from heurgen.cli import main\n"
        "for words in (['help', 'missing-column'], ['help', 'spec'], ['train', 'no.csv']):\n"
        "    print(CliRunner().invoke(main, words).output)"
    )
    said = run(code, installed, tmp_path)
    assert "## Missing column" in said
    assert "# The spec" in said
    assert "help: heurgen help command-line" in said


def test_the_metadata_describes_the_project(dist: Path) -> None:
    wheel = zipfile.ZipFile(next(dist.glob("*.whl")))
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = wheel.read(name).decode()
    assert "Description-Content-Type: text/markdown" in metadata
    assert "# heurgen" in metadata
    assert "](docs/" not in metadata


def test_the_compiler_never_imports_torch_or_triton(installed: Path, tmp_path: Path) -> None:
    code = (
        "import pkgutil, importlib, sys, heurgen\n"
        "for m in pkgutil.walk_packages(heurgen.__path__, 'heurgen.'):\n"
        "    if m.name != 'heurgen.__main__': importlib.import_module(m.name)\n"
        "print(sorted({'torch', 'triton', 'pystreed'} & set(sys.modules)))"
    )
    assert run(code, installed, tmp_path) == "[]"
