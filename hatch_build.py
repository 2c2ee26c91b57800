"""What a package index shows of the README: absolute links and pictures, and the project's addresses.

An index takes neither relative links nor embedded pictures (its renderer drops data: addresses), so both need the
address of the repository, which is named once, in pyproject.toml:

    [tool.heurgen.index]
    address = "https://..."            # where the repository is shown
    files = "https://.../blob/main"    # its files; pictures are taken from there too, `files` + path + "?raw=true"

As long as the address is empty the description leaves pictures out and keeps the words of links, so that nothing on the
page leads nowhere, and says where pictures and documentation are.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the tests ask the functions where hatchling is not installed
    MetadataHookInterface = object

_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)\n?")
_LINK = re.compile(r"(?<!!)\[((?:`[^`]*`|[^\]`])*)\]\((?!https?:|#)([^)\s]+)\)")
_ABSENT = "\n(Pictures and documentation are in the source distribution: README.md, docs/.)\n"


def description(readme: str, files: str) -> str:
    """The README as an index can show it; `files` is the address that relative paths lie under, or ""."""
    if files:
        shown = _PICTURE.sub(lambda m: f"![{m[1]}]({files}/{m[2]}?raw=true)\n", readme)
        return _LINK.sub(lambda m: f"[{m[1]}]({files}/{m[2]})", shown)
    return _LINK.sub(lambda m: m[1], _PICTURE.sub("", readme)) + _ABSENT


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
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        index = project["tool"]["heurgen"]["index"]
        readme = (root / "README.md").read_text(encoding="utf-8")
        text = description(readme, index["files"] if index["address"] else "")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = addresses(index)
