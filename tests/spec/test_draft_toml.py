"""KernelSpec -> TOML: whatever the strings, reading the text gives back what was meant."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import SpecError
from heurgen.base.toml import string
from heurgen.ir import expr
from heurgen.spec.draft_toml import Draft, Entry, to_toml
from heurgen.spec.kernel_spec import Column, DerivedColumn, KernelSpec, LogColumns, read_spec
from tests.spec.examples import spec_to_toml

SPEC = KernelSpec(
    name="unified_attention",
    features=(
        Column("num_seqs", "int", min=1, unit="sequences", doc="sequences in the batch"),
        Column("decode_share", "float", min=0, max=0.5),
        Column("dtype", "category", values=("bfloat16", "float16")),
        Column("causal", "bool"),
    ),
    parameters=(Column("BLOCK_M", "int"), Column("waves_per_eu", "int", optional=True, vendors=("amd",))),
    derived=(DerivedColumn("kv_tokens", expr.parse("num_seqs * (decode_share + 1)")),),
    log=LogColumns(time="median_ms", noise=0.05),
)
HOSTILE = [
    '"',
    "\\",
    "\n",
    "\r\n",
    '"""',
    "]\nname = 1",
    "# x",
    "\x00\x1b[31m\x7f",
    "‮\u2028",
    "\U000e0041é",
    "",
    "'",
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"])))


def meant(spec: KernelSpec) -> dict[str, Any]:
    """The spec as the TOML tables that a person would write for it."""

    def table(column: Column) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": column.type}
        entry |= {k: getattr(column, k) for k in ("min", "max") if getattr(column, k) is not None}
        entry |= {k: list(getattr(column, k)) for k in ("values", "vendors") if getattr(column, k)}
        return entry | {k: getattr(column, k) for k in ("optional", "unit", "doc") if getattr(column, k)}

    result: dict[str, Any] = {
        "kernel": {"name": spec.name},
        "features": {c.name: table(c) for c in spec.features},
        "parameters": {c.name: table(c) for c in spec.parameters},
    }
    if spec.derived:
        result["derived"] = {d.name: expr.to_text(d.expression) for d in spec.derived}
    default = LogColumns()
    keys = ("vendor", "device", "time", "status", "scenario", "noise")
    log = {k: getattr(spec.log, k) for k in keys if getattr(spec.log, k) != getattr(default, k)}
    return result | ({"log": log} if log else {})


def test_text_is_what_a_person_would_write() -> None:
    assert spec_to_toml(SPEC) == (
        "[kernel]\n"
        'name = "unified_attention"\n'
        "\n"
        "[features]  # order = argument order of generated functions\n"
        'num_seqs = { type = "int", min = 1, unit = "sequences", doc = "sequences in the batch" }\n'
        'decode_share = { type = "float", min = 0, max = 0.5 }\n'
        'dtype = { type = "category", values = ["bfloat16", "float16"] }\n'
        'causal = { type = "bool" }\n'
        "\n"
        "[derived]\n"
        'kv_tokens = "num_seqs * (decode_share + 1)"\n'
        "\n"
        "[parameters]\n"
        'BLOCK_M = { type = "int" }\n'
        'waves_per_eu = { type = "int", optional = true, vendors = ["amd"] }\n'
        "\n"
        "[log]\n"
        'time = "median_ms"\n'
        "noise = 0.05\n"
    )


