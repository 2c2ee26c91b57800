"""advise: what it recommends, why, and that `heurgen tune` can read it."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from heurgen import ir
from heurgen.audit.advise import advise
from heurgen.audit.advise.rank import Measured, next_scenarios, order, promising, regrets
from heurgen.audit.advise.scale import as_matrix, base_columns, scale_over
from heurgen.audit.advise.traffic import read_traffic
from heurgen.audit.advise.workload import to_workload
from heurgen.base.errors import LogError
from heurgen.cli import main
from heurgen.ir.schema import to_json
from heurgen.logs.costs import TableColumn, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import LOG, SPEC, load, module_of
from tests.support import logs

COLUMNS = (TableColumn("m", "float"), TableColumn("dtype", "category", values=("a", "b")))


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], catch_exceptions=False)


def test_distance_is_per_span_and_categories_differ_by_one() -> None:
    X = np.array([[0.0, 0], [10.0, 0], [5.0, 1]])
    space = scale_over(COLUMNS, X)
    found = space.distances(space.points(X), space.points(X))
    assert found[0].tolist() == [0.0, 1.0, math.sqrt(0.25 + 1)]
    wide = scale_over(COLUMNS[:1], np.array([[1.0], [100.0]]))
    assert wide.points(np.array([[10.0]]))[0, 0] == pytest.approx(0.5)


def test_far_scenarios_and_those_whose_neighbours_disagree_come_first() -> None:
    X = np.array([[0.0, 0], [1.0, 0], [9.0, 0], [10.0, 0]])
    space = scale_over(COLUMNS, X)
    costs = np.array([[0.0, 0.5], [0.0, 0.5], [0.5, 0.0], [0.5, 0.0]])
    known = Measured(space.points(X), costs)
    pool = space.points(np.array([[2.0, 0], [8.0, 0], [5.0, 0]]))
    zero = np.zeros(3, dtype=np.int64)
    regret = regrets(space, known, pool, zero)
    assert regret[0] < regret[2] < regret[1] < 0.5
    taken = [i for i, *_ in order(space, known, pool, zero, 3)]
    assert taken[0] == 2
    right = order(space, known, pool[:2], zero[:2], 2)
    assert [i for i, *_ in right] == [1, 0]
    weighted = order(space, known, pool[:2], zero[:2], 1, np.array([9.0, 1.0]))
    assert weighted[0][0] == 0


def test_a_batch_spreads_out() -> None:
    X = np.array([[0.0, 0]])
    pool = np.array([[10.0, 0], [9.9, 0], [5.0, 0]])
    space = scale_over(COLUMNS, np.vstack([X, pool]))
    assert next_scenarios(space, X, np.zeros((1, 1)), pool, np.zeros(3, dtype=np.int64), 2) == [0, 2]


def test_promising_configs_were_near_the_best_somewhere_near() -> None:
    costs = np.array([[0.0, 0.05, 0.5, np.nan], [0.3, 0.0, 0.5, np.inf], [0.0, 0.0, 0.0, 0.0]])
    assert promising(costs, [0, 1]) == [1, 0]


@pytest.fixture(scope="module")
def h200() -> tuple[ir.HeuristicModule, list[object]]:
    spec, log, tables = load()
    return module_of(spec, log, tables), [spec, tables[0]]


def test_advice_is_new_explained_and_within_the_spec(h200: tuple[ir.HeuristicModule, list[object]]) -> None:
    module, (spec, table) = h200[0], h200[1]
    found = advise(module, table, spec, 12)  # type: ignore[arg-type]
    assert len(found) == 12
    assert [a.score for a in found] == sorted((a.score for a in found), reverse=True)
    fresh = [a for a in found if not a.scenario]
    assert len(fresh) >= 9
    base = base_columns(table)  # type: ignore[arg-type]
    measured = table.X[:, : len(base)].tolist()  # type: ignore[attr-defined]
    for advice in fresh:
        assert as_matrix(base, [advice.features])[0].tolist() not in measured
        assert advice.features["max_seqlen_q"] <= advice.features["max_seqlen_k"]
        assert advice.reasons
        assert 1 <= len(advice.configs) <= 48
    assert any("between the sides of" in r for a in fresh for r in a.reasons)


def test_the_workload_is_toml_that_says_what_to_measure(
    h200: tuple[ir.HeuristicModule, list[object]],
) -> None:
    module, (spec, table) = h200[0], h200[1]
    found = advise(module, table, spec, 6)  # type: ignore[arg-type]
    text = to_workload(found, module.kernel, "nvidia")
    data = tomllib.loads(text)["scenario"]
    assert len(data) == 6
    assert len({s["id"] for s in data}) == 6
    for scenario, advice in zip(data, found, strict=True):
        assert {k: scenario[k] for k in advice.features} == dict(advice.features)
        assert scenario["configs"] == [dict(c) for c in advice.configs]
    assert to_workload(advise(module, table, spec, 6), module.kernel, "nvidia") == text  # type: ignore[arg-type]


def test_the_tuner_reads_the_workload(h200: tuple[ir.HeuristicModule, list[object]]) -> None:
    workloads = pytest.importorskip("heurgen.tune.workloads")
    module, (spec, table) = h200[0], h200[1]
    found = advise(module, table, spec, 6)  # type: ignore[arg-type]
    types = {f.name: f.type for f in module.features}
    data = tomllib.loads(to_workload(found, module.kernel, "nvidia"))
    scenarios = workloads.make_scenarios(data, types)
    assert [s.id for s in scenarios] == [s["id"] for s in data["scenario"]]
    assert all(s.configs for s in scenarios)


def test_hostile_strings_in_the_workload_stay_strings() -> None:
    from heurgen.audit.advise import Advice

    evil = 'a"\n[[scenario]]\nid = "x"\u202e\x00'
    text = to_workload([Advice({"dtype": evil, "ok": True}, ({"v": evil},), 1.0, (evil,), evil)], evil, "amd")
    (scenario,) = tomllib.loads(text)["scenario"]
    assert (scenario["id"], scenario["dtype"], scenario["configs"][0]["v"]) == (evil, evil, evil)


def small(folder: Path, cells: list[list[str]] | None = None) -> tuple[Path, Path, Path]:
    log, spec = logs.write(folder, cells)
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    model = folder / "model.json"
    model.write_text(to_json(module_of(kernel, read, cost_tables(read, kernel))))
    return log, spec, model


def test_unmeasured_cells_that_could_win_are_named(tmp_path: Path) -> None:
    rows = logs.rows(24, ["nvidia"])
    position = {name: i for i, name in enumerate(logs.HEADER)}
    best: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row[position["status"]] == "ok":
            key = tuple(row[position[n]] for n in ("m", "k", "density"))
            if key not in best or float(row[-1]) < float(best[key][-1]):
                best[key] = row
    hidden = best[sorted(best)[3]]
    log, spec, model = small(tmp_path, [r for r in rows if r is not hidden])
    words = ("advise", model, log, "--spec", spec, "-n", 40, "--json")
    found = json.loads(run(*words).stdout)["scenarios"]
    named = [a for a in found if any("could win" in r for r in a["reasons"])]
    wanted = {n: int(hidden[position[n]]) for n in ("BLOCK_M", "num_warps")}
    assert [a["features"]["k"] for a in named] == [int(hidden[position["k"]])]
    assert wanted in named[0]["configs"]


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
    assert "real traffic, 95 % of it" in first["reasons"]
    assert "m lies outside the training range" in first["reasons"]
    assert "2 rows skipped, torn or not within the spec" in result.stderr
    data = tomllib.loads(run(*words).stdout)["scenario"]
    assert data[0]["m"] == 100000


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


def test_a_vendor_is_chosen_and_said(tmp_path: Path) -> None:
    log, spec, model = small(tmp_path)
    result = run("advise", model, log, "--spec", spec, "-n", 2)
    assert "note: the logs hold amd, nvidia: choose with --vendor" in result.stderr
    refused = run("advise", model, log, "--spec", spec, "--vendor", "intel")
    assert refused.exit_code == 2
    assert "error: the logs hold no scenario of intel (the model knows amd, nvidia)" in refused.stderr


def test_winners_only_logs_get_advice_too(tmp_path: Path) -> None:
    best: dict[str, list[str]] = {}
    for row in logs.rows(24, ["nvidia"]):
        key = ",".join(row[2:6])
        if row[-2] == "ok" and (key not in best or float(row[-1]) < float(best[key][-1])):
            best[key] = row
    log, spec, model = small(tmp_path, list(best.values()))
    data = json.loads(run("advise", model, log, "--spec", spec, "-n", 5, "--json").stdout)
    assert len(data["scenarios"]) == 5


def test_advice_beats_random_order_on_the_h200_log() -> None:
    """The proof is benchmarks/advise.py, with heurgen's own learner; here a greedy tree, cheap enough to fit often."""
    _, _, (table,) = load()
    costs = np.where(np.isfinite(table.log_slowdown), table.log_slowdown, math.log(3.0))
    base = base_columns(table)
    space = scale_over(base, table.X)
    won = []
    for seed in range(20):
        order_ = np.random.RandomState(seed).permutation(table.n_scenarios)
        test, pool = order_[:21], order_[21:].tolist()
        areas = []
        for advised in (False, True):
            have, rest, losses = pool[:20], pool[20:], []
            while True:
                chosen = greedy(table.X, costs, np.array(have))
                losses.append(float(costs[test, chosen[test]].mean()))
                if not rest:
                    break
                n = min(3, len(rest))
                picked = next_scenarios(
                    space, table.X[have], table.log_slowdown[have], table.X[rest], chosen[rest], n
                )
                taken = [rest[i] for i in picked] if advised else rest[:n]
                have, rest = have + taken, [r for r in rest if r not in taken]
            areas.append(float(np.mean(losses)))
        won.append(areas[0] - areas[1])
    assert np.mean(won) > 0
    t = np.mean(won) / (np.std(won, ddof=1) / math.sqrt(len(won)))
    assert t > 1.729  # one-sided 5 % with 19 degrees of freedom


