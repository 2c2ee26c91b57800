"""Drafts of logs with hostile names and values, and of what is no log."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import LogError
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.support.drafts import draft_spec, drafted, matmul, write


@pytest.mark.parametrize(
    "name",
    ["import os", "class", "__x", "é", "a\x1b[31mb", 'x = 1"', "]#", "select", "‮", "a'b", "lambda", "_BLOCK"],
)
def test_hostile_column_names_stay_inert(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    rows = matmul()
    header = ",".join([*rows[0], '"' + name.replace('"', '""') + '"'])
    path.write_text(
        "\n".join([header, *(",".join(map(str, [*r.values(), i % 2])) for i, r in enumerate(rows))]) + "\n"
    )
    spec, text = drafted(path), draft_spec(path)
    assert all(c == "\n" or c.isprintable() for c in text)
    assert list(spec["features"])[:3] == ["M", "N", "K"]
    assert list(spec["parameters"])[:2] == ["BLOCK_M", "num_warps"]
    more = [*spec["features"]][3:] + [*spec["parameters"]][2:]
    if name.isprintable() and not name.startswith("_"):
        (own,) = more
        assert own.isidentifier()
        assert own.isascii()
        entry = {**spec["features"], **spec["parameters"]}[own]
        assert entry["column"] == name
    else:
        assert more == []
        assert "left out: " in text
    read_logs([path], parse_spec(text))


def test_hostile_values_stay_inert(tmp_path: Path) -> None:
    rows = [
        r | {"mode": f"a\x1b{r['M']}", "text": f"free {i} text", "note": '"]\\'}
        for i, r in enumerate(matmul() * 4)
    ]
    path = write(
        tmp_path / "a.csv",
        [{k: f'"{str(v).replace(chr(34), chr(34) * 2)}"' for k, v in r.items()} for r in rows],
    )
    text = draft_spec(path)
    assert list(drafted(path)["features"]) == ["M", "N", "K"]
    assert "mode: left out: it holds control characters or spaces around values" in text
    assert "text: left out: text with 128 different values" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M,BLOCK_M,vendor\n1,2,amd\n1,4,amd\n", ":1: no column looks like the time of a measurement "
             "(say which: --time NAME; of a table of winners --parameters NAME,...; or --wide, where every config has "
             "a column of its own)"),
        ("M,N,time_ms\n1,2,1.0\n", ": no column looks like a launch parameter (say which: --parameters NAME,...; "
             "or --wide, where every config has a column of its own)"),
        ("BLOCK_M,num_warps,time_ms\n1,2,1.0\n", ": no column looks like a feature (say which: --features NAME,...; "
             "of one problem add a column of its size)"),
        ("kernel,M,K,BLOCK_M,time_ms\nf,1,,16,1.0\nf,2,,16,1.0\nb,,1,16,1.0\n", ": no column looks like a feature "
             "('kernel' holds 2 kernels: give each a log of its own)"),
        ('M,mode,time_ms\n1,"a\tb",1.0\n1,c,1.0\n', ": no column looks like a launch parameter "
             "('mode' holds control characters: if it is one, --parameters mode)"),
    ],
)  # fmt: skip
def test_logs_that_give_no_draft(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(LogError) as caught:
        draft_spec(path)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize("text", ["", "a,b\n", "a,a\n1,2\n", "a,b\n1\n", "\0"])
def test_what_is_no_csv(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(LogError):
        draft_spec(tmp_path / "a.csv")


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 300), cut=st.integers(0, 20), new=st.text(max_size=8))
def test_any_damage_gives_a_draft_or_one_clear_error(tmp_path: Path, at: int, cut: int, new: str) -> None:
    path = write(tmp_path / "a.csv", matmul()[:12])
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:at] + new + text[at + cut :], encoding="utf-8", errors="replace")
    try:
        draft = draft_spec(path)
    except LogError as error:
        message = str(error)
        assert all(c == " " or c.isprintable() for c in message)
    else:
        assert list(tomllib.loads(draft))[:3] == ["kernel", "features", "parameters"]
        assert all(c == "\n" or c.isprintable() for c in draft)
