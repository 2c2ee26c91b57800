"""heurgen.toml: build is idempotent, check finds every difference."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heurgen.cli import main
from heurgen.errors import SpecError
from heurgen.project import make, read_project
from tests import logs
from tests.importers.test_dejavu import PUBLISHED, published

ROOT = Path(__file__).parent.parent

PROJECT = """\
[[heuristic]]
logs = ["log.csv"]
spec = "kernel.toml"
model = "out/model.json"
module = "out/module.py"
strategy = "joint"
max_depth = 3
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    logs.write(folder)
    (folder / "out").mkdir()
    (folder / "heurgen.toml").write_text(PROJECT)
    result = run("build", folder / "heurgen.toml")
    assert result.exit_code == 0, result.stderr
    return folder


@pytest.fixture
def built(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "project"))


def test_build_prints_slowdowns_and_is_idempotent(built: Path) -> None:
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (built / "out").iterdir()}
    result = run("build", built / "heurgen.toml")
    assert result.exit_code == 0
    assert result.stdout.count("unchanged") == 2
    assert "matmul: nvidia" in result.stdout
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (built / "out").iterdir()} == before


def test_check_passes_after_build(built: Path) -> None:
    result = run("check", built / "heurgen.toml")
    assert (result.exit_code, result.stdout) == (0, "everything shipped is what the logs give\n")


@pytest.mark.parametrize("name", ["model.json", "module.py"])
def test_check_finds_an_edit_with_a_diff(built: Path, name: str) -> None:
    path = built / "out" / name
    path.write_text(path.read_text().replace("128", "256"))
    result = run("check", built / "heurgen.toml")
    assert result.exit_code == 1
    assert f"{path}: differs from what the logs give" in result.stdout
    assert "256" in result.stdout
    data = json.loads(run("check", built / "heurgen.toml", "--json").stdout)
    assert [f["path"] for f in data["findings"]] == [str(path)]


def test_a_module_of_triton_functions(built: Path) -> None:
    """Built and checked like any other; what no device function can be made of is said, and nothing written."""
    project, module = built / "heurgen.toml", built / "out" / "module.py"
    triton = PROJECT.replace("depth = 3", "depth = 1") + 'target = "triton"\nvendor = "nvidia"\n'
    before = module.read_bytes()
    project.write_text(triton.replace("depth = 1", "depth = 3"))
    result = run("build", project)
    assert result.exit_code == 2
    assert "which is no integer on the device" in result.stderr
    assert module.read_bytes() == before
    project.write_text(triton + 'parameters = ["BLOCK_M"]\n')
    assert "module.py: differs" in run("check", project).stdout
    assert run("build", project).exit_code == 0
    text = module.read_text()
    assert "import triton.language as tl" in text
    assert text.count("def nvidia_") == text.count("def nvidia_BLOCK_M(") == 1
    assert run("check", project).exit_code == 0
    module.write_text(text.replace("chosen = ", "chosen = 1", 1))
    assert run("check", project).exit_code == 1


def test_check_finds_a_changed_log_and_a_missing_file(built: Path) -> None:
    log = built / "log.csv"
    log.write_text("\n".join(log.read_text().splitlines()[:-30]) + "\n")
    (built / "out" / "module.py").unlink()
    result = run("check", built / "heurgen.toml")
    assert result.exit_code == 1
    assert "model.json: differs" in result.stdout
    assert "module.py: is missing" in result.stdout


def test_external_logs_may_be_absent(built: Path) -> None:
    project = built / "heurgen.toml"
    project.write_text(PROJECT + "external = true\n")
    assert run("check", project).exit_code == 0
    (built / "log.csv").unlink()
    result = run("check", project)
    assert result.exit_code == 0
    assert result.stdout == "everything shipped is what the logs give, as far as they are here\n"
    assert result.stderr == (
        f"note: {built}/out/model.json: the training was not repeated, since {built}/log.csv is absent; "
        "checked: the model's checksum, and that the module is what it renders to\n"
    )
    model = built / "out" / "model.json"
    text = model.read_text()
    model.write_text(text.replace('"n_scenarios": 24', '"n_scenarios": 25'))
    result = run("check", project)
    assert result.exit_code == 1
    assert "its checksum does not fit" in result.stdout
    before = {p: p.read_bytes() for p in (built / "out").iterdir()}
    result = run("build", project)  # must not seal an edit
    assert result.exit_code == 2
    assert f"{model}: its checksum does not fit: edited by hand (restore it, or run heurgen" in result.stderr
    assert {p: p.read_bytes() for p in (built / "out").iterdir()} == before
    model.unlink()
    result = run("check", project)
    assert (result.exit_code, result.stdout) == (1, f"{model}: cannot be read: No such file or directory\n")
    model.write_text(text)
    module = built / "out" / "module.py"
    module.write_text(module.read_text() + "\n")
    result = run("check", project)
    assert result.exit_code == 1
    assert "module.py: differs" in result.stdout


