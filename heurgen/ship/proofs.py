"""heurgen.lock, beside the project file: from which inputs each shipped model was trained.

A model whose inputs and bytes are those of its proof is not trained again: `build` and `check` render it, and
compare. `heurgen check --retrain` trains all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from heurgen._version import __version__
from heurgen.base import toml
from heurgen.base.errors import SpecError
from heurgen.spec.kernel_spec import KernelSpec

_HEADER = """\
# Written by `heurgen build`: inputs is the hash of the logs' content, the spec, the options and the learner's code,
# model that of the file. What fits is not trained again; `heurgen check --retrain` does.
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """`inputs` as `inputs_hash` gives it; `model` is the SHA-256 of the model's text."""

    inputs: str
    model: str


def lock_path(project: Path) -> Path:
    """`heurgen.toml` -> `heurgen.lock`."""
    return project.parent / f"{project.stem}.lock"


def model_key(model: Path, project: Path) -> str:
    """The name of a model in the lock: its path from the project file's folder, with slashes."""
    return Path(os.path.relpath(model, project.parent)).as_posix()


def read_proofs(project: Path) -> dict[str, Proof]:
    """Model -> proof; nothing where there is no lock.

    Raises:
        SpecError: the lock is there and not what `build` writes.
    """
    path = lock_path(project)
    if not path.exists():
        return {}
    try:
        return _proofs(toml.read_toml(path))
    except SpecError as error:  # a merge that left its marks, for one
        error.hint = "delete it: heurgen build writes it anew"
        raise


def _proofs(top: toml.Table) -> dict[str, Proof]:
    top.only("model")
    models = top.table("model")
    found = {}
    for name in models:
        entry = models.table(name)
        entry.only("inputs", "model")
        found[name] = Proof(entry.text("inputs"), entry.text("model"))
    return found


def left_behind(project: Path, models: Iterable[Path]) -> list[Path]:
    """Models that the lock has and that are there, but that no heuristic makes any more; `models`: those that one does.

    Raises:
        SpecError: as `read_proofs`.
    """
    named = {model_key(model, project) for model in models}
    files = [project.parent / name for name in sorted(read_proofs(project)) if name not in named]
    return [file for file in files if file.is_file()]


def lock_text(proofs: Mapping[str, Proof]) -> str:
    """The lock as TOML, in the order of the models' names."""
    parts = [_HEADER]
    for name in sorted(proofs):
        proof = proofs[name]
        parts.append(f"[model.{toml.string(name)}]")
        parts.append(f"inputs = {toml.string(proof.inputs)}\nmodel = {toml.string(proof.model)}\n")
    return "\n".join(parts)


_PACKAGE = Path(__file__).resolve().parents[1]
# What decides which model comes out of a log that is read: a change there is another version, whatever its number.
_LEARNER = (
    "trees/*.py",
    "ir/*.py",
    "logs/co[ds]*.py",
    "logs/groups.py",
    "logs/devices.py",
    "base/figures.py",
    "base/gpus.py",
    "ship/training.py",
    "ship/products.py",
    "ship/devices.py",
)


@cache
def learner_hash() -> str:
    """SHA-256 over the source of the learner."""
    whole = hashlib.sha256()
    for path in learner_files():
        text = path.read_text(encoding="utf-8")
        whole.update(f"{path.relative_to(_PACKAGE).as_posix()}\0{text}\0".encode())
    return whole.hexdigest()


def learner_files() -> list[Path]:
    """The files that decide which model comes out of a log."""
    return sorted(path for pattern in _LEARNER for path in _PACKAGE.glob(pattern))


def inputs_hash(log_hash: str, spec: KernelSpec, settings: Mapping[str, Any]) -> str:
    """SHA-256 over all that a model is made of: the log's content hash, spec, settings, and heurgen itself."""
    version = [__version__, learner_hash()]
    data = {"heurgen": version, "log": log_hash, "spec": asdict(spec), "settings": settings}
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=list).encode()).hexdigest()


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
