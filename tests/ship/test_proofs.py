"""heurgen.lock: what each shipped model was trained from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from heurgen.base.errors import SpecError
from heurgen.ship.proofs import (
    Proof,
    inputs_hash,
    learner_files,
    learner_hash,
    left_behind,
    lock_path,
    lock_text,
    model_key,
    read_proofs,
    text_hash,
)
from heurgen.spec.kernel_spec import read_spec

SPEC = read_spec(Path(__file__).parents[2] / "data" / "unified_attention.toml")


def test_the_lock_reads_back_as_written_in_the_order_of_names(tmp_path: Path) -> None:
    proofs = {'b/"x".json': Proof("1" * 64, "2" * 64), "a.json": Proof("3" * 64, "4" * 64)}
    project = tmp_path / "heurgen.toml"
    assert read_proofs(project) == {}
    lock_path(project).write_text(lock_text(proofs))
    assert read_proofs(project) == proofs
    assert lock_text(proofs).index("a.json") < lock_text(proofs).index("b/")


def test_the_lock_lies_beside_the_project_file() -> None:
    assert lock_path(Path("a/my.project.toml")) == Path("a/my.project.lock")
    assert lock_path(Path()) == Path(".lock")  # no file's name; reading the project says so


@pytest.mark.parametrize(
    "text", ["x = 1\n", '[model."a"]\ninputs = "1"\n', '[model."a"]\ninputs = "1"\nmodel = 2\n']
)
def test_a_lock_that_build_does_not_write_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "heurgen.lock").write_text(text)
    with pytest.raises(SpecError, match=r"heurgen\.lock"):
        read_proofs(tmp_path / "heurgen.toml")


def test_a_model_is_named_from_the_projects_folder_with_slashes(tmp_path: Path) -> None:
    assert model_key(tmp_path / "out" / "m.json", tmp_path / "p" / "heurgen.toml") == "../out/m.json"


def test_models_of_the_lock_that_nothing_makes_and_that_are_there(tmp_path: Path) -> None:
    project = tmp_path / "heurgen.toml"
    assert left_behind(project, ()) == []
    lock_path(project).write_text(
        lock_text({name: Proof("1", "2") for name in ("a.json", "b.json", "c.json")})
    )
    for name in ("a.json", "b.json"):
        (tmp_path / name).touch()
    assert left_behind(project, [tmp_path / "x" / ".." / "b.json"]) == [tmp_path / "a.json"]


def test_everything_that_makes_a_model_changes_its_hash() -> None:
    base = inputs_hash("log", SPEC, {"max_depth": 3})
    assert base == inputs_hash("log", SPEC, {"max_depth": 3})
    assert base != inputs_hash("other", SPEC, {"max_depth": 3})
    assert base != inputs_hash("log", SPEC, {"max_depth": 4})
    assert len({base, learner_hash(), text_hash("")}) == 3
    assert text_hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_what_the_learner_imports_is_of_the_learner() -> None:
    """But for words of errors and tables, and for what reads a log and its card: the inputs have what was read."""
    files = learner_files()
    package = files[0].parents[1]
    imported = {
        node.module
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("heurgen.")
    }
    known = {".".join(("heurgen", *path.relative_to(package).with_suffix("").parts)) for path in files}
    known |= {name.removesuffix(".__init__") for name in known}
    apart = {"base.errors", "base.outline", "base.reading", "base.text", "spec.kernel_spec", "logs", "logs.card",
             "logs.cells", "logs.outcomes", "logs.tuning_log", "_version"}  # fmt: skip
    assert imported - known - {f"heurgen.{name}" for name in apart} == set()


def test_a_merge_that_left_its_marks_is_told_how_to_end(tmp_path: Path) -> None:
    lock = tmp_path / "heurgen.lock"
    lock.write_text(f"{lock_text({})}<<<<<<< HEAD\n")
    with pytest.raises(SpecError) as caught:
        read_proofs(tmp_path / "heurgen.toml")
    told = "git left its mark of a conflict here, <<<<<<< (delete it: heurgen build writes it anew)"
    assert str(caught.value) == f"{lock}:3: {told}"
