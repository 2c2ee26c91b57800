"""The HTML report: what it holds, that it is one small file, the same every time, and that strings stay inert."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import random
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from heurgen import ir
from heurgen.audit.defaults import read_defaults
from heurgen.audit.report import MAX_BYTES, render_html
from heurgen.audit.report.data import Detail, Given, report
from heurgen.audit.score import score
from heurgen.base.errors import HeurgenError
from heurgen.base.text import counted
from heurgen.cli import main
from heurgen.ir.schema import to_json
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.render.python import render_python
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import LOG, SPEC, load, module_of
from tests.support import logs

EVIL = "</script></style></svg><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}{% raw %}"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], catch_exceptions=False)


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def given(depth: int = 4, **more: object) -> Given:
    spec, log, tables = load()
    module = module_of(spec, log, tables, depth)
    return Given(module, tables, score(module, tables), log, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render_html(given()))


def test_the_page_holds_every_part(page: Page) -> None:
    for part in (
        "vllm_unified_attention", "nvidia: NVIDIA H200", "Slowdown, side by side", "this model, training",
        "this model, held out",
        "given log", "oracle", "best single config", "How slowdowns are distributed", "The tree that ships",
        "One tree a parameter", "The worst scenarios", "Configs in use", "Coverage", "Regions without data",
        "Provenance", "12312",
    ):  # fmt: skip
        assert part in page.text, part


def data_of(text: str) -> list[dict[str, Any]]:
    """What the page's script is given."""
    (body,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return list(json.loads(body))


def test_every_leaf_has_its_evidence_in_words(page: Page) -> None:
    module = given().module
    leaves = list(ir.leaves(module.selectors[0].tree))
    drawn = [a for t, a in page.tags if t == "g" and a.get("class") == "leaf"]
    assert [a["data-l"] for a in drawn] == [str(i) for i in range(len(leaves))]
    named = [a["id"] for a in page.named("li") if a.get("id")]
    assert [a["aria-labelledby"] for a in drawn] == named
    for leaf in leaves:
        count = counted(leaf.n_scenarios, "training scenario")
        assert f"{count}, expected {leaf.slowdown:.3f}×; next 1." in page.text


def test_parameter_trees_point_at_the_joint_leaves() -> None:
    (data,) = data_of(render_html(given()))
    n_leaves = sum(1 for _ in ir.leaves(given().module.selectors[0].tree))

    def members(node: list[Any]) -> list[int]:
        return node[3] if isinstance(node[1], int) else members(node[2]) + members(node[3])

    assert [tree["name"] for tree in data["trees"]] == list(given().module.selectors[0].parameters)
    for tree in data["trees"]:
        assert sorted(members(tree["tree"])) == list(range(n_leaves)), tree["name"]


def test_the_page_loads_nothing_and_admits_its_own_script_alone() -> None:
    text = render_html(given())
    page = Page(text)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {t for t, _ in page.tags}
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


def test_a_generated_module_can_be_reported_too(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(render_python(given().module))
    out = tmp_path / "r.html"
    assert run("audit", module, LOG, "--spec", SPEC, "--html", out).exit_code == 0
    assert "The tree that ships" in out.read_text()


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


# --- hostile strings --------------------------------------------------------------------------------------


def hostile(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A log whose device, scenario ids, categories and ignored columns are markup; a spec whose texts are."""
    rows = logs.rows(24, ["nvidia"])
    header = [*logs.HEADER, "scenario", EVIL]
    place = {n: i for i, n in enumerate(header)}
    for i, row in enumerate(rows):
        row[place["device"]] = EVIL
        row[place["dtype"]] = EVIL if row[place["dtype"]] == "float16" else row[place["dtype"]]
        row += [f"{EVIL}{i // 6}", EVIL]
    spec = tmp_path / "kernel.toml"
    quoted = '"' + EVIL.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = logs.SPEC.replace(
        'values = ["bfloat16", "float16"]', f'values = ["bfloat16", {quoted}], doc = {quoted}'
    )
    spec.write_text(text.replace('unit = "rows"', f"unit = {quoted}"))
    log = tmp_path / "<img src=x onerror=alert(3)>&.csv"
    with log.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    module = module_of(kernel, read, cost_tables(read, kernel))
    tree = ir.Membership("dtype", (EVIL,), ("bfloat16",), True, module.selectors[0].tree, ir.Leaf(0, 3, 1.5))
    selector = replace(
        module.selectors[0],
        tree=tree,
        strategy=EVIL,
        choice={EVIL: [{EVIL: EVIL}], "held_out": {"geomean": 1.1}},
    )
    module = replace(module, selectors=(selector,), provenance={**module.provenance, EVIL: EVIL})
    model = tmp_path / "model.json"
    model.write_text(to_json(module))
    return model, log, spec


def test_hostile_strings_are_inert_in_html_svg_and_attributes(tmp_path: Path) -> None:
    model, log, spec = hostile(tmp_path)
    out = tmp_path / "r.html"
    default = tmp_path / "old.json"
    default.write_text(model.read_text())
    words = ("audit", model, log, "--spec", spec, "--html", out, "--baseline", default)
    assert run(*words, "--default", "BLOCK_M=16,num_warps=4,waves_per_eu=").exit_code in (0, 1)
    text = out.read_text()
    page = Page(text)
    plain = Page(render_html(given()))
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


def large(tmp_path: Path, n_scenarios: int, n_configs: int) -> tuple[Path, Path]:
    rng = random.Random(0)
    spec = tmp_path / "kernel.toml"
    spec.write_text(logs.SPEC)
    log = tmp_path / "large.csv"
    with log.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(logs.HEADER)
        for s in range(n_scenarios):
            m, k, dtype = rng.randrange(1, 9000), rng.randrange(16, 9000), rng.choice(["bfloat16", "float16"])
            density = round(rng.random(), 4)
            device = ("NVIDIA H200", "NVIDIA A100")[s % 2]
            for c in range(n_configs):
                time = 1 + abs(c - (m * k) ** 0.5 / 9000 * n_configs) / 5 + rng.random() / 50
                cells = ["nvidia", device, m, k, density, dtype, 16 * (c + 1), 4, "", "ok", f"{time:.5f}"]
                writer.writerow(cells)
    return log, spec


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


def test_a_huge_tree_is_folded_and_says_so() -> None:
    base = given(1)
    selector = base.module.selectors[0]
    tree: ir.Node = ir.Leaf(0, 1, 1.0)
    for i in range(600):
        tree = ir.Split("num_seqs", i, ir.Leaf(i % 2, 1, 1.0), tree) if i < 80 else tree
    for i in range(4):
        tree = ir.Split("max_seqlen_k", 1000 * (i + 1), tree, tree)
    module = replace(base.module, selectors=(replace(selector, tree=tree),))
    one = Given(module, base.tables, score(module, base.tables), base.log)
    data = report(one, Detail(scenarios=50, configs=40, leaves=30))
    diagram = data.sections[0].joint
    assert sum(row.leaf is not None or row.fold for row in diagram.rows) <= 30
    drawn = sum(row.leaf is not None for row in diagram.rows)
    assert drawn + diagram.n_folded == sum(1 for _ in ir.leaves(tree))
    text = render_html(one)
    assert len(text.encode()) < MAX_BYTES
    assert "with the fewest training scenarios are not drawn" in text


# --- today's defaults -------------------------------------------------------------------------------------


def test_defaults_by_config_by_column_and_by_themselves(tmp_path: Path) -> None:
    rows = logs.rows(24, ["nvidia"])
    place = {n: i for i, n in enumerate(logs.HEADER)}
    wanted = [r[place["BLOCK_M"]] == "64" and r[place["num_warps"]] == "4" for r in rows]
    log, spec = tmp_path / "log.csv", tmp_path / "kernel.toml"
    spec.write_text(logs.SPEC)
    marked = [[*r, "true" if w else "false"] for r, w in zip(rows, wanted, strict=True)]
    log.write_text(logs.text(marked, [*logs.HEADER, "default"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    by_column = read_defaults(None, [str(log)], read, kernel, tables)
    by_config = read_defaults("BLOCK_M=64,num_warps=4", [str(log)], read, kernel, tables)
    assert by_column is not None
    assert by_config is not None
    assert by_column.columns["nvidia"].tolist() == by_config.columns["nvidia"].tolist()
    config = tables[0].configs[by_config.columns["nvidia"][0]]
    assert dict(zip(tables[0].parameters, config, strict=True)) == {"BLOCK_M": 64, "num_warps": 4}
    module = tmp_path / "m.json"
    module.write_text(to_json(module_of(kernel, read, tables)))
    out = tmp_path / "r.html"
    assert run("audit", module, log, "--spec", spec, "--html", out).exit_code == 0
    assert "today’s defaults" in out.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BLOCK_M=64", "--default 'BLOCK_M=64' fits 2 configs of nvidia (give a value for every parameter: BLOCK_M, "
         "num_warps)"),
        ("BLOCK=64", "--default: 'BLOCK=64' sets no parameter (expected name=value with BLOCK_M, num_warps, "
         "waves_per_eu, or the name of a column of the log)"),
        ("BLOCK_M=65,num_warps=4", "--default 'BLOCK_M=65,num_warps=4' fits no config that the logs measured"),
        ("shipped", "column 'shipped': no log has this column of defaults (name a column that is true where today's "
         "default is measured, or a config: BLOCK_M=16,...)"),
    ],
)  # fmt: skip
def test_bad_defaults_are_refused(tmp_path: Path, text: str, message: str) -> None:
    log, spec = logs.write(tmp_path, logs.rows(24, ["nvidia"]))
    kernel = read_spec(spec)
    read = read_logs([log], kernel)
    with pytest.raises(HeurgenError) as error:
        read_defaults(text, [str(log)], read, kernel, cost_tables(read, kernel))
    assert str(error.value) == message
