"""Several devices of one vendor: which form ships, and what an unmeasured device is told to expect."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heurgen import ir
from heurgen.ir import HeuristicModule, schema
from heurgen.logs.card import DeviceFacts
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import parse_log
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from heurgen.ship.remarks import device_forms, warnings
from heurgen.ship.training import GroupBy, from_tables
from heurgen.spec.kernel_spec import parse_spec
from heurgen.trees import FitOptions, constants, devices
from tests.support.generated import executed
from tests.trees.devices import A100, H100, H200, log_text, spec_text

OPPOSITE = {A100: 0.25, H100: 2.0}
CARDS = {
    A100: DeviceFacts("8.0", {"multiprocessors": 108.0, "memory": 80e9}),
    H100: DeviceFacts("9.0", {"multiprocessors": 132.0, "memory": 81e9}),
    H200: DeviceFacts("9.0", {"multiprocessors": 132.0, "memory": 141e9}),
}


def trained(
    text: str,
    spec: str = spec_text(),
    group_by: GroupBy = "auto",
    facts: dict[str, DeviceFacts] | None = None,
    **options: Any,
) -> HeuristicModule:
    kernel = parse_spec(spec)
    log = parse_log("log.csv", text, kernel)
    tables = cost_tables(log, kernel, group_by=group_by)
    options = {"max_configs": 4, "strategy": "joint", **options}
    return from_tables(
        tables, log, kernel, options=FitOptions(**options), group_by=group_by, devices=facts or {}
    )


@pytest.fixture(scope="module")
def opposite() -> HeuristicModule:
    return trained(log_text(OPPOSITE, 30), strategy="auto")


@pytest.fixture(autouse=True)
def one_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds once, not three times, in what a test trains by itself."""
    monkeypatch.setattr(constants, "LEARNER", replace(constants.LEARNER, max_repeats=1))


def forms(module: HeuristicModule) -> dict[str, float]:
    found = module.selectors[0].choice["device_forms"]["compared"]
    return {form["form"]: form["geomean_slowdown"] for form in found}


def true_slowdown(
    module: HeuristicModule, wishes: dict[str, float], capability: dict[str, str] | None = None
) -> float:
    """On shapes that no log has, without noise, by the generated module."""
    kernel = parse_spec(spec_text())
    (table,) = cost_tables(parse_log("t", log_text(wishes, 60, noise=0.0, seed=7), kernel), kernel)
    select = executed(render_python(module))["select"]
    logs = []
    for row in range(table.n_scenarios):
        device = table.device[row]
        where = {"device": device} if len(module.selectors) > 1 else {}
        where |= {"capability": capability[device]} if capability else {}
        config = tuple(select(vendor="nvidia", **where, **table.features_of(row)))
        logs.append(table.log_slowdown[row, table.configs.index(config)])
    return float(np.exp(np.mean(logs)))


def test_opposite_winners_get_a_tree_a_device(opposite: HeuristicModule) -> None:
    module = opposite
    assert [s.device for s in module.selectors] == [None, A100, H100]
    assert [s.capability for s in module.selectors] == [None, "8.0", "9.0"]
    found = forms(module)
    assert list(found) == ["pooled", "one tree a device"]
    assert found["one tree a device"] < 1.07 < found["pooled"]
    pooled = trained(log_text(OPPOSITE, 30), group_by="vendor")
    assert true_slowdown(module, OPPOSITE) < 1.06 < true_slowdown(pooled, OPPOSITE)


def test_what_is_told(opposite: HeuristicModule) -> None:
    told = device_forms(opposite.selectors[0])
    assert told[0] == "  2 devices, held out in 5 folds, 3 times, each form at the sizes that it ships:"
    assert told[2].startswith("    one tree a device  geomean 1.0")
    assert told[2].endswith(" leaves <- ships")
    assert told[3].startswith("  on a device that was not measured: geomean ")
    assert f"{H100} (as nvidia) " in told[3]
    # Trees of their own ship: nothing to warn of.
    assert list(warnings(opposite.selectors[0])) == []


def test_of_each_device_left_out_the_invalid_share_is_told() -> None:
    """One device of five may have all of the invalid choices: its mean is of the others."""
    figures = {"geomean_slowdown": 1.2, "p95_slowdown": 1.5, "max_slowdown": 2.0, "invalid_share": 0.1}
    devices = [
        {"device": A100, "answered_by": "nvidia", **figures, "invalid_share": 0.0},
        {"device": H100, "answered_by": "nvidia", **figures, "invalid_share": 0.35},
    ]
    pooled = {"form": "pooled", **figures, "leaves": 8}
    forms = {"folds": 5, "repeats": 1, "chosen": "pooled", "device_features": [], "compared": [pooled]}
    choice = {"device_forms": forms, "unknown_device": {**figures, "devices": devices}}
    selector = ir.Selector("nvidia", ("BLOCK",), ((16,),), ir.Leaf(0), devices=(A100, H100), choice=choice)
    assert device_forms(selector)[-1] == (
        "  on a device that was not measured: geomean 1.2000, p95 1.500, max 2.00, 10.0 % invalid; "
        f"{A100} (as nvidia) 1.2000; {H100} (as nvidia) 1.2000, 35.0 % invalid"
    )


