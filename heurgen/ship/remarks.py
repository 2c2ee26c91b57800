"""What a trained selector should be read with: the curve of its sizes, limits that bind, regions without a config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heurgen import ir
from heurgen.audit import recorded
from heurgen.audit.show import config_text, selector_title
from heurgen.base.errors import printable
from heurgen.base.text import counted, percent, share_text, slowdown_text
from heurgen.ir import Selector
from heurgen.render.describe import owner
from heurgen.trees import constants, failures
from heurgen.trees.alignment import alignment
from heurgen.trees.passed_over import measured_throughout

if TYPE_CHECKING:
    from heurgen.base.figures import Summary
    from heurgen.logs.costs import CostTable

# Configs that a line names; the number of the others is told.
NAMED = 3


def warnings(selector: Selector) -> Iterator[str]:
    """What is wrong with what ships, one line each."""
    if "note" in selector.choice:  # nothing was held out
        yield f"{owner(selector)}: {selector.choice['note']}"
    bad = [
        leaf for leaf in ir.leaves(selector.tree) if leaf.n_ok is not None and leaf.n_ok < leaf.n_scenarios
    ]
    if bad:
        missing = sum(leaf.n_scenarios - (leaf.n_ok or 0) for leaf in bad)
        regions = f"{counted(len(bad), 'region')} of {sum(1 for _ in ir.leaves(selector.tree))}"
        yield (
            f"{owner(selector)}: in {regions} what ships failed or was never measured in {missing} of "
            f"{counted(sum(leaf.n_scenarios for leaf in bad), 'scenario')}"
        )
    for line in selector.choice.get("devices", ()):
        yield f"{owner(selector)}: {line}"
    if (line := beyond(selector)) is not None:
        yield line


def to_text(selector: Selector, table: CostTable) -> str:
    """A trained selector in a few lines: its size, the curve of sizes, held-out figures."""
    figures = (
        *curve(selector),
        *held_out(selector, table),
        *products(selector, table),
        *device_forms(selector),
    )
    read = (*grouping(table), *passed_over(table), *gaps(selector, table), *flaky(selector), *aligned(table))
    return "\n".join((selector_title(selector), *read, *figures))


def to_dict(selector: Selector, table: CostTable) -> dict[str, Any]:
    """A trained selector as JSON data: what was chosen and how, the worst held-out scenario, what is wrong with it."""
    held = recorded.held_out_worst(selector)[:1] if selector.n_scenarios == table.n_scenarios else []
    return {
        **recorded.training_data(selector),
        "devices": list(selector.devices),
        "n_scenarios": selector.n_scenarios,
        "n_groups": int(table.group.max()) + 1,
        "n_measurements": selector.n_measurements,
        "costs_known": selector.costs_known,
        "depth": ir.depth(selector.tree),
        "leaves": sum(1 for _ in ir.leaves(selector.tree)),
        "configs": [dict(zip(selector.parameters, c, strict=True)) for c in selector.configs],
        "interval": recorded.held_out_interval(selector, table.group.tolist()),
        "worst": next((_worst_data(selector, table, item) for item in held), None),
        "warnings": list(warnings(selector)),
    }


def _worst_data(selector: Selector, table: CostTable, item: recorded.HeldOut) -> dict[str, Any]:
    return {
        "scenario": table.scenario[item.row] or None,
        "device": table.device[item.row],
        "features": table.features_of(item.row),
        "chosen": dict(zip(selector.parameters, item.chosen, strict=True)),
        "slowdown": item.slowdown,
    }


def grouping(table: CostTable) -> list[str]:
    """How many scenarios repeat a shape, in one line; none where each is of its own."""
    n = int(table.group.max()) + 1
    if n == table.n_scenarios:
        return []
    return [
        f"  {counted(table.n_scenarios, 'scenario')} in {counted(n, 'group')} of equal {', '.join(table.grouped)}"
    ]


def aligned(table: CostTable) -> list[str]:
    """By which size configs fail as no range of it says, in one line; none where there is no such size."""
    if (found := alignment(table)) is None:
        return []
    what, configs = f"{found.feature} % {found.multiple}", counted(len(table.configs), "config")
    return [
        f"  {found.configs} of {configs} fail wherever {found.feature} is no multiple of {found.multiple}, or of less: "
        f"{what} in [derived] of the spec lets trees ask"
    ]


def products(selector: Selector, table: CostTable) -> list[str]:
    """Which products and ratios of sizes a tree tests, in one line; none where it tests none. table: of the spec."""
    names = sorted(ir.tested(selector.tree) - {column.name for column in table.columns})
    told = selector.choice.get("products")
    if not names or not told:
        return []
    return [
        f"  products and ratios of sizes, here {', '.join(names)}: held out {told['geomean_with']:.4f} with such, "
        f"{told['geomean_without']:.4f} without, both in trees of a usual size"
    ]


def device_forms(selector: Selector) -> list[str]:
    """The forms that were compared for the devices of a vendor, and what a device that is not in the log gets."""
    found, unknown = selector.choice.get("device_forms"), selector.choice.get("unknown_device")
    if not found or not unknown:
        return []
    n = len(selector.devices)
    width = max(len(form["form"]) for form in found["compared"])
    times = counted(found["repeats"], "time")
    lines = [
        f"  {n} devices, held out in {found['folds']} folds, {times}, each form at the sizes that it ships:"
    ]
    for form in found["compared"]:
        mark = " <- ships" if form["form"] == found["chosen"] else ""
        lines.append(
            f"    {form['form']:{width}s}  {_figures(form)}, {counted(form['leaves'], 'leaf')}{mark}"
        )
    if names := found["device_features"]:
        lines.append(f"    device features: {', '.join(names)}")
    each = "; ".join(
        f"{d['device']} (as {d['answered_by']}) {_figures(d, brief=True)}" for d in unknown["devices"]
    )
    return [*lines, f"  on a device that was not measured: {_figures(unknown)}; {each}"]


def _figures(record: Mapping[str, Any], brief: bool = False) -> str:
    mean = record.get("geomean_slowdown")
    if mean is None:
        return f"the winner on {percent(record['agreement'])}" if "agreement" in record else "nothing valid"
    text, bad = f"{mean:.4f}", record.get("invalid_share")
    if not brief:
        text = f"geomean {text}, p95 {record['p95_slowdown']:.3f}, max {record['max_slowdown']:.2f}"
    return f"{text}, {share_text(bad)} invalid" if bad else text


def passed_over(table: CostTable) -> list[str]:
    """Which configs training left out, in one line; none where it left out none."""
    kept, every = measured_throughout(table), np.arange(len(table.configs))
    left = [config_text(table.parameters, table.configs[i]) for i in np.setdiff1d(every, kept).tolist()]
    if not left:
        return []
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    names = printable("; ".join(left[:NAMED]))
    return [
        f"  {len(left)} of {counted(len(every), 'config')} left out, which the sweep passed over: {names}{more}"
    ]


def gaps(selector: Selector, table: CostTable) -> list[str]:
    """What cells without a measurement were taken for, in one line; none where there are few."""
    choice = selector.choice
    missing = float(np.isnan(table.times[:, measured_throughout(table)]).mean())
    share = choice.get("estimated_cells") or choice.get("lost_cells") or missing
    if "estimated_cells" in choice:
        said = "by chance as it looks: learnt from estimates; figures are of measured choices"
    elif "lost_cells" in choice:
        said = (
            "passed by in a search as it looks: taken for configs that lost; figures are of measured choices"
        )
    elif not table.costs_known or share <= constants.LEARNER.sparse:
        return []
    elif table.pruned:
        said = "since those configs lost, the spec says"
    else:
        said = "taken for configs that may not run there; if they could not win there, say pruned = true in [log]"
    return [f"  {percent(share)} of the cells were not measured, {said}"]


def flaky(selector: Selector) -> list[str]:
    """Of cells that failed by chance, in one line; none where training tells none."""
    count = selector.choice.get("flaky_cells")
    if count is None:
        return []
    least = "at least " if selector.n_scenarios > failures.TOGETHER else ""  # of more only some are looked at
    return [
        f"  {least}{counted(count, 'cell')} failed by chance, as it looks: no region with one has that config. "
        "Measure them again"
    ]


def curve(selector: Selector) -> list[str]:
    """The held-out slowdown against number of configs and leaves, in at most three lines."""
    told: list[Mapping[str, Any]] = list(selector.choice.get("curve", ()))
    if not told or not selector.costs_known:
        return []
    cells = [
        (str(c["max_configs"]), f"{c['leaves']:.0f}", f"{math.exp(c['mean_log_slowdown']):.4f}") for c in told
    ]
    width = [max(map(len, cell)) for cell in cells]
    names = ("configs", "leaves", "held out")
    return [
        f"  {name:8s} " + " ".join(cell[i].rjust(w) for cell, w in zip(cells, width, strict=True))
        for i, name in enumerate(names)
    ]


def held_out(selector: Selector, table: CostTable) -> list[str]:
    """The figures over launches that training held out, and which of the table's scenarios did worst, in one line.

    Those of shortlists are in another, which a strategy that is named has, too.
    """
    return [*_choice(selector, table), *_shortlist(selector)]


def _choice(selector: Selector, table: CostTable) -> list[str]:
    found, _ = recorded.held_out(selector)
    if found is None or not (found.geomean_slowdown or found.invalid_share) or not selector.costs_known:
        return []
    geomean = found.geomean_slowdown
    text = "  held out: no figure" if geomean is None else f"  held out: geomean {geomean:.4f}"
    if (ends := recorded.held_out_interval(selector, table.group.tolist())) is not None:
        text += f" (95 % interval {slowdown_text(ends[0])} to {slowdown_text(ends[1])})"
    if found.p95_slowdown is not None and found.max_slowdown is not None:
        text += f", p95 {found.p95_slowdown:.3f}, max {found.max_slowdown:.2f}"
    if found.invalid_share:
        row = f", which the row above counts {_invalid(selector, table)}" if curve(selector) else ""
        text += f", {share_text(found.invalid_share)} invalid{row}"
    text += _beside_curve(selector, found)
    worst = recorded.held_out_worst(selector)[:1]
    for item in worst if selector.n_scenarios == table.n_scenarios else ():
        slow = "invalid" if item.slowdown is None else f"{item.slowdown:.2f}x"
        text += f"; worst: {_scenario(selector, table, item.row)}: {slow}"
    return [text]


def _invalid(selector: Selector, table: CostTable) -> str:
    """What the curve takes an invalid choice for: as `gaps` says, where it was not measured."""
    if "estimated_cells" in selector.choice:
        return "by their estimates, or as slow where they failed"
    lost = "lost_cells" in selector.choice or table.pruned
    return "as configs that lost, or as slow where they failed" if lost else "as slow"


def _beside_curve(selector: Selector, found: Summary) -> str:
    """Why the figure is none of the row above: it is of other trees, or sizes were chosen without its launches."""
    record = selector.choice.get("held_out")
    if not isinstance(record, Mapping) or found.geomean_slowdown is None or not curve(selector):
        return ""
    strategy, mean = record.get("strategy", "joint"), record.get("mean_log_slowdown")
    if strategy != "joint":
        return f", of {strategy} trees (the row above: joint ones)"
    alike = mean is None or f"{math.exp(mean):.4f}" == f"{found.geomean_slowdown:.4f}"
    return (
        ""
        if alike or found.invalid_share
        else ", with sizes chosen without these launches (the row above: with them)"
    )


def _shortlist(selector: Selector) -> list[str]:
    record = selector.choice.get("shortlist")
    if not isinstance(record, Mapping):
        return []
    what = f"  held out, best of the shortlist of {record['size']}:"
    if "agreement" not in record and record.get("geomean_slowdown") is None:
        return [f"{what} nothing of it succeeded"]
    what += f" {_figures(record)}"
    if "choice_agreement" in record:
        return [f"{what}; the choice alone {percent(record['choice_agreement'])}"]
    alone = record.get("choice_geomean_slowdown")
    told = "nothing valid" if alone is None else f"{alone:.4f}"
    return [f"{what}; the choice alone on these folds {told}"]


def _scenario(selector: Selector, table: CostTable, row: int) -> str:
    """A scenario by its id and the features that the tree tests first; where it has no id by all, which name it. By its
    device too where the table has several, which mostly measured it all."""
    values = table.features_of(row)
    tested = (node.feature for node in ir.nodes(selector.tree) if not isinstance(node, ir.Leaf))
    names = dict.fromkeys(name for name in (*tested, *values) if name in values)
    told = [f"{name} {printable(values[name])}" for name in names]
    known = table.scenario[row]
    on = f" on {printable(table.device[row])}" if len(set(table.device)) > 1 else ""
    return f"scenario {printable(known)} ({', '.join(told[:3])}){on}" if known else f"{', '.join(told)}{on}"


def beyond(selector: Selector) -> str | None:
    """What the default limits cost, where they bind."""
    found = selector.choice.get("beyond")
    if not found or not selector.costs_known:
        return None
    better = math.exp(found["mean_log_slowdown"])
    now = math.exp(selector.choice["held_out"]["mean_log_slowdown"])
    return (
        f"{owner(selector)}: the limits bind: depth {found['max_depth']} and {found['leaves']:.0f} leaves would give "
        f"{better:.4f} held out, not {now:.4f} (--max-depth, --max-leaves)"
    )
