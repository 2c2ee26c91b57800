"""What the tests of the report's pages share: a parsed page, small and hostile logs."""

from __future__ import annotations

import csv
import json
import random
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from heurgen import ir
from heurgen.audit.report import render_html
from heurgen.audit.report.data import Given
from heurgen.audit.score import score
from heurgen.ir.schema import to_json
from heurgen.logs.costs import cost_tables
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from tests.audit.learner import h200, load, module_of
from tests.support import logs

EVIL = "</script></style></svg><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}{% raw %}"


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


@cache
def given(depth: int = 4) -> Given:
    """The model of the H200 log, replayed on it."""
    _, log, tables = load()
    module = h200(depth)
    return Given(module, tables, score(module, tables), log)


@cache
def page_text() -> str:
    """The H200 report."""
    return render_html(given())


def data_of(text: str) -> list[dict[str, Any]]:
    """What the page's script is given."""
    (body,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return list(json.loads(body))


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


def page_of(folder: Path, spec: str, rows: list[dict[str, Any]]) -> Path:
    """The report of a made-up log, on disk. rows: features and parameters by name, `time_ms`; `device` is H200 else."""
    log, kernel_file, out = folder / "made.csv", folder / "made.toml", folder / "made.html"
    kernel_file.write_text(spec, encoding="utf-8")
    with log.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list({"vendor": "", "device": "", "status": ""} | rows[0]))
        writer.writeheader()
        writer.writerows({"vendor": "nvidia", "device": "H200", "status": "ok"} | row for row in rows)
    kernel = read_spec(kernel_file)
    read = read_logs([log], kernel)
    tables = cost_tables(read, kernel)
    module = module_of(kernel, read, tables)
    out.write_text(render_html(Given(module, tables, score(module, tables), read)), encoding="utf-8")
    return out
