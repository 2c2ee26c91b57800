"""Drafts of specs, as `heurgen init` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from heurgen.logs.cells import read_cells
from heurgen.logs.draft import Said, draft
from heurgen.spec.draft_toml import to_toml


def draft_spec(paths: Path | Sequence[Path], said: Said | None = None) -> str:
    """The text of a spec (TOML) for the log at `paths`. Raises as `read_cells` and `draft`."""
    files = [paths] if isinstance(paths, Path) else paths
    return to_toml(draft(read_cells(files), str(files[0]), said or Said()))
