# ruff: noqa: E501  (messages stand whole)
"""AITER's tuned CSVs and Triton JSON: winners."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from heurgen.base.errors import LogError, UsageError
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import Case, H, Wrong, cases, check_refusal, columns, winners, write

AITER = "gfx,cu_num,M,kernelId,us\n"


WRONG: Wrong = {
    "aiter": [
        ("a_tuned.csv", H, "gfx,M\n", "FILE:1: found none of the columns us and duration (an untuned list of shapes?)"),
        ("a_tuned.csv", H, "gfx,M,us\n", "FILE:1: found no parameter, such as BV, block_m, kernel, kernelId, kernelName, "
         "kernelName1, kernelName2, ksplit, libtype, run_1stage, solidx, splitK, waves_per_eu"),
        ("a_tuned.csv", H, AITER + "gfx942,304,1,2\n", "FILE:2: found 4 cells, expected 5"),
        ("a_tuned.csv", H, AITER + "gfx942,304,1,2,fast\n", "FILE:2: column 'us': found 'fast', expected a number"),
        ("a_tuned.csv", H, AITER + "gfx942,many,1,2,3\n", "FILE:2: column 'cu_num': found 'many', expected a number of compute units"),
        ("a_tuned.csv", H, AITER + "gfx942,304,1,2,-1\n", "the files hold no measurement that aiter wrote"),
        ("a_tuned.csv", H, AITER + 'gfx942,304,1,"\x1b",3\n', "FILE: column 'line 2: kernelId': found '\\x1b', expected text of 1 to "
         "4096 printable characters, without spaces around it"),
        ("a_tuned.csv", Options(), "gfx,M,kernelId,us\n,1,2,3\n", "FILE does not say the device (say which: --device NAME)"),
        ("a_tuned.csv", Options(kernel="b"), AITER + "gfx942,304,1,2,3\n", "no file is of the kernel 'b' (found: a)"),
        ("gfx942-GEMM-A.json", H, '{"M_LT_4": {}}', "FILE:1: found the key 'M_LT_4', expected M_LEQ_<M>, M_GEQ_<M> or any"),
        ("gfx942-GEMM-A.json", H, '{"any": {}}', "FILE:1: the config is empty"),
        ("gfx942-GEMM-A.json", H, '{"any": 3}', "FILE:1: column 'any': found a number, expected an object"),
        ("a_tuned.csv", H, 'gfx,cu_num,M,kernelId,us\n"', "FILE:2: is no CSV: unexpected end of data"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


@settings(max_examples=20, deadline=None)
@given(winners)
def test_winners(tmp_path_factory: pytest.TempPathFactory, found: dict[int, int]) -> None:
    lines = [f"gfx942,304,{m},{b},0,{b / 7!r},name" for m, b in found.items()]
    text = "\n".join(["gfx,cu_num,M,kernelId,splitK,us,kernelName", *lines])
    file = write(tmp_path_factory.mktemp("aiter"), "a_tuned.csv", text)
    imported = import_logs("auto", [file], Options())
    assert set(columns(imported, "device", "M", "kernelId")) == {
        ("gfx942, 304 CUs", str(m), str(b)) for m, b in found.items()
    }
    assert "winners_only = true" in imported.spec_text()
    timed = columns(imported, "time_ms", "kernelId")
    assert all(float(time) == int(block) / 7 * 1e-3 for time, block in timed)


def test_aiter_triton_json(tmp_path: Path) -> None:
    body = {"M_LEQ_64": {"BLOCK_SIZE_M": 16}, "M_GEQ_4096": {"BLOCK_SIZE_M": 64}, "any": {"BLOCK_SIZE_M": 32}}
    file = write(tmp_path, "gfx942-GEMM-A16W16-N=4096-K=512.json", json.dumps(body))
    rows = columns(import_logs("auto", [file], Options()), "M", "N", "K", "BLOCK_SIZE_M")
    assert rows == [("64", "4096", "512", "16"), ("65", "4096", "512", "32"), ("4096", "4096", "512", "64")]


def test_a_bound_that_both_name_is_of_the_one_that_is_asked_first(tmp_path: Path) -> None:
    body = {"M_LEQ_64": {"BLOCK_SIZE_M": 16}, "M_GEQ_64": {"BLOCK_SIZE_M": 64}}
    file = write(tmp_path, "gfx942-GEMM-A16W16.json", json.dumps(body))
    assert columns(import_logs("auto", [file], Options()), "M", "BLOCK_SIZE_M") == [
        ("64", "16"),
        ("65", "64"),
    ]


def test_any_that_no_size_reaches_is_left_out(tmp_path: Path) -> None:
    body = {"M_LEQ_64": {"BLOCK_SIZE_M": 16}, "M_GEQ_65": {"BLOCK_SIZE_M": 64}, "any": {"BLOCK_SIZE_M": 32}}
    file = write(tmp_path, "gfx942-GEMM-A16W16.json", json.dumps(body))
    assert columns(import_logs("auto", [file], Options()), "M", "BLOCK_SIZE_M") == [
        ("64", "16"),
        ("65", "64"),
    ]


def test_bounds_as_older_versions_name_them(tmp_path: Path) -> None:
    sizes = ("small", "medium_M32", "medium_M64", "medium_M128", "large", "xlarge")
    body = {key: {"BLOCK_SIZE_M": i} for i, key in enumerate(sizes)}
    name = "MI350X-FUSED-GEMM-A8W8-N8=512-N16=256-K=64.json"

    def read(body: object) -> list[tuple[str, ...]]:
        imported = import_logs("auto", [write(tmp_path, name, json.dumps(body))], Options())
        return columns(imported, "N8", "N16", "K", "M", "BLOCK_SIZE_M")

    bounds = ("15", "32", "64", "128", "256", "257")
    assert read(body) == [("512", "256", "64", m, str(i)) for i, m in enumerate(bounds)]
    finer = body | {"small_M16": {"BLOCK_SIZE_M": 6}, "xlarge_M512": {"BLOCK_SIZE_M": 7}}
    assert [row[3:] for row in read(finer)] == [
        *(
            ("8", "0"),
            ("16", "6"),
            ("32", "1"),
            ("64", "2"),
            ("128", "3"),
            ("256", "4"),
            ("512", "7"),
            ("513", "5"),
        )
    ]
    # Of batched products these words are sizes of M + N.
    with pytest.raises(LogError, match="is of no known kind"):
        read({"small": {"BLOCK_SIZE_M": 1}, "large": {"BLOCK_SIZE_M": 2}})
    with pytest.raises(LogError, match="found the key 'small'"):
        read({"small": {"BLOCK_SIZE_M": 1}, "any": {"BLOCK_SIZE_M": 2}})


def test_bounds_as_products_of_experts_name_them(tmp_path: Path) -> None:
    body = {key: {"BLOCK_SIZE_M": i} for i, key in enumerate(("small_M", "medium_M", "large_M"))}
    file = write(tmp_path, "MI300X-MOE-FP8_W8A8.json", json.dumps(body))
    rows = columns(import_logs("auto", [file], Options()), "M", "BLOCK_SIZE_M")
    assert rows == [("255", "0"), ("1023", "1"), ("1024", "2")]


# The columns of AITER's tables, of one row each: what its launch is told, and what the winner sets.
ROLES = {
    "a8w8_tuned_gemm": ("gfx,cu_num,M,N,K,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
                        "M N K q_dtype_w cu_num", "libtype kernelId splitK"),
    "tuned_fmoe": ("cu_num,token,expert,dtype,use_g1u1,block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage,bw,_tag",
                   "token expert dtype use_g1u1 cu_num", "block_m ksplit kernelName1 kernelName2 run_1stage"),
    "a_tuned_bmm": ("gfx,cu_num,B,M,N,K,layout,kernelName,splitK,us,tflops", "B M N K layout cu_num", "kernelName splitK"),
    "conv3d_tuned": ("gfx,N,C,kT,stride_d,bias,tile_m,tile_n,wave_m,wgm,splitK,us,kernelName,err_ratio",
                     "N C kT stride_d bias", "tile_m tile_n wave_m wgm splitK"),
    "moe_tuned": ("gfx,tp,token,act,block_m,nsk,xb,ll,us,model", "tp token act", "block_m nsk xb ll"),
    "gdr_decode_tuned": ("arch,dtype,b,sq,num_k_heads,head_k_dim,NUM_BLOCKS_PER_V_DIM,NUM_WARPS,WARP_THREADS_K,duration",
                         "dtype b sq num_k_heads head_k_dim", "NUM_BLOCKS_PER_V_DIM NUM_WARPS WARP_THREADS_K"),
    "gdn_tuned": ("arch,K,V,BT,H,T_flat,BV,us", "K V BT H T_flat", "BV"),
    "attention_tuned": ("gfx,cu_num,head_size,block_size,q_dtype,phase,ctx_bucket,bs,kernel,TILE_SIZE,BLOCK_M,num_warps,us,errRatio,_tag",
                        "head_size block_size q_dtype phase ctx_bucket bs cu_num", "kernel TILE_SIZE BLOCK_M num_warps"),
    "asm_gemm": ("M,N,K,bias,splitK,us", "M N K bias", "splitK"),
    "sglang_tuned_gemm": ("aiter_pr,gfx,cu_num,M,N,libtype,kernelId,splitK,us,kernelName,errRatio,base_libtype,base_kernelId",
                          "M N cu_num", "libtype kernelId splitK"),
    "by_name_tuned": ("gfx,M,N,us,kernelName,tflops", "M N", "kernelName"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROLES)
def test_roles_of_the_columns(tmp_path: Path, name: str) -> None:
    header, features, parameters = ROLES[name]
    named = [*enumerate(header.split(","))]
    rows = [
        ",".join("9" if n in ("gfx", "arch", "cu_num") else str(i + at) for at, n in named) for i in (1, 2)
    ]
    text = "\n".join(["# measured, by hand", header, *rows])
    imported = import_logs("auto", [write(tmp_path, f"{name}.csv", text)], Options(device="MI300X"))
    expected = ["vendor", "device", *features.split(), *parameters.split(), "status", "time_ms"]
    assert list(imported.columns) == expected


def test_rows_for_where_the_winner_s_library_is_missing_are_no_winners(tmp_path: Path) -> None:
    head = "gfx,cu_num,token,kernelName1,us,_tag\n"
    rows = [f"gfx950,256,{t},{k},{us},{tag}\n" for t in (1, 2) for k, us, tag in FMOE]
    imported = import_logs("auto", [write(tmp_path, "tuned_fmoe.csv", head + "".join(rows))], Options())
    assert columns(imported, "token", "kernelName1") == [("1", "a"), ("2", "a")]
    assert "scenario" not in imported.columns
    assert "2 rows left out: for where the winner's library is missing" in imported.notes
    kept = import_logs(
        "auto", [write(tmp_path, "x_tuned_fmoe.csv", head + rows[0].replace(",\n", ",pinned\n"))], Options()
    )
    assert columns(kept, "kernelName1") == [("a",)]


FMOE = (("a", 10, ""), ("b", 15, "flydsl_fallback"))


def test_a_table_of_kernels_is_one_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="is of no known kind"):
        import_logs("auto", [write(tmp_path, "own.csv", "kernel,M,us\na,1,2.5\n")], Options())


# As AITER's tuners write it to --profile_file: every candidate of a shape, what did not run, what was wrong.
PROFILE = """\
gfx,cu_num,M,N,libtype,kernelId,us,kernelName,errRatio
gfx942,304,1,512,ck,3,12.5,k3,0.0
gfx942,304,1,512,ck,4,11.5,k4,0.04
gfx942,304,1,512,asm,3,1.5,k5,0.9
gfx942,304,2,512,ck,3,inf,None,1.0
gfx942,304,2,512,ck,4,13.5,k4,Null
gfx942,304,2,512,asm,3,-1,None,1.0
"""


def test_a_profile_holds_candidates_and_not_winners(tmp_path: Path) -> None:
    file = write(tmp_path, "profile.csv", PROFILE)
    imported = import_logs("auto", [file], Options())
    assert columns(imported, "M", "libtype", "kernelId", "status", "time_ms") == [
        ("1", "asm", "3", "incorrect", ""),
        ("1", "ck", "3", "ok", "0.0125"),
        ("1", "ck", "4", "ok", "0.0115"),
        ("2", "asm", "3", "invalid", ""),
        ("2", "ck", "3", "invalid", ""),
        ("2", "ck", "4", "ok", "0.0135"),
    ]
    assert "winners_only" not in imported.spec_text()
    assert (
        f"{file}: every candidate is there, not winners alone; 1 failed of an error above 0.05"
        in imported.notes
    )


def test_a_candidate_that_did_not_run_and_has_no_name_is_no_config(tmp_path: Path) -> None:
    text = (
        PROFILE.replace("libtype,kernelId,", "")
        .replace(",ck,3", "")
        .replace(",ck,4", "")
        .replace(",asm,3", "")
    )
    imported = import_logs(
        "auto",
        [
            write(
                tmp_path,
                "profile.csv",
                text + "gfx942,304,2,512,3.5,k3,0\n" * 2 + "gfx942,304,2,512,2.5,k5,0\n",
            )
        ],
        Options(),
    )
    assert columns(imported, "M", "kernelName") == [
        ("1", "k3"),
        ("1", "k4"),
        ("1", "k5"),
        *(("2", k) for k in ("k3", "k3", "k4", "k5")),
    ]
    assert "2 candidates without a time left out: nothing ran" in imported.notes


def test_winners_beside_a_profile_are_left_out(tmp_path: Path) -> None:
    files = [
        write(tmp_path, "a_tuned_profile.csv", PROFILE),
        write(tmp_path, "a_tuned.csv", PROFILE.partition("\ngfx942,304,1,512,asm")[0]),
    ]
    imported = import_logs("auto", files, Options())
    assert len(imported.rows) == 6
    assert f"{files[1]}: left out, it holds winners, and others every candidate" in imported.notes


def test_blank_rows_null_cells_and_columns_without_a_name_say_nothing(tmp_path: Path) -> None:
    """AITER's own reader drops them: spreadsheets and pandas leave them behind."""
    text = ",gfx,cu_num,M ,kernelId,splitK,us,\n0,gfx942,304,1,3,Null,5,\n1,gfx942,304,2,4,1,6,\t\n,,,,,,,\n"
    imported = import_logs("auto", [write(tmp_path, "a_tuned.csv", text)], Options())
    assert imported.columns[2:7] == ("M", "cu_num", "kernelId", "splitK", "status")
    assert columns(imported, "M", "kernelId", "splitK") == [("1", "3", ""), ("2", "4", "1")]


