"""Cost tables: canonical whatever the form of the log, and equal to a slow reference."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import LogError, UsageError
from heurgen.ir import expr
from heurgen.logs.costs import CostTable, TableColumn, cost_tables
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import Column, DerivedColumn, KernelSpec, LogColumns
from tests.support.logs_reference import SPEC, Row, contents, disguises, reference, rows, write_csv

H200 = Path(__file__).parents[2] / "data" / "h200_unified_attention.csv"
SETTINGS = settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def read(
    files: Sequence[tuple[list[Row], list[str], dict[str, Any]]],
) -> tuple[TuningLog, tuple[CostTable, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            write_csv(Path(folder, f"{i}.csv"), part, columns, **style)
            for i, (part, columns, style) in enumerate(files)
        ]
        log = read_logs(paths, SPEC)
    return log, cost_tables(log, SPEC, group_by="device")


def plain(found: list[Row]) -> list[tuple[list[Row], list[str], dict[str, Any]]]:
    return [(found, list(found[0]), {})]


def same(a: CostTable, b: CostTable, *, ids: bool = True) -> None:
    for field in fields(CostTable):
        one, two = getattr(a, field.name), getattr(b, field.name)
        if field.name == "scenario" and not ids:
            continue
        if isinstance(one, np.ndarray):
            assert one.dtype == two.dtype
            assert one.tobytes() == two.tobytes(), field.name
        else:
            assert one == two, field.name


@SETTINGS
@given(st.data(), st.booleans())
def test_equal_measurements_give_equal_bytes(data: st.DataObject, with_ids: bool) -> None:
    found = data.draw(rows(with_ids=with_ids))
    assume(reference(found))
    log, tables = read(plain(found))
    other, other_tables = read(data.draw(disguises(found)))
    assert other.content_hash == log.content_hash
    assert len(tables) == len(other_tables)
    for a, b in zip(tables, other_tables, strict=True):
        same(a, b, ids=False)


@SETTINGS
@given(st.data(), st.booleans())
def test_equal_to_the_reference(data: st.DataObject, with_ids: bool) -> None:
    found = data.draw(rows(with_ids=with_ids))
    expected = reference(found)
    if not expected:
        with pytest.raises(LogError, match="no config succeeded in any scenario"):
            read(plain(found))
        return
    _, tables = read(plain(found))
    assert [t.vendor for t in tables if t.device_name is None] == sorted(expected)
    for table in tables:
        _check_invariants(table)
        if table.device_name is None:
            actual, wanted = contents(table), expected[table.vendor]
            assert actual["configs"] == wanted["configs"]
            assert actual["rows"] == wanted["rows"]
            assert actual["scenarios"].keys() == wanted["scenarios"].keys()
            for key, (times, noise) in wanted["scenarios"].items():
                assert actual["scenarios"][key][0] == times
                assert actual["scenarios"][key][1] == pytest.approx(noise, rel=1e-12, abs=1e-15)


def _check_invariants(table: CostTable) -> None:
    best = np.nanmin(table.times, axis=1)
    for i, j in np.ndindex(*table.times.shape):
        t, s = table.times[i, j], table.log_slowdown[i, j]
        assert (math.isnan(t) and math.isnan(s)) or s == (
            math.log(t / best[i]) if math.isfinite(t) else math.inf
        )
    order = [
        tuple((v is not None, v or 0 if not isinstance(v, str) else v) for v in c) for c in table.configs
    ]
    assert [c[0] for c in order] == sorted(c[0] for c in order)
    keys = [tuple(x) for x in table.X[:, :4].tolist()]
    assert keys == sorted(keys)
    together = [i for i, c in enumerate(table.columns) if c.name in table.grouped]
    keys = [tuple(x) for x in table.X[:, together].tolist()]
    numbers = {k: i for i, k in enumerate(sorted(set(keys)))}
    assert table.group.tolist() == [numbers[k] for k in keys]
    for i in range(table.n_scenarios):
        row = table.features_of(i)
        assert table.X[i, 4] == expr.evaluate(SPEC.derived[0].expression, row)
    if table.device_name is not None:
        assert set(table.device) == {table.device_name}


def test_the_h200_log() -> None:
    spec = h200_spec()
    log = read_logs([H200], spec)
    (table,) = cost_tables(log, spec)
    assert (table.vendor, table.n_scenarios, table.n_measurements) == ("nvidia", 70, 12312)
    assert table.times.shape == (70, 324)
    assert table.costs_known
    assert np.isfinite(table.times).sum() == 12312
    assert set(table.device) == {"NVIDIA H200"}
    assert table.configs[0] == ("2d", 16, 16, 2, 2, 0)
    assert (table.noise == 0.02).all()
    assert len(log.notes) == 1


def h200_spec() -> KernelSpec:
    ints = ["num_seqs", "total_query_tokens", "max_seqlen_q", "max_seqlen_k"]
    floats = ["avg_seqlen_q", "avg_seqlen_k", "decode_share"]
    knobs = ["BLOCK_M", "TILE_SIZE", "num_warps", "num_stages", "segments"]
    return KernelSpec(
        name="unified_attention",
        features=(*(Column(n, "int") for n in ints), *(Column(n, "float") for n in floats)),
        parameters=(Column("variant", "category"), *(Column(n, "int") for n in knobs)),
    )


# --- small logs by hand -----------------------------------------------------------------------------------

SMALL = KernelSpec("k", (Column("n", "int"),), (Column("BM", "int"),), log=LogColumns(noise=0.05))


def small(tmp_path: Path, lines: str, spec: KernelSpec = SMALL) -> tuple[CostTable, ...]:
    path = tmp_path / "log.csv"
    path.write_text("vendor,device,scenario,n,BM,status,time_ms\n" + lines)
    return cost_tables(read_logs([path], spec), spec, group_by="device")


def test_repeats_are_medians_and_give_the_noise(tmp_path: Path) -> None:
    lines = "nvidia,A,s,1,16,ok,2\nnvidia,A,s,1,16,ok,1\nnvidia,A,s,1,16,ok,9\nnvidia,A,s,1,32,ok,3\n"
    lines += "nvidia,A,s,1,32,ok,5\nnvidia,A,t,2,32,ok,5\n"
    table = small(tmp_path, lines)[0]
    assert table.times.tolist()[0] == [2.0, 4.0]
    assert math.isnan(table.times[1, 0])
    spread = (2 / 4 - 1) ** 2 + (1 / 4 - 1) ** 2 + (9 / 4 - 1) ** 2 + 2 * 0.25**2
    assert table.noise.tolist() == [pytest.approx(math.sqrt(spread / 3), rel=1e-14), 0.05]
    assert table.n_measurements == 6


def test_half_of_the_repeats_failing_is_a_failure(tmp_path: Path) -> None:
    lines = "nvidia,A,s,1,16,ok,2\nnvidia,A,s,1,16,oom,\nnvidia,A,s,1,32,ok,3\n"
    lines += "nvidia,A,s,1,64,ok,4\nnvidia,A,s,1,64,oom,\nnvidia,A,s,1,64,ok,5\n"
    table = small(tmp_path, lines)[0]
    assert table.times.tolist() == [[math.inf, 3.0, 4.5]]
    assert table.log_slowdown.tolist() == [[math.inf, 0.0, math.log(1.5)]]


def test_a_scenario_in_which_nothing_works_is_dropped(tmp_path: Path) -> None:
    lines = "nvidia,A,s,1,16,ok,2\nnvidia,A,s,1,16,oom,\nnvidia,A,t,2,32,ok,3\n"
    lines += "nvidia,B,u,2,64,oom,3\namd,C,v,2,64,oom,3\n"
    path = tmp_path / "log.csv"
    path.write_text("vendor,device,scenario,n,BM,status,time_ms\n" + lines)
    log = read_logs([path], SMALL)
    assert log.notes == (
        f"3 of 4 scenarios dropped: no config succeeded (the first is on line 2 of {path})",
        "every config failed in every scenario on 'B', 'C': a model knows nothing of what works there",
    )
    tables = cost_tables(log, SMALL, group_by="device")
    assert [(t.vendor, t.device_name, t.scenario) for t in tables] == [
        ("nvidia", None, ("t",)),
        ("nvidia", "A", ("t",)),
    ]
    assert tables[0].configs == ((32,),)
    assert tables[0].n_measurements == 1


def test_one_table_per_vendor_and_per_device(tmp_path: Path) -> None:
    lines = "nvidia,B,0,1,16,ok,2\nnvidia,A,0,1,32,ok,3\namd,C,0,3,64,ok,3\nnvidia,A,1,1,64,ok,1\n"
    tables = small(tmp_path, lines)
    assert [(t.vendor, t.device_name, t.n_scenarios) for t in tables] == [
        ("amd", None, 1),
        ("amd", "C", 1),
        ("nvidia", None, 3),
        ("nvidia", "A", 2),
        ("nvidia", "B", 1),
    ]
    assert tables[2].device == ("A", "A", "B")
    assert tables[2].scenario == ("1", "0", "0")  # same features and device: by times, unmeasured first
    assert tables[2].group.tolist() == [0, 0, 0]
    assert not tables[2].costs_known  # a config a scenario: winners only
    assert tables[3].configs == ((32,), (64,))


def test_costs_are_known_once_two_configs_of_a_scenario_were_measured(tmp_path: Path) -> None:
    winners = "nvidia,A,0,1,16,ok,2\nnvidia,A,1,2,16,ok,2\nnvidia,A,1,2,16,ok,2\n"
    assert not small(tmp_path, winners)[0].costs_known
    assert small(tmp_path, winners + "nvidia,A,1,2,32,ok,2\n")[0].costs_known
    # one config runs, and the other does not
    assert small(tmp_path, winners + "nvidia,A,1,2,32,oom,\n")[0].costs_known


def test_a_spec_says_that_gaps_lost_where_costs_are_known(tmp_path: Path) -> None:
    winners, path = "nvidia,A,1,16,2\nnvidia,A,2,16,2\n", tmp_path / "log.csv"
    spec = replace(SMALL, log=replace(SMALL.log, pruned=True))

    def pruned(rows: str, spec: KernelSpec) -> bool:
        path.write_text("vendor,device,n,BM,time_ms\n" + rows)
        return cost_tables(read_logs([path], spec), spec)[0].pruned

    assert pruned(winners + "nvidia,A,1,32,3\n", spec)
    assert not pruned(winners + "nvidia,A,1,32,3\n", SMALL)
    assert not pruned(winners, spec)


def test_columns_and_codes(tmp_path: Path) -> None:
    spec = KernelSpec(
        "k",
        (Column("n", "category", values=("z", "y", "a")), Column("flag", "bool"), Column("free", "category")),
        (Column("BM", "int"),),
    )
    path = tmp_path / "log.csv"
    path.write_text(
        "vendor,device,n,flag,free,BM,time_ms\nnvidia,A,a,true,q,1,1\nnvidia,A,z,0,p,1,1\namd,A,z,0,x,1,1\n"
    )
    amd, nvidia = cost_tables(read_logs([path], spec), spec)
    assert nvidia.columns == (
        TableColumn("n", "category", values=("z", "y", "a")),
        TableColumn("flag", "bool"),
        TableColumn("free", "category", values=("p", "q", "x")),
    )
    assert nvidia.X.tolist() == [[0.0, 0.0, 0.0], [2.0, 1.0, 1.0]]
    assert amd.columns == nvidia.columns
    assert nvidia.features_of(1) == {"n": "a", "flag": True, "free": "q"}
    assert nvidia.config_of(0) == {"BM": 1}


def test_configs_with_none_are_sorted(tmp_path: Path) -> None:
    spec = KernelSpec(
        "k",
        (Column("n", "int"),),
        (Column("m", "category", optional=True), Column("p", "int", optional=True)),
    )
    path = tmp_path / "log.csv"
    body = "".join(
        f"nvidia,A,1,{m},{p},1\n" for m, p in itertools.product(["b", "", "None", "a"], ["10", "", "9"])
    )
    path.write_text("vendor,device,n,m,p,time_ms\n" + body)
    (table,) = cost_tables(read_logs([path], spec), spec)
    assert table.configs == tuple(itertools.product([None, "None", "a", "b"], [None, 9, 10]))


def test_a_derived_feature_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    spec = KernelSpec(
        "k", (Column("n", "float"),), (Column("BM", "int"),), (DerivedColumn("square", expr.parse("n * n")),)
    )
    with pytest.raises(LogError) as error:
        small(tmp_path, "nvidia,A,s,1e200,16,ok,2\n", spec)
    said = "column 'square': the derived feature is inf where n = 1e+200"
    hint = "change it in the spec, or leave the row out"
    assert str(error.value) == f"{tmp_path}/log.csv:2: {said} ({hint})"


def test_what_a_derived_feature_is_made_of_is_told(tmp_path: Path) -> None:
    product = DerivedColumn("product", expr.parse("n * m"))
    spec = KernelSpec("k", (Column("m", "float"), Column("n", "float")), (Column("BM", "int"),), (product,))
    path = tmp_path / "log.csv"
    path.write_text("vendor,device,n,m,BM,time_ms\nnvidia,A,1e200,1e300,16,2\n")
    with pytest.raises(LogError) as error:
        cost_tables(read_logs([path], spec), spec)
    said = "column 'product': the derived feature is inf where m = 1e+300, n = 1e+200"
    assert str(error.value) == f"{path}:2: {said} (change it in the spec, or leave the row out)"


def test_a_derived_feature_is_a_float_that_is_not_given(tmp_path: Path) -> None:
    spec = KernelSpec("k", SMALL.features, SMALL.parameters, (DerivedColumn("square", expr.parse("n * n")),))
    table = small(tmp_path, "nvidia,A,s,3,16,ok,2\n", spec)[0]
    square = TableColumn("square", "float", derived=True, expression=expr.parse("n * n"))
    assert table.columns == (TableColumn("n", "int"), square)
    assert table.X.tolist() == [[3.0, 9.0]]


def test_a_table_for_each_device_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    one, other = "nvidia,A,1,16,2\nnvidia,A,1,32,2\namd,C,1,16,3\n", "nvidia,B,1,16,2\n"
    path.write_text("vendor,device,n,BM,time_ms\n" + one)

    def names(group_by: Any) -> list[tuple[str, str | None]]:
        return [
            (t.vendor, t.device_name) for t in cost_tables(read_logs([path], SMALL), SMALL, group_by=group_by)
        ]

    assert names("auto") == names("vendor") == [("amd", None), ("nvidia", None)]
    assert names("device") == [("amd", None), ("amd", "C"), ("nvidia", None), ("nvidia", "A")]
    path.write_text(path.read_text() + other)
    assert names("auto") == [("amd", None), ("nvidia", None), ("nvidia", "A"), ("nvidia", "B")]


def test_winners_have_no_slowdown_in_a_frame(tmp_path: Path) -> None:
    (table,) = (t for t in small(tmp_path, "nvidia,A,s,1,16,ok,2\n") if t.device_name is None)
    assert not table.costs_known
    assert table.to_frame()["slowdown"].isna().all()


def test_times_scaled_by_a_power_of_two_give_the_same_costs(tmp_path: Path) -> None:
    def table(factor: float) -> CostTable:
        times = [0.3, 0.7, 1.1, 0.299]
        return small(tmp_path, "".join(f"nvidia,A,s,1,{i},ok,{t * factor!r}\n" for i, t in enumerate(times)))[
            0
        ]

    assert table(1).log_slowdown.tobytes() == table(2**-20).log_slowdown.tobytes()


def test_scenarios_that_share_features_are_ordered_by_what_was_measured_not_by_their_ids(
    tmp_path: Path,
) -> None:
    """The order among equal scenarios follows times (unmeasured, then quick), whatever the ids are."""
    columns = (Column("m", "int"),), (Column("B", "int"),)
    spec = KernelSpec("k", *columns, log=LogColumns(scenario="id"))
    times = {"slow": (3.0, 1.0), "quick": (1.0, 3.0), "none": (None, 2.0)}
    orders = []
    for names in (("a", "b", "c"), ("c", "b", "a")):
        ids = dict(zip(times, names, strict=True))
        lines = [
            f"nvidia,D,{ids[k]},5,{16 * (i + 1)},{t}"
            for k, pair in times.items()
            for i, t in enumerate(pair)
            if t is not None
        ]
        path = tmp_path / f"{names[0]}.csv"
        path.write_text("vendor,device,id,m,B,time_ms\n" + "\n".join(lines) + "\n")
        table = cost_tables(read_logs([path], spec), spec)[0]
        back = {v: k for k, v in ids.items()}
        orders.append([back[i] for i in table.scenario])
    assert orders == [["none", "quick", "slow"]] * 2


@pytest.mark.parametrize("group_by", ["devices", "", None, 1])
def test_a_grouping_that_does_not_exist_is_refused(group_by: Any, tmp_path: Path) -> None:
    spec = KernelSpec("k", (Column("m", "int"),), (Column("B", "int"),))
    (tmp_path / "log.csv").write_text("vendor,device,m,B,time_ms,status\nnvidia,D,5,16,1,ok\n")
    log = read_logs([tmp_path / "log.csv"], spec)
    with pytest.raises(UsageError) as caught:
        cost_tables(log, spec, group_by=group_by)
    assert str(caught.value) == f"unknown group_by '{group_by}' (one of auto, vendor, device)"


def test_a_table_of_pandas_is_read_first() -> None:
    spec = KernelSpec("k", (Column("m", "int"),), (Column("B", "int"),))
    frame: Any = pd.DataFrame({"m": [5], "B": [16], "time_ms": [1.0]})
    with pytest.raises(UsageError) as caught:
        cost_tables(frame, spec)
    said = "the log is a DataFrame, expected what read_logs gives (read_logs takes files and pandas tables)"
    assert str(caught.value) == said


@pytest.mark.parametrize("role", ["features", "parameters"])
@pytest.mark.parametrize("told", ["n (int), m (int)", "m (int), n (float)", "m (int)"])
def test_a_log_is_of_the_spec_that_it_was_read_with(role: str, told: str, tmp_path: Path) -> None:
    """Columns are found by their places: with two of them swapped, n of the model would be m of the log."""
    one, two = (Column("m", "int"), Column("n", "int")), (Column("B", "int"),)
    spec = KernelSpec("k", one, two) if role == "features" else KernelSpec("k", two, one)
    given = (column.rstrip(")").split(" (") for column in told.split(", "))
    other = tuple(Column(name, cast(Any, kind)) for name, kind in given)
    (tmp_path / "log.csv").write_text("vendor,device,m,n,B,time_ms,status\nnvidia,D,5,6,16,1,ok\n")
    log = read_logs([tmp_path / "log.csv"], spec)
    cost_tables(log, replace(spec, name="another", derived=(), group=()))
    with pytest.raises(UsageError) as caught:
        cost_tables(log, replace(spec, **{role: other}))
    assert str(caught.value) == (
        f"the log was read with a spec of the {role} m (int), n (int), not {told} "
        "(read_logs(..., spec) reads it with this one)"
    )
