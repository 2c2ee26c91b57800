"""Checks of launches that ours refuse; run by vllm_child.py."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from heurgen_kernels.servers.vllm import backend
from triton.compiler.errors import CompilationError
from triton.runtime.errors import PTXASError

from tests.kernels.servers.vllm_batch import Batch, error_of
from tests.kernels.servers.vllm_calls import (
    DECODES,
    PROMPTS,
    SAID,
    builder_of,
    impl_of,
    inherited_writes,
    stock_calls,
)


@contextmanager
def launching(stand_in: Callable[..., None]) -> Iterator[list[Any]]:
    """That in place of our launch; the calls that go to vLLM's kernels meanwhile. What was said is forgotten."""
    ours, backend.paged_attention = backend.paged_attention, stand_in
    SAID.clear()
    calls, restore = stock_calls()
    try:
        yield calls
    finally:
        restore()
        backend.paged_attention = ours


def check_a_launch_that_is_refused_goes_to_vllms_kernels_with_one_line():
    """An upper bound of lengths beyond what the block table has room for, say; of recorded batches too."""
    for build in ("build", "build_for_cudagraph_capture"):
        batch, impl, builder = Batch(DECODES), impl_of(), builder_of()
        metadata = (
            builder.build(0, batch.common) if build == "build" else getattr(builder, build)(batch.common)
        )
        metadata.max_seq_len = 10_000
        SAID.clear()
        calls, restore = stock_calls()
        batch.forward(impl, metadata)
        metadata.max_seq_len = 10_001
        batch.forward(impl, metadata)
        restore()
        assert (len(calls), len(SAID)) == (2, 1)
        assert "10000 tokens; block_table has room for" in SAID[0]
        assert calls[0][0][6] is metadata
        assert batch.written()


def check_what_a_triton_to_come_does_not_compile_is_vllms_from_then_on():
    """With one line, and without another attempt, which would take as long at every step and layer of the kind."""
    for error, said in (
        (
            CompilationError("gl.renamed()", ast.parse("renamed()").body[0], "no attribute 'renamed'"),
            "'renamed'",
        ),
        (PTXASError("ptxas fatal : register allocation failed"), "register allocation failed"),
        (RuntimeError("PassManager::run failed"), "PassManager::run failed"),
    ):
        tried = []

        def compile(*_, error=error, tried=tried, **__):
            tried.append(1)
            raise error

        batch, impl, other, builder = Batch(DECODES), impl_of(), impl_of(), builder_of()
        windowed = impl_of(sliding_window=100)
        with launching(compile) as calls:
            batch.forward(impl, builder.build(0, batch.common))
            assert batch.written()
            for layer in (impl, other):
                layer.do_kv_cache_update = lambda *_: None  # vLLM's own from now on, which wants a GPU
                batch.forward(layer, builder.build(0, batch.common))
        assert (len(calls), len(tried), len(SAID)) == (3, 1, 1)
        assert said in SAID[0]
        assert windowed.stock is None


def check_new_tokens_that_ours_cannot_write_are_written_by_vllms_kernel():
    def compile(*_):
        raise PTXASError("ptxas fatal : register allocation failed")

    batch, impl = Batch(PROMPTS), impl_of()
    ours, backend.write_pages = backend.write_pages, compile
    SAID.clear()
    calls, restore = inherited_writes()
    try:
        batch.forward(impl, builder_of().build(0, batch.common))
    finally:
        backend.write_pages = ours
        restore()
    assert (len(calls), len(SAID)) == (1, 1)
    assert [given.shape[0] for given in calls[0][2:4]] == [batch.tokens] * 2
    assert error_of(batch.output, batch.reference()) < 2e-3
    assert impl.stock is not None


def check_what_a_gpu_says_is_no_refusal():
    """Behind such an error nothing is computed any more, by vLLM's kernels either."""

    def fail(*_, **__):
        raise RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")

    batch, impl, builder = Batch(DECODES), impl_of(), builder_of()
    with launching(fail) as calls, suppress(RuntimeError):
        batch.forward(impl, builder.build(0, batch.common))
        raise AssertionError("it went on")
    assert (calls, SAID) == ([], [])


def check_a_launch_that_has_no_memory_goes_to_vllms_kernels_with_one_line():
    """Which need none of their own. What is said has no numbers: of each layer they are others."""

    def full(*_, **__):
        raise torch.OutOfMemoryError(f"CUDA out of memory. {len(calls)} MiB is free")

    batch, impl, builder = Batch(DECODES), impl_of(), builder_of()
    with launching(full) as calls:
        for layer in (impl, impl, impl_of()):
            batch.forward(layer, builder.build(0, batch.common))
    assert len(calls) == 3
    assert len(SAID) == 2  # one of each layer, of which vLLM's logger says one
    assert set(SAID) == {SAID[0]}
    assert "OutOfMemoryError" in SAID[0]
    assert batch.written()


def check_a_refusal_without_a_word_is_told_by_its_kind():
    def refuse(*_, **__):
        raise ValueError

    batch, impl, builder = Batch(DECODES), impl_of(), builder_of()
    with launching(refuse) as calls:
        batch.forward(impl, builder.build(0, batch.common))
    assert (len(calls), len(SAID)) == (1, 1)
    assert ": ValueError" in SAID[0]
