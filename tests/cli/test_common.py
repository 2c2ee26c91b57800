"""What is printed, and where it cannot be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from heurgen.cli.common import progress
from tests.support.commands import run

SPEC = ("--spec", "kernel.toml")


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """`heurgen` in a real shell: only there stdout can be closed, full or a broken pipe."""
    line = f"{sys.executable} -m heurgen {command}"
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("show model.json > /dev/full", "No space left on device"),
        ("show model.json --json > /dev/full", "No space left on device"),
        ("show model.json >&-", "it is closed"),
        ("--help > /dev/full", "No space left on device"),
        ("train --help >&-", "it is closed"),
        ("--version >&- <&-", "it is closed"),
        ("evaluate log.csv --spec kernel.toml --folds 2 >&-", "it is closed"),
        ("show model.json --json > >(exec 0<&-; sleep 0.1) 2> >(cat >&2); s=$?; sleep 0.3; exit $s", ""),
    ],
)
def test_stdout_that_takes_nothing_is_an_error(folder: Path, command: str, reason: str) -> None:
    done = shell(folder, command)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if reason:
        message = f"error: cannot write to stdout: {reason}"
        assert (done.returncode, done.stderr.splitlines()[0]) == (2, message)
    else:
        assert done.returncode in (0, 141)


LONG = "a" * 300


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"init log.csv -o {LONG}", f"{LONG}: cannot be used: File name too long"),
        (f"build {LONG}", f"{LONG}: cannot be used: File name too long"),
        (
            'emit "$OLDPWD/model.json" -o new.py',
            "cannot use the current folder, or the one for temporary files: No such file or directory",
        ),
        (
            'record -o "$OLDPWD/new.csv" -- true',
            "cannot use the current folder, or the one for temporary files: No usable temporary directory",
        ),
    ],
)
def test_a_path_that_the_system_refuses_is_no_trouble_of_stdout(
    folder: Path, command: str, said: str
) -> None:
    """It was `cannot write to stdout: File name too long`, whichever file was meant."""
    gone = "mkdir gone; cd gone; rmdir ../gone; ulimit -f 0; " if "OLDPWD" in command else ""
    line = f"{gone}{sys.executable} -m heurgen {command}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=folder, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.endswith(
        "help files-that-cannot-be-read  (docs/troubleshooting.md#files-that-cannot-be-read)\n"
    )


@pytest.mark.parametrize("locale", ["latin-1", "ascii"])
def test_a_workload_on_stdout_is_the_file_in_any_locale(folder: Path, locale: str) -> None:
    r"""TOML is UTF-8: in latin-1 it was no TOML, and in ASCII it had `\xe9`, which TOML does not know."""
    for file in (folder / "log.csv", folder / "kernel.toml"):
        file.write_text(re.sub(r"\bfloat16\b", "caf\xe9", file.read_text()), encoding="utf-8")
    shell(folder, "train log.csv --spec kernel.toml -o new.json --strategy joint")
    words = "advise new.json log.csv --spec kernel.toml"
    told = shell(
        folder,
        f"{words} -o next.toml; PYTHONIOENCODING={locale} {sys.executable} -m heurgen {words} > out.toml",
    )
    assert (folder / "out.toml").read_bytes() == (folder / "next.toml").read_bytes(), told.stderr
    assert "caf\xe9" in (folder / "next.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("into", ["| cat", ">> all.txt; cat all.txt"])
def test_a_file_that_is_stdout_holds_that_file_alone(folder: Path, name: str, into: str) -> None:
    """A module that ended with "wrote /dev/stdout" was no Python."""
    commands = (
        "emit model.json",
        "train log.csv --spec kernel.toml",
        "init log.csv",
        "advise model.json log.csv --spec kernel.toml",
    )
    for command in commands:
        assert shell(folder, f"{command} -o file.txt").returncode == 0
        (folder / "all.txt").write_text("before\n")
        done = shell(folder, f"{command} -o {name} {into}")
        before = "before\n" if ">>" in into else ""
        assert done.stdout == before + (folder / "file.txt").read_text()
        assert done.stderr or command.startswith("train")
        (folder / "file.txt").unlink()


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("train", "-h"),
        ("help", "names"),
        ("show", "model.json"),
        ("audit", "model.json", "log.csv", *SPEC, "--json"),
        ("emit", "model.json", "-o", "/dev/stdout"),
    ],
)
def test_a_reader_that_leaves_is_no_error(folder: Path, words: tuple[str, ...]) -> None:
    """`| head -1`: as with git, no word and the status that a shell gives SIGPIPE; 1 means findings, 2 bad input."""
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "heurgen", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        line, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "command",
    ["validate - --spec kernel.toml", "init - -o new.toml", "audit model.json - --spec kernel.toml"],
)
def test_a_standard_input_that_is_closed_is_an_error(folder: Path, command: str) -> None:
    done = shell(folder, f"{command} <&-")
    assert done.returncode == 2
    assert "error: <stdin>: the standard input is closed\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_is_neither_done_nor_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heurgen.spec.kernel_spec.read_spec", interrupted)
    done = run("validate", "log.csv", "--spec", "kernel.toml")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


def test_interrupted_while_it_is_imported_ends_alike() -> None:
    """By the console script's own function: what it imports takes most of a short command's time."""
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from heurgen.__main__ import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


ENTRY = """
[[heuristic]]
logs = ["{0}.csv"]
spec = "kernel.toml"
model = "{0}.json"
module = "{0}.py"
strategy = "joint"
"""


def test_a_build_that_is_terminated_keeps_what_it_made(folder: Path) -> None:
    """A time limit of CI sends SIGTERM: what was trained until then was lost, where Ctrl-C keeps it."""
    os.mkfifo(folder / "waiting.csv")
    project = folder / "heurgen.toml"
    project.write_text(ENTRY.format("log") + ENTRY.format("waiting"))
    before = {file.name for file in folder.iterdir()}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "-m", "heurgen", "build"]
    with subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        writer = os.open(folder / "waiting.csv", os.O_WRONLY)  # waits until it is read: the first one is made
        process.terminate()
        _, said = process.communicate(timeout=60)
        os.close(writer)
    assert (process.returncode, said) == (143, "\ninterrupted\n")
    assert {file.name for file in folder.iterdir()} - before == {"log.json", "log.py", "heurgen.lock"}


def test_no_file_gets_the_number_of_a_stream_that_is_closed() -> None:
    """A worker has its own stderr as number 2: a pipe to it that is number 2 here would be lost there."""
    program = (
        "import os, sys, types\n"
        "sys.modules['heurgen.cli'] = cli = types.ModuleType('heurgen.cli')\n"
        "cli.main = lambda prog_name: sys.exit(10 + os.open(os.devnull, os.O_RDONLY))\n"
        "from heurgen.__main__ import run\n"
        "run()\n"
    )
    words = ["bash", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program]
    assert subprocess.run(words, check=False).returncode >= 13


HOSTILE = "x\x1b[2J\u202e\u200b\x07\u3164y"


def test_nothing_printed_steers_the_terminal(folder: Path) -> None:
    """Categories, devices, units and records of a model are shown with their control characters escaped."""
    from heurgen.ir import schema

    module = schema.read_model(folder / "model.json")
    data = schema.to_dict(module)
    for feature in data["features"]:
        feature["unit"] = feature["doc"] = HOSTILE
    dtype = next(f for f in data["features"] if f["name"] == "dtype")
    dtype["values"] = [HOSTILE, *dtype["values"]]
    data["selectors"][0]["devices"] = [HOSTILE]
    data["selectors"][0]["choice"] = {HOSTILE: HOSTILE}
    leaves = [{"config": 0, "n_scenarios": 1, "slowdown": 1.0} for _ in range(2)]
    data["selectors"][0]["tree"] = {
        "feature": "dtype", "values": [HOSTILE], "others": ["float16"], "unknown_left": True,
        "left": leaves[0], "right": leaves[1],
    }  # fmt: skip
    (folder / "hostile.json").write_text(schema.to_json(schema.from_dict(data)))
    row = ("m=1", "k=1", "density=0.5", f"dtype={HOSTILE}")
    for words in (
        ("show", "hostile.json"),
        ("show", "hostile.json", "--json"),
        ("explain", "hostile.json", "--vendor", "nvidia", *row),
        ("explain", "hostile.json", "--vendor", "nvidia", *row, "--json"),
        ("diff", "hostile.json", "model.json"),
        ("audit", "hostile.json", "log.csv", *SPEC),
        ("emit", "hostile.json", "-o", "x.py"),
        ("show", HOSTILE),
        ("validate", HOSTILE, "--spec", HOSTILE),
    ):
        result = run(*words)
        assert all(line.isprintable() for line in (result.stdout + result.stderr).split("\n")), words
        assert not set("\u202e\u200b\u3164") & set(result.output), words


def test_a_bar_shows_any_name_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich takes words in brackets for its own, and ends where they close nothing."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("training [/x]\x1b[2J.json") as tell:
        tell(1, 2)


@pytest.mark.parametrize(
    "words",
    [
        ("import", "auto", "cache.json"),
        ("merge", "log.csv"),
        ("tune", "examples.matmul:tunable", "--interpret"),
        ("record", "--", "true"),
    ],
)
def test_a_log_is_not_written_under_a_name_that_no_reader_takes_it_by(
    folder: Path, words: tuple[str, ...]
) -> None:
    """It was written as CSV, after hours of a sweep too, and refused as broken Parquet by whatever read it."""
    at = words.index("--") if "--" in words else len(words)
    found = run(*words[:at], "-o", "own.parquet", *words[at:])
    assert (found.exit_code, (folder / "own.parquet").exists()) == (2, False)
    assert found.stderr.splitlines()[0] == (
        "error: own.parquet: cannot write: a log is CSV, and the name says Parquet (name it own.csv)"
    )
