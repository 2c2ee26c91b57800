"""AITER's GEMM files, asked by the rule of AITER's `get_gemm_config` (aiter/ops/triton/utils)."""

from __future__ import annotations

import csv
import importlib.util
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heurgen import ir
from heurgen.base.errors import EmitError, HeurgenError, UsageError
from heurgen.render import registry
from heurgen.render.aiter_json import BOUNDS, FLAT_BOUNDS, architecture
from heurgen.render.config_files import MANIFEST
from heurgen.render.target import Request

LEAF = ir.Leaf
NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "cache_modifier")
CONFIGS = ((16, 64, 64, 4, ""), (32, 64, 64, 4, ".cg"), (64, 128, 64, 8, ".cg"))
AT = {"config_name": "GEMM-A16W16", "N": "4096", "K": "512"}
FLAT, NESTED = (
    "gemm/gfx942-GEMM-A16W16-N=4096-K=512.json",
    "gfx942/triton/gemm/gemm_a16w16/GEMM-A16W16-N=4096-K=512.json",
)


def module(*thresholds: int, through: str = "M") -> ir.HeuristicModule:
    features = tuple(ir.Feature(n, "int", low=1, high=8192) for n in ("M", "N", "K"))
    tree: ir.Node = LEAF(len(thresholds) % 3)
    for i, threshold in reversed(list(enumerate(thresholds))):
        split = float(threshold) if through != "M" else threshold
        tree = ir.Split(through, split, LEAF(i % 3), tree)
    selector = ir.Selector("amd", NAMES, CONFIGS, tree, devices=("AMD Instinct MI300X",))
    kinds = [ir.Parameter(n, "int") for n in NAMES[:-1]] + [ir.Parameter("cache_modifier", "category")]
    return ir.HeuristicModule("gemm", features, tuple(kinds), (selector,), (ir.Derived("twice", "M * 2"),))


def looked_up(table: Mapping[str, Any], m: int, bounds: Sequence[int]) -> Any:
    """The documented rule: the first M_LEQ_b with m <= b, else the last M_GEQ_b with m >= b, else `any`."""
    for b in bounds:
        if m <= b and f"M_LEQ_{b}" in table:
            return table[f"M_LEQ_{b}"]
    for b in reversed(bounds):
        if m >= b and f"M_GEQ_{b}" in table:
            return table[f"M_GEQ_{b}"]
    return table["any"]


def answer(source: ir.HeuristicModule, m: int) -> dict[str, Any]:
    config = ir.select(source, "amd", {"M": m, "N": 4096, "K": 512})
    return {**config, "cache_modifier": config["cache_modifier"] or None}


MS = [*range(1, 600), *(b + d for b in BOUNDS for d in (-1, 0, 1) if b + d > 0), 2**53 + 1, 2**70]
RANDOM = random.Random(0)
MS += [int(2 ** RANDOM.uniform(0, 20)) for _ in range(10_000 - len(MS))]


@pytest.mark.parametrize("thresholds", [(), (4, 64, 8192), (32,), (8, 16, 32, 64, 128, 256)])
@pytest.mark.parametrize("through", ["M", "twice"])
def test_ten_thousand_sizes_in_both_layouts(thresholds: tuple[int, ...], through: str) -> None:
    source = module(*(2 * t if through == "twice" else t for t in thresholds), through=through)
    files = registry.emit(source, "aiter-json", Request(at=(AT,))).files
    assert list(files) == [FLAT, NESTED, MANIFEST]
    for path, bounds in ((FLAT, FLAT_BOUNDS), (NESTED, BOUNDS)):
        table = json.loads(files[path])
        assert set(table) == {*(f"M_LEQ_{b}" for b in bounds), "M_GEQ_8192"}
        for m in MS:
            assert looked_up(table, m, bounds) == answer(source, m), m


def test_a_bound_that_only_the_nested_layout_knows() -> None:
    rendered = registry.emit(module(1, 64), "aiter-json", Request(at=(AT,)))
    assert list(rendered.files) == [NESTED, MANIFEST]
    assert rendered.notes == (f"{FLAT}: left out, its buckets of M do not fit the model at M = 1",)
    table = json.loads(rendered.files[NESTED])
    assert all(looked_up(table, m, BOUNDS) == answer(module(1, 64), m) for m in MS)


