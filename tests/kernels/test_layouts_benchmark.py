"""benchmarks/layouts.py: what it draws, and the lines of its last run on a device, which may not fall."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
sys.path.append(str(FOLDER))

import layouts  # noqa: E402
from models import CLASSES, MODELS  # noqa: E402

DEVICES = sorted(path.parent.name for path in FOLDER.glob("*/layouts.json"))
LEAST = 0.92
FLASH, GRAPHS = "fa3 / ours", "graph fa3 / graph ours"
# Geometric means over all points, eagerly and under graphs, and how many are below LEAST: none may get worse. On a host
# of four busy H200s, where each launch takes a microsecond more, it was 1.306 and 1.263, and 3.
MEAN = {"h100": {FLASH: 1.272, GRAPHS: 1.272}, "h200": {FLASH: 1.295, GRAPHS: 1.305}}
BELOW = {"h100": 3, "h200": 4}


def record(device):
    return json.loads((FOLDER / device / "layouts.json").read_text())


def test_the_same_seed_draws_the_same_points():
    drawn = layouts.points(1, 70)
    assert drawn == layouts.points(1, 140)[:70]
    assert drawn != layouts.points(2, 70)
    assert [kind for kind, _, _ in drawn] == [*CLASSES] * 10


def test_points_are_layers_and_batches_that_a_launch_takes():
    for _, model, lengths in layouts.points(3, 140):
        assert model.heads % model.heads_kv == 0
        assert model.heads <= layouts.MOST_HEADS
        assert all(1 <= q <= k for q, k in lengths)
        assert sum(k for _, k in lengths) * model.heads_kv * model.size * 4 <= layouts.MOST_BYTES


def test_steps_of_a_server_are_batches_that_a_launch_takes():
    drawn = layouts.points(5, 70, (layouts.SERVED,))
    assert drawn == layouts.points(5, 90, (layouts.SERVED,))[:70]
    assert {kind for kind, _, _ in drawn} == {layouts.SERVED}
    assert sum(model in MODELS.values() for _, model, _ in drawn) >= 35
    for _, _, lengths in drawn:
        assert all(1 <= q <= k for q, k in lengths)
        assert sum(q for q, _ in lengths) <= 16384
        new = [q for q, _ in lengths]
        assert new == sorted(new, key=lambda q: q > 4)  # what decodes comes first


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_that_is_kept_is_whole(device):
    """Of the points that its seed draws; results as FlashAttention-3's, but where it is known to be wrong: windows over
    heads of 96, as which it runs those of 80, and of 192.
    """
    found = record(device)
    drawn = layouts.points(found["seed"], len(found["points"]))
    assert [row["point"] for row in found["points"]] == [layouts.described(*point) for point in drawn]
    wrong = [row["point"] for row in found["points"] if not row["difference"] < 1e-2]
    assert all("window" in point and re.search(r"of (80|96|192)\b", point) for point in wrong)


@pytest.mark.parametrize("device", DEVICES)
def test_no_line_falls(device):
    points = record(device)["points"]
    for name, least in MEAN[device].items():
        assert layouts.mean([row[name] for row in points]) >= least
    assert sum(row[FLASH] < LEAST for row in points) <= BELOW[device]


def test_no_step_of_a_server_falls():
    """One H200. What is below LEAST is listed by the benchmark. On hosts of four, such code: 1.116 and 16, 1.110 and
    17; under graphs 1.104.
    """
    found = json.loads((FOLDER / "h200" / "served.json").read_text())
    drawn = layouts.points(found["seed"], len(found["points"]), (layouts.SERVED,))
    assert [row["point"] for row in found["points"]] == [layouts.described(*point) for point in drawn]
    for name, least in ((FLASH, 1.106), (GRAPHS, 1.111)):
        assert layouts.mean([row[name] for row in found["points"]]) >= least
    assert sum(row[FLASH] < LEAST for row in found["points"]) <= 16


def test_a_device_was_measured():
    assert DEVICES