def test_a_column_that_was_added_behind_the_time_is_blank_in_older_rows(tmp_path: Path) -> None:
    """As gdr_decode_tuned.csv of late 2026 has it."""
    head = "arch,b,NUM_WARPS,duration,waves_per_eu\n"
    text = head + "gfx950,1,4,4.5\ngfx950,2,8,5.5,2\n"
    for line in ("", "gfx950,3,8,5.5,4"):
        imported = import_logs("auto", [write(tmp_path, "gdr_decode_tuned.csv", text + line)], Options())
        assert columns(imported, "b", "NUM_WARPS", "waves_per_eu")[:2] == [("1", "4", ""), ("2", "8", "2")]
    for line, n in (("gfx950,3,8\n", 3), ("gfx950,3,8,5", 4), ("gfx950,3,8,5.5,2,2\n", 6)):
        with pytest.raises(LogError, match=f":4: found {n} cells, expected 5"):
            import_logs("auto", [write(tmp_path, "gdr_decode_tuned.csv", text + line)], Options())


@pytest.mark.parametrize(
    ("name", "time"), [("gdr_decode_tuned.csv", "0.002"), ("hstu_attention_tuned.csv", "2.0")]
)
def test_a_duration_is_of_microseconds_but_for_hstu(tmp_path: Path, name: str, time: str) -> None:
    file = write(tmp_path, name, "arch,batch,head_dim,block_m,num_waves,duration\ngfx942,1,64,64,4,2.0\n")
    assert columns(import_logs("auto", [file], Options()), "num_waves", "time_ms") == [("4", time)]