def test_a_step_between_bounds_is_an_error_or_approximate() -> None:
    source = module(48, 100)
    with pytest.raises(EmitError) as caught:
        registry.emit(source, "aiter-json", Request(at=(AT,)))
    assert str(caught.value) == (
        f"{NESTED}: AITER's table cannot say it exactly: its buckets of M do not fit the model at M = 33 to 48, 65 "
        "to 100 (its bounds are 1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192; --approximate takes the "
        "answer at each bound)"
    )
    rendered = registry.emit(source, "aiter-json", Request(at=(AT,), approximate=True))
    table = json.loads(rendered.files[NESTED])
    wrong = [m for m in range(1, 200) if looked_up(table, m, BOUNDS) != answer(source, m)]
    assert wrong == [*range(33, 49), *range(65, 101)]
    about = json.loads(rendered.files[MANIFEST])["files"][NESTED]
    assert about["differs_from_the_model_at_M"] == [[33, 48], [65, 100]]
    assert rendered.notes[1] == f"{NESTED}: its buckets of M do not fit the model at M = 33 to 48, 65 to 100"


def test_a_category_that_training_never_saw_is_told() -> None:
    plain = module(64)
    tree = ir.Membership("dtype", ("bf16",), ("fp8",), True, LEAF(0), LEAF(1))
    features = (*plain.features, ir.Feature("dtype", "category", values=("bf16", "fp8")))
    source = replace(plain, features=features, selectors=(replace(plain.selectors[0], tree=tree),))
    [note] = registry.emit(source, "aiter-json", Request(at=({**AT, "dtype": "int8"},))).notes
    assert note.startswith(
        "dtype 'int8' is none that training saw ('bf16', 'fp8'), and gets what ships for unknown"
    )


def test_a_situation_that_cannot_be_said_is_an_error_beside_one_that_can() -> None:
    """Its files were left out with a note: a server would have taken AITER's defaults there."""
    exact, other = module(64), module(48)
    tree = ir.Split("N", 1000, other.selectors[0].tree, exact.selectors[0].tree)
    source = replace(exact, selectors=(replace(exact.selectors[0], tree=tree),))
    with pytest.raises(EmitError, match=r"N=512-K=512.json: AITER's table cannot .* at M = 33 to 48 \(its"):
        registry.emit(source, "aiter-json", Request(at=(AT, {**AT, "N": "512"})))
    assert len(registry.emit(source, "aiter-json", Request(at=(AT,))).files) == 3


def test_an_answer_that_comes_back_within_a_bucket_is_no_other_answer() -> None:
    """33 to 36 were listed as different: another step than that of the bound, 64, with the same config."""
    files = registry.emit(module(36, 40, 44, 64), "aiter-json", Request(at=(AT,), approximate=True)).files
    for about in json.loads(files[MANIFEST])["files"].values():
        assert about["differs_from_the_model_at_M"] == [[37, 44]]


def test_a_step_past_the_last_bound() -> None:
    with pytest.raises(EmitError, match="do not fit the model at M = 9001 on"):
        registry.emit(module(9000), "aiter-json", Request(at=(AT,)))


def test_all_sizes_in_one_file() -> None:
    features = (ir.Feature("M", "int"),)
    selector = ir.Selector("amd", NAMES, CONFIGS, ir.Split("M", 64, LEAF(0), LEAF(1)), device=None)
    kinds = [ir.Parameter(n, "int") for n in NAMES[:-1]] + [ir.Parameter("cache_modifier", "category")]
    source = ir.HeuristicModule("gemm", features, tuple(kinds), (selector,))
    at = {"config_name": "GEMM-A16W16", "arch": "gfx950"}
    files = registry.emit(source, "aiter-json", Request(at=(at,))).files
    assert list(files)[:2] == ["gemm/gfx950-GEMM-A16W16.json", "gfx950/triton/gemm/gemm_a16w16/DEFAULT.json"]


