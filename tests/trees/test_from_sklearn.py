"""sklearn's prediction = IR = generated function, on at least 1,000 trees and 100,000 probes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

import heurgen
from heurgen.base.errors import ModelError
from heurgen.ir import SCHEMA_VERSION, Feature, Leaf, Split, nodes
from heurgen.ir.passes import FLOAT32_MAX
from heurgen.trees.from_sklearn import fitted_tree
from tests.support.generated import loaded

N_TREES = 1000
PROBES_PER_TREE = 100
FEATURES = (
    Feature("small", "int"),
    Feature("real", "float"),
    Feature("huge", "int"),
    Feature("flag", "bool"),
    Feature("wide", "float"),
)
ESTIMATORS = (DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor)


def training_data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    n = 60 if seed % 19 == 0 else 10
    X = np.stack(
        [
            rng.randint(-40, 40, n).astype(float),
            rng.randn(n) * 10.0 ** rng.randint(-6, 6),
            rng.randint(2**24 - 20, 2**24 + 20, n) * 2.0 ** rng.randint(0, 29),
            rng.randint(0, 2, n).astype(float),
            rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-30, 38, n),
        ],
        axis=1,
    )
    return X, rng.randint(0, 5, (n, 1 + seed % 3))


def fitted(seed: int) -> tuple[object, np.ndarray]:
    X, y = training_data(seed)
    kind = ESTIMATORS[seed % 4]
    target = y[:, 0] if y.shape[1] == 1 else y
    if seed % 8 == 0:
        target = np.array(["x", "y'", 'z"', "\n", "é"])[target]
    return kind(max_depth=1 + seed % 9, random_state=seed).fit(X, target), X


def probes(estimator: object, X: np.ndarray, seed: int) -> np.ndarray:
    """Random points; thresholds, their float32 and float64 neighbours, and the ints around them."""
    rng = np.random.RandomState(seed + 1)
    tree = estimator.tree_  # type: ignore[attr-defined]
    P = X[rng.randint(0, len(X), PROBES_PER_TREE)].copy()
    inner = np.flatnonzero(tree.feature >= 0)
    if len(inner):
        t = tree.threshold[inner]
        near32 = t.astype(np.float32)
        below, above = (np.nextafter(near32, np.float32(end)).astype(float) for end in (-np.inf, np.inf))
        near = [t, np.nextafter(t, 1e308), np.nextafter(t, -1e308), near32.astype(float), below, above]
        near += [(near32 + above) / 2, (near32 + below) / 2, np.floor(t), np.ceil(t), np.floor(t) + 1, -t]
        near += [np.zeros_like(t), np.full_like(t, 2.0**24 + 1)]
        which, kinds = rng.randint(len(inner), size=len(P)), rng.randint(len(near), size=len(P))
        P[np.arange(len(P)), tree.feature[inner[which]]] = np.stack(near)[kinds, which]
    for column, feature in enumerate(FEATURES):
        if feature.type == "int":
            P[:, column] = np.clip(np.floor(P[:, column]), -(2.0**53), 2.0**53)
        if feature.type == "bool":
            P[:, column] = P[:, column] > 0.5
    return np.clip(P, -FLOAT32_MAX, FLOAT32_MAX)


def arguments(P: np.ndarray) -> list[tuple[object, ...]]:
    """The rows, each value of its feature's type."""
    plain = {"int": int, "float": float, "bool": bool}
    return list(zip(*(map(plain[f.type], P[:, i].tolist()) for i, f in enumerate(FEATURES)), strict=True))


@pytest.mark.slow
def test_sklearn_ir_and_generated_function_agree() -> None:
    checked = 0
    for seed in range(N_TREES):
        estimator, X = fitted(seed)
        module = heurgen.from_sklearn(estimator, features=FEATURES)
        function = loaded(module)["SELECTORS"]["any"]
        P = probes(estimator, X, seed)
        predicted = estimator.predict(P).reshape(len(P), -1).tolist()  # type: ignore[attr-defined]
        for values, expected in zip(arguments(P), predicted, strict=True):
            features = dict(zip((f.name for f in FEATURES), values, strict=True))
            assert tuple(function(*values)) == tuple(expected)
            assert list(heurgen.select(module, "any", features).values()) == expected
            checked += 1
    assert checked >= 100_000


def test_int_thresholds_are_int_literals_and_bools_are_tested_for_truth() -> None:
    estimator = DecisionTreeClassifier(random_state=0).fit([[1, 0], [2, 0], [2, 1]], ["a", "b", "c"])
    module = heurgen.from_sklearn(estimator, features=[Feature("n", "int"), Feature("flag", "bool")])
    tests = {n.feature: n.threshold for n in nodes(module.selectors[0].tree) if isinstance(n, Split)}
    assert tests == {"n": 1, "flag": 0}
    assert type(tests["n"]) is int


