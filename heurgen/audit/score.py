"""Replay a module on a log: what it would have chosen, and what that cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heurgen import ir
from heurgen.base.errors import LogError, ModelError, quoted
from heurgen.base.figures import Summary, summarise
from heurgen.base.outline import outline
from heurgen.base.text import counted, summary_tables
from heurgen.logs import frame

if TYPE_CHECKING:
    from pandas import DataFrame

    from heurgen.logs.costs import CostTable

# What `Choice.status` says of a choice that was not valid.
INVALID = ("failed", "unmeasured")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the module chose for one scenario. `slowdown` is None where the choice failed, was never measured,
    or costs are unknown; `status` says which: ok, failed, unmeasured, unknown.

    `row` is the scenario's place in its vendor's cost table, `leaf_index` the leaf's in `ir.leaves` of the
    selector that answered, `column` the chosen config's in the table (None: never measured), `noise` the
    relative noise of a time in the scenario.
    """

    scenario: str
    vendor: str
    device: str
    features: dict[str, Any]
    chosen: ir.Config
    best: ir.Config
    slowdown: float | None
    status: str
    leaf: ir.Leaf
    row: int
    leaf_index: int
    column: int | None
    noise: float
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        """The scenario's id; its features where the log has no ids."""
        return self.scenario or " ".join(f"{k}={v}" for k, v in self.features.items())

    @property
    def agrees(self) -> bool:
        """Whether the choice is the measured winner, or exactly as fast."""
        return self.chosen == self.best or self.slowdown == 1.0


@dataclass(frozen=True, slots=True)
class Score:
    """A module on a log: overall, per vendor ("nvidia") and per device ("nvidia / NVIDIA H200")."""

    overall: Summary
    groups: dict[str, Summary]
    choices: tuple[Choice, ...]
    notes: tuple[str, ...] = ()

    __repr__ = outline

    def to_frame(self) -> DataFrame:
        """A row a scenario: where and what it is, the chosen and the best config, `status`, `slowdown` (NaN: none)."""
        return frame.from_records(
            {
                "vendor": c.vendor,
                "device": c.device,
                "scenario": c.scenario,
                **c.features,
                **{f"chosen_{name}": value for name, value in zip(c.parameters, c.chosen, strict=True)},
                **{f"best_{name}": value for name, value in zip(c.parameters, c.best, strict=True)},
                "status": c.status,
                "slowdown": math.nan if c.slowdown is None else c.slowdown,
                "agrees": c.agrees,
            }
            for c in self.choices
        )


def to_text(
    score: Score,
    trained: bool,
    held: Mapping[str, Summary],
    today: Mapping[str, Summary],
    generated: bool = False,
) -> str:
    """The figures on a log. trained: it is the training log, where they flatter, and the held-out ones come first.

    held: those, by group; today: how the defaults that the model replaces do, by vendor; generated: it is a generated
    module, which carries no held-out figures.
    """
    n_known = sum(c.status != "unknown" for c in score.choices)
    part = 0 < n_known < len(score.choices)  # where a vendor's log holds winners alone
    rows = {f"all, slowdown known of {n_known}" if part else "all": score.overall, **score.groups}
    rows |= {f"today's defaults, {vendor}": found for vendor, found in today.items()}
    if not trained:
        return summary_tables("slowdown", rows)
    why = "a generated module carries no figure; audit the model (.json) that it was made from"
    none = f"held out: {why if generated else 'no figure was recorded'}"
    first = summary_tables("slowdown, held out", held) if held else none
    return f"{first}\n\n{summary_tables('slowdown, training log', rows)}"


def score(module: ir.HeuristicModule, tables: Iterable[CostTable]) -> Score:
    """Replay every scenario of the tables (one per vendor) through the module's trees.

    Raises:
        ModelError: the module reads features or sets parameters that the log does not have.
        LogError: no scenario is of a vendor that the module knows.
    """
    choices: list[Choice] = []
    notes = []
    for table in tables:
        if table.vendor not in module.vendors:
            notes.append(
                f"{counted(table.n_scenarios, 'scenario')} of {table.vendor} left out: the model does not know it"
            )
            continue
        choices += replay(module, table)
    if not choices:
        raise LogError(
            "the logs hold no scenario of a vendor that the model knows",
            hint=f"the model knows {', '.join(module.vendors)}",
        )
    return Score(figures(choices), _groups(choices), tuple(choices), tuple(notes))


def replay(module: ir.HeuristicModule, table: CostTable) -> list[Choice]:
    """The module's choice for every scenario of one vendor's table."""
    check_columns(module, (table,))
    devices = sorted(set(table.device))
    routes = {d: _Route(module, module.selector(table.vendor, d), table) for d in devices}
    return [_choice(table, s, routes[table.device[s]]) for s in range(table.n_scenarios)]


