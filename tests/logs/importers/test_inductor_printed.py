"""What Inductor's max-autotune prints: tunings, their sizes, strides and dtypes, and what other writers put between."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.registry import import_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.importers.helpers import (
    H,
    columns,
    write,
)

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


def printed(*choices: str) -> str:
    head = "AUTOTUNE mm(64x4096, 4096x128)\nstrides: [4096, 1], [1, 4096]\ndtypes: torch.bfloat16, torch.bfloat16\n"
    return head + "".join(f"  {c}\n" for c in choices)


@pytest.mark.parametrize(
    ("name", "said", "config"),
    [
        ("decompose_k_mm_32_split_{}", "k_split=32", {"type": "decompose_k", "k_split": "32"}),
        ("decompose_k_mm_16_split_{}", "", {"type": "decompose_k", "k_split": "16"}),
        ("contiguous_addmm_{}", "contiguous addmm", {"type": "contiguous_addmm"}),
        ("nv_universal_gemm_{}", "nv_universal_gemm tile128", {"type": "nv_universal_gemm", "kernel": "tile128"}),
        ("nv_universal_gemm_{}", "nv_universal_gemm tile128 swap_ab bias",
         {"type": "nv_universal_gemm", "kernel": "tile128", "swap_ab": "True", "bias": "True"}),
        ("flydsl_mm_flydsl_{}", "FlyDSL template flydsl_mm_flydsl_3 (TILE_M=128, TMA=True)",
         {"type": "flydsl_mm_flydsl", "TILE_M": "128", "TMA": "True"}),
        ("cutlass_{}a8", "cutlass3x_sm90 swizzle=2", {"type": "cutlass", "kernel": "cutlass3x_sm90", "swizzle": "2"}),
        ("cutedsl_gg_{}", "CuteDSL template cutedsl_gg_3 (TILE_M=128, TMA=True)",
         {"type": "cutedsl_gg", "TILE_M": "128", "TMA": "True"}),
        ("triton_mm_persistent_tma_{}", "BLOCK_K=64", {"type": "triton::mm_persistent_tma", "BLOCK_K": "64"}),
        ("triton_bmm_{}", "BLOCK_K=64", {"type": "triton", "BLOCK_K": "64"}),
        ("_scaled_mm", "", {"type": "_scaled_mm"}),
    ],
)  # fmt: skip
def test_the_number_that_a_tuning_gives_a_choice_is_no_part_of_its_config(
    tmp_path: Path, name: str, said: str, config: dict[str, str]
) -> None:
    other = "triton_mm_9 0.05 ms 50.0% BLOCK_K=32"
    text = "".join(
        printed(f"{name.format(i)} 0.01 ms 100.0% {said}", other).replace("64x4096", f"{i}x4096")
        for i in (1, 2)
    )
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    found = [
        {n: v for n, v in zip(imported.columns, row, strict=True) if v and n in parameters(imported)}
        for row in imported.rows
        if row[-1] == "0.01"
    ]
    assert found == [config, config]


def parameters(imported: Imported) -> list[str]:
    return [p.name for p in parse_spec(imported.spec_text()).parameters]


def test_printed_templates_of_equal_parameters_are_two_configs(tmp_path: Path) -> None:
    text = printed("triton_mm_1 0.2 ms 50% BLOCK_K=64", "triton_mm_persistent_tma_2 0.1 ms 100% BLOCK_K=64")
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    assert columns(imported, "type", "time_ms") == [("triton", "0.2"), ("triton::mm_persistent_tma", "0.1")]


def test_printed_products_of_one_shape_and_other_strides_are_other_scenarios(tmp_path: Path) -> None:
    turned = PRINTED.replace("[1, 4096]", "[128, 1]").replace("0.03", "0.04")
    cut = PRINTED.replace("[4096, 1]", "[4104, 1]").replace("0.03", "0.05")
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", PRINTED + turned + cut)], H)
    assert columns(imported, "arg0_layout", "arg1_layout", "type", "time_ms") == [
        ("4104x1", "column", "mm", "0.0512"),
        ("4104x1", "column", "triton", "0.0297"),
        ("row", "column", "mm", "0.0312"),
        ("row", "column", "triton", "0.0297"),
        ("row", "row", "mm", "0.0412"),
        ("row", "row", "triton", "0.0297"),
    ]
    spec = parse_spec(imported.spec_text())
    assert [f.name for f in spec.features] == ["arg0_layout", "arg1_layout"]
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", PRINTED + turned.replace("64x", "8x"))], H)
    assert [f.name for f in parse_spec(imported.spec_text()).features] == ["M", "arg1_layout"]


def test_what_templates_are_told_of_the_problem_is_no_choice(tmp_path: Path) -> None:
    """Convolutions of one shape and other strides are two launches, which the same configs serve."""
    head = "AUTOTUNE convolution(1x3x8x8, 16x3x3x3)\n  convolution {} ms 100.0%\n"
    choice = "  triton_convolution2d_{} {} ms 50.0% ALLOW_TF32=True, BLOCK_M={}, GROUPS=1, STRIDE_H={}, UNROLL=False\n"
    text = "".join(
        head.format(stride) + "".join(choice.format(i, 2 * stride, i, stride) for i in (32, 64))
        for stride in (1, 2)
    )
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    assert columns(imported, "STRIDE_H", "type", "BLOCK_M", "time_ms") == [
        *(("1", "convolution", "", "1.0"), ("1", "triton", "32", "2.0"), ("1", "triton", "64", "2.0")),
        *(("2", "convolution", "", "2.0"), ("2", "triton", "32", "4.0"), ("2", "triton", "64", "4.0")),
    ]
    spec = parse_spec(imported.spec_text())
    assert [f.name for f in spec.features] == ["STRIDE_H"]
    assert [p.name for p in spec.parameters] == ["type", "ALLOW_TF32", "BLOCK_M"]


def test_a_problem_without_a_template_is_left_out(tmp_path: Path) -> None:
    """A transposed convolution takes none: nothing says its strides, and it refused the whole file."""
    head = "AUTOTUNE convolution({}x3x8x8, 16x3x1x1)\n  convolution 1.0 ms 100.0%\n  conv1x1_via_mm 2.0 ms 50.0%\n"
    choice = "  triton_convolution2d_1 2.0 ms 50.0% BLOCK_M=32, GROUPS=1, STRIDE_H=2\n"
    file = write(tmp_path, "stderr.txt", head.format(1) + choice + head.format(2))
    imported = import_logs("auto", [file], H)
    assert columns(imported, "STRIDE_H", "type") == [
        ("2", "conv1x1_via_mm"),
        ("2", "convolution"),
        ("2", "triton"),
    ]
    said = "1 problem without a template left out: nothing says GROUPS, STRIDE_H"
    assert said in imported.notes
    # Where no problem has one, their shapes are all that is known.
    file = write(tmp_path, "stderr.txt", head.format(1) + head.format(2))
    assert len(columns(import_logs("auto", [file], H), "type")) == 4


def test_options_of_flex_attention_are_of_the_launch(tmp_path: Path) -> None:
    told = "FLOAT32_PRECISION=\"'ieee'\", GQA_SHARED_HEADS=2, QK_HEAD_DIM=64, SM_SCALE=0.125, num_warps=4"
    text = "AUTOTUNE flex_attention(1x2x64x64, 1x1x64x64)\n" + "".join(
        f"  triton_flex_attention_{i} 0.{i} ms 50.0% BLOCK_M={m}, BLOCK_N=64, {told}\n"
        for i, m in ((1, 64), (2, 128))
    )
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    assert [p.name for p in parse_spec(imported.spec_text()).parameters] == [
        "type",
        "BLOCK_M",
        "BLOCK_N",
        "num_warps",
    ]
    assert columns(imported, "FLOAT32_PRECISION", "GQA_SHARED_HEADS", "SM_SCALE")[0] == ("ieee", "2", "0.125")


def test_what_sizes_and_layouts_of_a_product_imply_is_no_parameter(tmp_path: Path) -> None:
    even = "triton_mm_persistent_tma_1 0.1 ms 100% A_ROW_MAJOR=True, B_ROW_MAJOR=False, BLOCK_K=64, EVEN_K={}"
    text = printed(even.format("True")) + printed(even.format("False")).replace("4096x", "4100x").replace(
        "x4096", "x4100"
    )
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text.replace("[4096", "[4100"))], H)
    assert [p.name for p in parse_spec(imported.spec_text()).parameters] == ["type", "BLOCK_K"]


@pytest.mark.parametrize(
    ("kind", "sizes", "strides", "layouts"),
    [
        ("addmm", "64x8, 64x16, 16x8", "[0, 1], [16, 1], [1, 16]", ("0x1", "row", "column")),
        ("bmm", "4x1x16, 4x16x8", "[16, 999, 1], [128, 1, 16]", ("row", "column")),
        ("scaled_mm", "64x16, 16x8, 64x1, , 8", "(16, 1), (1, 16), [1, 1], [], [1]", ("row", "column")),
        ("convolution", "2x3x8x9, 4x3x3x3", "[216, 1, 27, 3], [27, 9, 3, 1]", ("channels_last", "row")),
        ("convolution", "2x3x8, 4x3x3", "[24, 1, 3], [9, 3, 1]", ("column", "row")),
        ("mm", "64x16, 16x8", "[16, 1], [s0, 1]", ("symbolic", "symbolic")),
        ("addmm", "8, 64x16, 16x8", "[1], [64*(((s0 + 7)//8)), 1], [1, Max(1, s0)]", ("symbolic",) * 3),
        ("mv", "64x16, 16", "[16, 1], [2]", ("row", "2")),
    ],
)
def test_how_operands_lie_in_memory(
    tmp_path: Path, kind: str, sizes: str, strides: str, layouts: tuple[str, ...]
) -> None:
    text = f"AUTOTUNE {kind}({sizes})\nstrides: {strides}\n  extern 0.5 ms 100.0%\n"
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    named = [c for c in imported.columns if c.endswith("_layout")]
    assert named == [f"arg{i}_layout" for i in range(len(layouts))]
    assert columns(imported, *named) == [layouts]


def test_products_of_several_dtypes_are_other_problems_than_those_of_the_first_alone(tmp_path: Path) -> None:
    text = ""
    for kind, shapes, dtypes in (
        ("mm", "16x32, 32x8", "torch.bfloat16, torch.bfloat16"),
        ("mm", "16x32, 32x8", "torch.bfloat16, torch.int8"),
        ("addmm", "8, 16x32, 32x8", "torch.float32, torch.bfloat16, torch.bfloat16"),
        (
            "scaled_mm",
            "16x32, 32x8, , ",
            "torch.float8_e4m3fn, torch.float8_e4m3fn, torch.float32, torch.float32",
        ),
    ):
        text += f"AUTOTUNE {kind}({shapes})\ndtypes: {dtypes}\n  {kind} 0.5 ms 100.0% \n"
    file = write(tmp_path, "log.txt", text)
    for kind, found in (
        ("mm", ["bfloat16", "bfloat16,int8"]),
        ("addmm", ["float32,bfloat16,bfloat16"]),
        ("scaled_mm", ["float8_e4m3fn"]),
    ):
        imported = import_logs("auto", [file], Options(device="NVIDIA H200", kernel=kind))
        assert [d for (d,) in columns(imported, "dtype")] == found


def test_printed_choices_whose_parameters_are_wrapped(tmp_path: Path) -> None:
    head, _, tail = PRINTED.partition("  triton_mm_12")
    wrapped = """\
