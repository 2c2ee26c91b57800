"""What a package index shows: every picture, and no link that leads nowhere, with an address and without one."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.text_pictures import pictures

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGET = re.compile(r"\]\(([^)\s]+)\)")
NOWHERE = {"address": "", "files": ""}
GITHUB = {"address": "https://github.com/a/b", "files": "https://github.com/a/b/blob/HEAD"}


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_with_an_address_every_target_is_absolute(hook: ModuleType) -> None:
    shown = hook.description(README, "https://code.example/heurgen/blob/main", ROOT)
    targets = TARGET.findall(shown)
    assert len(targets) == len(TARGET.findall(README))
    assert all(t.startswith("https://") for t in targets)
    found = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", shown)
    assert found
    for picture in found:
        path = picture.removeprefix("https://code.example/heurgen/raw/main/")
        assert (ROOT / path).is_file(), picture


def test_without_an_address_nothing_leads_nowhere_and_every_picture_is_text(hook: ModuleType) -> None:
    shown = hook.description(README, "", ROOT)
    assert [t for t in TARGET.findall(shown) if not t.startswith("https://")] == []
    assert "![" not in shown
    named = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert {(ROOT / name).with_suffix(".txt") for name in named} == set(pictures())
    assert all(drawn in shown for drawn in pictures().values())


@pytest.mark.parametrize("path", [path.name for path in pictures()])
def test_the_pictures_as_text_are_of_today(path: str) -> None:
    found = {p.name: (p, drawn) for p, drawn in pictures().items()}[path]
    assert found[0].read_text(encoding="utf-8") == found[1], "python -m benchmarks.text_pictures"


def rendered(text: str) -> str:
    """The page as the package index makes it."""
    markdown = pytest.importorskip("readme_renderer.markdown", reason="make test installs it")
    html = markdown.render(text)
    assert html is not None
    return str(html)


def test_an_index_shows_the_pictures_without_an_address(hook: ModuleType) -> None:
    page = rendered(hook.description(README, "", ROOT))
    assert "<img" not in page
    shown = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    plain = [re.sub(r"<[^>]+>", "", block) for block in shown]
    for drawn in pictures().values():
        assert drawn.strip() in [block.strip() for block in plain]


def test_an_index_shows_the_pictures_with_an_address(hook: ModuleType) -> None:
    page = rendered(hook.description(README, GITHUB["files"], ROOT))
    shown = re.findall(r'<img [^>]*src="([^"]+)"', page)
    assert len(shown) == len(pictures())
    assert all(s.startswith("https://github.com/a/b/raw/HEAD/") for s in shown)
    assert [a for a in re.findall(r'href="([^"]+)"', page) if not a.startswith(("https://", "#"))] == []


@pytest.mark.parametrize(
    ("text", "with_address", "without"),
    [
        ("![a](b.png)\n", "![a](https://x/raw/main/b.png)\n", "a:\n\n```text\ndrawn\n```\n"),
        ("[a](b.md#c)", "[a](https://x/blob/main/b.md#c)", "a"),
        ("[`a[0]`](b.md)", "[`a[0]`](https://x/blob/main/b.md)", "`a[0]`"),
        ("[a](https://y) [b](#c)", "[a](https://y) [b](#c)", "[a](https://y) [b](#c)"),
    ],
)
def test_links_and_pictures(
    hook: ModuleType, tmp_path: Path, text: str, with_address: str, without: str
) -> None:
    (tmp_path / "b.txt").write_text("drawn\n")
    assert hook.description(text, "https://x/blob/main", tmp_path) == with_address
    assert hook.description(text, "", tmp_path).startswith(without)


@pytest.mark.parametrize(
    ("remote", "index"),
    [
        ("https://github.com/a/b.git", GITHUB),
        ("https://github.com/a/b/", GITHUB),
        ("https://GitHub.com/a/b", GITHUB),
        ("https://someone:secret@github.com/a/b.git", GITHUB),
        ("ssh://git@github.com:22/a/b.git", GITHUB),
        ("git@github.com:a/b.git", GITHUB),
        (
            "git@gitlab.com:group/sub/b.git",
            {
                "address": "https://gitlab.com/group/sub/b",
                "files": "https://gitlab.com/group/sub/b/-/blob/HEAD",
            },
        ),
        ("", NOWHERE),
        ("/home/me/b", NOWHERE),
        ("file:///home/me/b", NOWHERE),
        ("http://github.com/a/b", NOWHERE),
        ("https://git.company.example/a/b", NOWHERE),
        ("https://github.com.evil.example/a/b", NOWHERE),
        ("https://evil.example/@github.com/a/b", NOWHERE),
        ("git@10.0.0.7:a/b.git", NOWHERE),
        ("https://github.com/a", NOWHERE),
        ("https://github.com/a/../b", NOWHERE),
        ("https://github.com/a/b)[x](https://evil.example", NOWHERE),
    ],
)
def test_the_address_of_a_clone(hook: ModuleType, remote: str, index: dict[str, str]) -> None:
    assert hook.from_remote(remote) == index


def test_the_addresses(hook: ModuleType) -> None:
    assert hook.addresses(NOWHERE) == {}
    made = hook.addresses({"address": "https://x", "files": "https://x/blob/main"})
    assert made["Repository"] == "https://x"
    assert all(a.startswith("https://x") for a in made.values())
    for name in ("Documentation", "Troubleshooting", "Changelog"):
        assert (ROOT / made[name].removeprefix("https://x/blob/main/")).is_file()


def test_both_are_filled_in_or_neither() -> None:
    index = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["heurgen"]["index"]
    assert bool(index["address"]) == bool(index["files"])


def built(folder: Path, remote: str) -> tuple[Message, Message]:
    """PKG-INFO of the source distribution of a small clone, and METADATA of the wheel that is built from it."""
    pytest.importorskip("hatchling", reason="building needs hatchling")
    project = folder / "project"
    project.mkdir()
    shutil.copyfile(ROOT / "hatch_build.py", project / "hatch_build.py")
    (project / "README.md").write_text("# small\n\n![A picture](a.png)\n\n[docs](docs.md)\n")
    (project / "a.txt").write_text("drawn ┼\n", encoding="utf-8")
    (project / "small.py").write_text("")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\nname = "small"\n'
        'version = "1"\ndynamic = ["readme", "urls"]\n[tool.heurgen.index]\naddress = ""\nfiles = ""\n'
        "[tool.hatch.metadata.hooks.custom]\n"
    )
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "remote", "add", "origin", remote], check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(folder / "small-1.tar.gz") as sdist:
        found = sdist.extractfile("small-1/PKG-INFO")
        assert found is not None
        info = found.read().decode()
    metadata = zipfile.ZipFile(next(folder.glob("*.whl"))).read("small-1.dist-info/METADATA").decode()
    return message_from_string(info), message_from_string(metadata)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
@pytest.mark.parametrize(
    ("remote", "urls", "shown"),
    [
        ("git@github.com:a/b.git", 4, "![A picture](https://github.com/a/b/raw/HEAD/a.png)"),
        ("/srv/git/b", 0, "A picture:\n\n```text\ndrawn ┼\n```"),
    ],
)
def test_a_wheel_from_the_sdist_says_what_the_clone_said(
    tmp_path: Path, remote: str, urls: int, shown: str
) -> None:
    for made in built(tmp_path, remote):
        assert len(made.get_all("Project-URL") or []) == urls
        assert shown in str(made.get_payload())
