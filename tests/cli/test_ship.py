"""`heurgen emit`: targets, options, folders, what it prints, and that nothing half-written stays behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heurgen.ir.schema import to_json
from tests.render import test_vllm_moe
from tests.support.commands import run
from tests.support.modules import two_vendors

MOE = ("--target", "vllm-moe", "--at", "E=128,N=768,topk=8,dtype=bf16")
NAME = "E=128,N=768,device_name=NVIDIA_H200.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.json").write_text(to_json(two_vendors()))
    (tmp_path / "moe.json").write_text(to_json(test_vllm_moe.module()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("target", "name"), [("python", "m.py"), ("cpp", "m.hpp"), ("json", "m.json")])
def test_a_file(folder: Path, target: str, name: str) -> None:
    assert run("emit", "model.json", "-o", name, "--target", target).stdout == f"wrote {name}\n"
    again = run("emit", "model.json", "-o", name, "--target", target, "--json")
    assert json.loads(again.stdout) == {"files": [{"path": name, "written": False}]}


def test_a_folder_is_made(folder: Path) -> None:
    result = run("emit", "moe.json", "-o", "a/b/", *MOE)
    assert result.stdout == f"wrote a/b/{NAME}\nwrote a/b/heurgen.manifest.json\n"
    assert json.loads((folder / "a/b" / NAME).read_text())["1"]["BLOCK_SIZE_M"] == 16


def test_files_of_an_earlier_emit_that_the_new_manifest_lacks_are_told(folder: Path) -> None:
    at = ("--at", "E=8,N=768,topk=8,dtype=bf16")
    run("emit", "moe.json", "-o", "tuned", *MOE)
    assert run("emit", "moe.json", "-o", "tuned", *MOE, *at).stderr == ""
    left = run("emit", "moe.json", "-o", "tuned/", "--json", *MOE)
    assert left.stderr == (
        "note: tuned/E=8,N=768,device_name=NVIDIA_H200.json is of an earlier emit and stays, but the manifest lists it "
        "no longer: delete it, or name a folder of its own\n"
    )
    assert [file["written"] for file in json.loads(left.stdout)["files"]] == [False, True]
    (folder / "tuned/E=8,N=768,device_name=NVIDIA_H200.json").unlink()
    assert run("emit", "moe.json", "-o", "tuned", *MOE).stderr == ""


def test_the_folder_is_a_file(folder: Path) -> None:
    (folder / "taken").write_text("x")
    result = run("emit", "moe.json", "-o", "taken", *MOE)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: taken: cannot make the folder: File exists")
    assert (folder / "taken").read_text() == "x"


def test_the_header_names_the_command_that_makes_the_module_again(folder: Path) -> None:
    line = "# Regenerate: heurgen emit MODEL.json\n"
    run("emit", "model.json", "-o", "m.py")
    assert line in (folder / "m.py").read_text()
    (folder / "heurgen.toml").write_text(
        '[[heuristic]]\nlogs = ["log.csv"]\nspec = "kernel.toml"\nmodel = "model.json"\nmodule = "m.py"\n'
    )
    (folder / "log.csv").write_text("")
    run("emit", "model.json", "-o", "m.py")
    assert "# Regenerate: heurgen build heurgen.toml\n" in (folder / "m.py").read_text()
    run("emit", "model.json", "-o", "other.py")
    assert line in (folder / "other.py").read_text()
    for broken in ("no toml", (folder / "heurgen.toml").read_text().replace("model.json", "/")):
        (folder / "heurgen.toml").write_text(broken)
        assert run("emit", "model.json", "-o", "m.py").exit_code == 0
        assert line in (folder / "m.py").read_text()


@pytest.mark.parametrize(
    ("declared", "emitted"),
    [("sub/../m.py", "m.py"), ("m.py", "sub/../m.py"), ("m.py", "link/m.py"), ("link/m.py", "m.py")],
)
def test_a_module_of_the_project_is_known_by_the_folder_it_is_in(
    folder: Path, declared: str, emitted: str
) -> None:
    """Else `check` finds what `emit` wrote to differ from what `build` writes, by the header alone."""
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(folder, target_is_directory=True)
    (folder / "heurgen.toml").write_text(
        f'[[heuristic]]\nlogs = ["log.csv"]\nspec = "kernel.toml"\nmodel = "model.json"\nmodule = "{declared}"\n'
    )
    run("emit", "model.json", "-o", emitted)
    assert "# Regenerate: heurgen build heurgen.toml\n" in (folder / "m.py").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--target", "rust"),
            "unknown target 'rust' (known targets: python, triton, cpp, json, triton-autotune, inductor, vllm-moe, "
            "aiter-json)",
        ),
        (
            ("--target", "triton"),
            "the model has selectors for amd, nvidia (choose one with --vendor)",
        ),
        (
            ("--target", "triton", "--vendor", "intel"),
            "unknown vendor 'intel' (known vendors: amd, nvidia)",
        ),
        (
            ("--vendor", "amd"),
            "--target python takes no --vendor (--vendor goes with triton, triton-autotune, inductor, vllm-moe, "
            "aiter-json)",
        ),
        (("--at", "E"), "--at E: expected NAME=VALUE,..., each name once, found 'E'"),
        (("--at", "E=1,E=2"), "--at E=1,E=2: expected NAME=VALUE,..., each name once, found 'E=2'"),
        (
            ("--map", "M=a", "--map", "M=b"),
            "--map M=a,M=b: expected NAME=VALUE,..., each name once, found 'M=b'",
        ),
        (("--map", "=x"), "--map =x: expected NAME=VALUE,..., each name once, found '=x'"),
        (
            ("--approximate",),
            "--target python takes no --approximate (--approximate goes with aiter-json)",
        ),
    ],
)
def test_wrong_words(folder: Path, words: tuple[str, ...], message: str) -> None:
    result = run("emit", "model.json", "-o", "out", *words)
    first = result.stderr.splitlines()[0]
    assert (result.exit_code, first, result.stdout) == (2, f"error: {message}", "")
    assert not (folder / "out").exists()


@pytest.mark.parametrize("command", [("emit", "model.json", "-o", "out"), ("explain", "model.json", "m=1")])
@pytest.mark.parametrize("text", ["9", "sm_90", "", "gfx942:sramecc+"])
def test_what_is_no_capability_chooses_nothing(folder: Path, command: tuple[str, ...], text: str) -> None:
    """It chose what is for devices that nobody knows."""
    result = run(*command, "--capability", text)
    told = f"found '{text}', expected one such as 9.0 (NVIDIA) or gfx942 (AMD)"
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: Invalid value for '--capability': {told}" in result.stderr.splitlines()
    assert not (folder / "out").exists()


def test_a_module_that_nobody_can_import_is_refused(folder: Path) -> None:
    result = run("emit", "model.json", "-o", "class.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "error: class.py: no program can import a module of this name: 'class' is a Python keyword (name another file, "
        "such as class_heuristics.py)\n"
    )
    assert not (folder / "class.py").exists()
    assert run("emit", "model.json", "-o", "class.hpp", "--target", "cpp").exit_code == 0
    assert run("emit", "model.json", "-o", "match.py").exit_code == 0


def test_an_output_that_is_the_model(folder: Path) -> None:
    before = (folder / "model.json").read_bytes()
    result = run("emit", "model.json", "-o", "./model.json", "--target", "json")
    assert result.exit_code == 2
    assert "is an input" in result.stderr
    assert (folder / "model.json").read_bytes() == before
