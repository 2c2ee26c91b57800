"""What an importer collects (scenarios, configs, measurements) -> a tuning log with a spec draft."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.common import (
    Imported,
    described,
    feature_entries,
    only,
    parted,
    safe_name,
    sorted_rows,
    usable_name,
)
from heurgen.logs.importers.devices import check_one_place, device_and_vendor
from heurgen.spec.draft_toml import Draft, Entry
from heurgen.spec.kernel_spec import LogColumns
from heurgen.spec.log_columns import MAX_NOISE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Texts = Mapping[str, str]
Cells = tuple[str, ...]
_PLACE = ("vendor", "device")
WINNERS_ONLY = "winners only: no other config was timed, so slowdown cannot be computed from this log"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beside the files; an importer takes those that its registry entry names."""

    device: str | None = None
    vendor: str | None = None
    rename: Texts = field(default_factory=dict)
    const: Texts = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    key_from: str | None = None
    features: tuple[str, ...] = ()
    kernel: str | None = None


def one_kernel(kernels: Iterable[str], wanted: str | None) -> str:
    """The kernel that files of several are imported for.

    Raises:
        UsageError: there is none of that name, or none is named.
    """
    known = sorted(set(kernels))
    if wanted is not None and wanted not in known:
        found = ", ".join(map(printable, known))
        raise UsageError(f"no file is of the kernel {quoted(wanted)}", hint=f"found: {found}")
    if wanted is None and len(known) > 1:
        which = " or ".join(map(printable, known))
        raise UsageError(f"the files are of {len(known)} kernels", hint=f"say which: --kernel {which}")
    return wanted or known[0]


