"""A slow and obvious second implementation of logs.py and costs.py; writers of equal logs in many forms."""

from __future__ import annotations

import csv
import gzip
import io
import math
import statistics
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from heurgen.ir import expr
from heurgen.logs.costs import CostTable
from heurgen.spec.kernel_spec import Column, DerivedColumn, KernelSpec, LogColumns

SPEC = KernelSpec(
    name="k",
    features=(
        Column("n", "int", min=0),
        Column("share", "float"),
        Column("causal", "bool"),
        Column("dtype", "category"),
    ),
    parameters=(
        Column("BM", "int"),
        Column("mode", "category", values=("z", "a", "None"), optional=True),
        Column("waves", "int", optional=True, vendors=("amd",)),
    ),
    derived=(DerivedColumn("ratio", expr.parse("n / share + causal")),),
    log=LogColumns(noise=0.03),
)
Row = dict[str, str]

# --- random logs ------------------------------------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn, *, with_ids: bool = True) -> list[Row]:
    """Rows in which at least one scenario has a success; with ids, scenarios may share all features."""
    sets = st.tuples(
        st.sampled_from(["0", "1", "7", "4096", "9007199254740992"]),
        st.sampled_from(["0", "0.5", "1e-3", "-2.25"]),
        st.sampled_from(["true", "false"]),
        st.sampled_from(["f16", "bf16", 'a "b"', "x,y", "line\nend", "NA"]),
    )
    scenarios = draw(st.lists(sets, min_size=1, max_size=5, unique=not with_ids))
    found: list[Row] = []
    for index, features in enumerate(scenarios):
        vendor, device = draw(
            st.sampled_from([("nvidia", "H200"), ("nvidia", "A100, 80"), ("amd", "MI300X")])
        )
        configs = draw(
            st.lists(st.tuples(st.sampled_from("124"), st.sampled_from(["", "z", "a", "None"])), max_size=6)
        )
        for block, mode in configs:
            found.append(
                dict(zip(("n", "share", "causal", "dtype"), features, strict=True))
                | {
                    "BM": block,
                    "mode": mode,
                    "waves": draw(st.sampled_from(["", "0", "2"])) if vendor == "amd" else "",
                }
                | {
                    "vendor": vendor,
                    "device": device,
                    "status": draw(st.sampled_from(["ok", "ok", "ok", "oom", ""])),
                }
                | {"time_ms": draw(st.sampled_from(["0.1", "0.25", "0.3", "1e-2", "4"]))}
                | ({"scenario": f"s{index}"} if with_ids else {})
            )
    found.append(dict(found[0] if found else _one()) | {"BM": "8", "status": "ok", "time_ms": "0.125"})
    return found


def _one() -> Row:
    one = {"n": "1", "share": "1", "causal": "true", "dtype": "f16", "mode": "", "waves": "", "vendor": "amd"}
    return one | {"device": "MI300X", "scenario": "s9"}


# --- writers ----------------------------------------------------------------------------------------------

FORMS = {
    "0.5": "0.50",
    "1e-3": "0.001",
    "4096": "04096",
    "true": "True",
    "false": "0",
    "0.25": "25E-2",
    "1": "01",
}


