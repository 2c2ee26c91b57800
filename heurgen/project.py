"""The project file heurgen.toml: which logs give which shipped model and module; `build` and `check`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heurgen import schema
from heurgen.errors import LogError, ModelError, SpecError, UsageError, quoted
from heurgen.importers.declared import Declared, import_declared, read_declared
from heurgen.ir import HeuristicModule

if TYPE_CHECKING:
    from heurgen.audit.score import Score
    from heurgen.logs import TuningLog
    from heurgen.spec import KernelSpec
    from heurgen.training import GroupBy

PROJECT_FILE = "heurgen.toml"


@dataclass(frozen=True, slots=True)
class Heuristic:
    """One `[[heuristic]]`: paths (made relative to the project file) and how to train.

    `external`: the logs come from elsewhere and may be absent; `log_hash` ("" where none is recorded) tells
    whether others lie in their place. `note` enters the provenance. `dejavu`: the logs are triton-dejavu
    caches. `options` are fields of `FitOptions`.
    With a `vendor` the module holds Triton functions of its `parameters` (all whole numbers, where empty).
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


@dataclass(frozen=True, slots=True)
class Made:
    """A heuristic's texts, as its logs give them. `score` is on those logs; None where they are absent."""

    heuristic: Heuristic
    module: HeuristicModule
    model_text: str
    module_text: str
    score: Score | None
    notes: tuple[str, ...]


# --- reading the project file -----------------------------------------------------------------------------

_LISTS = {"logs": True, "cards": False}
_PATHS = ("spec", "model", "module")
_TRITON = ("target", "vendor", "parameters")
_TEXTS = ("log_hash", "note")
_OPTIONS = {"strategy": str, "max_depth": int, "max_leaves": int, "max_configs": int, "prefer": str}


def read_project(path: str | Path) -> tuple[Heuristic, ...]:
    """Read a project file.

    Raises:
        SpecError: it cannot be read, or an entry is not as described; names the file and the key.
    """
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "name the project file, or run in its folder" if isinstance(error, FileNotFoundError) else None
        raise SpecError(f"cannot be read: {error.strerror}", file=path, hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"is no TOML: {error}", file=path) from error
    entries = data.pop("heuristic", None)
    if data:
        raise SpecError("is unknown", file=path, column=next(iter(data)), hint="expected [[heuristic]] alone")
    if not isinstance(entries, list) or not entries:
        raise SpecError("has no [[heuristic]]", file=path)
    heuristics = tuple(_read_heuristic(entry, path, i) for i, entry in enumerate(entries, 1))
    _check_outputs(heuristics, path)
    return heuristics


def _read_heuristic(entry: Any, file: Path, number: int) -> Heuristic:
    def fail(key: str, expected: str) -> SpecError:
        found = f"found {quoted(entry[key])}" if key in entry else "is missing"
        return SpecError(f"heuristic {number}: {found}, expected {expected}", file=file, column=key)

    for key in entry:
        if key not in (*_LISTS, *_PATHS, *_TEXTS, *_OPTIONS, *_TRITON, "external", "group_by", "dejavu"):
            raise SpecError(f"heuristic {number}: is unknown", file=file, column=key)
    lists: dict[str, tuple[Path, ...]] = {}
    for key, needed in _LISTS.items():
        found = entry.get(key, None if needed else [])
        if not isinstance(found, list) or any(not _is_path(x) for x in found) or (needed and not found):
            raise fail(key, "a list of paths")
        lists[key] = tuple(file.parent / x for x in found)
    for key in _PATHS:
        if not _is_path(entry.get(key)):
            raise fail(key, "a path")
    for key in _TEXTS:
        if not isinstance(text := entry.get(key, ""), str) or (text and not text.isprintable()):
            raise fail(key, "a line of text")
    if type(entry.get("external", False)) is not bool:
        raise fail("external", "true or false")
    try:
        dejavu = read_declared(entry["dejavu"]) if "dejavu" in entry else None
    except UsageError as error:
        message = f"heuristic {number}: {error.message}"
        raise SpecError(message, file=file, column=error.column, hint=error.hint) from error
    group_by = entry.get("group_by", "vendor")
    if group_by not in ("vendor", "device"):
        raise fail("group_by", '"vendor" or "device"')
    for key, type_ in _OPTIONS.items():
        if key in entry and type(entry[key]) is not type_:
            raise fail(key, f"{'an integer' if type_ is int else 'a string'}")
    vendor, parameters = _read_triton(entry, fail)
    return Heuristic(
        logs=lists["logs"],
        spec=file.parent / entry["spec"],
        model=file.parent / entry["model"],
        module=file.parent / entry["module"],
        external=entry.get("external", False),
        cards=lists["cards"],
        group_by=group_by,
        log_hash=entry.get("log_hash", ""),
        note=entry.get("note", ""),
        dejavu=dejavu,
        options={key: entry[key] for key in _OPTIONS if key in entry},
        vendor=vendor,
        parameters=parameters,
    )


def _read_triton(entry: Any, fail: Callable[[str, str], SpecError]) -> tuple[str | None, tuple[str, ...]]:
    """The vendor and the parameters of a Triton module, as `heurgen emit` takes them; (None, ()) for Python."""
    target = entry.get("target", "python")
    if target not in ("python", "triton"):
        raise fail("target", '"python" or "triton"')
    if target == "python":
        for key in ("vendor", "parameters"):
            if key in entry:
                raise fail(key, 'none without target = "triton"')
        return None, ()
    if not isinstance(entry.get("vendor"), str):
        raise fail("vendor", "the vendor of the Triton functions")
    parameters = entry.get("parameters", [])
    if not isinstance(parameters, list) or not all(isinstance(p, str) for p in parameters):
        raise fail("parameters", "a list of parameters")
    return entry["vendor"], tuple(parameters)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _check_outputs(heuristics: tuple[Heuristic, ...], file: Path) -> None:
    seen: set[Path] = set()
    for path in (p for h in heuristics for p in (h.model, h.module)):
        if path.resolve() in seen:
            raise SpecError(f"two outputs share the path {quoted(path)}", file=file)
        seen.add(path.resolve())


