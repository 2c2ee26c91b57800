"""`heurgen init --wide`: which columns are configs, what their names say, and what the cells are."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import HeurgenError, SpecError
from heurgen.logs.draft import Said
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import KernelSpec, parse_spec
from tests.support.drafts import draft_spec


def drafted(folder: Path, text: str, **said: object) -> tuple[Path, str, KernelSpec]:
    path = folder / "wide.csv"
    path.write_text(text)
    draft = draft_spec([path], Said(wide=True, **said))  # type: ignore[arg-type]
    return path, draft, parse_spec(draft)


WIDE = "gpu,M,N,Triton (TFLOPS),cuBLAS (TFLOPS)\nNVIDIA H200,1,64,2,4\nNVIDIA H200,64,64,8,5\n"


def test_wide_throughput(tmp_path: Path) -> None:
    path, text, spec = drafted(tmp_path, WIDE)
    log = read_logs([path], spec)
    assert log.time.tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 5]
    with pytest.raises(
        SpecError, match=r"'Triton \(TFLOPS\)' is a throughput by its name, and would be read as a time"
    ):
        parse_spec(text.replace('objective = "max"', "").replace('time = "throughput"', ""))


TENSILE = """GFlops, SizeI, SizeJ, LDA, TotalFlops, Winner, WinnerTimeUS, Cijk_MT64, Cijk_MT128, Cijk_MT256
0, 128, 64, 128, 4194304, Cijk_MT64, 10, 400.5, 300.25, 100
1, 1024, 64, 1024, 2147483648, Cijk_MT128, 72, 20000, 30000, -1
2, 4096, 64, 4096, 137438953472, Cijk_MT256, 1500, 30000, 60000, 90000
"""


@pytest.mark.parametrize("features", [(), ("SizeI", "SizeJ", "LDA")])
def test_a_unit_above_no_cell_says_what_the_cells_are(tmp_path: Path, features: tuple[str, ...]) -> None:
    """Tensile's tables: the first column counts problems and is called what the solutions' cells are."""
    path, text, spec = drafted(tmp_path, TENSILE, features=features, vendor="amd")
    assert "objective = \"max\"  # guess: 'GFlops' says that the cells are throughputs; confirm" in text
    assert [f.name for f in spec.features] == ["SizeI", "SizeJ", "LDA"]
    assert [column for column, _ in spec.log.wide] == ["Cijk_MT64", "Cijk_MT128", "Cijk_MT256"]
    assert "#   GFlops: guess: a throughput by its name, and no config; confirm" in text
    for name in ("TotalFlops", "Winner", "WinnerTimeUS"):
        assert f"#   {name}: guess: a result, and of no config; confirm" in text
    log = read_logs([path], spec)
    assert (log.n_measurements, log.n_failures) == (9, 1)
    assert log.time[-3:].tolist() == [1 / 30000, 1 / 60000, 1 / 90000]


@pytest.mark.parametrize(
    ("cells", "is_config"),
    [
        (("-1", "-1", "20000.5"), True),
        (("0", "oom", "20000.5"), True),
        (("0", "0", "1"), False),
        (("0.0", "0.5", "0.5"), False),
        (("-2", "0", "0.5"), False),
    ],
)
def test_a_config_that_ran_once_is_one(tmp_path: Path, cells: tuple[str, ...], is_config: bool) -> None:
    """A solution for one problem alone: as a feature it would tell that problem."""
    rows = [f"{n},{n / 2},{n / 4},{cell}\n" for n, cell in zip((1, 3, 5), cells, strict=True)]
    _, _, spec = drafted(tmp_path, "n,Cijk_a,Cijk_b,Cijk_c\n" + "".join(rows), vendor="amd")
    assert (len(spec.log.wide) == 3) is is_config
    assert ("Cijk_c" in [f.name for f in spec.features]) is not is_config


def test_times_and_throughputs_are_no_configs_of_one_table(tmp_path: Path) -> None:
    head, cells = (
        "n,old_ms,new_ms,old_tflops,new_tflops,speedup",
        "8,1.5,2.5,4.5,3.5,1.2\n9,1.5,2.5,4.5,3.5,1.2\n",
    )
    _, text, spec = drafted(tmp_path, f"{head}\n{cells}", vendor="amd")
    assert [column for column, _ in spec.log.wide] == ["old_ms", "new_ms"]
    assert (spec.log.objective, spec.log.unit) == ("min", "ms")
    assert "#   new_tflops: guess: times and throughputs are no configs of one table; confirm" in text
    assert "#   speedup: guess: a result, and of no config; confirm" in text
    _, _, spec = drafted(tmp_path, f"{head.replace('old_ms', 'x_tflops')}\n{cells}", vendor="amd")
    assert [column for column, _ in spec.log.wide] == ["x_tflops", "old_tflops", "new_tflops"]
    assert spec.log.objective == "max"


def test_the_file_s_name_says_that_cells_are_throughputs(tmp_path: Path) -> None:
    path = tmp_path / "gemm_tflops.csv"
    path.write_text("n,old,new\n8,1.5,2.5\n9,1.5,2.5\n")
    text = draft_spec([path], Said(wide=True, vendor="amd"))
    assert "objective = \"max\"  # guess: 'gemm_tflops' says that the cells are throughputs; confirm" in text
    path.write_text(path.read_text().replace("old", "old_ms"))
    assert "objective" not in draft_spec([path], Said(wide=True, vendor="amd"))


@pytest.mark.parametrize(
    ("column", "config"),
    [("best", False), ("BestTimeUs", False), ("fastest_ms", False), ("winner_id", False), ("best_fit", True)],
)
def test_what_is_said_of_all_configs_is_none(tmp_path: Path, column: str, config: bool) -> None:
    text = f"n,old,new,{column}\n8,1.5,2.5,1.5\n9,1.5,2.5,1.5\n"
    _, _, spec = drafted(tmp_path, text, vendor="amd")
    assert [c for c, _ in spec.log.wide] == ["old", "new", *([column] if config else [])]


def test_a_name_of_parameters_alone_is_a_config_whatever_they_are_called(tmp_path: Path) -> None:
    """GROUP_SIZE_M, which Triton's matrix products have, made features of them; speedup and gbps results."""
    names = [
        "BLOCK_M=64,GROUP_SIZE_M=8",
        "BLOCK_M=16, GROUP_SIZE_M=1",
        "BLOCK_M=16,speedup=1",
        "BLOCK_M=32,us=2",
    ]
    head = ",".join(f'"{n}"' for n in names)
    path, _, spec = drafted(tmp_path, f"n,{head}\n8,1.5,2.5,3.5,4.5\n9,1.5,2.5,3.5,4.5\n", vendor="amd")
    assert [column for column, _ in spec.log.wide] == names
    assert (spec.log.objective, spec.log.unit) == ("min", None)
    assert read_logs([path], spec).time.tolist() == [1.5, 2.5, 3.5, 4.5] * 2


