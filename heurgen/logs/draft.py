"""`heurgen init`: a first spec for a tuning log, every guess marked for a person to confirm.

Here: the columns of the bookkeeping. `roles` guesses what the others are, `draft_entries` has their lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted, did_you_mean
from heurgen.logs import column_names
from heurgen.logs.card import Swept, read_swept
from heurgen.logs.cells import Cells
from heurgen.logs.draft_entries import CARD, SAID, SIZES, feature_entry, parameter_entry
from heurgen.logs.importers.common import column_type, safe_name
from heurgen.logs.naming import names_for, parents, plain, spellings
from heurgen.logs.numbers import ms_in
from heurgen.logs.objective import is_unsaid, throughput_beside, unsaid
from heurgen.logs.outcomes import rows_with
from heurgen.logs.roles import Guess, guesses_of, whole_config
from heurgen.logs.times import (
    check_aggregates,
    check_unit_row,
    holds_times,
    is_of_run,
    is_repeat,
    thousands_in,
    time_column,
    unit_beside,
)
from heurgen.logs.vendors import guessed_vendor
from heurgen.logs.wide import wide_draft
from heurgen.spec.draft_toml import Draft, to_toml
from heurgen.spec.kernel_spec import KernelSpec, number, parse_spec, vendor_problem
from heurgen.spec.log_columns import LogColumns, is_throughput, unit_of

# "gemm/M:16/N:4096", "M=16,N=4096": Google Benchmark's and torch.utils.benchmark's, with names.
_NAMED_SIZES = re.compile(r"(.*[^\w])?[A-Za-z_]\w*[:=][0-9]+([^\w].*)?")
# A device as torch calls it.
_DEVICE_NUMBER = re.compile(r"(cuda|hip|xpu|gpu)(:[0-9]+)?")
# Vendors as torch and Triton call them; a launcher that is bound to the GPU found asks a module for `amd`.
_PLATFORMS = frozenset(("cuda", "hip", "rocm"))
_NO_PLATFORM = "a vendor as a launcher finds it: nvidia, amd"
# A time column with more texts than these holds something else.
_MOST_WORDS = 32
_NO_TIMES = "guess: no column is a time, and no scenario has two rows; confirm"


@dataclass(frozen=True, slots=True)
class Said:
    """What the user says instead of guesses: column names; `vendor` is a column, or the vendor of every row.

    `wide` says that the table has a column a config.
    """

    time: str | None = None
    vendor: str | None = None
    features: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    wide: bool = False


def drafted_spec(table: Cells) -> tuple[KernelSpec, tuple[str, ...]]:
    """The guesses themselves, for a log without a spec, and notes on them. Raises as `draft`."""
    found = draft(table, table.files[0].path, Said())
    return parse_spec(to_toml(found), "the guessed spec"), found.notes


def draft(table: Cells, path: str, said: Said) -> Draft:
    """The guesses; `path` names the file in errors, and the kernel where nothing else does.

    Raises:
        LogError: no column can be the time, a parameter or a feature.
        UsageError: a column that was named is not there.
    """
    for name in (said.time, *said.features, *said.parameters):
        if name is not None and name not in table.texts:
            raise UsageError(f"no column is named {quoted(name)}", hint=did_you_mean(name, table.texts))
    table, said, unread = _without_unread_vendors(table, said)
    found = wide_draft(table, path, said.features, said.vendor) if said.wide else _long(table, path, said)
    return replace(found, left_out=(*unread, *found.left_out))


def _long(table: Cells, path: str, said: Said) -> Draft:
    check_aggregates(table)
    log, log_remarks = _bookkeeping(table, path, said)
    guesses = guesses_of(table, log)
    repeats = (c for c, g in guesses.items() if g.role == "none" and is_repeat(c, log.time))
    guesses |= dict.fromkeys(
        repeats, Guess("none", f"guess: a repeat of {log.time}; only a row of its own is read")
    )
    swept = read_swept(table.files[0].path, table.files[0].header)
    guesses |= {c: g for c, g in _by_card(swept).items() if c in guesses and any(table.texts[c])}
    for role, names in (("feature", said.features), ("parameter", said.parameters)):
        if names:
            left = (c for c, g in guesses.items() if g.role == role)
            others = dict.fromkeys(left, Guess("none", "not among those that were named"))
            guesses |= others | {n: Guess(role, SAID) for n in names}  # type: ignore[arg-type]
    features = list(said.features) or [c for c, g in guesses.items() if g.role == "feature"]
    parameters = list(said.parameters) or [c for c, g in guesses.items() if g.role == "parameter"]
    if not parameters and (whole := whole_config(table, guesses, log)):
        parameters = [whole]
        guesses[whole] = Guess("parameter", "guess: the text of a whole config; confirm")
    if both := sorted(set(features) & {*parameters, *log.names}):
        raise UsageError(
            f"the column {quoted(both[0])} has two roles", hint="say which: --features, --parameters"
        )
    for what, found in (("launch parameter", parameters), ("feature", features)):
        if not found:
            hint = _in_objects(what, parameters) or _hint(table, what)
            raise LogError(f"no column looks like a {what}", file=path, hint=hint)
    called = names_for([*features, *parameters], table.texts)
    keep_all = bool(said.features) or not any(len(table.texts[f]) > 1 for f in features)
    kernel, kernel_remark = _kernel(table, path) if swept is None else (safe_name(swept.kernel), CARD)
    return Draft(
        name=kernel,
        name_remark=kernel_remark,
        features=tuple(feature_entry(table, (f, called[f]), guesses[f].why, keep=keep_all) for f in features),
        parameters=tuple(parameter_entry(table, (p, called[p]), guesses[p].why, log) for p in parameters),
        log=log,
        log_remarks=log_remarks,
        header=(
            f"Drafted by heurgen init from {counted(table.n, 'row')}.",
            "Every guess is marked: confirm it, then delete the remark.",
        ),
        left_out=tuple((c, g.why) for c, g in guesses.items() if g.role == "none"),
        notes=_unsaid(table, log),
    )


def _by_card(swept: Swept | None) -> dict[str, Guess]:
    """What the card of a sweep knows, and names only suggest."""
    if swept is None:
        return {}
    features = dict.fromkeys(swept.features, Guess("feature", CARD))
    return features | dict.fromkeys(swept.parameters, Guess("parameter", CARD))


def _unsaid(table: Cells, log: LogColumns) -> tuple[str, ...]:
    if log.winners_only or log.objective == "max" or log.unit is not None or not is_unsaid(table, log.time):
        return ()
    return (unsaid(f"{quoted(log.time)} holds", 'objective = "max"'),)


def _in_objects(what: str, parameters: Sequence[str]) -> str | None:
    """What to do where all parameters stand in an object of them, as trackers write sizes and knobs alike."""
    if what != "feature" or not parameters or not all(map(parents, parameters)):
        return None
    return (
        f"say which of {', '.join(map(quoted, parameters[:8]))} are sizes of the problem: --features NAME,..."
    )


def _hint(table: Cells, what: str) -> str:
    """What to do where no column looks like `what`."""
    sizes = [
        c for p in (SIZES, _NAMED_SIZES) for c, texts in table.texts.items() if all(map(p.fullmatch, texts))
    ]
    if len(table.texts) == 1:
        return "columns are separated by , ; or tab"
    if any(text != text.strip() for texts in table.texts.values() for text in texts):
        return "remove the spaces around the values"
    odd = [c for c, texts in table.texts.items() if any(printable(text) != text for text in texts)]
    if what == "launch parameter" and odd:
        return f"{quoted(odd[0])} holds control characters: if it is one, --parameters {printable(odd[0])}"
    if what == "time" and (column := thousands_in(table)) is not None:
        return f"{quoted(column)} holds commas between thousands: write 1234.5, not 1,234.5"
    if what != "feature":
        winners = "--time NAME; of a table of winners --parameters NAME,..."
        option = winners if what == "time" else "--parameters NAME,..."
        return f"say which: {option}; or --wide, where every config has a column of its own"
    if sizes:
        return f"{quoted(sizes[0])} holds sizes in a text: write each into a column of its own"
    kernels = [c for c, t in table.texts.items() if column_names.names_kernel(plain(c)) and len(t) > 1]
    if kernels:
        return (
            f"{quoted(kernels[0])} holds {len(table.texts[kernels[0]])} kernels: give each a log of its own"
        )
    several = len(table.files) > 1
    missing = (
        "what a file's name says must be a column" if several else "of one problem add a column of its size"
    )
    return f"say which: --features NAME,...; {missing}"


# --- columns that are neither feature nor parameter -------------------------------------------------------


def _bookkeeping(table: Cells, path: str, said: Said) -> tuple[LogColumns, tuple[tuple[str, str], ...]]:
    found: dict[str, str] = {}
    if said.time is not None:
        found["time"] = said.time
    if said.vendor in table.texts:
        found["vendor"] = str(said.vendor)
    for key in column_names.BOOKKEEPING:
        if key not in found and (column := _by_name(table, key, found.values())) is not None:
            found[key] = column
    if "time" not in found and (time := time_column(table)) is not None:
        found["time"] = time
    if "time" in found:
        check_unit_row(table, found["time"])
    others = [c for c in table.texts if c not in found.values()]
    fits = [c for c in others if column_names.is_status(plain(c), table.texts[c])]
    if status := _strictest(table, found.get("status"), fits):
        found["status"] = status
    log, remarks = replace(LogColumns(), **found), {}  # type: ignore[arg-type]
    if "vendor" not in found:
        guess = guessed_vendor(table.texts.get(found.get("device", ""), []), said.vendor)
        log = replace(log, constants=guess.constants, vendor_by_name=guess.by_name)
        remarks["vendor"] = guess.remark
    if is_throughput(log.time):
        log = replace(log, objective="max")
    elif "time" in found and is_unsaid(table, log.time) and (who := throughput_beside(table, path)):
        log = replace(log, objective="max")
        remarks["objective"] = (
            f"guess: {quoted(who)} says that {printable(log.time)} is a throughput; confirm"
        )
    elif "time" in found and (beside := unit_beside(table, log.time)) is not None:
        log = replace(log, unit=beside[1])
        remarks["unit"] = f"guess: the column {printable(beside[0])} tells it; confirm"
    success = column_names.success_words(plain(log.status), table.texts.get(log.status, ()))
    if {word.lower() for word in success} - {"ok"}:
        log = replace(log, success=success)
        remarks["success"] = "guess: texts of the status column; any other is a failure. confirm"
    if "time" not in found:
        log = _of_winners(table, path, log, said)
        remarks["winners_only"] = _NO_TIMES
    elif words := _failure_words(table, log):
        log = replace(log, failures=words)
        remarks["failures"] = "guess: texts of the time column that are no times; confirm"
    remarks |= {key: _bookkeeping_remark(table, key, name) for key, name in found.items()}
    if log.unit is not None:
        remarks["time"] = "guess: by its name; confirm"
    if said.time is not None:
        remarks["time"] = remarks["time"].replace("guess: by its name", "as said").removesuffix("; confirm")
    if "device" not in found:
        remarks["device"] = (
            'guess: the log has no such column, and needs one; add it, or write { const = "..." }'
        )
    return log, tuple(remarks.items())


def _by_name(table: Cells, key: str, taken: Collection[str | None]) -> str | None:
    """The column of the bookkeeping that is named best for `key`, of those that are not taken."""
    names = column_names.BOOKKEEPING[key]
    fitting = {n: min(map(names.index, s)) for n in table.texts if (s := set(spellings(n)) & set(names))}
    fitting = {n: place for n, place in fitting.items() if n not in taken}
    if key == "time":
        fitting = {
            n: place
            for n, place in fitting.items()
            if holds_times(table.texts[n]) and not is_of_run(table, n)
        }
    if key == "device" and (told := {n for n in fitting if not _are_numbers(table.texts[n])}):
        fitting = {n: place for n, place in fitting.items() if n in told}  # its name, not its number
    return min(fitting, key=lambda n: (fitting[n], n), default=None)


def _are_numbers(devices: list[str]) -> bool:
    """Whether the texts name no device, but number some ("0", "cuda:0"), which are others on every machine."""
    told = [text for text in devices if text]
    return not told or column_type(devices) == "int" or all(map(_DEVICE_NUMBER.fullmatch, told))


def _strictest(table: Cells, named: str | None, fits: Sequence[str]) -> str | None:
    """The status column: one of that name, but for one by its texts that fails more of what succeeded there.

    CUTLASS's Status is "success" where a kernel ran, its Disposition "incorrect" where the result was wrong.
    """
    if named is None:
        return next(iter(fits), None)

    def succeeded(column: str) -> set[int]:
        words = column_names.success_words(plain(column), table.texts[column])
        places = [i for i, text in enumerate(table.texts[column]) if text in words]
        return set(np.flatnonzero(np.isin(table.codes[column], places)).tolist())

    telling = (c for c in fits if column_names.tells_all(plain(c), table.texts[c]))
    stricter = (c for c in telling if succeeded(c) < succeeded(named))
    return min(stricter, key=lambda c: len(succeeded(c)), default=named)


def _without_unread_vendors(table: Cells, said: Said) -> tuple[Cells, Said, tuple[tuple[str, str], ...]]:
    """Without a column of vendors that holds no names of any ("AMD", "hip"), where others tell them, and why."""
    column = said.vendor if said.vendor in table.texts else _by_name(table, "vendor", ())
    bad = next((t for t in table.texts.get(column or "", ()) if vendor_problem(t) or t in _PLATFORMS), None)
    if column is None or bad is None or column in (said.time, *said.features, *said.parameters):
        return table, said, ()
    device = _by_name(table, "device", (column,))
    name = None if said.vendor == column else said.vendor
    guess = guessed_vendor(table.texts.get(device or "", ()), name)
    if not guess.constants and not guess.by_name:
        return table, said, ()
    texts = {n: t for n, t in table.texts.items() if n != column}
    codes = {n: c for n, c in table.codes.items() if n != column}
    why = f"left out: found {quoted(bad)}, expected {vendor_problem(bad) or _NO_PLATFORM}"
    return replace(table, texts=texts, codes=codes), replace(said, vendor=name), ((column, why),)


def _of_winners(table: Cells, path: str, log: LogColumns, said: Said) -> LogColumns:
    """[log] of a table without times: each row must be the only one of its scenario, a winner.

    Raises:
        LogError: scenarios have several rows, or nothing else looks like a tuning log.
    """
    roles = {c: g.role for c, g in guesses_of(table, log).items() if c not in said.parameters}
    features = said.features or tuple(c for c, role in roles.items() if role == "feature")
    keys = [c for c in (log.vendor, log.device, *features) if c in table.texts]
    rows = set(zip(*(table.codes[c].tolist() for c in keys), strict=True))
    if not features or not (said.parameters or "parameter" in roles.values()) or len(rows) < table.n:
        what = "no column looks like the time of a measurement"
        raise LogError(what, file=path, row=1, hint=_hint(table, "time"))
    return replace(log, winners_only=True)


def _failure_words(table: Cells, log: LogColumns) -> tuple[str, ...]:
    """Texts of the time column that stand for a failure: 0, -1, nan and a few words ("OutOfResources"); a blank cell
    where the status says success, as pandas writes NaN.
    """
    texts = {t.strip().lower() for t in table.texts[log.time] if t.strip()}
    words = {t for t in texts if number(t) in (0.0, -1.0) or column_names.is_failure(t)}
    if (rows_with(table, log.time, [""]) & rows_with(table, log.status, log.success)).any():
        words.add("")
    return tuple(sorted(words)) if len(words) <= _MOST_WORDS else ()


def _bookkeeping_remark(table: Cells, key: str, name: str) -> str:
    if key == "time" and is_throughput(name):
        return "guess: a throughput, by its name; 1 / it is read as a time. confirm"
    if key == "time" and any(ms_in(text) is not None for text in table.texts[name]):
        return "guess: by its name; cells name their unit. confirm"
    if key == "time" and not name.lower().endswith("ms"):
        unit = unit_of(name)
        read = (
            f"in {unit}, by its name"
            if unit
            else "as ms (or say unit = ...), and any unit gives the same slowdowns"
        )
        return f"guess: by its name; heurgen reads it {read}. confirm"
    if key == "status" and not column_names.success_words(plain(name), table.texts[name]):
        return "guess: by its name; yet no row says 'ok', and any other text is a failure. confirm"
    if key == "status" and name.lower() not in column_names.BOOKKEEPING["status"]:
        return "guess: by its texts; confirm"
    return "guess: by its name; confirm"


def _kernel(table: Cells, path: str) -> tuple[str, str]:
    for name in ("kernel", "kernel_name"):
        if len(table.texts.get(name, [])) == 1 and table.texts[name][0]:
            return safe_name(table.texts[name][0]), f"guess: the column {name}; confirm"
    stem = PurePath(os.path.abspath(path)).name.partition(".")[0]
    return safe_name(stem), "guess: the file's name; confirm"