# --- build and check --------------------------------------------------------------------------------------


def make(heuristic: Heuristic) -> Made:
    """Train and render one heuristic; from its shipped model where the logs are external and absent.

    Raises:
        HeurgenError: logs, spec or options are bad; the logs are not those of `log_hash`.
        ModelError: the logs are absent, and the shipped model is not what was trained on them.
    """
    if heuristic.unseen:
        module = _shipped(heuristic)
        hashed = " and log hash" if heuristic.log_hash else ""
        note = (
            f"{heuristic.model}: the training was not repeated, since {heuristic.unseen[0]} is absent; "
            f"checked: the model's checksum{hashed}, and that the module is what it renders to"
        )
        return Made(heuristic, module, schema.to_json(module), _rendered(module, heuristic), None, (note,))
    from heurgen.audit.score import score
    from heurgen.card import read_tools
    from heurgen.costs import cost_tables
    from heurgen.spec import read_spec
    from heurgen.training import from_tables
    from heurgen.trees import FitOptions

    spec = read_spec(heuristic.spec)
    log = _read_log(heuristic, spec)
    tables = cost_tables(log, spec, group_by=heuristic.group_by)
    options = FitOptions(**heuristic.options)
    module = from_tables(tables, log, spec, options=options, tools=read_tools(heuristic.cards))
    if heuristic.note:
        module = replace(module, provenance={**module.provenance, "note": heuristic.note})
    replayed = score(module, [t for t in tables if t.device_name is None])
    text = _rendered(module, heuristic)
    return Made(heuristic, module, schema.to_json(module), text, replayed, log.notes)


def _rendered(module: HeuristicModule, heuristic: Heuristic) -> str:
    if heuristic.vendor is not None:
        from heurgen.render.triton import render_triton

        return render_triton(module, heuristic.vendor, heuristic.parameters)
    from heurgen.render.python import render_python

    return render_python(module)


def _shipped(heuristic: Heuristic) -> HeuristicModule:
    """The model of a heuristic whose logs are absent, as far as it can be trusted without them."""
    module = schema.read_model(heuristic.model)

    def fail(message: str) -> ModelError:
        hint = "restore it, or run heurgen build where its external logs are"
        return ModelError(message, file=heuristic.model, hint=hint)

    if not schema.is_untouched(heuristic.model.read_text(encoding="utf-8")):
        raise fail("its checksum does not fit: edited by hand")
    for key, expected in (("log_hash", heuristic.log_hash), ("note", heuristic.note)):
        found = module.provenance.get(key, "")
        if expected != found and (expected or key == "note"):
            raise fail(f"its {key} is {quoted(found, 80)}, the project file has {quoted(expected, 80)}")
    return module


def _read_log(heuristic: Heuristic, spec: KernelSpec) -> TuningLog:
    from heurgen.logs import parse_log, read_logs

    if heuristic.dejavu is None:
        log = read_logs(heuristic.logs, spec)
    else:
        imported = import_declared(heuristic.logs, heuristic.dejavu)
        log = parse_log(f"{heuristic.logs[0]} as imported", imported.csv_text(), spec)
        log = replace(log, notes=(*imported.notes, *log.notes))
    if heuristic.log_hash not in ("", log.content_hash):
        raise LogError(
            f"the logs have the content hash {log.content_hash}, the project file {heuristic.log_hash}",
            file=heuristic.logs[0],
            hint="other logs, another spec, or other settings of the import; if they are meant, update log_hash",
        )
    return log


def build(
    path: str | Path, progress: Callable[[str], None] = lambda _: None
) -> list[tuple[Made, dict[Path, bool]]]:
    """Make every heuristic, then write what changed. Per heuristic: path -> whether it was written.

    Raises:
        HeurgenError: nothing was written.
    """
    from heurgen.emit import write_atomic

    made = []
    for heuristic in read_project(path):
        progress(f"{heuristic.model}")
        made.append(make(heuristic))
    return [(m, {file: write_atomic(file, text) for file, text in _texts(m)}) for m in made]


def _texts(made: Made) -> list[tuple[Path, str]]:
    return [(made.heuristic.model, made.model_text), (made.heuristic.module, made.module_text)]


@dataclass(frozen=True, slots=True)
class Finding:
    """A shipped file that is not what it should be."""

    path: Path
    problem: str
    diff: str = ""


def check(path: str | Path) -> tuple[list[Finding], list[str]]:
    """Findings and notes over everything that the project file names; writes nothing.

    Raises:
        HeurgenError: logs, specs or the project file are bad.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    for heuristic in read_project(path):
        try:
            made = make(heuristic)
        except ModelError as error:
            if not heuristic.unseen:
                raise
            findings.append(Finding(heuristic.model, error.message))
            continue
        notes += made.notes
        findings += _differences(made)
    return findings, notes


def _differences(made: Made) -> Iterator[Finding]:
    from heurgen.emit import diff

    for file, text in _texts(made):
        if not file.exists():
            yield Finding(file, "is missing; run heurgen build")
        elif changed := diff(file, text):
            yield Finding(file, "differs from what the logs give; run heurgen build", changed)
