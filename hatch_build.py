"""What a package index shows of the README: absolute links and pictures, and the project's addresses.

An index takes neither relative links nor embedded pictures (its renderer drops data: addresses and inline SVG), so
both need the address of the repository. It is known

1. from pyproject.toml, where it was filled in:

    [tool.heurgen.index]
    address = "https://..."            # where the repository is shown
    files = "https://.../blob/main"    # its files; pictures are taken from .../raw/main

2. else from the clone's remote `origin`, where that is at a public host;
3. from PKG-INFO in a source distribution, which was made by one of the two: a wheel built from it says the same.

Without an address the words of links stay, so that nothing on the page leads nowhere, and a picture is shown as the
text beside it, `report.txt` for `report.png`; `python -m benchmarks.text_pictures` draws those.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the tests ask the functions where hatchling is not installed
    MetadataHookInterface = object

_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[((?:`[^`]*`|[^\]`])*)\]\((?!https?:|#)([^)\s]+)\)")
_ABSENT = "\n(The documentation is in the source distribution, docs/; `heurgen help` prints it.)\n"
# https://user:secret@host/path, ssh://git@host:22/path, git@host:path: the host and the path, never who asks.
_REMOTE = re.compile(
    r"(?:(?:https|ssh)://(?:[^@/]*@)?([\w.-]+)(?::\d+)?/|git@([\w.-]+):)([\w-][\w.-]*(?:/[\w-][\w.-]*?)+)(?:\.git)?/?",
    re.ASCII,
)
# Hosts that show everyone a repository's files, and where.
_PUBLIC = {"github.com": "/blob/HEAD", "gitlab.com": "/-/blob/HEAD"}


def from_remote(remote: str) -> dict[str, str]:
    """The addresses of a repository whose clone has this remote; empty ones where it is not at a public host."""
    found = _REMOTE.fullmatch(remote)
    host = (found[1] or found[2]).lower() if found else ""
    if not found or host not in _PUBLIC:
        return {"address": "", "files": ""}
    address = f"https://{host}/{found[3]}"
    return {"address": address, "files": address + _PUBLIC[host]}


def origin(root: Path) -> str:
    """The clone's remote `origin`; nothing where this folder is no clone, or git is not installed."""
    if not (root / ".git").exists():  # else git would ask the folders above
        return ""
    try:
        asked = ["git", "-C", str(root), "remote", "get-url", "origin"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def description(readme: str, files: str, root: Path) -> str:
    """The README as an index can show it; `files` is the address that relative paths lie under, or "".

    Raises:
        OSError: there is no address, and a picture has no text beside it.
    """
    if files:
        raw = re.sub(r"/blob/([^/]+)$", r"/raw/\1", files)
        shown = _PICTURE.sub(lambda m: f"![{m[1]}]({raw}/{m[2]})", readme)
        return _LINK.sub(lambda m: f"[{m[1]}]({files}/{m[2]})", shown)

    def as_text(picture: re.Match[str]) -> str:
        drawn = (root / picture[2]).with_suffix(".txt").read_text(encoding="utf-8")
        return f"{picture[1]}:\n\n```text\n{drawn}```"

    return _PICTURE.sub(as_text, _LINK.sub(lambda m: m[1], readme)) + _ABSENT


def addresses(index: dict[str, str]) -> dict[str, str]:
    """The project's addresses for the metadata; none without an address."""
    if not index.get("address"):
        return {}
    files = index["files"]
    return {
        "Repository": index["address"],
        "Documentation": f"{files}/docs/index.md",
        "Troubleshooting": f"{files}/docs/troubleshooting.md",
        "Changelog": f"{files}/CHANGELOG.md",
    }


class IndexPage(MetadataHookInterface):  # type: ignore[misc, unused-ignore]
    """hatchling asks it for the dynamic fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        if (root / "PKG-INFO").is_file():  # hatchling has read it
            return
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        index = project["tool"]["heurgen"]["index"]
        if not index["address"]:
            index = from_remote(origin(root))
        readme = (root / "README.md").read_text(encoding="utf-8")
        text = description(readme, index["files"], root)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = addresses(index)