triton_mm_12  0.0297 ms  100.0%
  ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=64,
  num_stages=3, num_warps=4

"""
    for block in (head + wrapped + tail.partition("\n")[2], PRINTED.replace("12 0", "12  0")):
        text = block.replace("AUTOTUNE benchmarking takes", "AUTOTUNE takes")
        imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
        assert columns(imported, "type", "ALLOW_TF32", "BLOCK_K", "num_stages", "num_warps", "time_ms") == [
            ("mm", "", "", "", "", "0.0312"),
            ("triton", "False", "64", "3", "4", "0.0297"),
        ]
        assert imported.notes == ("inductor files", "2 rows, 0 of them failed")
    last = head + wrapped.partition("\n\n")[0]
    assert columns(import_logs("auto", [write(tmp_path, "stderr.txt", last)], H), "num_warps") == [("4",)]


@pytest.mark.parametrize(
    "prefix",
    [
        *("[rank0]: ", "[default3]:", "I0101 10:00:00.123 12 torch/_inductor/select.py:5] [0/0] ", "0: "),
        *(
            "[1,0]<stderr>:",
            "(Worker_TP0 pid=27) ",
            "\x1b[36m(Ray pid=9, ip=10.0.0.1)\x1b[0m ",
            "(E pid=1) [a.py:5] ",
        ),
        "2026-11-27T10:00:00,123 [INFO ] W-9000-llama_1.0-stderr MODEL_LOG - ",
        *(
            "vllm-1  | ",
            "vllm-1  | (Worker pid=9) ",
            "[pod/vllm-0/server] ",
            "2026-11-27T10:00:00.1Z stderr F ",
        ),
        *("Nov 27 10:00:00 node python[12]: ", "2026-11-27 10:00:00,123 - root - INFO - ", "INFO:root:"),
    ],
)
def test_what_launchers_and_loggers_write_before_each_line(tmp_path: Path, prefix: str) -> None:
    text = "".join(prefix + line + "\n" for line in ["started", *PRINTED.splitlines()])
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    assert columns(imported, "M", "dtype", "type", "BLOCK_K", "num_warps") == [
        ("64", "bfloat16", "mm", "", ""),
        ("64", "bfloat16", "triton", "64", "4"),
    ]


def test_what_a_logger_writes_before_a_message_of_several_lines(tmp_path: Path) -> None:
    """The tuning was left out, and told to be one of symbolic sizes."""
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", "INFO worker " + PRINTED)], H)
    assert columns(imported, "M", "type") == [("64", "mm"), ("64", "triton")]
    assert imported.notes == ("inductor files", "2 rows, 0 of them failed")


@pytest.mark.parametrize(
    "prefixes",
    [
        ("[rank0]: ", "[rank1]: "),
        ("(Worker_TP0 pid=1) ", "(Worker_TP1 pid=2) "),
        (
            "2026-11-27T10:00:00,1 [INFO ] W-9000-m_1.0-stderr MODEL_LOG - ",
            "2026-11-27T10:00:00,2 [INFO ] W-9001-m_1.0-stderr MODEL_LOG - ",
        ),
        ("vllm-1  | [rank0]: ", "vllm-1  | [rank1]: "),
        ("vllm-1  | [rank0]: ", "vllm-2  | [rank0]: "),
        ("2026-11-27T10:00:00.1Z [rank0]: ", "2026-11-27T10:00:00.2Z [rank1]: "),
        ("Nov 27 10:00:00 n python[1]: ", "Nov 27 10:00:00 n python[2]: "),
    ],
)
def test_the_mixed_lines_of_processes_that_tune_at_the_same_time(
    tmp_path: Path, prefixes: tuple[str, str]
) -> None:
    """The choices of one were those of the shape that the other had begun."""
    other = PRINTED.replace("64x4096", "8x4096").replace("0.02", "0.01").replace("0.03", "0.05")
    mixed = zip(PRINTED.splitlines(), other.splitlines(), strict=True)
    text = "".join(f"{prefixes[0]}{a}\n{prefixes[1]}{b}\n" for a, b in mixed)
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    assert columns(imported, "M", "type", "time_ms") == [
        ("8", "mm", "0.0512"),
        ("8", "triton", "0.0197"),
        ("64", "mm", "0.0312"),
        ("64", "triton", "0.0297"),
    ]


def test_a_tuning_that_goes_on_behind_the_full_hour_is_of_one_process(tmp_path: Path) -> None:
    hours = ["10:59:59: ", *["11:00:00: "] * PRINTED.count("\n")]
    text = "".join(f"{hour}{line}\n" for hour, line in zip(hours, PRINTED.splitlines(), strict=False))
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
    assert columns(imported, "M", "type") == [("64", "mm"), ("64", "triton")]


def test_printed_choices_of_symbolic_sizes_are_not_taken_for_those_of_the_shape_before(
    tmp_path: Path,
) -> None:
    symbolic = PRINTED.replace("64x4096,", "s77x4096,").replace("0.02", "0.01")
    for text in (PRINTED + symbolic, PRINTED.replace("SingleProcess", "SubProcess") + symbolic + PRINTED):
        imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], H)
        assert set(columns(imported, "M", "time_ms")) == {("64", "0.0312"), ("64", "0.0297")}
        assert "1 tuning of symbolic sizes left out" in imported.notes
