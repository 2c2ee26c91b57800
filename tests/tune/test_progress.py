from __future__ import annotations

import io
import subprocess
import sys

import pytest

from heurgen.tune.progress import progress_bar, remaining_text
from heurgen.tune.sweep import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_silent_off_a_terminal() -> None:
    stream = io.StringIO()
    with progress_bar(stream) as show:
        show(Progress("measure", 1, 2, 4.0))
    assert stream.getvalue() == ""


def test_silent_where_stderr_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar() as show:
        show(Progress("measure", 1, 2, 4.0))


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with progress_bar(stream) as show:
        show(Progress("measure", 1, 2, 65.0))
    assert "1/2" in stream.getvalue()
    assert "1 min 05 s left" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.4, "0 s left"),
        (59.6, "1 min 00 s left"),
        (3599, "59 min 59 s left"),
        (7260, "2 h 01 min left"),
    ],
)
def test_remaining(seconds: float | None, text: str) -> None:
    assert remaining_text(seconds) == text


def test_heavy_libraries_stay_away() -> None:
    code = (
        "import sys, heurgen.tune.run, heurgen.tune.progress, heurgen.tune.worker;"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'rich', 'torch', 'jinja2') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
