"""Several devices of one vendor: what the forms are worth held out, and on shapes and devices that no log has.

    python -m benchmarks.devices

Synthetic logs of 60 shapes a device (tests/trees/devices.py): two devices that want opposite blocks for large
shapes, two that differ by noise alone, three of two kinds with data cards. `seconds` are CPU seconds, as ratios to
`--group-by vendor`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from heurgen.base.text import table
from heurgen.ir import HeuristicModule
from heurgen.logs.card import DeviceFacts
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import parse_log
from heurgen.ship.training import GroupBy, from_tables
from heurgen.spec.kernel_spec import parse_spec
from tests.trees.devices import A100, H100, H200, log_text, spec_text

OPPOSITE = {A100: 0.25, H100: 2.0}
CARDS = {
    A100: DeviceFacts("8.0", {"multiprocessors": 108.0, "bandwidth": 2039.0}),
    H100: DeviceFacts("9.0", {"multiprocessors": 132.0, "bandwidth": 3350.0}),
    H200: DeviceFacts("9.0", {"multiprocessors": 132.0, "bandwidth": 4800.0}),
}
LOGS: dict[str, tuple[dict[str, float], Mapping[str, DeviceFacts]]] = {
    "A100 + H100, opposite": (OPPOSITE, {}),
    "A100 + H100, alike": ({A100: 1.0, H100: 1.0}, {}),
    "A100 + H100 + H200, cards": (OPPOSITE | {H200: 2.0}, CARDS),
}


def trained(text: str, group_by: GroupBy, facts: Mapping[str, DeviceFacts]) -> tuple[HeuristicModule, float]:
    """The module, and the CPU seconds that it took."""
    start = time.process_time()
    spec = parse_spec(spec_text())
    log = parse_log("log.csv", text, spec)
    tables = cost_tables(log, spec, group_by=group_by)
    module = from_tables(tables, log, spec, group_by=group_by, devices=facts)
    return module, time.process_time() - start


def main() -> None:
    rows = []
    trained(log_text(OPPOSITE, 10), "vendor", {})  # warm-up
    for name, (wishes, facts) in LOGS.items():
        text = log_text(wishes, 60)
        once = trained(text, "vendor", facts)[1]
        module, seconds = trained(text, "auto", facts)
        record, unknown = (module.selectors[0].choice[key] for key in ("device_forms", "unknown_device"))
        for form in record["compared"]:
            ships = "ships" if form["form"] == record["chosen"] else ""
            figures = [f"{form[key]:.4f}" for key in ("geomean_slowdown", "p95_slowdown", "max_slowdown")]
            rows.append([f"{name}: {form['form']}", *figures, ships, ""])
        figures = [f"{unknown[key]:.4f}" for key in ("geomean_slowdown", "p95_slowdown", "max_slowdown")]
        rows.append([f"{name}: a device left out", *figures, "", f"{seconds / once:.1f}"])
    print(table(("log: form", "geomean", "p95", "max", "", "seconds"), rows))


if __name__ == "__main__":
    main()
