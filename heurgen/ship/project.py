"""`heurgen build` and `heurgen check`: the models and modules that a project file names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from heurgen.base.errors import HeurgenError, LogError, ModelError, SpecError, quoted
from heurgen.base.reading import read_text
from heurgen.base.writing import check_parents, write_all
from heurgen.ir import HeuristicModule, schema
from heurgen.logs.importers.declared import import_declared
from heurgen.ship.project_file import PROJECT_FILE, Heuristic, read_project
from heurgen.ship.proofs import (
    Proof,
    inputs_hash,
    left_behind,
    lock_path,
    lock_text,
    model_key,
    read_proofs,
    text_hash,
)

if TYPE_CHECKING:
    from heurgen.audit.score import Score
    from heurgen.logs.tuning_log import TuningLog
    from heurgen.ship.training import Progress
    from heurgen.spec.kernel_spec import KernelSpec

    # What is trained, to a context whose value is told the steps: (done, total).
    Watch = Callable[[str], AbstractContextManager[Progress]]

COMMAND = f"heurgen build {PROJECT_FILE}"
_LINE_ENDS = (
    "git turned them into those of Windows? Say `* text=auto eol=lf` in .gitattributes, and run heurgen build"
)
_UNMADE = (
    "is in the lock, but no heuristic makes it: put its [[heuristic]] back, or delete it and its module, "
    "and run heurgen build"
)


def unwatched(_what: str) -> AbstractContextManager[Progress]:
    return nullcontext(lambda done, total: None)


@dataclass(frozen=True, slots=True)
class Made:
    """A heuristic's texts, as its logs give them. `score` is on those logs; None where they are absent.

    `inputs` is the hash of what the model was made of, "" where that is absent; `proved`: it was not trained
    again, since the lock has these inputs and this model.
    """

    heuristic: Heuristic
    module: HeuristicModule
    model_text: str
    module_text: str
    score: Score | None
    notes: tuple[str, ...]
    inputs: str = ""
    proved: bool = False


def make(heuristic: Heuristic, proof: Proof | None = None, watch: Watch = unwatched) -> Made:
    """Train and render one heuristic; from its shipped model where the logs are external and absent.

    It is not trained where `proof` has its inputs and the shipped model's text. `watch` is asked where it is.

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
    from heurgen.logs.card import read_devices, read_tools, strangers
    from heurgen.logs.costs import cost_tables
    from heurgen.ship.training import from_tables
    from heurgen.spec.kernel_spec import read_spec
    from heurgen.trees import FitOptions

    spec = read_spec(heuristic.spec)
    log = _read_log(heuristic, spec)
    tables = cost_tables(log, spec, group_by=heuristic.group_by)
    options, tools = FitOptions(**heuristic.options), read_tools(heuristic.cards)
    devices = read_devices(heuristic.cards)
    facts = {name: asdict(found) for name, found in devices.items()}
    also = {"group_by": heuristic.group_by, "note": heuristic.note, "tools": tools, "devices": facts}
    inputs = inputs_hash(log.content_hash, spec, {**asdict(options), **also})
    shipped = _proved(heuristic, proof) if proof and proof.inputs == inputs else None
    if shipped is not None:
        module = shipped
    else:
        with watch(f"training {heuristic.model.name}") as tell:
            module = from_tables(
                *(tables, log, spec),
                options=options,
                group_by=heuristic.group_by,
                tools=tools,
                devices=devices,
                progress=tell,
            )
    if heuristic.note:
        module = replace(module, provenance={**module.provenance, "note": heuristic.note})
    replayed = score(module, [t for t in tables if t.device_name is None])
    texts = schema.to_json(module), _rendered(module, heuristic)
    notes = (*log.notes, *strangers(devices, log.devices))
    return Made(heuristic, module, *texts, replayed, notes, inputs, shipped is not None)


def _proved(heuristic: Heuristic, proof: Proof) -> HeuristicModule | None:
    """The shipped model, if it is the proof's, line ends apart."""
    try:
        text = _model_text(heuristic)
        return schema.from_json(text) if text_hash(text) == proof.model else None
    except ModelError:
        return None


def _model_text(heuristic: Heuristic) -> str:
    """The shipped model, with the line ends that heurgen wrote: git may have given it Windows' own."""
    return _unix(read_text(heuristic.model, ModelError, schema.MAX_BYTES))


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _rendered(module: HeuristicModule, heuristic: Heuristic) -> str:
    if heuristic.vendor is not None:
        from heurgen.render.triton import render_triton

        return render_triton(module, heuristic.vendor, heuristic.parameters)
    from heurgen.render.python import render_python

    return render_python(module, COMMAND)


