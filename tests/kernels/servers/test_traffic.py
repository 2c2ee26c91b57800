"""Live traffic's log, as variables of the environment ask for it."""

from __future__ import annotations

import pytest
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
