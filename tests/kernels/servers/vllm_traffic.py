"""Checks of the loop from traffic to a selector of one's own; run by vllm_child.py."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from heurgen_kernels import heuristics
from heurgen_kernels.host.select import FEATURES
from heurgen_kernels.servers.vllm import warm

from tests.kernels.servers.vllm_batch import Batch, error_of
from tests.kernels.servers.vllm_calls import DECODES, MIXED, PROMPTS, Spied, builder_of, impl_of


def traffic_of(serve, impl):
    """Rows of the traffic while serve(builder) runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "traffic.csv")
        os.environ |= {"HEURGEN_TRAFFIC": path, "HEURGEN_TRAFFIC_SAMPLE": "1"}
        builder = builder_of(impl)
        del os.environ["HEURGEN_TRAFFIC"]
        serve(builder)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return list(csv.DictReader(file))


def check_batches_of_live_traffic_become_a_csv():
    """Once a batch, however many layers it has; vLLM builds metadata for replays too, whose layers do not run."""
    impl = impl_of()

    def serve(builder):
        for lengths, layers in ((MIXED, 2), (PROMPTS, 1), (DECODES, 0)):
            batch = Batch(lengths)
            metadata = builder.build(0, batch.common)
            for _ in range(layers):
                batch.forward(impl, metadata)
        batch = Batch(MIXED)  # recorded: what it says of lengths is no traffic
        batch.forward(impl, builder.build_for_cudagraph_capture(batch.common))

    names = ("num_seqs", "max_seqlen_q", "total_seqlen_k", "fresh", "dtype", "count")
    # heads of 32 lie outside training: a row for that beside the sample
    mixed, prompts = ("3", "17", "94", "false", "float16", "1"), ("2", "33", "53", "true", "float16", "1")
    assert [tuple(row[n] for n in names) for row in traffic_of(serve, impl)] == [
        mixed,
        mixed,
        prompts,
        prompts,
    ]


def check_traffic_has_the_layer_s_own_heads():
    """A draft model's, say, where vLLM's configuration is the model's."""
    impl = impl_of(num_heads=6, num_kv_heads=3, head_size=64, scale=0.125)
    (row, *_) = traffic_of(lambda builder: builder.build(0, Batch(MIXED).common).observe(fresh=False), impl)
    assert (row["num_query_heads"], row["num_kv_heads"], row["head_size"]) == ("6", "3", "64")


def check_traffic_over_fp8_pages_is_of_their_type():
    """To vLLM they are bytes, a type that no log has: `advise` would skip such rows."""
    batch, impl = Batch(MIXED), impl_of(kv_cache_dtype="fp8")
    batch.kv_cache = batch.kv_cache.nan_to_num().to(torch.float8_e4m3fn)
    rows = traffic_of(lambda builder: batch.forward(impl, builder.build(0, batch.common)), impl)
    assert {row["dtype"] for row in rows} == {"float8_e4m3fn"}


def check_a_selector_of_one_s_own_is_asked_by_layers_whose_pages_it_knows():
    folder = Path(heuristics.__file__).parent
    try:
        os.environ["HEURGEN_SELECTOR"] = str(folder / "paged_attention.py")
        batch, impl, fp8 = Batch(MIXED), impl_of(), impl_of(kv_cache_dtype="fp8")
        with Spied() as calls:
            batch.forward(impl, builder_of(impl).build(0, batch.common))
        assert calls[0][1]["heuristics"].PROVENANCE["kernel"] == "paged_attention"
        assert impl_of().heuristics is impl.heuristics  # one for all layers
        assert fp8.heuristics is None
        groups = warm.by_selector([SimpleNamespace(impl=i) for i in (impl, fp8, impl_of())])
        assert [len(layers) for layers in groups.values()] == [2, 1]
        assert error_of(batch.output, batch.reference()) < 2e-3
        for name in ("matmul.py", "matmul.json", "none.py"):
            os.environ["HEURGEN_SELECTOR"] = str(folder / name)
            with pytest.raises(ValueError, match=f"HEURGEN_SELECTOR is .*{name}"):
                impl_of()
    finally:
        del os.environ["HEURGEN_SELECTOR"]
    assert impl_of().heuristics is None


def check_traffic_has_every_feature_that_a_selector_of_one_s_own_may_ask_for():
    """What a launch tells a selector: one that asked for multiprocessors ended the server at its first batch."""
    text = (
        "PROVENANCE = {'kernel': 'paged_attention'}\n"
        "DOMAIN = {'num_seqs': {'type': 'int', 'low': 1, 'high': 9}}\n"
        f"def select({', '.join(FEATURES)}): pass\n"
        "SELECTORS = {'nvidia': select}\n"
    )
    impl = impl_of()
    with tempfile.TemporaryDirectory() as own:
        (Path(own) / "own.py").write_text(text)
        try:
            os.environ["HEURGEN_SELECTOR"] = str(Path(own) / "own.py")
            (row,) = traffic_of(
                lambda builder: builder.build(0, Batch(MIXED).common).observe(fresh=False), impl
            )
        finally:
            del os.environ["HEURGEN_SELECTOR"]
    assert [*row] == [*FEATURES, "count"]
    assert row["multiprocessors"] == "132"