def test_a_device_that_nobody_measured_gets_the_tree_of_its_capability(opposite: HeuristicModule) -> None:
    """An H20 is like the H100: 9.0; an L4 is like neither, and gets the vendor's."""
    module = opposite
    alike = true_slowdown(module, {"NVIDIA H20": 2.0}, {"NVIDIA H20": "9.0"})
    vendor = true_slowdown(module, {"NVIDIA H20": 2.0}, {"NVIDIA H20": "8.9"})
    assert alike < 1.07 < vendor
    again = read_module(render_python(module))
    assert again.selector("nvidia", "NVIDIA H20", "9.0").device == H100
    assert again.selector("nvidia", "NVIDIA L4", "8.9").device is None


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_near_identical_devices_share_a_tree(noise: float) -> None:
    module = trained(log_text({A100: 1.0, H100: 1.0}, 30, noise, seed=1))
    assert [s.device for s in module.selectors] == [None]
    assert module.selectors[0].choice["device_forms"]["chosen"] == "pooled"


def test_one_tree_for_all_may_have_as_many_leaves_as_trees_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One device wants blocks by m, the other warps by n: two leaves a device, or four that serve both."""
    few = replace(constants.LEARNER, leaves=2, scenarios_per_leaf=10**6, doubling=1e9)
    monkeypatch.setattr(constants, "LEARNER", few)
    rng = np.random.RandomState(3)
    lines = ["vendor,device,m,n,BLOCK,num_warps,status,time_ms"]
    for m, n in rng.choice([10, 20, 900, 950], (60, 2)):
        for device, large in ((A100, m > 500), (H100, n > 500)):
            for block in (16, 64):
                for warps in (4, 8):
                    right = (block == 64 if device == A100 else warps == 8) == large
                    time = (1.0 if right else 1.5) * np.exp(0.01 * rng.randn())
                    lines.append(f"nvidia,{device},{m},{n},{block},{warps},ok,{time:.6f}")
    module = trained("\n".join(lines) + "\n", strategy="auto")
    record = module.selectors[0].choice["device_forms"]
    assert record["chosen"] == "pooled"
    leaves = {form["form"]: form["leaves"] for form in record["compared"]}
    assert leaves["pooled"] == leaves["one tree a device"] == 4
    assert forms(module)["pooled"] < 1.05
    bound = trained("\n".join(lines) + "\n", strategy="auto", max_leaves=2)  # a limit that was named holds
    assert bound.selectors[0].choice["device_forms"]["chosen"] == "one tree a device"


def test_devices_that_follow_a_number_of_their_cards() -> None:
    """Six devices with few rows each, of two kinds: one tree that knows the number of multiprocessors."""
    wishes = {f"GPU {i}": 0.25 if i % 2 else 2.0 for i in range(6)}
    facts = {d: DeviceFacts(None, {"multiprocessors": 100.0 + 40 * (w < 1)}) for d, w in wishes.items()}
    module = trained(log_text(wishes, 14), facts=facts)
    record = module.selectors[0].choice["device_forms"]
    assert record["device_features"] == ["multiprocessors"]
    assert record["chosen"] == "pooled with device features"
    # The tree as it answers on each device: a launch is not asked for multiprocessors.
    assert [s.device for s in module.selectors[1:]] == sorted(wishes)
    tested = {n.feature for s in module.selectors for n in ir.nodes(s.tree) if not isinstance(n, ir.Leaf)}
    assert tested <= {"m", "n"}
    assert all(sum(leaf.n_scenarios for leaf in ir.leaves(s.tree)) == s.n_scenarios for s in module.selectors)


def test_a_device_feature_that_is_a_column_is_asked_for_and_compared() -> None:
    columns = {A100: [108], H100: [132], H200: [132]}
    text = log_text(OPPOSITE | {H200: 2.0}, 14, facts=columns, columns=["multiprocessors"])
    module = trained(text, spec_text("multiprocessors"))
    found = module.selectors[0].choice["device_forms"]
    assert [form["form"] for form in found["compared"]] == [
        "pooled",
        "pooled with device features",
        "one tree a device",
    ]
    assert found["device_features"] == ["multiprocessors"]
    assert [f.name for f in module.features] == ["m", "n", "multiprocessors"]
    # All three hold a shape out on all devices at once, though multiprocessors differ.
    assert found["compared"][0]["n_scenarios"] == found["compared"][2]["n_scenarios"]


def test_of_two_devices_of_a_capability_one_stands_in_and_is_left_out_honestly() -> None:
    module = trained(log_text(OPPOSITE | {H200: 2.0}, 14), facts=CARDS)
    stand_in = [s for s in module.selectors if s.capability == "9.0"]
    assert len(stand_in) == 1
    assert stand_in[0].device in (H100, H200)
    told = {d["device"]: d["answered_by"] for d in module.selectors[0].choice["unknown_device"]["devices"]}
    assert told == {A100: "nvidia", H100: H200, H200: H100}


def test_the_pooled_form_is_held_out_as_where_its_sizes_were_compared() -> None:
    """In the same folds, whatever the order in which a spec names its features: one figure, told twice."""
    text, spec = log_text({A100: 1.0, H100: 1.0}, 30, 0.03), spec_text()
    m, n = spec.index("m = {"), spec.index("n = {", spec.index("m = {"))
    swapped = spec[:m] + spec[n : n + (n - m)] + spec[m:n] + spec[n + (n - m) :]
    assert swapped.index("n = {") < swapped.index("m = {")
    for each in (spec, swapped):
        choice = trained(text, each, strategy="auto").selectors[0].choice
        pooled = choice["device_forms"]["compared"][0]
        assert pooled["mean_log_slowdown"] == choice["held_out"]["mean_log_slowdown"]


def test_one_device_is_as_it_was() -> None:
    text = log_text({A100: 1.0}, 30)
    one, two = (schema.to_json(trained(text, group_by=g)) for g in ("auto", "vendor"))
    assert one == two
    assert "device_forms" not in one


def test_group_by_device_asks_for_trees_of_their_own_and_compares_nothing() -> None:
    module = trained(log_text({A100: 1.0, H100: 1.0}, 20), group_by="device")
    assert [(s.device, s.capability) for s in module.selectors] == [
        (None, None),
        (A100, "8.0"),
        (H100, "9.0"),
    ]
    assert "device_forms" not in module.selectors[0].choice


def test_every_strategy_is_compared() -> None:
    module = trained(log_text(OPPOSITE, 14), strategy="per-parameter")
    assert module.selectors[0].choice["device_forms"]["chosen"] == "one tree a device"


def test_few_scenarios_compare_nothing() -> None:
    module = trained(log_text(OPPOSITE, 4))
    assert [s.device for s in module.selectors] == [None]


def test_a_device_with_a_scenario_of_its_own_is_no_crash() -> None:
    text = log_text({A100: 1.0}, 20) + log_text({H100: 1.0}, 1, seed=3).split("\n", 1)[1]
    module = trained(text)
    assert module.selectors[0].choice["device_forms"]["chosen"] == "pooled"


def test_winners_alone_are_compared_by_agreement() -> None:
    """The winner of every scenario, one device's opposite to the other's: no slowdown is known, and none told."""
    header, *rows = log_text(OPPOSITE, 30, noise=0.0).splitlines()
    best: dict[tuple[str, ...], str] = {}
    for row in rows:
        cells = row.split(",")
        key = tuple(cells[:4])
        if key not in best or float(cells[-1]) < float(best[key].split(",")[-1]):
            best[key] = row
    spec = spec_text() + "[log]\nwinners_only = true\n"
    module = trained("\n".join([header, *best.values()]) + "\n", spec, strategy="auto")
    record = module.selectors[0].choice["device_forms"]
    assert record["chosen"] == "one tree a device"
    assert "slowdown" not in str(module.selectors[0].choice)
    assert "the winner on" in device_forms(module.selectors[0])[1]


def test_comparing_adds_fits_of_decided_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are decided once a table, as without comparing; folds are fitted at these sizes."""
    calls = Counter[str]()

    def counting(name: str, original: Any) -> Any:
        def counted(*given: Any) -> Any:
            calls[name] += 1
            return original(*given)

        return counted

    for name in ("fit_decided", "refit"):
        monkeypatch.setattr(devices, name, counting(name, getattr(devices, name)))
    trained(log_text(OPPOSITE, 12))
    # Five folds of the tree for both, and of each device's; and what answers for either device in them.
    assert calls == {"fit_decided": 3, "refit": 5 * 3 + 2 * 5}


def test_what_ran_is_not_invalid_however_slow() -> None:
    """All was measured and succeeded; which configs take 1e12 times as long as others follows from nothing."""
    rng, head = np.random.RandomState(0), "vendor,device,m,n,BLOCK,num_warps,status,time_ms"
    rows = [
        f"nvidia,{device},{2**s},3,{block},4,ok,{rng.choice([1e-6, 1e6])}"
        for device in (A100, H100)
        for s in range(20)
        for block in (16, 32, 64, 128)
    ]
    found = trained("\n".join([head, *rows]) + "\n", shortlist=2).selectors[0]
    told = [
        *found.choice["device_forms"]["compared"],
        found.choice["unknown_device"],
        found.choice["shortlist"],
    ]
    assert [t["invalid_share"] for t in told] == [0.0] * 4
