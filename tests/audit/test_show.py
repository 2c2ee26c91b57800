"""Trees as plain text and as JSON; a drawing on a terminal, plain text off it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from heurgen.ir.schema import to_json
from tests.support.modules import two_vendors


def on_terminal(words: list[str], **environment: str) -> bytes:
    """The output of a command whose stdout is a terminal."""
    main, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environment}
    process = subprocess.Popen([sys.executable, "-m", "heurgen", *words], stdout=follower, env=environment)
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # Linux: the other side is closed
            break
        if not part:
            break
        parts.append(part)
    assert process.wait() == 0
    os.close(main)
    return b"".join(parts)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a Unix thing")
def test_show_draws_on_a_terminal_and_respects_no_color(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(to_json(two_vendors()))
    words = ["show", str(path)]
    coloured = on_terminal(words)
    assert b"\x1b[" in coloured
    assert "├──".encode() in coloured
    plain = on_terminal(words, NO_COLOR="1")
    assert b"\x1b" not in plain
    assert "├──".encode() in plain
    piped = subprocess.run([sys.executable, "-m", "heurgen", *words], capture_output=True, check=True).stdout
    assert piped.isascii()
    assert b"if num_seqs <= 8:" in piped
