"""Lines of a drafted spec: what a column of a log is as a feature, or as a parameter, and what to look at."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from heurgen.base.errors import quoted
from heurgen.logs import column_names
from heurgen.logs.cells import ABSENT, Cells
from heurgen.logs.importers.common import described, only
from heurgen.logs.naming import unit_in
from heurgen.logs.roles import POWER
from heurgen.logs.vendors import vendor_of
from heurgen.spec.draft_toml import Entry
from heurgen.spec.kernel_spec import Column, number
from heurgen.spec.log_columns import LogColumns

# What stands for true and false, and is no bool of a log.
_YES_AND_NO = ({"yes", "no"}, {"y", "n"}, {"on", "off"}, {"t", "f"})
# "16x1024", "(16, 1024)": the sizes of a problem in one text.
SIZES = re.compile(r"[\[(]?\s*[0-9]+(\s*[x×X*,_ ]\s*[0-9]+)+\s*[\])]?")
# "16.0", as pandas writes an int of a column with blanks.
_WHOLE = re.compile(r"-?[0-9]{1,15}(\.0+)?")
# "1,024" and "16": numbers with commas between thousands.
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})*")
# A category that has more than this many values for each that is no number is one of numbers.
_NUMBERS = 4
# Why a column is what it is, where somebody said so.
CARD = "as the log's card says"
SAID = "as said"


def feature_entry(table: Cells, names: tuple[str, str], why: str, *, keep: bool) -> Entry:
    """names: the column's, and the feature's. keep: whether one that is constant here stays a feature."""
    values = table.texts[names[0]]
    column = _with_limits(_described(names, values), values)
    # a target's features are what `select` is asked with, and each scenario has them
    told = why in (SAID, CARD)
    if len(values) == 1 and (keep or told):
        constant = f"constant here ({only(values)})"
        return Entry(column, f"{why}; {constant}" if told else f"guess: {constant}; confirm")
    if len(values) == 1:
        return Entry(column, f"guess: constant here ({only(values)}), so left out; confirm", active=False)
    if column.type == "float" and len({float(v) for v in values}) < len({Decimal(v) for v in values}):
        why = "some of these numbers are one as floats, which hold whole ones to 2**53: their launches are one, too"
    if column.type == "category" and all(SIZES.fullmatch(v) for v in values):
        why = "sizes in a text: no tree goes beyond those it saw. Split it into columns of numbers"
    if column.type == "category" and all(POWER.fullmatch(v) for v in values):
        why = "powers in a text: no tree goes beyond those it saw. Write 1024, not 2^10"
    if column.type == "category" and all(_THOUSANDS.fullmatch(v) for v in values):
        why = "numbers with commas in a text: no tree goes beyond those it saw. Write 1024, not 1,024"
    if {v.lower() for v in values} in _YES_AND_NO:
        why = (
            f"{' and '.join(sorted(values))} in a text: True is none of them at launch. Write true and false"
        )
    words = [v for v in values if number(v) is None]
    if column.type == "category" and words and _NUMBERS * len(words) < len(values):
        why = f"numbers beside {quoted(words[0])}: no tree goes beyond those it saw. Write a number in its place"
    return Entry(column, why)


def _described(names: tuple[str, str], values: list[str]) -> Column:
    """A column of the log (its name there, and in the spec)."""
    own, name = names
    column = replace(described(name, values), column="" if own == name else own, unit=unit_in(own))
    return (
        replace(column, values=tuple(sorted(v for v in values if v))) if column.type == "category" else column
    )


def _with_limits(column: Column, values: list[str]) -> Column:
    """Units and limits that the name of a well-known feature implies, where the data agree."""
    unit = column_names.unit(column.name) or column.unit
    if column.type in ("int", "float") and column_names.is_share(column.name):
        shares = [float(v) for v in values]
        if min(shares) >= 0 and max(shares) <= 1:
            return replace(column, type="float", min=0, max=1)
    if column.type == "int" and column_names.unit(column.name) and min(map(int, values)) >= 1:
        return replace(column, min=1, unit=unit)
    return replace(column, unit=unit)


def parameter_entry(table: Cells, names: tuple[str, str], why: str, log: LogColumns) -> Entry:
    """A parameter that is blank in every row of a vendor does not exist there."""
    name = names[0]
    column = _described(names, table.texts[name])
    if column.type == "float" and all(map(_WHOLE.fullmatch, filter(None, table.texts[name]))):
        column = replace(column, type="int")  # a launch takes no 16.0
    words = [t for t in table.texts[name] if t and number(t) is None]
    if len(words) == 1 and len(column.values) > 1:
        why = f"numbers beside {quoted(words[0])}: a launch gets them as texts. Leave a cell blank where there is none"
    texts, codes = table.texts[name], table.codes[name]
    blank = codes == (texts.index("") if "" in texts else ABSENT)
    nothing = blank | (codes == ABSENT)  # a file of another vendor may lack the column
    vendors: tuple[str, ...] = ()
    of = _vendor_of_rows(table, log)
    having = {v: not nothing[of == v].all() for v in np.unique(of).tolist()}
    if not all(having.values()) and any(having.values()):
        vendors = tuple(sorted(v for v, has in having.items() if has))
        blank = blank[np.isin(of, vendors)]
    optional = "" in texts and bool(blank.any())
    return Entry(replace(column, vendors=vendors, optional=optional), why)


def _vendor_of_rows(table: Cells, log: LogColumns) -> NDArray[np.str_]:
    """The vendor of each row: as its column says, or the name of its device; "" for all where neither does."""
    if log.vendor in table.texts:
        return np.array([*table.texts[log.vendor], ""])[table.codes[log.vendor]]
    if log.vendor_by_name and log.device in table.texts:
        told = [vendor_of(device) or "" for device in table.texts[log.device]]
        return np.array([*told, ""])[table.codes[log.device]]
    return np.full(table.n, "")
