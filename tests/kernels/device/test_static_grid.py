"""The static grid: its generated function, lengths that change under one plan, and the way from sweep to function."""

from __future__ import annotations

import csv
import itertools
import math
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl
from heurgen_kernels import caches
from heurgen_kernels.api import paged_attention
from heurgen_kernels.defaults import CHOICE, GRAPH
from heurgen_kernels.device.static_grid import BEGINNING, MANY, default_segments, refine_segments
from heurgen_kernels.heuristics.static_grid import nvidia_num_segments
from heurgen_kernels.host import hardware, launch, scratch
from heurgen_kernels.host.select import choose_segments
from heurgen_kernels.tools.static_tunable import Forced, tunable

from heurgen import ir
from heurgen.ir.schema import read_model
from heurgen.ship.project_file import read_project
from heurgen.tune.protocol import DeviceInfo
from heurgen.tune.run import TuneOptions, run_tune
from heurgen.tune.workloads import read_workload
from tests.kernels.batches import LIMITS, clean, config, error_after_change, error_of, make_batch

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "kernels/heurgen_kernels/heuristics/static_grid.json"
HALF = LIMITS[torch.float16]


# --- the generated function -------------------------------------------------------------------------------


@triton.jit
def ask_kernel(rows, out, count, CHOOSE: tl.constexpr):
    for i in range(count):
        row = rows + 6 * i
        chosen = CHOOSE(
            tl.load(row),
            tl.load(row + 1),
            tl.load(row + 2),
            tl.load(row + 3),
            tl.load(row + 4),
            tl.load(row + 5),
        )
        tl.store(out + i, chosen)


def asked(device, function, rows):
    out = torch.zeros(len(rows), dtype=torch.int32, device=device)
    ask_kernel[(1,)](torch.tensor(rows, dtype=torch.int32, device=device), out, len(rows), function)
    return out.tolist()


def edges(module):
    """Rows on and beside every threshold of the tree, those of the quotients too."""
    tree = module.selector("nvidia").tree
    near = {name: {1, 2, 100} for name in CHOICE}
    near["num_kv_heads"], near["multiprocessors"] = {1, 4, 8, 32}, {1, 80, 132, 304}
    random_ = random.Random(0)
    splits = [node for node in ir.nodes(tree) if isinstance(node, ir.Split)]
    for node in splits:
        if node.feature in near:
            near[node.feature] |= {max(1, math.floor(node.threshold) + d) for d in (-1, 0, 1)}
    rows = [[random_.choice(sorted(near[name])) for name in CHOICE] for _ in range(300)]
    for node in splits:
        if node.feature in near:
            continue
        for heads, processors, d in itertools.product((1, 8), (80, 132), (-1, 0, 1)):
            row = [random_.choice(sorted(near[name])) for name in CHOICE]
            row[4], row[5] = heads, processors
            place, factor = derived(node.feature, row)
            row[place] = max(1, math.floor(node.threshold * factor) + d)
            rows.append(row)
    return rows


def derived(name, row):
    """(place in the row of what a derived feature of the spec is proportional to, by what it is divided)."""
    _, _, _, total, heads, processors = row
    return {
        "parts": (2, max(total * heads / (5 * processors), 64)),
        "share": (2, total * heads / processors),
    }[name]


def test_the_generated_function_is_the_tree(device):
    module = read_model(MODEL)
    assert tuple(f.name for f in module.features) == CHOICE
    rows = edges(module)
    expected = [
        ir.select(module, "nvidia", dict(zip(CHOICE, row, strict=True)))["num_segments"] for row in rows
    ]
    assert asked(device, nvidia_num_segments, rows) == expected
    assert len(set(expected)) > 1


def test_the_guess_without_a_tree(device):
    rows = [[1, 1, 65536, 65536, 8, 132], [256, 256, 4096, 500_000, 8, 132], [1, 1, 1, 1, 1, 132]]
    # beyond int32: 2^30 keys of 64 heads
    rows += [[256, 256, 2**23, 2**30, 64, 132], [0, 0, 0, 0, 8, 132]]
    assert asked(device, default_segments, rows) == [100, 1, 1, 1, 0]


