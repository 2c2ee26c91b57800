# ruff: noqa: E501  (messages stand whole)
"""What Triton prints of its tunings: winners."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import import_logs
from tests.logs.importers.helpers import KEYS, Case, H, Wrong, cases, check_refusal, columns, write


def printed(
    key: str = "(8, 16, 'torch.float16')", config: str = "BLOCK: 16, num_warps: 4", kernel: str = "matmul"
) -> str:
    rest = "num_ctas: 1, num_stages: 3, maxnreg: None;"
    return f"Triton autotuning for function {kernel},\nwith key as {key},\nfinished after 0.41s,\nbest config selected: {config}, {rest}\n"


OLD = "Triton autotuning for function matmul finished after 0.48s; best config selected: BLOCK: 16, num_warps: 4;\n"
WRONG: Wrong = {
    "triton-printed": [
        ("log.txt", KEYS, "nothing\n", "FILE: found no tuning with its key: Triton before 3.4 prints none (heurgen record -- python "
         "PROGRAM writes every tuning down)"),
        ("log.txt", KEYS, OLD, "FILE: found no tuning with its key: Triton before 3.4 prints none (heurgen record -- python "
         "PROGRAM writes every tuning down)"),
        ("log.txt", KEYS, "\n" + printed(key="(8, f(1))"), "FILE:2: found the key '(8, f(1))', expected a tuple of plain values"),
        ("log.txt", KEYS, printed(key="(8, torch.f())"), "FILE:1: found the key '(8, torch.f())', expected a tuple of plain values"),
        ("log.txt", KEYS, printed(config="16"), "FILE:1: the winner of \"(8, 16, 'torch.float16')\" is '16, num_ctas: 1, num_stages: 3, "
         "maxnreg: None', expected 'NAME: value, NAME: value'"),
        ("log.txt", H, printed(), "Triton does not name its key, which holds '8', '16', 'torch.float16' (--keys M,N,K in the decorator's "
         "order, or --key-from file.py:function)"),
        ("log.txt", KEYS, printed() + printed(kernel="other"), "the files are of 2 kernels (--kernel matmul or other)"),
        ("log.txt", Options(device="NVIDIA H200", keys=("M", "N"), kernel="k"), printed(), "no file is of the kernel 'k' (found: matmul)"),
        ("log.txt", KEYS, printed(key="(8,)"), "FILE: column 'key': its key (8) is not M, N, then dtypes: it is too short (--keys names "
         "the decorator's key in its order)"),
        ("log.txt", KEYS, printed(key="(8, 'a b ')"), "FILE: column 'line 1: key': found 'a b ', expected text of 1 to 4096 printable "
         "characters, without spaces around it"),
        ("log.txt", KEYS, printed(config="BLOCK: 1, BLOCK: 2"), "FILE:1: the winner of \"(8, 16, 'torch.float16')\" names BLOCK twice"),
        ("log.txt", Options(keys=("M", "N")), printed(), "FILE does not say the device (say which: --device NAME)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), cases(WRONG))
def test_wrong_files(tmp_path: Path, kind: str, case: Case) -> None:
    check_refusal(tmp_path, kind, case)


def test_winners(tmp_path: Path) -> None:
    text = (
        "started\n"
        + printed()
        + OLD
        + printed(key="(64, None, 'torch.float16')", config="BLOCK: 64, num_warps: 8")
    )
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], KEYS)
    assert imported.columns == (
        "vendor",
        "device",
        "M",
        "N",
        "BLOCK",
        "num_warps",
        "num_stages",
        "status",
        "time_ms",
    )
    assert columns(imported, "M", "N", "BLOCK", "num_warps") == [
        ("8", "16", "16", "4"),
        ("64", "none", "64", "8"),
    ]
    assert "1 tuning without a key or a config left out" in imported.notes
    assert "winners_only = true" in imported.spec_text()
    assert 'name = "matmul"' in imported.spec_text()


def test_a_dtype_in_the_key_is_a_value(tmp_path: Path) -> None:
    """A key that names one (`key=["M", "dtype"]`) prints it without quotes: the whole file was refused."""
    text = printed(key="(8, torch.float16, 'torch.float16')")
    text += printed(key="(8, torch.float8_e4m3fn, 'torch.float8_e4m3fn')", config="BLOCK: 32, num_warps: 4")
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], KEYS)
    assert columns(imported, "M", "N", "BLOCK") == [
        ("8", "torch.float16", "16"),
        ("8", "torch.float8_e4m3fn", "32"),
    ]


def test_processes_that_tune_at_the_same_time(tmp_path: Path) -> None:
    first, second = (
        [
            f"(Worker pid={pid}) {line}"
            for line in printed(key=f"({pid}, 1)", config=f"BLOCK: {pid}").splitlines()
        ]
        for pid in (16, 32)
    )
    text = "\n".join(line for pair in zip(first, second, strict=True) for line in pair)
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], KEYS)
    assert columns(imported, "M", "BLOCK") == [("16", "16"), ("32", "32")]


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-27T10:00:00,123 [INFO ] W-9000-llama_1.0-stdout MODEL_LOG - ",
        *("vllm-1  | (Worker pid=9) ", "[pod/vllm-0/server] ", "2026-11-27T10:00:00.1Z stdout F [rank0]: "),
        *("Nov 27 10:00:00 node python[12]: ", "2026-11-27 10:00:00,123 - root - INFO - ", "[a.py:5] "),
    ],
)
def test_what_loggers_write_before_each_line(tmp_path: Path, prefix: str) -> None:
    """A line of a tuning after the first was no line of it, and the tuning was left out."""
    text = "".join(f"{prefix}{line}\n" for line in ["started", *printed().splitlines()])
    imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], KEYS)
    assert columns(imported, "M", "BLOCK") == [("8", "16")]


def test_a_process_whose_lines_have_their_times(tmp_path: Path) -> None:
    """The day and second change within a tuning; they are no process."""
    for stamps in (
        [f"2026-11-27T23:59:{58 + i}Z " for i in range(2)] + ["2026-11-28T00:00:00Z "] * 2,
        [f"Nov 27 23:59:{58 + i} n p[1]: " for i in range(2)] + ["Nov 28 00:00:00 n p[1]: "] * 2,
    ):
        text = "".join(f"{a}{b}\n" for a, b in zip(stamps, printed().splitlines(), strict=True))
        imported = import_logs("auto", [write(tmp_path, "stderr.txt", text)], KEYS)
        assert columns(imported, "M", "BLOCK") == [("8", "16")]