def test_what_compares_configs_says_nothing_of_the_cells(tmp_path: Path) -> None:
    for name in ("speedup", "efficiency", "mfu", "clock_rate"):
        _, text, _ = drafted(
            tmp_path, f"n,old,new,newer,{name}\n8,1.5,2.5,1,0.6\n9,1.5,2.5,1,0.6\n", vendor="amd"
        )
        assert 'objective = "min"  # guess: the cells are times' in text


def test_names_that_hold_parameters(tmp_path: Path) -> None:
    header = 'vendor,device,scenario,n,"BLOCK-M=64, num_warps: 4",BLOCK-M=16'
    path, _, spec = drafted(
        tmp_path, f"{header}\nnvidia,H200,s,8,1.5,OOM\nnvidia,H200,t,9,2,0.5\nnvidia,H200,u,10,3,0.25\n"
    )
    assert [p.name for p in spec.parameters] == ["BLOCK_M", "num_warps"]
    assert [p.optional for p in spec.parameters] == [False, True]
    assert spec.log.failures == ("OOM",)
    log = read_logs([path], spec)
    assert (log.n_scenarios, log.n_configs, log.n_failures) == (3, 2, 1)
    assert (log.vendors, log.devices) == (("nvidia",), ("H200",))


def test_names_that_do_not_are_the_values_of_one_parameter(tmp_path: Path) -> None:
    for names in ("old,new", "x=1,new", "x=1,x:1"):
        _, text, spec = drafted(tmp_path, f"gpu,n,{names}\nMI300X,8,1,2\nMI300X,9,2,1\n")
        assert [p.name for p in spec.parameters] == ["config"]
        assert spec.log.constants == (("vendor", "amd"),)
        assert "guess; confirm" in text