def test_who_chooses():
    assert choose_segments(None, "nvidia") is nvidia_num_segments
    assert choose_segments(None, "amd") is default_segments
    assert choose_segments(SimpleNamespace(choose_segments=7)) == 7
    assert choose_segments(SimpleNamespace(choose_segments=default_segments), "nvidia") is default_segments
    for wrong, said in (
        (ask_kernel, r"takes .*, expected a @triton.jit function of"),
        (lambda *_: 1, r"is <function .*; expected a number, or a @triton.jit function of"),
        (2.5, r"is 2.5; expected a number, or a @triton.jit function of"),
    ):
        with pytest.raises(ValueError, match=f"^choose_segments {said}"):
            choose_segments(SimpleNamespace(choose_segments=wrong))


# --- one plan, many lengths -------------------------------------------------------------------------------


@pytest.fixture
def few(device, monkeypatch):
    """The device, with so few processors in the interpreter that programs go round their loop several times."""
    if device == "cpu":
        caches.forget()
        monkeypatch.setitem(hardware._devices, torch.device("cpu"), hardware.Device("nvidia", None, 3))
    return device


LENGTHS = [
    [(1, 150), (1, 90), (1, 3), (1, 1)],  # as the tensors were made
    [(1, 1), (1, 1), (1, 1), (1, 1)],
    [(1, 149), (0, 0), (1, 2), (0, 0)],  # a graph's padding: sequences without a query
    [(0, 7), (0, 0), (0, 5), (1, 77)],  # with lengths left from before
    [(1, 16), (1, 17), (1, 31), (1, 32)],
    [(0, 0), (0, 0), (0, 0), (0, 0)],
]


@pytest.mark.parametrize("heuristics", [None, Forced(1), Forced(3), Forced(64)], ids=str)
def test_lengths_change_between_launches_of_one_plan(few, heuristics):
    batch = clean(make_batch(LENGTHS[0], heads=(4, 2), device=few))
    out = torch.empty_like(batch["q"])
    setting = config("static_grid", segments=8)
    for number, lengths in enumerate(LENGTHS):
        error = error_after_change(
            batch,
            lengths,
            out,
            lambda: paged_attention(**batch, out=out, config=setting, heuristics=heuristics),
        )
        assert error < HALF, lengths
        if number == 0:
            plans = len(launch._plans)
    assert len(launch._plans) == plans


def test_more_sequences_than_one_vector_step(few):
    """300 sequences, so that the round robin goes on in a second chunk; some without a query, some long."""
    lengths = [(1, 40) if i % 97 == 0 else (0, 3) if i % 3 else (1, 1 + i % 5) for i in range(300)]
    batch = make_batch(lengths, heads=(2, 1), size=16, device=few)
    assert error_of(batch, config("static_grid", segments=4), heuristics=None) < HALF


@triton.jit
def refine_kernel(out, cu, lens, count, segments, longest):
    tl.store(out, refine_segments(segments, longest, cu, lens, count, 0, 0, 4, 16, True, False, 64, 8, MANY))


