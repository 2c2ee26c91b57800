"""What is written is read back: each format written by the rules of its tool, imported, and compared value by value."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from heurgen.base.errors import LogError
from heurgen.cli import main
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.registry import import_logs
from heurgen.logs.tuning_log import parse_log
from heurgen.spec.kernel_spec import parse_spec

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "published"
H = Options(device="NVIDIA H200")
times = st.floats(1e-4, 1e4)
# (M, N, BLOCK, num_warps) -> a time, or None for a failure
Table = dict[tuple[int, int, int, int], float | None]
tables = st.dictionaries(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([16, 32, 64]), st.sampled_from([4, 8])),
    st.none() | times,
    min_size=1,
    max_size=12,
).filter(lambda t: any(v is not None for v in t.values()))


def columns(imported: Imported, *names: str) -> list[tuple[str, ...]]:
    places = [imported.columns.index(n) for n in names]
    parse_log("log", imported.csv_text(), parse_spec(imported.spec_text()))
    return [tuple(row[p] for p in places) for row in imported.rows]


def read_back(imported: Imported, *features: str) -> Table:
    rows = columns(imported, *features, "BLOCK", "num_warps", "time_ms")
    return {tuple(int(x) for x in r[:4]): float(r[4]) if r[4] else None for r in rows}  # type: ignore[misc]


def scenarios(table: Table) -> dict[tuple[int, int], Table]:
    found: dict[tuple[int, int], Table] = {}
    for key, time in table.items():
        found.setdefault(key[:2], {})[key] = time
    return found


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_triton(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    folder = tmp_path_factory.mktemp("triton")
    for (m, n), cells in scenarios(table).items():
        timings = []
        for (_, _, block, warps), time in cells.items():
            config = {"kwargs": {"BLOCK": block}, "num_warps": warps, "num_ctas": 1, "num_stages": 3}
            config |= {"maxnreg": None, "pre_hook": None, "ir_override": None}
            value = float("inf") if time is None else time
            timings.append([config, [value, value, value]])
        (folder / f"{m}_{n}").mkdir()
        key = [m, n, "torch.float16", "torch.float16"]
        write(folder, f"{m}_{n}/k.autotune.json", json.dumps({"key": key, "configs_timings": timings}))
    imported = import_logs("auto", [str(folder)], Options(device="NVIDIA H200", keys=("M", "N")))
    assert read_back(imported, "M", "N") == table


@settings(max_examples=25, deadline=None)
@given(tables)
def test_inductor(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    log: list[Any] = []
    for (m, n), cells in scenarios(table).items():
        choices: list[Any] = [None]
        for (_, _, block, warps), time in cells.items():
            value = float("inf") if time is None else time
            choices.append({"type": "triton", "time": value, "BLOCK": block, "num_warps": warps})
        log += [{"invoke": str((m, 64, n))}, {str((m, 64, n)): choices, "kernel_type": "mm"}]
    file = write(tmp_path_factory.mktemp("inductor"), "mm.json", json.dumps(log))
    assert read_back(import_logs("auto", [file], H), "M", "N") == table


@settings(max_examples=25, deadline=None)
@given(tables, st.booleans())
def test_kernel_tuner(tmp_path_factory: pytest.TempPathFactory, table: Table, closed: bool) -> None:
    folder = tmp_path_factory.mktemp("tuner")
    files = []
    for (m, n), cells in scenarios(table).items():
        head = {"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": [m, n], "tune_params": {}}
        head |= {"tune_params_keys": ["BLOCK", "num_warps"], "objective": "time", "cache": {}}
        rows = {
            f"{b},{w}": {"BLOCK": b, "num_warps": w, "time": "RuntimeFailedConfig" if t is None else t}
            for (_, _, b, w), t in cells.items()
        }
        text = json.dumps(head)[:-2] + ",\n".join(
            f"{json.dumps(k)}: {json.dumps(r)}" for k, r in rows.items()
        )
        files.append(write(folder, f"{m}_{n}.json", text + ("}\n}" if closed else ",\n")))
    imported = import_logs("auto", files, Options(features=("M", "N")))
    assert read_back(imported, "M", "N") == table


@settings(max_examples=15, deadline=None)
@given(tables)
def test_helion(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    text = "kernel_name,shape_hash,config_hash,config,shape_features,timing_ms\n"
    for (m, n, block, warps), time in table.items():
        config = json.dumps({"block_sizes": [block, 64], "num_warps": warps, "loop_orders": [[0, 1]]})
        shape = json.dumps({"arg0_ndim": 2, "arg0_dim0": m, "arg0_dim1": n, "arg0_dtype": "torch.bfloat16"})
        cells = [f'"{c}"' for c in (config.replace('"', '""'), shape.replace('"', '""'))]
        text += f"k,a,b,{cells[0]},{cells[1]},{'inf' if time is None else repr(time)}\n"
    file = write(tmp_path_factory.mktemp("helion"), "measurements_cuda_NVIDIA_H200_13.0.csv", text)
    imported = import_logs("auto", [file], Options(rename={"block_sizes_0": "BLOCK"}))
    assert read_back(imported, "arg0_dim0", "arg0_dim1") == table
    assert imported.rows[0][1] == "NVIDIA H200"


@settings(max_examples=15, deadline=None)
@given(tables, st.booleans())
def test_helion_log(tmp_path_factory: pytest.TempPathFactory, table: Table, beside: bool) -> None:
    """As Helion 1.5 writes it: str(Config) in a cell, and a run's shapes in the other file."""
    folder = tmp_path_factory.mktemp("helion")
    text = "run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n"
    for (m, n, block, warps), time in table.items():
        config = (
            f"Config(block_sizes=[{block}], loop_orders=[[0, 1]], num_warps={warps}, range_flattens=[None])"
        )
        rows = ["started,,", "error,," if time is None else f"ok,{time!r},1.50"]
        text += "".join(f'run{m}x{n},1.00,c,0,{row},"{config}"\n' for row in rows)
    metas = []
    for m, n in scenarios(table):
        meta = {
            "run_id": f"run{m}x{n}",
            "kernel_name": "softmax",
            "kernel_source": "def f(): ...",
            "settings": None,
        }
        meta |= {"input_shapes": str([(m, n), (n,)]), "dtypes": str(["torch.bfloat16", "torch.float32"])}
        metas.append(json.dumps(meta | {"hardware": "NVIDIA H200", "ir_graph": None, "configs": {}}))
    file = write(folder, "log.csv", text)
    meta_file = write(folder, "log.meta.jsonl" if beside else "other.meta.jsonl", "\n".join(metas) + "\n")
    imported = import_logs(
        "auto", [file] if beside else [meta_file, file], Options(rename={"block_sizes_0": "BLOCK"})
    )
    assert read_back(imported, "arg0_dim0", "arg0_dim1") == table
    assert columns(imported, "device", "arg1_dtype")[0] == ("NVIDIA H200", "torch.float32")
    assert parse_spec(imported.spec_text()).name == "softmax"


