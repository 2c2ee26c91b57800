# ruff: noqa: E501
"""triton-dejavu caches -> tuning logs: the published files, and made-up ones for everything that can be wrong."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heurgen.base.errors import HeurgenError, LogError, UsageError
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.dejavu import WINNERS_ONLY, import_dejavu
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec

REPOSITORY = Path(__file__).parents[3]
PUBLISHED = next(
    (
        p
        for p in (REPOSITORY.parent / "shared/data/published", Path("/work/shared/data/published"))
        if p.is_dir()
    ),
    REPOSITORY.parent / "shared/data/published",
)
published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason=f"the published triton-dejavu caches are not at {PUBLISHED}"
)
TAIL = "num_warps: 4, num_ctas: 1, num_stages: 2, maxnreg: None"
Write = Callable[..., Path]


def cache(**changes: Any) -> dict[str, Any]:
    """A cache of two scenarios; `None` removes a key."""
    keys = ["('16', 'True', '0.5', 'torch.float16')", "('128', 'False', '0.5', 'torch.float16')"]
    data: dict[str, Any] = {
        "signature": "JITFunction(lib.kernels:my_kernel)",
        "total_bench_time_s": 1.5,
        "evaluated_configs": 3,
        "keys": ["MAX_SEQ_Q", "CAUSAL", "scale"],
        "cache": {keys[0]: f"BLOCK_N: 32, {TAIL}", keys[1]: f"BLOCK_N: 64, {TAIL}"},
        "timings": {keys[0]: [0.25], keys[1]: [1.5]},
        "timings_data": {"labels": ["ms"], "rep_t_ms": 100},
    }
    data |= changes
    return {k: v for k, v in data.items() if v is not None}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(data: Any, where: str = "gpu_NVIDIA_H100_80GB_HBM3/a/cache.json") -> Path:
        path = tmp_path / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1), encoding="utf-8")
        return path

    return write


def read_back(imported: Imported, folder: Path) -> Any:
    """The log through the strict reader, by the drafted spec as it is."""
    (folder / "log.csv").write_text(imported.csv_text(), encoding="utf-8", newline="")
    (folder / "spec.toml").write_text(imported.spec_text(), encoding="utf-8")
    return read_logs([folder / "log.csv"], read_spec(folder / "spec.toml"))


def failure(kind: type[HeurgenError], *args: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        import_dejavu(*args, **options)
    return str(caught.value)


def test_a_small_cache(write: Write, tmp_path: Path) -> None:
    imported = import_dejavu([write(cache())])
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
    assert read_back(imported, tmp_path).n_scenarios == 2


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
def test_published_caches(
    pattern: str, vendor: str, device: str, rows: int, duplicates: int, tmp_path: Path
) -> None:
    imported = import_dejavu(sorted(PUBLISHED.glob(pattern)))
    assert len(imported.rows) == rows
    assert sum("taken once" in n for n in imported.notes) == duplicates
    log = read_back(imported, tmp_path)
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
def test_published_vendors_together(tmp_path: Path) -> None:
    log = read_back(import_dejavu(sorted(PUBLISHED.glob("attn_fwd*"))), tmp_path)
    assert log.vendors == ("amd", "nvidia")
    assert log.n_scenarios == 42


def test_scenarios_that_share_all_features_get_ids(write: Write, tmp_path: Path) -> None:
    files = [
        write(cache(), "gpu_AMD_X/a/cache.json"),
        write(cache(total_bench_time_s=2.0), "gpu_AMD_X/b/cache.json"),
    ]
    imported = import_dejavu(files)
    assert imported.columns[0] == "scenario"
    assert [row[0] for row in imported.rows] == ["0", "1", "2", "3"]
    assert "2 scenarios share all features with another: a scenario column parts them" in imported.notes
    assert read_back(imported, tmp_path).n_scenarios == 4


def test_equal_content_is_taken_once_whatever_the_layout(write: Write) -> None:
    first = write(cache(), "gpu_AMD_X/a/cache.json")
    second = write(json.dumps(cache(), indent=4, sort_keys=True), "gpu_AMD_X/b/cache.json")
    imported = import_dejavu([second, first])
    assert len(imported.rows) == 2
    assert f"{second} has the content of {first}: taken once" in imported.notes


def test_equal_content_on_two_devices_is_kept_and_said(write: Write) -> None:
    files = [write(cache(), f"gpu_{name}/cache.json") for name in ("AMD_X", "NVIDIA_Y")]
    imported = import_dejavu(files)
    assert len(imported.rows) == 4
    assert any(n.endswith("both are kept, one of the two paths may be wrong") for n in imported.notes)


def test_the_order_of_files_and_entries_does_not_matter(write: Write) -> None:
    def reordered(data: dict[str, Any]) -> dict[str, Any]:
        return {k: dict(reversed(v.items())) if isinstance(v, dict) else v for k, v in reversed(data.items())}

    other = cache(total_bench_time_s=9.0)
    other["cache"] = {k: f"BLOCK_M: 16, {v}" for k, v in other["cache"].items()}
    files = [write(cache(), "gpu_AMD_X/a/c.json"), write(cache(), "gpu_AMD_X/b/c.json")]
    files += [write(other, "gpu_AMD_X/c/c.json"), write(cache(), "gpu_NVIDIA_Y/c.json")]
    results = {(i.csv_text(), i.spec_text(), i.notes) for i in map(import_dejavu, permutations(files))}
    assert len(results) == 1
    write(reordered(other), "gpu_AMD_X/c/c.json")
    assert (import_dejavu(files).csv_text(), import_dejavu(files).spec_text()) == next(iter(results))[:2]


@pytest.mark.parametrize(
    ("where", "device", "vendor"),
    [
        ("dejavu_0.7/cuda_12.4/torch_2.5/triton_3.1/gpu_NVIDIA_A100/k/code_version-1/default/cache.json", "NVIDIA A100", "nvidia"),
        ("dejavu_0.7/rocm_6.2.4/torch_2.5/triton_3.1/gpu_Instinct_MI210/k/cache.json", "Instinct MI210", "amd"),
        ("cuda_12.4/gpu_H20/k/cache.json", "H20", "nvidia"),
        ("gpu_Tesla_V100/k/cache.json", "Tesla V100", "nvidia"),
        ("my__kernel__AMD_Radeon__triton3.3.0__abc.dejavu.json", "AMD Radeon", "amd"),
    ],
)  # fmt: skip
def test_device_and_vendor_from_the_path(write: Write, where: str, device: str, vendor: str) -> None:
    imported = import_dejavu([write(cache(), where)])
    assert {row[:2] for row in imported.rows} == {(vendor, device)}


def test_arguments_override_the_path(write: Write) -> None:
    imported = import_dejavu([write(cache())], device="My GPU", vendor="acme")
    assert {row[:2] for row in imported.rows} == {("acme", "My GPU")}


def test_unknown_device_and_vendor(write: Write) -> None:
    path = write(cache(), "plain/cache.json")
    assert failure(UsageError, [path]) == f"{path}: the path names no device (say which: --device NAME)"
    assert failure(UsageError, [path], device="X1") == (
        f"{path}: the vendor of the device 'X1' is unknown (say which: --vendor nvidia)"
    )
    assert failure(UsageError, [path], device="X1", vendor="N V") == (
        "'N V' is no vendor, expected a vendor in lower-case letters, digits and underscores, such as nvidia"
    )
    assert "'a\\x1bb' is no device name" in failure(UsageError, [path], device="a\x1bb", vendor="amd")
    assert failure(UsageError, []) == "no file to import (name at least one triton-dejavu cache.json)"


def test_varying_dtypes_are_categories(write: Write, tmp_path: Path) -> None:
    data = json.loads(
        json.dumps(cache()).replace(
            "'128', 'False', '0.5', 'torch.float16'", "'128', 'False', '0.5', 'torch.bfloat16'"
        )
    )
    imported = import_dejavu([write(data)])
    assert tomllib.loads(imported.spec_text())["features"]["dtype_0"] == {"type": "category"}
    assert read_back(imported, tmp_path).n_scenarios == 2


def test_triton_fields_that_vary_are_kept(write: Write, tmp_path: Path) -> None:
    data = cache()
    first, second = data["cache"]
    data["cache"][first] = "BLOCK_N: 32, num_warps: 4, num_ctas: 2, num_stages: 2, maxnreg: 128"
    data["cache"][second] = "BLOCK_N: 32, num_warps: 4, num_stages: 2, reg_dec_producer: 0"
    imported = import_dejavu([write(data)])
    assert "dropped, at Triton's default in every winner: reg_dec_producer" in imported.notes
    assert "kept, not at Triton's default in every winner: num_ctas, maxnreg" in imported.notes
    spec = tomllib.loads(imported.spec_text())["parameters"]
    assert spec["num_ctas"] == {"type": "int"}
    assert spec["maxnreg"] == {"type": "int", "optional": True}
    assert [dict(zip(imported.columns, r, strict=True))["num_ctas"] for r in imported.rows] == ["2", "1"]
    assert read_back(imported, tmp_path).n_configs == 2


def test_parameters_of_one_vendor(write: Write, tmp_path: Path) -> None:
    amd = cache()
    amd["cache"] = {k: f"waves_per_eu: 2, {v}" for k, v in amd["cache"].items()}
    imported = import_dejavu([write(amd, "gpu_AMD_X/c.json"), write(cache(), "gpu_NVIDIA_Y/c.json")])
    spec = tomllib.loads(imported.spec_text())["parameters"]
    assert spec["waves_per_eu"] == {"type": "int", "vendors": ["amd"]}
    assert read_back(imported, tmp_path).vendors == ("amd", "nvidia")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["ms"], "0.25"),
        (["ms", "min_ms", "max_ms"], "0.25"),
        (["min_ms", "median_ms", "max_ms"], "0.5"),
        (["mean_us", "max_us"], "0.00025"),
        (["p20_ms", "p80_ms", "avg_s"], "1000.0"),
        (None, "0.25"),
    ],
)
def test_which_timing_counts(write: Write, labels: list[str] | None, expected: str) -> None:
    data = cache()
    data["timings"] = {k: [0.25, 0.5, 1.0] for k in data["timings"]}
    data["timings_data"] = {"labels": labels} if labels else None
    assert {row[-1] for row in import_dejavu([write({k: v for k, v in data.items() if v})]).rows} == {
        expected
    }


def test_renames(write: Write) -> None:
    imported = import_dejavu([write(cache())], rename={"MAX_SEQ_Q": "max_seqlen_q", "BLOCK_N": "TILE_SIZE"})
    assert imported.columns[2:6] == ("max_seqlen_q", "CAUSAL", "scale", "TILE_SIZE")


def test_files_of_one_kernel_by_renaming(write: Write) -> None:
    other = cache(keys=["max_seqlen_q", "CAUSAL", "scale"])
    files = [write(cache(), "gpu_AMD_X/a/c.json"), write(other, "gpu_AMD_X/b/c.json")]
    assert "its keys differ from those of" in failure(LogError, files)
    assert len(import_dejavu(files, rename={"MAX_SEQ_Q": "max_seqlen_q"}).rows) == 4


def test_renames_that_do_not_fit(write: Write) -> None:
    path = write(cache())
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


def test_swapping_two_names_is_no_clash(write: Write) -> None:
    imported = import_dejavu([write(cache())], rename={"scale": "CAUSAL", "CAUSAL": "scale"})
    assert imported.columns[2:5] == ("MAX_SEQ_Q", "scale", "CAUSAL")


def test_hostile_names(write: Write) -> None:
    path = write(cache(keys=["import os", "CAUSAL", "scale"]))
    assert failure(LogError, [path]) == (
        f"{path}: 'import os' cannot name a column (give it another name: --rename import os=NAME)"
    )
    assert import_dejavu([path], rename={"import os": "seqlen"}).columns[2] == "seqlen"
    both = write(cache(keys=["num_warps", "CAUSAL", "scale"]))
    assert failure(UsageError, [both]) == (
        f"{both}: 'num_warps' is both a key and a parameter (map one of them to a free name with --rename)"
    )


def test_different_kernels(write: Write) -> None:
    first = write(cache(), "gpu_AMD_X/a/c.json")
    second = write(cache(signature="JITFunction(lib:other)"), "gpu_AMD_X/b/c.json")
    message = failure(LogError, [first, second])
    assert message.endswith(" (import one kernel at a time)")
    assert "'other'" in message
    assert "'my_kernel'" in message


KEY = "('16', 'True', '0.5', 'torch.float16')"


def only(key: str = KEY, winner: Any = f"BLOCK_N: 32, {TAIL}", timing: Any = (0.25,)) -> dict[str, Any]:
    return cache(cache={key: winner}, timings={key: timing})


@pytest.mark.parametrize(
    ("data", "row", "message"),
    [
        ("{", 1, "is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ('{"keys": [],\n "keys": []}', 1, "the key 'keys' is there twice in one object"),
        ("[" * 100_000, None, None),
        ("[1]", None, "found a list, expected an object"),
        (cache(keys=None), None, "has no 'keys' (expected a triton-dejavu cache.json with keys, cache and timings)"),
        (cache(timings=None), None, "has no 'timings' (expected a triton-dejavu cache.json with keys, cache and timings)"),
        (cache(cache=[]), 10, "'cache' is a list, expected an object"),
        (cache(keys={}), 5, "'keys' is a dict, expected an array"),
        (cache(cache={}), 10, "has no winner in 'cache'"),
        (cache(keys=["a", 1, "c"]), 5, "'keys' holds '1', expected names"),
        (cache(keys=["a", "b", "a"]), 6, "'keys' holds the name 'a' twice or it is taken"),
        (only("('16', 'True')"), 11, "the key \"('16', 'True')\" has 2 values, expected 3 as in 'keys', then dtypes"),
        (only("('1', '2', '3', '4')"), 11, "the key \"('1', '2', '3', '4')\" has 4 values, expected 3 as in 'keys', then dtypes"),
        (only("__import__('os').system('true')"), 11, "the key \"__import__('os').system('true')\" is no tuple of strings"),
        (only("('1', ['2'], '3')"), 11, "the key \"('1', ['2'], '3')\" is no tuple of strings"),
        (only("(" * 5000), 11, None),
        (only("('', '2', '3')"), None, "the value of 'MAX_SEQ_Q' in the key \"('', '2', '3')\" is blank"),
        (only(winner=7), 11, f'the winner of "{KEY}" is \'7\', expected \'NAME: value, NAME: value\''),
        (only(winner="BLOCK 32"), 11, f'the winner of "{KEY}" is \'BLOCK 32\', expected \'NAME: value, NAME: value\''),
        (only(winner="A: 1, A: 2"), 11, f'the winner of "{KEY}" names A twice'),
        (only(timing=[]), 11, f'the time of "{KEY}" is \'None\', expected a finite number above 0'),
        (only(timing=[0]), 11, f'the time of "{KEY}" is \'0\', expected a finite number above 0'),
        (only(timing=[-1.0]), 11, f'the time of "{KEY}" is \'-1.0\', expected a finite number above 0'),
        (only(timing=["1"]), 11, f'the time of "{KEY}" is \'1\', expected a finite number above 0'),
        (only(timing=[True]), 11, f'the time of "{KEY}" is \'True\', expected a finite number above 0'),
        (only(timing=[float("inf")]), 11, f'the time of "{KEY}" is \'inf\', expected a finite number above 0'),
        (only(timing=[float("nan")]), 11, f'the time of "{KEY}" is \'nan\', expected a finite number above 0'),
        (only(timing=[10**400]), 11, None),
        (cache(timings={KEY: [1.0]}), 12, "'timings' lacks the key \"('128', 'False', '0.5', 'torch.float16')\""),
        (cache(timings_data={"labels": ["furlongs"]}), 23, "no label in \"['furlongs']\" is a median or mean with its unit (expected 'ms' for example)"),
        (cache(timings_data={"labels": "ms"}), 22, "'timings_data.labels' is no list of labels"),
    ],
)  # fmt: skip
def test_malformed(write: Write, data: Any, row: int | None, message: str | None) -> None:
    path = write(data)
    with pytest.raises(LogError) as caught:
        import_dejavu([path])
    assert caught.value.file == str(path)
    if message is not None:
        place = str(path) if row is None else f"{path}:{row}"
        assert str(caught.value) == f"{place}: {message}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "gpu_AMD_X/none.json"
    assert failure(LogError, [missing]) == f"{missing}: cannot be read: No such file or directory"
    assert failure(LogError, [tmp_path]) == f"{tmp_path}: this is a directory, expected a file"
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    assert (
        failure(LogError, [tmp_path / "latin.json"])
        == f"{tmp_path}/latin.json:1: byte 7 (0xe9) is no UTF-8 (save the file as UTF-8)"
    )


@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 800), cut=st.integers(0, 40), new=st.text(max_size=8))
def test_any_damage_gives_a_log_or_one_clear_error(write: Write, at: int, cut: int, new: str) -> None:
    text = json.dumps(cache(), indent=1)
    path = write((text[:at] + new + text[at + cut :]).encode("utf-8", "replace").decode())
    try:
        imported = import_dejavu([path])
    except HeurgenError as error:
        message = str(error)
        assert all(c == " " or c.isprintable() for c in message)
    else:
        read_back(imported, path.parent)


def test_key_lengths_that_differ(write: Write) -> None:
    keys = ["('1', '2', '3', 'torch.float16')", "('2', '2', '3')"]
    data = cache(cache=dict.fromkeys(keys, f"BLOCK_N: 1, {TAIL}"), timings={k: [1.0] for k in keys})
    path = write(data)
    assert failure(LogError, [path]) == (
        f"{path}:12: the key \"('2', '2', '3')\" has 3 values, and keys before it 4"
    )
