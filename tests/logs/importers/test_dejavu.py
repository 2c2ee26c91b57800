# ruff: noqa: E501
"""triton-dejavu caches -> tuning logs: the published files, and made-up ones."""

from __future__ import annotations

import gzip
import json
import tomllib
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from heurgen.base.errors import HeurgenError, LogError, UsageError
from heurgen.logs.importers.collect import WINNERS_ONLY, Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.caches import WriteCache, cache
from tests.logs.importers.helpers import (
    Case,
    H,
    Table,
    Wrong,
    cases,
    check_refusal,
    import_dejavu,
    published,
    read_back,
    reread,
    tables,
)
from tests.support.documents import PUBLISHED


def dejavu(**changes: Any) -> str:
    key = "('8', 'torch.float16')"
    found: dict[str, Any] = {
        "keys": ["n"],
        "cache": {key: "BLOCK: 16, num_warps: 4"},
        "timings": {key: [0.5]},
    }
    return json.dumps(found | changes)


WRONG: Wrong = {
    "dejavu": [
        ("c.json", H, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("c.json", H, "[]", "FILE: found a list, expected an object"),
        ("c.json", H, '{"keys": []}', "FILE: has no 'cache' (expected a triton-dejavu cache.json with keys, cache and timings)"),
        ("c.json", H, dejavu(keys={}), "FILE:1: 'keys' is a dict, expected an array"),
        ("c.json", H, dejavu(keys=[1]), "FILE:1: 'keys' holds '1', expected names"),
        ("c.json", H, dejavu(keys=["n", "n"]), "FILE:1: 'keys' holds the name 'n' twice or it is taken"),
        ("c.json", H, dejavu(cache={}), "FILE:1: has no winner in 'cache'"),
        ("c.json", H, dejavu(cache={"8": "B: 1"}), "FILE:1: the key '8' is no tuple of strings"),
        ("c.json", H, dejavu(timings={}), "FILE:1: 'timings' lacks the key \"('8', 'torch.float16')\""),
        ("c.json", H, dejavu(timings={"('8', 'torch.float16')": ["x"]}), "FILE:1: the time of \"('8', 'torch.float16')\" is 'x', expected "
         "a finite number above 0"),
        ("c.json", H, dejavu(cache={"('8', 'torch.float16')": "BLOCK"}), "FILE:1: the winner of \"('8', 'torch.float16')\" is 'BLOCK', "
         "expected 'NAME: value, NAME: value'"),
        ("c.json", Options(), dejavu(), "FILE does not say the device (say which: --device NAME)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


def failure(kind: type[HeurgenError], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        import_dejavu(*args, **options)
    return str(caught.value)


def test_a_small_cache(write_cache: WriteCache) -> None:
    imported = import_dejavu([write_cache(cache())])
    assert imported.csv_text() == (
        "vendor,device,MAX_SEQ_Q,CAUSAL,scale,BLOCK_N,num_warps,num_stages,status,time_ms\n"
        "nvidia,NVIDIA H100 80GB HBM3,16,True,0.5,32,4,2,ok,0.25\n"
        "nvidia,NVIDIA H100 80GB HBM3,128,False,0.5,64,4,2,ok,1.5\n"
    )
    assert imported.notes == (
        WINNERS_ONLY,
        "dropped, at Triton's default in every winner: num_ctas, maxnreg",
        "dropped, never varying: dtype_0 (torch.float16)",
    )
    spec = tomllib.loads(imported.spec_text())
    assert spec["kernel"] == {"name": "my_kernel"}
    assert spec["features"] == {"MAX_SEQ_Q": {"type": "int"}, "CAUSAL": {"type": "bool"}}
    assert list(spec["parameters"]) == ["BLOCK_N", "num_warps", "num_stages"]
    assert '# scale = { type = "float" }  # constant here: 0.5\n' in imported.spec_text()
    assert reread(imported).n_scenarios == 2


@published
@pytest.mark.parametrize(
    ("pattern", "vendor", "device", "rows", "duplicates"),
    [
        ("kernel_unified*MI300X*", "amd", "AMD Instinct MI300X", 168, 1),
        ("kernel_unified*H100*", "nvidia", "NVIDIA H100 80GB HBM3", 168, 1),
        ("attn_fwd*A100*", "nvidia", "NVIDIA A100-SXM4-80GB", 15, 0),
        ("attn_fwd*MI250X*", "amd", "AMD Instinct MI250X MI250", 12, 0),
        ("_selective*MI300X*", "amd", "AMD Instinct MI300X", 1, 0),
    ],
)
def test_published_caches(pattern: str, vendor: str, device: str, rows: int, duplicates: int) -> None:
    imported = import_dejavu(sorted(PUBLISHED.glob(pattern)))
    assert len(imported.rows) == rows
    assert sum("taken once" in n for n in imported.notes) == duplicates
    log = reread(imported)
    assert (log.vendors, log.devices) == ((vendor,), (device,))
    assert (log.n_measurements, log.n_scenarios, log.n_failures) == (rows, rows, 0)


@published
def test_published_times_and_configs_survive() -> None:
    file = next(PUBLISHED.glob("kernel_unified*MI300X*5929ad*"))
    data = json.loads(file.read_text())
    imported = import_dejavu([file], rename={"BLOCK_N": "TILE_SIZE", "MAX_SEQ_Q": "max_seqlen_q"})
    rows = [dict(zip(imported.columns, row, strict=True)) for row in imported.rows]
    assert "scenario" not in imported.columns
    for key, winner in data["cache"].items():
        values = [v.strip("'") for v in key.strip("()").split(", ")]
        row = next(
            r
            for r in rows
            if [r["max_seqlen_q"], r["MAX_SEQ_K"], r["AVG_SEQ_Q"], r["AVG_SEQ_K"]] == values[:4]
        )
        assert float(row["time_ms"]) == data["timings"][key][0]
        assert winner.startswith(f"BLOCK_N: {row['TILE_SIZE']}, BLOCK_M: {row['BLOCK_M']}, num_warps: ")


@published
def test_published_vendors_together() -> None:
    log = reread(import_dejavu(sorted(PUBLISHED.glob("attn_fwd*"))))
    assert log.vendors == ("amd", "nvidia")
    assert log.n_scenarios == 42


def test_scenarios_that_share_all_features_get_ids(write_cache: WriteCache) -> None:
    files = [
        write_cache(cache(), "gpu_AMD_X/a/cache.json"),
        write_cache(cache(total_bench_time_s=2.0), "gpu_AMD_X/b/cache.json"),
    ]
    imported = import_dejavu(files)
    assert imported.columns[0] == "scenario"
    assert [row[0] for row in imported.rows] == ["0", "1", "2", "3"]
    assert "2 scenarios share all features with another: a scenario column parts them" in imported.notes
    assert reread(imported).n_scenarios == 4


def test_equal_content_is_taken_once_whatever_the_layout(write_cache: WriteCache) -> None:
    first = write_cache(cache(), "gpu_AMD_X/a/cache.json")
    second = write_cache(json.dumps(cache(), indent=4, sort_keys=True), "gpu_AMD_X/b/cache.json")
    imported = import_dejavu([second, first])
    assert len(imported.rows) == 2
    assert f"{second} has the content of {first}: taken once" in imported.notes


def test_equal_content_on_two_devices_is_kept_and_said(write_cache: WriteCache) -> None:
    files = [write_cache(cache(), f"gpu_{name}/cache.json") for name in ("AMD_X", "NVIDIA_Y")]
    imported = import_dejavu(files)
    assert len(imported.rows) == 4
    assert any(n.endswith("both are kept, one of the two paths may be wrong") for n in imported.notes)


def test_the_order_of_files_and_entries_does_not_matter(write_cache: WriteCache) -> None:
    def reordered(data: dict[str, Any]) -> dict[str, Any]:
        return {k: dict(reversed(v.items())) if isinstance(v, dict) else v for k, v in reversed(data.items())}

    other = cache(total_bench_time_s=9.0)
    other["cache"] = {k: f"BLOCK_M: 16, {v}" for k, v in other["cache"].items()}
    files = [write_cache(cache(), "gpu_AMD_X/a/c.json"), write_cache(cache(), "gpu_AMD_X/b/c.json")]
    files += [write_cache(other, "gpu_AMD_X/c/c.json"), write_cache(cache(), "gpu_NVIDIA_Y/c.json")]
    results = {(i.csv_text(), i.spec_text(), i.notes) for i in map(import_dejavu, permutations(files))}
    assert len(results) == 1
    write_cache(reordered(other), "gpu_AMD_X/c/c.json")
    assert (import_dejavu(files).csv_text(), import_dejavu(files).spec_text()) == next(iter(results))[:2]


def test_varying_dtypes_are_categories(write_cache: WriteCache) -> None:
    data = json.loads(
        json.dumps(cache()).replace(
            "'128', 'False', '0.5', 'torch.float16'", "'128', 'False', '0.5', 'torch.bfloat16'"
        )
    )
    imported = import_dejavu([write_cache(data)])
    assert tomllib.loads(imported.spec_text())["features"]["dtype_0"] == {"type": "category"}
    assert reread(imported).n_scenarios == 2


def test_triton_fields_that_vary_are_kept(write_cache: WriteCache) -> None:
    data = cache()
    first, second = data["cache"]
    data["cache"][first] = "BLOCK_N: 32, num_warps: 4, num_ctas: 2, num_stages: 2, maxnreg: 128"
    data["cache"][second] = "BLOCK_N: 32, num_warps: 4, num_stages: 2, reg_dec_producer: 0"
    imported = import_dejavu([write_cache(data)])
    assert "dropped, at Triton's default in every winner: reg_dec_producer" in imported.notes
    assert "kept, not at Triton's default in every winner: num_ctas, maxnreg" in imported.notes
    spec = tomllib.loads(imported.spec_text())["parameters"]
    assert spec["num_ctas"] == {"type": "int"}
    assert spec["maxnreg"] == {"type": "int", "optional": True}
    assert [dict(zip(imported.columns, r, strict=True))["num_ctas"] for r in imported.rows] == ["2", "1"]
    assert reread(imported).n_configs == 2


def test_parameters_of_one_vendor(write_cache: WriteCache) -> None:
    amd = cache()
    amd["cache"] = {k: f"waves_per_eu: 2, {v}" for k, v in amd["cache"].items()}
    imported = import_dejavu(
        [write_cache(amd, "gpu_AMD_X/c.json"), write_cache(cache(), "gpu_NVIDIA_Y/c.json")]
    )
    spec = tomllib.loads(imported.spec_text())["parameters"]
    assert spec["waves_per_eu"] == {"type": "int", "vendors": ["amd"]}
    assert reread(imported).vendors == ("amd", "nvidia")


def test_renames(write_cache: WriteCache) -> None:
    imported = import_dejavu(
        [write_cache(cache())], rename={"MAX_SEQ_Q": "max_seqlen_q", "BLOCK_N": "TILE_SIZE"}
    )
    assert imported.columns[2:6] == ("max_seqlen_q", "CAUSAL", "scale", "TILE_SIZE")


def test_files_of_one_kernel_by_renaming(write_cache: WriteCache) -> None:
    other = cache(keys=["max_seqlen_q", "CAUSAL", "scale"])
    files = [write_cache(cache(), "gpu_AMD_X/a/c.json"), write_cache(other, "gpu_AMD_X/b/c.json")]
    assert "its keys differ from those of" in failure(LogError, files)
    assert len(import_dejavu(files, rename={"MAX_SEQ_Q": "max_seqlen_q"}).rows) == 4


def test_renames_that_do_not_fit(write_cache: WriteCache) -> None:
    path = write_cache(cache())
    assert failure(UsageError, [path], rename={"nope": "x"}) == (
        "cannot rename 'nope': no file has it "
        "(names: BLOCK_N, CAUSAL, MAX_SEQ_Q, dtype_0, maxnreg, num_ctas, num_stages, num_warps, scale)"
    )
    assert failure(UsageError, [path], rename={"BLOCK_N": "CAUSAL"}) == (
        f"{path}: 'BLOCK_N' would take the name of 'CAUSAL' (map one of them to a free name with --rename)"
    )
    assert failure(UsageError, [path], rename={"BLOCK_N": "class"}) == (
        "cannot rename 'BLOCK_N' to 'class' (a name is an ASCII identifier, no keyword, and not one that heurgen uses"
        " itself)"
    )
    for bad in ("time_ms", "vendor", "a b", "x\ny", "é", "__x", ""):
        assert "cannot rename 'BLOCK_N' to " in failure(UsageError, [path], rename={"BLOCK_N": bad})


def test_swapping_two_names_is_no_clash(write_cache: WriteCache) -> None:
    imported = import_dejavu([write_cache(cache())], rename={"scale": "CAUSAL", "CAUSAL": "scale"})
    assert imported.columns[2:5] == ("MAX_SEQ_Q", "scale", "CAUSAL")


def test_hostile_names(write_cache: WriteCache) -> None:
    path = write_cache(cache(keys=["import os", "CAUSAL", "scale"]))
    assert failure(LogError, [path]) == (
        f"{path}: 'import os' cannot name a column (give it another name: --rename import os=NAME)"
    )
    assert import_dejavu([path], rename={"import os": "seqlen"}).columns[2] == "seqlen"
    both = write_cache(cache(keys=["num_warps", "CAUSAL", "scale"]))
    assert failure(UsageError, [both]) == (
        f"{both}: 'num_warps' is both a key and a parameter (map one of them to a free name with --rename)"
    )


def test_different_kernels(write_cache: WriteCache) -> None:
    first = write_cache(cache(), "gpu_AMD_X/a/c.json")
    second = write_cache(cache(signature="JITFunction(lib:other)"), "gpu_AMD_X/b/c.json")
    message = failure(LogError, [first, second])
    assert message.endswith(" (import one kernel at a time)")
    assert "'other'" in message
    assert "'my_kernel'" in message


@settings(max_examples=15, deadline=None)
@given(tables)
def test_dejavu(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    folder = tmp_path_factory.mktemp("gpu") / "gpu_NVIDIA_H200"
    folder.mkdir()
    winners = {(m, n): (b, w, t) for (m, n, b, w), t in table.items() if t is not None}
    key = "('{}', '{}', 'torch.float16')".format
    cache = {
        key(m, n): f"BLOCK: {b}, num_warps: {w}, num_ctas: 1, maxnreg: None"
        for (m, n), (b, w, _) in winners.items()
    }
    data = {
        "keys": ["m", "n"],
        "cache": cache,
        "timings": {key(*k): [t, t, t] for k, (_, _, t) in winners.items()},
    }
    packed = folder / "cache.json.gz"
    packed.write_bytes(
        gzip.compress(json.dumps(data | {"timings_data": {"labels": ["ms", "min_ms", "max_ms"]}}).encode())
    )
    imported = import_logs("auto", [str(packed)], Options())
    assert read_back(imported, "m", "n") == {(*k, b, w): t for k, (b, w, t) in winners.items()}