def soonest(lengths, segments, programs):
    """`refine_segments` in whole numbers, of all sequences."""
    found = []
    for step in range(5):
        wanted = min(segments + step * max(segments // 2, 1), 64)
        tiles = math.ceil(math.ceil(max(lengths) / 16) / wanted)
        items = 8 * sum(max(math.ceil(length / (16 * tiles)), 1) for length in lengths)
        found.append((math.ceil(items / programs) * (tiles + BEGINNING.value), step, wanted))
    return min(found)[-1]


@pytest.mark.parametrize("segments", [1, 2, 3, 16, 40])
def test_large_batches_are_cut_so_that_programs_end_together(device, segments):
    random_ = random.Random(segments)
    for count in (40, 100, 256):
        lengths = [random_.randint(1, 3000) for _ in range(count)]
        out = torch.zeros(1, dtype=torch.int32, device=device)
        starts = torch.arange(count + 1, dtype=torch.int32, device=device)
        lens = torch.tensor(lengths, dtype=torch.int32, device=device)
        refine_kernel[(77,)](out, starts, lens, count, segments, max(lengths))
        assert int(out) == soonest(lengths, segments, 77)


def test_the_first_sequences_of_a_large_batch_stand_for_all(device):
    out = torch.zeros(1, dtype=torch.int32, device=device)
    lens = torch.tensor([1000] * 256 + [1] * 44, dtype=torch.int32, device=device)
    refine_kernel[(1056,)](out, torch.arange(301, dtype=torch.int32, device=device), lens, 300, 1, 1000)
    assert int(out) == soonest([1000] * 300, 1, 1056)


@pytest.mark.parametrize("heads", [(2, 1), (4, 4)])
def test_crowded_batches_and_those_of_many_sequences(few, heads):
    """Either looks at MANY at a time; 7 sequences of one KV head on 3 processors are many enough to be refined."""
    for lengths in (
        [(1, 150)] * 2 + [(0, 9), (1, 40), (1, 1), (1, 97), (1, 64)],
        [(1, 33)] * 30 + [(0, 0), (1, 200)] * 2,
    ):
        batch = make_batch(lengths, heads=heads, size=16, device=few)
        assert error_of(batch, config("static_grid", segments=8), heuristics=None) < HALF


@pytest.mark.parametrize(
    "features",
    [{"window": (40, -1)}, {"window": (3, -1)}, {"causal": False, "window": (20, 5)}, {"causal": False}],
    ids=str,
)
@pytest.mark.parametrize("lengths", [[(1, 150), (1, 20), (0, 9), (1, 1)], [(3, 150), (8, 70), (2, 2)]])
def test_windows_are_cut_where_keys_are_seen(few, lengths, features):
    batch = make_batch(lengths, heads=(2, 1), device=few)
    assert error_of(batch, config("static_grid", segments=8), **features) < HALF


@pytest.mark.parametrize("forced", [1, 5])
def test_batches_with_prompts(few, forced):
    """Not one Q block a sequence: prompts are not cut, nearly pure decodes are."""
    for lengths in ([(1, 100), (1, 30), (20, 30)], [(1, 100)] * 9 + [(9, 12)]):
        batch = make_batch(lengths, heads=(2, 1), device=few)
        assert error_of(batch, config("static_grid", segments=5), heuristics=Forced(forced)) < HALF


# --- counters of recorded launches ------------------------------------------------------------------------


def test_recorded_launches_share_no_counters(monkeypatch):
    monkeypatch.setattr(scratch, "_arenas", {})
    monkeypatch.setattr(scratch, "_counters", {})
    monkeypatch.setattr(scratch, "COUNTERS", 64)
    cpu = torch.device("cpu")
    before = scratch.recorded_counters(cpu, 8)  # nothing was launched yet: zeros of the graph itself
    eager = scratch.counters(cpu, 0, 8)
    recorded = [scratch.recorded_counters(cpu, n) for n in (6, 24, 20)]
    spent = scratch.recorded_counters(cpu, 20)
    arena = scratch._arenas[cpu][0].zeros
    for counters in (before, eager, *recorded, spent):
        counters += 1
    assert arena.tolist() == [1] * 6 + [0] * 2 + [1] * 24 + [1] * 20 + [0] * 12
    assert all(int(c.max()) == 1 for c in (before, eager, *recorded, spent))
    assert all(c.data_ptr() % 16 == arena.data_ptr() % 16 for c in recorded)
    assert scratch.counters(cpu, 0, 8) is eager  # and this launch filled the arenas up
    assert len(scratch._arenas[cpu]) == 2
    assert scratch.recorded_counters(cpu, 20).data_ptr() == scratch._arenas[cpu][1].zeros.data_ptr()


# --- from a sweep to a function ---------------------------------------------------------------------------


def test_the_workload_that_ships_is_the_tunables():
    assert read_workload(ROOT / "data/h200_static_grid.workload.toml").data == {
        "batch": [
            {k: v for k, v in table.items() if k != "multiprocessors"} | {"multiprocessors": 132}
            for table in tunable.workload["batch"]
        ]
    }


def test_a_workload_of_another_device_is_refused(device):
    scenario = SimpleNamespace(features={"multiprocessors": 7}, lengths=((1, 1),), seed=0)
    with pytest.raises(ValueError, match="the workload says 7 multiprocessors, the device has"):
        tunable.inputs(scenario, device)


WORKLOAD = """
[[batch]]
num_seqs = [1, 3]
tokens = 24
decode_share = 1.0
heads = [[2, 1]]
head_size = 16
page_size = 16
dtype = ["float16", "bfloat16"]
multiprocessors = 132
"""
SPACE = """
[parameters]
TILE_SIZE = [16]
num_warps = [2]
num_stages = [2]
num_segments = [1, 3]
"""


def test_a_sweep_in_the_interpreter(device, tmp_path):
    if device != "cpu":
        pytest.skip("the interpreter was not chosen")
    (tmp_path / "w.toml").write_text(WORKLOAD)
    (tmp_path / "s.toml").write_text(SPACE)
    options = TuneOptions(
        "static_grid", tmp_path / "log.csv", tmp_path / "w.toml", tmp_path / "s.toml", interpret=True
    )
    summary = run_tune(options)
    assert (summary.state, summary.rows, summary.failures) == ("finished", 8, {})
    rows = list(csv.DictReader((tmp_path / "log.csv").open(newline="")))
    assert {row["total_seqlen_k"] for row in rows if row["num_seqs"] == "1"} == {
        row["max_seqlen_k"] for row in rows if row["num_seqs"] == "1"
    }
    assert {
        int(row["total_seqlen_k"]) > int(row["max_seqlen_k"]) for row in rows if row["num_seqs"] == "3"
    } == {True}


class Device:
    """A GPU whose time follows a formula: waves of equal segments, and a price for combining them."""

    now = 0.0

    def clock(self):
        self.now += 1e-4
        return self.now

    def reading(self):
        return None  # of clocks and temperature

    def device(self):
        return DeviceInfo("nvidia", "Made up", "1", "9.0", 132, 232448, 1 << 37, {"triton": "3.6.0"})

    def compile(self, jobs):
        return ((job.key, None) for job in jobs)

    @property
    def lanes(self):
        return (self,)

    def abort(self):
        pass

    def open(self, scenario):
        self.scenario = scenario

    def check(self, configs):
        return [None for _ in configs]

    def sample(self, configs):
        f = self.scenario.features
        for setting in configs:
            length = -(-f["max_seqlen_k"] // setting["num_segments"])
            items = sum(-(-k // length) for _, k in self.scenario.lengths) * f["num_kv_heads"]
            yield 0.005 + -(-items // 792) * length * 1e-5 + 0.0003 * setting["num_segments"]

    def close(self):
        pass


def test_a_sweep_becomes_the_function(device, tmp_path):
    """Dropping a log and its card in, and `heurgen build`: the way that the shipped function is made."""
    for needed in ("click", "sklearn"):
        pytest.importorskip(needed)
    from click.testing import CliRunner

    from heurgen.cli import main

    executor = Device()
    options = TuneOptions("static_grid", tmp_path / "log.csv", ROOT / "data/h200_static_grid.workload.toml")
    summary = run_tune(options, None, executor, executor.clock)
    assert (summary.state, summary.missing, summary.failures) == ("finished", 0, {})
    assert summary.scenarios * summary.configs <= 60 * 24
    shutil.copy(ROOT / "data/static_grid.toml", tmp_path / "spec.toml")
    (tmp_path / "heurgen.toml").write_text(
        f"""[[heuristic]]
logs = ["log.csv"]
cards = ["{summary.cards[0].name}"]
spec = "spec.toml"
model = "model.json"
module = "chooser.py"
target = "triton"
vendor = "nvidia"
parameters = ["num_segments"]
strategy = "joint"
max_depth = 3
"""
    )
    for command in ("build", "check"):
        result = CliRunner().invoke(main, [command, str(tmp_path / "heurgen.toml")])
        assert result.exit_code == 0, result.output
    chooser, module = generated(tmp_path / "chooser.py"), read_model(tmp_path / "model.json")
    rows = edges(module)
    assert asked(device, chooser.nvidia_num_segments, rows) == [
        ir.select(module, "nvidia", dict(zip(CHOICE, row, strict=True)))["num_segments"] for row in rows
    ]
    batch = make_batch([(1, 150), (1, 9), (0, 4)], heads=(4, 2), device=device)
    heuristics = SimpleNamespace(choose_segments=chooser.nvidia_num_segments)
    assert error_of(batch, config("static_grid", segments=8), heuristics=heuristics) < HALF


def generated(path):
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location("generated_chooser", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["generated_chooser"] = module  # Triton reads a function's source through its module
    spec.loader.exec_module(module)
    return module


def test_the_project_file_keeps_it_current():
    (mine,) = [h for h in read_project(ROOT / "heurgen.toml") if h.model.name == MODEL.name]
    assert (mine.vendor, mine.parameters) == ("nvidia", ("num_segments",))
    assert GRAPH.variant == "static_grid"