def test_reading_gives_back_an_equal_spec(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(spec_to_toml(SPEC), encoding="utf-8")
    assert read_spec(path) == SPEC
    aliases = (("torch.bfloat16", "bfloat16"), ("\u202e", "float16"))
    dtype = replace(SPEC.features[2], unknown="error", aliases=aliases)
    grouped = replace(
        SPEC, features=(*SPEC.features[:2], dtype, *SPEC.features[3:]), group=("num_seqs", "dtype")
    )
    path.write_text(spec_to_toml(grouped), encoding="utf-8")
    assert read_spec(path) == grouped


def test_everything_that_a_log_table_says_is_written(tmp_path: Path) -> None:
    log = LogColumns(
        time="tflops", objective="max", success=("passed",), failures=("OOM", ""), winners_only=True,
        constants=(("vendor", "nvidia"),),
        wide=(("a", (("BLOCK_M", "16"),)), ("b c", (("BLOCK_M", "32"),))),
    )  # fmt: skip
    path = tmp_path / "spec.toml"
    text = spec_to_toml(replace(SPEC, log=log))
    path.write_text(text, encoding="utf-8")
    assert read_spec(path) == replace(SPEC, log=log)
    assert text[text.index("[log]") :] == (
        "[log]\n"
        'vendor = { const = "nvidia" }\n'
        'time = "tflops"\n'
        'objective = "max"\n'
        'success = ["passed"]\n'
        'failures = ["OOM", ""]\n'
        "winners_only = true  # every row is the winner of its scenario: slowdown is unknown\n"
        "\n"
        "[log.wide]  # a column a config: its parameters\n"
        'a = { BLOCK_M = "16" }\n'
        '"b c" = { BLOCK_M = "32" }\n'
    )
    timed = replace(SPEC, log=LogColumns(unit="us", device="gpu", noise=1.0))
    path.write_text(spec_to_toml(timed), encoding="utf-8")
    assert read_spec(path) == timed
    assert "\nnoise = 1\n" in spec_to_toml(timed)


def columns() -> st.SearchStrategy[Column]:
    number = st.one_of(
        st.none(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
    )
    many = st.lists(texts, unique=True, max_size=3).map(tuple)
    return st.builds(
        Column,
        name=texts,
        type=st.sampled_from(["int", "float", "bool", "category"]),
        min=number,
        max=number,
        values=many,
        unit=texts,
        doc=texts,
        optional=st.booleans(),
        vendors=many,
    )


@settings(derandomize=True, deadline=None)
@given(
    name=texts,
    features=st.lists(columns(), max_size=3, unique_by=lambda c: c.name),
    parameters=st.lists(columns(), max_size=3, unique_by=lambda c: c.name),
    log=st.builds(LogColumns, texts, texts, texts, texts, texts, st.floats(0, 1)),
)
def test_round_trip_of_any_strings(
    name: str, features: list[Column], parameters: list[Column], log: LogColumns
) -> None:
    spec = KernelSpec(name, tuple(features), tuple(parameters), log=log)
    assert tomllib.loads(spec_to_toml(spec)) == meant(spec)


@settings(derandomize=True, deadline=None)
@given(remark=st.text(), name=texts, column=texts, why=st.text(), header=st.text())
def test_comments_are_inert(remark: str, name: str, column: str, why: str, header: str) -> None:
    plain = Draft("k", (Entry(Column("a", "int")),), (Entry(Column("b", "int")),))
    noted = replace(
        plain,
        features=(
            Entry(Column("a", "int"), remark),
            Entry(Column(name, "category", doc=name), remark, active=False),
        ),
        name_remark=remark,
        header=(header,),
        left_out=((column, why),),
    )
    assert tomllib.loads(to_toml(noted)) == tomllib.loads(to_toml(plain))


def test_a_log_key_with_a_remark_is_written_at_its_default() -> None:
    draft = Draft("k", (), (), log_remarks=(("time", "guess: by its name; confirm"),))
    assert to_toml(draft).endswith('[log]\ntime = "time_ms"  # guess: by its name; confirm\n')


@settings(derandomize=True, deadline=None)
@given(texts)
def test_strings_show_no_control_character(text: str) -> None:
    assert all(c == " " or c.isprintable() for c in string(text))


def test_half_a_character_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        spec_to_toml(replace(SPEC, name="a\ud800"))
    assert str(caught.value) == (
        r"'\ud800' is half a character, which TOML cannot write (rename it in the log)"
    )
