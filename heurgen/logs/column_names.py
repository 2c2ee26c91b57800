"""What the names of a log's columns say of their roles: the tables behind `heurgen init`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from heurgen.spec.kernel_spec import BOOLS
from heurgen.spec.log_columns import is_flop_count, is_percentage, is_throughput

# [log] key -> names in order of preference, lower case.
BOOKKEEPING: Mapping[str, tuple[str, ...]] = {
    "vendor": ("vendor", "gpu_vendor", "device_vendor"),
    "device": (
        "device",
        "device_name",
        "gpu",
        "gpu_name",
        "gpu_model",
        "hardware",
        "gfx",
        "arch",
        "gpu_arch",
        "gpu_type",
        "gpu_sku",
        "accelerator",
        "sku",
        "chip",
    ),
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
        *("lat_ms", "lat_us", "lat"),
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
_FEATURE_EXACT = frozenset("e m n k b h d s bs hq hk hkv n_ctx size shape shapes mnk".split())
# Sizes of convolutions, arguments by number, and what tuners call their problems.
_PROBLEM = re.compile(
    r"(in|out|input|output|fil|filter|pad|padding|stride|dil|dilation)_(c|d|h|w|n|x|y|z)|groups?|group_count|direction|layout|"
    r"bias|spatial_dims|problem_size.*|arg[0-9]+_.*|block_shape|per_channel_quant|dstate|cu_num|sq|topk|act_type|q_type|"
    r"n[xyzijk]|n(h|kv)|[iok][hw]|[io]c|c_?(in|out)|hw|size_?[a-z]|ld[a-e]|(x|y|z|in|out|input|output|image|img|vector|array|data|matrix|problem|total|hidden|inter(mediate)?|"
    r"embed(ding)?|vocab|kernel|filter|state|feature)_?(size|dim|len|length|width|height|elements)|precision|"
    r"(q|k|v|kv|qo|query|key|value|ctx|context|prompt|decode|prefill|cache|sequence)_?(len|lens|length|size|dim)|"
    r"(a|b|c|q|k|v|x|y|kv|in|out|input|output|weight|acc(umulator)?|data)_?(d?type|layout|order|format)|trans(pose)?_?[abc]|"
    r"world_size|n(um)?_?(ranks|bytes|elems?|keys)|(message|msg|payload)_?(size|bytes|len)|quant(ization)?(_(type|scheme|method|mode))?|"
    r"[a-z]+_?(dim|dims|len)|reduction_.*|axis|sparsity|density|nnz|n_?(rows|cols|elements|heads|tokens|seqs|experts|groups)"
)
# Sizes of what a launch works with, which would read as sizes of a problem.
_LAUNCH_SIZE = re.compile(
    r"(vector|vec|simd|unroll|load|store)_?(length|len|size|width)|(work_?group|wg|local|thread_?block|cta|cluster|warp|"
    r"wave|wavefront|subgroup|grid)_?(size|dim|dims|shape|count)?(_?[xyzmnk0-9])?|use_.*|enable_.*|(pre)?fetch.*|"
    r"pipeline.*|swizzle.*|order|num_(stages|warps).*|(n|num)_?(stages|warps|waves|threads|blocks|workers|sms|ctas)|"
    r".*_(padding|unroll|unrolling|vectori[sz]ed?|prefetch|swizzle|stages|warps|staging)|(read_only|loop_unroll.*)|"
    r"threads?_per_.*|elements?_per_.*|items?_per_.*|rows_per_.*|(block|tile)_?(dim|size)?_?[xyz0-9]|[mnk](wg|dim[abc]|wi)|"
    r"vw[mnd]|str[mn]|s[ab]|mode|policy|scheduler?|schedule|strategy|cache_modifier|eviction_policy|epilogue|mma.*|"
    r"instruction.*|(inst|warps)_[mnk]|op_class|pack.*|allow_tf32|use_fast_accum|split|splitk|streamk|stream_k|raster.*|max_?n?_?reg(s|isters)?"
)
_FEATURE_PREFIX = re.compile(r"(avg|max|min|mean|total|sum)_")
_PARAMETER = re.compile(
    r"(block|tile|group|split|chunk)_?(size_?)?(m|n|k|q|h|d|kv|dmodel|size|sizes|seq)?(_[0-9a-z]+)?|"
    r"num_(warps|stages|ctas|segments|splits|consumer_groups|buffers_warp_spec|threads|programs|sms)|"
    r"segments|splits|num_kv_splits|kv_splits|split_k|warps|stages|ctas|threads|variant|impl|algorithm|"
    r"waves_per_eu|matrix_instr_nonkdim|kpack|maxnreg|reg_dec_producer|reg_inc_consumer|unroll|unroll_factor|"
    r"pre_load_v|persistent|warp_specialize|warp_specialization|enable_warp_specialization|schedule_hint|"
    r"use_tma|solver|solution|solidx|algo|libtype|kernel_?id|split_?k|k_?split|tactic|run_1stage|bv|type|kernel_type|backend|provider|num_unroll.*|.*_per_(block|warp|thread|cta|program)|grid_cu_multip|"
    r"(n_?|num_?)?(blocks|ctas|programs|tiles|waves|work_?groups)_per_(sm|cu|xcd|multiprocessor)|"
    r"(num_)?(segments|splits)_per_.*|.*_per_prog"
)
_COUNT = re.compile(
    r"num_(.*_)?(seqs?|sequences|tokens?|heads?|layers?|experts?|rows?|requests?|pages?|blocks|gpus|batches)"
)
_LABEL = re.compile(
    r"workload|label|tags?|notes?|comments?|names?|phase|case|suite|source|origin|host|hostname|user|driver|torch|"
    r"kernel_?name[0-9]?|triton|cuda|rocm|commit|git.*|date|datetime_(start|complete)|timestamp|when|.*_version|version|kernel|kernel_name|id|index|uuid|row|"
    r".*_(id|idx|index|hash|uuid)|(min|max)_cc|config|choice|config_name|hash|unnamed.*|description|"
    r"(random_)?seed|pid|device|gpu|hardware|host_name|node(_(ip|name))?|trial(_(no|nr|number))?|attempt|created(_at)?|(start|end)_time|"
    # of Google Benchmark and of pytest-benchmark
    r"run_(name|type)|aggregate_(name|unit)|(time_)?units?|fullname|param|"
    # of W&B, MLflow, Ray Tune, and torch.utils.benchmark
    r"sweep|step|artifact_uri|source_(type|name)|experiment_tag|logdir|checkpoint_dir_name|done|"
    r"training_iteration|iterations_since_restore|sub_label|number_per_run"
)
_RESULT = re.compile(
    r".*(tflops|gflops|gbps|gb_s|gb_per_s|(achieved_|effective_)bandwidth.*|speedup|slowdown|throughput)|(std|stdev|stddev|var|iqr|cv|noise)(_.*)?|"
    r"min(imum)?|max(imum)?|ops|outliers|rounds|"
    r".*_(std|stdev|stddev|time|ms|us|ns|seconds|sec)|(p|q)[0-9]{1,2}|reps?|repeats?|repetitions|n_?reps|iters?|iterations?|runs?|samples(_[0-9]+)?|"
    r"err_?[0-9]?|err_?ratio|disposition|status|outcome|errors?|error_(message|occurred)|message|reason|failure|exception|rank|winner|best|is_best|correct|rel_err|max_err|"
    r"(peak_|max_)?mem(ory)?(_(usage|used|peak|allocated|use))?|.*_([kmg]i?b)|registers|n_regs|n_spills|spills|regs|shared_bytes|smem_bytes|(achieved_)?occupancy|(.*_)?util(_pct|_percent)?|energy.*|power.*|temperature|clock.*|ms|us|ns|compile.*|time|latency|"
    r"runtime|duration|median|mean|registers_count|(local|private|constant)_memory_size|max(imum)?_work_?group_size"
)
# A hardware counter, as Nsight Compute calls them: "smsp__inst_executed.sum"; and what it notes of a launch.
_COUNTER = re.compile(
    r"Grid Size|Process Name|Stream|CC|launch__\w+|[a-z0-9]+__\w+\.(sum|avg|min|max|pct|ratio)(\.\w+)?"
)
_UNITS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"num_(seqs|sequences)|batch|batch_size|bs"), "sequences"),
    (re.compile(r".*(seqlen|seq_len|tokens).*"), "tokens"),
)

# What tuners write where a measurement succeeded, and words of what they write where it failed.
_SUCCESS = frozenset(
    "ok okay success successful succeeded pass passed valid correct good done complete completed finished "
    "not_verified".split()
)
# Texts of a column that say that a measurement was not looked at, rather than that it failed.
_UNTOLD = frozenset(("", "n/a", "na", "none", "skipped", "-", "--"))
FAILURES = frozenset(
    "nan inf -inf infinity oom error failed fail failure timeout invalid none n/a na crash crashed oor -1 wrong "
    "incorrect unsupported skipped exception abort aborted mismatch unfit not - --".split()
)
# Words of exceptions, which write them together ("OutOfResources", "CompilationError"), and of what ROCm prints
# ("Memory access fault by GPU node-2").
_FAILED = re.compile(
    r"error|exception|fail(ed|ure)|out[ _]?of[ _]?(memory|resource|registers)|timed[ _]?out|\bfault"
)
# Columns of yes and no that say whether a measurement succeeded, and those of words that say why it did not.
_SUCCEEDED = re.compile(
    r"(is_)?(success|successful|succeeded|pass|passed|valid|correct(ness)?|result)|([a-z]+_)*ok"
)
_REASON = re.compile(r"err|errors?|error_(message|msg|type)|exception|failure(_reason)?|reason")


# Columns that say why a measurement was left out, where it was: nvbench's.
_LEFT_OUT = re.compile(r"(is_)?skipped")
_NOT_LEFT_OUT = frozenset(("", "no", "false", "0"))


# Objects of JSON lines, and what their keys are.
_OBJECTS: Mapping[str, re.Pattern[str]] = {
    "parameter": re.compile(
        r"(.*_)?(configs?|cfgs?|configuration|params?|parameters|knobs|launch|meta|tunables?|kwargs)"
    ),
    "feature": re.compile(r"(.*_)?(problem(_size)?|shapes?|inputs?|features?|scenario|workload|args|sizes?)"),
    "none": re.compile(
        r"(.*_)?(results?|metrics?|summary|tags|timings?|perf|stats|measurements?|env|environment|"
        r"system(_attrs)?|versions?)"
    ),
}


def role_of_object(name: str) -> str | None:
    """The role ("none" for results) of what stands in an object of this name; None where it does not tell."""
    return next((role for role, pattern in _OBJECTS.items() if pattern.fullmatch(name)), None)


def success_words(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """The texts of a status column that say that a measurement succeeded: "" in a column of reasons."""
    if _REASON.fullmatch(name.lower()):
        return ("",) if "" in texts else ()
    if _LEFT_OUT.fullmatch(name.lower()):
        return tuple(t for t in texts if t.strip().lower() in _NOT_LEFT_OUT)
    words = _SUCCESS | ({"true", "1", "yes"} if _SUCCEEDED.fullmatch(name.lower()) else set())
    return tuple(t for t in texts if t.strip().lower() in words)


def is_status(name: str, texts: Sequence[str]) -> bool:
    """Whether a column that may have any name says which measurements succeeded, as far as its texts tell."""
    success = success_words(name, texts)
    others = [t.strip().lower() for t in texts if t not in success]
    if not success or is_feature(name) or is_parameter(name):
        return False
    if _LEFT_OUT.fullmatch(name.lower()):
        return bool(others)
    if not others and not _SUCCEEDED.fullmatch(name.lower()):
        return False  # `padding` that is always "valid"
    if _REASON.fullmatch(name.lower()):
        return bool(others) and not any(re.fullmatch(r"[-+.0-9e]+", t) for t in others)
    known = FAILURES | ({"false", "0", "no"} if _SUCCEEDED.fullmatch(name.lower()) else set())
    return all(t in known or known.intersection(re.split(r"[\W_]+", t)) or _FAILED.search(t) for t in others)


def tells_all(name: str, texts: Sequence[str]) -> bool:
    """Whether a column of statuses says how every measurement ended, not only of those that were checked."""
    return not any(t.strip().lower() in _UNTOLD for t in {*texts} - {*success_words(name, texts)})


def is_failure(text: str) -> bool:
    """Whether a text in lower case that stands for a time says that there is none: a word, no number with a unit.

    Messages may hold numbers: "out of resource: shared memory, Required: 81920, Hardware limit: 65536".
    """
    if text in FAILURES or re.fullmatch(r"[^\W\d][^\d]*", text) is not None:
        return True
    return text[:1].isalpha() and _FAILED.search(text) is not None


# The column that is true in the rows of the config that today's heuristic would choose: `audit` reads it.
DEFAULT = "default"
MARKS: Mapping[str, bool] = BOOLS | {"yes": True, "no": False, "": False}


def is_default(name: str, texts: Sequence[str]) -> bool:
    return name == DEFAULT and set(texts) <= MARKS.keys()


def is_label(name: str) -> bool:
    return _LABEL.fullmatch(name.lower()) is not None


def names_kernel(name: str) -> bool:
    """Whether a label tells what was computed: a kernel, or which way ("forward") it went."""
    return re.fullmatch(r"kernel[_ ]?(name)?|phase", name.lower()) is not None


def is_problem(name: str) -> bool:
    """Whether a column of integers of this name may number the problems (CUTLASS's) or the trials (Optuna's)."""
    return re.fullmatch(r"problems?(_?(no|nr|number))?|number", name.lower()) is not None


def is_result(name: str) -> bool:
    return _RESULT.fullmatch(name.lower()) is not None or is_throughput(name) or is_flop_count(name)


def is_metric(column: str) -> bool:
    """Whether a column as the log calls it is a counter, or a percentage of anything but a problem ("sparsity (%)")."""
    if _COUNTER.fullmatch(column) is not None:
        return True
    of = re.sub(r"(?i)[^a-z0-9]*(pct|percent(age)?|%)[^a-z0-9]*$", "", column)
    return is_percentage(column) and not is_feature(of)


def differ_in_numbers(column: str, other: str) -> bool:
    """Whether two columns are called alike but for a number: "run2_ms" and "run1_ms"."""
    return column != other and re.sub("[0-9]+", "0", column) == re.sub("[0-9]+", "0", other)


def is_beside_time(name: str) -> bool:
    """Whether a column tells how well a time was measured: nobody reads it."""
    return name.lower() in ("noise", "samples")


def is_parameter(name: str) -> bool:
    """A launch knob by its well-known name. `block_size` in lower case is a page size as often."""
    lower = name.lower()
    known = _PARAMETER.fullmatch(lower) or _LAUNCH_SIZE.fullmatch(lower)
    return name not in ("block_size", "group_size", "block_shape") and known is not None


def is_feature(name: str) -> bool:
    lower = name.lower()
    if lower in _FEATURE_EXACT or _COUNT.fullmatch(lower) or _PROBLEM.fullmatch(lower):
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
