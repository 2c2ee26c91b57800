"""A tree as it answers on one device: no test of what is known there, and the evidence of that device's rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heurgen import ir
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.trees.alternatives import with_alternatives
from heurgen.trees.specialise import specialised
from tests.trees.synthetic import table

SMALL, LARGE = "GPU S", "GPU L"
# Shapes 1 and 9 on a device of 100 multiprocessors, then on one of 140: configs 16, 32 and 48 in ms.
TIMES = {
    (1, SMALL): [1.0, 4.0, 2.0],
    (1, LARGE): [1.0, 8.0, 3.0],
    (9, SMALL): [4.0, 1.0, 1.5],
    (9, LARGE): [2.0, 6.0, 1.0],
}
MULTIPROCESSORS = {SMALL: 100.0, LARGE: 140.0}


@pytest.fixture
def log() -> CostTable:
    X = np.array([[m, MULTIPROCESSORS[d]] for m, d in TIMES], dtype=np.float64)
    columns = [TableColumn("m", "int"), TableColumn("multiprocessors", "float")]
    found = table(columns, X, np.array(list(TIMES.values())))
    device = {value: name for name, value in MULTIPROCESSORS.items()}
    return replace(found, device=tuple(device[x] for x in found.X[:, 1].tolist()))


@pytest.fixture
def featured() -> ir.Selector:
    """m <= 4: 16; else 32 up to 120 multiprocessors, 48 beyond."""
    tree = ir.Split(
        "m",
        4,
        ir.Leaf(0, 2, 1.0, 2),
        ir.Split("multiprocessors", 120.0, ir.Leaf(1, 1, 1.0, 1), ir.Leaf(2, 1, 1.0, 1)),
    )
    return ir.Selector(
        vendor="nvidia",
        parameters=("BLOCK",),
        configs=((16,), (32,), (48,)),
        tree=tree,
        devices=(LARGE, SMALL),
        n_scenarios=4,
        strategy="joint",
        choice={"requested": "auto", "held_out": {"leaves": 3}},
    )


def on(device: str, selector: ir.Selector, log: CostTable) -> ir.Selector:
    rows = np.flatnonzero(np.array(log.device) == device)
    return specialised(selector, log, rows, device, {"multiprocessors": MULTIPROCESSORS[device]})


@pytest.mark.parametrize(("device", "configs"), [(SMALL, ((16,), (32,))), (LARGE, ((16,), (48,)))])
def test_what_is_known_is_not_tested_and_configs_of_the_other_side_are_gone(
    device: str, configs: tuple[ir.Config, ...], featured: ir.Selector, log: CostTable
) -> None:
    found = on(device, featured, log)
    assert isinstance(found.tree, ir.Split)
    assert (found.tree.feature, found.tree.threshold) == ("m", 4)
    assert [found.configs[leaf.config] for leaf in ir.leaves(found.tree)] == list(configs)
    assert (found.configs, found.device) == (configs, device)


def test_the_evidence_is_that_of_the_devices_rows(featured: ir.Selector, log: CostTable) -> None:
    small, large = on(SMALL, featured, log), on(LARGE, featured, log)
    for found in (small, large):
        assert [(leaf.n_scenarios, leaf.n_ok, leaf.slowdown) for leaf in ir.leaves(found.tree)] == [
            (1, 1, 1.0),
            (1, 1, 1.0),
        ]
    first = next(ir.leaves(small.tree)).runner_up, next(ir.leaves(large.tree)).runner_up
    assert [runner.slowdown for runner in first if runner is not None] == [
        pytest.approx(2.0),
        pytest.approx(3.0),
    ]
    # Only 32's leaf knows it by the small device; on the large one it would cost six times as much.
    wrong = replace(featured, tree=ir.Leaf(1, 4, 2.0, 4))
    assert [next(ir.leaves(on(d, wrong, log).tree)).slowdown for d in (SMALL, LARGE)] == [
        pytest.approx(2.0),
        pytest.approx(48.0**0.5),
    ]


def test_shortlists_are_as_long_as_they_were_and_list_what_the_device_wants(
    featured: ir.Selector, log: CostTable
) -> None:
    listed = with_alternatives(featured, log, np.arange(4), 2)
    for device, second in ((SMALL, [(32,), (16,)]), (LARGE, [(48,), (16,)])):
        found = on(device, listed, log)
        lists = [[found.listed[i] for i in leaf.shortlist] for leaf in ir.leaves(found.tree)]
        assert [one[0] for one in lists] == list(found.configs)
        assert [one[1:] for one in lists] == [[config] for config in second]
    assert all(not leaf.shortlist for leaf in ir.leaves(on(SMALL, featured, log).tree))


def test_tests_on_both_sides_are_resolved_and_the_longest_list_says_how_long(
    featured: ir.Selector, log: CostTable
) -> None:
    known = featured.tree.right if isinstance(featured.tree, ir.Split) else featured.tree
    both = replace(featured, tree=ir.Split("m", 4, known, ir.Leaf(0, 2, shortlist=(0, 1))))
    found = on(LARGE, both, log)
    assert [found.configs[leaf.config] for leaf in ir.leaves(found.tree)] == [(48,), (16,)]
    assert [len(leaf.shortlist) for leaf in ir.leaves(found.tree)] == [2, 2]


def test_only_what_was_asked_for_is_left_of_the_record(featured: ir.Selector, log: CostTable) -> None:
    assert dict(on(SMALL, featured, log).choice) == {"requested": "auto"}


def test_a_tree_of_other_features_answers_as_it_did(featured: ir.Selector, log: CostTable) -> None:
    plain = replace(featured, tree=ir.Split("m", 4, ir.Leaf(0, 2), ir.Leaf(2, 2)), configs=featured.configs)
    found = specialised(plain, log, np.arange(4), SMALL, {"multiprocessors": 100.0})
    assert isinstance(found.tree, ir.Split)
    assert found.configs == ((16,), (48,))
    assert [(leaf.config, leaf.n_scenarios) for leaf in ir.leaves(found.tree)] == [(0, 2), (1, 2)]
