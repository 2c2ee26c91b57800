"""Products of sizes in a model that `train` made: the default's, where the spec names no derived features."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import heurgen
from heurgen import ir
from heurgen.ir import HeuristicModule, schema
from heurgen.render.python import render_python
from heurgen.ship.products import as_trained
from heurgen.ship.remarks import products as said
from heurgen.trees import FitOptions
from tests.trees.test_products import blocks, tiles

SPEC = """[kernel]
name = "blocks"
[features]
m = { type = "int" }
n = { type = "int" }
DERIVED
[parameters]
SIDE = { type = "int" }
"""


def written(folder: Path, vendors: tuple[str, ...] = ("nvidia",), derived: str = "") -> tuple[Path, Path]:
    table, rng = tiles(160), np.random.RandomState(1)
    rows = []
    for vendor in vendors:
        noise = rng.permutation(table.times.ravel()).reshape(table.times.shape)
        times = table.times if vendor == "nvidia" else noise  # nothing to learn there
        for (m, n), row in zip(table.X.astype(int).tolist(), times.tolist(), strict=True):
            rows += [
                f"{vendor},{vendor} GPU,{m},{n},{side},ok,{t!r}"
                for side, t in zip((16, 32, 64, 128, 256), row, strict=True)
            ]
    random.Random(0).shuffle(rows)
    log, spec = folder / "log.csv", folder / "spec.toml"
    log.write_text("\n".join(["vendor,device,m,n,SIDE,status,time_ms", *rows]) + "\n", encoding="utf-8")
    spec.write_text(SPEC.replace("DERIVED", derived), encoding="utf-8")
    return log, spec


def trained(folder: Path, options: FitOptions | None = None, **given: object) -> HeuristicModule:
    log, spec = written(folder, **given)  # type: ignore[arg-type]
    kernel = heurgen.read_spec(spec)
    return heurgen.train(heurgen.read_logs([log], kernel), kernel, options=options)


def test_a_model_computes_those_that_it_tests(tmp_path: Path) -> None:
    module = trained(tmp_path)
    (selector,) = module.selectors
    assert selector.choice["products"]["taken"]
    assert selector.choice["products"]["columns"] == 2
    assert selector.choice["products"]["geomean_with"] < selector.choice["products"]["geomean_without"]
    assert {d.name for d in module.derived} == {"m_times_n"}
    assert ir.tested(selector.tree) >= {"m_times_n"}
    assert set(selector.ranges) == {"m", "n", "m_times_n"}
    assert said(selector, tiles(160))[0].startswith(
        "  products and ratios of sizes, here m_times_n: held out 1."
    )
    assert schema.from_json(schema.to_json(module)) == module
    space: dict = {}
    exec(compile(render_python(module), "blocks.py", "exec"), space)
    for m, n in ((16, 16), (64, 4000), (8192, 8192), (1, 1), (2**40, 3)):
        row = ir.with_derived(module, {"m": m, "n": n})
        expected = selector.configs[ir.find_leaf(selector.tree, row).config]
        assert tuple(space["select"](vendor="nvidia", m=m, n=n)) == expected


def test_the_same_logs_give_the_same_bytes(tmp_path: Path) -> None:
    log, spec = written(tmp_path)
    kernel = heurgen.read_spec(spec)
    texts = []
    for seed in range(2):
        header, *rows = log.read_text(encoding="utf-8").splitlines()
        random.Random(seed).shuffle(rows)
        log.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        texts.append(heurgen.to_json(heurgen.train(heurgen.read_logs([log], kernel), kernel)))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("options", "derived", "names"),
    [
        (FitOptions(strategy="joint"), "", []),
        (None, '[derived]\nsum = "m + n"', ["sum"]),  # the spec's are all that there are
    ],
)
def test_who_says_how_is_not_asked(
    tmp_path: Path, options: FitOptions | None, derived: str, names: list[str]
) -> None:
    module = trained(tmp_path, options, derived=derived)
    assert [d.name for d in module.derived] == names
    assert "products" not in module.selectors[0].choice
    assert said(module.selectors[0], tiles(160)) == []


def test_what_train_took_is_not_suggested_again(tmp_path: Path) -> None:
    log, spec = written(tmp_path, vendors=("nvidia", "amd"))
    kernel = heurgen.read_spec(spec)
    read = heurgen.read_logs([log], kernel)
    tables = heurgen.cost_tables(read, kernel)
    selectors = heurgen.train(read, kernel).selectors
    amd, nvidia = as_trained(tables, selectors)
    assert amd is tables[0]
    assert [c.name for c in nvidia.columns] == ["m", "n", "m_times_n", "m_per_n"]
    choice = {"products": {"taken": True, "columns": 7}}  # of three numbers, of which two have few values
    (wide,) = as_trained(
        [blocks(120)], [replace(s, choice=choice) for s in selectors if s.vendor == "nvidia"]
    )
    assert wide.columns[-1].name == "batch_times_heads_times_q"
    found = heurgen.suggest_derived(nvidia)
    # m * n and m / n are all products that there are
    assert found.ranked
    assert all(" % " in s.expression for s in found.ranked)
    assert found.beside == ("m_times_n", "m_per_n")


def test_each_vendor_is_asked_on_its_own(tmp_path: Path) -> None:
    module = trained(tmp_path, vendors=("nvidia", "amd"))
    taken = {s.vendor: s.choice["products"]["taken"] for s in module.selectors}
    assert taken == {"amd": False, "nvidia": True}
    tested = {s.vendor: ir.tested(s.tree) - {"m", "n"} for s in module.selectors}
    assert tested == {"amd": frozenset(), "nvidia": frozenset({"m_times_n"})}
