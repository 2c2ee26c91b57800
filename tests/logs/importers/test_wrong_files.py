# ruff: noqa: E501  (messages stand whole)
"""Files that other tools wrote are hostile: one clear error each, with file and place, and nothing is written."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import HeurgenError, LogError
from heurgen.logs.importers import foreign
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import IMPORTERS, import_logs

H = Options(device="NVIDIA H200")
KEYS = Options(device="NVIDIA H200", keys=("M", "N"))


def triton(key: Any = (8, 16, "torch.float16"), config: Any = None, timing: Any = (1.0, 0.9, 1.1)) -> str:
    config = {"kwargs": {"BLOCK": 16}, "num_warps": 4} if config is None else config
    return json.dumps({"key": key, "configs_timings": [[config, timing]]})


def mm(key: str = "(8, 16, 32)", choices: Any = ({"type": "triton", "time": 1.0, "BLOCK_M": 16},)) -> str:
    return json.dumps([{"invoke": key}, {key: choices}])


def tuner(**changes: Any) -> str:
    row = {"b": 16, "time": 1.5}
    base = {"device_name": "NVIDIA A100", "kernel_name": "k", "problem_size": [64], "tune_params_keys": ["b"]}
    return json.dumps(
        base | {"tune_params": {"b": [16]}, "objective": "time", "cache": {"16": row}} | changes
    )


def t4(**changes: Any) -> str:
    row = {"configuration": {"b": 1}, "times": {"runtimes": [1.0]}, "invalidity": "correct", "correctness": 1}
    return json.dumps({"schema_version": "1.0.0", "results": [row | changes]})


def wisdom(
    line: str = '{"config": [1], "problem_size": [8], "time": 1.0, "environment": {"device_name": "A100"}}',
) -> str:
    return '{"tunable_parameters": ["t"], "key": "add"}\n' + line + "\n"


HELION = "kernel_name,shape_hash,config_hash,config,shape_features,timing_ms\n"
FIND = "1-2-3-1x1-4-5-6-7-0x0-1x1-1x1-0-NCHW-FP16-F"
AITER = "gfx,cu_num,M,kernelId,us\n"
MOE = "E=8,N=64,device_name=NVIDIA_H200.json"
SGLANG = "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
HEURISTIC = {
    "shared_memory": 1,
    "device_capa": [9, 0],
    "name": "mm",
    "numerical_features": ["m"],
    "categorical_features": [],
}
RUN = {
    "run_id": "r",
    "kernel_name": "k",
    "input_shapes": "[(8, 16)]",
    "dtypes": "['torch.float16']",
    "hardware": "NVIDIA H200",
}
CONFIG = '"Config(num_warps=4)"'


def helion_log(config: str = CONFIG, status: str = "ok", perf: str = "1.0", run: str = "r") -> str:
    head = "run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n"
    return head + f"{run},1.0,c,0,{status},{perf},1.0,{config}\n"


def heuristic(
    row: str = "8,type=triton_BLOCK-M=64,0.5", header: str = "m,choice,feedback", **changes: Any
) -> str:
    return "\n".join([json.dumps(HEURISTIC | changes), header, row, ""])


def dejavu(**changes: Any) -> str:
    key = "('8', 'torch.float16')"
    found: dict[str, Any] = {
        "keys": ["n"],
        "cache": {key: "BLOCK: 16, num_warps: 4"},
        "timings": {key: [0.5]},
    }
    return json.dumps(found | changes)


LOOKUP = "((torch.float16, [8, 16], [16, 1]), (torch.float16, [16, 4], [4, 1]))+mm"

# kind -> (name of the file, options, text, message; FILE stands for the path)
WRONG: dict[str, list[tuple[str, Options, str, str]]] = {
    "triton": [
        ("k.autotune.json", KEYS, "", "FILE: the file is empty"),
        ("k.autotune.json", KEYS, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("k.autotune.json", KEYS, "[]", "FILE: found a list, expected an object"),
        ("k.autotune.json", KEYS, '{"key": []}', "FILE: the key 'configs_timings' is missing (expected Triton's *.autotune.json)"),
        ("k.autotune.json", KEYS, '{"key": 1, "configs_timings": []}', "FILE: column 'key': found a number, expected a list"),
        ("k.autotune.json", KEYS, triton(key=[8]), "FILE: column 'key': its key (8) is not M, N, then dtypes: it is too short "
         "(--keys names the decorator's key in its order)"),
        ("k.autotune.json", KEYS, triton(key=[8, 16, 3.5]), "FILE: column 'key': its key (8, 16, 3.5) is not M, N, then dtypes: "
         "'3.5' is no dtype (--keys names the decorator's key in its order)"),
        ("k.autotune.json", KEYS, triton(config={}), "FILE: column 'configs_timings[0]': the config is empty"),
        ("k.autotune.json", KEYS, triton(config={"kwargs": {"BLOCK": [1]}}), "FILE:1: column 'configs_timings[0].kwargs.BLOCK': "
         "found '[1]', expected a number or text"),
        ("k.autotune.json", KEYS, triton(timing=[-1.0]), "FILE:1: column 'configs_timings[0]': found '-1.0', expected a finite "
         "time above 0, or Infinity"),
        ("k.autotune.json", KEYS, triton(timing=[]), "FILE: column 'configs_timings[0]': found no time"),
        ("k.autotune.json", KEYS, triton(timing=[float("nan")]), "FILE:1: column 'configs_timings[0]': found 'nan', expected a "
         "finite time above 0, or Infinity"),
        ("k.autotune.json", KEYS, triton(timing=[float("inf")]), "every measurement of triton failed: 'invalid'"),
        ("k.autotune.json", H, triton(), "a Triton cache does not name its key, which holds '8', '16', 'torch.float16' "
         "(--keys M,N,K in the decorator's order, or --key-from file.py:function)"),
        ("k.autotune.json", Options(keys=("M", "N")), triton(), "FILE does not say the device (say which: --device NAME)"),
        ("k.autotune.json", Options(device="H200", keys=("M",), key_from="a.py:f"), triton(), "--keys and --key-from say the same "
         "(give one of them)"),
        ("k.autotune.json", Options(device="H200", key_from="nowhere"), triton(), "found --key-from 'nowhere', expected "
         "FILE.py:FUNCTION"),
    ],
    "inductor": [
        ("mm.json", H, "[", "FILE:1: is no JSON: Expecting value, at character 2"),
        ("mm.json", H, "[1]", "FILE: column '[0]': found a number, expected an object"),
        ("mm.json", H, mm("(s0, 16, 32)"), "FILE:1: column '[1]': found the key '(s0, 16, 32)', expected a tuple of sizes "
         "(a symbolic size? compile with dynamic=False)"),
        ("mm.json", H, mm("(8, 16)"), "FILE:1: column '[1]': found the key '(8, 16)', expected (M, K, N)"),
        ("mm.json", H, mm("(8, 16, -1)"), "FILE:1: column '[1]': found the key '(8, 16, -1)', expected (M, K, N)"),
        ("mm.json", H, mm("__import__('os')"), "FILE:1: column '[1]': found the key \"__import__('os')\", expected a tuple of sizes"),
        ("mm.json", H, mm(choices={}), "FILE:1: column '[1].(8, 16, 32)': found an object, expected a list"),
        ("mm.json", H, mm(choices=[1]), "FILE:1: column '[1].(8, 16, 32)[0]': found a number, expected an object"),
        ("mm.json", H, mm(choices=[{"type": "triton"}]), "FILE:1: column '[1].(8, 16, 32)[0].time': found 'None', expected a "
         "finite time above 0, or Infinity"),
        ("mm.json", H, mm(choices=[{"time": 1.0}]), "FILE:1: column '[1].(8, 16, 32)[0]': the choice names no parameter"),
        ("mm.json", H, mm(choices=[None]), "the files hold no measurement that inductor wrote"),
        ("mm.json", Options(), mm(), "FILE does not say the device (say which: --device NAME)"),
        ("log.txt", H, "nothing here\n", "FILE: found no block that max-autotune prints (AUTOTUNE mm(...), then its choices)"),
    ],
    "inductor-lookup": [
        ("t.json", H, "[]", "FILE: found a list, expected an object"),
        ("t.json", H, "{}", "the files hold no measurement that inductor-lookup wrote"),
        ("t.json", H, '{"mm": []}', "FILE:1: found the key 'mm', expected [device+]inputs+op"),
        ("t.json", H, json.dumps({LOOKUP: []}), "FILE:1: the key has no config"),
        ("t.json", H, json.dumps({"(1)+mm": 1}), "FILE:1: column \"'(1)+mm'\": found a number, expected a list"),
        ("t.json", H, json.dumps({LOOKUP: [{"BLOCK_M": 1}]}), "FILE:1: the config has no template_id"),
        ("t.json", H, json.dumps({"(1, 2)+mm": [{"template_id": "a"}]}), "FILE:1: found the inputs '(1, 2)', expected (dtype, "
         "shape, stride) of each"),
        ("t.json", H, json.dumps({"(open('x'))+mm": [{"template_id": "a"}]}), "FILE:1: found the inputs \"(open('x'))\", expected "
         "(dtype, shape, stride) of each"),
        ("t.json", Options(), json.dumps({LOOKUP: [{"template_id": "a"}]}), "FILE does not say the device (say which: --device NAME)"),
        ("t.json", H, '{"a": 1, "a": 2}', "FILE:1: the key 'a' is there twice in one object"),
    ],
    "kernel-tuner": [
        ("c.json", H, "{}", "FILE: found neither 'cache' nor 'results' (expected Kernel Tuner's cache or T4)"),
        ("c.json", H, tuner(objective="GFLOP/s"), "FILE:1: the objective is 'GFLOP/s', expected 'time'"),
        ("c.json", H, tuner(tune_params_keys=None), "FILE: column 'tune_params_keys': found null, expected a list"),
        ("c.json", H, tuner(cache={"16": {"time": 1.0}}), "FILE:1: column 'cache[16]': the parameter 'b' is missing"),
        ("c.json", H, tuner(cache={"16": {"b": 16, "time": -2}}), "FILE:1: column 'cache[16].time': found '-2', expected a finite "
         "time above 0, or Infinity"),
        ("c.json", H, tuner(cache={"16": {"b": 16, "time": "CompilationFailedConfig"}}), "every measurement of kernel-tuner failed: "
         "'CompilationFailedConfig'"),
        ("c.json", H, tuner(cache=[]), "FILE: column 'cache': found a list, expected an object"),
        ("c.json", Options(features=("a", "b")), tuner(), "FILE:1: column 'problem_size': problem_size has 1 numbers, and --feature "
         "names 2 (--feature once for each number, in order)"),
        ("c.json", Options(), tuner(device_name="Alien 3000"), "FILE: the vendor of the device 'Alien 3000' is unknown "
         "(say which: --vendor nvidia)"),
        ("c.json", Options(), t4(), "FILE does not say the device (say which: --device NAME)"),
        ("c.json", H, t4(), "the files name no feature (add one: --const NAME=VALUE)"),
        ("c.json", Options(device="H200", features=("n",)), t4(), "T4 files hold no problem size to name (use --const NAME=VALUE)"),
        ("c.json", H, t4(configuration={}), "FILE: column 'results[0]': the configuration is empty"),
        ("c.json", H, t4(times={"runtimes": []}), "FILE: column 'results[0].times.runtimes': found no runtime"),
    ],
    "kernel-launcher": [
        ("a.wisdom", H, "# a comment\n", "FILE: holds comments alone"),
        ("a.wisdom", H, "[]\n", "FILE: column 'the first line': found a list, expected an object"),
        ("a.wisdom", H, '{"key": "k"}\n', "FILE: column 'tunable_parameters': found null, expected a list"),
        ("a.wisdom", H, '{"tunable_parameters": []}\n', "FILE:1: tunable_parameters is empty or names one twice"),
        ("a.wisdom", H, '{"tunable_parameters": ["t"], "objective": "x"}\n', "FILE:1: the objective is 'x', expected 'time'"),
        ("a.wisdom", H, wisdom("{"), "FILE:2: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("a.wisdom", H, wisdom('{"config": [1, 2], "problem_size": [8], "time": 1}'), "FILE:2: config has 2 values, expected 1"),
        ("a.wisdom", Options(device="H200", features=("a", "b")), wisdom(), "FILE:2: problem_size has 1 numbers, and --feature "
         "names 2 (--feature once for each number, in order)"),
        ("a.wisdom", H, wisdom('{"config": [1], "problem_size": [8], "time": "x"}'), "FILE: column 'line 2: time': found 'x', "
         "expected a finite time above 0, or Infinity"),
        ("a.wisdom", Options(), wisdom('{"config": [1], "problem_size": [8], "time": 1}'), "FILE does not say the device "
         "(say which: --device NAME)"),
        ("a.wisdom", H, wisdom("# none"), "the files hold no measurement that kernel-launcher wrote"),
    ],
    "helion": [
        ("measurements_cuda_NVIDIA_H200_13.0.csv", H, "kernel_name,config\n", "FILE:1: the column 'config_id' is missing"),
        ("m.csv", H, HELION + "k,a,b,{},1.0\n", "FILE:2: found 5 cells, expected 6"),
        ("m.csv", H, HELION + 'k,a,b,"[]","{""a"": 1}",1.0\n', "FILE: column 'line 2: config': found a list, expected an object"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}",{,1.0\n', "FILE:2: is no JSON: Expecting property name enclosed in double quotes, "
         "at character 2"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",fast\n', "FILE:2: column 'timing_ms': found 'fast', expected a number"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",-1\n', "FILE: column 'line 2: timing_ms': found '-1.0', expected a "
         "finite time above 0, or Infinity"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": "" x""}",1\n', "FILE: column 'line 2: n': found ' x', expected text of 1 "
         "to 4096 printable characters, without spaces around it"),
        ("m.csv", Options(), HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",1\n', "FILE does not say the device (say which: --device NAME)"),
        ("m.csv", H, HELION, "the files hold no measurement that helion wrote"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}","{""n"": 1}",1\nj,a,b,"{""w"": 4}","{""n"": 1}",1\n', "the files are of 2 kernels "
         "(--kernel j or k)"),
        ("m.csv", H, HELION + 'k,a,b,"{""w"": 4}",{},1\n', "the files name no feature (add one: --const NAME=VALUE)"),
        ("m.csv", H, HELION.replace("shape_hash", "config"), "FILE:1: two columns are named 'config'"),
    ],
    "helion log": [
        ("log.csv", H, helion_log('"Config(x)"'), "FILE:2: column 'config': found 'Config(x)', expected Config(name=value, ...)"),
        ("log.csv", H, helion_log('"Config(x=open(1))"'), "FILE:2: column 'config': found 'Config(x=open(1))', expected "
         "Config(name=value, ...)"),
        ("log.csv", H, helion_log('"Config("'), "FILE:2: column 'config': found 'Config(', expected Config(name=value, ...)"),
        ("log.csv", H, helion_log('"Config()"'), "FILE:2: column 'config': the config is empty"),
        ("log.csv", H, helion_log('"Config(a={1, 2})"'), "FILE: column 'line 2: a': found '{1, 2}', expected a number or text"),
        ("log.csv", H, helion_log('"Config(a=[[{1}]])"'), "FILE:2: column 'a': found '[[{1}]]', expected plain values"),
        ("log.csv", H, helion_log('"{""a"": [" "x""]}"'), "FILE:2: is no CSV: ',' expected after '\"'"),
        ("log.csv", H, helion_log(status="error", perf=""), "every measurement of helion failed: 'error'"),
        ("log.csv", H, helion_log(status="started"), "the files hold no measurement that helion wrote"),
        ("log.csv", H, helion_log(perf="soon"), "FILE:2: column 'perf_ms': found 'soon', expected a number"),
        ("log.csv", H, helion_log(perf="0"), "FILE: column 'line 2: perf_ms': found '0.0', expected a finite time above 0, or Infinity"),
        ("log.csv", H, helion_log() + helion_log(run="s").split("\n")[1], "FILE: holds 2 runs, and nothing says the shapes of 2 runs "
         "(give log.meta.jsonl too)"),
        ("log.csv", Options(), helion_log(), "FILE does not say the device (say which: --device NAME)"),
        ("log.csv", H, helion_log(), "the files name no feature (add one: --const NAME=VALUE)"),
    ],
    "miopen": [
        ("gfx942130.HIP.fdb.txt", H, "nonsense\n", "FILE:1: found no '=' between a problem and its solvers"),
        ("gfx942130.HIP.fdb.txt", H, "1-2=A:1,0,x\n", "FILE:1: the problem is '1-2', expected 15 fields between '-' (17 for 3D) "
         "(in_c-in_h-in_w-FHxFW-out_c-out_h-out_w-batch-PHxPW-SHxSW-DHxDW-bias-layout-dtype-direction)"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=\n", "FILE:1: the problem has no solver"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A\n", "FILE:1: found 'A', expected solver:ms,workspace,algorithm"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A:fast,0,x\n", "FILE:1: column 'A': found 'fast', expected a number"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A:0,0,x\n", "FILE: column 'line 1: A': found '0.0', expected a finite time above 0, or "
         "Infinity"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A:1,0,x;A:2,0,x\n", "FILE:1: the solver 'A' is there twice"),
        ("gfx942130.HIP.fdb.txt", H, FIND.replace("1x1-4", "1x1x1-4") + "=A:1,0,x\n", "FILE:1: found '1x1x1', expected 2 sizes"),
        ("gfx942130.HIP.fdb.txt", H, FIND.replace("1-2-", "9" * 20 + "-2-", 1) + "=A:1,0,x\n", "FILE:1: found a size of more than 15 "
         "digits"),
        ("find.txt", Options(), FIND + "=A:1,0,x\n", "FILE does not say the device (say which: --device NAME)"),
        ("gfx942130.HIP.fdb.txt", H, "\n \n", "FILE: the file is empty"),
        ("gfx942130.HIP.fdb.txt", H, FIND + "=A b:1,0,x\n", "FILE:1: found 'A b:1,0,x', expected solver:ms,workspace,algorithm"),
    ],
    "aiter": [
        ("a_tuned.csv", H, "gfx,M\n", "FILE:1: found none of the columns us and duration (an untuned list of shapes?)"),
        ("a_tuned.csv", H, "gfx,M,us\n", "FILE:1: found no parameter, such as BV, block_m, kernelId, ksplit, libtype, run_1stage, "
         "solidx, splitK"),
        ("a_tuned.csv", H, AITER + "gfx942,304,1,2\n", "FILE:2: found 4 cells, expected 5"),
        ("a_tuned.csv", H, AITER + "gfx942,304,1,2,fast\n", "FILE:2: column 'us': found 'fast', expected a number"),
        ("a_tuned.csv", H, AITER + "gfx942,many,1,2,3\n", "FILE:2: column 'cu_num': found 'many', expected a number of compute units"),
        ("a_tuned.csv", H, AITER + "gfx942,304,1,2,-1\n", "the files hold no measurement that aiter wrote"),
        ("a_tuned.csv", H, AITER + 'gfx942,304,1,"\x1b",3\n', "FILE: column 'line 2: kernelId': found '\\x1b', expected text of 1 to "
         "4096 printable characters, without spaces around it"),
        ("a_tuned.csv", Options(), "gfx,M,kernelId,us\n,1,2,3\n", "FILE does not say the device (say which: --device NAME)"),
        ("gfx942-GEMM-A.json", H, '{"M_LT_4": {}}', "FILE:1: found the key 'M_LT_4', expected M_LEQ_<M>, M_GEQ_<M> or any"),
        ("gfx942-GEMM-A.json", H, '{"any": {}}', "FILE:1: the config is empty"),
        ("gfx942-GEMM-A.json", H, '{"any": 3}', "FILE:1: column 'any': found a number, expected an object"),
        ("a_tuned.csv", H, 'gfx,cu_num,M,kernelId,us\n"', "FILE:2: is no CSV: unexpected end of data"),
    ],
    "sglang": [
        (SGLANG, H, "", "FILE: the file is empty"),
        (SGLANG, H, "[", "FILE:1: is no JSON: Expecting value, at character 2"),
        (SGLANG, H, "3", "FILE: found a number, expected an object"),
        (SGLANG, H, '{"M=1": {}}', "FILE:1: found the key 'M=1', expected a number of tokens"),
        (SGLANG, H, '{"-1": {"B": 1}}', "FILE:1: found the key '-1', expected a number of tokens"),
        (SGLANG, H, '{"1": null}', "FILE:1: column '1': found null, expected an object"),
        (SGLANG, H, '{"1": {"B": null}}', "FILE:1: column '1': the config is empty"),
        (SGLANG, H, '{"1": {"B": NaN}}', "FILE:1: column '1.B': found 'nan', expected a number or text"),
        (SGLANG, H, '{"1": {"B": {"C": 1}}}', "FILE:1: column '1.B': found \"{'C': 1}\", expected a number or text"),
        ("E=8,E=9,device_name=NVIDIA_H200.json", H, '{"1": {"B": 1}}', "FILE: the name 'E=8,E=9,device_name=NVIDIA_H200.json' does not "
         "say its problem (expected E=8,N=3584,device_name=NVIDIA_H200[,dtype=..][,block_shape=[..]].json or the like)"),
    ],
    "dejavu": [
        ("c.json", H, "{", "FILE:1: is no JSON: Expecting property name enclosed in double quotes, at character 2"),
        ("c.json", H, "[]", "FILE: found a list, expected an object"),
        ("c.json", H, '{"keys": []}', "FILE: has no 'cache' (expected a triton-dejavu cache.json with keys, cache and timings)"),
        ("c.json", H, dejavu(keys={}), "FILE:1: 'keys' is a dict, expected an array"),
        ("c.json", H, dejavu(keys=[1]), "FILE:1: 'keys' holds '1', expected names"),
        ("c.json", H, dejavu(keys=["n", "n"]), "FILE:1: 'keys' holds the name 'n' twice or it is taken"),
        ("c.json", H, dejavu(cache={}), "FILE:1: has no winner in 'cache'"),
        ("c.json", H, dejavu(cache={"8": "B: 1"}), "FILE:1: the key '8' is no tuple of strings"),
        ("c.json", H, dejavu(timings={}), "FILE:1: 'timings' lacks the key \"('8', 'torch.float16')\""),
        ("c.json", H, dejavu(timings={"('8', 'torch.float16')": ["x"]}), "FILE:1: the time of \"('8', 'torch.float16')\" is 'x', expected "
         "a finite number above 0"),
        ("c.json", H, dejavu(cache={"('8', 'torch.float16')": "BLOCK"}), "FILE:1: the winner of \"('8', 'torch.float16')\" is 'BLOCK', "
         "expected 'NAME: value, NAME: value'"),
        ("c.json", Options(), dejavu(), "FILE: the path names no device (say which: --device NAME)"),
    ],
    "autoheuristic": [
        ("mm.txt", H, "x\n", "FILE:1: the first line is no JSON object (expected AutoHeuristic's metadata)"),
        ("mm.txt", H, "[]\n", "FILE:1: the first line is a JSON list, expected an object"),
        ("mm.txt", H, "{}\n", "FILE:1: the metadata lacks 'shared_memory'"),
        ("mm.txt", H, heuristic(name=3), "FILE:1: 'name' is '3', expected text"),
        ("mm.txt", H, heuristic(numerical_features="m"), "FILE:1: 'numerical_features' is 'm', expected a list of names"),
        ("mm.txt", H, heuristic(categorical_features=["m"]), "FILE:1: 'm' is a numerical and a categorical feature"),
        ("mm.txt", H, heuristic(header="m,choice"), "FILE:2: column 'feedback': is missing"),
        ("mm.txt", H, heuristic(header="m,k,choice,feedback"), "FILE:2: column 'k': is no feature of the metadata"),
        ("mm.txt", H, heuristic("8,x"), "FILE:3: found 2 cells, expected 3 cells"),
        ("mm.txt", H, heuristic("big,x,1"), "FILE:3: column 'm': found 'big', expected a number"),
        ("mm.txt", H, heuristic("8,x,-1"), "FILE:3: column 'feedback': found '-1', expected a time above 0 in ms, or inf"),
        ("mm.txt", H, heuristic("8,\x1b,1"), "FILE:3: column 'choice': found '\\x1b', expected printable text without spaces around it"),
        ("mm.txt", Options(), heuristic(device_capa="9.0"), "FILE:1: device_capa '9.0' and shared_memory '1' name no device "
         "(expected [major, minor] and bytes, or say which: --device NAME)"),
    ],
    "vllm": [
        (MOE, H, "[]", "FILE: found a list, expected an object"),
        (MOE, H, "{}", "the files hold no measurement that vllm wrote"),
        (MOE, H, '{"x": {}}', "FILE:1: found the key 'x', expected a number of tokens"),
        (MOE, H, '{"1": 3}', "FILE:1: column '1': found a number, expected an object"),
        (MOE, H, '{"1": {}}', "FILE:1: column '1': the config is empty"),
        (MOE, H, '{"1": {"BLOCK_SIZE_M": [1]}}', "FILE:1: column '1.BLOCK_SIZE_M': found '[1]', expected a number or text"),
        (MOE, H, '{"1": {"BLOCK_SIZE_M": " x"}}', "FILE:1: column '1.BLOCK_SIZE_M': found ' x', expected text of 1 to 4096 printable "
         "characters, without spaces around it"),
        (MOE, H, '{"1": {"B": 1}, "1": {"B": 2}}', "FILE:1: the key '1' is there twice in one object"),
        ("best.json", H, '{"1": {"B": 1}}', "FILE: the name 'best.json' does not say its problem (expected "
         "E=8,N=3584,device_name=NVIDIA_H200[,dtype=..][,block_shape=[..]].json or the like)"),
        ("E=8,N=64,device_name=Alien.json", Options(), '{"1": {"B": 1}}', "FILE: the vendor of the device 'Alien' is unknown "
         "(say which: --vendor nvidia)"),
        ("NVIDIA_H200_SHRINK.json", H, '{"1": {"2": {"B": 1}}}', "FILE:1: '1.2' ends after 2 levels"),
        ("NVIDIA_H200_SHRINK.json", H, '{"a": {"2": {"B": 1}}}', "FILE:1: found 'a', expected max_loras, num_slices, m, k, n, i"),
    ],
}  # fmt: skip
CASES = [(kind, i) for kind, cases in WRONG.items() for i in range(len(cases))]


@pytest.mark.parametrize(("kind", "index"), CASES)
def test_wrong_files(tmp_path: Path, kind: str, index: int) -> None:
    name, options, text, message = WRONG[kind][index]
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(HeurgenError) as error:
        import_logs(kind.split()[0], [str(file)], options)
    found = str(error.value).replace(str(file), "FILE")
    assert "\x1b" not in found
    assert found == message


def test_ten_wrong_inputs_for_each() -> None:
    assert all(len(cases) >= 10 for cases in WRONG.values())
    assert {i.kind for i in IMPORTERS} == {kind.split()[0] for kind in WRONG}


@pytest.mark.parametrize("kind", [i.kind for i in IMPORTERS])
@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x00", b"\x1f\x8bgarbage", b"BZhgarbage", b"[" * 5000, b"9" * 5000]
)
def test_any_file_is_refused_in_one_way(tmp_path: Path, kind: str, data: bytes) -> None:
    (tmp_path / "file.json").write_bytes(data)
    with pytest.raises(HeurgenError):
        import_logs(kind, [str(tmp_path / "file.json")], KEYS if kind == "triton" else H)


@pytest.mark.parametrize("kind", [i.kind for i in IMPORTERS])
def test_hostile_sizes_are_refused_in_one_way(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, options = tmp_path / "file.json", KEYS if kind == "triton" else H
    monkeypatch.setattr(foreign, "MAX_BYTES", 2**20)
    for data in (b"x" * (2**20 + 1), gzip.compress(bytes(2**22)), bz2.compress(bytes(2**22))):
        file.write_bytes(data)
        with pytest.raises(LogError) as error:
            import_logs(kind, [str(file)], options)
        assert str(error.value) == f"{file}: is larger than 1 MiB (that is the most that heurgen reads)"


@pytest.mark.parametrize(
    "kind", [i.kind for i in IMPORTERS if i.kind not in ("miopen", "autoheuristic", "helion")]
)
def test_too_many_values_and_deep_brackets_and_huge_numbers(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "MAX_VALUES", 1000)
    file, options = tmp_path / MOE, KEYS if kind == "triton" else H
    for value, message in (
        ("[" + "0," * 1000 + "0]", "holds more than 1000 values (split the file)"),
        ("[" * 900 + "]" * 900, None),
        ("9" * 5000, "is no JSON: Exceeds the limit (4300 digits) for integer string conversion"),
    ):
        file.write_text(f"[{value}]" if kind == "inductor" else f'{{"a": {value}}}')
        with pytest.raises(LogError) as error:
            import_logs(kind, [str(file)], options)
        assert message is None or str(error.value).partition(": value has")[0] == f"{file}:1: {message}"


def test_options_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / MOE).write_text('{"1": {"B": 1}}')
    with pytest.raises(HeurgenError) as error:
        import_logs("vllm", [str(tmp_path / MOE)], KEYS)
    assert str(error.value) == "vllm takes no --keys (it takes --device, --vendor, --rename, --const)"


def test_auto_says_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / MOE).write_text('{"1": {"B": 1}}')
    (tmp_path / "a_tuned.csv").write_text(AITER + "gfx942,304,1,2,3\n")
    with pytest.raises(HeurgenError, match=r"notes.txt: is of no kind that is known \(known: triton, "):
        import_logs("auto", [str(tmp_path / "notes.txt")], Options())
    with pytest.raises(HeurgenError, match=r"the files are of 2 kinds: .*a_tuned.csv is aiter, .* is vllm"):
        import_logs("auto", [str(tmp_path / MOE), str(tmp_path / "a_tuned.csv")], Options())