def test_a_column_called_config_leaves_the_parameter_another_name(tmp_path: Path) -> None:
    """The draft named both alike, and was refused as a spec."""
    path, _, spec = drafted(tmp_path, "gpu,config,n,old,new\nMI300X,a,8,1,2\nMI300X,b,9,2,1\n")
    assert [f.name for f in spec.features] == ["config", "n"]
    assert [p.name for p in spec.parameters] == ["config_2"]
    assert read_logs([path], spec).n_configs == 2


def test_what_is_said_comes_first(tmp_path: Path) -> None:
    text = "maker,alpha,beta,gamma,word\nnvidia,1,2,3,x\nnvidia,2,3,4,y\n"
    path, _, spec = drafted(tmp_path, text, features=("alpha",), vendor="maker")
    assert [f.name for f in spec.features] == ["alpha"]
    assert [column for column, _ in spec.log.wide] == ["beta", "gamma"]
    assert (spec.log.vendor, spec.log.constants) == ("maker", (("device", "unknown"),))
    assert read_logs([path], spec).n_measurements == 4
    _, _, spec = drafted(tmp_path, text.replace("maker", "word2"), features=("alpha",), vendor="acme")
    assert dict(spec.log.constants)["vendor"] == "acme"


def test_what_is_measured_with_triton_is_no_version_of_it(tmp_path: Path) -> None:
    """What triton.testing.perf_report writes."""
    path, text, spec = drafted(tmp_path, "gpu,M,cuBLAS,Triton\nH200,1.0,2.5,4.5\nH200,64.0,8.5,5.5\n")
    assert [column for column, _ in spec.log.wide] == ["cuBLAS", "Triton"]
    assert 'objective = "min"  # guess: the cells are times, less is better; write "max" and time = ' in text
    assert read_logs([path], spec).time.tolist() == [2.5, 4.5, 8.5, 5.5]


def test_units_and_decimal_commas_of_wide_tables(tmp_path: Path) -> None:
    header = "Device;Seq len (tokens);BM=16,w=4 [us];BM=32,w=4 [us]"
    path, text, spec = drafted(tmp_path, f"{header}\nH200;1;0,5;OOM\nH200;2;2,5;0,25\nH200;4;3,5;0,5\n")
    assert (spec.features[0].name, spec.features[0].source) == ("Seq_len", "Seq len (tokens)")
    assert (spec.log.unit, spec.log.failures) == ("us", ("OOM",))
    assert "objective" not in text
    assert read_logs([path], spec).to_frame()["time_ms"].dropna().tolist() == pytest.approx(
        [5e-4, 2.5e-3, 2.5e-4, 3.5e-3, 5e-4]
    )


def test_vendors_that_no_spec_takes_are_no_feature(tmp_path: Path) -> None:
    path, text, spec = drafted(tmp_path, "vendor,gpu,n,old,new\nNVIDIA,H200,8,1,2\nAMD,MI300X,9,2,1\n")
    assert 'vendor = { from = "device" }  # guess: the names of the devices tell it; confirm' in text
    assert "#   vendor: left out: found 'NVIDIA', expected a vendor in lower-case letters" in text
    assert [f.name for f in spec.features] == ["n"]
    assert read_logs([path], spec).vendors == ("amd", "nvidia")


def test_devices_of_two_vendors_tell_them(tmp_path: Path) -> None:
    path, text, spec = drafted(tmp_path, "gpu,n,old,new\nH200,8,1,2\nMI300X,8,2,1\n")
    assert 'vendor = { from = "device" }  # guess: the names of the devices tell it; confirm' in text
    assert read_logs([path], spec).vendors == ("amd", "nvidia")


@pytest.mark.parametrize(
    ("text", "said", "message"),
    [
        ("gpu,n,a\nH200,8,1\n", {}, "fewer than two columns look like configs"),
        ("gpu,old,new\nH200,8,1\n", {}, "no column looks like a feature"),
        ("gpu,n,old,new\nH200,8,1,2\n", {"vendor": "N V"}, "found --vendor 'N V', expected a column, or "),
    ],
)
def test_tables_that_are_not_wide(tmp_path: Path, text: str, said: dict[str, str], message: str) -> None:
    with pytest.raises(HeurgenError) as error:
        drafted(tmp_path, text, **said)
    assert message in str(error.value)


