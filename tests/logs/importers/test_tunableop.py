# ruff: noqa: E501  (messages stand whole)
"""What PyTorch's TunableOp writes: winners."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import Case, Wrong, cases, check_refusal, columns, write

ANY = Options()
GEMM = Options(kernel="Gemm")


def head(arch: str = "gfx942:sramecc+:xnack-", library: str = "100-ab") -> str:
    names = {
        "PT_VERSION": "2.9.1",
        "HIPBLASLT_VERSION": library,
        "GCN_ARCH_NAME": arch,
        "ROCBLAS_VERSION": "5.2",
    }
    return "".join(f"Validator,{name},{value}\n" for name, value in names.items())


def row(
    sizes: str = "tn_64_8_32_ld_32_32_64", rest: str = "Gemm_Hipblaslt_7,0.5", operator: str = "Gemm"
) -> str:
    return f"{operator}TunableOp_BFloat16_{sizes[:2].upper()},{sizes},{rest}\n"


def test_winners_with_their_sizes(tmp_path: Path) -> None:
    """It was of no known kind. A default that was never tuned has no time, or an infinite one, and won nothing."""
    text = head() + row() + row("nn_64_16_32_ld_64_32_64", "Default,0.25")
    text += row("tn_64_32_32_ld_32_32_64", "Default,inf") + row("tn_64_64_32_ld_32_32_64", "Default,0")
    imported = import_logs("auto", [write(tmp_path, "tunableop_results0.csv", text)], ANY)
    assert imported.notes[:2] == ("tunableop files", "2 problems left out: the default stands there untuned")
    assert columns(
        imported, "vendor", "device", "dtype", "layout", "M", "N", "K", "lda", "solution", "time_ms"
    ) == [
        ("amd", "gfx942", "BFloat16", "NN", "64", "16", "32", "64", "Default", "0.25"),
        ("amd", "gfx942", "BFloat16", "TN", "64", "8", "32", "32", "Gemm_Hipblaslt_7", "0.5"),
    ]
    spec = parse_spec(imported.spec_text())
    assert spec.log.winners_only
    assert spec.name == "Gemm"


def test_operators_are_kernels_with_features_of_their_own(tmp_path: Path) -> None:
    batched = row("nn_64_8_32_B_12_ld_64_32_64", "Gemm_Rocblas_-9,0.5", "GemmStridedBatched")
    scaled = (
        "ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_64_8_32_ld_32_32_64_rw_1_bias_None,"
        "Gemm_Hipblaslt_3,0.5,BLAS_PARAMS: - { function: matmul, M: 64 }\n"
    )
    file = write(tmp_path, "t.csv", head() + row() + batched + scaled)
    read = import_logs("tunableop", [file], Options(kernel="GemmStridedBatched"))
    assert columns(read, "B", "M", "solution") == [("12", "64", "Gemm_Rocblas_-9")]
    read = import_logs("tunableop", [file], Options(kernel="ScaledGemm"))
    assert columns(read, "dtype", "rowwise", "bias", "time_ms") == [
        ("Float8_e4m3fn_Float8_e4m3fn_BFloat16", "1", "None", "0.5")
    ]


def test_older_files_have_neither_leading_dimensions_nor_validators_nor_times(tmp_path: Path) -> None:
    text = row("nt_64_8_32", "1219,1.5") + row("nt_64_4_32", "1216")
    imported = import_logs("auto", [write(tmp_path, "t.csv", text)], Options(device="MI250X"))
    assert columns(imported, "M", "N", "K", "solution", "time_ms") == [
        ("64", "4", "32", "1216", ""),
        ("64", "8", "32", "1219", "1.5"),
    ]


def test_what_torch_2_15_says_at_the_end_of_the_sizes(tmp_path: Path) -> None:
    """A whole file was refused for one product in bfloat16x9, with swizzled scales, or of a dynamic size."""
    text = head() + row() + row("tn_64_8_32_ld_32_32_64_compute_bf16x9_r", "Gemm_Hipblaslt_8,0.25")
    text += row("tn_*_8_32_ld_32_32_*", "Gemm_Hipblaslt_7,0.5")
    scaled = "tn_64_8_32_ld_32_32_64_rw_0_bias_None"
    text += row(scaled, operator="ScaledGemm") + row(f"{scaled}_swz_1_1", operator="ScaledGemm")
    file = write(tmp_path, "t.csv", text)
    read = import_logs("auto", [file], GEMM)
    assert "1 winner of dynamic sizes left out: tuned for another size" in read.notes
    assert columns(read, "M", "compute", "solution") == [
        ("64", "bf16x9_r", "Gemm_Hipblaslt_8"),
        ("64", "none", "Gemm_Hipblaslt_7"),
    ]
    read = import_logs("auto", [file], Options(kernel="ScaledGemm"))
    assert columns(read, "bias", "swizzle") == [("None", "1_1"), ("None", "none")]


def test_scaled_products_on_nvidia(tmp_path: Path) -> None:
    """torch 2.15 tunes cuBLASLt's candidates, too; what their products say comes in other words than on AMD."""
    sizes = (
        "tn_64_8_32_ld_32_32_64_a_Float8_e4m3fn_b_Float8_e4m3fn_c_BFloat16_as_Float_bs_Float_"
        "ast_0_bst_1_dscale_0_fast_1_bias_None"
    )
    text = row(sizes, "Gemm_Cublaslt_id_66_tile_20_stages_36_splitk_1,0.5", "ScaledGemm")
    imported = import_logs("auto", [write(tmp_path, "t.csv", text)], Options(device="NVIDIA H200"))
    names = ("M", "ldc", "scale_a", "scaling_b", "fast_accum", "bias", "solution")
    assert columns(imported, *names) == [
        ("64", "64", "Float", "1", "1", "None", "Gemm_Cublaslt_id_66_tile_20_stages_36_splitk_1")
    ]


