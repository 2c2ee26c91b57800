"""Checks that all that vLLM can say of a layer, a batch or a launch was looked at; run by vllm_child.py.

A version that says more fails with the name: whether ours is right, hands it on or may leave it is then to be seen.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import fields
from inspect import getsource, signature

from heurgen_kernels.servers.vllm import backend
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl, TritonAttentionMetadata

OURS = backend.HeurgenAttentionBackend, backend.HeurgenAttentionMetadataBuilder, backend.HeurgenAttentionImpl

# What a batch is, and what each launch is given or handed on for.
BATCH = {
    "read": "query_start_loc query_start_loc_cpu seq_lens num_reqs num_actual_tokens max_query_len max_seq_len "
    "block_table_tensor slot_mapping causal seq_lens_cpu_upper_bound",
    "handed on": "mm_req_doc_ranges rswa_prefix_lens",
    "wrappers make other batches of it": "logits_indices_padded num_logits_indices max_logits_per_req encoder_seq_lens "
    "encoder_seq_lens_cpu",
    "context parallelism, which vLLM refuses": "dcp_local_seq_lens dcp_local_seq_lens_cpu "
    "dcp_local_seq_lens_cpu_upper_bound req_idx",
    "other layers'": "positions is_prefilling replayssm_decode_base_cpu",
    "copied from the device or found there": "_seq_lens_cpu _num_computed_tokens_cpu _num_computed_tokens_cache "
    "_token_to_req_indices_cache",
}
METADATA = {
    "read": "num_actual_tokens max_query_len query_start_loc max_seq_len seq_lens block_table slot_mapping causal",
    "handed on": "mm_prefix_range mm_prefix_range_tensor rswa_prefix_lens rswa_window",
    "stock launches'": "seq_threshold_3D num_par_softmax_segments softmax_segm_output softmax_segm_max "
    "softmax_segm_expsum scheduler_metadata",
    "cascades, which are never asked for": "use_cascade common_prefix_len cu_prefix_query_lens prefix_kv_lens "
    "suffix_kv_lens prefix_scheduler_metadata",
}
LAUNCH = {
    "given": "q k v out cu_seqlens_q max_seqlen_q seqused_k max_seqlen_k softmax_scale causal alibi_slopes window_size "
    "block_table softcap k_descale v_descale sinks output_scale",
    "handed on": "use_alibi_sqrt q_descale mm_prefix_range rswa_prefix_lens rswa_window kv_quant_mode k_scale_cache "
    "v_scale_cache chunk_lookback mm_prefix_clamp_sliding_window",
    "stock launches'": "seq_threshold_3D num_par_softmax_segments softmax_segm_output softmax_segm_max "
    "softmax_segm_expsum use_td",
}
LAYER = {
    "read": "self num_heads head_size scale num_kv_heads alibi_slopes sliding_window kv_cache_dtype logits_soft_cap "
    "attn_type kv_sharing_target_layer_name sinks use_alibi_sqrt chunk_lookback",
}
FORWARD = {"read": "self layer query key value kv_cache attn_metadata output output_scale output_block_scale"}
# What ours claims, its inherited claims included.
CLAIMS = {
    "is_mla": False, "is_sparse": False, "is_ssm": False, "supports_sink": True, "supports_alibi_sqrt": True,
    "supports_mm_prefix": True, "supports_per_head_quant_scales": False, "supports_sliding_window": True,
    "supports_rswa": True, "supports_non_causal": True, "supports_batch_invariance": True,
    "supports_kv_connector": True, "supports_pcp": False, "supports_non_causal_dcp": False,
    "supports_device_cpu_query_lens_mismatch": True, "supports_kv_cache_update_bypass": False,
    "forward_includes_kv_cache_update": True, "supports_update_block_table": False,
    "supports_draft_decode_metadata_update": True, "requires_block_table_width": False,
    "supports_mtp_with_cp_non_trivial_interleave_size": False, "supports_quant_query_input": False,
    "supports_dense_mha_prefill": True,
}  # fmt: skip
# Questions with arguments, which vLLM's Triton backend answers for both.
ASKED = (
    "supports_head_size", "supports_dtype", "supports_kv_cache_dtype", "supports_block_size", "supports_attn_type",
    "supports_compute_capability", "supports_combination",
    "supports_dcp",  # 0.26 asks for what follows from can_return_lse_for_decode in its place
)  # fmt: skip


def unknown(names, known):
    return sorted(set(names) - set(" ".join(known.values()).split()))


def check_all_that_a_batch_says_was_looked_at():
    assert unknown([field.name for field in fields(CommonAttentionMetadata)], BATCH) == []
    assert unknown([field.name for field in fields(TritonAttentionMetadata)], METADATA) == []


def check_all_that_a_layer_says_was_looked_at():
    assert unknown(signature(TritonAttentionImpl.__init__).parameters, LAYER) == []
    assert unknown(signature(TritonAttentionImpl.forward).parameters, FORWARD) == []


def check_all_that_stock_launches_are_given_was_looked_at():
    tree = ast.parse(textwrap.dedent(getsource(TritonAttentionImpl.forward)))
    (call,) = (
        node for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "unified_attention"
    )  # fmt: skip
    assert unknown([given.arg for given in call.keywords], LAUNCH) == []


def check_all_that_a_backend_claims_was_looked_at():
    for cls in OURS:
        for name in dir(cls):
            if name.startswith(("supports_", "is_", "requires_", "forward_includes_")) and name not in ASKED:
                claim = getattr(cls, name)
                found = claim() if callable(claim) else claim
                assert name in CLAIMS, f"{cls.__name__}.{name}"
                assert found is CLAIMS[name], f"{cls.__name__}.{name} is {found}"
    assert not OURS[2].can_return_lse_for_decode
    assert OURS[1]._cudagraph_support.name == "ALWAYS"
    assert OURS[1].reorder_batch_threshold is None
