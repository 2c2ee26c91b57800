"""Where the log has data, and where it has none."""

from __future__ import annotations

from dataclasses import replace

from heurgen import ir
from heurgen.audit.report.coverage import coverage
from heurgen.logs.costs import TableColumn
from tests.audit.views import TREE, module, view


def test_strips_say_range_density_and_thresholds() -> None:
    found = coverage(module(), view(), ())
    m, dtype = found.strips
    assert (m.name, m.about, m.seen, m.trained, m.n_distinct, m.note) == (
        "m", "int", "1 to 128", "1 to 128", 4, "log scale",
    )  # fmt: skip
    assert m.bars.count("Z") == 4
    assert m.cuts.count("M") == 1
    assert (dtype.name, dtype.about, dtype.seen, dtype.trained) == ("dtype", "category", "2 of 2 values", "")
    assert [label for _, label in dtype.ticks] == ["a", "b"]
    # 6 pixels on either side, heights the square roots of 3 and 1, half of the 328 pixels less one for each
    assert dtype.bars == "M6 38V4H169V38Z" + "M170 38V18.4H333V38Z"
    assert dtype.cuts == ""
    ((start, wide),) = m.gaps
    assert m.cuts.endswith(" 2V42")
    assert start < float(m.cuts[1:].split()[0]) < start + wide < 334


def test_stretches_without_a_scenario_are_told_the_widest_first() -> None:
    found = coverage(module(), view(), ())
    assert found.holes == ("no scenario with 2 < m < 64; the tree decides at 4 in there",)
    assert len(found.strips[0].gaps) == 1
    one = view()
    one.table.X[:, 0] = [1, 8, 1000, 2000]
    strip, holes = coverage(module(), one, ()).strips[0], coverage(module(), one, ()).holes
    assert [hole.split(";")[0] for hole in holes] == [
        "no scenario with 8 < m < 1000",
        "no scenario with 1 < m < 8",
    ]
    assert strip.gaps[0][1] > strip.gaps[1][1]


def test_between_neighbouring_ints_no_scenario_is_missing() -> None:
    """Though 0 and 1 lie far apart on a logarithmic axis. Between floats there is room."""
    one = view()
    one.table.X[:, 0] = [0, 1, 2, 40]
    assert [h.split(";")[0] for h in coverage(module(), one, ()).holes] == ["no scenario with 2 < m < 40"]
    columns = (TableColumn("m", "float"), *one.table.columns[1:])
    holes = coverage(module(), replace(one, table=replace(one.table, columns=columns)), ()).holes
    assert "no scenario with 0 < m < 1" in holes


def test_leaves_with_one_scenario_or_none_are_told() -> None:
    tree = ir.Split("m", 1, ir.Leaf(0, 1), ir.Split("m", 1000, TREE, ir.Leaf(0, 0)))
    holes = coverage(module(tree), view(tree), ()).holes
    assert "1 scenario in leaf 1: m ≤ 1" in holes
    assert "no scenario in leaf 4: m > 1000" in holes


def test_categories_that_no_scenario_has() -> None:
    one = view()
    one.table.X[:, 1] = 0  # the view's own copy of the log
    assert "no scenario with dtype = 'b'" in coverage(module(), one, ()).holes