def test_all_sizes_in_one_file_of_a_model_that_saw_several_and_tests_none() -> None:
    """N and K were taken to be 0, which nobody had said and no file's name can have."""
    files = registry.emit(module(64), "aiter-json", Request(at=({"config_name": "GEMM-A16W16"},))).files
    assert list(files)[:2] == ["gemm/gfx942-GEMM-A16W16.json", "gfx942/triton/gemm/gemm_a16w16/DEFAULT.json"]
    assert [about["for"] for about in json.loads(files[MANIFEST])["files"].values()] == [{}, {}]
    assert all(looked_up(json.loads(files[list(files)[1]]), m, BOUNDS) == answer(module(64), m) for m in MS)


@pytest.mark.parametrize(
    ("device", "arch"),
    [
        ("AMD Instinct MI300X", "gfx942"),
        ("gfx90a:sramecc+:xnack-", "gfx90a"),
        ("AMD_Instinct_MI355X", "gfx950"),
    ],
)
def test_architecture(device: str, arch: str) -> None:
    assert architecture(device) == arch


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({}, "AITER's files are for a family of kernels (say its name: --at config_name=GEMM-A16W16)"),
        ({**AT, "config_name": "../x"}, "config_name is '../x', expected [A-Za-z0-9][A-Za-z0-9_-]{0,80}"),
        ({**AT, "arch": "sm_90"}, "arch is 'sm_90', expected gfx[0-9a-f]+"),
        (
            {"config_name": "GEMM-A16W16", "N": "8"},
            "AITER's files are for one N and K together, or for all (say both or none with --at)",
        ),
        ({**AT, "N": "0"}, "N and K of a file are positive ints, found '0'"),
        ({**AT, "N": "x"}, "--at N=x: 'x' is no int"),
    ],
)
def test_what_has_no_file(at: dict[str, str], message: str) -> None:
    source = module(64)
    if "K" not in at:
        source = ir.HeuristicModule("gemm", source.features[:1], source.parameters, source.selectors)
    with pytest.raises(UsageError) as caught:
        registry.emit(source, "aiter-json", Request(at=(at,)))
    assert str(caught.value) == message


def test_other_things_that_aiter_does_not_read() -> None:
    with pytest.raises(UsageError) as caught:
        registry.emit(module(64), "aiter-json", Request(at=(AT,), device="Radeon"))
    assert str(caught.value) == "the architecture of 'Radeon' is unknown (say it: --at arch=gfx942)"
    selector = ir.Selector("amd", NAMES, ((16, 16, 16, 4, "evil"),), LEAF(0))
    source = ir.HeuristicModule("g", module().features, module().parameters, (selector,))
    with pytest.raises(HeurgenError, match="cache_modifier takes the value 'evil', expected an int"):
        registry.emit(source, "aiter-json", Request(at=(AT,), device="gfx942"))


@pytest.mark.skipif(
    importlib.util.find_spec("aiter") is None, reason="AITER is not installed (it needs ROCm)"
)
def test_aiter_s_own_reader() -> None:
    """On a machine with AITER: its bounds are those that we write for one of the two layouts."""
    from importlib import import_module

    for home in ("aiter.ops.triton.utils.gemm_config_utils", "aiter.ops.triton.utils._config.gemm"):
        if importlib.util.find_spec(home):
            assert import_module(home).STANDARD_M_BOUNDS in (BOUNDS, FLAT_BOUNDS)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """By heurgen's own importer: the entries are the model's answers at their bounds."""
    from heurgen.cli import main

    source = module(16, 256)
    path = tmp_path / Path(FLAT).name
    path.write_text(registry.emit(source, "aiter-json", Request(at=(AT,))).files[FLAT])
    result = CliRunner().invoke(
        main, ["import", "aiter", str(path), "-o", str(tmp_path / "log.csv")], catch_exceptions=False
    )
    assert result.exit_code == 0, result.stderr
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= len(FLAT_BOUNDS)
    for row in rows:
        expected = answer(source, int(row["M"]))
        assert {n: row[n] for n in NAMES[:4]} == {n: str(expected[n]) for n in NAMES[:4]}


