"""Launches of real traffic."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from heurgen.audit.advise.traffic import read_traffic
from heurgen.base.errors import LogError
from heurgen.spec.kernel_spec import parse_spec, read_spec
from tests.audit.learner import small
from tests.support import logs
from tests.support.commands import run


def test_real_traffic_comes_first_and_torn_rows_are_skipped(tmp_path: Path) -> None:
    log, spec, model = small(tmp_path)
    traffic = tmp_path / "traffic.csv"
    lines = ["vendor,m,k,density,dtype,count", "nvidia,100000,5,0.5,float16,900", "amd,7,5,0.5,float16,900"]
    traffic.write_text(
        "\n".join([*lines, "nvidia,32,77,0.25,bfloat16,50", "nvidia,32,7", "nvidia,nan,7,0,x,1", lines[0]])
    )
    words = ("advise", model, log, "--spec", spec, "--vendor", "nvidia", "--traffic", traffic, "-n", 3)
    result = run(*words, "--json")
    first = json.loads(result.stdout)["scenarios"][0]
    assert first["features"] == {"m": 100000, "k": 5, "density": 0.5, "dtype": "float16"}
    assert "real traffic, 94.7 % of it" in first["reasons"]
    assert "m lies outside the training range" in first["reasons"]
    why = "line 5: it has another number of cells than the header"
    assert f"2 rows skipped, torn or not within the spec, first {why}" in result.stderr
    data = tomllib.loads(run(*words).stdout)["scenario"]
    assert data[0]["m"] == 100000


def test_other_launches_count_for_what_they_say_of_the_traffic(tmp_path: Path) -> None:
    """Traffic near what was measured comes before launches that no server makes, however little is known of these."""
    log, spec, model = small(tmp_path)
    traffic = tmp_path / "traffic.csv"
    traffic.write_text("m,k,density,dtype,count\n40,5000,0.5,float16,90\n44,5200,0.5,float16,50\n")
    words = ("advise", model, log, "--spec", spec, "--vendor", "nvidia", "-n", 6, "--json")
    told = json.loads(run(*words, "--traffic", traffic).stdout)["scenarios"]
    assert [a["reasons"][0] for a in told[:2]] == ["real traffic, 64.3 % of it", "real traffic, 35.7 % of it"]
    assert {a["features"]["dtype"] for a in told} == {"float16"}
    untold = json.loads(run(*words).stdout)["scenarios"]
    assert {a["features"]["dtype"] for a in untold} == {"float16", "bfloat16"}


def test_observed_rows_of_other_vendors_are_left_out_whatever_the_log_calls_the_column(
    tmp_path: Path,
) -> None:
    kernel = '[kernel]\nname = "k"\n[features]\nm = { type = "int" }\n[parameters]\nB = { type = "int" }\n'
    spec = parse_spec(kernel + '[log]\nvendor = "gpu_vendor"\n', "spec.toml")
    for column in ("vendor", "gpu_vendor"):
        traffic = tmp_path / f"{column}.csv"
        traffic.write_text(f"{column},m,count\nnvidia,8,1\namd,16,1\n")
        assert read_traffic([str(traffic)], spec, "nvidia").rows == ({"m": 8},)


@pytest.mark.parametrize(
    ("counts", "shares"),
    [((1,), {"100.0 %"}), ((10_000, 1), {"100.0 %", "under 0.1 %"}), ((90, 1), {"98.9 %", "1.1 %"})],
)
def test_shares_of_traffic_are_read_without_exponents(
    tmp_path: Path, counts: tuple[int, ...], shares: set[str]
) -> None:
    log, spec, model = small(tmp_path)
    traffic = tmp_path / "traffic.csv"
    rows = (f"{100_000 * (i + 1)},{5 + 90_000 * i},0.5,float16,{count}\n" for i, count in enumerate(counts))
    traffic.write_text("m,k,density,dtype,count\n" + "".join(rows))
    words = ("advise", model, log, "--spec", spec, "--vendor", "nvidia", "-n", 60, "--json")
    told = json.loads(run(*words, "--traffic", traffic).stdout)["scenarios"]
    reasons = [a["reasons"][0] for a in told if a["reasons"][0].startswith("real traffic")]
    assert {reason.removeprefix("real traffic, ").removesuffix(" of it") for reason in reasons} == shares


def test_measured_scenarios_take_no_place_from_traffic_that_is_worth_more(tmp_path: Path) -> None:
    cells = logs.rows(24, ["nvidia"])
    best = min((row for row in cells if row[-2] == "ok"), key=lambda row: float(row[-1]))
    log, spec, model = small(tmp_path, [row for row in cells if row is not best])
    traffic = tmp_path / "traffic.csv"
    rows = [f"{m},{k},0.25,bfloat16,10" for m in (3, 900, 70000) for k in (11, 3000, 900000)]
    traffic.write_text("\n".join(["m,k,density,dtype,count", *rows]) + "\n")
    words = ("advise", model, log, "--spec", spec, "--vendor", "nvidia", "--traffic", traffic, "--json")
    told = json.loads(run(*words, "-n", 40).stdout)["scenarios"]
    assert any("could win" in r for a in told for r in a["reasons"])
    first = json.loads(run(*words, "-n", 8).stdout)["scenarios"]
    assert first == told[:8]
    assert all(a["reasons"][0].startswith("real traffic") for a in first)


def test_traffic_of_observe_is_read_back(tmp_path: Path) -> None:
    from heurgen.ir.schema import read_model
    from heurgen.render.python import render_python
    from heurgen.runtime import observe

    _, spec, model = small(tmp_path)
    space: dict[str, object] = {"__name__": "generated_for_traffic"}
    exec(compile(render_python(read_model(model)), "generated", "exec"), space)
    path = tmp_path / "seen.csv"
    watched = observe(space["SELECTORS"]["amd"], sample=0.5, path=path)  # type: ignore[index]
    for m in (16, 32, 64, 10**6):
        watched(m, 5000, 0.5, "float16")
    found = read_traffic([str(path)], read_spec(spec), "amd")
    assert [(r["m"], c) for r, c in zip(found.rows, found.counts, strict=True)] == [(32, 2.0), (10**6, 3.0)]


@pytest.mark.parametrize("between", [",", ";", "\t", ", "])
def test_a_file_of_ones_own_is_read_as_a_log_is(between: str, tmp_path: Path) -> None:
    """With semicolons, as spreadsheets write them, its header "lacked" the first feature."""
    _, spec, _ = small(tmp_path)
    path = tmp_path / "mine.csv"
    lines = ["m,k,density,dtype,count", "5,2,0.5,float16,3", "torn,1", '7,2,0.5,"float16",1']
    path.write_text("\n".join(lines).replace(",", between))
    found = read_traffic([str(path)], read_spec(spec), "amd")
    assert [(r["m"], c) for r, c in zip(found.rows, found.counts, strict=True)] == [(5, 3.0), (7, 1.0)]


def test_traffic_errors(tmp_path: Path) -> None:
    _, spec, _ = small(tmp_path)
    bad = tmp_path / "bad.csv"
    bad.write_text("m,k,density\n1,2,0.5\n")
    with pytest.raises(LogError) as error:
        read_traffic([str(bad)], read_spec(spec), "amd")
    assert str(error.value) == (
        f"{bad}:1: column 'dtype': the header lacks this feature "
        "(traffic has a column for every feature of the spec, and a column `count`)"
    )
    bad.write_text("m,k,density,dtype\n")
    with pytest.raises(LogError, match="holds no scenario of amd that fits the spec"):
        read_traffic([str(bad)], read_spec(spec), "amd")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (
            "m,k,density,dtype,count\n1.5,2,0.5,a,1\n",
            "column 'm': found '1.5', expected a whole number such as 16",
        ),
        ("m,k,density,dtype,count\n1,2,0.5,a,-3\n", "column 'count': found '-3', expected a number above 0"),
        ("m,k,density,dtype\n1,2\n", "it has another number of cells than the header"),
    ],
)
def test_where_no_row_fits_the_first_says_why(tmp_path: Path, rows: str, why: str) -> None:
    _, spec, _ = small(tmp_path)
    path = tmp_path / "traffic.csv"
    path.write_text(rows)
    with pytest.raises(LogError) as error:
        read_traffic([str(path)], read_spec(spec), "amd")
    assert str(error.value) == f"{path}: holds no scenario of amd that fits the spec (line 2: {why})"


def test_a_feature_that_the_header_names_twice_is_refused(tmp_path: Path) -> None:
    """The last of them counted."""
    _, spec, _ = small(tmp_path)
    path = tmp_path / "traffic.csv"
    path.write_text("m,k,density,dtype,m\n1,2,0.5,a,9\n")
    with pytest.raises(LogError) as error:
        read_traffic([str(path)], read_spec(spec), "amd")
    said = "cells 1 and 5 of the header have the same name (rename or remove one)"
    assert str(error.value) == f"{path}:1: column 'm': {said}"
