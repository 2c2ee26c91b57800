"""Live traffic's log, as variables of the environment ask for it."""

from __future__ import annotations

import csv
from inspect import signature

import pytest
from heurgen_kernels.heuristics import paged_attention, paged_attention_fp8
from heurgen_kernels.host.hardware import VENDOR
from heurgen_kernels.servers.vllm.traffic import traffic_of

BATCH = {
    "num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, "dtype": "bfloat16",
    "window": 1 << 30, "softcap": False, "sinks": False, "num_seqs": 3, "total_query_tokens": 3, "max_seqlen_q": 1,
    "max_seqlen_k": 5000, "total_seqlen_k": 9000, "fresh": False,
}  # fmt: skip


@pytest.mark.parametrize("share", ["x", "", "2", "nan"])
def test_a_share_that_is_none_is_named(share, tmp_path):
    asked = {"HEURGEN_TRAFFIC": str(tmp_path / "t.csv"), "HEURGEN_TRAFFIC_SAMPLE": share}
    with pytest.raises(
        ValueError, match=f"HEURGEN_TRAFFIC_SAMPLE is '{share}'; expected a share from 0 to 1"
    ):
        traffic_of(asked)


def test_a_file_that_cannot_be_written_is_said_once(tmp_path, caplog):
    write = traffic_of({"HEURGEN_TRAFFIC": str(tmp_path / "no" / "t.csv"), "HEURGEN_TRAFFIC_SAMPLE": "1"})
    for _ in range(3):
        write(BATCH)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("heurgen writes no traffic to ")


@pytest.mark.parametrize("fp8", [False, True])
def test_the_selector_that_answers_says_what_training_has_seen(fp8, tmp_path):
    """A share of 0 writes what it has not; both write the same columns, since a server may have caches of both."""
    path, modules = tmp_path / "t.csv", (paged_attention, paged_attention_fp8)
    write = traffic_of({"HEURGEN_TRAFFIC": str(path), "HEURGEN_TRAFFIC_SAMPLE": "0"}, fp8)
    least, most = sorted(module.DOMAIN["max_seqlen_k"]["high"] for module in modules)
    lengths = (least, (least + most) // 2, most + 1)
    for longest in lengths:
        one = {"num_seqs": 1, "total_query_tokens": 1, "max_seqlen_k": longest, "total_seqlen_k": longest}
        write({**BATCH, "dtype": "float8_e4m3fn", **one})
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    seen = modules[fp8].DOMAIN["max_seqlen_k"]["high"]
    assert [int(row["max_seqlen_k"]) for row in rows] == [longest for longest in lengths if longest > seen]
    assert [*rows[0]] == [*signature(modules[not fp8].SELECTORS["nvidia"]).parameters, "count"]


def test_a_selector_without_the_ranges_of_its_training_is_not_a_share(tmp_path):
    """The message was of HEURGEN_TRAFFIC_SAMPLE, whatever was wrong."""
    own = tmp_path / "own.py"
    own.write_text(
        f"PROVENANCE = {{'kernel': 'paged_attention'}}\nSELECTORS = {{{VENDOR!r}: lambda num_seqs: None}}\n"
    )
    with pytest.raises(ValueError, match="the domain of the selector is unknown"):
        traffic_of({"HEURGEN_TRAFFIC": str(tmp_path / "t.csv"), "HEURGEN_SELECTOR": str(own)})
