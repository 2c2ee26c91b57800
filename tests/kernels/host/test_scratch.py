"""Counters of split keys: as many as are used, of the right device, and never silently fewer parts for want of them."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from heurgen_kernels.caches import Cache
from heurgen_kernels.config import Config
from heurgen_kernels.host import launch, plan, scratch
from heurgen_kernels.host.hardware import Device
from heurgen_kernels.host.plan import launch_grid, make_plan, roomy_segments

from tests.kernels.batches import checked, error_of, make_batch

CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.fixture(autouse=True)
def nothing_yet(monkeypatch):
    monkeypatch.setattr(scratch, "_arenas", {})
    monkeypatch.setattr(scratch, "_counters", {})


def test_devices_of_one_number_share_nothing():
    assert scratch.counters(CPU, 0, 8).device == CPU
    assert scratch.counters(META, 0, 8).device == META
    assert scratch.counters(CPU, 0, 8).device == CPU


def test_a_launch_that_needs_more_gets_more(monkeypatch):
    monkeypatch.setattr(scratch, "COUNTERS", 64)
    small = scratch.counters(CPU, 0, 60)
    assert scratch.counters(CPU, 0, 64) is small
    large = scratch.counters(CPU, 0, 1000)
    assert large.numel() >= 1000
    assert not large.any()
    assert scratch.recorded_counters(CPU, 1000).data_ptr() == scratch._arenas[CPU][-1].zeros.data_ptr()


def test_recorded_launches_share_no_counter(monkeypatch):
    monkeypatch.setattr(scratch, "COUNTERS", 64)
    scratch.counters(CPU, 0, 60)
    first, second = (scratch.recorded_counters(CPU, 10) for _ in range(2))
    assert (first.numel(), second.numel()) == (10, 10)
    first.fill_(1)
    assert not second.any()
    spent = scratch.recorded_counters(CPU, 1000)
    assert (spent.numel(), spent.dtype, bool(spent.any())) == (1000, torch.int32, False)


def test_launches_that_two_threads_record_share_no_counter(monkeypatch):
    class Slow(scratch.Arena):
        """Lets the other thread go on while it says how many are used."""

        used = property(
            lambda self: (time.sleep(0.05), self.taken)[1], lambda self, used: setattr(self, "taken", used)
        )

    arena = Slow(torch.zeros(64, dtype=torch.int32), 64)
    monkeypatch.setattr(scratch, "_arenas", {CPU: [arena]})
    with ThreadPoolExecutor(2) as pool:
        taken = list(pool.map(lambda count: scratch.recorded_counters(CPU, count), (8, 8)))
    assert sorted(t.storage_offset() for t in taken) == [0, 8]


def test_a_graph_of_many_layers_has_counters_of_its_launches_alone(monkeypatch):
    """None of them lies in the graph's own pool, where every replay would write it anew."""
    monkeypatch.setattr(scratch, "COUNTERS", 64)
    scratch.counters(CPU, 0, 60, for_graphs=True)
    arena = scratch._arenas[CPU][-1].zeros
    taken = [scratch.recorded_counters(CPU, 60) for _ in range(scratch.LAYERS)]
    assert {t.untyped_storage().data_ptr() for t in taken} == {arena.untyped_storage().data_ptr()}
    scratch.counters(CPU, 0, 60)
    assert len(scratch._arenas[CPU]) == 1


def test_only_decodes_of_a_static_grid_get_counters_for_a_graph_of_layers(device, monkeypatch):
    """Servers record those alone; of prompts, which have many blocks, a model's layers would keep most of a GiB."""
    asked = []

    def counters(*given):
        asked.append(given[-1])
        return scratch.counters(*given)

    monkeypatch.setattr(launch, "counters", counters)
    decodes, prompts = [(1, 100), (1, 50)], [(40, 100), (33, 50)]
    for lengths, variant in ((decodes, "static_grid"), (prompts, "static_grid"), (decodes, "split_kv")):
        batch = make_batch(lengths, (2, 1), device=device)
        assert error_of(batch, Config(variant, 16, 16, 4, 2, 4)) < 2e-3
    assert asked == [True, False, False]


def test_a_thousand_decodes_use_few_counters():
    """1,024 sequences of 8 KV heads in 64 parts: each has its own and one for each few parts that are combined."""
    call = checked(
        {
            "q": torch.empty(1024, 32, 64, dtype=torch.bfloat16, device="meta"),
            "key_cache": torch.empty(1024, 16, 8, 64, dtype=torch.bfloat16, device="meta"),
            "value_cache": torch.empty(1024, 16, 8, 64, dtype=torch.bfloat16, device="meta"),
            "block_table": torch.empty(1024, 64, dtype=torch.int32, device="meta"),
            "cu_seqlens_q": torch.empty(1025, dtype=torch.int32, device="meta"),
            "seq_lens": torch.empty(1024, dtype=torch.int32, device="meta"),
            "max_seqlen_q": 1, "max_seqlen_k": 1000, "scale": 1.0,
        },
        Device("nvidia", (9, 0), 132),
    )  # fmt: skip
    for variant, each in (("split_kv", 1 + 64 // 32), ("static_grid", 1 + 64 // 32), ("mixed", 1 + 64 // 8)):
        made = make_plan(call, Config(variant, 16, 16, 1, 3, 64))
        _, items, _ = launch_grid(made, call)
        assert (items, made.counters, made.item_counters) == (8192, 0, each)
        # the parts of mixed keep 16 rows, over 1 GiB of them
        assert roomy_segments(made, items, 0) == (24 if variant == "mixed" else 64)
    uncut = make_plan(call, Config("warp_specialized", 128, 64, 4, 3, 1))
    assert (uncut.counters, uncut.item_counters) == (2, 0)


def test_fewer_parts_for_want_of_memory_are_said_once(device, monkeypatch, caplog):
    monkeypatch.setattr(plan, "SCRATCH_LIMIT", 10_000)
    monkeypatch.setattr(launch, "_said", Cache())
    batch = make_batch([(1, 100), (3, 50)], (2, 1), device=device)
    with caplog.at_level(logging.WARNING, "heurgen_kernels"):
        for _ in range(2):
            assert error_of(batch, Config("split_kv", 16, 16, 4, 2, 8)) < 2e-3
    assert caplog.messages[0] == (
        "split_kv: 8 parts of the keys of 2 blocks would take over 10000 bytes of scratch; fewer are used"
    )
    assert caplog.text.count("8 parts of the keys of") == 1


def test_while_a_graph_is_recorded_counters_are_the_graphs_own(monkeypatch):
    """GPUs alone record; the device of the zeros is the one that was asked for."""
    asked = []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(scratch, "recorded_counters", lambda device, count: asked.append((device, count)))
    scratch.counters(torch.device("cuda", 1), 0, 8)
    assert asked == [(torch.device("cuda", 1), 8)]
    assert scratch.counters(CPU, 0, 8).device == CPU
    assert len(asked) == 1


def test_recorded_launches_lie_behind_each_other_in_sixteen_bytes():
    scratch.counters(META, 0, 8)
    taken = [scratch.recorded_counters(META, count) for count in (5, 3, 4)]
    assert [t.storage_offset() for t in taken] == [0, 8, 12]
    assert scratch._arenas[META][0].used == 16
    assert {t.device for t in taken} == {META}