def test_what_a_draft_says_beside_its_columns(tmp_path: Path) -> None:
    """Where it is from, what was guessed, and which columns have no role."""
    text = drafted(tmp_path, "gpu,n_rows,lib,fast,slow\nNVIDIA H200,1,,2,4\nNVIDIA H200,64,b,8,5\n")[1]
    for line in (
        "# Drafted by heurgen init --wide from 2 configs.",
        'name = "wide"',
        'n_rows = { type = "int" }  # guess; confirm',
        'config = { type = "category" }  # guess; confirm',
        'vendor = { const = "nvidia" }  # guess: NVIDIA H200 is of nvidia; confirm',
        "#   lib: no number and no feature",
    ):
        assert line in text.splitlines()
    assert 'objective = "min"  # guess: the cells are times, less is better' in text
    assert text.count("no number and no feature") == 1
    text = drafted(tmp_path, "n,fast_us,slow_us\n1,2,4\n64,8,5\n", vendor="nvidia")[1]
    assert 'device = { const = "unknown" }  # the table has no such column; say which' in text.splitlines()
    assert 'unit = "us"' in text
    assert "objective" not in text


def test_one_config_is_no_choice(tmp_path: Path) -> None:
    with pytest.raises(HeurgenError) as error:
        drafted(tmp_path, "M,a\n1,2.5\n")
    assert str(error.value) == (
        f"{tmp_path / 'wide.csv'}: fewer than two columns look like configs (say which columns are the features: "
        "--features NAME,...)"
    )


def test_a_percentage_is_no_feature_and_no_config(tmp_path: Path) -> None:
    _, text, spec = drafted(
        tmp_path, "gpu,M,old_us,new_us,delta%\nNVIDIA H200,1,2.5,4.5,80.0\nNVIDIA H200,64,8.5,5.5,-35.3\n"
    )
    assert [f.name for f in spec.features] == ["M"]
    assert [column for column, _ in spec.log.wide] == ["old_us", "new_us"]
    assert "#   delta%: guess: a result, and of no config; confirm" in text


def test_whole_numbers_beside_times_are_of_the_problem(tmp_path: Path) -> None:
    """ "tp" and "G" became configs that take 8 us."""
    text = "gpu,tp,G,M,hip_us,triton_us\nMI300X,1,128,16,2481,1215.13\nMI300X,8,64,256,3238,5299.67\n"
    _, _, spec = drafted(tmp_path, text)
    assert [f.name for f in spec.features] == ["tp", "G", "M"]
    assert [column for column, _ in spec.log.wide] == ["hip_us", "triton_us"]
    assert spec.log.unit == "us"


def test_cells_name_their_unit(tmp_path: Path) -> None:
    """ "12.5 us" was a word: such a table had no config, and a few such cells among numbers were failures."""
    text = "gpu,M,BLOCK=16,BLOCK=32\nNVIDIA H200,1,12.5 us,1.5 ms\nNVIDIA H200,64,OOM,0.25 ms\n"
    path, draft, spec = drafted(tmp_path, text)
    assert "objective" not in draft
    assert spec.log.failures == ("OOM",)
    log = read_logs([path], spec)
    assert (log.time[[0, 1, 3]].tolist(), log.n_failures) == ([0.0125, 1.5, 0.25], 1)


def test_beside_configs_by_name_there_are_repeats_versions_and_configs_that_fail(tmp_path: Path) -> None:
    """A number of the run made each repeat a launch, a version was a config, and one that always fails a feature."""
    text = "gpu,M,torch version,run,B=16 w=2,B=32 w=2,B=64 w=2\n"
    rows = [f"NVIDIA H200,{m},2.11,{run},{m}.5,{m + run}.25,OOM\n" for m in (1, 8) for run in (0, 1)]
    path, draft, spec = drafted(tmp_path, text + "".join(rows))
    assert [f.name for f in spec.features] == ["M", "torch_version"]
    assert [p.name for p in spec.parameters] == ["B", "w"]
    assert "#   run: guess: a result, not known at launch; confirm" in draft
    log = read_logs([path], spec)
    assert (log.n_measurements, log.n_failures, len(log.scenario_row)) == (12, 4, 2)
