"""What every target of `heurgen emit` takes and gives."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heurgen import ir
from heurgen.base.errors import EmitError, UsageError, quoted
from heurgen.logs.vendors import TOLD, vendor_of


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks of a target; a target takes some of it (`heurgen.render.registry`).

    `command` is the text after "Regenerate:", fixed text of ours. `vendor`, `device` and `capability` choose a
    selector, `parameters` some of its parameters. `at` has, per file of a folder, the values of features and of the
    launcher's own fields that the file is for. `names` says what the launcher's fields are called in the model.
    `approximate` allows answers other than the model's where the launcher's format cannot say them.
    """

    command: str = "heurgen emit MODEL.json"
    vendor: str | None = None
    device: str | None = None
    capability: str | None = None
    parameters: tuple[str, ...] = ()
    at: tuple[Mapping[str, str], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    approximate: bool = False


@dataclass(frozen=True, slots=True)
class Rendered:
    """`files`: path inside the output folder -> text; the one key "" where the target is a single file."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


def check_module_name(path: str | Path) -> None:
    """Raise EmitError where no program could import what is written there: `class.py`."""
    name = Path(path)
    if name.suffix == ".py" and keyword.iskeyword(name.stem):
        raise EmitError(
            f"no program can import a module of this name: {quoted(name.stem)} is a Python keyword",
            file=path,
            hint=f"name another file, such as {name.stem}_heuristics.py",
        )


def one_file(text: str) -> Rendered:
    return Rendered({"": text})


def one_selector(module: ir.HeuristicModule, request: Request) -> ir.Selector:
    """The selector that a target for one vendor answers with.

    Raises:
        UsageError, ModelError: as `one_vendor`, or the vendor is unknown.
    """
    vendor = one_vendor(module, request.vendor, request.device)
    return module.selector(vendor, request.device, request.capability)


def one_vendor(module: ir.HeuristicModule, vendor: str | None, device: str | None) -> str:
    """The vendor that is named, else the only one, else the one whose selectors were trained on the device.

    Raises:
        UsageError: the model has several vendors and none is told, or the device is another vendor's.
    """
    trained = {s.vendor for s in module.selectors if device is not None and device in (s.device, *s.devices)}
    if vendor is None:
        known = sorted(trained) if len(trained) == 1 else module.vendors
        if len(known) > 1:
            raise UsageError(
                f"the model has selectors for {', '.join(known)}", hint="choose one with --vendor"
            )
        vendor = known[0]
    owners = trained or _named(module, device)
    if owners and vendor in module.vendors and vendor not in owners:
        raise UsageError(
            f"the device {quoted(device)} is of {', '.join(sorted(owners))}, not of {vendor}",
            hint=f"name a device of {vendor}, or the vendor of this one",
        )
    return vendor


def _named(module: ir.HeuristicModule, device: str | None) -> set[str]:
    """The vendor that a device's name tells, where the model calls vendors as names tell them."""
    named = vendor_of(device or "")
    return {named} if named is not None and TOLD.issuperset(module.vendors) else set()
