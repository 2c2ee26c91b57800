"""The difference between two models: exact regions, what they cost, text and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import heurgen
from heurgen import ir
from heurgen.audit.diff import Change, ChangedScenario, Diff, but_for, diff
from heurgen.audit.report.data import change_row
from heurgen.audit.report.tables import diff_page
from heurgen.base.errors import ModelError
from heurgen.cli import main
from heurgen.ir.schema import to_json
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from tests.audit import views
from tests.audit.learner import LOG, SPEC, load, module_of
from tests.audit.pages import Page
from tests.support.modules import two_vendors


def changed(module: ir.HeuristicModule, vendor: str, **fields: object) -> ir.HeuristicModule:
    selectors = tuple(replace(s, **fields) if s.vendor == vendor else s for s in module.selectors)  # type: ignore[arg-type]
    return replace(module, selectors=selectors)


def test_the_api_has_it() -> None:
    assert heurgen.diff is diff


def test_equal_models_differ_nowhere() -> None:
    found = diff(two_vendors(), two_vendors())
    assert (found.changes, found.to_text()) == ((), "no region changes config")


def test_a_model_is_its_own_equal_where_a_test_does_not_list_all_categories_that_reach_it() -> None:
    old = two_vendors()
    inner = ir.Membership("dtype", ("bfloat16",), ("fp8",), False, ir.Leaf(0, 1), ir.Leaf(1, 1))
    split = ir.Split("num_seqs", 8, inner, ir.Leaf(0, 2))
    tree = ir.Membership("dtype", ("bfloat16", "float16", "fp8"), ("int8",), False, split, ir.Leaf(1, 1))
    same = changed(old, "nvidia", tree=tree)
    assert diff(same, same).changes == ()


def test_a_moved_threshold_changes_the_strip_between() -> None:
    old = two_vendors()
    new = changed(old, "amd", tree=ir.Split("num_seqs", 12, ir.Leaf(0, 2), ir.Leaf(1, 2)))
    (change,) = diff(old, new).changes
    assert change.region == ("8 < num_seqs <= 12",)
    assert change.differing == {"BLOCK_M": (64, 16), "waves_per_eu": (2, None)}
    assert diff(old, new).to_text() == (
        "amd: 1 region with another config\n  8 < num_seqs <= 12\n    BLOCK_M 64 -> 16, waves_per_eu 2 -> none"
    )


def strips(low: int, high: int) -> ir.Node:
    """num_seqs from low + 1 to high, each second of them with the other config."""
    if high - low == 1:
        return ir.Leaf(low % 2, 1)
    middle = (low + high) // 2
    return ir.Split("num_seqs", middle, strips(low, middle), strips(middle, high))


def test_text_and_page_end_where_nobody_reads_on() -> None:
    old = changed(two_vendors(), "amd", tree=ir.Leaf(0, 1))
    found = diff(old, changed(old, "amd", tree=strips(0, 600)))
    assert len(found.changes) == len(found.to_dict()["changes"]) == 300
    text = found.to_text().split("\n")
    assert (text[0], text[-1]) == (
        "amd: 300 regions with another config", "  280 more regions: --json has them"
    )  # fmt: skip
    assert len(text) == 2 + 2 * 20
    page = diff_page(found)
    assert page.count('<tr><th scope="row">') == 200
    assert '100 more regions: <span class="mono">heurgen diff --json</span> has them.' in page

    scenarios = tuple(ChangedScenario(f"s{i}", "gpu", {"n": i}, 1.0, 1.1, 1 / 1.1) for i in range(25))
    change = Change("amd", None, ("n > 1",), {"BLOCK_M": 16}, {"BLOCK_M": 32}, scenarios)
    text = Diff((change,), (), (), True, {"amd": 0.9}).to_text().split("\n")
    assert (len(text), text[-1]) == (4 + 20 + 1, "      5 more scenarios")


def test_categories_and_flags_are_spelt_out() -> None:
    old = two_vendors()
    tree = old.selector("nvidia").tree
    assert isinstance(tree, ir.Split)
    flipped = replace(tree, left=ir.Leaf(0, 13, 1.0), right=ir.Leaf(1, 23, 1.2))
    regions = [c.region for c in diff(old, changed(old, "nvidia", tree=flipped)).changes]
    assert ("kv_tokens <= 4096", "dtype in {'float16', 'fp8'}") in regions
    assert ("kv_tokens > 4096", "num_seqs > 64", "causal is true") in regions


def test_vendors_that_come_and_go() -> None:
    old = two_vendors()
    one = replace(old, selectors=old.selectors[1:])
    assert diff(old, one).to_text() == "vendor amd is gone\nno region changes config"
    assert diff(one, old).added == ("amd",)


def test_models_of_different_kernels_are_refused() -> None:
    with pytest.raises(ModelError) as error:
        diff(two_vendors(), replace(two_vendors(), kernel="matmul"))
    assert str(error.value) == "models of different kernels: 'unified_attention' and 'matmul'"


def test_a_derived_feature_that_changes_its_expression() -> None:
    old = two_vendors()
    new = replace(old, derived=(ir.Derived("kv_tokens", "num_seqs + avg_seqlen_k", 16.0, 1048576.0),))
    assert any("kv_tokens (as before)" in text for c in diff(old, new).changes for text in c.region)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.integers(0, 300),
    st.floats(1, 2e4),
    st.sampled_from(("bfloat16", "float16", "fp8", "new")),
    st.booleans(),
)
def test_the_regions_hold_exactly_the_inputs_that_change(n: int, k: float, dtype: str, causal: bool) -> None:
    old = two_vendors()
    tree = ir.Split("num_seqs", 32, old.selector("nvidia").tree, ir.Leaf(2, 1, 1.0))
    new = changed(old, "nvidia", tree=tree)
    row = {"num_seqs": n, "avg_seqlen_k": k, "dtype": dtype, "causal": causal}
    differs = ir.select(old, "nvidia", row) != ir.select(new, "nvidia", row)
    full = {**ir.with_derived(new, row), "inf": math.inf}
    inside = [c for c in diff(old, new).changes if all(_holds(text, full) for text in c.region)]
    assert len(inside) == differs


def _holds(text: str, row: dict[str, object]) -> bool:
    """A condition of a region, read as Python."""
    for flag in ("true", "false"):
        text = text.replace(f"causal is {flag}", f"causal == {flag.title()}")
    text = text.replace("dtype is not '", "dtype != '").replace("dtype is '", "dtype == '")
    return bool(eval(text, {}, dict(row)))


def test_with_a_log_every_changed_scenario_is_listed_once_with_its_gain() -> None:
    spec, log, tables = load()
    old, new = module_of(spec, log, tables, 2), module_of(spec, log, tables, 4)
    found = diff(old, new, tables)
    listed = [s for c in found.changes for s in c.scenarios]
    from heurgen.audit.score import score

    before, after = score(old, tables).choices, score(new, tables).choices
    moved = [(a, b) for a, b in zip(before, after, strict=True) if a.chosen != b.chosen]
    assert sorted(s.scenario for s in listed) == sorted(b.scenario for _, b in moved)
    gains = {b.scenario: (a.slowdown or 0) / (b.slowdown or 1) for a, b in moved}
    assert all(s.gain == pytest.approx(gains[s.scenario]) for s in listed)
    whole = math.exp(sum(math.log(g) for g in gains.values()) / len(before))
    assert found.gains["nvidia", None] == pytest.approx(whole)


def test_scenarios_of_several_devices_name_theirs(tmp_path: Path) -> None:
    """Two devices with equal features had two equal lines."""
    spec, log, tables = load()
    old, new = module_of(spec, log, tables, 2), module_of(spec, log, tables, 4)
    assert "(NVIDIA H200)" not in diff(old, new, tables).to_text()
    header, *lines = LOG.read_text().splitlines()
    two = tmp_path / "two.csv"
    two.write_text(
        "\n".join([header, *lines, *(n.replace("NVIDIA H200", "NVIDIA B200") for n in lines)]) + "\n"
    )
    found = diff(old, new, cost_tables(read_logs([two], spec), spec))
    told = [n for n in found.to_text().splitlines() if n.startswith("      ")]
    assert len(set(told)) == len(told) == sum(len(c.scenarios) for c in found.changes)
    assert {n.rpartition(" (")[2] for n in told} == {"NVIDIA B200)", "NVIDIA H200)"}


def test_a_change_on_one_device_of_several_says_on_which() -> None:
    """All that moved was on B, and nothing said so."""
    old, new, costs = (
        views.module(),
        views.module(ir.Leaf(0, 4)),
        replace(views.costs(), device=("A", "A", "B", "B")),
    )
    lines = [n for n in diff(old, new, (costs,)).to_text().splitlines() if n.startswith("      ")]
    assert [n.endswith(" (B)") for n in lines] == [True, True]
    alone = diff(old, new, (replace(costs, device=("B",) * 4),)).to_text()
    assert "(B)" not in alone


def test_regions_without_a_scenario_of_the_log_are_counted(tmp_path: Path) -> None:
    spec, log, tables = load()
    old, new = module_of(spec, log, tables, 2), module_of(spec, log, tables, 4)
    every = diff(old, new, tables)
    moved = every.changes[0].scenarios[0].scenario
    header, *lines = LOG.read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join([header, *(line for line in lines if moved in line.split(","))]) + "\n")
    found = diff(old, new, cost_tables(read_logs([few], spec), spec))
    assert len(found.changes) == len(every.changes)
    text = found.to_text()
    assert [" and ".join(c.region) in text for c in found.changes] == [True] + [False] * (
        len(every.changes) - 1
    )
    rest = len(every.changes) - 1
    assert text.endswith(f"\n  no scenario of the log lies in {rest} more regions: --json has them")


def test_a_gain_does_not_hide_choices_that_are_no_longer_valid() -> None:
    """BLOCK 32 is twice as fast in one scenario, and failed in the other that takes it now."""
    old, new = views.module(ir.Leaf(0, 4, 1.5)), views.module()
    found = diff(old, new, (views.costs(),))
    assert found.gains["nvidia", None] == pytest.approx(2 ** (1 / 3))
    told = "1.260x faster, but for 1 in which the new config is not valid\n"
    assert f"over all scenarios of the log {told}" in found.to_text()
    assert (
        "    2 scenarios, 2.000x faster, but for 1 in which the new config is not valid\n" in found.to_text()
    )
    back = diff(new, old, (views.costs(),)).to_text()
    assert "2.000x slower, but for 1 in which the old one was not valid\n" in back

    (none,) = diff(
        views.module(ir.Leaf(0, 4)), views.module(ir.Split("m", 64, ir.Leaf(0), ir.Leaf(1))), (views.costs(),)
    ).changes
    assert but_for(none.gain, none.scenarios) == ": 1 in which the new config is not valid"

    page = Page(diff_page(found)).text
    assert "1.260× as fast as the baseline, but for 1 in which the new config is not valid." in page
    assert "2.000× faster, but for 1 in which the new config is not valid" in page
    assert change_row(found.changes[0]).worse


def test_a_device_with_a_selector_of_its_own_has_a_gain_of_its_own() -> None:
    """Under each device stood the vendor's gain, over all devices. On A, where m is 1 and 2, 32 is twice and four
    times as slow as 16; on B nothing changes in the first scenario, and in the other 32 failed."""
    old, costs = views.module(), replace(views.costs(), device=("A", "A", "B", "B"))
    slow, same = (replace(old.selectors[0], device=d, tree=ir.Leaf(1)) for d in "AB")
    found = diff(old, replace(old, selectors=(*old.selectors, slow, same)), (costs,))
    assert found.gains == {
        ("nvidia", None): pytest.approx(1 / 2),
        ("nvidia", "A"): pytest.approx(8**-0.5),
        ("nvidia", "B"): pytest.approx(1.0),
    }
    assert found.to_dict()["gain"].keys() == {"nvidia", "nvidia / A", "nvidia / B"}
    (head, *_) = (line for line in found.to_text().splitlines() if line.startswith("nvidia / A: "))
    assert head.endswith("1 region with another config; over all scenarios of the log 2.828x slower")
    text = Page(diff_page(found, False)).text
    assert "nvidia / A: over all scenarios of the given log the new model is 0.354× as fast" in text


def test_the_command(tmp_path: Path) -> None:
    spec, log, tables = load()
    for name, depth in (("old", 2), ("new", 3)):
        (tmp_path / f"{name}.json").write_text(to_json(module_of(spec, log, tables, depth)))
    words = ["diff", str(tmp_path / "old.json"), str(tmp_path / "new.json")]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "scenario" in result.stdout) == (0, False)
    data = json.loads(CliRunner().invoke(main, [*words, str(LOG), "--spec", str(SPEC), "--json"]).stdout)
    assert {"vendor", "device", "region", "old", "new", "gain", "scenarios"} == set(data["changes"][0])
    page = tmp_path / "page.html"
    told = CliRunner().invoke(main, [*words, str(LOG), "--spec", str(SPEC), "--html", str(page)]).stderr
    assert f"note: {words[2]} was trained on this log: what it gains there flatters\n" in told
    assert "the new model, which was trained on it, is " in Page(page.read_text()).text
    few = tmp_path / "few.csv"
    few.write_text("".join(LOG.read_text().splitlines(keepends=True)[:1000]))
    told = CliRunner().invoke(main, [*words, str(few), "--spec", str(SPEC), "--html", str(page)]).stderr
    assert "trained on" not in told + Page(page.read_text()).text
    bad = CliRunner().invoke(main, [*words, str(LOG)])
    assert bad.exit_code == 2
    assert bad.stderr.splitlines()[0] == "error: logs and --spec go together (give both, or neither)"


def test_of_winners_alone_it_is_said_once_that_no_gain_is_known() -> None:
    table = replace(views.costs(), costs_known=False)
    new = views.module(ir.Split("m", 1, ir.Leaf(0, 1), ir.Leaf(1, 3)))
    found = diff(views.module(), new, [table])
    assert found.to_text().splitlines() == [
        "nvidia: 1 region with another config; the log holds winners only: what a change gains or costs is unknown",
        "  1 < m <= 4",
        "    BLOCK 16 -> 32",
        "    1 scenario",
        "      1: m=2 dtype=b",
    ]
    assert "nvidia: the log holds winners only: what a change gains or costs is unknown." in diff_page(found)
    assert "unknown" not in diff(views.module(), new, [views.costs()]).to_text().splitlines()[0]
