"""The page of models unlike each other, opened as a reader opens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heurgen import ir
from heurgen.audit.report import DETAILS, MAX_BYTES, render_html
from heurgen.audit.report.data import Given
from heurgen.audit.report.words import value_text
from heurgen.audit.score import score
from heurgen.ir.schema import from_json
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import ROOT, load, module_of
from tests.audit.pages import hostile, large
from tests.audit.report.test_devices import two_devices
from tests.browser.test_page import SIZES, Opened, drawn_rows, texts, violations
from tests.support import logs

pytestmark = pytest.mark.browser
HEURISTICS = ROOT / "kernels" / "heurgen_kernels" / "heuristics"


def read(log: Path, spec: Path, depth: int = 4, model: Path | None = None) -> Given:
    kernel = read_spec(spec)
    found = read_logs([log], kernel)
    tables = cost_tables(found, kernel)
    module = module_of(kernel, found, tables, depth) if model is None else from_json(model.read_text("utf-8"))
    return Given(module, tables, score(module, tables), found)


def shipped(_: Path) -> Given:
    return read(ROOT / "data" / "hopper_paged_attention.csv.gz", ROOT / "data" / "hopper_paged_attention.toml",
                model=HEURISTICS / "paged_attention.json")  # fmt: skip


def two_vendors(folder: Path) -> Given:
    return read(*logs.write(folder))


def devices(folder: Path) -> Given:
    return two_devices(folder, opposite=True)


def winners(_: Path) -> Given:
    spec, log, (table,) = load()
    won = table.log_slowdown == 0
    nothing = np.full(won.shape, np.nan)
    times, slowdown = np.where(won, table.times, nothing), np.where(won, 0.0, nothing)
    tables = (replace(table, times=times, log_slowdown=slowdown, costs_known=False),)
    module = module_of(spec, log, tables, 2)
    return Given(module, tables, score(module, tables), log)


def categories(folder: Path) -> Given:
    """Five scenarios of one vendor, two categories of long names and a flag; one number, always the same."""
    names = ["row_major", "column_major", "blocked_16x16_with_a_long_name", "x" * 900]
    (folder / "k.toml").write_text(
        f'[kernel]\nname = "k"\n[features]\nlayout = {{ type = "category", values = {names} }}\n'
        'flag = { type = "bool" }\nrows = { type = "int" }\n[parameters]\nBLOCK = { type = "int" }\n'
    )
    lines = ["vendor,device,layout,flag,rows,BLOCK,status,time_ms"]
    for i, name in enumerate([*names, "row_major"]):
        lines += [
            f"nvidia,L4,{name},{'true' if i % 2 else 'false'},7,{b},ok,{1 + abs(b - 16 * i) / 9}"
            for b in (16, 64)
        ]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    return read(folder / "log.csv", folder / "k.toml")


def many(folder: Path) -> Given:
    log, spec = large(folder, 700, 200)
    log.write_text(log.read_text().replace("NVIDIA A100", "NVIDIA H200"))
    return read(log, spec, depth=5)


def evil(folder: Path) -> Given:
    model, log, spec = hostile(folder)
    return read(log, spec, model=model)


MODELS: dict[str, Callable[[Path], Given]] = {
    f.__name__: f for f in (shipped, two_vendors, devices, winners, categories, many, evil)
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Given, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    given = MODELS[request.param](folder)
    path = folder / "report.html"
    path.write_text(render_html(given), encoding="utf-8")
    return given, path


@pytest.mark.parametrize(("size", "theme"), [("phone", "dark"), ("desk", "light")])
def test_it_is_silent_fits_its_window_and_axe_finds_nothing(
    model: tuple[Given, Path], chromium: Any, axe: str, size: str, theme: str
) -> None:
    one = Opened(chromium, model[1], SIZES[size], theme)
    one.page.wait_for_selector(".settled", state="attached")
    one.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    one.page.wait_for_timeout(100)
    assert (one.problems, len(one.requests)) == ([], 1)
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(one.page, axe) == []
    one.context.close()


def test_labels_of_an_axis_do_not_touch(model: tuple[Given, Path], chromium: Any) -> None:
    """Every feature that the reader can choose, each with the next."""
    for size in SIZES.values():
        one = Opened(chromium, model[1], size, "light")
        touching = one.page.evaluate(
            """() => {
              const found = [];
              for (const root of document.querySelectorAll('.explore')) {
                const [ax, ay] = [root.querySelector('.ax'), root.querySelector('.ay')];
                const choices = [...ax.options].map(o => o.value);
                for (const [i, x] of choices.entries()) {
                  ax.value = x; ax.dispatchEvent(new Event('change'));
                  ay.value = choices[(i + 1) % choices.length]; ay.dispatchEvent(new Event('change'));
                  const labels = [...root.querySelectorAll('.axes text')];
                  const boxes = labels.map(t => [t.textContent, t.getBoundingClientRect()]);
                  boxes.forEach(([a, p], k) => boxes.slice(k + 1).forEach(([b, q]) => {
                    if (p.left < q.right && q.left < p.right && p.top < q.bottom - 2 && q.top < p.bottom - 2) {
                      found.push([a, b]);
                    }
                  }));
                }
              }
              return found;
            }"""
        )
        assert touching == []
        one.context.close()


def test_every_map_is_filled(model: tuple[Given, Path], chromium: Any) -> None:
    one = Opened(chromium, model[1], SIZES["desk"], "light")
    one.page.wait_for_selector(".settled", state="attached")
    blank = one.page.evaluate(
        """() => [...document.querySelectorAll('canvas')].filter(c => c.checkVisibility()).filter(
             c => !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(x => x)).length"""
    )
    assert blank == 0
    sections = one.page.locator(".explore").count()
    assert sections == len({(c.vendor, c.device) for c in model[0].score.choices})
    shown = {min(len(model[0].score.choices), detail.scenarios) for detail in DETAILS}
    assert one.page.locator(".first .mk").count() in shown
    one.context.close()


def test_it_answers_as_select_does(model: tuple[Given, Path], chromium: Any) -> None:
    module = model[0].module
    one = Opened(chromium, model[1], SIZES["desk"], "light")
    drawn = sorted({(c.vendor, c.device) for c in model[0].score.choices})
    for number, (vendor, device) in enumerate(drawn):
        inputs = drawn_rows(module, 200)
        script = "([page, rows]) => rows.map(r => heurgen.select(page, r))"
        answers = one.page.evaluate(script, [number, [texts(module, row) for row in inputs]])
        for row, answer in zip(inputs, answers, strict=True):
            assert answer == [value_text(v) for v in ir.select(module, vendor, row, device).values()], row
    one.context.close()


def test_a_page_of_winners_shows_no_slowdown(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "winners.html"
    path.write_text(render_html(winners(tmp_path)), encoding="utf-8")
    one = Opened(chromium, path, SIZES["desk"], "light")
    one.page.wait_for_selector(".settled", state="attached")  # until then what is far below has no innerText
    one.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    said = one.page.evaluate(
        "document.body.innerText + [...document.querySelectorAll('[aria-label]')].map(e => e.ariaLabel).join(' ')"
    )
    assert not any(f"{digit}×" in said for digit in "0123456789")
    assert "agrees with the winner" in said
    one.context.close()


def test_where_devices_differ_is_seen(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "devices.html"
    path.write_text(render_html(devices(tmp_path)), encoding="utf-8")
    one = Opened(chromium, path, SIZES["desk"], "light")
    one.page.wait_for_selector(".settled", state="attached")
    assert "they choose differently on 100 % of it" in one.page.inner_text(".devices")
    assert one.page.locator(".devices canvas").count() == 2
    one.context.close()


def test_700_scenarios_of_200_configs_are_whole_small_and_soon_there(chromium: Any, tmp_path: Path) -> None:
    text = render_html(many(tmp_path))
    assert len(text.encode()) < 0.75 * MAX_BYTES
    path = tmp_path / "many.html"
    path.write_text(text, encoding="utf-8")
    waits = []
    for _ in range(5):
        one = Opened(chromium, path, SIZES["desk"], "light")
        waits.append(one.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        assert one.page.locator(".first .mk").count() == 700
        script = "(h => [h.cells.length, heurgen.list(h.shipped).length])(heurgen.pages[0].heat)"
        data = one.page.evaluate(script)
        assert data == [700, 200]
        one.context.close()
    assert min(waits) < 1000  # ms; the least, since other tests run beside