class _Route:
    """One selector made ready to walk: leaves by number, configs by their column of the table."""

    def __init__(self, module: ir.HeuristicModule, selector: ir.Selector, table: CostTable) -> None:
        self.module, self.selector = module, selector
        self.order = [table.parameters.index(p) for p in selector.parameters]
        self.columns = config_columns(selector, table)
        self.counts = leaf_counts(selector.tree)

    def leaf(self, row: dict[str, Any]) -> tuple[ir.Leaf, int]:
        return numbered_leaf(self.selector.tree, ir.with_derived(self.module, row), self.counts)


def numbered_leaf(tree: ir.Node, row: Mapping[str, Any], counts: Mapping[int, int]) -> tuple[ir.Leaf, int]:
    """The leaf that a full row ends in, and its place in `ir.leaves`; `counts` are the tree's `leaf_counts`."""
    node, index = tree, 0
    while not isinstance(node, ir.Leaf):
        left = ir.goes_left(node, row[node.feature])
        index += 0 if left else counts[id(node.left)]
        node = node.left if left else node.right
    return node, index


def leaf_counts(tree: ir.Node) -> dict[int, int]:
    """Number of leaves under every node, by the node's `id`."""
    counts: dict[int, int] = {}
    for node in reversed(list(ir.nodes(tree))):
        children = () if isinstance(node, ir.Leaf) else (node.left, node.right)
        counts[id(node)] = sum(counts[id(c)] for c in children) or 1
    return counts


def config_columns(selector: ir.Selector, table: CostTable) -> list[int | None]:
    """The column of the table that holds each of the selector's configs; None where none does."""
    order = [selector.parameters.index(p) for p in table.parameters]
    index = {typed(c): i for i, c in enumerate(table.configs)}
    return [index.get(typed([config[i] for i in order])) for config in selector.configs]


def _choice(table: CostTable, s: int, route: _Route) -> Choice:
    row = table.features_of(s)
    leaf, leaf_index = route.leaf(row)
    chosen, config = route.selector.configs[leaf.config], route.columns[leaf.config]
    best = table.configs[table.best(s)]
    slowdown, status = None, "unmeasured"
    time = math.nan if config is None else float(table.times[s, config])
    if math.isinf(time):
        status = "failed"
    elif not math.isnan(time) and table.costs_known:
        slowdown, status = math.exp(float(table.log_slowdown[s, config])), "ok"
    elif not table.costs_known:
        status = "unknown"
    return Choice(
        table.scenario[s],
        table.vendor,
        table.device[s],
        row,
        chosen,
        tuple(best[i] for i in route.order),
        slowdown,
        status,
        leaf,
        s,
        leaf_index,
        config,
        float(table.noise[s]),
        route.selector.parameters,
    )


def typed(config: Sequence[ir.Value]) -> tuple[tuple[str, ir.Value], ...]:
    """A config to compare and to look up: 1, 1.0 and True are three values."""
    return tuple((type(v).__name__, v) for v in config)


def check_columns(module: ir.HeuristicModule, tables: Iterable[CostTable]) -> None:
    """Whether a module reads features, and sets the parameters, of the tables of vendors that it knows.

    Raises:
        ModelError: it does not.
    """
    for table in tables:
        if table.vendor in module.vendors:
            _check_columns(module, table)


def _check_columns(module: ir.HeuristicModule, table: CostTable) -> None:
    have = {c.name: c.type for c in table.columns if not c.derived}
    for feature in module.features:
        found, name = have.get(feature.name), quoted(feature.name)
        if found != feature.type:
            raise ModelError(
                f"reads the {feature.type} feature {name}, which the spec does not have"
                if found is None
                else f"reads the {feature.type} feature {name}, which the spec says is {found}",
                hint="audit with the spec that the model was trained with",
            )
    selector = module.selector(table.vendor)
    if set(selector.parameters) != set(table.parameters):
        raise ModelError(
            f"sets {', '.join(selector.parameters)}, but the spec has {', '.join(table.parameters)}",
            hint="audit with the spec that the model was trained with",
        )


def group_name(vendor: str, device: str | None) -> str:
    """What `Score.groups` calls a device, or (None) all of a vendor's."""
    return vendor if device is None else f"{vendor} / {device}"


def _groups(choices: list[Choice]) -> dict[str, Summary]:
    parts: dict[str, list[Choice]] = {}
    for choice in choices:
        parts.setdefault(choice.vendor, []).append(choice)
        parts.setdefault(group_name(choice.vendor, choice.device), []).append(choice)
    return {name: figures(parts[name]) for name in sorted(parts)}


def figures(choices: Sequence[Choice]) -> Summary:
    """The figures over some choices: slowdowns over those of known cost, the invalid share over all.

    A choice of unknown cost is none that failed: where winners are all that is known, so is no share, unless choices
    failed.
    """
    n = len(choices)
    logs = (math.log(c.slowdown) for c in choices if c.slowdown is not None)
    invalid = sum(c.status in INVALID for c in choices)
    known = any(c.status != "unknown" for c in choices)
    agreement = sum(c.agrees for c in choices) / n if n else None
    found = summarise(logs, agreement=agreement)
    return replace(found, n_scenarios=n, invalid_share=invalid / n if known else None)
