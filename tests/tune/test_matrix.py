"""What is left to do on one kind of device: who takes which scenario, what is compiled once, what is measured again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from heurgen.tune.matrix import Matrix
from heurgen.tune.protocol import Scenario, Space
from heurgen.tune.resume import LoggedRow, RowFormat
from heurgen.tune.space import config_key, enumerate_configs
from heurgen.tune.target import load_target
from heurgen.tune.timing import Failure, Method
from heurgen.tune.workloads import make_scenarios
from tests.tune.fakes import DEVICE, tunable

TARGET = load_target("tests.tune.fakes:tunable")
SPACE = enumerate_configs(
    Space({"BLOCK_M": (16, 32), "BLOCK_N": (64, 256), "num_warps": (1, 4)}), "nvidia", list(tunable.features)
)
SCENARIOS = make_scenarios({"grid": [{"M": [8, 64, 512], "N": [64], "dtype": ["float16"]}]}, tunable.features)
BY_M = {int(s.features["M"]): s for s in SCENARIOS}
FORMAT = RowFormat(("M", "N", "dtype"), ("BLOCK_M", "BLOCK_N", "num_warps"))
FEW = Method(samples=1, repeats=3, most_repeats=6)


def matrix(rows: Iterable[LoggedRow] = (), method: Method = FEW, plan: Any = None) -> Matrix:
    return Matrix(TARGET, SPACE, SCENARIOS, DEVICE, rows, FORMAT, method, plan)


def config(m: int = 16, n: int = 64, warps: int = 4) -> str:
    return config_key({"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps})


def logged(
    scenario: Scenario, time: float | None, key: str | None = None, device: str = DEVICE.name
) -> LoggedRow:
    cells = FORMAT.key(next(c for c in SPACE.configs if config_key(c) == (key or config())))
    return LoggedRow("nvidia", device, scenario.id, (), cells, time)


def measured(made: Matrix, scenario: Scenario, times: dict[str, list[float | None]]) -> None:
    for key, found in times.items():
        for time in found:
            made.add(scenario, key, Failure("crash", "") if time is None else time)


def test_each_scenario_is_taken_once_and_comes_back_in_its_place() -> None:
    made = matrix()
    order = made.left()
    assert {s.id for s in order} == {s.id for s in SCENARIOS}
    assert [made.take(lambda s: True), made.take(lambda s: s is not order[1])] == [order[0], order[2]]
    assert (made.busy, made.left()) == (2, [order[1]])
    assert made.take(lambda s: False) is None
    made.give_back(order[2], done=False)
    made.give_back(order[0], done=False)
    assert (made.busy, made.left()) == (0, order)
    assert made.take(lambda s: True) is order[0]
    made.give_back(order[0], done=True)
    assert (made.busy, made.left()) == (0, order[1:])


def test_rows_of_the_log_count() -> None:
    scenario = BY_M[64]
    rows = [logged(scenario, 1.0), logged(scenario, 2.0), logged(scenario, 1.0, device="another")]
    made = matrix(rows)
    assert (made.total, made.missing) == (24, 23)
    assert made.tallies[scenario.id].times[config()] == [1.0, 2.0]
    whole = [logged(scenario, None, key) for key in made.configs]
    assert scenario not in matrix(whole).left()  # what failed everywhere needs no repeats
    assert scenario in matrix([*whole[1:], logged(scenario, 1.0, next(iter(made.configs)))]).left()


def test_a_kernel_is_compiled_once_a_class_with_its_smallest_scenario() -> None:
    made = matrix()
    jobs = made.jobs(made.left(), ())
    classes = {made.class_of[s.id] for s in SCENARIOS}
    assert len(classes) == 2  # M is 8, or a multiple of 16
    assert len(jobs) == len({j.key for j in jobs}) == 2 * 6
    assert {j.scenario.id for j in jobs} == {BY_M[8].id, BY_M[64].id}
    assert [j.key[0] for j in jobs] == sorted((j.key[0] for j in jobs), key=[j.key[0] for j in jobs].index)
    wide = [k for k in made.verdict if made.verdict[k]]
    assert len(wide) == 2 * 2  # 256 columns with one warp do not fit
    assert made.verdict[wide[0]] == Failure("unfit", 'too wide\\nfor this, "device"')
    done = {jobs[0].key}
    assert len(made.jobs(made.left(), done)) == len(jobs) - 1
    assert not made.is_compiled(BY_M[8], done)
    assert made.is_compiled(BY_M[8], {j.key for j in jobs})


def test_the_smallest_of_a_class_is_that_of_the_least_work() -> None:
    sizes = [2**k for k in range(5, 13)]
    many = make_scenarios({"grid": [{"M": sizes, "N": [64], "dtype": ["float16"]}]}, tunable.features)
    made = Matrix(TARGET, SPACE, many, DEVICE, (), FORMAT, FEW)
    assert [s.features["M"] for s in made.smallest.values()] == [32]


def test_what_is_known_to_fail_and_what_to_measure() -> None:
    made = matrix()
    made.jobs(made.left(), ())
    assert len(made.failed(BY_M[64])) == 2
    assert sorted([*made.ranked(BY_M[64]), *(k for k, _ in made.failed(BY_M[64]))]) == sorted(made.configs)


def test_those_that_did_well_come_first_in_the_class_or_anywhere() -> None:
    made = matrix()
    measured(made, BY_M[64], {config(): [3.0], config(32): [1.0], config(32, 64, 1): [2.0]})
    made.learn(BY_M[64])
    best = [config(32), config(32, 64, 1), config()]
    assert made.ranked(BY_M[512])[:3] == best
    assert made.ranked(BY_M[8])[:3] == best  # the first of its class
    measured(made, BY_M[8], {config(): [1.0], config(32): [2.0]})
    made.learn(BY_M[8])
    assert made.ranked(BY_M[512])[:3] == best  # its own class knows better
    assert len(made.ranked(BY_M[512])) == 8


def rounds(made: Matrix, scenario: Scenario, time: Any) -> dict[str, int]:
    """Measure as the sweep does, and count."""
    for few in made.rounds(scenario):
        for key in few:
            made.add(scenario, key, time(key))
    return {key: made.tallies[scenario.id].count(key) for key in made.configs}


def test_the_best_few_are_repeated_and_ties_more_often() -> None:
    times = {config(): 1.0, config(32): 1.001, config(32, 64, 1): 1.5}
    made = matrix()
    measured(made, BY_M[64], {key: [t] for key, t in times.items()})
    measured(made, BY_M[64], {key: [None] for key in made.configs if key not in times})
    assert made.lacks_repeats(BY_M[64])
    counts = rounds(made, BY_M[64], lambda key: times[key])
    assert {counts[config()], counts[config(32)]} == {3}  # equal repeats have no spread
    assert not made.lacks_repeats(BY_M[64])
    noisy = matrix()
    measured(noisy, BY_M[64], {key: [t] for key, t in times.items()})
    measured(noisy, BY_M[64], {key: [None] for key in made.configs if key not in times})
    count = noisy.tallies[BY_M[64].id].count
    counts = rounds(noisy, BY_M[64], lambda key: times[key] * (1.05 if count(key) % 2 else 0.95))
    assert {counts[config()], counts[config(32)]} == {6}
    once = matrix(method=replace(FEW, repeats=1))
    measured(once, BY_M[64], {key: [t] for key, t in times.items()})
    assert set(rounds(once, BY_M[64], lambda key: 1.0).values()) == {0, 1}


def test_two_that_are_left_may_tie_but_not_at_one_median() -> None:
    """Of equal medians more repeats would tell nothing."""
    for apart, wanted in ((0.001, 6), (0.0, 3)):
        made = matrix()
        both = {config(): 1.0, config(32): 1.0 + apart}
        measured(made, BY_M[64], {key: [0.95 * t] for key, t in both.items()})
        measured(made, BY_M[64], {key: [None] for key in made.configs if key not in both})
        count = made.tallies[BY_M[64].id].count
        found = rounds(
            made, BY_M[64], lambda key, c=count, b=both: b[key] * (1.0, 1.05, 0.95)[(c(key) - 1) % 3]
        )
        assert {found[config()], found[config(32)]} == {wanted}


def test_the_second_loss_at_one_place_is_the_cause() -> None:
    made = matrix()
    assert not made.strike(BY_M[8], "a")
    assert not made.strike(BY_M[8], "b")
    assert not made.strike(BY_M[64], "a")
    assert made.strike(BY_M[8], "a")


def test_a_plan_says_what_comes_next() -> None:
    asked: list[int] = []

    def plan(made: Matrix) -> list[Scenario]:
        asked.append(made.total)
        if len(asked) > 2:
            return []
        chosen = BY_M[8] if len(asked) == 1 else BY_M[64]
        return [replace(chosen, configs=(SPACE.configs[0],) if len(asked) == 2 else ())]

    made = matrix(plan=plan)
    assert (made.total, made.missing, made.full_total) == (8, 8, 24)
    assert made.extend()
    assert (made.total, made.missing, len(made.left())) == (9, 9, 2)
    assert not made.extend()
    assert asked == [0, 8, 9]


def test_what_an_adaptive_sweep_has_finished_it_leaves_as_it_is() -> None:
    rows = [logged(BY_M[64], 1.0), logged(BY_M[64], 2.0, config(32))] * FEW.repeats
    made = matrix(rows, plan=lambda made: [])
    assert [s.id for s in made.scenarios] == [BY_M[64].id]
    assert (made.total, made.missing) == (2, 0)


def test_what_an_adaptive_sweep_was_stopped_in_is_asked_for_again() -> None:
    rows = [logged(BY_M[64], 1.0), logged(BY_M[64], 2.0, config(32))]
    made = matrix(rows, plan=lambda made: [] if made.scenarios else [BY_M[64]])
    assert made.left() == [BY_M[64]]
    assert (made.total - made.missing, made.missing > 0) == (2, True)
    assert set(made.tallies[BY_M[64].id].pending()).isdisjoint({config(), config(32)})
