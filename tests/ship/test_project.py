"""heurgen.toml: build is idempotent, check finds every difference."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen.ship.project import build, check, make
from heurgen.ship.project_file import read_project
from tests.logs.importers.test_dejavu import PUBLISHED, published
from tests.support import logs
from tests.support.commands import run

ROOT = Path(__file__).parents[2]

PROJECT = """\
[[heuristic]]
logs = ["log.csv"]
spec = "kernel.toml"
model = "out/model.json"
module = "out/module.py"
strategy = "joint"
max_depth = 3
"""


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
    assert "model.json: proved current by heurgen.lock, not trained again" in result.stderr
    assert result.stdout.count("unchanged") == 2
    assert "matmul: nvidia" in result.stdout
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in (built / "out").iterdir()} == before


@pytest.mark.parametrize("words", [(), ("--json",)], ids=" ".join)
def test_build_says_what_is_wrong_with_what_it_trained(
    built: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """As train does: who has a project file never runs that, and heard of no region whose config failed."""
    monkeypatch.setattr("heurgen.ship.remarks.warnings", lambda selector: [f"{selector.vendor}: a remark"])
    assert "a remark" not in run("build", built / "heurgen.toml", *words).stderr  # proved current
    (built / "heurgen.lock").unlink()
    assert "note: matmul: nvidia: a remark\n" in run("build", built / "heurgen.toml", *words).stderr


def test_check_passes_after_build(built: Path) -> None:
    result = run("check", built / "heurgen.toml")
    assert (result.exit_code, result.stdout) == (0, "everything shipped is what the logs give\n")


@pytest.mark.parametrize("name", ["model.json", "module.py"])
def test_check_tells_line_ends_of_windows_from_edits(built: Path, name: str) -> None:
    """git's autocrlf: every line was in the diff, and a model without its logs was called edited by hand."""
    path, project = built / "out" / name, built / "heurgen.toml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    result = run("check", project)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{path}: differs in its line ends alone: git turned them into those of Windows?")
    assert "`* text=auto eol=lf`" in line  # without auto git takes compressed logs for text, and changes them
    project.write_text(project.read_text() + "external = true\n")
    (built / "log.csv").unlink()
    assert run("check", project).stdout == f"{line}\n"
    assert run("build", project).exit_code == 0
    assert run("check", project).exit_code == 0


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
    project.write_text(triton + 'parameters = ["BLOCK_N"]\n')
    result = run("build", project)
    assert result.exit_code == 2
    assert "module.py: nvidia has no parameter 'BLOCK_N'" in result.stderr
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


def test_everything_shipped_is_what_its_logs_give() -> None:
    findings, _ = check(ROOT / "heurgen.toml")
    assert [f.path.name for f in findings] == []


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


