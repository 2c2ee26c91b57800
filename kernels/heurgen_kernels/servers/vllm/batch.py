"""What the host knows of a batch: found once, when vLLM builds its metadata, and the same for all layers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from ...config import Config
from ...defaults import GRAPH
from ...host.segments import block_rows
from ...host.validate import assumed_total

# Partial results of one recorded decode, in bytes: all layers of a graph use the same memory.
GRAPH_SCRATCH = 256 << 20
# New tokens from which a chunk behind cached ones is computed from new K and V at hand and pages of the prefix alone:
# 1 to 3 % less time at 5,424 and 8,192, chunks of 1,200 and decodes with a prompt's tail lose 3 to 4 %.
LONG_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Batch:
    """tokens          new tokens; what lies behind them in q is a server's padding
    total_seqlen_k  tokens attended to by all sequences, or an upper bound; None where the host does not know
    fresh           a batch of prompts without cached tokens: new K and V are all there is to read
    long            a sequence has LONG_CHUNK new tokens and more
    frozen          the launch is recorded in a graph, or stands for one that will be: lengths will change under it
    """

    tokens: int
    total_seqlen_k: int | None
    fresh: bool
    long: bool
    frozen: bool


def batch_of(common: Any, frozen: bool, own: bool = True) -> Batch:
    """common: vLLM's CommonAttentionMetadata. own: whether the layers attend to pages that their new tokens' K and V
    are written to; what the host says of others may be another layer's, or still on its way. Reads host memory alone.

    Upper bounds are exact for prompts. Where they say as many tokens attended to as there are new ones, every
    sequence attends to its new tokens alone. What wraps a backend and changes lengths (tokens in pools, sinks before
    all others) may leave them as they were: bounds below the longest, which it does change, say nothing.
    """
    count, longest, longest_q = common.num_reqs, int(common.max_seq_len), int(common.max_query_len)
    if frozen:
        return Batch(common.num_actual_tokens, None, False, False, True)
    bound, long = common.seq_lens_cpu_upper_bound, longest_q >= LONG_CHUNK
    if not own:
        return Batch(common.num_actual_tokens, None, False, long, False)
    tokens = min(int(common.query_start_loc_cpu[count]), common.num_actual_tokens)
    if bound is None or (count and int(bound[:count].max()) < longest):
        return Batch(tokens, None, False, long, False)
    total = min(int(bound[:count].sum()), count * longest)
    return Batch(tokens, total, longest_q > 1 and total == tokens, long, False)


def without_images(common: Any) -> Any:
    """vLLM's metadata without the images of a batch, where no new token lies in one: what follows an image sees it as
    it sees text. The same object where there are none, or one is being read in.

    Upper bounds serve: they are exact for prompts, and drafts that were refused lie behind the prompt and its images.
    """
    images, bound = common.mm_req_doc_ranges, common.seq_lens_cpu_upper_bound
    if not images or bound is None:
        return common
    starts, ends = common.query_start_loc_cpu.tolist(), bound.tolist()
    for row, spans in images.items():
        first = ends[row] - (starts[row + 1] - starts[row])
        if any(begin < ends[row] and last >= first for begin, last in spans):
            return common
    plain = copy(common)
    plain.mm_req_doc_ranges = None
    return plain


def longest_draft(speculation: Any) -> int:
    """New tokens of a sequence whose drafts are verified, and one that a draft model may add, where the host does not
    know them; 0 where it does. 0.33's adaptive verification drops drafts on the device: a batch of a draft model then
    says that all sequences lost as many, other batches say the most that one may have.
    """
    if not getattr(speculation, "enable_adaptive_verification", False):
        return 0
    return int(speculation.num_speculative_tokens) + 2


def with_drafts(common: Any, longest: int) -> Any:
    """vLLM's metadata, with max_query_len at least `longest` where a sequence has several new tokens."""
    return common if common.max_query_len <= 1 else lengthened(common, longest)


def of_any_lengths(common: Any, mode: Any) -> Any:
    """vLLM's metadata of a batch that a graph is recorded of, of `cudagraph_mode` FULL: the graph serves prompts, too,
    of which one may have all tokens of the batch. Model runner V2 of 0.26 records it of sequences of one token each,
    and says that none has more; V1 and the later V2 say what is right.
    """
    any_lengths = mode.mixed_mode().has_full_cudagraphs()
    return lengthened(common, common.num_actual_tokens) if any_lengths else common


def lengthened(common: Any, longest: int) -> Any:
    """vLLM's metadata, with max_query_len at least `longest`; the same object where it is."""
    if common.max_query_len >= longest:
        return common
    longer = copy(common)
    longer.max_query_len = longest
    return longer


def features_of(batch: Batch, common: Any, layer: Mapping[str, Any]) -> dict[str, Any]:
    """The features of a selector for a batch, all but `fresh`. layer: those that say nothing of lengths."""
    total = batch.total_seqlen_k
    if total is None:
        total = assumed_total(common.num_reqs, int(common.max_seq_len))
    return {
        "num_seqs": common.num_reqs, "total_query_tokens": batch.tokens, "max_seqlen_q": int(common.max_query_len),
        "max_seqlen_k": int(common.max_seq_len), "total_seqlen_k": total, **layer,
        "avg_seqlen_q": batch.tokens / max(common.num_reqs, 1),
    }  # fmt: skip


def graph_config(
    num_seqs: int, max_seqlen_q: int, heads: int, heads_kv: int, head_size: int
) -> Config | None:
    """What a recorded decode launches; None for a batch of longer queries, which the selector answers for.

    Keys are cut into fewer parts where the results of GRAPH's would not lie within GRAPH_SCRATCH.
    """
    group = heads // heads_kv
    rows = block_rows(GRAPH.BLOCK_M, group)
    if max_seqlen_q > rows // group:
        return None
    width = (1 << (head_size - 1).bit_length()) + 2
    kept = 1 << (group - 1).bit_length() if max_seqlen_q == 1 else rows
    parts = GRAPH.num_segments
    while parts > 8 and num_seqs * heads_kv * parts * kept * width * 4 > GRAPH_SCRATCH:
        parts //= 2
    return GRAPH._replace(num_segments=parts)
