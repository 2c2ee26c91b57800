"""Writing files: whole or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from heurgen.base import writing as emit
from heurgen.base.errors import EmitError, UsageError

TEXT = '"""Launch heuristics."""\n'
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def entries(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def test_a_new_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    assert emit.write_atomic(path, TEXT)
    assert path.read_text(encoding="utf-8") == TEXT
    before = path.stat()
    assert not emit.write_atomic(str(path), TEXT)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert emit.write_atomic(path, TEXT + "x = 1\n")
    assert path.read_text(encoding="utf-8") == TEXT + "x = 1\n"
    assert entries(tmp_path) == ["module.py"]


def test_a_new_file_takes_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        emit.write_atomic(tmp_path / "module.py", TEXT)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "module.py").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "module.py"
    path.write_text("old")
    path.chmod(mode)
    assert emit.write_atomic(path, TEXT)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_line_ends_and_characters_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    emit.write_atomic(path, "a\r\nb\n\xe9\u202e")
    assert path.read_bytes() == b"a\r\nb\n\xc3\xa9\xe2\x80\xae"


def test_a_link_keeps_pointing_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "module.py", tmp_path / "link.py"
    target.write_text("old")
    link.symlink_to(target)
    assert emit.write_atomic(link, TEXT)
    assert link.is_symlink()
    assert target.read_text() == TEXT


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(EmitError) as caught:
        emit.write_atomic(tmp_path / "no" / "module.py", TEXT)
    assert str(caught.value) == (
        f"{tmp_path}/no/module.py: cannot write: No such file or directory (create the folder first)"
    )


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(EmitError) as caught:
        emit.write_atomic(tmp_path, TEXT)
    assert str(caught.value) == (
        f"{tmp_path}: cannot write: Is a directory (the path is a folder, name a file in it)"
    )


@pytest.mark.parametrize("name", ["x\0y", "x" * 300, "\ud800"])
def test_a_path_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(EmitError, match="cannot write"):
        emit.write_atomic(tmp_path / name, TEXT)
    assert entries(tmp_path) == []


def test_text_that_is_no_utf8_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("old")
    with pytest.raises(EmitError, match="cannot write"):
        emit.write_atomic(path, "\ud800")
    assert path.read_text() == "old"


@pytest.mark.skipif(IS_ROOT, reason="root writes into read-only folders")
def test_a_read_only_folder(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("old")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(EmitError, match="cannot write: Permission denied"):
            emit.write_atomic(path, TEXT)
    finally:
        tmp_path.chmod(0o755)
    assert (path.read_text(), entries(tmp_path)) == ("old", ["module.py"])


@pytest.mark.parametrize("step", ["open", "fsync", "chmod", "replace"])
def test_a_failure_at_any_step_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "module.py"
    path.write_text("old")

    def fail(*arguments: object, **options: object) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(EmitError) as caught:
            emit.write_atomic(path, TEXT)
    assert str(caught.value) == (
        f"{path}: cannot write: Permission denied (the mode of the file or of its folder does not allow it)"
    )
    assert (path.read_text(), entries(tmp_path)) == ("old", ["module.py"])


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limit on Windows")
@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "module.py"
    if exists:
        path.write_text("old")
    done = run(
        """
        import resource, signal, sys
        from heurgen.base import errors
        from heurgen.base import writing as emit
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            emit.write_atomic(sys.argv[1], "x" * 200_000)
        except errors.EmitError as error:
            print(error)
        """,
        str(path),
    )
    expected = f"{path}: cannot write: File too large (a file that was there is unchanged)\n"
    assert (done.stdout, done.stderr) == (expected, "")
    assert entries(tmp_path) == (["module.py"] if exists else [])
    assert not exists or path.read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL on Windows")
def test_kill_at_any_time_leaves_an_old_or_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    versions = {c * 2_000_000 for c in "ab"}
    path.write_text("a" * 2_000_000)
    program = (
        "import sys; from heurgen.base import writing as emit; print('ready', flush=True)\n"
        "while True:\n"
        "    for c in 'ba': emit.write_atomic(sys.argv[1], c * 2_000_000)"
    )
    for delay in (0.0, 0.003, 0.01, 0.017, 0.03):
        command = [sys.executable, "-c", program, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        assert path.read_text() in versions
    strays = [n for n in entries(tmp_path) if n != "module.py"]
    assert all(n.startswith(".heurgen-") and n.endswith(".tmp") for n in strays)


def test_diff(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("a\nb\n\x1b[2J\n")
    assert emit.diff(path, "a\nb\n\x1b[2J\n") == ""
    assert emit.diff(path, "a\nc\n\x1b[2J\n") == (
        f"--- {path}\n+++ {path} (generated)\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n \\x1b[2J\n"
    )
    assert emit.diff(tmp_path / "none.py", "a\n").endswith("@@ -0,0 +1 @@\n+a\n")
    path.write_text("a")
    assert emit.diff(path, "a\n").endswith(" a\n-\\ No newline at end of file\n")
    path.write_bytes(b"\xff\n")
    assert "-\\xff" in emit.diff(path, "a\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_devices_are_written_to_and_stay_devices() -> None:
    assert emit.write_atomic("/dev/null", "text\n")
    with pytest.raises(EmitError) as error:
        emit.write_atomic("/dev/full", "text\n")
    assert str(error.value).startswith("/dev/full: cannot write: No space left on device")
    assert not Path("/dev/null").is_file()
    assert not Path("/dev/full").is_file()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system has no /dev/fd")
def test_an_open_file_is_written_to_where_it_stands(tmp_path: Path) -> None:
    """`>> all.txt`, and `(first; second) > all.txt`: what is there already stays, what follows comes behind."""
    path = tmp_path / "all.txt"
    path.write_text("before\n")
    with path.open("a") as file:
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            assert emit.write_atomic(name, "text\n")
        file.write("after\n")
    assert path.read_text() == "before\ntext\ntext\nafter\n"
    with pytest.raises(EmitError, match="/dev/fd/999: cannot write: "):
        emit.write_atomic("/dev/fd/999", "text\n")


@pytest.mark.parametrize(
    "spelling", ["log.csv", "./sub/../log.csv", "link.csv", "hard.csv", "sub/up/log.csv"]
)
def test_an_output_that_is_an_input_is_refused_by_identity(tmp_path: Path, spelling: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text("a,b\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "link.csv").symlink_to(log)
    (tmp_path / "hard.csv").hardlink_to(log)
    with pytest.raises(UsageError) as caught:
        emit.check_outputs([None, tmp_path / spelling], [tmp_path / "other", None, log])
    assert str(caught.value) == (
        f"{tmp_path / spelling}: is an input ({log}) and would be lost (name another file to write)"
    )


def test_files_that_are_not_there_yet_and_folders_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "a.json").write_text("{}")
    emit.check_outputs([tmp_path / "a", tmp_path / "b"], [tmp_path / "c"])
    for name in ("", "-"):
        with pytest.raises(UsageError, match=f"^'{name}' names no file"):
            emit.check_outputs([name], [])
    emit.check_outputs([tmp_path / "cache" / "new.csv"], [tmp_path / "cache"])
    emit.check_outputs(["/dev/null", "/dev/null"], ["/dev/null"])
    with pytest.raises(UsageError) as caught:
        emit.check_outputs([tmp_path / "x/../a", tmp_path / "a"], [])
    assert str(caught.value) == f"{tmp_path}/a: two outputs are the same file (name another file to write)"
    for outputs, inputs, message in (
        (["a"], ["./a"], "is an input"),
        (["cache/a.json"], ["cache"], "is an input"),
    ):
        with pytest.raises(UsageError, match=message):
            emit.check_outputs([tmp_path / p for p in outputs], [tmp_path / p for p in inputs])
    with pytest.raises(EmitError) as refused:
        emit.check_outputs([tmp_path / "cache"], [])
    assert str(refused.value) == (
        f"{tmp_path}/cache: cannot write: Is a directory (the path is a folder, name a file in it)"
    )
    emit.check_outputs([tmp_path / "cache"], [], folders=True)
    emit.check_outputs([tmp_path / "x\0y"], ["a\0b", "x" * 5000])


def test_what_is_named_gz_is_compressed_to_the_same_bytes_always(tmp_path: Path) -> None:
    log, page = tmp_path / "log.gz", tmp_path / "page.html"
    assert emit.write_all({log: "a,b\n1,\xe9\n", page: TEXT}) == {log: True, page: True}
    assert gzip.decompress(log.read_bytes()).decode() == "a,b\n1,\xe9\n"
    assert log.read_bytes()[4:8] == bytes(4)  # no time of day
    assert page.read_text() == TEXT
    assert not emit.write_atomic(str(log), "a,b\n1,\xe9\n")


@pytest.mark.parametrize("bad", ["no/b.py", "folder"])
def test_files_that_belong_together_are_written_all_or_none(tmp_path: Path, bad: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(EmitError) as caught:
        emit.write_all({tmp_path / "a.json": "new", tmp_path / "c.json": "new", tmp_path / bad: "new"})
    assert str(caught.value).startswith(f"{tmp_path / bad}: cannot write")
    assert entries(tmp_path) == ["a.json", "folder"]
    assert (tmp_path / "a.json").read_text() == "old"
    both = {tmp_path / "a.json": "old", tmp_path / "c.json": "new"}
    assert emit.write_all(both) == {tmp_path / "a.json": False, tmp_path / "c.json": True}


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    for _ in range(2):
        emit.make_folder(tmp_path / "a" / "b")
        assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(EmitError) as caught:
        emit.make_folder(tmp_path / "file" / "b")
    assert str(caught.value) == (
        f"{tmp_path}/file/b: cannot make the folder: Not a directory (a part of the path is a file)"
    )


def test_a_folder_that_takes_files_or_can_be_made(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "a" / "b"):
        emit.check_folder(folder)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(EmitError) as caught:
            emit.check_folder(folder)
        said = f"{folder}: cannot write: Not a directory (a part of the path is a file)"
        assert str(caught.value) == said


@pytest.mark.skipif(IS_ROOT, reason="root writes into read-only folders")
def test_a_folder_that_is_read_only_takes_no_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(EmitError, match="cannot write: Permission denied"):
        emit.check_folder(tmp_path / "new")


def test_files_whose_folders_take_them(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    before = sorted(tmp_path.iterdir())
    emit.check_parents([None, tmp_path / "new", str(tmp_path / "there"), tmp_path / "link", "/dev/stdout"])
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "lost").symlink_to(tmp_path / "no" / "new")
    for path in (tmp_path / "no" / "new", tmp_path / "lost"):
        with pytest.raises(EmitError) as caught:
            emit.check_parents([path])
        assert (
            str(caught.value) == f"{path}: cannot write: No such file or directory (create the folder first)"
        )


def test_a_new_file_is_refused_where_none_can_be_made_and_one_that_is_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").write_text("x")

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("heurgen.base.writing.os.open", refuse)
    emit.check_parents([tmp_path / "there"])
    with pytest.raises(EmitError) as caught:
        emit.check_parents([tmp_path / "new"])
    assert str(caught.value) == (
        f"{tmp_path}/new: cannot write: Permission denied (the mode of the file or of its folder does not allow it)"
    )


def test_what_the_system_does_not_explain_says_that_nothing_changed(tmp_path: Path) -> None:
    with pytest.raises(EmitError) as caught:
        emit.write_atomic(tmp_path / "x\0y", TEXT)
    assert caught.value.message == "cannot write: embedded null byte"
    assert caught.value.hint == "a file that was there is unchanged"
