"""Runners-up and shortlists: what is listed for a leaf, held out too, in the model, the module and explain."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heurgen
from heurgen import ir
from heurgen.audit.explain import explain
from heurgen.base.errors import EmitError, ModelError
from heurgen.ir.schema import from_json, json_schema, to_json
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.render import allowed
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from heurgen.render.triton_autotune import render_triton_autotune
from heurgen.ship.remarks import held_out
from heurgen.trees import FitOptions, fit
from heurgen.trees.alternatives import NEARBY, _nearness, _of_last_test, listed_costs, with_alternatives
from tests.support.modules import two_vendors
from tests.trees.synthetic import surface, table

INF, NAN = math.inf, math.nan


def single(times: list[list[float]], noise: float = 0.02) -> tuple[ir.Selector, CostTable]:
    """One leaf that ships config 0 for these times [S, C]."""
    X = np.arange(len(times), dtype=np.float64)[:, None]
    costs = table([TableColumn("x", "int")], X, np.array(times), noise=noise)
    return ir.Selector("nvidia", ("BLOCK",), ((16,),), ir.Leaf(0, len(times), 1.0, len(times))), costs


def leaf(times: list[list[float]], size: int, noise: float = 0.02) -> tuple[ir.Leaf, ir.Selector]:
    selector, costs = single(times, noise)
    found = with_alternatives(selector, costs, np.arange(len(times)), size)
    return next(ir.leaves(found.tree)), found


def test_the_shortlist_is_greedy_and_what_failed_there_is_not_on_it() -> None:
    # 48 is second best everywhere, of little use; 32 and 64 are best where 16 is not; 80 is perfect but fails once.
    times = [[1.0, 4.0, 1.5, 9.0, 1.0], [4.0, 1.0, 1.2, 9.0, 1.0], [4.0, 9.0, 2.0, 1.0, INF]]
    found, selector = leaf(times, 3)
    assert [selector.listed[i] for i in found.shortlist] == [(16,), (32,), (64,)]
    found, selector = leaf(times, 9)
    assert (80,) not in [selector.listed[i] for i in found.shortlist]
    assert len(found.shortlist) == 4
    assert leaf(times, 0)[0].shortlist == ()


def test_scenarios_around_a_leaf_speak_where_its_own_do_not() -> None:
    """The leaf of x = 0 ships 16; its own scenario is served as well by 32 as by 48, that of the next leaf by 48."""
    columns, X = [TableColumn("x", "int")], np.arange(2.0)[:, None]
    costs = table(columns, X, np.array([[1.0, 1.0, 1.0], [9.0, 9.0, 1.0]]))
    tree = ir.Split("x", 0, ir.Leaf(0, 1, 1.0, 1), ir.Leaf(1, 1, 1.0, 1))
    selector = ir.Selector("nvidia", ("BLOCK",), ((16,), (48,)), tree)
    found = with_alternatives(selector, costs, np.arange(2), 2)
    lists = [[found.listed[i] for i in leaf.shortlist] for leaf in ir.leaves(found.tree)]
    assert lists[0] == [(16,), (48,)]
    # A config that failed in a leaf beside is listed all the same: only the leaf's own scenarios forbid.
    failed = table(columns, X, np.array([[1.0, 1.0, 1.2], [INF, 2.0, 1.0]]))
    found = with_alternatives(selector, failed, np.arange(2), 3)
    assert {found.listed[i] for leaf in ir.leaves(found.tree) for i in leaf.shortlist} == {
        (16,),
        (32,),
        (48,),
    }
    assert [len(leaf.shortlist) for leaf in ir.leaves(found.tree)] == [3, 2]


def test_a_leaf_without_scenarios_lists_what_serves_others_of_its_kind_best() -> None:
    """Beyond the guard `s <= 1` at x > 0 lies no scenario; elsewhere 32 serves s = 2, and 64 fails there once."""
    columns, X = (
        [TableColumn("s", "int"), TableColumn("x", "int")],
        np.array([[1, 0], [1, 1], [2, 0], [2, 0.0]]),
    )
    costs = table(columns, X, np.array([[1, 9, 9, 1], [1, 9, 9, 1], [2, 1, 3, 1], [2, 1, 3, INF]]))
    empty = ir.Split("s", 1, ir.Leaf(0, 1, 1.0, 1), ir.Leaf(0))
    selector = ir.Selector("nvidia", ("BLOCK",), ((16,),), ir.Split("x", 0, ir.Leaf(0, 3, 1.0, 3), empty))
    found = with_alternatives(selector, costs, np.arange(4), 2)
    last = list(ir.leaves(found.tree))[-1]
    assert [found.listed[i] for i in last.shortlist] == [(16,), (32,)]
    assert last.runner_up is None
    nowhere = ir.Split("x", 5, ir.Leaf(0), ir.Leaf(1))
    assert _of_last_test(nowhere, costs, np.arange(4)).tolist() == [1.0] * 4


def test_scenarios_beside_a_leaf_count_a_little_and_those_beyond_do_not() -> None:
    tree: ir.Node = ir.Leaf(0)
    for threshold in (1, 2, 3):
        tree = ir.Split("x", threshold, tree, ir.Leaf(0))
    assert _nearness(tree).tolist() == [
        [1.0, NEARBY, 0.0, 0.0],
        [NEARBY, 1.0, 0.0, 0.0],
        [NEARBY, NEARBY, 1.0, 0.0],
        [NEARBY, NEARBY, NEARBY, 1.0],
    ]


def test_the_runner_up_succeeds_in_most_scenarios_and_a_tie_is_said() -> None:
    found, selector = leaf([[1.0, 1.0, 1.3], [1.0, INF, 1.3]], 0)
    assert found.runner_up is not None
    assert selector.listed[found.runner_up.config] == (48,)
    assert found.runner_up.slowdown == pytest.approx(1.3)
    assert (found.runner_up.n_ok, found.runner_up.tie) == (2, False)
    close, _ = leaf([[1.0, 1.01]] * 3, 0)
    assert close.runner_up is not None
    assert close.runner_up.tie
    sure, _ = leaf([[1.0, 1.01]] * 3, 0, noise=0.001)
    assert sure.runner_up is not None
    assert not sure.runner_up.tie
    assert leaf([[1.0, NAN]], 3)[0] == ir.Leaf(0, 1, 1.0, 1, shortlist=(0,))


@pytest.fixture(scope="module")
def trained() -> tuple[ir.Selector, CostTable]:
    costs = surface(n_scenarios=80, n_configs=10, noise=0.05, holes=0.2, categories=1)
    return fit(costs, FitOptions(shortlist=3, max_configs=2)), costs


def test_trying_the_list_is_better_held_out_and_changes_no_choice(
    trained: tuple[ir.Selector, CostTable],
) -> None:
    selector, costs = trained
    record = selector.choice["shortlist"]
    assert record["size"] == 3
    assert record["n_scenarios"] == costs.n_scenarios
    assert 1.0 <= record["geomean_slowdown"] < record["choice_geomean_slowdown"]
    plain = fit(costs, FitOptions(max_configs=2))
    assert plain.configs == selector.configs
    assert [x.config for x in ir.leaves(plain.tree)] == [x.config for x in ir.leaves(selector.tree)]
    assert "shortlist" not in plain.choice
    assert held_out(selector, costs)[1].startswith("  held out, best of the shortlist of 3: geomean 1.")
    listed = listed_costs(selector, costs, np.arange(costs.n_scenarios))
    assert listed.shape == (costs.n_scenarios, 3)


def test_a_named_strategy_tells_its_shortlist_and_what_of_it_is_invalid() -> None:
    selector, costs = single([[1.0, 2.0]])
    listed = {
        "size": 3,
        "geomean_slowdown": 1.02,
        "p95_slowdown": 1.1,
        "max_slowdown": 1.5,
        "invalid_share": 0.05,
    }
    named = replace(selector, choice={"shortlist": {**listed, "choice_geomean_slowdown": 1.07}})
    (line,) = held_out(named, costs)
    assert line == (
        "  held out, best of the shortlist of 3: geomean 1.0200, p95 1.100, max 1.50, 5.0 % invalid; "
        "the choice alone on these folds 1.0700"
    )
    assert held_out(replace(selector, choice={"shortlist": listed}), costs)[0].endswith("nothing valid")


def test_winners_alone_record_how_often_the_winner_is_listed(
    trained: tuple[ir.Selector, CostTable],
) -> None:
    _, costs = trained
    best = costs.log_slowdown == 0
    won = replace(
        costs,
        costs_known=False,
        times=np.where(best, costs.times, NAN),
        log_slowdown=np.where(best, 0.0, NAN),
    )
    found = fit(won, FitOptions(shortlist=2))
    record = found.choice["shortlist"]
    assert record["choice_agreement"] <= record["agreement"] <= 1
    assert "slowdown" not in str(record)
    assert held_out(found, won)[-1].startswith("  held out, best of the shortlist of 2: the winner on ")
    assert all(x.runner_up is None for x in ir.leaves(found.tree))


def module_of(trained: tuple[ir.Selector, CostTable]) -> ir.HeuristicModule:
    selector, costs = trained
    features = tuple(ir.Feature(c.name, c.type, values=c.values) for c in costs.columns if not c.derived)
    parameters = tuple(ir.Parameter(n, "int") for n in costs.parameters)
    other = replace(selector, vendor="amd")
    of_device = replace(selector, device="NVIDIA H200", tree=ir.Leaf(0, shortlist=(0, 1)))
    return ir.HeuristicModule("kernel", features, parameters, (selector, other, of_device))


def row(module: ir.HeuristicModule, rng: random.Random) -> dict[str, Any]:
    def value(f: ir.Feature) -> Any:
        if f.type == "category":
            return rng.choice([*f.values, "unheard of"])
        return rng.choice([rng.randrange(0, 10_000), rng.randrange(0, 20)]) * (
            1.0 if f.type == "float" else 1
        )

    return {f.name: value(f) for f in module.features}


def test_the_generated_shortlist_is_the_interpreters(trained: tuple[ir.Selector, CostTable]) -> None:
    module = module_of(trained)
    text = render_python(module)
    space: dict[str, Any] = {}
    exec(text, space)
    rng = random.Random(0)
    for _ in range(300):
        given, vendor = row(module, rng), rng.choice(module.vendors)
        device = rng.choice([None, "NVIDIA H200", "another"]) if vendor == "nvidia" else None
        found = space["shortlist"](vendor=vendor, device=device, **given)
        wanted = heurgen.shortlist(module, vendor, given, device)
        assert tuple(c._asdict() for c in found) == wanted
        assert found[0] == space["select"](vendor=vendor, device=device, **given)
        assert found is space["shortlist"](vendor=vendor, device=device, **given)  # prebuilt
    with pytest.raises(ValueError, match="unknown vendor 'intel', known: "):
        space["shortlist"](vendor="intel", **row(module, rng))
    again = read_module(text)
    given = row(module, rng)
    assert ir.select(again, "nvidia", given) == ir.select(module, "nvidia", given)


def test_without_shortlists_a_module_has_none_and_one_config_is_listed() -> None:
    module = two_vendors()
    assert "hortlist" not in render_python(module)
    given = {"num_seqs": 8, "avg_seqlen_k": 16.0, "dtype": "fp8", "causal": True}
    assert heurgen.shortlist(module, "amd", given) == (ir.select(module, "amd", given),)


def test_edited_shortlists_are_refused(trained: tuple[ir.Selector, CostTable]) -> None:
    text = render_python(module_of(trained))
    for old, new in (
        ("_SHORTLIST_0 = (", "_OTHER_0 = ("),
        ("_SHORTLIST_0 = (", "_SHORTLIST_0 = (print, "),
        ("choose = SHORTLISTS[vendor]", "choose = SELECTORS[vendor]"),
    ):
        assert old in text
        with pytest.raises(EmitError):
            allowed.check(text.replace(old, new))


def test_models_keep_alternatives(trained: tuple[ir.Selector, CostTable]) -> None:
    module = module_of(trained)
    assert from_json(to_json(module)) == module
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(ir_data(module), json_schema())
    for wrong in ((1,), (0, 0), (0, 99)):
        with pytest.raises(ModelError):
            ir.Selector("nvidia", ("BLOCK",), ((16,),), ir.Leaf(0, shortlist=wrong))
    with pytest.raises(ModelError):
        ir.Selector("nvidia", ("BLOCK",), ((16,),), ir.Leaf(0, runner_up=ir.RunnerUp(1, 1.0, 1)))


def ir_data(module: ir.HeuristicModule) -> Any:
    import json

    return json.loads(to_json(module))


def test_triton_autotune_tries_the_shortlist(trained: tuple[ir.Selector, CostTable]) -> None:
    module = module_of(trained)
    text = render_triton_autotune(module, module.selectors[0])
    selector = module.selectors[0]
    used = {i for x in ir.leaves(selector.tree) for i in (x.shortlist or (x.config,))}
    assert text.count("triton.Config({") == len(used) > len(selector.configs)


def test_explain_names_the_runner_up_and_what_is_unsure() -> None:
    selector, _ = single([[1.0]])
    found = ir.Leaf(0, 2, 1.25, 1, ir.RunnerUp(1, 1.26, 2, True), (0, 1))
    selector = replace(selector, tree=found, alternatives=((32,),), n_scenarios=2)
    module = ir.HeuristicModule(
        "kernel", (ir.Feature("x", "int"),), (ir.Parameter("BLOCK", "int"),), (selector,)
    )
    said = explain(module, "nvidia", {"x": 1})
    assert said.to_text().splitlines()[-7:] == [
        "    the config succeeded in 1 of 2 scenarios",
        "runner-up: BLOCK=32: 1.260x",
        "unsure: 2 training scenarios ended here",
        "unsure: the config failed, or was not measured, in 1 scenario",
        "unsure: the runner-up is within the noise of the measurements",
        "shortlist: BLOCK=16",
        "shortlist: BLOCK=32",
    ]
    assert said.to_dict()["leaf"] == {
        "n_scenarios": 2,
        "n_ok": 1,
        "expected_slowdown": 1.25,
        "runner_up": {"BLOCK": 32},
        "runner_up_slowdown": 1.26,
        "runner_up_n_ok": 2,
        "unsure": [line.removeprefix("unsure: ") for line in said.to_text().splitlines()[-5:-2]],
        "shortlist": [{"BLOCK": 16}, {"BLOCK": 32}],
    }
    less = replace(selector, tree=replace(found, n_scenarios=3, runner_up=ir.RunnerUp(1, 1.26, 2)))
    told = explain(replace(module, selectors=(less,)), "nvidia", {"x": 1}).to_text()
    assert "runner-up: BLOCK=32: 1.260x, in the 2 where it succeeded" in told