def test_names_come_from_the_estimator() -> None:
    estimator = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.5, 1.5])
    module = heurgen.from_sklearn(estimator)
    assert [f.name for f in module.features] == ["x0"]
    assert heurgen.select(module, "any", {"x0": 0.5}) == {"y": 0.5}


def test_several_outputs_are_several_parameters() -> None:
    estimator = DecisionTreeClassifier().fit([[0], [1]], [[16, 2], [64, 8]])
    module = heurgen.from_sklearn(estimator, parameters=["BLOCK_M", "num_warps"], vendor="nvidia")
    assert heurgen.select(module, "nvidia", {"x0": 3}) == {"BLOCK_M": 64, "num_warps": 8}


def test_one_name_is_that_of_one_output() -> None:
    estimator = DecisionTreeClassifier().fit([[0], [1]], [16, 64])
    module = heurgen.from_sklearn(estimator, parameters="BLOCK_M")
    assert heurgen.select(module, "any", {"x0": 3}) == {"BLOCK_M": 64}


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (DecisionTreeClassifier(), "'DecisionTreeClassifier' is no fitted decision tree"),
        (LinearRegression().fit([[0], [1]], [0, 1]), "'LinearRegression' is no fitted decision tree"),
        (object(), "'object' is no fitted decision tree"),
    ],
)
def test_refuses_what_has_no_tree(estimator: object, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        heurgen.from_sklearn(estimator)
    assert caught.value.message == message


def test_refuses_a_category_and_a_wrong_number_of_features() -> None:
    estimator = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ModelError, match="is a category, but the estimator saw a number"):
        heurgen.from_sklearn(estimator, features=[Feature("dtype", "category", values=("a",))])
    with pytest.raises(ModelError, match="2 features for the 1 column "):
        heurgen.from_sklearn(estimator, features=["a", "b"])


def test_refuses_the_estimator_s_own_names_in_another_order() -> None:
    frame = pd.DataFrame({"N": [1.0, 2.0, 3.0], "M": [5.0, 5.0, 9.0]})
    estimator = DecisionTreeClassifier().fit(frame, [0, 1, 2])
    with pytest.raises(ModelError) as caught:
        heurgen.from_sklearn(estimator, features=["M", "N"])
    assert caught.value.message == "the features M, N are in another order than the estimator's columns"
    assert caught.value.hint == "name them as it was fitted: N, M"
    for names in (["N", "M"], ["cols", "rows"]):
        assert [f.name for f in heurgen.from_sklearn(estimator, features=names).features] == names
    unnamed = DecisionTreeClassifier().fit(frame.to_numpy(), [0, 1, 2])
    assert [f.name for f in heurgen.from_sklearn(unnamed, features=["x1", "x0"]).features] == ["x1", "x0"]


def test_refuses_a_tree_deeper_than_python_source_can_be() -> None:
    X = np.arange(200.0)[:, None]
    estimator = DecisionTreeRegressor(criterion="squared_error").fit(X, 4.0 ** np.arange(200))
    assert estimator.get_depth() > 90
    with pytest.raises(ModelError, match="expected at most 90"):
        heurgen.from_sklearn(estimator)


def test_the_selector_says_what_it_was_made_of_and_that_costs_are_unknown() -> None:
    estimator = DecisionTreeClassifier(random_state=0).fit([[1], [2], [3]], [0, 1, 1])
    module = heurgen.from_sklearn(estimator, kernel="k", vendor="amd")
    selector = module.selector("amd")
    assert (selector.costs_known, selector.strategy, selector.n_scenarios) == (False, "from_sklearn", 3)
    assert [leaf.n_scenarios for leaf in nodes(selector.tree) if isinstance(leaf, Leaf)] == [1, 2]
    assert (module.kernel, module.vendors) == ("k", ("amd",))
    assert dict(module.provenance) == {"heurgen": heurgen.__version__, "schema_version": SCHEMA_VERSION}


@pytest.mark.parametrize("depth", [90, 91])
def test_ninety_tests_on_a_path_are_the_most(depth: int) -> None:
    estimator = SimpleNamespace(tree_=SimpleNamespace(children_left=[], max_depth=depth))
    if depth == 90:
        assert fitted_tree(estimator) is estimator.tree_
    else:
        with pytest.raises(ModelError, match="the tree is 91 deep, expected at most 90"):
            fitted_tree(estimator)
