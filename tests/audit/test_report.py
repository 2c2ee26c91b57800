"""The HTML report: what it holds, that it is one small file, the same every time, and that strings stay inert."""

from __future__ import annotations

import base64
import csv
import hashlib
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heurgen.audit.report import MAX_BYTES, render_html
from heurgen.audit.report.data import Given
from heurgen.audit.score import score
from heurgen.ir.schema import to_json
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.render.python import render_python
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import LOG, SPEC, load, module_of
from tests.audit.pages import Page, data_of, given, hostile, large, page_of, page_text
from tests.support import logs
from tests.support.commands import run


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(page_text())


def test_the_page_holds_every_part(page: Page) -> None:
    for part in (
        "vllm_unified_attention", "nvidia: NVIDIA H200", "Slowdown, side by side", "this model, training",
        "this model, held out",
        "given log", "oracle", "best single config", "How slowdowns are distributed", "The tree that ships",
        "One tree a parameter", "The worst scenarios", "Configs in use", "Coverage", "Regions without data",
        "Provenance", "12312",
    ):  # fmt: skip
        assert part in page.text, part


def test_the_page_loads_nothing_and_admits_its_own_script_alone() -> None:
    text = page_text()
    page = Page(text)
    assert page.named("link") == [{"rel": "expect", "href": "#end", "blocking": "render"}]
    assert not {"img", "iframe", "object", "embed", "base", "form"} & {t for t, _ in page.tags}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"https?:", text)
    policy = next(m["content"] or "" for m in page.named("meta") if m.get("http-equiv"))
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_one_scenario_is_one(tmp_path: Path) -> None:
    spec = '[kernel]\nname = "k"\n[features]\nm = { type = "int" }\n[parameters]\nB = { type = "int" }\n'
    out = page_of(tmp_path, spec, [{"m": 1, "B": 1, "time_ms": 1}, {"m": 1, "B": 2, "time_ms": 2}])
    text = out.read_text(encoding="utf-8")
    assert "The given log has 1 scenario and" in Page(text).text
    assert "further down" not in text  # the one scenario gets its best config: there are no worst
    assert not re.findall(r"\b1 (?:scenarios|leaves|configs|measurements)\b", text)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    rows = list(csv.reader(LOG.open()))
    shuffled = tmp_path / "other name.csv"
    random.Random(1).shuffle(body := rows[1:])
    with shuffled.open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *body])
    model = tmp_path / "m.json"
    model.write_text(to_json(given().module))
    for log, out in ((LOG, "a.html"), (shuffled, "b.html")):
        assert run("audit", model, log, "--spec", SPEC, "--html", tmp_path / out).exit_code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def leaves_of(tree: Any) -> list[dict[str, Any]]:
    """The leaves of a tree as the page's script has it."""
    return [tree] if isinstance(tree, dict) else [*leaves_of(tree[3]), *leaves_of(tree[4])]


