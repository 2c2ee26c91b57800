"""`[log]` of a kernel spec: names, units, throughput, failures, constants, a column a config."""

from __future__ import annotations

import pytest

from heurgen.spec.kernel_spec import parse_spec
from heurgen.spec.log_columns import LogColumns, is_throughput, names_time, unit_of
from tests.spec.examples import log, refused

NOISE = "expected a share from 0 to 1: 0.02 is two percent"
AS_TIME = "is a throughput by its name, and would be read as a time"
TURN = 'write objective = "max" in [log], or name the column of the time'
A_TIME = 'objective = "max" is for a throughput; name its column with time = ...'
VENDOR = 'the name of a column, or { const = "nvidia" }'


def test_everything_that_a_log_table_can_say() -> None:
    text = """vendor = { const = "nvidia" }
device = "gpu"
time = "tflops"
status = "outcome"
scenario = "id"
noise = 0
objective = "max"
success = ["passed", ""]
failures = ["OOM", ""]
winners_only = true
pruned = true
[log.wide]
a = { BM = 16 }
b = { BM = "x" }
"""
    assert parse_spec(log(text)).log == LogColumns(
        vendor="vendor", device="gpu", time="tflops", status="outcome", scenario="id", noise=0.0, unit=None,
        objective="max", success=("passed", ""), failures=("OOM", ""), winners_only=True, pruned=True,
        constants=(("vendor", "nvidia"),),
        wide=(("a", (("BM", "16"),)), ("b", (("BM", "x"),))),
    )  # fmt: skip
    both = parse_spec(log('vendor = { const = "amd" }\ndevice = { const = "X" }\nunit = "us"')).log
    assert (both.constants, both.unit) == ((("vendor", "amd"), ("device", "X")), "us")


def test_a_column_has_the_name_that_the_log_gives_it() -> None:
    """`init` drafts it so, and the error of a missing column says it so."""
    assert parse_spec(log('time = "time_ms "')).log.time == "time_ms "


def test_cells_of_a_wide_table_are_texts_as_a_log_would_hold_them() -> None:
    spec = parse_spec(log("[log.wide]\na = { BM = true }\nb = { BM = false }\nc = { BM = 0.5 }"))
    assert [values for _, values in spec.log.wide] == [(("BM", t),) for t in ("true", "false", "0.5")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('vendr = "v"', "'log.vendr': unknown key 'vendr' (did you mean 'vendor'?)"),
        ("time = 3", "'log.time': found 3, expected the name of a column"),
        ('time = ""', "'log.time': found '', expected the name of a column"),
        ("device = 3", f"'log.device': found 3, expected {VENDOR}"),
        ('vendor = { from = "gpu" }', """'log.vendor': found {'from': 'gpu'}, expected { from = "device" }"""),
        ('scenario = { const = "x" }', "'log.scenario': found {'const': 'x'}, expected the name of a column"),
        ("noise = -1", f"'log.noise': found -1, {NOISE}"),
        ("noise = nan", f"'log.noise': found nan, {NOISE}"),
        ('noise = "2%"', f"'log.noise': found '2%', {NOISE}"),
        ("noise = 2", f"'log.noise': found 2, {NOISE}"),
        ("noise = 1e300", f"'log.noise': found 1e+300, {NOISE}"),
        ('unit = "min"', "'log.unit': found 'min', expected one of s, ms, us, ns"),
        ("unit = 1", "'log.unit': found 1, expected one of s, ms, us, ns"),
        ('objective = "most"', "'log.objective': found 'most', expected one of min, max"),
        ('objective = "max"', f"'log.objective': the column 'time_ms' is a time by its name ({A_TIME})"),
        ('failures = "OOM"', "'log.failures': found 'OOM', expected a list of texts such as [\"OOM\", \"nan\"]"),
        ('success = "ok"', "'log.success': found 'ok', expected a list of texts such as [\"ok\", \"passed\"]"),
        ("winners_only = 1", "'log.winners_only': found 1, expected true or false"),
        ("vendor = { const = 3 }", "'log.vendor.const': found 3, expected a string"),
        ('vendor = { const = "" }', "'log.vendor.const': found '', expected text without spaces around it"),
        ('device = { const = " X" }', "'log.device.const': found ' X', expected text without spaces around it"),
        (
            'vendor = { const = "NVIDIA" }',
            "'log.vendor.const': found 'NVIDIA', expected a vendor in lower-case letters, digits and underscores, "
            "such as nvidia",
        ),
        ('vendor = { is = "nvidia" }', "'log.vendor.is': unknown key 'is' (known: const)"),
        ('wide = { "a" = 1 }', "'log.wide.a': found 1, expected a table (write { BLOCK_M = 64, num_warps = 4 })"),
        ('wide = { "a" = {} }', "'log.wide.a': found {}, expected the parameters of the config"),
        ('wide = { "a" = { BM = [] } }', "'log.wide.a.BM': found [], expected a number, true, false or text"),
        ('wide = { "a" = { BM = "" } }', "'log.wide.a.BM': found '', expected a number, true, false or text"),
        ('wide = { "a" = { BM = 1, BN = 1 } }', "'log.wide.a': 'BN' is no parameter"),
        ('wide = { "a" = { BM = 1 }, "b" = { BM = 1 } }', "'log.wide.b': 'a' is of the same config"),
        ('wide = { "n" = { BM = 1 } }', "'log.wide.n': 'n' has another role in the spec"),
        ('wide = { "device" = { BM = 1 } }', "'log.wide.device': 'device' has another role in the spec"),
        (
            'wide = { "gbps" = { BM = 1 } }',
            f"'log.wide.gbps': 'gbps' {AS_TIME}; write objective = \"max\" and time = \"throughput\" in [log]",
        ),
    ],
)  # fmt: skip
def test_what_no_log_table_can_say(line: str, message: str) -> None:
    assert refused(log(line)) == f":10: column {message}"


