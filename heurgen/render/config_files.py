"""What targets share that write folders of config files: which situations, which device, and the manifest.

A launcher's file has no room for where it comes from, so a manifest lies beside the files, with their hashes, what
each is for, the provenance, and a checksum of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from heurgen import ir
from heurgen.base.errors import EmitError, ModelError, UsageError, quoted
from heurgen.ir import expr
from heurgen.render.axis import LAST_TRIED, is_exact_everywhere
from heurgen.render.layout import sorted_data
from heurgen.render.target import Request, one_selector

MANIFEST = "heurgen.manifest.json"
# What the tables of all these launchers run over.
AXIS = "M"
# The most categories that a hint lists.
_LISTED = 8


def situations(
    request: Request, fields: Collection[str], parameters: Collection[str], module: ir.HeuristicModule
) -> Sequence[Mapping[str, str]]:
    """What the files are for, one mapping a file: by name of a launcher's field (but the axis) or of a feature.

    Raises:
        UsageError: a name is neither; or --map names neither a field nor a parameter of the launcher's.
    """
    known = {*fields, *(f.name for f in module.features)} - {AXIS, request.names.get(AXIS, AXIS)}
    for at in request.at or ({},):
        if unknown := sorted(set(at) - known):
            raise UsageError(
                f"--at names {quoted(unknown[0])}", hint=f"known names: {', '.join(sorted(known))}"
            )
    if unknown := sorted(set(request.names) - {*fields, *parameters}):
        names = ", ".join(sorted({*fields, *parameters}))
        raise UsageError(f"--map names {quoted(unknown[0])}", hint=f"known fields: {names}")
    return request.at or ({},)


def fixed_features(
    module: ir.HeuristicModule,
    selector: ir.Selector,
    axis: str,
    names: Mapping[str, str],
    at: Mapping[str, str],
) -> dict[str, Any]:
    """The features but the axis: what `at` says, else the one value that training saw. One that has neither and that
    no answer depends on is left out: the file is for all its values.

    Raises:
        UsageError: the answer depends on a feature that has no value, or a value is not of its type.
    """
    given = {names.get(field, field): text for field, text in at.items()}
    read = _read(module, selector)
    row: dict[str, Any] = {}
    for feature in module.features:
        if feature.name == axis:
            continue
        if feature.name in given:
            row[feature.name] = _value(feature, given[feature.name])
        elif (only := constant(feature)) is not None:
            row[feature.name] = only
        elif feature.name in read:
            raise UsageError(
                f"the model's answer depends on {feature.name}, which a file must fix",
                hint=f"say its value: --at {feature.name}=VALUE{_seen(feature)}",
            )
    return row


def _seen(feature: ir.Feature) -> str:
    """What a hint adds for a category: nobody guesses that weights without a dtype are "none" there."""
    several = ", ..." if len(feature.values) > _LISTED else ""
    return (
        f"; training saw {', '.join(map(quoted, feature.values[:_LISTED]))}{several}"
        if feature.values
        else ""
    )


def _read(module: ir.HeuristicModule, selector: ir.Selector) -> frozenset[str]:
    """Features that an answer depends on, by themselves, through a derived feature, or by refusing a value."""
    tested = ir.tested(selector.tree) | {f.name for f in module.features if f.unknown == "error"}
    through = [expr.names(expr.parse(d.expression)) for d in module.derived if d.name in tested]
    return tested.union(*through)


def unseen(module: ir.HeuristicModule, selector: ir.Selector, row: Mapping[str, Any]) -> list[str]:
    """A note for every category of a file that training never saw and that its answers depend on."""
    read = _read(module, selector)
    return [
        f"{f.name} {quoted(row[f.name])} is none that training saw ({', '.join(map(quoted, f.values))}), and gets what "
        "ships for unknown ones: if it is another spelling of one, add it to aliases in the spec and train again"
        for f in module.features
        if f.type == "category" and f.name in read and row.get(f.name, f.values[0]) not in f.values
    ]


def constant(feature: ir.Feature) -> Any:
    """The one value that training saw, or None."""
    if feature.type == "category":
        return feature.values[0] if len(feature.values) == 1 else None
    return feature.low if feature.low == feature.high else None


def _value(feature: ir.Feature, text: str) -> Any:
    if feature.type == "category":
        try:
            return ir.known(text, feature.name, feature.values, feature.unknown, feature.aliases)
        except ModelError as error:
            raise UsageError(f"--at {feature.name}={text}: {error.message}") from error
    try:
        if feature.type == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return int(text) if feature.type == "int" else float(text)
    except (ValueError, KeyError):
        raise UsageError(f"--at {feature.name}={text}: {quoted(text)} is no {feature.type}") from None


def axis_feature(module: ir.HeuristicModule, field: str, names: Mapping[str, str]) -> str:
    """The feature that a launcher's table runs over.

    Raises:
        UsageError: the model has no such number.
    """
    name = names.get(field, field)
    for feature in module.features:
        if feature.name == name and feature.type in ("int", "float"):
            return name
    numbers = ", ".join(f.name for f in module.features if f.type in ("int", "float")) or "none"
    raise UsageError(
        f"the model has no number {quoted(name)}, over which the file's table runs",
        hint=f"say which of its numbers it is, --map {field}=NAME; it has: {numbers}",
    )


def devices(selector: ir.Selector, request: Request) -> tuple[str, ...]:
    """The devices that files are for: the one asked for, the selector's own, or all that it was trained on.

    Raises:
        UsageError: none is known.
    """
    if request.device is not None:
        return (request.device,)
    found = (selector.device,) if selector.device is not None else selector.devices
    if not found:
        raise UsageError(
            "the model does not say on which device it was trained", hint="say it with --device NAME"
        )
    return found


def answering(
    module: ir.HeuristicModule, request: Request, named: Callable[[str], str]
) -> dict[str, tuple[str, ir.Selector]]:
    """By what a launcher calls it (`named`), a device of that name and the selector that answers there: the device's
    own, as `select` would take it. Where one name is for devices that answer differently it is their vendor's.

    Raises:
        UsageError, ModelError: as `one_selector` and `devices`.
    """
    chosen = one_selector(module, request)
    found: dict[str, tuple[str, ir.Selector]] = {}
    for device in devices(chosen, request):
        own = module.selector(chosen.vendor, device, request.capability)
        first, before = found.get(named(device), (device, own))
        found[named(device)] = first, own if own is before else chosen
    return found


def keep(files: dict[str, str], path: str, text: str) -> None:
    """Add a file.

    Raises:
        UsageError: another situation has one of that name, with other answers.
    """
    if files.setdefault(path, text) != text:
        raise UsageError(
            f"two of --at are for one file, {path}, and the model answers them differently",
            hint="its name says no other feature: choose one, or write them into two folders",
        )


def renamed(
    config: Mapping[str, ir.Value],
    names: Mapping[str, str],
    known: Collection[str],
    required: Collection[str],
    where: str,
) -> dict[str, ir.Value]:
    """A config by the launcher's parameter names, without what is not applicable.

    Raises:
        EmitError: the launcher does not know a parameter, or needs one that the model lacks.
    """
    own = {parameter: field for field, parameter in names.items()}
    found: dict[str, ir.Value] = {
        own.get(name, name): value for name, value in config.items() if value is not None
    }
    hint = f"--map {next(iter(required))}=NAME says what a parameter is called in the model"
    if unknown := sorted(set(found) - set(known)):
        raise EmitError(f"{where} knows no parameter {quoted(unknown[0])}", hint=hint)
    if missing := [name for name in required if name not in found]:
        raise EmitError(f"{where} needs {missing[0]}, which the model does not choose", hint=hint)
    return found


def manifest(
    module: ir.HeuristicModule,
    selectors: Sequence[ir.Selector],
    target: str,
    axis: str,
    files: Mapping[str, str],
    about: Mapping[str, Mapping[str, Any]],
) -> str:
    """The manifest's JSON text. `selectors` of one vendor answer; `about`: path -> what the file is for."""
    exact = all(is_exact_everywhere(module, s, axis) for s in selectors)
    data = {
        "format": "heurgen-manifest",
        "version": 1,
        "regenerate": f"heurgen emit MODEL.json --target {target}",
        "kernel": module.kernel,
        "vendor": selectors[0].vendor,
        "slowdown_known": all(s.costs_known for s in selectors),
        "exact_up_to": None if exact else LAST_TRIED,
        "files": {
            path: {"sha256": hashlib.sha256(text.encode()).hexdigest(), **about[path]}
            for path, text in files.items()
        },
        "provenance": sorted_data(module.provenance),
    }
    return dumps({"checksum": hashlib.sha256(dumps(data).encode()).hexdigest(), **data})


def left_behind(folder: Path, files: Collection[str]) -> list[str]:
    """Files that a folder's manifest lists and that stay, but not in the manifest that takes its place."""
    try:
        listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        names = sorted(listed) if isinstance(listed, dict) else []
        return [n for n in names if n not in files and _is_inside(n) and (folder / n).is_file()]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # none, or no manifest
        return []


def _is_inside(name: str) -> bool:
    path = PurePath(name)
    return not path.is_absolute() and ".." not in path.parts


def dumps(data: Mapping[str, Any]) -> str:
    """JSON text in ASCII, read again to be what it was.

    Raises:
        EmitError: the data has no JSON.
    """
    try:
        text = json.dumps(data, indent=4, ensure_ascii=True, allow_nan=False) + "\n"
    except (ValueError, TypeError) as error:
        raise EmitError(f"a value has no JSON: {error}") from error
    if json.loads(text) != data:
        raise EmitError("the data does not read back from JSON as it was written")
    return text
