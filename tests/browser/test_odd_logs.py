"""Reports of logs that are unlike ours: one feature, categories alone, names that are longer than a line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen import ir
from heurgen.audit.report import render_html
from heurgen.audit.report.coding import to_script
from heurgen.audit.report.data import Given
from heurgen.audit.report.explorer import answering
from heurgen.audit.report.scales import room_of, shortened
from heurgen.audit.report.tables import evaluation_page
from heurgen.audit.score import score
from heurgen.base.errors import HeurgenError
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import module_of
from tests.audit.pages import page_of
from tests.audit.report.test_devices import two_devices
from tests.audit.report.test_tables import ROW, evaluation
from tests.browser.test_page import SIZES, Opened, violations

pytestmark = pytest.mark.browser
LONG = "a_name_of_a_hundred_characters_that_nobody_cared_to_cut_" + "x" * 44
KERNEL = '[kernel]\nname = "k"\n[features]\n'


def opened(chromium: Any, path: Path, width: int = 1440, height: int = 900) -> Any:
    page = Opened(chromium, path, (width, height), "light").page
    page.wait_for_selector(".settled", state="attached")
    return page


@pytest.mark.parametrize("width", [1440, 390, 320])
def test_long_names_widen_no_page(chromium: Any, tmp_path: Path, width: int) -> None:
    names = [f"{LONG}{i}" for i in range(10)]
    features = "".join(f'{name} = {{ type = "int" }}\n' for name in names)
    spec = f'{KERNEL}{features}[parameters]\nB{LONG} = {{ type = "category" }}\n'
    rows = [
        {
            "device": f"{LONG}{LONG[:90]}",
            "scenario": f"{s}{LONG}",
            **dict.fromkeys(names, 2**s),
            f"B{LONG}": f"{b}{LONG}",
            "time_ms": 1 + abs(s // 3 - b),
        }
        for s in range(12)
        for b in range(4)
    ]
    page = opened(chromium, page_of(tmp_path, spec, rows), width, 650)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait_for_timeout(100)
    assert page.locator(".trees .leaf").count() > 1
    assert LONG in page.inner_text(".answer")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".heat canvas").hover()
    low, high = page.evaluate(
        "(r => [r.top, r.bottom])(document.getElementById('tip').getBoundingClientRect())"
    )
    assert 0 < low < high < 650


@pytest.mark.parametrize("width", [1440, 390])
def test_long_names_of_devices_hide_no_figure(chromium: Any, tmp_path: Path, width: int) -> None:
    given = two_devices(tmp_path, opposite=True)
    names = {d: f"{d} {LONG}" for d in sorted({d for t in given.tables for d in t.device})}
    assert len(names) == 2
    tables = [replace(t, device=tuple(names[d] for d in t.device)) for t in given.tables]
    selectors = tuple(
        replace(s, device=s.device and names[s.device], devices=tuple(names[d] for d in s.devices))
        for s in given.module.selectors
    )
    module = replace(given.module, selectors=selectors)
    path = tmp_path / "named.html"
    named = Given(module, tables, score(module, tables), given.log)
    path.write_text(render_html(named), encoding="utf-8")
    page = opened(chromium, path, width, 650)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate("[...document.querySelectorAll('.devices-of')].map(t => t.scrollWidth)")
    assert len(wide) == 3
    assert max(wide) < max(width, 750)


def test_configs_on_which_devices_differ_have_colours_of_their_own(chromium: Any, tmp_path: Path) -> None:
    """The ninth had the first's: where one device chose it and the other the first, both maps looked the same."""
    (tmp_path / "k.toml").write_text(
        f'{KERNEL}m = {{ type = "int" }}\n[parameters]\nB = {{ type = "int" }}\n'
    )
    lines = ["vendor,device,m,B,status,time_ms"]
    for shift, device in enumerate("AB"):
        lines += [
            f"nvidia,{device},{m},{b},ok,{1 + (b != (m // 2 + shift) % 12)}"
            for m in range(24)
            for b in range(12)
        ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    spec = read_spec(tmp_path / "k.toml")
    log = read_logs([tmp_path / "log.csv"], spec)
    tables = cost_tables(log, spec, group_by="device")
    module = module_of(spec, log, tables, 12)
    path = tmp_path / "page.html"
    path.write_text(render_html(Given(module, tables, score(module, tables[:1]), log)), encoding="utf-8")
    page = opened(chromium, path)
    colours = page.locator(".devices li i").evaluate_all(
        "all => all.map(i => getComputedStyle(i).backgroundColor)"
    )
    assert len(colours) == len(set(colours)) == 12
    drawn = page.locator(".devices canvas").first.evaluate(
        "c => { const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, found = new Set();"
        " for (let i = 0; i < p.length; i += 4) { found.add(`rgb(${p[i]}, ${p[i + 1]}, ${p[i + 2]})`); }"
        " return [...found]; }"
    )
    assert set(drawn) == set(colours)


def test_a_single_feature_has_one_axis(chromium: Any, tmp_path: Path) -> None:
    """No choice of a second one, and no distance along it: what lies above a scenario is not unmeasured."""
    spec = f'{KERNEL}m = {{ type = "int" }}\n[parameters]\nB = {{ type = "int" }}\n'
    rows = [{"m": 2**s, "B": b, "time_ms": 1 + abs(s // 3 - b)} for s in range(12) for b in range(4)]
    page = opened(chromium, page_of(tmp_path, spec, rows))
    assert page.locator(".ax").is_visible()
    assert page.locator(".ay").is_hidden()
    far = "(() => { const f = heurgen.views[0].found; return [f.far[0], f.far[f.far.length - f.wide]]; })()"
    top, bottom = page.evaluate(far)
    assert top == bottom < 0.1


def test_a_flag_is_true_or_false(chromium: Any, tmp_path: Path) -> None:
    spec = f'{KERNEL}causal = {{ type = "bool" }}\nm = {{ type = "int" }}\n[parameters]\nB = {{ type = "int" }}\n'
    rows = [
        {"causal": c, "m": m, "B": b, "time_ms": 1 + (b != c)}
        for c in (0, 1)
        for m in range(8)
        for b in (0, 1)
    ]
    page = opened(chromium, page_of(tmp_path, spec, rows))
    page.select_option(".fields select", "true")
    assert "causal is false: no" in page.inner_text(".answer")
    assert "causal ≤" not in page.content()


def test_categories_are_measured_all_over_their_places(chromium: Any, tmp_path: Path) -> None:
    """Every pair but one: its place alone is hatched."""
    spec = f'{KERNEL}a = {{ type = "category" }}\nb = {{ type = "category" }}\n[parameters]\nB = {{ type = "int" }}\n'
    names = ("日本", "naïve", "x")
    rows = [
        {"a": a, "b": b, "B": c, "time_ms": 1 + (names.index(a) + c) % 2}
        for a in names
        for b in names
        for c in (0, 1)
        if (a, b) != ("x", "x")
    ]
    page = opened(chromium, page_of(tmp_path, spec, rows))
    share = page.evaluate("(f => f.far.filter(x => x > 0.1).length / f.far.length)(heurgen.views[0].found)")
    assert share == pytest.approx(1 / 9, abs=0.02)
    assert "日本" in (page.text_content(".axes") or "")


def test_categories_on_the_upright_axis_are_told_apart(chromium: Any, tmp_path: Path) -> None:
    spec = f'{KERNEL}op = {{ type = "category" }}\nm = {{ type = "int" }}\n[parameters]\nB = {{ type = "int" }}\n'
    names = ("layer_norm_backward", "layer_norm_forward", "softmax", "層正規化の前向き", "層正規化の後向き")
    rows = [
        {"op": name, "m": 2**m, "B": b, "time_ms": 1 + (i + m) % 2 * b}
        for i, name in enumerate(names)
        for m in range(4)
        for b in (0, 1)
    ]
    page = opened(chromium, page_of(tmp_path, spec, rows))
    page.select_option(".ay", label="op")
    found = page.locator(".axes .e").all_text_contents()
    assert sorted(found) == ["l…ckward", "l…orward", "softmax", "…前向き", "…後向き"]
    assert max(map(room_of, found)) <= 8


def test_a_feature_on_both_axes_changes_places(chromium: Any, report_page: Path) -> None:
    page = opened(chromium, report_page)
    across, up = page.input_value(".ax"), page.input_value(".ay")
    page.select_option(".ay", across)
    assert (page.input_value(".ax"), page.input_value(".ay")) == (up, across)
    assert page.evaluate("heurgen.views[0].axes.map(String)") == [up, across]


def test_a_comparison_of_strategies_is_read_on_a_phone(chromium: Any, tmp_path: Path, axe: str) -> None:
    path = tmp_path / "strategies.html"
    path.write_text(evaluation_page([evaluation(ROW, ROW)], ["nvidia: 2 devices"]), encoding="utf-8")
    one = Opened(chromium, path, SIZES["phone"], "dark")
    size = "svg => parseFloat(getComputedStyle(svg.querySelector('text')).fontSize) * svg.getScreenCTM().a"
    assert one.page.locator("svg.strategies").first.evaluate(size) >= 9
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert (one.problems, violations(one.page, axe)) == ([], [])
    one.context.close()


def test_other_spellings_and_refused_categories_are_those_of_select(chromium: Any, report_page: Path) -> None:
    dtype = ir.Feature(
        "dtype", "category", values=("a", "b"), unknown="error", aliases=(("A", "a"), ("__proto__", "b"))
    )
    layout = ir.Feature("layout", "category", values=("r", "c"), aliases=(("row", "r"),))
    by_layout = ir.Membership("layout", ("r",), ("c",), False, ir.Leaf(1), ir.Leaf(2))
    tree = ir.Membership("dtype", ("a",), ("b",), False, ir.Leaf(0), by_layout)
    selector = ir.Selector("nvidia", ("B",), ((1,), (2,), (3,)), tree)
    module = ir.HeuristicModule("k", (dtype, layout), (ir.Parameter("B", "int"),), (selector,))

    def wanted(row: dict[str, str]) -> list[str] | None:
        try:
            return [str(v) for v in ir.select(module, "nvidia", row).values()]
        except HeurgenError:
            return None

    texts = ["a", "b", "A", "__proto__", "constructor", "r", "c", "row", "zz", ""]
    rows = [{"dtype": x, "layout": y} for x in texts for y in texts]
    script = "([page, rows]) => rows.map(r => heurgen.select(page, r))"
    page = json.loads(to_script(answering(module, selector)))
    found = opened(chromium, report_page).evaluate(script, [page, [list(row.values()) for row in rows]])
    assert found == [wanted(row) for row in rows]
    assert None in found
    assert ["3"] in found


def test_the_page_cuts_texts_as_its_maker_does(chromium: Any, report_page: Path) -> None:
    texts = ["", "abc", "x" * 30, "日本語の配置", "naïve 日本語", "한국어 분류", "a日" * 9, "\u202e" * 9]
    page = opened(chromium, report_page)
    for limit in (1, 2, 5, 8, 12):
        script = "([texts, limit]) => texts.map(t => heurgen.shortened(t, limit))"
        assert page.evaluate(script, [texts, limit]) == [shortened(t, limit) for t in texts]
