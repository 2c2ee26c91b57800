"""Every reader, with sound files to damage: whatever comes, only the project's own error may escape.

A target is (suffix of the file, sound contents, what reads the path). `tests/fuzz/test_readers.py` runs each for
a second or two; `make fuzz` (`python -m tests.fuzz SECONDS`) goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from heurgen.audit.advise.traffic import read_traffic
from heurgen.audit.show import show
from heurgen.ir import expr, schema
from heurgen.logs.card import read_tools
from heurgen.logs.costs import cost_tables
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import check_readable
from heurgen.logs.importers.registry import AUTO, BY_KIND, import_logs
from heurgen.logs.tuning_log import read_logs
from heurgen.logs.validation import report, validate
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from heurgen.ship.project_file import read_project
from heurgen.ship.proofs import Proof, lock_text, read_proofs
from heurgen.spec.kernel_spec import KernelSpec, read_spec
from heurgen.tune.constraints import parse
from heurgen.tune.space import enumerate_configs, read_space
from heurgen.tune.workloads import make_scenarios, read_workload
from tests.render.examples import by_device
from tests.spec.examples import spec_to_toml
from tests.support import logs
from tests.support.drafts import draft_spec
from tests.support.generated import UNSEALED, resealed
from tests.support.modules import two_vendors


@dataclass(frozen=True, slots=True)
class Target:
    suffix: str
    seeds: tuple[str, ...]
    read: Callable[[Path], object]


PROJECT = """\
[[heuristic]]
logs = ["log.csv"]
spec = "kernel.toml"
model = "out/model.json"
module = "out/module.py"
strategy = "joint"
max_depth = 3
external = true
[heuristic.dejavu]
constants = { variant = "q_block", n = 1 }
drop = [{ BLOCK_M = 32 }]
"""
WORKLOAD = """\
seed = 3
[[batch]]
name = "decode"
count = 4
num_seqs = [1, 8]
tokens = [16, 1024]
decode_share = 1.0
heads = [[32, 8]]
head_size = 128
max_tokens = 4096
[[grid]]
m = [1, 2]
k = 3
where = ["m * k <= 1e8 and m in (1, 2)"]
[[scenario]]
id = "x"
num_seqs = 4
lengths = [[1, 100], [20, 20]]
configs = [{ BLOCK_M = 16 }]
"""
SPACE = """\
limit = 30
constraints = ["BLOCK_M * BLOCK_N <= 16384", "not num_warps == 4 or BLOCK_M // 2 % 3 <= 64"]
[parameters]
BLOCK_M = [16, 32]
BLOCK_N = [16, 32]
num_warps = [2, 4]
waves = { values = [1, 2], vendors = ["amd"] }
"""
CARD = '[device]\nname = "X"\n[tools]\ntorch = "2.11"\ntriton = "3.6"\n'
DEJAVU = json.dumps(
    {
        "signature": "JITFunction(m:kernel)",
        "keys": ["n", "dtype"],
        "cache": {"('16', 'a')": "BLOCK_M: 16, num_warps: 4", "('32', 'a')": "BLOCK_M: 32, num_warps: 8"},
        "timings": {"('16', 'a')": [1.0], "('32', 'a')": [2.0, 1.0, 3.0]},
        "timings_data": {"labels": ["ms"]},
    },
    indent=1,
)
AUTOHEURISTIC = (
    '{"shared_memory": 1, "device_capa": [8, 0], "name": "mm", "numerical_features": ["m", "k"],'
    ' "categorical_features": ["dtype"]}\nm,k,dtype,choice,feedback\n1,2,a,extern_mm,1.5\n'
    "3,2,a,type=triton_BLOCK-M=64_numwarps=4,0.5\n3,4,b,extern_mm,inf\n"
)
TRITON = json.dumps(
    {
        "key": ["(1, 2)"],
        "configs_timings": [[{"kwargs": {"B": 1}, "num_warps": 4, "num_stages": 2}, [0.1, 0.2, 0.3]]],
    }
)
VLLM = json.dumps(
    {"triton_version": "3.4", "16": {"BLOCK_SIZE_M": 16, "num_warps": 4}, "32": {"BLOCK_SIZE_M": 32}}
)
CSV = "M,N,K,us,kernelId,splitK,cu_num,err1\n1,2,3,4.5,6,0,80,0.0\n2,2,3,4.5,7,1,80,0.0\n"
WISDOM = (
    '{"version": "1.0", "tunable_parameters": ["b"]}\n'
    '{"environment": {}, "problem_size": [1], "configuration": {}}\n'
)
FDB = "1-2-3-FP32-F=solver:1.5,0,algo;other:2.5,0,algo\n"
EXPRESSIONS = ("min(a, b * 2) // (c % 3) - -a / 1e3", "a * (b + 2.5)", "max(a, b, 3)")
CONSTRAINTS = (
    "a * b <= 16 and (v == '3d' or not f == 1)",
    "a in (1, 3) and 1 < b < 4",
    "f == 3 or a // 0 == 0",
)


@cache
def spec() -> KernelSpec:
    from heurgen.base.toml import parse_toml
    from heurgen.spec.kernel_spec import spec_from

    return spec_from(parse_toml(logs.SPEC))


def _spec(path: Path) -> object:
    return spec_to_toml(read_spec(path))


def _log(path: Path) -> object:
    log = read_logs([path], spec())
    tables = cost_tables(log, spec())
    return report(validate(log, tables, spec()))


def _model(path: Path) -> object:
    module = schema.read_model(path)
    return show(module), schema.to_json(module), render_python(module)


def _module(path: Path) -> object:
    """An attacker can compute a checksum."""
    text = path.read_bytes().decode("utf-8", "replace")
    return read_module(resealed(text) if UNSEALED[:-64] in text else text)


def _space(path: Path) -> object:
    return enumerate_configs(read_space(path), "amd", ["n"])


def _workload(path: Path) -> object:
    given = read_workload(path)
    return make_scenarios(given.data, {}, given.source)


def _expression(path: Path) -> object:
    tree = expr.parse(path.read_bytes().decode("utf-8", "replace"))
    return expr.to_text(tree), expr.to_python(tree), expr.names(tree)


def _constraint(path: Path) -> object:
    found = parse(path.read_bytes().decode("utf-8", "replace"))
    return found.holds(dict.fromkeys(found.names, 3) | {"f": True})


def _imported(kind: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        known = Options(device="D", vendor="nvidia")
        found = import_logs(kind, [str(path)], known)
        return check_readable(found.csv_text(), found.spec_text())

    return read


LOCK = lock_text({"a.json": Proof("ab", "cd")})
IMPORTED = (DEJAVU, AUTOHEURISTIC, TRITON, VLLM, CSV, WISDOM, FDB)
TARGETS = {
    "spec": Target(".toml", (logs.SPEC, spec_to_toml(spec())), _spec),
    "project": Target(".toml", (PROJECT,), read_project),
    "log": Target(".csv", (logs.text(logs.rows(2)),), _log),
    "draft": Target(".csv", (logs.text(logs.rows(2)),), draft_spec),
    "model": Target(".json", (schema.to_json(two_vendors()), schema.to_json(by_device())), _model),
    "module": Target(".py", (render_python(two_vendors()), render_python(by_device())), _module),
    "traffic": Target(
        ".csv",
        ("vendor,m,k,density,dtype,count\nnvidia,1,2,0.5,float16,3\n",),
        lambda path: read_traffic([str(path)], spec(), "nvidia"),
    ),
    "workload": Target(".toml", (WORKLOAD,), _workload),
    "space": Target(".toml", (SPACE,), _space),
    "card": Target(".toml", (CARD,), lambda path: read_tools([path])),
    "lock": Target(".lock", (LOCK,), lambda path: lock_text(read_proofs(path.with_suffix(".toml")))),
    "expression": Target(".txt", EXPRESSIONS, _expression),
    "constraint": Target(".txt", CONSTRAINTS, _constraint),
    **{f"import {kind}": Target(".json", IMPORTED, _imported(kind)) for kind in (AUTO, *BY_KIND)},
}

# --- damage -----------------------------------------------------------------------------------------------

TOKENS = (
    *(
        "",
        "\0",
        "\r",
        "\n",
        '"',
        "'",
        ",",
        "{",
        "}",
        "[",
        "]",
        "[" * 2000,
        "(" * 500,
        "\\",
        "\x1b[2J",
        "\u202e",
        "é",
    ),
    *(
        "-1",
        "0",
        "1e999",
        "-1e308",
        "1e308",
        "5e-324",
        "nan",
        "inf",
        "9" * 400,
        "9" * 5000,
        "0x" + "f" * 5000,
        "2.5",
    ),
    *(
        "null",
        "true",
        "None",
        "_",
        "__x",
        "class",
        "select",
        "ok",
        "x" * 5000,
        "= 1",
        "\n\n",
        "[[heuristic]]\n",
        "//",
        "%",
    ),
)


@st.composite
def damaged(draw: st.DrawFn, seeds: tuple[str, ...]) -> bytes:
    """A sound file with up to five pieces cut out, repeated or replaced by something nasty."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 5))):
        at, cut = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
        piece = (
            draw(st.sampled_from(TOKENS) | st.text(max_size=4)) if draw(st.booleans()) else text[at : at + 40]
        )
        text = text[:at] + piece + text[at + cut :]
    data = text.encode("utf-8", "surrogatepass")
    return data if draw(st.integers(0, 9)) else data[: draw(st.integers(0, len(data)))] + b"\xff"
