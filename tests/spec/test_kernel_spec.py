"""The kernel spec: what a person may write, and the one message for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import SpecError
from heurgen.ir import expr
from heurgen.spec.kernel_spec import Column, LogColumns, parse_spec, read_spec
from tests.spec.examples import GOOD, derived, feature, log, parameter

ISSUE = """[kernel]
name = "unified_attention"
[features]                       # order = argument order of generated functions
num_seqs     = { type = "int", min = 1, unit = "sequences", doc = "sequences in the batch" }
avg_seqlen_k = { type = "float" }
decode_share = { type = "float", min = 0, max = 1 }
dtype        = { type = "category", values = ["bfloat16", "float16"] }
[derived]
kv_tokens    = "num_seqs * avg_seqlen_k"
[parameters]
variant      = { type = "category", values = ["2d", "3d"] }
BLOCK_M      = { type = "int" }
waves_per_eu = { type = "int", optional = true, vendors = ["amd"] }
[log]
vendor = "gpu_vendor"
noise = 0
"""


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "spec.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_issue_s_example(tmp_path: Path) -> None:
    spec = read_spec(write(tmp_path, ISSUE))
    assert spec.name == "unified_attention"
    assert [f.name for f in spec.features] == ["num_seqs", "avg_seqlen_k", "decode_share", "dtype"]
    assert spec.features[0] == Column(
        "num_seqs", "int", min=1, unit="sequences", doc="sequences in the batch"
    )
    assert spec.features[2] == Column("decode_share", "float", min=0, max=1)
    assert spec.features[3].values == ("bfloat16", "float16")
    assert [(d.name, expr.to_text(d.expression)) for d in spec.derived] == [
        ("kv_tokens", "num_seqs * avg_seqlen_k")
    ]
    assert spec.parameters[2] == Column("waves_per_eu", "int", optional=True, vendors=("amd",))
    assert spec.log == LogColumns(vendor="gpu_vendor", noise=0.0)
    assert [p.name for p in spec.parameters_of("nvidia")] == ["variant", "BLOCK_M"]
    assert [p.name for p in spec.parameters_of("amd")] == ["variant", "BLOCK_M", "waves_per_eu"]


def test_defaults_of_the_log_table(tmp_path: Path) -> None:
    spec = read_spec(write(tmp_path, GOOD.replace("[log]\n", "")))
    assert spec.log == LogColumns("vendor", "device", "time_ms", "status", "scenario", 0.02)


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n").encode()])
def test_byte_order_mark_and_windows_line_ends(tmp_path: Path, text: bytes) -> None:
    assert read_spec(write(tmp_path, text)) == read_spec(write(tmp_path, GOOD))


def test_the_ends_of_what_a_column_can_be() -> None:
    text = 'n = {type="float", min=-9007199254740992, max=9007199254740992, doc="' + "x" * 1000 + '"}'
    found = parse_spec(feature(text)).features[0]
    assert (found.min, found.max, len(found.doc)) == (-(2**53), 2**53, 1000)
    same = parse_spec(feature('n = {type="int", min=3, max=3}')).features[0]
    assert (same.min, same.max) == (3, 3)
    shares = parse_spec('group = ["n"]\n' + GOOD)
    assert shares.group == ("n",)
    assert Column("x", "int").exists_for("amd")


def test_a_clash_with_a_default_log_column_is_resolved_in_log(tmp_path: Path) -> None:
    text = feature('scenario = { type = "int" }') + 'scenario = "sid"'
    assert read_spec(write(tmp_path, text)).features[0].name == "scenario"


ARITHMETIC = "(allowed: + - * / // % min max, parentheses, numbers and feature names)"
COLUMN_KEYS = "type, min, max, values, unit, doc, column, aliases, unknown"
BAD = {
    "no toml": (GOOD + "x = = 3", ":10: this is no TOML: Invalid value, at character 5"),
    "no utf-8": (b"ab\xff", ":1: byte 2 (0xff) is no UTF-8 (save the file as UTF-8)"),
    "empty": (
        "",
        ": the table [kernel] is missing (a spec needs [kernel], [features], [parameters])",
    ),
    "no parameters": (
        "[kernel]\nname='k'\n[features]\nn={type='int'}",
        ": the table [parameters] is missing (a spec needs [kernel], [features], [parameters])",
    ),
    "unknown table": (
        "[kernl]\n" + GOOD,
        ":1: column 'kernl': unknown table 'kernl' (did you mean 'kernel'?)",
    ),
    "unknown top key": (
        "x = 1\n" + GOOD,
        ":1: column 'x': unknown table 'x' (known: kernel, features, derived, parameters, log, group)",
    ),
    "group of no feature": (
        'group = ["zz"]\n' + GOOD,
        ":1: column 'group': 'zz' is no feature",
    ),
    "group of nearly a feature": (
        'group = ["n", "dtyp"]\n' + GOOD,
        ":1: column 'group': 'dtyp' is no feature (did you mean 'dtype'?)",
    ),
    "group is no list": (
        'group = "m"\n' + GOOD,
        ":1: column 'group': found 'm', expected a list of features",
    ),
    "table is no table": (
        'log = "x"\n' + GOOD.replace("[log]\n", ""),
        ":1: column 'log': found 'x', expected a table",
    ),
    "array of tables": (
        GOOD.replace("[parameters]", "[[parameters]]"),
        ":7: column 'parameters': found [{'BM': {'type': 'int'}}], expected a table",
    ),
    "kernel name": (
        GOOD.replace('"k"', '"a-b"'),
        ":2: column 'kernel.name': kernel name 'a-b' is not an ASCII identifier",
    ),
    "kernel keyword": (
        GOOD.replace('"k"', '"class"'),
        ":2: column 'kernel.name': kernel name 'class' is a Python keyword",
    ),
    "kernel name type": (
        GOOD.replace('"k"', "3"),
        ":2: column 'kernel.name': found 3, expected a string",
    ),
    "kernel key": (
        GOOD.replace("name = ", "nam = "),
        ":2: column 'kernel.nam': unknown key 'nam' (did you mean 'name'?)",
    ),
    "kernel without name": (
        GOOD.replace('name = "k"', ""),
        ":1: column 'kernel': the key 'name' is missing (write name = \"my_kernel\")",
    ),
    "no features": (
        "[kernel]\nname='k'\n[features]\n[parameters]\nb={type='int'}",
        ":3: column 'features': [features] is empty, expected at least one",
    ),
    "feature name": (
        feature('"a b" = {type="int"}'),
        ":4: column 'features.a b': feature name 'a b' is not an ASCII identifier",
    ),
    "feature name that is not ASCII": (
        feature('"größe" = {type="int"}'),
        ":4: column 'features.größe': feature name 'größe' is not an ASCII identifier",
    ),
    "keyword": (
        feature('lambda = {type="int"}'),
        ":4: column 'features.lambda': feature name 'lambda' is a Python keyword",
    ),
    "dunder": (
        feature('__x = {type="int"}'),
        ":4: column 'features.__x': feature name '__x' is a dunder or private name",
    ),
    "argument of generated functions": (
        feature('vendor = {type="int"}'),
        ":4: column 'features.vendor': the name 'vendor' is reserved for generated code",
    ),
    "column is no table": (
        feature('n = "int"'),
        ":4: column 'features.n': found 'int', expected a table (write { type = \"int\" })",
    ),
    "no type": (
        feature("n = {}"),
        ":4: column 'features.n': the key 'type' is missing (one of int, float, bool, category)",
    ),
    "bad type": (
        feature('n = {type="integer"}'),
        ":4: column 'features.n.type': found 'integer', expected one of int, float, bool, category",
    ),
    "type is no string": (
        feature("n = {type=3}"),
        ":4: column 'features.n.type': found 3, expected one of int, float, bool, category",
    ),
    "unknown key": (
        feature('n = {type="int", mim=3}'),
        ":4: column 'features.n.mim': unknown key 'mim' (did you mean 'min'?)",
    ),
    "column twice": (
        feature('a = {type="int", column="c"}\nb = {type="int", column="c"}'),
        ":5: column 'features.b': the column 'c' is that of 'a' too",
    ),
    "column of the log": (
        feature('a = {type="int", column="time_ms"}'),
        ":4: column 'features.a': the column 'time_ms' is that of '[log]' too",
    ),
    "blank column": (
        feature('a = {type="int", column=""}'),
        ":4: column 'features.a.column': found '', expected the name of a column",
    ),
    "optional feature": (
        feature('n = {type="int", optional=true}'),
        f":4: column 'features.n.optional': unknown key 'optional' (known: {COLUMN_KEYS})",
    ),
    "unit": (feature('n = {type="int", unit=3}'), ":4: column 'features.n.unit': found 3, expected a string"),
    "doc": (
        feature('n = {type="int", doc=["a"]}'),
        ":4: column 'features.n.doc': found ['a'], expected a string",
    ),
    "min is text": (
        feature('n = {type="int", min="3"}'),
        ":4: column 'features.n.min': found '3', expected a whole number within +-2**53",
    ),
    "min of an int": (
        feature('n = {type="int", min=0.5}'),
        ":4: column 'features.n.min': found 0.5, expected a whole number within +-2**53",
    ),
    "min is a bool": (
        feature('n = {type="int", min=true}'),
        ":4: column 'features.n.min': found True, expected a whole number within +-2**53",
    ),
    "min is nan": (
        feature('n = {type="float", min=nan}'),
        ":4: column 'features.n.min': found nan, expected a finite number",
    ),
    "max is inf": (
        feature('n = {type="float", max=inf}'),
        ":4: column 'features.n.max': found inf, expected a finite number",
    ),
    "max is huge": (
        feature(f'n = {{type="float", max=1{"0" * 400}}}'),
        f":4: column 'features.n.max': found 1{'0' * 56}..., expected a finite number",
    ),
    "min above max": (
        feature('n = {type="int", min=3, max=2}'),
        ":4: column 'features.n.min': min = 3 is larger than max = 2",
    ),
    "min of a category": (
        feature('n = {type="category", min=3}'),
        ":4: column 'features.n.min': min does not apply to the type category",
    ),
    "max of a bool": (
        feature('n = {type="bool", max=1}'),
        ":4: column 'features.n.max': max does not apply to the type bool",
    ),
    "values of an int": (
        feature('n = {type="int", values=["1"]}'),
        ":4: column 'features.n.values': values does not apply to the type int",
    ),
    "no values": (
        feature('n = {type="category", values=[]}'),
        ":4: column 'features.n.values': found [], expected a list of strings",
    ),
    "values twice": (
        feature('n = {type="category", values=["a", "a"]}'),
        ":4: column 'features.n.values': 'a' is listed twice",
    ),
    "values of numbers": (
        feature('n = {type="category", values=[1]}'),
        ":4: column 'features.n.values': found [1], expected a list of strings",
    ),
    "blank value": (
        feature('n = {type="category", values=[""]}'),
        ":4: column 'features.n.values': found '', expected text (for a blank cell use optional = true)",
    ),
    "optional is no bool": (
        parameter('BM = {type="int", optional=1}'),
        ":8: column 'parameters.BM.optional': found 1, expected true or false",
    ),
    "vendor in capitals": (
        parameter('BM = {type="int", vendors=["AMD"]}'),
        ":8: column 'parameters.BM.vendors': found 'AMD', expected a vendor in lower-case letters, digits "
        "and underscores, such as nvidia",
    ),
    "vendor keyword": (
        parameter('BM = {type="int", vendors=["is"]}'),
        ":8: column 'parameters.BM.vendors': found 'is', expected a vendor that is no Python keyword",
    ),
    "vendors is text": (
        parameter('BM = {type="int", vendors="amd"}'),
        ":8: column 'parameters.BM.vendors': found 'amd', expected a list of strings",
    ),
    "parameter with an underscore": (
        parameter('_BM = {type="int"}'),
        ":8: column 'parameters._BM': parameter name '_BM' starts with an underscore",
    ),
    "parameter named as a feature": (
        parameter('n = {type="int"}'),
        ":8: column 'parameters.n': the name 'n' is used twice",
    ),
    "derived named as a feature": (
        derived('n = "n * 2"'),
        ":7: column 'derived.n': the name 'n' is used twice",
    ),
    "derived named as a parameter": (
        derived('BM = "n * 2"'),
        ":9: column 'parameters.BM': the name 'BM' is used twice",
    ),
    "derived name": (
        derived('if = "n"'),
        ":7: column 'derived.if': derived feature name 'if' is a Python keyword",
    ),
    "derived reads no feature": (
        derived('x = "nn * 2"'),
        ":7: column 'derived.x': 'nn' is no feature (did you mean 'n'?)",
    ),
    "derived reads a derived": (
        derived('x = "n * 2"\ny = "x + 1"'),
        ":8: column 'derived.y': 'x' is no feature",
    ),
    "derived reads a category": (
        derived('x = "dtype * 2"'),
        ":7: column 'derived.x': 'dtype' is a category, expected a number",
    ),
    "derived is no arithmetic": (
        derived('x = "n *"'),
        ":7: column 'derived.x': 'n *' is no arithmetic expression",
    ),
    "derived calls": (
        derived('x = "abs(n)"'),
        f":7: column 'derived.x': 'abs(n)' is not allowed in the expression 'abs(n)' {ARITHMETIC}",
    ),
    "derived is a number": (
        derived("x = 3"),
        ":7: column 'derived.x': found 3, expected an expression in quotes such as \"a * b\"",
    ),
    "log column is a feature": (
        log('vendor = "n"'),
        ":4: column 'features.n': the name 'n' is taken by the log's vendor column "
        "(rename it, or set vendor in [log])",
    ),
    "log column is a parameter": (
        log('time = "BM"'),
        ":8: column 'parameters.BM': the name 'BM' is taken by the log's time column (rename it, or set time in [log])",
    ),
    "feature is the scenario's column": (
        feature('scenario = {type="int"}'),
        ":4: column 'features.scenario': the name 'scenario' is taken by the log's scenario column "
        "(rename it, or set scenario in [log])",
    ),
    "max is no float64": (
        feature('n = {type="float", max=9007199254740993}'),
        ":4: column 'features.n.max': found 9007199254740993, expected a finite number",
    ),
    "long doc": (
        feature(f'n = {{type="int", doc="{"x" * 1001}"}}'),
        ":4: column 'features.n.doc': found 1001 characters, expected at most 1000",
    ),
    "log columns equal": (log('vendor = "device"'), ":9: column 'log': two keys name the column 'device'"),
    "sub-table": (
        GOOD + '[features.m]\ntype = "float"\nmin = "a"\n',
        ":12: column 'features.m.min': found 'a', expected a finite number",
    ),
    "dotted keys": (
        feature('m.type = "int"\nm.max = "x"'),
        ":5: column 'features.m.max': found 'x', expected a whole number within +-2**53",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_specs(tmp_path: Path, case: str) -> None:
    text, expected = BAD[case]
    path = write(tmp_path, text)
    with pytest.raises(SpecError) as error:
        read_spec(path)
    assert str(error.value) == f"{path}{expected}"


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = 1" + "0" * 5000])
def test_absurd_toml_is_a_spec_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError, match="this is no TOML"):
        read_spec(write(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        read_spec(tmp_path)
    assert str(error.value) == f"{tmp_path}: cannot be read: Is a directory"
    with pytest.raises(SpecError) as error:
        read_spec(tmp_path / "none.toml")
    assert str(error.value) == f"{tmp_path}/none.toml: cannot be read: No such file or directory"
