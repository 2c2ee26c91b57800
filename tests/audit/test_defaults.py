"""Today's defaults, by config, by column, by themselves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from heurgen.audit.defaults import read_defaults
from heurgen.base.errors import HeurgenError
from heurgen.ir.schema import to_json
from heurgen.logs.cells import read_cells
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import module_of
from tests.support import logs
from tests.support.commands import run


def test_defaults_by_config_by_column_and_by_themselves(tmp_path: Path) -> None:
    rows = logs.rows(24, ["nvidia"])
    place = {n: i for i, n in enumerate(logs.HEADER)}
    wanted = [r[place["BLOCK_M"]] == "64" and r[place["num_warps"]] == "4" for r in rows]
    log, spec = tmp_path / "log.csv", tmp_path / "kernel.toml"
    spec.write_text(logs.SPEC)
    marked = [[*r, "true" if w else "false"] for r, w in zip(rows, wanted, strict=True)]
    log.write_text(logs.text(marked, [*logs.HEADER, "default"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    by_column = read_defaults(None, read_cells([log]), read, kernel, tables)
    by_config = read_defaults("BLOCK_M=64,num_warps=4", read_cells([log]), read, kernel, tables)
    assert by_column is not None
    assert by_config is not None
    assert by_column.columns["nvidia"].tolist() == by_config.columns["nvidia"].tolist()
    config = tables[0].configs[by_config.columns["nvidia"][0]]
    assert dict(zip(tables[0].parameters, config, strict=True)) == {"BLOCK_M": 64, "num_warps": 4}
    module = tmp_path / "m.json"
    module.write_text(to_json(module_of(kernel, read, tables)))
    out = tmp_path / "r.html"
    assert run("audit", module, log, "--spec", spec, "--html", out).exit_code == 0
    assert "today’s defaults" in out.read_text()
    slow = math.exp(float(np.mean(tables[0].log_slowdown[:, by_config.columns["nvidia"][0]])))
    for words in (("--default", "BLOCK_M=64,num_warps=4"), ("--default", "default"), ("--html", out)):
        found = run("audit", module, log, "--spec", spec, *words)
        assert [line.split()[:4] for line in found.stdout.splitlines() if "today" in line] == [
            ["today's", "defaults,", "nvidia", f"{slow:.4f}"]
        ]
    data = json.loads(run("audit", module, log, "--spec", spec, "--default", "default", "--json").stdout)
    assert data["defaults"]["nvidia"]["geomean_slowdown"] == pytest.approx(slow)
    assert "defaults" not in json.loads(run("audit", module, log, "--spec", spec, "--json").stdout)


def test_a_parameter_of_one_vendor_says_nothing_about_the_others(tmp_path: Path) -> None:
    """One config for both: waves_per_eu is AMD's, and NVIDIA's configs have none."""
    spec, log = tmp_path / "kernel.toml", tmp_path / "log.csv"
    spec.write_text(
        '[kernel]\nname = "k"\n[features]\nm = { type = "int" }\n[parameters]\nBLOCK = { type = "int" }\n'
        'waves = { type = "int", optional = true }\nnone = { type = "int", optional = true }\n'
    )
    cells = [f"nvidia,A,1,{b},,,ok,{b}" for b in (16, 32)]
    cells += [f"amd,B,1,{b},{w},,ok,{b + w}" for b in (16, 32) for w in (0, 2)]
    log.write_text("vendor,device,m,BLOCK,waves,none,status,time_ms\n" + "\n".join(cells) + "\n")
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    found = read_defaults("BLOCK=32,waves=2", read_cells([log]), read, kernel, tables)
    assert found is not None
    assert {t.vendor: t.configs[found.columns[t.vendor][0]] for t in tables} == {
        "amd": (32, 2, None),
        "nvidia": (32, None, None),
    }
    with pytest.raises(HeurgenError, match="fits no config"):  # a value that no vendor's configs have
        read_defaults("BLOCK=32,waves=2,none=1", read_cells([log]), read, kernel, tables)


@pytest.mark.parametrize("as_parameter", [True, False])
def test_another_column_of_that_name_is_no_default(tmp_path: Path, as_parameter: bool) -> None:
    """A page of such a log is made; only who names the column is told that it is none."""
    header = (
        "vendor,device,m,default,status,time_ms\n"
        if as_parameter
        else "vendor,device,m,B,default,status,time_ms\n"
    )
    rows = "".join(f"nvidia,H200,1,{b},{'' if as_parameter else 'x,'}ok,{1 + b}\n" for b in (0, 1))
    parameter = 'default = { type = "bool" }' if as_parameter else 'B = { type = "bool" }'
    log, spec = tmp_path / "log.csv", tmp_path / "kernel.toml"
    log.write_text(header + rows)
    spec.write_text(f'[kernel]\nname = "k"\n[features]\nm = {{ type = "int" }}\n[parameters]\n{parameter}\n')
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    assert read_defaults(None, read_cells([log]), read, kernel, tables) is None
    if not as_parameter:
        with pytest.raises(HeurgenError, match="found 'x', expected true or false"):
            read_defaults("default", read_cells([log]), read, kernel, tables)


def test_a_default_that_was_measured_nowhere_is_an_error_without_a_page_too(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path, logs.rows(24, ["nvidia"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    (tmp_path / "m.json").write_text(to_json(module_of(kernel, read, cost_tables(read, kernel))))
    result = run("audit", tmp_path / "m.json", log, "--spec", spec, "--default", "nonsense=1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: --default: 'nonsense=1' sets no parameter" in result.stderr


def test_defaults_are_shown_beside_vendors_of_the_model_alone(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path, logs.rows(24, ["nvidia", "amd"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = [t for t in cost_tables(read, kernel) if t.vendor == "nvidia"]
    (tmp_path / "m.json").write_text(to_json(module_of(kernel, read, tables)))
    given = ("--default", "BLOCK_M=64,num_warps=4", "--json")
    result = run("audit", tmp_path / "m.json", log, "--spec", spec, *given)
    assert result.exit_code == 0, result.stderr
    assert list(json.loads(result.stdout)["defaults"]) == ["nvidia"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BLOCK_M=64", "--default 'BLOCK_M=64' fits 2 configs of nvidia (give a value for every parameter: BLOCK_M, "
         "num_warps)"),
        ("BLOCK=64", "--default: 'BLOCK=64' sets no parameter (expected name=value with BLOCK_M, num_warps, "
         "waves_per_eu, or the name of a column of the log)"),
        ("BLOCK_M=65,num_warps=4", "--default 'BLOCK_M=65,num_warps=4' fits no config that the logs measured"),
        ("shipped", "column 'shipped': no log has this column of defaults (columns of true and false: none; name one "
         "that is true where today's default is measured, or a config: BLOCK_M=16,...)"),
    ],
)  # fmt: skip
def test_bad_defaults_are_refused(tmp_path: Path, text: str, message: str) -> None:
    log, spec = logs.write(tmp_path, logs.rows(24, ["nvidia"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    with pytest.raises(HeurgenError) as error:
        read_defaults(text, read_cells([log]), read, kernel, cost_tables(read, kernel))
    assert str(error.value) == message


def test_columns_that_could_mark_the_defaults_are_named(tmp_path: Path) -> None:
    rows = [[*r, "true" if i % 5 else "false", str(i % 2)] for i, r in enumerate(logs.rows(24, ["nvidia"]))]
    log, spec = tmp_path / "log.csv", tmp_path / "kernel.toml"
    log.write_text(logs.text(rows, [*logs.HEADER, "shipped", "flag"]))
    spec.write_text(logs.SPEC)
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    with pytest.raises(HeurgenError, match="columns of true and false: shipped, flag; name one"):
        read_defaults("shiped", read_cells([log]), read, kernel, cost_tables(read, kernel))


def test_two_defaults_of_a_scenario_are_told_by_their_line(tmp_path: Path) -> None:
    rows = [[*r, "true" if i in (0, 1) else "false"] for i, r in enumerate(logs.rows(24, ["nvidia"]))]
    log, spec = tmp_path / "log.csv", tmp_path / "kernel.toml"
    spec.write_text(logs.SPEC)
    log.write_text(logs.text(rows, [*logs.HEADER, "default"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    with pytest.raises(HeurgenError, match=r"log\.csv:3: this scenario has two different defaults"):
        read_defaults("default", read_cells([log]), read, kernel, cost_tables(read, kernel))


def test_a_table_with_a_column_a_config_has_no_column_of_defaults(tmp_path: Path) -> None:
    """Its rows are launches: the third was taken for the log's third measurement, of the first launch."""
    log, spec = tmp_path / "wide.csv", tmp_path / "wide.toml"
    log.write_text("device,M,default,B=16,B=32\n" + "".join(f"H200,{m},false,1,2\n" for m in (1, 2)))
    log.write_text(log.read_text() + "H200,3,true,1,2\n")
    spec.write_text(
        '[kernel]\nname = "k"\n[features]\nM = { type = "int" }\n[parameters]\nB = { type = "int" }\n'
        '[log]\nvendor = { const = "nvidia" }\n[log.wide]\n"B=16" = { B = "16" }\n"B=32" = { B = "32" }\n'
    )
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    assert read_defaults(None, read_cells([log]), read, kernel, tables) is None
    with pytest.raises(HeurgenError, match="a table with a column a config has no column of defaults"):
        read_defaults("default", read_cells([log]), read, kernel, tables)
    named = read_defaults("B=32", read_cells([log]), read, kernel, tables)
    assert named is not None
    assert named.columns["nvidia"].tolist() == [1, 1, 1]