def test_a_throughput_has_no_unit_of_time() -> None:
    told = refused(log('time = "gbps"\nobjective = "max"\nunit = "us"'))
    assert told == ":12: column 'log.unit': unit does not go with objective = \"max\""


THROUGHPUTS = ["tflops", "TFLOP/s", "achieved_gflops", "gbps", "GB/s", "gb_s", "tokens_per_s", "tok/s", "throughput",
               "tokensPerSecond", "bandwidth", "qps", "samples_s", "it/s", "TFLOPs", "mfu", "tokens_sec", "GB_sec",
               "frames_s", "MLUPS", "speed", "WinnerGFlops", "hipblaslt-Gflops"]  # fmt: skip


@pytest.mark.parametrize("name", THROUGHPUTS)
def test_a_throughput_is_no_time(name: str) -> None:
    assert is_throughput(name)
    assert not names_time(name)
    assert unit_of(name) is None
    assert refused(log(f'time = "{name}"')) == f":10: column 'log.time': '{name}' {AS_TIME} ({TURN})"
    assert parse_spec(log(f'time = "{name}"\nobjective = "max"')).log.objective == "max"


@pytest.mark.parametrize(
    ("name", "says_time"),
    [
        ("time_per_token_us", True), ("ms", True), ("latency", True), ("runtime", True), ("kernel_ns", True),
        ("walltime", True), ("forward_s", True), ("p50", False), ("cycles", False), ("cost", False), ("s", False),
        ("", False), ("TotalFlops", False), ("num_flops", False), ("flop_count", False), ("compile_sec", True),
    ],
)  # fmt: skip
def test_other_names_may_be_times(name: str, says_time: bool) -> None:
    assert names_time(name) == says_time
    assert not is_throughput(name)
    if name:
        assert parse_spec(log(f'time = "{name}"')).log.time == name


@pytest.mark.parametrize(
    ("name", "unit", "to_ms"),
    [
        ("time_ms", "ms", 1.0), ("time_us", "us", 1e-3), ("latency (ms)", "ms", 1.0), ("kernel_ns", "ns", 1e-6),
        ("mean_time", None, 1.0), ("latency_s", "s", 1e3), ("kernelTimeUs", "us", 1e-3), ("Duration [ns]", "ns", 1e-6),
        ("time_µs", "us", 1e-3), ("time_μs", "us", 1e-3), ("s", None, 1.0), ("us_mean", "us", 1e-3),
        ("ms_not_us", "us", 1e-3), ("p50 milliseconds", "ms", 1.0),
    ],
)  # fmt: skip
def test_the_unit_is_what_the_name_ends_in_or_what_is_said(name: str, unit: str | None, to_ms: float) -> None:
    assert unit_of(name) == unit
    assert LogColumns(time=name).to_ms == to_ms
    assert LogColumns(time=name, unit="s").to_ms == 1e3


def test_the_columns_of_bookkeeping_have_names_in_one_order() -> None:
    assert LogColumns().names == ("vendor", "device", "time_ms", "status", "scenario")
