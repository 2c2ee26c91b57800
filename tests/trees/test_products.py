"""Products and ratios of sizes: which there are, and when they are taken."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from heurgen.ir import expr
from heurgen.logs.costs import CostTable, TableColumn
from heurgen.spec.kernel_spec import DerivedColumn
from heurgen.trees import products
from heurgen.trees.build import choices
from heurgen.trees.learn import fit_rows
from heurgen.trees.options import FitOptions
from tests.trees.synthetic import table as made

M, N = TableColumn("m", "int"), TableColumn("n", "int")


def tiles(n_scenarios: int, seed: int = 0, noise: float = 0.02) -> CostTable:
    """Blocks of two sizes over m x n: what is best follows from how many there are, as on a GPU."""
    rng = np.random.RandomState(seed)
    X = np.floor(2 ** rng.uniform(4, 13, (n_scenarios, 2)))
    work = X[:, 0] * X[:, 1]
    times = np.column_stack(
        [np.ceil(work / side**2 / 132) * (side**2 / 50 + 90) for side in (16, 32, 64, 128, 256)]
    )
    return made([M, N], X, times * np.exp(noise * rng.randn(*times.shape)))


def first(table: CostTable) -> tuple[DerivedColumn, ...]:
    """The set that is tried first, of sizes alone, two at a time; empty where there is none."""
    return next(iter(products.sets(table)), ())


def named(table: CostTable) -> list[str]:
    return [f"{c.name} = {expr.to_text(c.expression)}" for c in first(table)]


def test_every_two_sizes_have_a_product_and_a_ratio() -> None:
    table = tiles(120)
    assert named(table) == ["m_times_n = m * n", "m_per_n = m / n"]
    wide = products.with_columns(table, first(table))
    for column, values in zip(first(table), wide.X.T[2:], strict=True):
        rows = [dict(zip("mn", row, strict=True)) for row in table.X.tolist()]
        assert values.tolist() == [expr.evaluate(column.expression, row) for row in rows]
    assert [c.derived for c in wide.columns] == [False, False, True, True]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"columns": (M, replace(N, derived=True))}, []),  # the spec names some
        ({"costs_known": False}, []),
        ({"columns": (M, replace(N, type="category"))}, []),
        ({"columns": (M, TableColumn("m_times_n", "int"))}, ["m_times_m_times_n", "m_per_m_times_n"]),
        ({"parameters": ("m_times_n",)}, ["m_per_n"]),
    ],
)
def test_what_is_not_taken_for_sizes(change: dict[str, object], left: list[str]) -> None:
    table = replace(tiles(120), **change)  # type: ignore[arg-type]
    assert [c.name for c in first(table)] == left


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_a_number_that_stands_for_none_is_no_size(value: float) -> None:
    table = tiles(120)
    X = table.X.copy()
    X[0, 1] = value
    assert products.sets(replace(table, X=X)) == ()


def test_what_orders_the_scenarios_as_a_feature_does_is_left_out() -> None:
    table = tiles(120)
    X = np.column_stack([table.X[:, 0], table.X[:, 0] ** 2])
    assert named(replace(table, X=X)) == []


def test_more_than_some_sizes_have_too_many() -> None:
    rng = np.random.RandomState(0)
    for count in (5, 6):
        columns = [TableColumn(f"x{i}", "float") for i in range(count)]
        table = made(columns, rng.uniform(1, 9, (120, count)), rng.uniform(1, 2, (120, 3)))
        assert [len(columns) for columns in products.sets(table)] == ([20] if count == 5 else [])


def test_strides_are_no_sizes() -> None:
    """A log of matrix products has m, k, n and three strides, each 1 or one of these: three sizes, not six."""
    rng = np.random.RandomState(0)
    m, k, n = np.floor(2 ** rng.uniform(4, 13, (3, 40)))
    transposed = rng.rand(40) < 0.5
    strides = [k, np.where(transposed, 1, n), np.where(transposed, k, 1)]
    columns = [TableColumn(name, "int") for name in ("m", "k", "n", "stride_0", "stride_1", "stride_2")]
    table = made(columns, np.column_stack([m, k, n, *strides]), rng.uniform(1, 2, (40, 3)))
    found = [f"{a}_{how}_{b}" for a, b in ("km", "kn", "mn") for how in ("times", "per")]
    assert [c.name for c in first(table)] == found


def test_two_pairs_of_one_name() -> None:
    """a * b_times_c and a_times_b * c: a model has one of them, the same for all vendors."""
    rng = np.random.RandomState(0)
    columns = [TableColumn(name, "int") for name in ("a", "b_times_c", "a_times_b", "c")]
    table = made(columns, np.floor(2 ** rng.uniform(4, 13, (40, 4))), rng.uniform(1, 2, (40, 3)))
    found = [text for text in named(table) if text.startswith("a_times_b_times_c ")]
    assert found == ["a_times_b_times_c = a * b_times_c"]
    X = table.X.copy()
    X[0, 1] = 0  # no size of this vendor
    assert not [text for text in named(replace(table, X=X)) if text.startswith("a_times_b_times_c ")]


def test_what_neither_a_name_nor_a_float_holds() -> None:
    table = tiles(120)
    long = tuple(replace(c, name=c.name * 80) for c in table.columns)
    assert products.sets(replace(table, columns=long)) == ()  # 167 characters, of 160
    assert named(replace(table, X=table.X * 1e152)) == ["m_per_n = m / n"]  # inf in a few scenarios


def test_they_are_taken_where_they_pay() -> None:
    table = tiles(200)
    trial = products.tried(table, products.sets(table))
    assert trial is not None
    assert trial.columns
    assert trial.with_them < trial.without - 0.01
    many = tiles(600, seed=1)
    train, test = np.arange(0, 600, 2), np.arange(1, 600, 2)
    wide = products.chosen(many, train)
    assert len(wide.columns) == 4
    found = {}
    for name, t in (("without", many), ("with", wide)):
        chosen = choices(fit_rows(t, train, FitOptions()), t, test)
        found[name] = float(many.log_slowdown[test, chosen].mean())
    assert found["with"] < 0.7 * found["without"]


@pytest.mark.parametrize(
    ("n", "noise", "share", "most"),
    [(200, 0.05, 0.06, 1.15), (300, 0.02, 0.3, 1.3)],
    ids=["missed", "searched"],
)
def test_cells_without_a_time_hide_nothing(n: int, noise: float, share: float, most: float) -> None:
    """One of 17 was missed, each as slow as a failure 1.21 without products; of a random search three choices of ten
    were not measured, which estimates judge.
    """
    whole = tiles(n, noise=noise)
    gaps = np.random.RandomState(0).rand(*whole.times.shape) < share
    gaps[gaps.all(axis=1), 0] = False
    table = made([M, N], whole.X, np.where(gaps, np.nan, whole.times))
    trial = products.tried(table, products.sets(table))
    assert trial is not None
    assert trial.columns
    assert trial.with_them < trial.without < most


def test_zeros_beyond_the_scenarios_that_decide_are_as_generated_code_has_them() -> None:
    many = tiles(400)
    X = many.X.copy()
    X[300:, 1] = 0
    wide = products.chosen(replace(many, X=X), np.arange(300))
    assert [c.name for c in wide.columns[2:]] == ["m_times_n", "m_per_n"]
    for column, values in zip(first(many), wide.X.T[2:], strict=True):
        rows = [dict(zip("mn", row, strict=True)) for row in X.tolist()]
        assert values.tolist() == [expr.evaluate(column.expression, row) for row in rows]


def test_noise_takes_none() -> None:
    rng = np.random.RandomState(3)
    X = np.floor(2 ** rng.uniform(4, 13, (200, 2)))
    table = made([M, N], X, np.exp(0.1 * rng.randn(200, 6)))
    trial = products.tried(table, products.sets(table))
    assert trial is not None
    assert trial.columns == ()


@pytest.mark.parametrize("n_scenarios", [35, 90])
def test_few_scenarios_are_asked_where_every_config_runs(n_scenarios: int) -> None:
    """A log of 98 matrix products is no other than one of 102."""
    table = tiles(n_scenarios)
    trial = products.tried(table, products.sets(table))
    assert trial is not None
    assert trial.columns
    never = np.full((n_scenarios, 1), np.inf)  # nor does a config that runs nowhere change that
    beside = made([M, N], table.X, np.column_stack([table.times, never]))
    assert products.tried(beside, products.sets(beside)) == trial


@pytest.mark.parametrize("fails", [np.inf, np.nan])
def test_few_scenarios_are_not_asked_where_a_config_runs_in_some(fails: float) -> None:
    table = tiles(90)
    times = table.times.copy()
    times[table.X[:, 0] > 4096, 2] = fails
    table = made([M, N], table.X, times)
    assert products.tried(table, products.sets(table)) is None


def test_fewer_than_some_are_not_asked() -> None:
    table = tiles(29)
    assert products.tried(table, products.sets(table)) is None
    assert products.tried(tiles(200), ()) is None


def blocks(n_scenarios: int, seed: int = 0) -> CostTable:
    """Attention: what is best follows from how many blocks of queries there are, batch times heads times each."""
    rng = np.random.RandomState(seed)
    batch, heads = 2.0 ** rng.randint(0, 6, n_scenarios), rng.choice([8.0, 16, 32, 40], n_scenarios)
    q = np.floor(2 ** rng.uniform(6, 13, n_scenarios))
    times = np.column_stack(
        [np.ceil(batch * heads * np.ceil(q / side) / 264) * (side + 12) for side in (16, 32, 64, 128, 256)]
    )
    columns = [TableColumn(name, "int") for name in ("batch", "heads", "q")]
    return made(columns, np.column_stack([batch, heads, q]), times * np.exp(0.02 * rng.randn(*times.shape)))


def test_numbers_of_few_values_are_sizes_where_there_is_room_and_three_are_multiplied() -> None:
    (found,) = products.sets(blocks(120))  # of more than eight values there is one
    two = [f"{a}_{how}_{b}" for a, b in combinations(("batch", "heads", "q"), 2) for how in ("times", "per")]
    assert [c.name for c in found] == [*two, "batch_times_heads_times_q"]
    assert expr.to_text(found[-1].expression) == "batch * heads * q"


def test_three_of_one_name_are_not_multiplied() -> None:
    """a_times_b * c * d and a * b_times_c * d: vendors have other sizes, and would have one name for both."""
    rng = np.random.RandomState(0)
    columns = [TableColumn(name, "int") for name in ("a", "a_times_b", "b_times_c", "c", "d")]
    X = np.column_stack([rng.randint(1, 900, (120, 4)), rng.randint(1, 6, (120, 1))])
    _, wide = products.sets(made(columns, X, rng.uniform(1, 2, (120, 3))))
    assert [c.name for c in wide if expr.to_text(c.expression).count("*") == 2] == ["a_times_c_times_d"]


def test_few_scenarios_have_no_thirty_columns() -> None:
    assert products.sets(blocks(90)) == ()
    table = tiles(90)
    beside = np.column_stack([table.X, np.arange(90) % 3 + 1])
    three = made([M, N, TableColumn("k", "int")], beside, table.times)
    assert [[c.name for c in columns] for columns in products.sets(three)] == [["m_times_n", "m_per_n"]]


def test_the_numbers_of_most_values_come_first() -> None:
    rng = np.random.RandomState(0)
    counts = {"a": 2, "b": 3, "c": 5, "d": 4, "e": 5, "f": 900, "g": 900}
    X = np.column_stack([1 + rng.randint(0, count, 200) for count in counts.values()])
    table = made([TableColumn(name, "int") for name in counts], X, rng.uniform(1, 2, (200, 3)))
    pairs, wide = products.sets(table)
    assert [c.name for c in pairs] == ["f_times_g", "f_per_g"]
    assert {name for c in wide for name in c.name.replace("_per_", "_times_").split("_times_")} == set(
        "cdefg"
    )
    assert len(wide) == 30


def test_products_of_three_are_taken_where_they_pay() -> None:
    many = blocks(600)
    train, test = np.arange(0, 600, 2), np.arange(1, 600, 2)
    wide = products.chosen(many, train)
    assert "batch_times_heads_times_q" in [c.name for c in wide.columns]
    found = []
    for t in (many, wide):
        chosen = choices(fit_rows(t, train, FitOptions()), t, test)
        found.append(float(many.log_slowdown[test, chosen].mean()))
    assert found[1] < 0.7 * found[0]


def test_more_columns_are_taken_where_they_gain_beyond_fewer() -> None:
    """In a third number lies nothing."""
    table = tiles(200)
    rng = np.random.RandomState(0)
    beside = made(
        [M, N, TableColumn("k", "int")], np.column_stack([table.X, rng.randint(1, 4, 200)]), table.times
    )
    assert [len(columns) for columns in products.sets(beside)] == [2, 7]
    trial = products.tried(beside, products.sets(beside))
    assert trial is not None
    assert [c.name for c in trial.columns] == ["m_times_n", "m_per_n"]