def test_a_row_without_the_parameters_of_its_winner_is_torn(tmp_path: Path) -> None:
    """Blank ones would be another config's."""
    text = "cu_num,M,libtype,us,solidx,splitK,kernelName\n304,1,asm,3.5\n304,16,asm,4.5,2,0,k2\n"
    with pytest.raises(LogError, match=":2: found 4 cells, expected 7"):
        import_logs("auto", [write(tmp_path, "a8w8_tuned_gemm.csv", text)], Options(device="MI300X"))


def test_the_name_of_a_model_is_no_feature(tmp_path: Path) -> None:
    text = "model,arch,H,BV,us\nqwen,gfx942,8,16,2.0\nllama,gfx942,16,32,3.0\n"
    imported = import_logs("auto", [write(tmp_path, "x_tuned.csv", text)], Options())
    assert imported.columns == ("vendor", "device", "H", "BV", "status", "time_ms")


def test_kernels_of_other_kinds_are_other_kernels(tmp_path: Path) -> None:
    for kind in ("gemm", "gemm_of_a_model", "fmoe", "bmm", "batched_gemm"):
        write(tmp_path, f"a8w8_tuned_{kind}.csv", AITER + f"gfx942,304,{len(kind)},2,3\n")
    with pytest.raises(UsageError, match="--kernel a8w8 or a8w8_batched_gemm or a8w8_bmm or a8w8_fmoe"):
        import_logs("auto", [str(tmp_path)], Options())


