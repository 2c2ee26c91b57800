"""What the page's script is given: the tree, the scenarios and the heat map, as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.audit.evidence import View, views
from heurgen.audit.report.charts import level_of
from heurgen.audit.report.coding import LETTERS, to_script
from heurgen.audit.report.explorer import answering, explorer
from heurgen.audit.report.heat import heat
from heurgen.audit.report.words import value_text
from heurgen.audit.score import score
from tests.audit.learner import load, module_of
from tests.audit.report.test_coding import listed
from tests.support.strategies import modules, rows


def one_view(depth: int = 4, **choice: Any) -> tuple[ir.HeuristicModule, View]:
    spec, log, tables = load()
    module = module_of(spec, log, tables, depth)
    module = replace(module, selectors=tuple(replace(s, choice=choice) for s in module.selectors))
    (view,) = views(module, tables, score(module, tables))
    return module, view


def walked(page: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """The script's walk, in Python."""
    node = page["tree"]
    while isinstance(node, list):
        column, kind, what, left, right = node
        value = row[page["columns"][column]["name"]]
        held = value <= float(what) if kind == "<=" else (value in what) == (kind == "in")
        node = left if held else right
    return list(page["configs"][node["config"]])


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_tree_of_the_page_is_the_tree_of_the_model(data: st.DataObject) -> None:
    module = data.draw(modules())
    for selector in module.selectors:
        page = json.loads(to_script(answering(module, selector)))
        features = data.draw(rows(module))
        if any(isinstance(v, int) and abs(v) > 2**53 for v in features.values()):
            continue  # a browser compares them as BigInt; Python's floats here would not
        row = ir.with_derived(module, features)
        wanted = selector.configs[ir.find_leaf(selector.tree, row).config]
        assert walked(page, row) == [value_text(v) for v in wanted]


def test_scenarios_and_heat_say_what_the_log_says() -> None:
    module, view = one_view()
    everything = list(range(70))
    data = explorer(module, view, everything, 400, True)["scenarios"]
    assert [listed(data["leaf"]), data["held"]] == [view.leaf.tolist(), None]
    assert listed(data["slowdown"]) == [round(c.slowdown or 0, 3) for c in view.choices]
    for column, feature in zip(data["columns"], module.features, strict=True):
        assert listed(column) == [c.features[feature.name] for c in view.choices]
    found = heat(view, everything, 400)
    assert sorted(listed(found["order"])) == everything
    configs = zip(*map(listed, found["configs"]), strict=True)
    names = found["parameters"]
    texts = {" ".join(f"{n}={v}" for n, v in zip(names, c, strict=True)): i for i, c in enumerate(configs)}
    for r, line in zip(listed(found["order"]), found["cells"], strict=True):
        codes = [x for letter in line for x in divmod(LETTERS.index(letter), 8)]
        for c, config in enumerate(view.table.configs):
            pairs = " ".join(f"{n}={v}" for n, v in zip(view.table.parameters, config, strict=True))
            if pairs not in texts:
                continue
            cost = float(view.costs[r, c])
            wanted = 7 if math.isnan(cost) else 6 if math.isinf(cost) else level_of(math.exp(cost))
            assert codes[texts[pairs]] == wanted


def test_the_script_knows_how_many_figures_tell_thresholds_apart() -> None:
    module, view = one_view()
    near = ir.Split(
        "avg_seqlen_q",
        1.0000001,
        ir.Leaf(0, 1),
        ir.Split("avg_seqlen_q", 1.0000003, ir.Leaf(1, 1), ir.Leaf(0, 1)),
    )
    columns = answering(module, replace(view.selector, tree=near))["columns"]
    assert {c["name"]: c["figures"] for c in columns if "figures" in c} == {"avg_seqlen_q": 8}
    assert not any("figures" in c for c in answering(module, view.selector)["columns"])
