"""Launches that are not yet a row: kept at once, read back, forgotten with their row."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune import samples
from heurgen.tune.samples import Measurement, Samples
from heurgen.tune.timing import Failure

ONE = Measurement("nvidia", "H200", "s1", "a", 0)
TWO = ONE._replace(turn=1)
CRASH = Failure("crash", "the process ended")


def test_what_was_taken_is_there_again(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    kept = Samples(log)
    assert kept.path == tmp_path / "log.samples"
    assert kept.taken(ONE) == ()
    for outcome in (1.5, CRASH, 2.0):
        kept.add(ONE, outcome)
    kept.add(TWO, 3.0)
    kept.close(finished=False)
    again = Samples(log)
    assert (again.taken(ONE), again.taken(TWO)) == ([1.5, CRASH, 2.0], [3.0])
    again.forget([ONE])
    assert again.taken(ONE) == ()
    assert kept.path.read_bytes().count(b"\n") == 5  # a short file is not written anew
    third = Samples(log)  # as after a kill
    assert (third.taken(ONE), third.taken(TWO)) == ((), [3.0])
    third.close(finished=False)
    again.close(finished=True)
    assert not kept.path.exists()


def test_an_end_with_nothing_under_way_leaves_no_file(tmp_path: Path) -> None:
    kept = Samples(tmp_path / "log.csv")
    kept.add(ONE, 1.0)
    kept.forget([ONE, TWO])
    kept.close(finished=False)
    assert list(tmp_path.iterdir()) == []


def test_what_a_log_that_is_gone_left_is_forgotten(tmp_path: Path) -> None:
    kept = Samples(tmp_path / "log.csv")
    kept.add(ONE, 1.5)
    kept.close(finished=False)
    again = Samples(tmp_path / "log.csv", new=True)
    assert again.taken(ONE) == ()
    again.add(TWO, 2.0)
    again.close(finished=False)
    third = Samples(tmp_path / "log.csv")
    assert (third.taken(ONE), third.taken(TWO)) == ((), [2.0])


def test_a_long_file_is_written_anew_without_what_are_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MAX_BYTES", 200)
    kept = Samples(tmp_path / "log.csv")
    kept.add(TWO, 7.0)
    for _ in range(3):
        kept.add(ONE, 1.0)
        kept.forget([])
    assert kept.path.read_bytes().count(b"\n") == 4
    kept.add(ONE, CRASH)
    kept.forget([ONE])
    assert [json.loads(line)[-2:] for line in kept.path.read_text().splitlines()] == [[1, 7.0]]
    kept.add(TWO, 8.0)
    kept.close(finished=False)
    assert Samples(tmp_path / "log.csv").taken(TWO) == [7.0, 8.0]


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[1, 2]",
        b'["nvidia", "H200", "s1", "a", 0, -1.0]',
        b'["nvidia", "H200", "s1", "a", 0, 0.0]',
        b'["nvidia", "H200", "s1", "a", 0, NaN]',
        b'["nvidia", "H200", "s1", "a", 0, Infinity]',
        b'["nvidia", "H200", "s1", "a", 0, 1]',
        b'["nvidia", "H200", "s1", "a", true, 1.0]',
        b'["nvidia", "H200", 5, "a", 0, 1.0]',
        b'["nvidia", "H200", "s1", "a", 0, ["ok", ""]]',
        b'["nvidia", "H200", "s1", "a", 0, ["crash", 3]]',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_line_that_makes_no_sense_is_passed_over(tmp_path: Path, line: bytes) -> None:
    good = json.dumps([*ONE, 1.0]).encode()
    (tmp_path / "log.samples").write_bytes(b"\n".join([line, good, line[: len(line) // 2]]))
    assert Samples(tmp_path / "log.csv")._taken == {ONE: [1.0]}


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "cannot keep the sweep's launches: {} (the log is sound; --resume continues it)"
    with pytest.raises(UsageError) as caught:
        Samples(tmp_path / "none" / "log.csv")
    assert str(caught.value) == f"{tmp_path}/none/log.samples: {said.format('No such file or directory')}"
    kept = Samples(tmp_path / "log.csv")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UsageError) as caught:
        kept.add(ONE, 1.0)
    assert str(caught.value) == f"{tmp_path}/log.samples: {said.format('No space left on device')}"
