"""Which scenarios are held out together, where a spec does not say it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heurgen.logs.costs import cost_tables
from heurgen.logs.groups import device_columns, grouped_features
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import Column, read_spec

DATA = Path(__file__).parents[2] / "data"
SIZES = (
    Column("tokens", "int"),
    Column("page", "int"),
    Column("share", "float"),
    Column("dtype", "category"),
)
RNG = np.random.RandomState(0)


def scenarios(*columns: np.ndarray) -> np.ndarray:
    return np.column_stack([np.asarray(c, dtype=np.float64) for c in columns])


def found(
    X: np.ndarray, features: tuple[Column, ...] = SIZES, device: np.ndarray | None = None
) -> tuple[str, ...]:
    return grouped_features(features, X, np.zeros(len(X), dtype=np.int64) if device is None else device)


def test_variants_of_a_shape_are_held_out_together() -> None:
    """40 lengths, each with two page sizes and two dtypes: repeats of a shape, not shapes."""
    tokens = np.repeat(RNG.permutation(9000)[:40], 4)
    X = scenarios(tokens, np.tile([16, 128], 80), tokens / 7, np.tile([0, 0, 1, 1], 40))
    assert found(X) == ("tokens", "share")


def test_strides_separate_nothing() -> None:
    """40 shapes, each with the second operand in both layouts: its strides are sizes again, or 1."""
    k, n = np.repeat(RNG.permutation(9000)[:40], 2), np.repeat(RNG.permutation(9000)[:40], 2)
    rows = np.tile([True, False], 40)
    features = tuple(Column(name, "int") for name in ("k", "n", "stride_0", "stride_1"))
    assert found(scenarios(k, n, np.where(rows, n, 1), np.where(rows, 1, k)), features) == ("k", "n")


def test_a_grid_of_few_sizes_keeps_all_numbers_apart() -> None:
    """12 token counts over 6 x 6 weights: to hold out all that share a token count would be another question."""
    m, n, k, dtype = (g.reshape(-1) for g in np.meshgrid(np.arange(12), np.arange(6), np.arange(6), [0, 1]))
    features = (*(Column(name, "int") for name in "mnk"), Column("dtype", "category"))
    assert found(scenarios(m, n, k, dtype), features) == ("m", "n", "k")


def test_categories_make_groups_where_there_is_hardly_a_number() -> None:
    X = scenarios(np.arange(100) % 2, np.ones(100), np.zeros(100), np.arange(100))
    assert found(X) == ("tokens", "page", "share", "dtype")


def test_a_small_log_is_not_cut_into_fewer_groups_than_can_be_held_out() -> None:
    X = scenarios([1, 1, 2, 2, 3, 3, 4, 4], np.ones(8), np.zeros(8), [0, 1] * 4)
    assert found(X) == ("tokens", "page", "share", "dtype")


def test_features_of_the_device_separate_nothing() -> None:
    """The same shapes on two devices with 108 and 132 multiprocessors are one group each."""
    tokens, device = np.tile(np.arange(1, 31), 2), np.repeat([0, 1], 30)
    X = scenarios(tokens, np.where(device == 0, 108, 132))
    features = (Column("tokens", "int"), Column("multiprocessors", "int"))
    assert device_columns(X, device) == (1,)
    assert found(X, features, device) == ("tokens",)


def test_the_paged_attention_log_by_its_lengths() -> None:
    spec = read_spec(DATA / "paged_attention.toml")
    (table,) = cost_tables(read_logs(DATA / "h200_paged_attention.csv", spec), spec)
    lengths = ("num_seqs", "total_query_tokens", "max_seqlen_q", "max_seqlen_k", "total_seqlen_k")
    assert table.grouped == lengths
    assert (table.n_scenarios, int(table.group.max()) + 1) == (549, 391)


def test_what_the_spec_says_comes_first() -> None:
    """The specs of what ships name all features, as it was chosen; see the comment in each."""
    for name in ("hopper_paged_attention", "static_grid", "mi300x_paged_attention"):
        spec = read_spec(DATA / f"{name}.toml")
        assert spec.group == tuple(f.name for f in spec.features)
    spec = read_spec(DATA / "static_grid.toml")
    (table,) = cost_tables(read_logs(DATA / "h200_static_grid.csv", spec), spec)
    assert table.grouped == spec.group
    assert int(table.group.max()) + 1 == 60
