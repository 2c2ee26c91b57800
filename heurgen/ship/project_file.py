"""The project file heurgen.toml: which logs give which shipped model and module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heurgen.base.errors import EmitError, HeurgenError, SpecError, UsageError
from heurgen.base.toml import Table, read_toml
from heurgen.base.writing import check_outputs, is_special
from heurgen.logs.importers.declared import Declared, read_declared
from heurgen.render.target import check_module_name
from heurgen.ship.proofs import lock_path

if TYPE_CHECKING:
    from heurgen.ship.training import GroupBy

PROJECT_FILE = "heurgen.toml"
_KEYS = (
    "logs", "spec", "model", "module", "cards", "external", "log_hash", "note", "group_by", "dejavu", "strategy",
    "max_depth", "max_leaves", "max_configs", "prefer", "tail", "shortlist", "target", "vendor", "parameters",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Heuristic:
    """One `[[heuristic]]`: paths (made relative to the project file) and how to train.

    `external`: the logs come from elsewhere and may be absent; `log_hash` ("" where none is recorded) tells
    whether others lie in their place. `note` enters the provenance. `dejavu`: the logs are triton-dejavu
    caches. `options` are fields of `FitOptions`.
    With a `vendor` the module holds Triton functions of its `parameters` (all but floats, where empty).
    """

    logs: tuple[Path, ...]
    spec: Path
    model: Path
    module: Path
    external: bool
    cards: tuple[Path, ...]
    group_by: GroupBy
    log_hash: str
    note: str
    dejavu: Declared | None
    options: Mapping[str, Any]
    vendor: str | None = None
    parameters: tuple[str, ...] = ()

    @property
    def unseen(self) -> tuple[Path, ...]:
        """The external logs that are absent."""
        return tuple(path for path in self.logs if self.external and not path.exists())


def read_project(path: str | Path) -> tuple[Heuristic, ...]:
    """Read a project file.

    Raises:
        SpecError: it cannot be read, or an entry is not as described; names the file and the key.
    """
    path = Path(path)
    if not path.exists() or path.is_dir():
        why = "Is a directory" if path.exists() else "No such file or directory"
        hint = "name the project file, or run in its folder"
        raise SpecError(f"cannot be read: {why}", file=path, hint=hint)
    top = read_toml(path)
    top.only("heuristic")
    entries = top.tables("heuristic")
    if not entries:
        raise top.error("has no [[heuristic]]")
    heuristics = tuple(_read_heuristic(entry, path.parent) for entry in entries)
    _check_outputs(heuristics, path)
    return heuristics


def _read_heuristic(entry: Table, folder: Path) -> Heuristic:
    entry.only(*_KEYS)
    expected = '"auto", "vendor" or "device"'
    group_by = entry.text("group_by", "auto", expected=expected)
    if group_by not in ("auto", "vendor", "device"):
        raise entry.wrong("group_by", expected)
    vendor, parameters = _read_triton(entry)
    return Heuristic(
        logs=_paths(entry, "logs", folder, needed=True),
        spec=folder / _path(entry, "spec"),
        model=_output(entry, "model", folder),
        module=_output(entry, "module", folder),
        external=entry.flag("external", False),
        cards=_paths(entry, "cards", folder),
        group_by=group_by,  # type: ignore[arg-type]
        log_hash=_line(entry, "log_hash"),
        note=_line(entry, "note"),
        dejavu=read_declared(entry.table("dejavu")) if "dejavu" in entry else None,
        options=_read_options(entry),
        vendor=vendor,
        parameters=parameters,
    )


def _read_options(entry: Table) -> dict[str, Any]:
    from heurgen.trees import FitOptions

    options: dict[str, Any] = {key: entry.text(key) for key in ("strategy", "prefer") if key in entry}
    numbers = ("max_depth", "max_leaves", "max_configs", "shortlist")
    options |= {key: entry.integer(key) for key in numbers if key in entry}
    options |= {"tail": entry.number("tail")} if "tail" in entry else {}
    strategy = {key: options[key] for key in ("strategy",) if key in options}
    for key, value in options.items():
        try:
            FitOptions(**{**strategy, key: value})
        except UsageError as error:
            raise entry.error(error.message, key, error.hint) from error
    return options


def _read_triton(entry: Table) -> tuple[str | None, tuple[str, ...]]:
    """The vendor and the parameters of a Triton module, as `heurgen emit` takes them; (None, ()) for Python."""
    target = entry.text("target", "python", expected='"python" or "triton"')
    if target not in ("python", "triton"):
        raise entry.wrong("target", '"python" or "triton"')
    if target == "python":
        for key in ("vendor", "parameters"):
            if key in entry:
                raise entry.wrong(key, 'none without target = "triton"')
        return None, ()
    vendor = entry.text("vendor", expected="the vendor of the Triton functions")
    return vendor, entry.texts("parameters", (), expected="a list of parameters")


def _path(entry: Table, key: str) -> str:
    found = entry.text(key, expected="a path")
    if not found or not found.isprintable():
        raise entry.wrong(key, "a path")
    return found


def _output(entry: Table, key: str, folder: Path) -> Path:
    """`check` reads it: a device never ends, and a pipe waits."""
    path = folder / _path(entry, key)
    if is_special(path):
        raise entry.wrong(key, "a file, no device or pipe")
    try:
        check_module_name(path)
    except EmitError as error:
        raise entry.error(error.message, key, error.hint) from error
    return path


def _paths(entry: Table, key: str, folder: Path, needed: bool = False) -> tuple[Path, ...]:
    found = entry.texts(key, expected="a list of paths") if needed or key in entry else ()
    if any(not x or not x.isprintable() for x in found) or (needed and not found):
        raise entry.wrong(key, "a list of paths")
    return tuple(folder / x for x in found)


def _line(entry: Table, key: str) -> str:
    found = entry.text(key, "", expected="a line of text")
    if found and not found.isprintable():
        raise entry.wrong(key, "a line of text")
    return found


def _check_outputs(heuristics: tuple[Heuristic, ...], file: Path) -> None:
    """No model and no module is an input of any heuristic, nor another output, nor a folder."""
    inputs = [file, *(p for h in heuristics for p in (*h.logs, h.spec, *h.cards))]
    try:
        check_outputs([lock_path(file), *(p for h in heuristics for p in (h.model, h.module))], inputs)
    except HeurgenError as error:
        raise SpecError(f"{error.file}: {error.message}", file=file, hint=error.hint) from error