class _Kept:
    """Named texts, each combination once and numbered; names are kept once too."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, ...], int] = {}
        self._places: dict[tuple[int | str, ...], int] = {}

    def number(self, texts: Texts) -> int:
        names = self._names.setdefault(tuple(texts), len(self._names))
        return self._places.setdefault((names, *texts.values()), len(self._places))

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for names in self._names for name in names))

    def rows(self, wanted: Sequence[str], absent: str = "") -> list[Cells]:
        """The texts of the `wanted` names of each, by number; `absent` where one has none, or a blank."""
        places = [{n: i + 1 for i, n in enumerate(names)} for names in self._names]
        takers = [[place.get(n, 0) for n in wanted] for place in places]
        return [tuple(str(key[i] if i else "") or absent for i in takers[key[0]]) for key in self._places]  # type: ignore[index]


class Collected:
    """Measurements as they are found. Scenarios and configs are kept once, however often they occur.

    `absent` is what a scenario has for a feature that only others have; without it that is an error.
    """

    def __init__(self, tool: str, *, winners_only: bool = False, absent: str | None = None) -> None:
        self.tool, self.winners_only, self.absent = tool, winners_only, absent
        self.command = tool if tool == "record" else f"import {tool}"
        self.kernel = "kernel"
        self.notes: list[str] = []
        self.noises: list[float] = []
        self.scenarios, self.configs = _Kept(), _Kept()
        self._told: set[str] = set()
        self._statuses: dict[str, int] = {}
        self._scenario, self._config, self._status = array("q"), array("q"), array("q")
        self._time = array("d")

    def __len__(self) -> int:
        return len(self._time)

    def place(self, file: str, told: str | None, options: Options) -> tuple[str, str]:
        """Device and vendor of what a file holds: as the options say, else as it tells (`told`).

        Raises:
            UsageError: either is unknown, or no device or vendor name.
        """
        if told:
            self._told.add(told)
        return device_and_vendor(file, told, options.device, options.vendor)

    def scenario(self, vendor: str, device: str, features: Texts) -> int:
        """The number of a scenario, for `add`."""
        if not features.keys().isdisjoint(_PLACE):
            features = {f"{n}_" if n in _PLACE else n: v for n, v in features.items()}
        return self.scenarios.number({"vendor": vendor, "device": device, **features})

    def add(self, scenario: int, config: Texts, time: float | None, status: str = "ok") -> None:
        """One measurement: a time in ms; None for a failure (`status` says why) or an unknown time of a winner."""
        self._scenario.append(scenario)
        self._config.append(self.configs.number(config))
        self._status.append(self._statuses.setdefault(status, len(self._statuses)))
        self._time.append(-1.0 if time is None else time)

    def imported(self, options: Options) -> Imported:
        """The tuning log, rows in canonical order.

        Raises:
            LogError: nothing was collected, or a scenario lacks a feature that others have.
            UsageError: --rename or --const does not fit, or --device or --vendor would make several one.
        """
        check_one_place(self._told, options.device, options.vendor)
        if not len(self):
            raise LogError(f"the files hold no measurement that {self.tool} wrote")
        return _assembled(self, options)

    def statuses(self) -> list[str]:
        """Statuses by number."""
        return list(self._statuses)

    def rows(self) -> Iterable[tuple[int, int, int, float]]:
        return zip(self._scenario, self._config, self._status, self._time, strict=True)

    def in_order(
        self, scenarios: Sequence[Cells], configs: Sequence[Cells], statuses: Sequence[str]
    ) -> Iterable[tuple[int, int, int, float]]:
        """`rows` in the order that `sorted_rows` gives what the cells say: the same rows give the same bytes."""
        import numpy as np

        said = (scenarios, configs, [(s,) for s in statuses])
        codes = [np.frombuffer(c, dtype=np.int64) for c in (self._scenario, self._config, self._status)]
        ranks = [_ranks(cells)[code] for cells, code in zip(said, codes, strict=True)]
        time = np.frombuffer(self._time, dtype=np.float64)
        order = np.lexsort((time, *ranks[::-1]))
        return zip(*(c[order].tolist() for c in (*codes, time)), strict=True)


def _assembled(collected: Collected, options: Options) -> Imported:
    statuses = collected.statuses()
    _check_failures(collected, statuses)
    features = [n for n in collected.scenarios.names() if n not in _PLACE]
    scenarios = collected.scenarios.rows((*_PLACE, *features), collected.absent or "")
    parameters = collected.configs.names()
    said = [any(column) for column in zip(*collected.configs.rows(parameters), strict=True)]
    parameters = [
        n for n, any_ in zip(parameters, said, strict=True) if any_
    ]  # one that is always null says nothing
    if not parameters:
        raise LogError(f"no config that {collected.tool} wrote has a value")
    configs = collected.configs.rows(parameters)
    _check_complete(scenarios, features)
    named, notes = _renamed(features, parameters, options)
    feature_names, parameter_names = [named["f", f] for f in features], [named["p", p] for p in parameters]
    constants = tuple(options.const.values())
    heads = [(*s, *constants) for s in scenarios] if constants else scenarios
    status_of = [s if s == "ok" else printable(s) for s in statuses]
    table = [
        (*heads[s], *configs[c], status_of[k], "" if t < 0 else repr(t))
        for s, c, k, t in collected.in_order(scenarios, configs, status_of)
    ]
    columns = ["vendor", "device", *feature_names, *options.const, *parameter_names, "status", "time_ms"]
    n_head = 2 + len(features) + len(options.const)
    if collected.winners_only:
        columns, table, extra = parted(columns, list(dict.fromkeys(table)), n_head)
        notes += [WINNERS_ONLY, *extra]
    draft = _draft(collected, options, scenarios, configs, named, (features, parameters), len(table))
    failed = sum(statuses[k] != "ok" for _, _, k, _ in collected.rows())
    notes.append(f"{counted(len(table), 'row')}, {failed} of them failed")
    return Imported(tuple(columns), table, draft, (*collected.notes, *notes))


def _ranks(cells: Sequence[Cells]) -> NDArray[np.int64]:
    """The place of each in order; equal ones share it."""
    import numpy as np

    place = {row: i for i, row in enumerate(sorted_rows(list(dict.fromkeys(cells))))}
    return np.array([place[row] for row in cells], dtype=np.int64)


def _check_failures(collected: Collected, statuses: list[str]) -> None:
    if "ok" not in statuses:
        raise LogError(f"every measurement of {collected.tool} failed: {', '.join(map(quoted, statuses))}")


def _check_complete(scenarios: Sequence[Cells], features: list[str]) -> None:
    for i, name in enumerate(features, start=len(_PLACE)):
        lacking = [s for s in scenarios if not s[i]]
        if lacking:
            pairs = [(k, v) for k, v in zip(("device", *features), lacking[0][1:], strict=True) if v]
            others = ", ".join(f"{k}={v}" for k, v in pairs[:5])
            raise LogError(
                f"{len(lacking)} of {counted(len(scenarios), 'scenario')} lack the feature {quoted(name)}, "
                f"the first: {others}",
                hint="import files of one kind of problem at a time",
            )


def _renamed(
    features: list[str], parameters: list[str], options: Options
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """("f", feature) and ("p", parameter) -> names in the log: renamed as asked, made safe, apart."""
    for old, new in sorted(options.rename.items()):
        if old not in features and old not in parameters:
            known = ", ".join(map(printable, [*features, *parameters]))
            raise UsageError(f"cannot rename {quoted(old)}: no file has it", hint=f"names: {known}")
        if not usable_name(new):
            raise UsageError(
                f"cannot rename {quoted(old)} to {quoted(new)}",
                hint="a name is an ASCII identifier, no keyword",
            )
    _check_constants(options.const)
    taken = set(options.const)
    named: dict[tuple[str, str], str] = {}
    changed = []
    for role, names in (("p", parameters), ("f", features)):
        for name in names:
            wanted = options.rename.get(name, name)
            if wanted in taken and (name in options.rename or wanted in options.const):
                hint = "map one of them to a free name with --rename"
                raise UsageError(f"two columns would be named {quoted(wanted)}", hint=hint)
            safe = safe_name(wanted.lstrip("_") or "p" if role == "p" else wanted, taken)
            taken.add(safe)
            named[role, name] = safe
            if safe != wanted:
                changed.append(f"{quoted(name)} is {safe}")
    return named, [f"renamed: {', '.join(changed)}"] if changed else []


def _check_constants(constants: Texts) -> None:
    for name, value in constants.items():
        if not usable_name(name) or not value or value != value.strip() or printable(value) != value:
            hint = "a name is an ASCII identifier, a value is printable text without spaces around it"
            raise UsageError(f"found --const {quoted(f'{name}={value}')}, expected NAME=VALUE", hint=hint)


def with_constants(imported: Imported, constants: Texts) -> Imported:
    """A log with columns that hold one value each, as active features of its spec.

    Raises:
        UsageError: a name is none, is taken, or a value cannot be a cell.
    """
    _check_constants(constants)
    if taken := [n for n in constants if n in imported.columns]:
        raise UsageError(f"the files have a column {quoted(taken[0])}: it is no constant to add")
    if not constants:
        return imported
    n = len(imported.columns) - 2  # status and time_ms stay the last
    columns = (*imported.columns[:n], *constants, *imported.columns[n:])
    rows = [(*row[:n], *constants.values(), *row[n:]) for row in imported.rows]
    draft = replace(imported.draft, features=(*imported.draft.features, *_constant_entries(constants)))
    return replace(imported, columns=columns, rows=rows, draft=draft)


def _constant_entries(constants: Texts) -> tuple[Entry, ...]:
    return tuple(
        Entry(described(name, {value}), f"constant here: {only({value})}")
        for name, value in constants.items()
    )


def _draft(
    collected: Collected,
    options: Options,
    scenarios: Sequence[Cells],
    configs: Sequence[Cells],
    named: Mapping[tuple[str, str], str],
    names: tuple[list[str], list[str]],
    n_rows: int,
) -> Draft:
    features, parameters = names
    values = [(named["f", f], {s[i] for s in scenarios}) for i, f in enumerate(features, start=len(_PLACE))]
    constants = _constant_entries(options.const)
    entries = feature_entries(values)
    if not entries and not constants:
        raise LogError("the files name no feature", hint="add one: --const NAME=VALUE")
    devices = ", ".join(sorted({s[1] for s in scenarios}))
    noise = sorted(collected.noises)[len(collected.noises) // 2] if collected.noises else None
    log = LogColumns() if noise is None else replace(LogColumns(), noise=round(min(noise, MAX_NOISE), 6))
    return Draft(
        name=safe_name(options.kernel or collected.kernel),
        features=(*entries, *constants),
        parameters=_parameters(collected, scenarios, configs, parameters, named),
        log=replace(log, winners_only=collected.winners_only),
        log_remarks=() if noise is None else (("noise", "median over the measurements"),),
        header=(
            f"Drafted by heurgen {collected.command} from {counted(n_rows, 'row')} on {devices}",
            *((WINNERS_ONLY,) if collected.winners_only else ()),
        ),
    )


def _parameters(
    collected: Collected,
    scenarios: Sequence[Cells],
    configs: Sequence[Cells],
    parameters: list[str],
    named: Mapping[tuple[str, str], str],
) -> tuple[Entry, ...]:
    """A parameter that a vendor's configs never name does not exist there; other blanks: optional."""
    pairs = {(scenarios[s][0], c) for s, c, _, _ in collected.rows()}
    vendors = sorted({v for v, _ in pairs})
    entries = []
    for i, name in enumerate(parameters):
        having = [v for v in vendors if any(configs[c][i] for w, c in pairs if w == v)]
        values = {configs[c][i] for v, c in pairs if v in having}
        column = described(named["p", name], values, optional="" in values)
        entries.append(Entry(replace(column, vendors=tuple(having) if len(having) < len(vendors) else ())))
    return tuple(entries)