def _shipped(heuristic: Heuristic) -> HeuristicModule:
    """The model of a heuristic whose logs are absent, as far as it can be trusted without them."""

    def fail(message: str) -> ModelError:
        hint = "restore it, or run heurgen build where its external logs are"
        return ModelError(message, file=heuristic.model, hint=hint)

    if not schema.is_untouched(_model_text(heuristic)):
        raise fail("its checksum does not fit: edited by hand")
    module = schema.read_model(heuristic.model)
    for key, expected in (("log_hash", heuristic.log_hash), ("note", heuristic.note)):
        found = module.provenance.get(key, "")
        if expected != found and (expected or key == "note"):
            raise fail(f"its {key} is {quoted(found, 80)}, the project file has {quoted(expected, 80)}")
    return module


def _read_log(heuristic: Heuristic, spec: KernelSpec) -> TuningLog:
    from heurgen.logs.tuning_log import parse_log, read_logs

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


def build(path: str | Path, watch: Watch = unwatched) -> list[tuple[Made, dict[Path, bool]]]:
    """Make every heuristic, then write what changed. Per heuristic: path -> whether it was written.

    Raises:
        HeurgenError: nothing was written.
        KeyboardInterrupt: Ctrl-C; what was made until then is written, and proved to the next build.
    """
    path = Path(path)
    heuristics, proofs = read_project(path), read_proofs(path)
    check_parents(file for h in heuristics for file in (h.model, h.module))
    made: list[Made] = []
    try:
        for heuristic in heuristics:
            with _named(heuristic):
                made.append(make(heuristic, proofs.get(model_key(heuristic.model, path)), watch))
    except KeyboardInterrupt:
        _write(path, heuristics, proofs, made)
        raise
    written = _write(path, heuristics, proofs, made)
    return [(m, {file: written[file] for file, _ in _texts(m)}) for m in made]


def _write(
    path: Path, heuristics: Iterable[Heuristic], proofs: dict[str, Proof], made: Iterable[Made]
) -> dict[Path, bool]:
    """Models, modules and the lock, which keeps `proofs` of these heuristics: path -> whether it was written."""
    names = {model_key(h.model, path) for h in heuristics}
    kept = {name: proof for name, proof in proofs.items() if name in names}
    kept |= {
        model_key(m.heuristic.model, path): Proof(m.inputs, text_hash(m.model_text)) for m in made if m.inputs
    }
    texts = {file: text for m in made for file, text in _texts(m)}
    return write_all({**texts, lock_path(path): lock_text(kept)})


@contextmanager
def _named(heuristic: Heuristic) -> Iterator[None]:
    """An error that names no file names the module that it keeps from being made, one of many."""
    try:
        yield
    except HeurgenError as error:
        error.file = error.file or str(heuristic.module)
        raise


def _texts(made: Made) -> list[tuple[Path, str]]:
    return [(made.heuristic.model, made.model_text), (made.heuristic.module, made.module_text)]


@dataclass(frozen=True, slots=True)
class Drift:
    """A shipped file that is not what it should be."""

    path: Path
    problem: str
    diff: str = ""


def check(path: str | Path, retrain: bool = False, watch: Watch = unwatched) -> tuple[list[Drift], list[str]]:
    """Findings and notes over everything that the project file names; writes nothing.

    With `retrain`, what the lock proves current is trained too. `watch` is asked for what is trained.

    Raises:
        HeurgenError: logs, specs or the project file are bad.
    """
    findings: list[Drift] = []
    notes: list[str] = []
    proofs = {} if retrain else read_proofs(Path(path))
    heuristics = read_project(path)
    for heuristic in heuristics:
        try:
            with _named(heuristic):
                made = make(heuristic, proofs.get(model_key(heuristic.model, Path(path))), watch)
        except ModelError as error:
            if not heuristic.unseen:
                raise
            findings.append(Drift(heuristic.model, error.message))
            continue
        notes += made.notes
        found = list(_differences(made))
        findings += found
        if proofs and made.inputs and not (made.proved or found):
            lock = lock_path(Path(path)).name
            notes.append(
                f"{heuristic.model}: trained again, since {lock} does not prove it; heurgen build does"
            )
    unmade = left_behind(Path(path), (h.model for h in heuristics))
    return [*findings, *(Drift(file, _UNMADE) for file in unmade)], notes


def _differences(made: Made) -> Iterator[Drift]:
    from heurgen.base.writing import diff

    for file, text in _texts(made):
        if not file.exists():
            yield Drift(file, "is missing; run heurgen build")
        elif (changed := diff(file, text)) and _unix(file.read_bytes().decode("utf-8", "replace")) == text:
            yield Drift(file, f"differs in its line ends alone: {_LINE_ENDS}")
        elif changed:
            yield Drift(file, "differs from what the logs give; run heurgen build", changed)


def is_built(path: str | Path) -> bool:
    """Whether a project file, in the file's folder or above it, makes this module: then `build` makes it again."""
    module = _placed(Path(path))
    for folder in module.parents:
        if (folder / PROJECT_FILE).is_file():
            try:
                return any(_placed(h.module) == module for h in read_project(folder / PROJECT_FILE))
            except SpecError:
                return False
    return False


def _placed(file: Path) -> Path:
    """The name in the folder that it is really in, whatever `..` and links lead there; itself it may be a link."""
    return Path(os.path.realpath(file.parent)) / file.name
