"""Splits the log of a sweep into one to train on and one that training never sees.

    python data/split_log.py SWEEP.csv WORKLOAD.toml TARGET data/h200_paged_attention

writes NAME.csv and NAME_test.csv with a card each. 30 % of the scenarios are for the test. Scenarios with the same
lengths (other heads, page sizes, sources of K and V) go to the same side, so that the test is of unseen batches.
The split follows from the lengths alone: a second sweep of the same workload splits the same way. Rows come in
the order of the workload's scenarios, and within one as they were measured: when and on which GPU of several
a scenario had its turn leaves no trace.
"""

from __future__ import annotations

import csv
import hashlib
import sys
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from heurgen.tune.cards import card_path, write_card
from heurgen.tune.protocol import Scenario
from heurgen.tune.target import load_target
from heurgen.tune.workloads import make_scenarios, read_workload

TEST_SHARE = 0.3


def scenarios_of(workload: Path, target: str) -> tuple[Scenario, ...]:
    """What a sweep of the workload measures, in the order of the file."""
    given = read_workload(workload)
    return make_scenarios(given.data, load_target(target).tunable.features, given.source)


def test_ids(scenarios: Sequence[Scenario]) -> frozenset[str]:
    """Scenario ids of the test side: whole groups of equal lengths, in the order of their hash, up to the share."""
    groups: dict[str, list[str]] = defaultdict(list)
    for scenario in scenarios:
        groups[hashlib.sha256(repr(scenario.lengths).encode()).hexdigest()].append(scenario.id)
    chosen: list[str] = []
    for _, ids in sorted(groups.items()):
        if len(chosen) + len(ids) <= round(TEST_SHARE * len(scenarios)):
            chosen += ids
    return frozenset(chosen)


def main(sweep: Path, workload: Path, target: str, name: Path) -> None:
    """Write both logs and their cards."""
    scenarios = scenarios_of(workload, target)
    chosen, place = test_ids(scenarios), {s.id: i for i, s in enumerate(scenarios)}
    with sweep.open(newline="") as file:
        header, *rows = csv.reader(file)
    strangers = sorted({row[0] for row in rows} - set(place))
    if strangers:
        sys.exit(f"{sweep}: scenario {strangers[0]!r} is not of the workload {workload}")
    rows.sort(key=lambda row: place[row[0]])
    card = tomllib.loads(card_path(sweep).read_text())
    for path, wanted in (
        (name.with_name(f"{name.name}.csv"), False),
        (name.with_name(f"{name.name}_test.csv"), True),
    ):
        side = [row for row in rows if (row[0] in chosen) == wanted]
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *side])
        count = len({row[0] for row in side})
        part = f"{count} of the sweep's {card['log']['scenarios']} scenarios, for {'test' if wanted else 'training'}"
        log = {**card["log"], "scenarios": count, "rows": len(side), "split": part}
        write_card(card_path(path), {**card, "log": log})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
