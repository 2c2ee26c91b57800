"""benchmarks/recorded.py, but for what a GPU measures."""

from __future__ import annotations

import sys
from pathlib import Path

import heurgen_kernels
import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import recorded

from tests.kernels.batches import LIMITS, written


def test_kernels_of_another_checkout_are_a_package_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    package = next(iter(heurgen_kernels.__path__))
    attention, config, scratch = recorded.another(Path(package), tmp_path)
    own = recorded.kernels("heurgen_kernels")
    assert (attention.__module__, own[0].__module__) == ("kernels_before.api", "heurgen_kernels.api")
    assert scratch._arenas is not own[2]._arenas
    assert config == own[1]


def test_a_batch_is_one_that_the_config_writes_and_attends_to(device, monkeypatch):
    make = recorded.make_inputs
    small = {**recorded.LAYOUT, "num_query_heads": 4, "num_kv_heads": 2, "head_size": 32, "dtype": "float16"}
    monkeypatch.setattr(
        recorded, "make_inputs", lambda lengths, _, __, seed: make(lengths, small, device, seed)
    )
    batch = recorded.batch_of([70, 5, 130], 1)
    assert len(batch.pop("slot_mapping")) == 3
    assert written(batch, recorded.kernels("heurgen_kernels")[1]) < LIMITS[torch.float16]


def test_a_summary_has_a_line_for_each_batch_and_one_for_all():
    rows = [("a", 500, 10.0, 8.0), ("b", 900, 20.0, 20.0), ("a", 520, 10.0, 12.5)]
    assert recorded.summary(rows) == [
        "a: 10.0 us before, 10.2 now, 1.000, +0.25 us, 2 rounds",
        "b: 20.0 us before, 20.0 now, 1.000, +0.00 us, 1 rounds",
        "all: 1.000",
    ]
    assert recorded.ratio([(10.0, 8.0), (10.0, 12.5)]) == pytest.approx(1.0)