def test_one_kernel_of_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, f"{name}_tuned.csv", AITER + f"gfx942,304,{ord(name)},2,3\n")
    with pytest.raises(UsageError, match=r"the files are of 2 kernels \(say which: --kernel a or b\)"):
        import_logs("auto", [str(tmp_path)], Options())
    imported = import_logs("auto", [str(tmp_path)], Options(kernel="b"))
    assert columns(imported, "M") == [("98",)]
    assert 'name = "b"' in imported.spec_text()


@pytest.mark.parametrize(
    ("path", "kernel", "device", "sizes"),
    [
        ("gfx942-GEMM-A16W16-N=512-K=64.json", "GEMM_A16W16", "gfx942", ("512", "64")),
        ("gemm/MI350X-BATCHED_GEMM-A8W8-N=512-K=64.json", "BATCHED_GEMM_A8W8", "MI350X", ("512", "64")),
        ("gfx942/gfx942-GEMM-A16W16-N=512-K=64.json", "GEMM_A16W16", "gfx942", ("512", "64")),
        ("R9700-GEMM-A16W16-ATOMIC-N=512-K=64.json", "GEMM_A16W16_ATOMIC", "R9700", ("512", "64")),
        (
            "gfx950/triton/gemm/gemm_a16w16/GEMM-A16W16-N=512-K=64.json",
            "gemm_a16w16",
            "gfx950",
            ("512", "64"),
        ),
        ("gfx950/triton/gemm/gemm_a16w16/DEFAULT.json", "gemm_a16w16", "gfx950", ()),
    ],
)
def test_what_the_path_of_triton_json_tells(
    tmp_path: Path, path: str, kernel: str, device: str, sizes: tuple[str, ...]
) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    write(tmp_path, path, '{"M_LEQ_64": {"BLOCK_SIZE_M": 16}, "any": {"BLOCK_SIZE_M": 32}}')
    imported = import_logs("auto", [str(tmp_path)], Options())
    assert f'name = "{kernel}"' in imported.spec_text()
    assert columns(imported, "device", *("N", "K")[: len(sizes)])[0] == (device, *sizes)


def test_the_default_for_other_sizes_is_left_out_beside_files_of_sizes(tmp_path: Path) -> None:
    for name, m in (("A-N=512-K=64", 4), ("A-N=64-K=64", 8), ("A", 16)):
        write(tmp_path, f"gfx942-{name}.json", f'{{"M_LEQ_{m}": {{"BLOCK_SIZE_M": {m}}}}}')
    imported = import_logs("aiter", [str(tmp_path)], Options())
    assert columns(imported, "M", "N") == [("4", "512"), ("8", "64")]
    assert any("gfx942-A.json: left out, it is for the sizes that have no file" in n for n in imported.notes)