@pytest.mark.parametrize(
    ("thresholds", "said"),
    [
        ((40, 50), "33 to 50"),
        ((5, 40, 50, 128), "5, 33 to 50"),
        ((5, 9, 20, 40, 80, 200), "5, 9, 17 to 20, 33 to 40 and 2 more ranges"),
        ((5, 9, 20, 40), "5, 9, 17 to 20, 33 to 40"),
    ],
)
def test_ranges_that_touch_are_one_and_many_are_counted(thresholds: tuple[int, ...], said: str) -> None:
    with pytest.raises(EmitError) as caught:
        registry.emit(module(*thresholds), "aiter-json", Request(at=(AT,)))
    assert caught.value.message == (
        f"AITER's table cannot say it exactly: its buckets of M do not fit the model at M = {said}"
    )


@pytest.mark.parametrize("modifier", ["", ".cg", ".ca", ".cs", ".cv"])
def test_cache_modifiers_are_aiter_s(modifier: str) -> None:
    selector = replace(module().selectors[0], configs=((16, 64, 64, 4, modifier),), tree=LEAF(0))
    files = registry.emit(replace(module(), selectors=(selector,)), "aiter-json", Request(at=(AT,))).files
    assert json.loads(files[FLAT])["M_LEQ_4"]["cache_modifier"] == (modifier or None)


def test_the_file_of_an_architecture_has_the_answer_of_its_devices_own_selector() -> None:
    source = module(64)
    shared = replace(source.selectors[0], devices=("AMD Instinct MI300X", "AMD Instinct MI355X"))
    own = replace(shared, device="AMD Instinct MI355X", tree=LEAF(2))
    source = replace(source, selectors=(shared, own))
    for at in (AT, {**AT, "arch": "gfx950"}):
        files = registry.emit(source, "aiter-json", Request(at=(at,))).files
        found = json.loads(files[FLAT.replace("gfx942", "gfx950")])
        assert {c["BLOCK_SIZE_M"] for c in found.values()} == {64}
    files = registry.emit(source, "aiter-json", Request(at=({**AT, "arch": "gfx90a"},))).files
    assert len({str(c) for c in json.loads(files[FLAT.replace("gfx942", "gfx90a")]).values()}) == 2


def test_where_the_devices_of_an_architecture_differ_its_file_has_what_select_takes_for_it() -> None:
    """It had the vendor's answer, which other architectures had a say in."""
    devices = ("AMD Instinct MI300X", "AMD Instinct MI325X", "AMD Instinct MI355X")
    shared = replace(module(64).selectors[0], devices=devices)
    mi300x = replace(shared, device=devices[0], tree=LEAF(1), capability="gfx942")
    mi325x, mi355x = (replace(shared, device=d, tree=LEAF(2)) for d in devices[1:])
    source = replace(module(64), selectors=(shared, mi300x, mi325x, mi355x))
    for request in (
        Request(at=(AT,)),
        Request(at=({**AT, "arch": "gfx942"},)),
        Request(at=(AT,), vendor="amd", device="AMD Instinct MI308X"),
    ):
        assert {c["BLOCK_SIZE_M"] for c in _flat(source, request).values()} == {_size(source, 1)}
    own = Request(at=(AT,), device=devices[1])
    assert {c["BLOCK_SIZE_M"] for c in _flat(source, own).values()} == {_size(source, 2)}
    # A fleet of one architecture: its pooled tree answers for devices that nobody measured.
    fleet = replace(source, selectors=(shared, replace(mi300x, capability=None), mi325x))
    assert len({c["BLOCK_SIZE_M"] for c in _flat(fleet, Request(at=(AT,))).values()}) == 2


def _flat(source: ir.HeuristicModule, request: Request) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(registry.emit(source, "aiter-json", request).files[FLAT])
    return found


def _size(source: ir.HeuristicModule, config: int) -> ir.Value:
    return source.selectors[0].configs[config][0]


def test_two_situations_of_one_file_with_other_answers_are_no_file() -> None:
    """The second one replaced the first: a file's name says N and K alone."""
    source = module(64)
    split = ir.Split("layout", 0, source.selectors[0].tree, LEAF(2))
    selector = replace(source.selectors[0], tree=split)
    source = replace(source, features=(*source.features, ir.Feature("layout", "int")), selectors=(selector,))
    both = tuple({**AT, "layout": layout} for layout in ("0", "1"))
    with pytest.raises(UsageError, match=f"two of --at are for one file, {FLAT}, and"):
        registry.emit(source, "aiter-json", Request(at=both))
    assert registry.emit(source, "aiter-json", Request(at=both[:1] * 2)).files
