"""Two devices of one vendor: where their selectors disagree, and what the other's choice costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.audit.evidence import views
from heurgen.audit.report import render_html
from heurgen.audit.report.data import Given
from heurgen.audit.report.devices import PAIRS, disagreements
from heurgen.audit.report.words import UNKNOWN
from heurgen.audit.score import score
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import module_of
from tests.audit.pages import Page

SPEC = '[kernel]\nname = "k"\n[features]\nm = { type = "int" }\n[parameters]\nBLOCK = { type = "int" }\n'


def two_devices(folder: Path, opposite: bool, *, winners_only: bool = False, devices: str = "AB") -> Given:
    """BLOCK 16 wins on A; on B too, or always BLOCK 64, by a factor of 2. More devices are like A."""
    lines = ["vendor,device,m,BLOCK,status,time_ms"]
    for device in devices:
        for m in (1, 2, 4, 8, 16, 32):
            best = 64 if opposite and device == "B" else 16
            lines += [
                f"nvidia,{device},{m},{b},ok,{1 if b == best else 2}"
                for b in (16, 64)
                if b == best or not winners_only
            ]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    (folder / "k.toml").write_text(SPEC + "[log]\nwinners_only = true\n" * winners_only)
    spec = read_spec(folder / "k.toml")
    log = read_logs([folder / "log.csv"], spec)
    tables = cost_tables(log, spec, group_by="device")
    module = module_of(spec, log, tables)
    return Given(module, tables, score(module, tables[:1]), log)


@pytest.mark.parametrize("opposite", [True, False])
def test_where_two_devices_disagree(tmp_path: Path, opposite: bool) -> None:
    given = two_devices(tmp_path, opposite)
    found = disagreements(given.module, views(given.module, given.tables, given.score))
    assert [(p.device, p.other, p.n, p.n_other) for p in found.pairs] == [
        ("A", "B", 6, 6 * opposite),
        ("B", "A", 6, 6 * opposite),
    ]
    assert {p.own for p in found.pairs} == {"1.000×"}
    assert {p.theirs for p in found.pairs} == {"2.00×" if opposite else "1.000×"}
    assert len(found.worst) == (12 if opposite else 0)
    text = Page(render_html(given)).text
    assert "Where devices disagree" in text
    assert ("Where the other device’s choice would cost most" in text) == opposite


@pytest.mark.parametrize("winners_only", [True, False])
def test_of_many_devices_the_pairs_that_differ_most_are_shown(tmp_path: Path, winners_only: bool) -> None:
    given = two_devices(tmp_path, opposite=True, winners_only=winners_only, devices="ACDEFGHB")
    found = disagreements(given.module, views(given.module, given.tables, given.score))
    assert (len(found.pairs), found.n_more) == (PAIRS, 8 * 7 - PAIRS)
    assert sum("B" in (p.device, p.other) for p in found.pairs) == 2 * 7
    assert f"Not shown: {8 * 7 - PAIRS} pairs of devices" in Page(render_html(given)).text


def test_winners_alone_tell_where_devices_disagree_and_no_slowdown(tmp_path: Path) -> None:
    given = two_devices(tmp_path, opposite=True, winners_only=True)
    found = disagreements(given.module, views(given.module, given.tables, given.score))
    assert [(p.n_other, p.own, p.theirs) for p in found.pairs] == [(6, UNKNOWN, UNKNOWN)] * 2
    assert {d.cost for d in found.worst} == {UNKNOWN}
    text = Page(render_html(given)).text
    assert "Where devices disagree" in text
    assert "\u00d7" not in text.partition("Where devices disagree")[2].partition("The given log has")[0]
