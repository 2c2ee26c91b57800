"""The report in a real browser: silent, offline, linked, in both themes, on a phone and a desk, accessible."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from heurgen import ir
from heurgen.audit.report.coding import to_script
from heurgen.audit.report.explorer import answering
from heurgen.audit.report.words import value_text
from tests.audit.pages import hostile
from tests.support.commands import run
from tests.support.strategies import modules, rows

pytestmark = pytest.mark.browser
SIZES = {"phone": (390, 844), "desk": (1440, 900)}
THEMES = ("light", "dark")


class Opened:
    """A page with everything that it said and asked for."""

    def __init__(self, browser: Any, path: Path, size: tuple[int, int], theme: str, **more: Any) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme, **more
        )
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.problems.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.problems.append(f"error: {e}"))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())

    def paper(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.fixture(params=[(s, t) for s in SIZES for t in THEMES], ids="-".join)
def opened(request: pytest.FixtureRequest, chromium: Any, report_page: Path) -> Iterator[Opened]:
    size, theme = request.param
    one = Opened(chromium, report_page, SIZES[size], theme)
    yield one
    one.context.close()


@pytest.fixture
def desk(chromium: Any, report_page: Path) -> Iterator[Opened]:
    one = Opened(chromium, report_page, SIZES["desk"], "light")
    yield one
    one.context.close()


def test_nothing_is_said_asked_for_or_wider_than_the_screen(opened: Opened) -> None:
    page = opened.page
    page.mouse.wheel(0, 5000)
    page.wait_for_timeout(100)
    assert opened.problems == []
    assert len(opened.requests) == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = page.evaluate(
        """() => [...document.querySelectorAll('svg text')].filter(t => t.getBoundingClientRect().width).map(t => {
             const s = t.ownerSVGElement, v = s.viewBox.baseVal;
             const scale = v && v.width ? s.getBoundingClientRect().width / v.width : 1;
             return parseFloat(getComputedStyle(t).fontSize) * scale; }).reduce((a, b) => Math.min(a, b))"""
    )
    assert small >= 9


def test_both_themes_differ_and_the_button_switches(chromium: Any, report_page: Path) -> None:
    papers = {}
    for theme in THEMES:
        one = Opened(chromium, report_page, SIZES["desk"], theme)
        before = one.paper()
        one.page.click("#theme")
        papers[theme] = (before, one.paper())
        assert one.problems == []
        one.page.click("#theme")
        assert one.paper() == before
        one.context.close()
    assert papers["light"] == papers["dark"][::-1]
    assert papers["light"][0] == "rgb(255, 255, 255)"


def lit(page: Any) -> tuple[set[str], set[str]]:
    """The leaves of the marks, and of the tree rows, that are highlighted."""
    found = page.evaluate(
        """() => ['.first .mk.on', '.view svg.tree .leaf.on'].map(
             s => [...document.querySelectorAll(s)].map(e => e.dataset.l))"""
    )
    marks, rows = found
    return set(marks), {leaf for text in rows for leaf in text.split()}


def test_a_leaf_lights_its_scenarios(desk: Opened) -> None:
    page = desk.page
    leaf = page.locator("svg.tree .leaf").nth(2)
    number = leaf.get_attribute("data-l")
    leaf.hover()
    marks, rows = lit(page)
    assert marks == {number}
    assert number in rows
    faded = page.locator(f'.first .mk:not([data-l="{number}"])').first
    page.wait_for_timeout(200)
    assert float(faded.evaluate("e => getComputedStyle(e).opacity")) < 0.3
    page.mouse.move(5, 5)
    assert lit(page) == (set(), set())
    leaf.focus()
    assert lit(page)[0] == {number}


def test_a_scenario_lights_its_leaf_and_tells_about_itself(desk: Opened) -> None:
    page = desk.page
    mark = page.locator(".first .mk").nth(40)
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    on = page.evaluate("document.querySelector('.first .mk:hover').dataset.l")
    marks, rows = lit(page)
    assert marks == {on}
    assert on in rows
    assert "num_seqs=" in page.inner_text("#tip")


def test_a_leaf_of_a_parameter_lights_all_its_leaves(desk: Opened) -> None:
    page = desk.page
    page.locator("summary", has_text="One tree a parameter").click()
    leaf = page.locator(".trees .leaf[data-l*=' ']").first
    wanted = set((leaf.get_attribute("data-l") or "").split())
    leaf.hover()
    assert lit(page)[0] == wanted


def test_the_keyboard_does_what_the_mouse_does(desk: Opened) -> None:
    page = desk.page
    first = page.locator(".first .mk").first
    first.focus()
    page.keyboard.press("ArrowRight")
    second = page.locator(".first .mk").nth(1)
    assert second.evaluate("e => e === document.activeElement")
    assert lit(page)[0] == {second.get_attribute("data-l")}
    assert "num_seqs=" in page.inner_text("#tip")
    page.keyboard.press("End")
    last = page.locator(".first .mk").last
    assert last.evaluate("e => e === document.activeElement")
    page.keyboard.press("Enter")
    held = lit(page)
    page.locator("#theme").focus()
    assert lit(page) == held
    last.focus()
    page.keyboard.press("Escape")
    assert lit(page) == (set(), set())
    # Every stop on the way through the page shows where it is.
    page.locator("body").press("Home")
    stops = page.evaluate("document.querySelectorAll('a[href], button, [tabindex=\"0\"], summary').length")
    assert 20 < stops < 200


def test_a_click_holds_the_highlight(desk: Opened) -> None:
    page = desk.page
    chip = page.locator("ol.worst .chip").first
    chip.click()
    page.mouse.move(5, 5)
    page.locator("#theme").focus()
    assert lit(page)[0] == {chip.get_attribute("data-l")}
    chip.click()
    page.mouse.move(5, 5)
    page.locator("#theme").focus()
    assert lit(page)[0] == set()


def test_try_a_launch_answers_as_the_model_does(desk: Opened) -> None:
    """1,000 random inputs to 20 random trees: ints of any size, NaN, infinities, categories, derived features."""
    found = drawn_modules(20, 50)
    script = "cases => cases.map(([page, rows]) => rows.map(r => heurgen.select(page, r)))"
    pages = [
        [json.loads(to_script(answering(m, m.selectors[0]))), [texts(m, row) for row in rows]]
        for m, rows in found
    ]
    answers = desk.page.evaluate(script, pages)
    for (module, given_rows), answered in zip(found, answers, strict=True):
        for row, answer in zip(given_rows, answered, strict=True):
            wanted = ir.select(module, module.selectors[0].vendor, row, module.selectors[0].device)
            assert answer == [value_text(v) for v in wanted.values()], row


def drawn_modules(count: int, n_rows: int) -> list[tuple[ir.HeuristicModule, list[dict[str, Any]]]]:
    found: list[tuple[ir.HeuristicModule, list[dict[str, Any]]]] = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        module = data.draw(modules())
        drawn = [data.draw(rows(module)) for _ in range(n_rows)]
        found.append((module, [_typed(module, row) for row in drawn]))

    draw()
    return found


def drawn_rows(module: ir.HeuristicModule, count: int) -> list[dict[str, Any]]:
    """Random inputs of a model."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(rows(module))
    def draw(row: dict[str, Any]) -> None:
        found.append(_typed(module, row))

    draw()
    return found


