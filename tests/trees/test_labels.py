"""Winners alone: agreement is recorded, never a slowdown."""

from __future__ import annotations

from heurgen.ir import Leaf, Selector
from heurgen.trees.labels import without_slowdowns

CHOICE = {
    "strategy": "joint",
    "mean_log_slowdown": 0.25,
    "held_out": {"geomean_slowdown": 1.3, "p95_slowdown": 2.0, "mean_log_slowdown": 0.0},
    "alternatives": [{"configs": 2, "mean_log_slowdown": 1.0}, {"configs": 4, "mean_log_slowdown": None}],
}


def selector(costs_known: bool) -> Selector:
    return Selector("nvidia", ("BLOCK",), ((16,),), Leaf(0), costs_known=costs_known, choice=CHOICE)


def test_the_mean_cost_becomes_the_share_of_winners_chosen_at_every_level() -> None:
    assert without_slowdowns(selector(False)).choice == {
        "strategy": "joint",
        "agreement": 0.75,
        "held_out": {"agreement": 1.0},
        "alternatives": [{"configs": 2, "agreement": 0.0}, {"configs": 4}],
    }


def test_where_costs_are_known_nothing_changes() -> None:
    known = selector(True)
    assert without_slowdowns(known) is known