@settings(max_examples=15, deadline=None)
@given(tables)
def test_t4(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    folder = tmp_path_factory.mktemp("t4")
    results = []
    cells = next(iter(scenarios(table).values()))
    if not any(cells.values()):
        return
    for i, ((_, _, block, warps), time) in enumerate(cells.items()):
        row: dict[str, Any] = {"configuration": {"BLOCK": block, "num_warps": warps}, "correctness": 1}
        row |= {"invalidity": "correct" if time else "runtime", "times": {"runtimes": [time] if time else []}}
        if i % 2 and time:
            row["measurements"] = [{"name": "time", "value": time * 1e3, "unit": "microseconds"}]
        results.append(row | {"objectives": ["time"]})
    file = write(folder, "t4.json", json.dumps({"schema_version": "1.0.0", "results": results}))
    imported = import_logs("auto", [file], Options(device="NVIDIA A100", const={"n": "64"}))
    found = columns(imported, "n", "BLOCK", "num_warps", "time_ms")
    got = {(int(r[1]), int(r[2])): float(r[3]) if r[3] else None for r in found}
    assert got == {k[2:]: t if t is None else pytest.approx(t, rel=1e-12) for k, t in cells.items()}


def test_a_torn_kernel_tuner_cache_loses_its_last_line_alone(tmp_path: Path) -> None:
    head = {"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": 64, "tune_params_keys": ["b"]}
    start = json.dumps(head | {"tune_params": {"b": [1, 2, 3]}, "objective": "time", "cache": {}})[:-2]
    entries = [
        json.dumps(str(b)) + ": " + json.dumps({"b": b, "time": b / 2, "times": [1, 2]}) for b in (1, 2, 3)
    ]
    whole = start + "\n" + ",\n".join(entries)
    for end, n, torn in (
        ("}\n}", 3, 0),
        ("}", 3, 0),
        ("", 3, 0),
        (",", 3, 0),
        (",\n", 3, 0),
        (',\n"4": {"b"', 3, 1),
    ):
        imported = import_logs("auto", [write(tmp_path, "c.json", whole + end)], Options())
        assert len(imported.rows) == n
        assert sum("its last line is torn: left out" in note for note in imported.notes) == torn
    for cut in range(len(start) + 60, len(whole)):
        imported = import_logs("kernel-tuner", [write(tmp_path, "c.json", whole[:cut])], Options())
        assert 1 <= len(imported.rows) <= 3


def test_files_that_their_names_tell_apart_are_no_copies(tmp_path: Path) -> None:
    body = json.dumps({"1": {"BLOCK_SIZE_M": 16}})
    names = [f"E={e},N=64,device_name=NVIDIA_{d}.json" for e in (8, 16) for d in ("H100", "H200")]
    files = [write(tmp_path, name, body) for name in names]
    (tmp_path / "again").mkdir()
    files.append(write(tmp_path / "again", names[0], body))
    imported = import_logs("auto", files, Options())
    assert columns(imported, "device", "E") == [
        ("NVIDIA H100", "8"), ("NVIDIA H100", "16"), ("NVIDIA H200", "8"), ("NVIDIA H200", "16")
    ]  # fmt: skip
    assert sum("has the content of" in note for note in imported.notes) == 1


@settings(max_examples=15, deadline=None)
@given(tables)
def test_autoheuristic(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    head = {"shared_memory": 232448, "device_capa": [9, 0], "name": "mm", "numerical_features": ["m", "n"]}
    lines = [json.dumps(head | {"categorical_features": []}), "m,n,choice,feedback"]
    for (m, n, block, warps), time in table.items():
        choice = f"type=triton_BLOCK={block}_numwarps={warps}"
        lines.append(f"{m},{n},{choice},{'inf' if time is None else repr(time)}")
    file = write(tmp_path_factory.mktemp("ah"), "mm.txt", "\n".join(lines) + "\n")
    packed = Path(file + ".gz")
    packed.write_bytes(gzip.compress(Path(file).read_bytes()))
    for path in (file, str(packed)):
        assert read_back(import_logs("auto", [path], Options()), "m", "n") == table


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


@settings(max_examples=15, deadline=None)
@given(tables)
def test_kernel_launcher(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    text = '{"tunable_parameters": ["BLOCK", "num_warps"], "version": "1.0", "objective": "time", "key": "add"}\n'
    for (m, n, block, warps), time in table.items():
        line = {
            "config": [block, warps],
            "problem_size": [m, n],
            "time": float("inf") if time is None else time,
        }
        text += json.dumps(line | {"environment": {"device_name": "NVIDIA A100"}}) + "\n# a comment\n"
    file = write(tmp_path_factory.mktemp("launcher"), "add.wisdom", text)
    assert read_back(import_logs("auto", [file], Options(features=("M", "N"))), "M", "N") == table


@settings(max_examples=15, deadline=None)
@given(tables)
def test_miopen(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    text = ""
    for (m, n), cells in scenarios(table).items():
        solvers = [f"S{b}x{w}:{t!r},0,miopenConvolutionFwdAlgoGEMM" for (_, _, b, w), t in cells.items() if t]
        if solvers:
            text += f"{m}-13-13-1x1-{n}-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-F_g2={';'.join(solvers)}\n"
    file = write(tmp_path_factory.mktemp("miopen"), "gfx942130.HIP.fdb.txt", text)
    imported = import_logs("auto", [file], Options())
    rows = columns(imported, "in_c", "out_c", "solver", "time_ms", "device", "groups", "batch")
    wanted = {(str(m), str(n), f"S{b}x{w}"): t for (m, n, b, w), t in table.items() if t}
    assert {r[:3]: float(r[3]) for r in rows} == wanted
    assert {r[4:] for r in rows} == {("gfx942, 304 CUs", "2", "16")}


winners = st.dictionaries(st.integers(1, 4096), st.sampled_from([16, 32, 64]), min_size=1, max_size=8)


@settings(max_examples=20, deadline=None)
@given(winners)
def test_winners(tmp_path_factory: pytest.TempPathFactory, found: dict[int, int]) -> None:
    folder = tmp_path_factory.mktemp("winners")
    body = {"triton_version": "3.5.1", **{str(m): {"BLOCK": b, "num_warps": 4} for m, b in found.items()}}
    moe = write(
        folder,
        "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
        json.dumps(body),
    )
    lookup = {
        f"NVIDIA H200+((torch.float16, [{m}, 16], [16, 1]), (torch.float16, [16, 4], [4, 1]))+mm": [
            {"template_id": "triton::mm", "BLOCK": b, "template_hash": "x"}
        ]
        for m, b in found.items()
    }
    table = write(folder, "table.json", json.dumps(lookup))
    lines = [f"gfx942,304,{m},{b},0,{b / 7!r},name" for m, b in found.items()]
    csv = write(folder, "a_tuned.csv", "\n".join(["gfx,cu_num,M,kernelId,splitK,us,kernelName", *lines]))
    wanted = {(str(m), str(b)) for m, b in found.items()}
    for file, parameter in ((moe, "BLOCK"), (table, "BLOCK"), (csv, "kernelId")):
        imported = import_logs("auto", [file], Options())
        assert set(columns(imported, "M", parameter)) == wanted
        assert "winners_only = true" in imported.spec_text()
    assert {r[0] for r in columns(imported, "device")} == {"gfx942, 304 CUs"}
    timed = columns(imported, "time_ms", "kernelId")
    assert all(float(time) == int(block) / 7 * 1e-3 for time, block in timed)


def test_lora(tmp_path: Path) -> None:
    body = {"4": {"1": {"16": {"4096": {"64": {"block_m": 16, "split_k": 8}}}}}}
    file = write(tmp_path, "NVIDIA_H200_SHRINK.json", json.dumps(body))
    imported = import_logs("auto", [file], Options())
    assert columns(imported, "device", "max_loras", "m", "k", "n", "block_m") == [
        ("NVIDIA H200", "4", "16", "4096", "64", "16")
    ]


def test_aiter_triton_json(tmp_path: Path) -> None:
    body = {"M_LEQ_64": {"BLOCK_SIZE_M": 16}, "M_GEQ_4096": {"BLOCK_SIZE_M": 64}, "any": {"BLOCK_SIZE_M": 32}}
    file = write(tmp_path, "gfx942-GEMM-A16W16-N=4096-K=512.json", json.dumps(body))
    rows = columns(import_logs("auto", [file], Options()), "M", "N", "K", "BLOCK_SIZE_M")
    assert rows == [("64", "4096", "512", "16"), ("4096", "4096", "512", "64"), ("4097", "4096", "512", "32")]


FLEX = {"('forward', 1, 32, 8, 512, 512, 128, 128)": [{"type": "triton", "time": 1.0, "BLOCK_M": 64}]}
NEW = {"query_shape": "[1, 32, 512, 128]", "key_shape": "[1, 8, 512, 128]", "value_shape": "[1, 8, 512, 128]"}
CONV = {"input_shape": "[1, 3, 8, 8]", "weight_shape": "[16, 3, 3, 3]", "kernel_type": "conv2d"}


def test_flex_and_conv(tmp_path: Path) -> None:
    choices = {"kernel_type": "forward", "choices": [{"type": "triton", "time": 1.0, "BLOCK_M": 64, "B": 1}]}
    old = import_logs("auto", [write(tmp_path, "old.json", json.dumps([FLEX]))], H)
    new = import_logs("auto", [write(tmp_path, "new.json", json.dumps([NEW | choices]))], H)
    assert old.rows == new.rows
    conv = CONV | {"choices": [{"time": 0.5, "backend": "triton", "BLOCK_M": 32}]}
    found = import_logs("auto", [write(tmp_path, "conv.json", json.dumps([conv]))], H)
    assert columns(found, "in_c", "out_c", "fil_h", "BLOCK_M") == [("3", "16", "3", "32")]


def test_shapes_of_other_ranks(tmp_path: Path) -> None:
    """As torch 2.13 writes them: FlexDecoding's tensors have five dimensions, convolutions three to five."""
    place = {"kernel_type": "decode", "B": 2, "Hq": 32, "Hkv": 8, "seq_len_q": 1, "seq_len_kv": 512}
    decode = {
        "query_shape": "[2, 32, 1, 1, 128]",
        "key_shape": "[2, 8, 512, 128]",
        "value_shape": "[2, 8, 512, 64]",
    }
    choice = place | {"type": "triton", "time": 1.0, "BLOCK_N": 64, "qk_head_dim": 128, "v_head_dim": 64}
    log = [decode | {"kernel_type": "decode", "choices": [choice, choice | {"type": "extern", "time": 2.0}]}]
    found = import_logs("auto", [write(tmp_path, "decode.json", json.dumps(log))], H)
    names = ("B", "Hq", "Hkv", "seq_len_q", "seq_len_kv", "qk_head_dim", "v_head_dim")
    assert columns(found, *names)[0] == ("2", "32", "8", "1", "512", "128", "64")
    assert parse_spec(found.spec_text()).name == "flex_attention_decode"
    for dims, axes in ((1, "w"), (2, "hw"), (3, "dhw")):
        conv = {"input_shape": str([1, 3, *range(8, 8 + dims)]), "weight_shape": str([16, 3, *[5] * dims])}
        info = {"time": 0.5, "backend": "Triton", "tile_shape": [64, 32, 128], "num_warps": 4}
        log = [conv | {"kernel_type": "convolution", "choices": [info, {"time": 1.0, "backend": "extern"}]}]
        found = import_logs("auto", [write(tmp_path, f"conv{dims}.json", json.dumps(log))], H)
        sizes = tuple(str(n) for n in range(8, 8 + dims))
        assert columns(found, *(f"in_{a}" for a in axes), "tile_shape") == [
            (*sizes, "[64,32,128]"),
            (*sizes, ""),
        ]
    conv = {"input_shape": "[1, 3]", "weight_shape": "[16, 3]", "kernel_type": "c", "choices": []}
    with pytest.raises(LogError, match=r"found the shape '\[1, 3\]', expected 3 or 4 or 5 sizes"):
        import_logs("inductor", [write(tmp_path, "bad.json", json.dumps([conv]))], H)


PRINTED = """\
AUTOTUNE mm(64x4096, 4096x128)
strides: [4096, 1], [1, 4096]
dtypes: torch.bfloat16, torch.bfloat16
  triton_mm_12 0.0297 ms 100.0% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=64, num_stages=3, num_warps=4
  mm 0.0312 ms 95.2%
SingleProcess AUTOTUNE benchmarking takes 1.2 seconds
"""


def test_what_max_autotune_prints(tmp_path: Path) -> None:
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", PRINTED)], H)
    rows = columns(imported, "M", "K", "N", "dtype", "type", "BLOCK_K", "time_ms")
    assert rows == [
        ("64", "4096", "128", "bfloat16", "mm", "", "0.0312"),
        ("64", "4096", "128", "bfloat16", "triton", "64", "0.0297"),
    ]


def test_newer_files_of_a_triton_cache_win(tmp_path: Path) -> None:
    for i, time in enumerate((3.0, 1.0, 2.0)):
        (tmp_path / str(i)).mkdir()
        timing = [{"kwargs": {"BLOCK": 16}, "num_warps": 4}, [time, time, time]]
        file = write(tmp_path, f"{i}/k.autotune.json", json.dumps({"key": [8], "configs_timings": [timing]}))
        os.utime(file, (0, (100, 300, 200)[i]))
    imported = import_logs("triton", [str(tmp_path)], Options(device="NVIDIA H200", keys=("n",)))
    assert columns(imported, "time_ms") == [("1.0",)]
    assert "2 measurements of older files gave way to newer ones" in imported.notes


def test_noise_is_taken_from_the_quantiles(tmp_path: Path) -> None:
    timing = [{"kwargs": {"BLOCK": 16}, "num_warps": 4}, [1.0, 0.9, 1.1]]
    file = write(tmp_path, "k.autotune.json", json.dumps({"key": [8], "configs_timings": [timing]}))
    imported = import_logs("triton", [file], Options(device="NVIDIA H200", keys=("n",)))
    assert parse_spec(imported.spec_text()).log.noise == pytest.approx(0.2 / 1.6832, rel=1e-4)


COUNTS = {
    "miopen/gfx942130.HIP.fdb.txt.bz2": 37792,
    "kernel_tuner/convolution_A100.json.gz": 4362,
    "aiter/gdr_decode_tuned.csv": 5376,
    "aiter/a8w8_blockscale_tuned_gemm.csv": 6630,
    "vllm_moe": 2601,
    "vllm_ssu": 516,
}


@pytest.mark.parametrize("name", COUNTS)
def test_published_files(tmp_path: Path, name: str) -> None:
    if not PUBLISHED.is_dir():
        pytest.skip("shared/data/published is absent")
    words = ["import", "auto", str(PUBLISHED / name), "-o", str(tmp_path / "log.csv")]
    done = CliRunner().invoke(main, [*words, "--write-spec", str(tmp_path / "spec.toml")])
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "log.csv").read_text().splitlines()) == COUNTS[name] + 1