def _typed(module: ir.HeuristicModule, row: dict[str, Any]) -> dict[str, Any]:
    """The row with every number as its feature's type, as a field of the page holds it."""
    kinds: dict[str, Any] = {"float": float, "bool": bool, "category": str}
    return {
        f.name: (int(row[f.name]) if row[f.name] == row[f.name] and abs(row[f.name]) != math.inf else 0)
        if f.type == "int"
        else kinds[f.type](row[f.name])
        for f in module.features
    }


def texts(module: ir.HeuristicModule, row: dict[str, Any]) -> list[str]:
    return [str(bool(row[f.name])).lower() if f.type == "bool" else str(row[f.name]) for f in module.features]


def test_an_input_shows_its_path_and_what_lies_outside(desk: Opened) -> None:
    page = desk.page
    first = page.locator(".fields input").first
    first.fill("3")
    assert "training scenarios in leaf" in page.inner_text(".answer")
    lit_rows = page.locator("svg.tree .path").count()
    assert lit_rows >= 2
    first.fill("99999999999999999999")
    assert "Outside what was measured: num_seqs" in page.inner_text(".answer")
    first.fill("many")
    assert "num_seqs: expected a whole number" in page.inner_text(".answer")
    assert first.get_attribute("aria-invalid") == "true"
    assert page.locator("svg.tree .path").count() == 0


