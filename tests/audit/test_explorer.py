"""What the page's script is given: the tree, the scenarios and the heat map, as JSON."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.audit.evidence import View, views
from heurgen.audit.report.charts import drawn, level_of
from heurgen.audit.report.coding import LETTERS, coded, to_script
from heurgen.audit.report.explorer import answering, explorer
from heurgen.audit.report.heat import heat
from heurgen.audit.report.lead import lead
from heurgen.audit.report.words import value_text
from heurgen.audit.score import score
from heurgen.base.figures import Summary
from tests.audit.learner import load, module_of
from tests.support.strategies import modules, rows

PLACES = {i: i for i in range(70)}


def listed(coded: Any) -> list[Any]:
    """What the script reads from `coding.coded`."""
    if isinstance(coded, list):
        return coded
    wide, text = len(coded["v"]) > 64, coded["c"]
    numbers = [LETTERS.index(letter) for letter in text]
    places = [64 * a + b for a, b in zip(numbers[::2], numbers[1::2], strict=True)] if wide else numbers
    return [coded["v"][place] for place in places]


@given(
    st.lists(
        st.one_of(st.none(), st.integers(-5, 5), st.floats(0, 1).map(lambda x: round(x, 2)), st.text("ab"))
    )
)
def test_coded_values_are_read_back(values: list[Any]) -> None:
    found = coded(values)
    assert listed(found) == values
    assert len(to_script(found)) <= len(to_script(values))


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


@settings(max_examples=40, deadline=None)
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


@pytest.mark.parametrize("limit", [70, 69, 30, 5])
def test_where_not_all_scenarios_are_drawn_the_worst_are(limit: int) -> None:
    module, view = one_view()
    worst = sorted(range(70), key=lambda i: -(view.choices[i].slowdown or 0))[: limit // 10]
    found = drawn(view, limit, keep=[3])
    assert len(set(found)) == len(found) == limit
    assert {3, *worst} <= set(found)
    # Every leaf that has its share of scenarios is seen.
    assert limit < 30 or set(view.leaf[found].tolist()) == set(view.leaf.tolist())
    data = explorer(module, view, found, 400, True)
    assert len(listed(data["scenarios"]["leaf"])) == limit == len(data["heat"]["cells"])


def test_no_text_ends_the_script_element() -> None:
    text = to_script({"a": "</script><!--<script>&\u2028"})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!--<script>&\u2028"}


def test_the_sentence_leads_with_held_out_figures_and_names_the_worst() -> None:
    (table,) = load()[2]
    slow = [1.01] * 70
    slow[5] = 2.4
    held = {"geomean_slowdown": 1.049, "max_slowdown": 2.4, "scenarios": slow}
    held["worst"] = [{"scenario": 5, "slowdown": 2.4, "chosen": ["2d", 16, 16, 1, 2, 0]}]
    _, view = one_view(held_out=held, folds=5, repeats=8)
    found = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), True, PLACES)
    name = str(table.features_of(5)["max_seqlen_q"])
    assert re.match(r"\d+ configs, \d+ leaves; 1\.049× on unseen launches, worst 2\.40× at ", found.sentence)
    assert f"max_seqlen_q {name}" in found.sentence
    assert "which flatters: geometric mean 1.010×" in found.training
    assert [(w.number, w.slowdown) for w in found.worst] == [(5, "2.40×")]
    assert found.worst[0].chosen.startswith("variant=2d BLOCK_M=16")
    # on another log nothing of the training log's scenarios is said
    other = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), False, PLACES)
    assert other.worst == ()
    assert " at " not in other.sentence


def test_without_a_record_the_sentence_says_so() -> None:
    _, view = one_view()
    found = lead(view, Summary(70, 1.01, 1.1, 1.2, 1.0, 0.0, 0.5), True, PLACES)
    assert found.sentence.endswith("how it does on unseen launches was not recorded")
    assert found.held_out == ()


def test_winners_only_models_show_no_slowdown() -> None:
    _, view = one_view(held_out={"agreement": 0.83, "geomean_slowdown": 1.186})
    view = replace(view, selector=replace(view.selector, costs_known=False), slowdown=np.full(70, np.nan))
    found = lead(view, Summary(70, None, None, None, None, None, 0.9), True, PLACES)
    assert "83.0 %" in found.sentence
    assert not re.search(r"\d×", found.sentence + found.training + str(found.held_out))
