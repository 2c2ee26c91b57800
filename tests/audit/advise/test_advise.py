"""advise: what it recommends, why, and that `heurgen tune` can read it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from heurgen.audit.advise import advise
from heurgen.audit.advise.scale import as_matrix, base_columns
from heurgen.ir import HeuristicModule
from heurgen.ir.schema import to_json
from heurgen.logs.costs import CostTable, cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from heurgen.ship.training import train
from heurgen.spec.kernel_spec import KernelSpec, parse_spec
from tests.audit.learner import LOG, SPEC, h200, load, small
from tests.support import logs
from tests.support.commands import run


def test_advice_is_new_explained_and_within_the_spec() -> None:
    spec, _, (table,) = load()
    found = advise(h200(), table, spec, 12)
    assert len(found) == 12
    assert [a.score for a in found] == sorted((a.score for a in found), reverse=True)
    fresh = [a for a in found if not a.scenario]
    assert len(fresh) >= 9
    base = base_columns(table)
    measured = table.X[:, : len(base)].tolist()
    for advice in fresh:
        assert as_matrix(base, [advice.features])[0].tolist() not in measured
        assert advice.features["max_seqlen_q"] <= advice.features["max_seqlen_k"]
        assert advice.reasons
        assert 1 <= len(advice.configs) <= 48
    assert any("between the sides of" in r for a in fresh for r in a.reasons)


def by_device(folder: Path) -> tuple[KernelSpec, CostTable, HeuristicModule]:
    """Two devices, each of which wants one of two configs everywhere: a selector of its own answers for each."""
    lines = ["vendor,device,m,BLOCK,status,time_ms"]
    for m in range(1, 401, 10):
        times = {("A", 16): 1, ("A", 32): 3, ("B", 16): 3, ("B", 32): 1}
        lines += [f"nvidia,{device},{m},{block},ok,{m * t}" for (device, block), t in times.items()]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    features, parameters = "m = { type = 'int' }", "BLOCK = { type = 'int' }"
    spec = parse_spec(f"[kernel]\nname = 'k'\n[features]\n{features}\n[parameters]\n{parameters}\n", "k.toml")
    log = read_logs(folder / "log.csv", spec)
    return spec, cost_tables(log, spec)[0], train(log, spec)


def test_the_selector_of_the_device_is_what_loses(tmp_path: Path) -> None:
    """Not the one for all devices, which answers for neither of these."""
    spec, table, module = by_device(tmp_path)
    assert [s.device for s in module.selectors] == [None, "A", "B"]
    found = advise(module, table, spec, 5)
    assert len(found) == 5
    assert not any("loses" in reason for a in found for reason in a.reasons)
    assert all({c["BLOCK"] for c in a.configs} == {16, 32} for a in found)


def test_a_launch_is_advised_once(tmp_path: Path) -> None:
    """Also where more are asked for than there are."""
    spec, table, module = by_device(tmp_path)
    found = [tuple(a.features.values()) for a in advise(module, table, spec, 10_000)]
    assert len(set(found)) == len(found) == 10


def test_a_module_does_not_carry_counts_so_that_no_leaf_is_called_sparse() -> None:
    spec, _, (table,) = load()
    module = read_module(render_python(h200()))
    told = [r for a in advise(module, table, spec, 12) for r in a.reasons]
    assert told
    assert not any("rests on" in reason for reason in told)
    assert any("rests on" in r for a in advise(h200(), table, spec, 12) for r in a.reasons)


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


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    model.write_text(to_json(h200()))
    out = tmp_path / "next.toml"
    result = run("advise", model, LOG, "--spec", SPEC, "-n", 3, "-o", out)
    assert result.stdout == f"wrote {out}: 3 scenarios\n"
    assert len(tomllib.loads(out.read_text())["scenario"]) == 3


def test_a_feature_that_the_log_got_since_is_advised_to_a_model_without_it(tmp_path: Path) -> None:
    """As `audit` has it; it was an error that no file was named in: "'page' is no feature"."""
    log, spec, model = small(tmp_path, logs.rows(24, ["nvidia"]))
    header, *lines = Path(log).read_text().splitlines()
    rows = [f"{line},{i % 5}" for i, line in enumerate(lines)]
    Path(log).write_text("\n".join([f"{header},page", *rows]) + "\n")
    text = Path(spec).read_text().replace("[features]\n", "[features]\npage = { type = 'int' }\n")
    Path(spec).write_text(text)
    result = run("advise", model, log, "--spec", spec, "-n", 3)
    assert result.exit_code == 0, result.stderr
    assert len(tomllib.loads(result.stdout)["scenario"]) == 3
    assert all("page" in s for s in tomllib.loads(result.stdout)["scenario"])
