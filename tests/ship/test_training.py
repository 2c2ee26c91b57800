"""Same logs, same bytes; provenance; evidence in every leaf."""

from __future__ import annotations

import gzip
import importlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heurgen
from heurgen import ir
from heurgen.base.errors import LogError, SpecError
from heurgen.ir import schema
from heurgen.logs.card import INTERPRETER, read_tools
from tests.support import logs

ROOT = Path(__file__).parents[2]
H200 = ROOT / "data" / "h200_unified_attention.csv"


def model_text(log: Path, spec: Path, **options: object) -> str:
    kernel = heurgen.read_spec(spec)
    return heurgen.to_json(heurgen.train(heurgen.read_logs([log], kernel), kernel, **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    log, spec = logs.write(tmp_path_factory.mktemp("original"))
    return log, spec, model_text(log, spec)


def test_order_of_rows_and_columns_and_the_file_name_do_not_matter(
    original: tuple[Path, Path, str], tmp_path: Path
) -> None:
    _, spec, expected = original
    rng = random.Random(1)
    cells = logs.rows()
    rng.shuffle(cells)
    order = rng.sample(range(len(logs.HEADER)), len(logs.HEADER))
    text = logs.text([[row[i] for i in order] for row in cells], [logs.HEADER[i] for i in order])
    shuffled = tmp_path / "another 'name' {{ 1 }}.csv"
    shuffled.write_text("\ufeff" + text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    assert model_text(shuffled, spec) == expected
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert model_text(packed, spec) == expected


def test_the_environment_does_not_matter(tmp_path: Path) -> None:
    """This process is one environment, a child with another of everything the other: a processor without what numpy
    takes of this one, whose logarithms and exponentials end in other bits. Points between the log's few scenarios lie
    where their logarithms meet.
    """
    log, spec = H200, H200.with_name("unified_attention.toml")
    folder = "numpy._core" if hasattr(np, "_core") else "numpy.core"  # before 2.0
    core = importlib.import_module(f"{folder}._multiarray_umath")
    changes = {
        "PYTHONHASHSEED": "77",
        "LC_ALL": "tr_TR.UTF-8",
        "TZ": "Asia/Kathmandu",
        "OMP_NUM_THREADS": "2",
        "NPY_DISABLE_CPU_FEATURES": " ".join(n for n in core.__cpu_dispatch__ if core.__cpu_features__[n]),
    }
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
    words = ["train", str(log), "--spec", str(spec), "-o", "model.json"]
    subprocess.run([sys.executable, "-m", "heurgen", *words], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "model.json").read_text() == model_text(log, spec)


def test_the_text_names_no_path_and_no_time(original: tuple[Path, Path, str]) -> None:
    log, _, text = original
    rendered = heurgen.render_python(heurgen.from_json(text))
    for word in (log.name, str(log.parent), "2026", os.uname().nodename):
        assert word not in text
        assert word not in rendered


def test_provenance_and_evidence(original: tuple[Path, Path, str]) -> None:
    module = heurgen.from_json(original[2])
    assert module.provenance["heurgen"] == heurgen.__version__
    assert module.provenance["schema_version"] == ir.SCHEMA_VERSION
    assert module.provenance["n_measurements"] == 288
    assert module.provenance["devices"] == sorted(logs.DEVICES.values())
    for selector in module.selectors:
        leaves = list(ir.leaves(selector.tree))
        assert sum(leaf.n_scenarios for leaf in leaves) == selector.n_scenarios == 24
        assert all(leaf.slowdown is not None and leaf.slowdown >= 1 for leaf in leaves)
        assert selector.ranges["m"][0] >= 16
    assert schema.is_untouched(original[2])


def test_vendors_have_their_own_parameters(original: tuple[Path, Path, str]) -> None:
    module = heurgen.from_json(original[2])
    assert module.selector("amd").parameters == ("BLOCK_M", "num_warps", "waves_per_eu")
    assert module.selector("nvidia").parameters == ("BLOCK_M", "num_warps")


def test_the_data_card_enters_provenance(original: tuple[Path, Path, str]) -> None:
    log, spec, _ = original
    tools = read_tools([ROOT / "data" / "h200_unified_attention.card.toml"])
    kernel = heurgen.read_spec(spec)
    options = heurgen.FitOptions(strategy="joint", max_depth=2)
    module = heurgen.train(heurgen.read_logs([log], kernel), kernel, tools=tools, options=options)
    assert module.provenance["tools"]["triton"] == ["3.6"]
    assert "3.6" in heurgen.render_python(module)


def test_times_of_the_interpreter_train_nothing(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path, [[c[0], INTERPRETER, *c[2:]] for c in logs.rows(4, ("nvidia",))])
    with pytest.raises(LogError, match="say nothing about a GPU") as caught:
        model_text(log, spec)
    assert str(caught.value).startswith(
        f"{log}:2: holds times of Triton's interpreter"
    )  # which of several logs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", ": column 'tools': has no flat table of strings ([tools], then torch = \"2.11\")"),
        (
            "[tools]\ntorch = 2.11\n",
            ":1: column 'tools': has no flat table of strings ([tools], then torch = \"2.11\")",
        ),
    ],
)
def test_bad_cards_are_refused(tmp_path: Path, text: str, message: str) -> None:
    card = tmp_path / "card.toml"
    card.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_tools([card])
    assert str(caught.value) == f"{card}{message}"