def test_files_of_several_processes_are_one_log(tmp_path: Path) -> None:
    """Tunings of one problem are two scenarios."""
    files = [write(tmp_path, f"r{i}.csv", head() + row(rest=f"Gemm_Hipblaslt_{i},0.5")) for i in range(2)]
    imported = import_logs("tunableop", files, ANY)
    assert columns(imported, "scenario", "M", "solution") == [
        ("0", "64", "Gemm_Hipblaslt_0"),
        ("1", "64", "Gemm_Hipblaslt_1"),
    ]


def test_solutions_of_two_builds_are_not_the_same(tmp_path: Path) -> None:
    files = [write(tmp_path, f"r{v}.csv", head(library=v) + row()) for v in ("1", "2")]
    with pytest.raises(
        Exception, match=r"r2.csv: the tunings are of 2 builds of the libraries \(1, 5.2; 2, 5.2\), whose"
    ):
        import_logs("tunableop", files, ANY)


SIZES = "expected sizes: tn_<M>_<N>_<K>, then ld and so on"
WRONG: Wrong = {
    "tunableop": [
        ("t.csv", ANY, head() + "text\n", "FILE:5: found 'text', expected an operator: GemmTunableOp_..."),
        ("t.csv", ANY, head(), "the files hold no measurement that tunableop wrote"),
        ("t.csv", ANY, head() + row(rest="Default,0"), "the files hold no measurement that tunableop wrote"),
        ("t.csv", ANY, row(), "FILE does not say the device (say which: --device NAME)"),
        ("t.csv", ANY, "GemmTunableOp_float_NT,nt_8_8_8\n", "FILE:1: the solution is missing (a list of problems that are still to be tuned?)"),
        ("t.csv", ANY, head() + row("tn_64_8"), f"FILE:5: found 'tn_64_8', {SIZES}"),
        ("t.csv", ANY, head() + row("tn_64_8_32_ld_32"), f"FILE:5: found 'tn_64_8_32_ld_32', {SIZES}"),
        ("t.csv", ANY, head() + row("tn_64_8_-32"), f"FILE:5: found 'tn_64_8_-32', {SIZES}"),
        ("t.csv", ANY, head() + row(rest=",0.5"), "FILE: column 'line 5: solution': found '', expected text of 1 to 4096 printable "
         "characters, without spaces around it"),
        ("t.csv", ANY, head() + row(rest="x,fast"), "FILE:5: column 'time': found 'fast', expected a number"),
        ("t.csv", ANY, head() + row(rest="x,-1"), "FILE: column 'line 5: time': found '-1.0', expected a finite time above 0, or Infinity"),
        ("t.csv", ANY, head() + row() + row(operator="GemmAndBias"), "the files are of 2 kernels (say which: --kernel Gemm or GemmAndBias)"),
        ("t.csv", GEMM, head() + row(operator="GemmAndBias"), "no file is of the kernel 'Gemm' (found: GemmAndBias)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)
