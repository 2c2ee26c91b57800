"""What the names of a log's columns say of their roles: the tables behind `heurgen init`."""

from __future__ import annotations

import re
from collections.abc import Mapping

# [log] key -> names in order of preference, lower case.
BOOKKEEPING: Mapping[str, tuple[str, ...]] = {
    "vendor": ("vendor", "gpu_vendor", "device_vendor"),
    "device": ("device", "device_name", "gpu", "gpu_name", "gpu_model"),
    "time": (
        *(
            "time_ms",
            "median_ms",
            "latency_ms",
            "runtime_ms",
            "duration_ms",
            "kernel_ms",
            "mean_ms",
            "avg_ms",
        ),
        *("ms", "time", "latency", "runtime", "duration", "kernel_time", "median", "time_us", "latency_us"),
        *("median_us", "runtime_us", "duration_us", "us", "time_s", "latency_s", "time_ns", "duration_ns"),
    ),
    "status": ("status", "outcome", "state"),
    "scenario": ("scenario", "scenario_id", "shape_id", "case_id", "problem_id", "workload_id"),
}

_WORD = r"(?:^|_)(?:{})(?:_|$|[0-9])"
_FEATURE = re.compile(
    _WORD.format(
        "seqlens?|seq_len|seqs?|tokens?|heads?|kv_heads|query_heads|head_size|head_dim|headdim|hidden|dtype|share|"
        "ratio|fraction|strides?|dim|dims|batch|batch_size|vocab|rows?|cols?|columns?|experts?|topk|top_k|page_size|"
        "window|context|ctx|prefix|length|causal|is_causal|softcap|alibi|group_size|channels|height|width|numel"
    )
)
_FEATURE_EXACT = frozenset(("m", "n", "k", "b", "h", "d", "s", "bs", "hq", "hk", "hkv", "n_ctx", "size"))
_FEATURE_PREFIX = re.compile(r"(avg|max|min|mean|total|sum)_")
_PARAMETER = re.compile(
    r"(block|tile|group|split|chunk)_?(size_?)?(m|n|k|q|h|d|kv|dmodel|size|sizes|seq)?(_[0-9a-z]+)?|"
    r"num_(warps|stages|ctas|segments|splits|consumer_groups|buffers_warp_spec|threads|programs|sms)|"
    r"segments|splits|num_kv_splits|kv_splits|split_k|warps|stages|ctas|threads|variant|impl|algorithm|"
    r"waves_per_eu|matrix_instr_nonkdim|kpack|maxnreg|reg_dec_producer|reg_inc_consumer|unroll|unroll_factor|"
    r"pre_load_v|persistent|warp_specialize|warp_specialization|enable_warp_specialization|schedule_hint|"
    r"use_tma|type|kernel_type|backend|provider|num_unroll.*|.*_per_(block|warp|thread|cta|program)|grid_cu_multip"
)
_COUNT = re.compile(
    r"num_(.*_)?(seqs?|sequences|tokens?|heads?|layers?|experts?|rows?|requests?|pages?|blocks|gpus|batches)"
)
_LABEL = re.compile(
    r"workload|label|tags?|notes?|comments?|names?|phase|case|suite|source|origin|host|hostname|user|driver|torch|"
    r"triton|cuda|rocm|commit|git.*|date|timestamp|when|.*_version|version|kernel|kernel_name|id|index|uuid|row|"
    r".*_(id|idx|index|hash|uuid)|config|choice|config_name|hash|unnamed.*|description"
)
_RESULT = re.compile(
    r".*(tflops|gflops|gbps|gb_s|gb_per_s|(achieved_|effective_)bandwidth.*|speedup|slowdown|throughput)|(std|stdev|var|iqr|cv|noise)(_.*)?|"
    r".*_(std|stdev|ms|us|ns|seconds|sec)|(p|q)[0-9]{1,2}|reps?|repeats?|n_?reps|iters?|iterations?|runs?|samples|"
    r"errors?|error_message|message|reason|failure|exception|rank|winner|best|is_best|correct|rel_err|max_err|"
    r"registers|n_regs|n_spills|spills|shared_bytes|power.*|temperature|clock.*|ms|us|ns|compile.*|time|latency|"
    r"runtime|duration|median|mean"
)
_UNITS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"num_(seqs|sequences)|batch|batch_size|bs"), "sequences"),
    (re.compile(r".*(seqlen|seq_len|tokens).*"), "tokens"),
)


def is_label(name: str) -> bool:
    return _LABEL.fullmatch(name.lower()) is not None


def is_result(name: str) -> bool:
    return _RESULT.fullmatch(name.lower()) is not None


def is_parameter(name: str) -> bool:
    """A launch knob by its well-known name. `block_size` in lower case is a page size as often."""
    return name not in ("block_size", "group_size") and _PARAMETER.fullmatch(name.lower()) is not None


def is_feature(name: str) -> bool:
    lower = name.lower()
    if lower in _FEATURE_EXACT or _COUNT.fullmatch(lower):
        return True
    return _FEATURE.search(lower) is not None or _FEATURE_PREFIX.match(lower) is not None


def looks_like_parameter(name: str) -> bool:
    """Triton writes its knobs in capitals (tl.constexpr) or as num_*."""
    return (len(name) > 1 and name.isupper()) or name.startswith("num_")


def is_share(name: str) -> bool:
    return re.fullmatch(r".*_(share|ratio|fraction)", name.lower()) is not None


def unit(name: str) -> str:
    """The unit that a well-known name implies, or ""."""
    return next((text for pattern, text in _UNITS if pattern.fullmatch(name.lower())), "")
