"""Advice as a workload that the tuner reads."""

from __future__ import annotations

import tomllib

import pytest

from heurgen.audit.advise import Advice, advise
from heurgen.audit.advise.workload import to_workload
from heurgen.base.errors import UsageError
from heurgen.tune.workloads import make_scenarios
from tests.audit.learner import h200, load


def advice(count: int) -> list[Advice]:
    spec, _, (table,) = load()
    return advise(h200(), table, spec, count)


def test_the_workload_is_toml_that_says_what_to_measure() -> None:
    found, kernel = advice(6), h200().kernel
    text = to_workload(found, kernel, "nvidia")
    data = tomllib.loads(text)["scenario"]
    assert len(data) == 6
    assert len({s["id"] for s in data}) == 6
    for scenario, one in zip(data, found, strict=True):
        assert {k: scenario[k] for k in one.features} == dict(one.features)
        assert scenario["configs"] == [dict(c) for c in one.configs]
    assert to_workload(advice(6), kernel, "nvidia") == text


def test_the_tuner_reads_the_workload() -> None:
    module = h200()
    data = tomllib.loads(to_workload(advice(6), module.kernel, "nvidia"))
    scenarios = make_scenarios(data, {f.name: f.type for f in module.features})
    assert [s.id for s in scenarios] == [s["id"] for s in data["scenario"]]
    assert all(s.configs for s in scenarios)


def test_hostile_strings_in_the_workload_stay_strings() -> None:
    evil = 'a"\n[[scenario]]\nid = "x"\u202e\x00'
    text = to_workload([Advice({"dtype": evil, "ok": True}, ({"v": evil},), 1.0, (evil,), evil)], evil, "amd")
    (scenario,) = tomllib.loads(text)["scenario"]
    assert (scenario["dtype"], scenario["configs"][0]["v"]) == (evil, evil)


@pytest.mark.parametrize("name", ["two\nlines", "x" * 201, " x", "\u202e"])
def test_an_id_that_the_tuner_would_refuse_is_not_written(name: str) -> None:
    found = [Advice({"M": 8}, ({"v": 1},), 1.0, (), name), Advice({"M": 9}, ({"v": 1},), 1.0, (), "é/1")]
    data = tomllib.loads(to_workload(found, "k", "amd"))
    first, second = (s.id for s in make_scenarios(data, {"M": "int"}))
    assert first.startswith("advised-")
    assert second == "é/1"


def test_measured_scenarios_of_equal_features_whose_ids_cannot_be_written_are_told_apart() -> None:
    found = [Advice({"M": 8}, ({"v": 1},), 1.0, (), name) for name in ("a\n1", "a\n2", "")]
    data = tomllib.loads(to_workload(found, "k", "amd"))
    assert len(make_scenarios(data, {"M": "int"})) == 3


@pytest.mark.parametrize("name", ["id", "lengths", "configs"])
def test_a_feature_that_a_scenario_has_a_key_for_is_no_broken_file(name: str) -> None:
    """The key stood there twice, which is no TOML."""
    with pytest.raises(UsageError) as caught:
        to_workload([Advice({"M": 8, name: 1}, ({"v": 1},), 1.0, ())], "k", "amd")
    assert str(caught.value) == (
        f"a workload cannot give the feature '{name}': [[scenario]] has a key of that name"
        " (rename it in the tunable and in the spec)"
    )
