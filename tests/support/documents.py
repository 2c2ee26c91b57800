"""The code blocks of a Markdown page: what of them is run, and how, in a copy of what a reader has."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from heurgen.cli import main

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "published"
# It sets what a whole process keeps: it gets one.
_APART = ("record",)
# The log that the quick start learns from: a reader here has every third of its scenarios.
_LOG = "data/h200_unified_attention.csv"
# Of the project's heuristics: one of several logs, for Triton, and one of one log.
_KEPT = ("data/static_grid.toml", "data/hopper_matmul_fp8.toml")
_BLOCK = re.compile(
    r"(?:^<!-- (?P<reason>not run: [^\n]+) -->\n\n?)?"
    r"(?:^```(?P<info>[^\n]*)\n(?P<fenced>.*?)^```$|^(?P<indented>(?:    [^\n]*\n)+))",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: its language and marks (`python run`), its text, why it is not run (None: no reason given).

    `info` is "$" for an indented block, which holds command lines.
    """

    info: str
    text: str
    reason: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a shell, or a block of Python."""

    text: str
    python: bool


@dataclass(frozen=True, slots=True)
class Done:
    """How a step ended, and what it printed."""

    returncode: int
    output: str


def blocks(page: str) -> list[Block]:
    found = []
    for match in _BLOCK.finditer(page):
        indented = match["indented"]
        info = "$" if indented else match["info"].strip()
        line = page.count("\n", 0, match.start()) + 1
        found.append(Block(info, indented or match["fenced"], match["reason"], line))
    return found


def steps(page: str) -> list[Step]:
    """What of a page is run, in its order: lines `    $ command`, and blocks "python run"."""
    found = []
    for block in blocks(page):
        if block.info == "python run":
            found.append(Step(block.text, True))
        elif block.info == "$":
            lines = block.text.splitlines()
            found += [Step(s[6:], False) for s in lines if s.startswith("    $ ")]
    return found


def reader_folder(folder: Path) -> Path:
    """What a reader of the repository has, without its caches, with less of the log that the pages train on, over and
    over, and with two of the project's heuristics. That all of it is current, tests/ship/test_project.py says.
    """
    for name in ("data", "kernels", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "heurgen.lock", folder)
    head, *heuristics = (ROOT / "heurgen.toml").read_text(encoding="utf-8").split("[[heuristic]]")
    kept = [text for text in heuristics if any(spec in text for spec in _KEPT)]
    assert len(kept) == len(_KEPT)
    (folder / "heurgen.toml").write_text("[[heuristic]]".join([head, *kept]), encoding="utf-8")
    _shorten(folder / _LOG)
    if PUBLISHED.is_dir():
        (folder / "published").symlink_to(PUBLISHED)
    return folder


def _shorten(log: Path) -> None:
    header, *rows = log.read_text(encoding="utf-8").splitlines(keepends=True)
    at = header.split(",").index("scenario")
    kept = set(list(dict.fromkeys(row.split(",")[at] for row in rows))[::3])
    log.write_text("".join([header, *(row for row in rows if row.split(",")[at] in kept)]), encoding="utf-8")


def run_step(folder: Path, step: Step) -> Done:
    """Run a step in this process where that does no harm: starting Python takes longer than most commands."""
    if step.python:
        return _python(folder, step.text)
    words = shlex.split(step.text, comments=True)
    assert words[0] == "heurgen", f"{step.text!r} is no command of heurgen"
    words = [w for word in words[1:] for w in _expanded(folder, word)]
    if words[0] in _APART:
        return _apart(folder, "-m", "heurgen", *words)
    with _inside(folder):
        result = CliRunner().invoke(main, words, prog_name="heurgen")
    trouble = result.exception if not isinstance(result.exception, SystemExit) else None
    return Done(result.exit_code, result.output + (repr(trouble) if trouble else ""))


def _expanded(folder: Path, word: str) -> list[str]:
    """A word as a shell expands it."""
    return sorted(str(p.relative_to(folder)) for p in folder.glob(word)) if "*" in word else [word]


def _python(folder: Path, text: str) -> Done:
    names: dict[str, Any] = {"__name__": "__main__"}
    with _inside(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(text, "<block>", "exec"), names)
        except Exception:
            return Done(1, out.getvalue() + traceback.format_exc())
    return Done(0, out.getvalue())


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In the folder, as a process would start there; modules that it holds are forgotten afterwards."""
    before, path = os.getcwd(), list(sys.path)
    os.chdir(folder)
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels"), str(folder)]
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def _apart(folder: Path, *words: str) -> Done:
    places = os.pathsep.join(map(str, (ROOT, ROOT / "kernels", folder)))
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )  # python is this one
    environment = {**os.environ, "PATH": path, "PYTHONPATH": places, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout + done.stderr)
