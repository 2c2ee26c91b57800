"""What the names of columns say of their roles."""

from __future__ import annotations

import pytest

from heurgen.logs.column_names import (
    BOOKKEEPING,
    is_failure,
    is_feature,
    is_label,
    is_parameter,
    is_result,
    is_share,
    looks_like_parameter,
    unit,
)


@pytest.mark.parametrize(
    "name",
    [
        "BLOCK_M", "block_size_n", "num_warps", "NUM_STAGES", "waves_per_eu", "split_k", "tile_size", "programs_per_sm",
        "CTAS_PER_SM", "num_blocks_per_sm", "waves_per_cu", "NUM_SEGMENTS_PER_SEQ", "NUM_TOKENS_PER_PROG",
    ],
)  # fmt: skip
def test_launch_knobs(name: str) -> None:
    """The last six are an outer loop of a sweep, or have the `seq` and `tokens` of features in them."""
    assert is_parameter(name)


@pytest.mark.parametrize(
    "name",
    [
        "tokens_per_seq",
        "pages_per_seq",
        "shared_memory_per_multiprocessor",
        "max_threads_per_sm",
        "warps_per_sm",
    ],
)
def test_what_a_sequence_has_and_a_device_holds_is_none(name: str) -> None:
    assert not is_parameter(name)


@pytest.mark.parametrize(
    "name",
    [
        "num_seqs",
        "max_seqlen_q",
        "head_dim",
        "M",
        "batch_size",
        "in_channels",
        "avg_context",
        "dtype",
        "SizeI",
        "size_k",
        "LDA",
        "HW",
        "OH",
        "KW",
        "IC",
        "CIN",
        "NKV",
        "world_size",
        "nranks",
        "message_bytes",
        "num_keys",
        "quant_type",
    ],
)
def test_features(name: str) -> None:
    assert is_feature(name)
    assert not is_parameter(name)


def test_a_page_size_is_no_knob_and_a_stride_no_count() -> None:
    assert not is_parameter("block_size")
    assert is_parameter("BLOCK_SIZE")
    assert not is_feature("num_warps")
    assert is_feature("num_kv_heads")


@pytest.mark.parametrize("name", ["commit", "run_id", "Kernel_Name", "timestamp", "driver_version"])
def test_labels(name: str) -> None:
    assert is_label(name)
    assert not is_label(f"my{name}zz")


@pytest.mark.parametrize(
    "name", ["tflops", "achieved_gbps", "p95", "time_std", "speedup", "GB/s", "TotalFlops"]
)
def test_results(name: str) -> None:
    assert is_result(name)


@pytest.mark.parametrize("text", ["nan", "-1", "--", "outofresources", "out of memory", "n/a"])
def test_texts_in_place_of_a_time(text: str) -> None:
    assert is_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "out of resource: shared memory, Required: 81920, Hardware limit: 65536. Reducing block sizes may help.",
        "HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016",
        "Memory access fault by GPU node-2",
        "hipError_t 719",
        "CUDA error 700",
    ],
)
def test_messages_with_numbers_are_failures(text: str) -> None:
    """`init` drafted no word for them, and the log was then refused at its first failure."""
    assert is_failure(text.lower())


@pytest.mark.parametrize(
    "text", ["1.5", "1.5 ms", "12us", "0x1f", "fp8", "default 3", "3 errors", "nov 30 2026"]
)
def test_numbers_with_a_unit_are_no_failures(text: str) -> None:
    assert not is_failure(text)


def test_capitals_and_counts_look_like_knobs() -> None:
    assert looks_like_parameter("STAGES")
    assert looks_like_parameter("num_things")
    assert not looks_like_parameter("M")
    assert not looks_like_parameter("Stages")


def test_shares_and_units() -> None:
    assert is_share("decode_share")
    assert not is_share("share")
    assert [unit(n) for n in ("max_seqlen_q", "num_seqs", "head_size")] == ["tokens", "sequences", ""]


def test_bookkeeping_names_are_lower_case_and_stand_once() -> None:
    names = [name for options in BOOKKEEPING.values() for name in options]
    assert names == [name.lower() for name in names]
    assert len(names) == len(set(names))