@pytest.mark.parametrize("absent", [False, True])
def test_external_logs_are_known_by_their_hash(built: Path, absent: bool) -> None:
    project, log = built / "heurgen.toml", built / "log.csv"
    digest = json.loads((built / "out/model.json").read_text())["provenance"]["log_hash"]
    project.write_text(PROJECT + f'external = true\nlog_hash = "{digest}"\n')
    if absent:
        log.unlink()
    result = run("check", project)
    assert result.exit_code == 0, result.output
    assert ("checksum and log hash" in result.stderr) == absent
    other = "0" * 64
    project.write_text(PROJECT + f'external = true\nlog_hash = "{other}"\n')
    result = run("check", project)
    if absent:
        assert (result.exit_code, result.stdout) == (
            1, f"{built}/out/model.json: its log_hash is '{digest}', the project file has '{other}'\n",
        )  # fmt: skip
    else:
        assert result.exit_code == 2
        assert (
            f"{log}: the logs have the content hash {digest}, the project file {other} (other logs, another "
            "spec, or other settings of the import; if they are meant, update log_hash)"
        ) in result.stderr


def test_a_note_enters_model_and_module(built: Path) -> None:
    project = built / "heurgen.toml"
    project.write_text(PROJECT + 'external = true\nnote = "measured on a Tuesday"\n')
    assert run("check", project).exit_code == 1
    assert run("build", project).exit_code == 0
    assert "\nNote: measured on a Tuesday.\n" in (built / "out/module.py").read_text()
    model = built / "out/model.json"
    assert json.loads(model.read_text())["provenance"]["note"] == "measured on a Tuesday"
    (built / "log.csv").unlink()
    assert run("check", project).exit_code == 0
    project.write_text(PROJECT + "external = true\n")
    result = run("check", project)
    assert (result.exit_code, result.stdout) == (
        1, f"{model}: its note is 'measured on a Tuesday', the project file has ''\n",
    )  # fmt: skip


@published
@pytest.mark.parametrize("more", [False, True])
def test_the_shipped_winners_are_what_the_published_caches_give(more: bool) -> None:
    """Whatever the order of the files, and with a copy of one among them."""
    (heuristic,) = (h for h in read_project(ROOT / "heurgen.toml") if h.dejavu is not None)
    files = [PUBLISHED / path.name for path in heuristic.logs]
    if more:
        files = [*reversed(files), *PUBLISHED.glob("kernel_unified_attention_2d__AMD*67c527*")]
        assert len(files) == 3
    made = make(replace(heuristic, logs=tuple(files)))
    assert made.model_text == heuristic.model.read_text()
    assert made.module_text == heuristic.module.read_text()
    assert "dropped as declared: 2 winners with BLOCK_M 32, TILE_SIZE 256" in made.notes


def test_absent_logs_that_are_not_external_are_an_error(built: Path) -> None:
    (built / "log.csv").unlink()
    for command in ("check", "build"):
        result = run(command, built / "heurgen.toml")
        assert result.exit_code == 2
        assert "log.csv" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no [[heuristic]]"),
        ("x = 1\n", "column 'x': is unknown (expected [[heuristic]] alone)"),
        ("[[heuristic]]\n", "column 'logs': heuristic 1: is missing, expected a list of paths"),
        (PROJECT.replace('"kernel.toml"', "3"), "column 'spec': heuristic 1: found '3', expected a path"),
        (PROJECT + "colour = 1\n", "column 'colour': heuristic 1: is unknown"),
        (PROJECT + 'external = "no"\n', "column 'external': heuristic 1: found 'no', expected true or false"),
        (PROJECT + "note = 3\n", "column 'note': heuristic 1: found '3', expected a line of text"),
        (PROJECT + "dejavu = 3\n", "column 'dejavu': heuristic 1: found '3', expected a table"),
        (
            PROJECT + "dejavu = { renames = {} }\n",
            "column 'dejavu.renames': heuristic 1: is unknown (known: device, vendor, rename, constants, drop)",
        ),
        (PROJECT.replace("= 3", '= "3"'), "column 'max_depth': heuristic 1: found '3', expected an integer"),
        (PROJECT.replace("out/module.py", "out/model.json"), "two outputs share the path"),
        ("[[heuristic]\n", "is no TOML"),
        (
            PROJECT + 'target = "c"\n',
            "column 'target': heuristic 1: found 'c', expected \"python\" or \"triton\"",
        ),
        (
            PROJECT + 'vendor = "nvidia"\n',
            "column 'vendor': heuristic 1: found 'nvidia', expected none without target = \"triton\"",
        ),
        (PROJECT + 'target = "triton"\n', "column 'vendor': heuristic 1: is missing, expected the vendor of"),
        (
            PROJECT + 'target = "triton"\nvendor = "nvidia"\nparameters = "x"\n',
            "column 'parameters': heuristic 1: found 'x', expected a list of parameters",
        ),
    ],
)
def test_bad_project_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "heurgen.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_project(path)
    assert str(caught.value).startswith(f"{path}: {message}")
