"""`heurgen init`: what the draft says, and that it reads the log it was drafted from."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from heurgen.base.errors import HeurgenError, LogError, UsageError
from heurgen.logs.cells import read_cells
from heurgen.logs.draft import Said, draft
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.support.drafts import draft_spec, drafted, matmul, write

H200 = Path(__file__).parents[2] / "data/h200_unified_attention.csv"


def test_the_h200_log_gives_what_a_person_would_write(tmp_path: Path) -> None:
    path = tmp_path / "unified_attention.csv"
    path.write_bytes(H200.read_bytes())
    text, spec = draft_spec(path), drafted(path)
    assert spec == {
        "kernel": {"name": "unified_attention"},
        "features": {
            "num_seqs": {"type": "int", "min": 1, "unit": "sequences"},
            "total_query_tokens": {"type": "int", "min": 1, "unit": "tokens"},
            "max_seqlen_q": {"type": "int", "min": 1, "unit": "tokens"},
            "avg_seqlen_q": {"type": "float", "unit": "tokens"},
            "max_seqlen_k": {"type": "int", "min": 1, "unit": "tokens"},
            "avg_seqlen_k": {"type": "float", "unit": "tokens"},
            "decode_share": {"type": "float", "min": 0, "max": 1},
        },
        "parameters": {
            "variant": {"type": "category", "values": ["2d", "3d"]},
            "BLOCK_M": {"type": "int"},
            "TILE_SIZE": {"type": "int"},
            "num_warps": {"type": "int"},
            "num_stages": {"type": "int"},
            "segments": {"type": "int"},
        },
        "log": {k: k for k in ("vendor", "device", "status", "scenario")} | {"time": "time_ms"},
    }
    for constant in ("num_query_heads", "num_kv_heads", "head_size", "page_size", "dtype"):
        assert f"\n# {constant} = {{ type = " in text
    assert "\n#   workload: guess: a label or an id, not known at launch; confirm\n" in text


def test_every_guess_is_marked() -> None:
    lines = [line for line in draft_spec(H200).splitlines() if " = " in line and not line.startswith("[")]
    assert lines
    assert all(line.endswith("confirm") and "# guess: " in line for line in lines)


def test_a_sweep_without_scenario_ids(tmp_path: Path) -> None:
    spec = drafted(write(tmp_path / "matmul.csv", matmul()))
    assert list(spec["features"]) == ["M", "N", "K"]
    assert list(spec["parameters"]) == ["BLOCK_M", "num_warps"]
    assert spec["log"]["time"] == "latency_ms"


def test_unknown_names_by_the_data(tmp_path: Path) -> None:
    rows = matmul()
    random.Random(1).shuffle(rows)
    rows = [
        row | {"area": row["M"] * row["N"], "knob": i % 3, "joules": i * 0.37} for i, row in enumerate(rows)
    ]
    rows = [row | {"layout": "tn" if row["K"] == 64 else "nn"} for row in rows]
    path = write(tmp_path / "matmul.csv", rows)
    spec = drafted(path)
    assert list(spec["features"]) == ["M", "N", "K", "area", "layout"]
    assert list(spec["parameters"]) == ["BLOCK_M", "num_warps", "knob"]
    assert "joules: guess: a float that varies like a result; confirm" in draft_spec(path)


def test_scenario_ids_outweigh_names_of_features(tmp_path: Path) -> None:
    rows = [
        {
            "case_id": s,
            "vendor": "nvidia",
            "device": "X",
            "size": s * 8,
            "head_block": h,
            "ms": s + h,
            "joules": h + 0.5,
        }
        for s in (1, 2, 3)
        for h in (16, 32)
    ]
    rows = [row | {"rows": row["head_block"] * 2} for row in rows]
    spec = drafted(write(tmp_path / "a.csv", rows))
    assert list(spec["features"]) == ["size"]
    assert list(spec["parameters"]) == ["head_block", "rows"]
    assert spec["log"]["scenario"] == "case_id"


def test_row_order_does_not_matter(tmp_path: Path) -> None:
    rows = matmul()
    expected = draft_spec(write(tmp_path / "a.csv", rows))
    random.Random(3).shuffle(rows)
    assert draft_spec(write(tmp_path / "a.csv", rows)) == expected


def test_results_and_labels_are_left_out(tmp_path: Path) -> None:
    rows = [
        r | {"id": i, "tflops": i * 1.5, "std": 0.1 * i, "git_commit": "abc", "error": "", "config_id": i % 4}
        for i, r in enumerate(matmul())
    ]
    spec = drafted(write(tmp_path / "a.csv", rows))
    assert list(spec["features"]) == ["M", "N", "K"]
    assert list(spec["parameters"]) == ["BLOCK_M", "num_warps"]


def test_a_column_of_the_kernel_names_it(tmp_path: Path) -> None:
    assert drafted(write(tmp_path / "a.csv", matmul(kernel="gemm")))["kernel"] == {"name": "gemm"}


def test_bools_and_odd_times_and_statuses(tmp_path: Path) -> None:
    rows = [r | {"causal": r["M"] == 16, "state": "ok"} for r in matmul()]
    rows = [{"time_us" if k == "latency_ms" else k: v for k, v in r.items()} for r in rows]
    path = write(tmp_path / "a.csv", rows)
    spec = drafted(path)
    assert spec["features"]["causal"] == {"type": "bool"}
    assert (spec["log"]["time"], spec["log"]["status"]) == ("time_us", "state")
    assert "heurgen reads it in us, by its name" in draft_spec(path)
    write(path, [r | {"state": "7"} for r in rows])
    assert "yet no row says 'ok', and any other text is a failure" in draft_spec(path)


def test_a_log_without_vendor_and_device_is_told(tmp_path: Path) -> None:
    rows = [{k: v for k, v in r.items() if k not in ("vendor", "device")} for r in matmul()]
    text = draft_spec(write(tmp_path / "a.csv", rows))
    assert 'vendor = "vendor"  # guess: the log has no such column, and needs one; add it, or write ' in text


@pytest.mark.parametrize("column", ["GPU Type", "chip", "SKU", "accelerator"])
def test_a_device_by_other_names(tmp_path: Path, column: str) -> None:
    rows = [
        {column: device, "M": m, "BLOCK": block, "time_ms": m / block + len(device)}
        for device in ("NVIDIA H100", "NVIDIA A100-SXM4")
        for m in (16, 64)
        for block in (16, 32)
    ]
    spec = parse_spec(draft_spec(write(tmp_path / "log.csv", rows)))
    assert spec.log.device == column
    assert [f.name for f in spec.features] == ["M"]


def test_the_name_of_a_device_is_taken_before_its_number(tmp_path: Path) -> None:
    """KernelBench: `cuda:0` was the device of all machines."""
    rows = [
        {"device": f"cuda:{i % 2}", "hardware": "NVIDIA H200"}
        | {k: cell for k, cell in r.items() if k not in ("vendor", "device")}
        for i, r in enumerate(matmul())
    ]
    spec = parse_spec(draft_spec(write(tmp_path / "a.csv", rows)))
    assert spec.log.device == "hardware"
    assert "device" not in {c.source for c in (*spec.features, *spec.parameters)}
    spec = parse_spec(draft_spec(write(tmp_path / "b.csv", [r | {"hardware": ""} for r in rows])))
    assert spec.log.device == "device"


@pytest.mark.parametrize("column", ["vendor", "gpu_vendor"])
@pytest.mark.parametrize(
    ("devices", "said", "vendor"),
    [
        (
            ("NVIDIA H200", "NVIDIA A100"),
            None,
            '{ const = "nvidia" }  # guess: NVIDIA H200 is of nvidia; confirm',
        ),
        (
            ("NVIDIA H200", "MI300X"),
            None,
            '{ from = "device" }  # guess: the names of the devices tell it; confirm',
        ),
        (("NVIDIA H200", "X1"), "acme", '{ const = "acme" }  # as said'),
    ],
)
def test_vendors_that_no_spec_takes_make_way_for_what_the_devices_tell(
    tmp_path: Path, column: str, devices: tuple[str, str], said: str | None, vendor: str
) -> None:
    rows = [
        {column: v, "device": d} | {k: cell for k, cell in r.items() if k not in ("vendor", "device")}
        for v, d in zip(("NVIDIA", "AMD"), devices, strict=True)
        for r in matmul()
    ]
    path = write(tmp_path / "a.csv", rows)
    text = draft_spec(path, Said(vendor=said))
    assert f"\nvendor = {vendor}\n" in text
    assert (
        f"#   {column}: left out: found 'NVIDIA', expected a vendor in lower-case letters, digits and underscores, "
        "such as nvidia\n"
    ) in text
    log = read_logs([path], parse_spec(text))
    assert log.vendors == tuple(
        sorted({"acme"} if said else {"nvidia", "amd"} if "from" in vendor else {"nvidia"})
    )
    if said is None:
        assert draft_spec(path, Said(vendor=column)) == text


def test_vendors_that_no_spec_takes_stay_where_nothing_else_tells_them(tmp_path: Path) -> None:
    rows = [r | {"vendor": "NVIDIA", "device": "X1"} for r in matmul()]
    path = write(tmp_path / "a.csv", rows)
    assert 'vendor = "vendor"  # guess: by its name; confirm' in draft_spec(path)
    with pytest.raises(UsageError, match="the column 'vendor' has two roles"):
        draft_spec(
            write(tmp_path / "b.csv", [r | {"device": "H200"} for r in rows]), Said(features=("M", "vendor"))
        )


def test_what_is_said_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "tuned.csv"
    path.write_text(
        "gfx,cu_num,M,N,kernelId,us,kernelName,tflops\ngfx942,304,1,2,3,4.5,a,7\ngfx942,304,2,2,4,4,b,6\n"
    )
    said = Said(time="us", vendor="amd", features=("M", "cu_num"), parameters=("kernelId",))
    spec = parse_spec(draft_spec(path, said))
    assert [f.name for f in spec.features] == ["M", "cu_num"]
    assert [p.name for p in spec.parameters] == ["kernelId"]
    assert spec.log.constants == (("vendor", "amd"),)
    guessed = parse_spec(draft_spec(path))
    assert [p.name for p in guessed.parameters] == ["kernelId"]
    assert guessed.log.constants == (("vendor", "amd"),)
    assert (guessed.log.time, guessed.log.device) == ("us", "gfx")
    with pytest.raises(HeurgenError) as error:
        draft_spec(path, Said(features=("m",)))
    assert str(error.value) == "no column is named 'm'"


def test_sizes_of_convolutions_are_features(tmp_path: Path) -> None:
    path = tmp_path / "miopen.csv"
    names = "in_c,pad_h,groups,direction,layout".split(",")
    rows = [
        f"amd,MI300X,{c},{p},{g},F,NCHW,{s},1.5"
        for c in (3, 64)
        for p in (0, 1)
        for g in (1, 2)
        for s in "AB"
    ]
    path.write_text("\n".join([f"vendor,device,{','.join(names)},solver,time_ms", *rows]) + "\n")
    spec = parse_spec(draft_spec(path))
    assert [f.name for f in spec.features] == ["in_c", "pad_h", "groups"]
    assert [p.name for p in spec.parameters] == ["solver"]


def test_a_throughput_alone_is_drafted_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("vendor,device,M,BLOCK_M,tflops\nnvidia,H200,1,16,100\nnvidia,H200,2,32,nan\n")
    spec = parse_spec(draft_spec(path))
    assert (spec.log.time, spec.log.objective, spec.log.failures) == ("tflops", "max", ("nan",))


UNSAID = (
    "nothing says whether 'mean' holds times or throughputs: read as times, less is better. "
    'If more is better, this would choose the slowest configs: write objective = "max" in [log]'
)


@pytest.mark.parametrize(
    ("name", "unit", "remark"),
    [
        ("a.csv", "GB/s", "'GB/s' says that mean is a throughput; confirm"),
        ("gemm_tflops.csv", "", "'gemm_tflops' says that mean is a throughput; confirm"),
        ("a.csv", "", ""),
    ],
)
def test_what_stands_beside_says_that_a_mean_is_a_throughput(
    tmp_path: Path, name: str, unit: str, remark: str
) -> None:
    path = tmp_path / name
    rows = [f"NVIDIA H200,{m},{b},{m / b},{unit}" for m in (1, 2) for b in (16, 32)]
    path.write_text("gpu,M,BLOCK_M,mean,unit\n" + "\n".join(rows) + "\n")
    found = draft(read_cells([path]), str(path), Said())
    assert (found.log.time, found.log.objective) == ("mean", "max" if remark else "min")
    assert (f'objective = "max"  # guess: {remark}' in draft_spec(path)) == bool(remark)
    assert found.notes == (() if remark else (UNSAID,))
    assert (UNSAID in read_logs(path).notes) == (not remark)
    path.write_text(path.read_text().replace("mean", "mean_us"))
    found = draft(read_cells([path]), str(path), Said())
    assert (found.log.objective, found.notes) == ("min", ())


def test_columns_that_code_cannot_name_are_read_under_names_that_it_can(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    head = "GPU;Seq length (tokens);lambda;BLOCK_M;Latency (µs);Memory (MB)"
    rows = [f"H200;{s};{x};{b};{s * b // x},5;{s + b}" for s in (128, 512) for x in (1, 2) for b in (16, 64)]
    path.write_text("\n".join([head, *rows]) + "\n")
    text = draft_spec(path)
    spec = parse_spec(text)
    assert [(f.name, f.source, f.unit) for f in spec.features] == [
        ("Seq_length", "Seq length (tokens)", "tokens"),
        ("lambda_", "lambda", ""),
    ]
    assert [p.name for p in spec.parameters] == ["BLOCK_M"]
    assert "#   Memory (MB): guess: a result" in text
    log = read_logs([path], spec)
    assert (log.n_scenarios, log.n_configs) == (4, 2)
    assert log.to_frame()["Seq_length"].tolist() == [128] * 4 + [512] * 4


CARD = '[log]\nkernel = "softmax"\nparameters = ["rows", "waves_per_eu"]\n'
SWEPT = "scenario,vendor,device,M,mode,rows,waves_per_eu,status,time_ms,reason\n" + "".join(
    f"s{m}{mode},nvidia,H200,{m},{mode},{rows},,ok,{rows * m / 64},\n"
    for m in (16, 64, 256)
    for mode in ("log", "plain")
    for rows in ((1, 4) if m > 16 else (1,))
)


@pytest.mark.parametrize("file", ["log.csv", "log.csv.gz"])
def test_the_card_of_a_sweep_says_what_names_only_suggest(tmp_path: Path, file: str) -> None:
    """`mode` is called like a parameter and `rows` like a feature: the tunable said what they are."""
    (tmp_path / file).write_bytes(gzip.compress(SWEPT.encode()) if file.endswith(".gz") else SWEPT.encode())
    (tmp_path / "log.card.toml").write_text(CARD)
    found = draft(read_cells([tmp_path / file]), str(tmp_path / file), Said())
    assert (found.name, found.name_remark) == ("softmax", "as the log's card says")
    assert [e.column.name for e in found.features] == ["M", "mode"]
    assert [e.column.name for e in found.parameters] == ["rows"]
    assert ("waves_per_eu", "left out: always blank") in found.left_out
    said = draft(read_cells([tmp_path / file]), str(tmp_path / file), Said(features=("M",)))
    assert [e.column.name for e in said.features] == ["M"]


def test_a_feature_that_the_card_names_stays_where_it_is_constant(tmp_path: Path) -> None:
    """Without it `advise` wrote a workload that `tune` refuses: its scenarios lacked the target's feature."""
    log = tmp_path / "log.csv"
    log.write_text(SWEPT.replace(",log,", ",plain,").replace("log,nvidia", "x,nvidia"))
    log.with_suffix(".card.toml").write_text(CARD)
    found = draft(read_cells([log]), str(log), Said())
    told = [(e.column.name, e.active, e.remark) for e in found.features]
    said = "as the log's card says"
    assert told == [("M", True, said), ("mode", True, f"{said}; constant here (plain)")]