def test_build_writes_nothing_where_a_folder_is_missing(tmp_path: Path, trained: list[str]) -> None:
    logs.write(tmp_path, logs.rows(3, ("nvidia",)))
    (tmp_path / "out").mkdir()
    (tmp_path / "heurgen.toml").write_text(PROJECT.replace("out/module.py", "missing/module.py"))
    result = run("build", tmp_path / "heurgen.toml")
    assert result.exit_code == 2
    assert "missing/module.py: cannot write: No such file or directory" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []
    assert trained == []  # it was told after all the training


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were trained."""
    from heurgen.ship import training

    calls, train = [], training.from_tables

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments[2].name)
        return train(*arguments, **options)

    monkeypatch.setattr(training, "from_tables", counted)
    return calls


def test_what_is_proved_current_is_not_trained_again(built: Path, trained: list[str]) -> None:
    project = built / "heurgen.toml"
    lock = (built / "heurgen.lock").read_bytes()
    for words in (("check",), ("build",)):
        assert run(*words, project).exit_code == 0
    assert (trained, (built / "heurgen.lock").read_bytes()) == ([], lock)
    assert run("check", project, "--retrain").exit_code == 0
    assert trained == ["matmul"]


def test_what_was_made_before_an_interrupt_is_kept(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heurgen.ship import training

    project, train, trained = built / "heurgen.toml", training.from_tables, []
    before = (built / "out/model.json").read_text()

    def once(*arguments: Any, **options: Any) -> Any:
        if trained:
            raise KeyboardInterrupt
        trained.append(arguments[2].name)
        return train(*arguments, **options)

    second = PROJECT.replace("out/model.json", "out/second.json").replace("out/module.py", "out/second.py")
    project.write_text(PROJECT.replace("max_depth = 3", "max_depth = 1") + second)
    with monkeypatch.context() as patch:
        patch.setattr(training, "from_tables", once)
        assert run("build", project).exit_code == 130
    assert (trained, (built / "out/second.json").exists()) == (["matmul"], False)
    assert (built / "out/model.json").read_text() != before
    result = run("build", project)
    assert (result.exit_code, result.stdout.count("unchanged")) == (0, 2)
    assert result.stderr.count("model.json: proved current by heurgen.lock, not trained again") == 1
    assert run("check", project).exit_code == 0


def test_training_is_watched(built: Path) -> None:
    project, steps = built / "heurgen.toml", []
    project.write_text(PROJECT.replace('strategy = "joint"\nmax_depth = 3\n', ""))
    watched: list[str] = []

    @contextmanager
    def watch(what: str) -> Iterator[Callable[[int, int], None]]:
        watched.append(what)
        yield lambda done, total: steps.append((done, total))

    build(project, watch)
    assert watched == ["training model.json"]
    assert steps[-1][0] == steps[-1][1] > 0
    check(project, watch=watch)  # proved current
    assert watched == ["training model.json"]
    check(project, retrain=True, watch=watch)
    assert len(watched) == 2


def test_a_lock_that_proves_nothing_is_told(
    built: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After another heurgen is installed, say: the files are right, and each check took as long as training does."""
    project, model = built / "heurgen.toml", built / "out/model.json"
    monkeypatch.setattr("heurgen.ship.proofs.learner_hash", lambda: "another")
    result = run("check", project)
    told = f"{model}: trained again, since heurgen.lock does not prove it; heurgen build does"
    assert (result.exit_code, result.stderr, trained) == (0, f"note: {told}\n", ["matmul"])
    assert run("check", project, "--retrain").stderr == ""
    run("build", project)
    assert run("check", project).stderr == ""


@pytest.mark.parametrize("words", [("check",), ("check", "--retrain")], ids=" ".join)
def test_a_model_whose_entry_was_lost_is_no_longer_called_current(
    built: Path, words: tuple[str, ...]
) -> None:
    """A merge may take an entry with it: what it made went on shipping, and nothing looked at it any more."""
    project, model = built / "heurgen.toml", built / "out/model.json"
    project.write_text(PROJECT.replace("out/", "out/other_"))
    shutil.copy(model, built / "out/other_model.json")
    shutil.copy(built / "out/module.py", built / "out/other_module.py")
    result = run(*words, project)
    assert result.exit_code == 1
    told = (
        "is in the lock, but no heuristic makes it: put its [[heuristic]] back, or delete it and its module, "
    )
    assert result.stdout == f"{model}: {told}and run heurgen build\n"
    stays = f"note: {model} is of no heuristic any more, and stays: delete it and its module\n"
    assert stays in run("build", project).stderr
    assert (run(*words, project).exit_code, run("build", project).stderr.count("stays")) == (0, 0)


def test_what_makes_another_model_trains_again(
    built: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, spec, model = built / "heurgen.toml", built / "kernel.toml", built / "out/model.json"
    lock, log = built / "heurgen.lock", built / "log.csv"
    changes = {
        project: PROJECT.replace("max_depth = 3", "max_depth = 2"),
        spec: spec.read_text().replace('unit = "rows"', 'unit = "lines"'),
        log: "\n".join(log.read_text().splitlines()[:-30]) + "\n",
        model: model.read_text().replace("128", "256"),
        lock: "",
    }
    for n, (path, text) in enumerate(changes.items(), 1):
        before = path.read_text()
        path.write_text(text)
        run("check", project)
        assert len(trained) == n, path
        path.write_text(before)
    monkeypatch.setattr("heurgen.ship.proofs.__version__", "99")
    assert run("check", project).exit_code == 0
    assert len(trained) == len(changes) + 1
    spec.write_text(spec.read_text() + "# a remark\n")
    monkeypatch.undo()
    lock.write_text("model = 3")
    result = run("check", project)
    told = "column 'model': found 3, expected a table (delete it: heurgen build writes it anew)"
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"error: {lock}:1: {told}")