def greedy(X: np.ndarray, costs: np.ndarray, rows: np.ndarray, depth: int = 5) -> np.ndarray:
    """The config that a greedy slowdown tree on some rows chooses for every row."""
    chosen = np.empty(len(X), dtype=np.int64)

    def grow(train: np.ndarray, apply: np.ndarray, level: int) -> None:
        best: tuple[float, int, float] | None = None
        here = costs[train].sum(axis=0).min()
        for f in range(X.shape[1] if level else 0):
            order_ = train[np.argsort(X[train, f], kind="stable")]
            values, sums = X[order_, f], np.cumsum(costs[order_], axis=0)
            cut = sums[:-1].min(axis=1) + (sums[-1] - sums[:-1]).min(axis=1)
            n = np.arange(1, len(order_))
            cut = np.where((values[:-1] < values[1:]) & (n >= 2) & (len(order_) - n >= 2), cut, np.inf)
            if len(cut) and cut.min() < here - 0.02 and (best is None or cut.min() < best[0] - 1e-12):
                j = int(cut.argmin())
                best = (float(cut[j]), f, float((values[j] + values[j + 1]) / 2))
        if best is None:
            chosen[apply] = costs[train].sum(axis=0).argmin()
            return
        _, f, t = best
        for side in (True, False):
            grow(train[(X[train, f] <= t) == side], apply[(X[apply, f] <= t) == side], level - 1)

    grow(rows, np.arange(len(X)), depth)
    return chosen


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    spec, log, tables = load()
    model = tmp_path / "m.json"
    model.write_text(to_json(module_of(spec, log, tables)))
    out = tmp_path / "next.toml"
    result = run("advise", model, LOG, "--spec", SPEC, "-n", 3, "-o", out)
    assert result.stdout == f"wrote {out}: 3 scenarios\n"
    assert len(tomllib.loads(out.read_text())["scenario"]) == 3