def test_a_generated_module_can_be_reported_too(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(render_python(given().module))
    out = tmp_path / "r.html"
    assert run("audit", module, LOG, "--spec", SPEC, "--html", out).exit_code == 0
    page = Page(out.read_text())
    assert "The tree that ships" in page.text
    # A module does not carry training's counts: none is none, not 0.
    assert "how many training scenarios ended in a leaf is not known" in page.text
    assert "0 training scenario" not in page.text
    assert "train n" not in page.text
    assert "train again" not in page.text
    (data,) = data_of(out.read_text())
    assert {leaf["n"] for leaf in leaves_of(data["tree"])} == {None}


def test_two_vendors_categories_and_the_baseline(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path)
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    for name, depth in (("old", 1), ("new", 3)):
        (tmp_path / f"{name}.json").write_text(to_json(module_of(kernel, read, tables, depth)))
    out = tmp_path / "r.html"
    words = ("audit", tmp_path / "new.json", log, "--spec", spec, "--html", out)
    result = run(*words, "--baseline", tmp_path / "old.json")
    assert result.exit_code in (0, 1)
    page = Page(out.read_text())
    assert "nvidia: NVIDIA H200" in page.text
    assert "amd: AMD Instinct MI300X" in page.text
    assert "Changes against the baseline" in page.text
    assert "baseline model" in page.text
    ids = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for name in ("href", "aria-labelledby"):
            target = attributes.get(name)
            assert target is None or target.removeprefix("#") in ids


def test_winners_only_logs_say_that_slowdown_is_unknown() -> None:
    spec, log, tables = load()
    (table,) = tables
    won = table.log_slowdown == 0
    nothing = np.full(won.shape, np.nan)
    times, slowdown = np.where(won, table.times, nothing), np.where(won, 0.0, nothing)
    winners = (replace(table, times=times, log_slowdown=slowdown, costs_known=False),)
    module = module_of(spec, log, winners, 2)
    page = Page(render_html(Given(module, winners, score(module, winners), log)))
    assert "winners only, so slowdown is unknown here" in page.text
    assert "oracle" not in page.text


def test_scenarios_in_which_no_config_succeeded_are_told(tmp_path: Path) -> None:
    rows = logs.rows(6, ("nvidia",))
    for row in rows[: len(rows) // 6]:  # the first scenario
        row[-2:] = ["oom", ""]
    log, spec = logs.write(tmp_path, rows)
    assert run("train", log, "--spec", spec, "-o", tmp_path / "model.json").exit_code == 0
    words = ("audit", tmp_path / "model.json", log, "--spec", spec, "--html", tmp_path / "r.html")
    assert run(*words).exit_code == 0
    told = "The given log has 5 scenarios and is the one that the model was trained on. No config succeeded in 1 more"
    assert told in Page((tmp_path / "r.html").read_text()).text


# --- hostile strings --------------------------------------------------------------------------------------


def test_hostile_strings_are_inert_in_html_svg_and_attributes(tmp_path: Path) -> None:
    model, log, spec = hostile(tmp_path)
    out = tmp_path / "r.html"
    default = tmp_path / "old.json"
    default.write_text(model.read_text())
    words = ("audit", model, log, "--spec", spec, "--html", out, "--baseline", default)
    assert run(*words, "--default", "BLOCK_M=16,num_warps=4,waves_per_eu=").exit_code in (0, 1)
    text = out.read_text()
    page = Page(text)
    plain = Page(page_text())
    assert {t for t, _ in page.tags} <= {t for t, _ in plain.tags} | {"b", "details", "summary"}
    assert [s.get("type") for s in page.named("script")] == ["application/json", None]
    assert len(page.named("style")) == 1
    allowed = {name for _, a in plain.tags for name in a} | {"transform", "open"}
    assert {name for _, a in page.tags for name in a} <= allowed
    assert "alert(1)" in page.text
    assert "49" not in re.findall(r"\{\{7\*7\}\}|\b49\b", page.text)
    assert not re.search(r"<(img|script>alert)", text)
    assert "{{7*7}}" in page.text


def test_control_and_bidi_characters_are_shown_as_escapes() -> None:
    one = given(1)
    notes = ("a\u202eb\x1b[31m",)
    text = render_html(replace(one, notes=notes))
    assert "a\\u202eb\\x1b[31m" in text
    assert "\u202e" not in text


# --- size -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n_scenarios", "n_configs"), [(12500, 8), (1000, 100)])
def test_a_log_of_100_000_rows_stays_below_a_megabyte(
    tmp_path: Path, n_scenarios: int, n_configs: int
) -> None:
    log, spec = large(tmp_path, n_scenarios, n_configs)
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    assert read.n_measurements == 100_000
    tables = cost_tables(read, kernel)
    model = tmp_path / "m.json"
    small = cost_tables(read_logs([large(tmp_path / ".." / tmp_path.name, 60, n_configs)[0]], kernel), kernel)
    module = module_of(kernel, read, small, 5)
    model.write_text(to_json(module))
    text = render_html(Given(module, tables, score(module, tables), read))
    assert len(text.encode()) < MAX_BYTES
    drawn = re.findall(r"(\d+) of (\d+) scenarios, the worst among them", text)
    assert all(int(some) < int(whole) == n_scenarios // 2 for some, whole in drawn)
    assert len(drawn) == 2 or n_scenarios == 1000


# --- today's defaults -------------------------------------------------------------------------------------