@pytest.mark.parametrize(
    "card", [CARD.replace("rows", "cols"), "x = 1", "log = 1", "[log]\nkernel = 1\nparameters = []", "[log]"]
)
def test_the_card_of_other_columns_says_nothing(tmp_path: Path, card: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(SWEPT)
    log.with_suffix(".card.toml").write_text(card)
    found = draft(read_cells([log]), str(log), Said())
    assert found.name_remark == "guess: the file's name; confirm"


def test_winners_without_times(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("gpu,M,BLOCK_M\nH200,1,16\nH200,64,32\nH200,128,64\n")
    text = draft_spec(path)
    assert "winners_only = true  # guess: no column is a time, and no scenario has two rows; confirm" in text
    log = read_logs([path], parse_spec(text))
    assert (log.n_measurements, log.n_failures) == (3, 0)
    assert log.to_frame()["time_ms"].isna().all()


def test_winners_without_times_whose_columns_are_named(tmp_path: Path) -> None:
    """Without guesses for them the table was refused for want of a time, whatever was named."""
    path = tmp_path / "a.csv"
    path.write_text("gpu,m,scatter_grid,gather_grid\nH200,1,92,91\nH200,64,128,98\n")
    with pytest.raises(LogError, match=r"of a table of winners --parameters NAME,\.\.\.; or --wide"):
        draft_spec(path)
    spec = parse_spec(draft_spec(path, Said(parameters=("scatter_grid", "gather_grid"))))
    assert spec.log.winners_only
    assert [f.name for f in spec.features] == ["m"]


def test_the_text_of_a_whole_config(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f'H200,{m},"BLOCK: {b}",{m * b}.5' for m in (1, 2) for b in (16, 32)]
    path.write_text("gpu,M,config,time_ms\n" + "\n".join(rows) + "\n")
    spec = parse_spec(draft_spec(path))
    assert [(p.name, p.type) for p in spec.parameters] == [("config", "category")]
    path.write_text(path.read_text().replace("BLOCK: 32", "BLOCK: 16"))
    with pytest.raises(LogError, match="no column looks like a launch parameter"):
        draft_spec(path)


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        ("p50,tflops", "p50"),
        ("mean,p95,tflops", "mean"),
        ("tflops,count", "tflops"),
        ("mean,kernel_us", "kernel_us"),
    ],
)
def test_averages_are_times_before_throughputs_are(tmp_path: Path, columns: str, time: str) -> None:
    path = tmp_path / "a.csv"
    width = columns.count(",") + 1
    rows = [
        f"H200,{m},{b}," + ",".join(str(m * b + i + 0.5) for i in range(width))
        for m in (1, 2)
        for b in (16, 32)
    ]
    path.write_text(f"gpu,M,BLOCK_M,{columns}\n" + "\n".join(rows) + "\n")
    assert parse_spec(draft_spec(path)).log.time == time


def test_platforms_make_way_for_the_vendors_that_a_launcher_finds(tmp_path: Path) -> None:
    """They were the vendors of the module, and `runtime.bind` raised: "unknown vendor 'amd', known: cuda, hip"."""
    rows = [
        r | {"vendor": vendor, "device": device}
        for vendor, device in (("hip", "AMD Instinct MI300X"), ("cuda", "NVIDIA H200"))
        for r in matmul()
    ]
    path = write(tmp_path / "a.csv", rows)
    text = draft_spec(path)
    assert '\nvendor = { from = "device" }' in text
    said = "left out: found 'hip', expected a vendor as a launcher finds it: nvidia, amd"
    assert f"#   vendor: {said}" in text or f"#   vendor: {said.replace('hip', 'cuda')}" in text
    assert read_logs([path], parse_spec(text)).vendors == ("amd", "nvidia")
    unknown = write(tmp_path / "b.csv", [r | {"vendor": "hip"} for r in matmul(device="X1")])
    assert read_logs([unknown], parse_spec(draft_spec(unknown))).vendors == ("hip",)
