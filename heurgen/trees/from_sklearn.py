"""Any fitted scikit-learn decision tree -> IR, exactly, from its fitted arrays alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heurgen._version import __version__
from heurgen.base.errors import ModelError, quoted
from heurgen.base.text import counted
from heurgen.ir import (
    MAX_DEPTH,
    SCHEMA_VERSION,
    ColumnType,
    Config,
    Feature,
    HeuristicModule,
    Leaf,
    Node,
    Parameter,
    Selector,
    Value,
)
from heurgen.ir.passes import exact_split


def from_sklearn(
    estimator: Any,
    *,
    features: Sequence[Feature | str] | None = None,
    parameters: Sequence[str] | str | None = None,
    kernel: str = "tree",
    vendor: str = "any",
) -> HeuristicModule:
    """Turn a fitted decision tree (classifier or regressor, any number of outputs) into a module, unrounded.

    Args:
        estimator: anything with scikit-learn's `tree_` (DecisionTree*, ExtraTree*), fitted.
        features: one per column of X: a `Feature`, or a name, which stands for a float feature. Default: the
            names seen in `fit`, else x0, x1, ... int features compare with int thresholds, bool features
            are tested for truth; a category has no place in a column of numbers.
        parameters: names of the outputs, or the name of one. Default: y, or y0, y1, ...
        kernel: what the generated module says it is of.
        vendor: whose function of the generated module it becomes.

    The prediction of the estimator, of `heurgen.select` and of the generated function agree on every finite
    input within float32 range (ints up to 2**53).

    Raises:
        ModelError: the estimator is no fitted decision tree, is deeper than 90, was fitted on columns of the
            features' names in another order, or its outputs are no plain ints, floats, bools or strings.
    """
    arrays = fitted_tree(estimator)
    columns = _features(estimator, features, int(arrays.n_features))
    outputs = _outputs(estimator, arrays)
    if isinstance(parameters, str):  # a name alone would be as many as it has letters
        parameters = (parameters,)
    names = tuple(parameters) if parameters is not None else _default_names(len(outputs[0]))
    if len(names) != len(outputs[0]):
        raise ModelError(
            f"{counted(len(names), 'parameter name')} for an estimator of {counted(len(outputs[0]), 'output')}"
        )
    configs = tuple(dict.fromkeys(_typed(c) for c in outputs))
    index = {config: i for i, config in enumerate(configs)}
    leaf_config = [index[_typed(config)] for config in outputs]
    tree = _tree(arrays, columns, leaf_config)
    n_samples = int(arrays.n_node_samples[0])
    plain = tuple(tuple(value for _, value in config) for config in configs)
    selector = Selector(
        vendor, names, plain, tree, n_scenarios=n_samples, costs_known=False, strategy="from_sklearn"
    )
    types = [_type_of([config[i] for config in plain]) for i in range(len(names))]
    return HeuristicModule(
        kernel,
        columns,
        tuple(Parameter(n, t) for n, t in zip(names, types, strict=True)),
        (selector,),
        provenance={"heurgen": __version__, "schema_version": SCHEMA_VERSION},
    )


def fitted_tree(estimator: Any) -> Any:
    """The estimator's `tree_` arrays.

    Raises:
        ModelError: there are none, or the tree is too deep.
    """
    tree = getattr(estimator, "tree_", None)
    if tree is None or not hasattr(tree, "children_left"):
        kind = type(estimator).__name__
        raise ModelError(
            f"{quoted(kind)} is no fitted decision tree",
            hint="pass a fitted DecisionTreeClassifier, DecisionTreeRegressor or ExtraTree*",
        )
    if tree.max_depth > MAX_DEPTH:
        raise ModelError(
            f"the tree is {tree.max_depth} deep, expected at most {MAX_DEPTH}", hint="fit it with max_depth"
        )
    return tree


def _tree(arrays: Any, columns: Sequence[Feature], leaf_config: Sequence[int]) -> Node:
    """The fitted tree as IR; `leaf_config` gives the config index of every sklearn node."""
    left, right = arrays.children_left.tolist(), arrays.children_right.tolist()
    feature, threshold = arrays.feature.tolist(), arrays.threshold.tolist()
    samples = arrays.n_node_samples.tolist()

    def build(i: int) -> Node:
        if left[i] == -1:
            return Leaf(leaf_config[i], samples[i])
        column = columns[feature[i]]
        return exact_split(column.name, column.type, threshold[i], build(left[i]), build(right[i]))

    return build(0)


def _features(estimator: Any, features: Sequence[Feature | str] | None, n: int) -> tuple[Feature, ...]:
    fitted = [str(x) for x in getattr(estimator, "feature_names_in_", ())]
    if features is None:
        features = fitted or [f"x{i}" for i in range(n)]
    if len(features) != n:
        raise ModelError(
            f"{counted(len(features), 'feature')} for the {counted(n, 'column')} that the estimator was fitted on"
        )
    made = tuple(f if isinstance(f, Feature) else Feature(f, "float") for f in features)
    for feature in made:
        if feature.type == "category":
            raise ModelError(
                f"feature {quoted(feature.name)} is a category, but the estimator saw a number",
                hint="declare it int or bool",
            )
    names = [feature.name for feature in made]
    if names != fitted and sorted(names) == sorted(fitted):  # other names may be new ones for the columns
        raise ModelError(
            f"the features {', '.join(names)} are in another order than the estimator's columns",
            hint=f"name them as it was fitted: {', '.join(fitted)}",
        )
    return made


def _default_names(n: int) -> tuple[str, ...]:
    return ("y",) if n == 1 else tuple(f"y{i}" for i in range(n))


def _outputs(estimator: Any, arrays: Any) -> list[Config]:
    """What `predict` gives at every node: a tuple with one plain value per output."""
    n_outputs = int(arrays.n_outputs)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return [tuple(map(float, node[:, 0])) for node in arrays.value]
    per_output = [classes] if n_outputs == 1 else list(classes)
    best = arrays.value.argmax(axis=2)
    return [tuple(_plain(per_output[o][row[o]]) for o in range(n_outputs)) for row in best]


def _plain(value: Any) -> Value:
    item = value.item() if hasattr(value, "item") else value
    if type(item) not in (int, float, bool, str):
        raise ModelError(f"the class {quoted(item)} is no int, float, bool or string")
    plain: Value = item
    return plain


def _typed(config: Config) -> tuple[tuple[str, Value], ...]:
    """A key under which 1, 1.0 and True differ, and 0.0 and -0.0 too."""
    return tuple((repr(value), value) for value in config)


def _type_of(values: Sequence[Value]) -> ColumnType:
    kinds = {type(v) for v in values}
    if len(kinds) > 1:
        raise ModelError("one output mixes types of values")
    names: dict[type, ColumnType] = {int: "int", float: "float", bool: "bool", str: "category"}
    return names[kinds.pop()]