def test_the_map_takes_other_features(desk: Opened) -> None:
    page = desk.page
    before = page.locator(".first .mk").nth(3).get_attribute("cx")
    shot = page.locator(".plot canvas").screenshot()
    page.select_option(".ax", label="num_seqs")
    assert "num_seqs" in (page.text_content(".plot .axes") or "")
    assert page.locator(".first .mk").nth(3).get_attribute("cx") != before
    assert page.locator(".plot canvas").screenshot() != shot
    assert page.locator(".plot .names text").count() > 0


# Whether of the small map's pixels only those of marks are not the map's above; it is drawn when it is next seen.
ALIKE = """() => {
  const small = document.querySelector('.mini canvas'), copy = document.createElement('canvas');
  [copy.width, copy.height] = [small.width, small.height];
  copy.getContext('2d').drawImage(document.querySelector('.plot canvas'), 0, 0, small.width, small.height);
  const [a, b] = [small, copy].map(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data);
  const unlike = a.filter((x, i) => x !== b[i]).length / a.length;
  return 0 < unlike && unlike < 0.3;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_the_map_beside_the_tree_is_the_map_above(chromium: Any, report_page: Path, theme: str) -> None:
    """Also where it comes to the window first, in the other theme and over other features."""
    context = chromium.new_context(viewport={"width": 1440, "height": 400}, color_scheme=theme)
    page = context.new_page()
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => document.querySelector('.mini').scrollIntoView())"
    )
    page.goto(report_page.as_uri())
    page.wait_for_selector(".settled", state="attached")
    page.wait_for_function(ALIKE)
    page.click("#theme")
    page.wait_for_function(ALIKE)
    page.select_option(".ax", label="num_seqs")
    page.wait_for_function(ALIKE)
    context.close()


def test_the_heat_map_is_read_with_the_keyboard(desk: Opened) -> None:
    page = desk.page
    heat = page.locator(".heat canvas")
    heat.focus()
    page.keyboard.press("ArrowRight")
    first = heat.get_attribute("aria-label") or ""
    page.keyboard.press("ArrowDown")
    assert "variant=" in first
    assert heat.get_attribute("aria-label") != first


# What axe finds wrong, alone: every node of a large page that is right would be described and sent here too.
def test_long_work_leaves_room_for_the_reader(desk: Opened) -> None:
    """A clock that a part moves past the slice: a timer that was set later runs before the work is done."""
    steps = desk.page.evaluate(
        """() => new Promise(done => {
          let clock = 0;
          performance.now = () => clock += 20;
          const log = [], begun = name => () => log.push(name) && log.filter(x => x === name).length === 3;
          heurgen.slowly(begun("part"));
          const stop = heurgen.slowly(begun("given up"));
          stop();
          setTimeout(() => log.push("answer"));
          setTimeout(() => {
            heurgen.slowly(begun("print"));
            window.dispatchEvent(new Event("beforeprint"));
            done(log);
          }, 300);
        })"""
    )
    assert steps == ["part", "given up", "part", "answer", "part", "print", "print", "print"]
    assert desk.problems == []


def test_the_map_follows_its_axes(desk: Opened) -> None:
    """The regions of other axes go at once, and those of the new ones come; every mark has its name."""
    page = desk.page
    page.wait_for_selector(".settled", state="attached")
    assert page.evaluate("heurgen.views[0].marks.every(m => m.ariaLabel.startsWith('scenario'))")
    known = page.evaluate("[...heurgen.views[0].found.chosen]")
    gone = page.evaluate(
        """() => {
          const choice = document.querySelector(".controls .ax"), slowly = heurgen.slowly;
          heurgen.slowly = part => { heurgen.held = part; return () => {}; };
          choice.selectedIndex = choice.selectedIndex ? 0 : 1;
          choice.dispatchEvent(new Event("change"));
          heurgen.slowly = slowly;
          return [heurgen.views[0].found, document.querySelectorAll(".names text").length];
        }"""
    )
    assert gone == [None, 0]
    other = page.evaluate(
        "(() => { while (!heurgen.held()) {} return [...heurgen.views[0].found.chosen]; })()"
    )
    assert len(other) == len(known)
    assert other != known
    assert desk.problems == []


AXE = """() => axe.run({ resultTypes: ['violations'] }).then(found => [found.passes.length, found.violations.map(
  v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160))])])"""


def violations(page: Any, axe: str) -> list[Any]:
    """(rule, what it asks for, first nodes) of each rule that the page breaks; some that it keeps are required."""
    page.evaluate(axe)
    kept, broken = page.evaluate(AXE)
    assert kept > 10
    return list(broken)


def test_axe_finds_nothing(opened: Opened, axe: str) -> None:
    assert violations(opened.page, axe) == []


def test_without_scripts_the_figures_are_there(chromium: Any, report_page: Path) -> None:
    one = Opened(chromium, report_page, SIZES["desk"], "light", java_script_enabled=False)
    assert one.page.locator("svg.tree .leaf").count() > 5
    assert one.page.locator("noscript").first.is_visible()
    for idle in ("#theme", ".controls", ".try"):  # they would do nothing
        assert one.page.locator(idle).first.is_hidden(), idle
    assert "drawn by this page’s own script" in one.page.inner_text(".first-screen")
    one.context.close()


def test_it_prints(desk: Opened) -> None:
    desk.page.emulate_media(media="print")
    assert desk.page.locator("#theme").is_hidden()
    assert desk.page.pdf().startswith(b"%PDF")
    assert desk.problems == []


def test_paper_has_the_light_colours_and_all_texts(chromium: Any, report_page: Path) -> None:
    """What buttons say is text; what is painted, and folded, is ready before the paper is; then all is as it was."""
    one = Opened(chromium, report_page, SIZES["desk"], "dark")
    page = one.page
    page.wait_for_selector(".settled", state="attached")
    painted = "document.querySelector('.plot canvas').toDataURL()"
    dark, folded = page.evaluate(painted), page.locator("details:not([open])").count()
    page.emulate_media(media="print", color_scheme="dark")
    assert one.paper() == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(painted) != dark
    for text in (".answer .pick", ".worst .chip", ".parameters .leaf"):
        assert page.locator(text).first.is_visible(), text
    assert page.evaluate("document.querySelector('.heat canvas').getBoundingClientRect().right <= innerWidth")
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.pdf()
    assert (page.evaluate(painted), page.locator("details:not([open])").count()) == (dark, folded)
    assert (one.paper() != "rgb(255, 255, 255)", one.problems) == (True, [])
    one.context.close()


def test_hostile_strings_do_nothing_in_a_browser(chromium: Any, tmp_path: Path) -> None:
    model, log, spec = hostile(tmp_path)
    out = tmp_path / "hostile.html"
    assert run("audit", model, log, "--spec", spec, "--html", out, "--baseline", model).exit_code == 0
    one = Opened(chromium, out, SIZES["desk"], "light")
    dialogs: list[str] = []
    one.page.on("dialog", lambda d: (dialogs.append(d.message), d.dismiss()))
    for selector in ("svg.tree .leaf", ".first .mk"):
        one.page.locator(selector).first.hover(force=True)
    assert (dialogs, one.problems, len(one.requests)) == ([], [], 1)
    assert one.page.locator("img").count() == 0
    assert one.page.locator("script").count() == 2
    one.context.close()