def write_csv(path: Path, rows: list[Row], columns: list[str], **style: Any) -> Path:
    """One file. Style: quoting, end (of lines), bom, gz, blank_lines."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(
        text,
        columns,
        quoting=style.get("quoting", csv.QUOTE_MINIMAL),
        lineterminator=style.get("end", "\n"),
        extrasaction="ignore",
    )
    writer.writeheader()
    writer.writerows(rows)
    data = (("\ufeff" if style.get("bom") else "") + text.getvalue()).encode()
    data += style.get("end", "\n").encode() * style.get("blank_lines", 0)
    path.write_bytes(gzip.compress(data) if style.get("gz") else data)
    return path


@st.composite
def disguises(draw: st.DrawFn, rows: list[Row]) -> list[tuple[list[Row], list[str], dict[str, Any]]]:
    """The same measurements as other files: other order, split, formats, ids, styles, times of failures."""
    ids = draw(st.permutations(sorted({r["scenario"] for r in rows if "scenario" in r})))
    renamed = {old: f"id {new}" for old, new in zip(sorted(ids), ids, strict=True)}
    forms = draw(st.booleans())
    changed = []
    for row in draw(st.permutations(rows)):
        row = {
            c: FORMS.get(v, v) if forms and c in ("n", "share", "causal", "BM", "time_ms") else v
            for c, v in row.items()
        }
        if forms and row["causal"] == "01":
            row["causal"] = "1"
        if "scenario" in row:
            row["scenario"] = renamed[row["scenario"]]
        if row["status"] != "ok":
            row["time_ms"] = draw(st.sampled_from(["", "nan", "-1", "what?"]))
        changed.append(row)
    parts = [changed]
    if len(changed) > 1 and draw(st.booleans()):
        cut = draw(st.integers(1, len(changed) - 1))
        parts = [changed[:cut], changed[cut:]]
        if parts[0] == parts[1]:  # equal files are read once
            parts = [changed]
    return [(part, draw(columns_of(part)), draw(styles())) for part in parts]


@st.composite
def columns_of(draw: st.DrawFn, rows: list[Row]) -> list[str]:
    """The columns in any order; optional ones that are blank throughout may be left out."""
    blank = [c for c in ("mode", "waves") if all(not r[c] for r in rows)]
    left_out = [c for c in blank if draw(st.booleans())]
    if all(r["status"] == "ok" for r in rows) and draw(st.booleans()):
        left_out.append("status")
    return draw(st.permutations([c for c in rows[0] if c not in left_out]))


def styles() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
            "end": st.sampled_from(["\n", "\r\n"]),
            "bom": st.booleans(),
            "gz": st.booleans(),
            "blank_lines": st.integers(0, 2),
        }
    )


# --- the reference ----------------------------------------------------------------------------------------


def reference(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """{vendor: {"scenarios": {key: (times, noise)}, "configs": set, "rows": int}} by plain dicts."""
    scenarios: dict[Any, dict[Any, list[float]]] = {}
    for row in rows:
        features = (int(row["n"]), float(row["share"]), row["causal"] == "true", row["dtype"])
        config = (int(row["BM"]), row["mode"] or None)
        if row["vendor"] == "amd":
            config += (int(row["waves"]) if row["waves"] else None,)  # type: ignore[assignment]
        key = (row["vendor"], row["device"], row.get("scenario", ""), features)
        time = float(row["time_ms"]) if row["status"] == "ok" else math.inf
        scenarios.setdefault(key, {}).setdefault(config, []).append(time)
    tables: dict[str, dict[str, Any]] = {}
    for (vendor, device, id_, features), cells in scenarios.items():
        times = {config: _time(found) for config, found in cells.items()}
        if all(math.isinf(t) for t in times.values()):
            continue
        table = tables.setdefault(vendor, {"scenarios": {}, "configs": set(), "rows": 0})
        table["scenarios"][(features, device, id_)] = (times, _noise(list(cells.values())))
        table["configs"] |= set(times)
        table["rows"] += sum(map(len, cells.values()))
    return tables


def _time(found: list[float]) -> float:
    good = [t for t in found if math.isfinite(t)]
    return statistics.median(good) if len(good) > len(found) / 2 else math.inf


def _noise(cells: list[list[float]]) -> float:
    squares = degrees = 0.0
    for cell in cells:
        good = [t for t in cell if math.isfinite(t)]
        if len(good) > 1:
            squares += sum((t / statistics.fmean(good) - 1) ** 2 for t in good)
            degrees += len(good) - 1
    return math.sqrt(squares / degrees) if degrees else SPEC.log.noise


def contents(table: CostTable) -> dict[str, Any]:
    """A cost table in the form of `reference`."""
    scenarios = {}
    for i in range(table.n_scenarios):
        times = {
            config: float(t)
            for config, t in zip(table.configs, table.times[i], strict=True)
            if not math.isnan(t)
        }
        key = (tuple(table.features_of(i).values()), table.device[i], table.scenario[i])
        scenarios[key] = (times, float(table.noise[i]))
    return {"scenarios": scenarios, "configs": set(table.configs), "rows": table.n_measurements}
