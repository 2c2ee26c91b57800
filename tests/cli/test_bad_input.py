"""What the commands do with input that means harm, or is only wrong: one error, status 2, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_common import HOSTILE
from tests.support import logs
from tests.support.commands import run

SPEC = ("--spec", "kernel.toml")
DESTROYING = [
    ("train", "log.csv", *SPEC, "-o", "log.csv"),
    ("train", "log.csv", *SPEC, "-o", "kernel.toml"),
    ("train", "log.csv", *SPEC, "--card", "cache.json", "-o", "./cache.json"),
    ("init", "log.csv", "-o", "../copy/log.csv"),
    ("emit", "model.json", "-o", "model.json"),
    ("audit", "model.json", "log.csv", *SPEC, "--html", "log.csv"),
    ("audit", "model.json", "log.csv", *SPEC, "--html", "model.json"),
    ("audit", "model.json", "log.csv", *SPEC, "--baseline", "module.py", "--html", "module.py"),
    ("audit", "model.json", "log.csv", *SPEC, "--html", "kernel.toml"),
    ("import", "dejavu", "cache.json", "-o", "cache.json"),
    ("import", "dejavu", "cache.json", "-o", "new.csv", "--write-spec", "cache.json"),
    ("import", "dejavu", "cache.json", "-o", "new.csv", "--write-spec", "new.csv"),
    ("import", "autoheuristic", "log.csv", "-o", "log.csv"),
    ("advise", "model.json", "log.csv", *SPEC, "--traffic", "traffic.csv", "-o", "traffic.csv"),
    ("advise", "model.json", "log.csv", *SPEC, "-o", "log.csv"),
    ("tune", "paged_attention", "-o", "kernel.toml", "--workload", "kernel.toml", "--resume"),
    ("tune", "paged_attention", "-o", "x.csv", "--space", "x.card.toml"),
]


@pytest.mark.parametrize("words", DESTROYING, ids=" ".join)
def test_no_command_writes_over_what_it_reads(folder: Path, words: tuple[str, ...]) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    result = run(*words)
    assert result.exit_code == 2
    assert "is an input" in result.stderr or "two outputs are the same file" in result.stderr
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("tune", "paged_attention", "-o"),
        ("merge", "log.csv", "-o"),
        ("train", "log.csv", *SPEC, "-o"),
        ("init", "log.csv", "-o"),
        ("audit", "model.json", "log.csv", *SPEC, "--html"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("place", [".", "/", ".."])
def test_a_folder_is_no_file_to_write(folder: Path, words: tuple[str, ...], place: str) -> None:
    result = run(*words, place)
    assert result.exit_code == 2
    said = f"error: {place}: cannot write: Is a directory (the path is a folder, name a file in it)"
    assert result.stderr.splitlines()[0] == said


@pytest.mark.parametrize("place", [".", "/", ""])
@pytest.mark.parametrize("words", [("check",), ("check", "--retrain"), ("build",)], ids=" ".join)
def test_a_folder_is_no_project_file(folder: Path, words: tuple[str, ...], place: str) -> None:
    result = run(*words, place)
    assert result.exit_code == 2
    hint = "name the project file, or run in its folder"
    assert result.stderr.splitlines()[0] == f"error: {place or '.'}: cannot be read: Is a directory ({hint})"


@pytest.mark.parametrize("place", [".", "/"])
def test_a_folder_is_no_log_to_merge(folder: Path, place: str) -> None:
    result = run("merge", place, "-o", "new.csv")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == f"error: {place}: cannot be read: Is a directory"


@pytest.mark.parametrize("output", ["log.csv", "kernel.toml", "heurgen.toml", "hard.csv"])
@pytest.mark.parametrize("command", ["build", "check"])
def test_build_writes_over_no_input(folder: Path, output: str, command: str) -> None:
    (folder / "hard.csv").hardlink_to(folder / "log.csv")
    (folder / "heurgen.toml").write_text(
        f'[[heuristic]]\nlogs = ["log.csv"]\nspec = "kernel.toml"\nmodel = "{output}"\nmodule = "m.py"\n'
    )
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    result = run(command)
    assert (result.exit_code, "is an input" in result.stderr) == (2, True)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_an_int_of_400_digits(folder: Path) -> None:
    row = ("k=1", "density=0.5", "dtype=float16")
    result = run("explain", "model.json", "--vendor", "nvidia", f"m={'9' * 400}", *row)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: m: found '99999")


@pytest.mark.parametrize(
    "time_text", ["1e308", "1.7976931348623157e308", "5e-324", "1e-101", "1" + "0" * 400, "-1", "0"]
)
def test_times_beyond_all_measure(folder: Path, time_text: str) -> None:
    cells = logs.rows(3, ("nvidia",))
    cells[1][logs.HEADER.index("time_ms")] = time_text
    logs.write(folder, cells)
    for words in (("train", "log.csv", *SPEC, "-o", "new.json"), ("validate", "log.csv", *SPEC)):
        result = run(*words)
        assert result.exit_code == 2
        assert "expected a finite time above 0" in result.stderr


@pytest.mark.parametrize("name", ["KeyError", "ValueError", "_CONFIG_0", "_BY_DEVICE", "float", "select"])
def test_names_that_emit_refuses_are_refused_with_the_spec(folder: Path, name: str) -> None:
    spec = Path("kernel.toml")
    spec.write_text(spec.read_text().replace("m = {", f"{name} = {{").replace('"m * k"', '"k * 2"'))
    Path("log.csv").write_text(Path("log.csv").read_text().replace(",m,", f",{name},", 1))
    result = run("train", "log.csv", *SPEC, "-o", "new.json")
    assert result.exit_code == 2
    assert f"kernel.toml:5: column 'features.{name}'" in result.stderr


def test_the_page_hides_nothing_and_stays_small(folder: Path) -> None:
    """A provenance, a status and a record of 100,000 hostile characters, in a page."""
    from heurgen.ir import schema

    data = schema.to_dict(schema.read_model(folder / "model.json"))
    data["selectors"][0]["choice"] = {HOSTILE: HOSTILE * 10_000}
    data["provenance"]["note"] = HOSTILE * 10_000
    (folder / "hostile.json").write_text(schema.to_json(schema.from_dict(data)))
    assert run("audit", "hostile.json", "log.csv", *SPEC, "--html", "page.html").exit_code == 0
    page = Path("page.html").read_text()
    assert not set("\x1b\u202e\u200b\x07\u3164") & set(page)
    assert len(page) < 400_000


@pytest.mark.parametrize("column", ["device", "dtype", "vendor"])
def test_a_category_of_100000_characters_is_none(folder: Path, column: str) -> None:
    cells = logs.rows(3, ("nvidia",))
    cells[1][logs.HEADER.index(column)] = "n" * 100_000
    logs.write(folder, cells)
    spec = Path("kernel.toml")
    spec.write_text(spec.read_text().replace(', values = ["bfloat16", "float16"]', ""))
    result = run("train", "log.csv", *SPEC, "-o", "new.json")
    assert result.exit_code == 2
    assert f"log.csv:3: column '{column}': found 'nnn" in result.stderr
    assert "of 100000 characters, expected at most 1000" in result.stderr
