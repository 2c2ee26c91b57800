"""Proves on a GPU, without a network, that the kernels and their launch path are right as they ship: `make gpu-check`.

    python benchmarks/gpu_check.py [--whole-table] [-o FILE.json]

In parts, by what tests import: a part that benchmarks/gpu_check.json proves, on this device with these versions, is
left out where another one changed. Interrupted, it goes on where it was: FILE.json.PART.journal has the tests that
passed, as long as code, device and versions are the same.

Runs the GPU tests (of the table of shapes a fixed random tenth, of the products of features a half or a third, or all
of them; every config that the shipped selector or the default can return, launched and compared with the reference),
then a short benchmark. At most nine and a half minutes on one H200, of a slow host twice; several GPUs share the tests
(tests/kernels/conftest.py).
Writes benchmarks/gpu_check.json: device, versions, counts, times, and of what it is the proof: a hash of each part's
code that ran, and the configs that were launched. A test compares them with those that selectors choose among
(`unproved`).
Where anything fails it says what, writes nothing and exits with 1.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "gpu_check.json"
PACKAGE = ROOT / "kernels" / "heurgen_kernels"
# The selectors' trees choose among configs that are all launched here: of a generated selector these count (`chosen`).
SELECTORS = tuple(
    f"heuristics/{name}.py"
    for name in ("matmul", "matmul_fp8", "paged_attention", "paged_attention_amd", "paged_attention_fp8")
)
# A selector for a kernel of vLLM's, which no launch here asks.
OTHERS = ("heuristics/vllm_unified_attention.py",)
NOTHING_LEFT = 5  # of pytest: no test was collected
# Of tests/kernels/test_gpu*.py, and what of the package they do not import: a server's doors, of which vLLM's runs in
# serving.py alone.
PARTS = {
    "kernels": ("", "_warp_specialized", "_fp8", "_matmul", "_matmul_fp8", "_llama"),
    "transformers": ("_transformers",),
}
NOT_RUN = {"kernels": ("servers/",), "transformers": ("servers/vllm/",)}
# Seconds for the tests, which took 365 on one H200, on slow hosts 450 and once 560; the rest takes half a minute.
LIMIT = 540
BATCHES = {
    "decode": ((1, 700),) * 12,
    "long decode": ((1, 30000),) * 2,
    "prompt": ((600, 600),) * 2,
    "long prompt": ((8000, 8000),),
    "mixed": ((1, 700),) * 12 + ((600, 600),),
}
LLAMA = {"num_query_heads": 32, "num_kv_heads": 8, "head_size": 128, "page_size": 16, "dtype": "bfloat16"}


def code_hash(package: Path = PACKAGE, part: str = "") -> str:
    """Of the syntax trees of all that launches run, or those of a part: no docstrings, comments, layout."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith(("tools/", *NOT_RUN.get(part, ()))) or name in OTHERS or name in SELECTORS:
            continue
        digest.update(f"{name}\n{_written(ast.parse(path.read_text(encoding='utf-8')))}\n".encode())
    return digest.hexdigest()


def chosen(package: Path = PACKAGE) -> dict[str, list[str]]:
    """The configs that each selector chooses among, as Python writes them."""
    return {
        name: sorted(
            ast.unparse(node.value)
            for node in ast.parse((package / name).read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("_CONFIG_")
        )
        for name in SELECTORS
    }


def launched() -> dict[str, list[str]]:
    """`chosen`, and of products the other forms that their tests launch: a selector learnt anew may choose them."""
    from tests.kernels.test_gpu_matmul import SPACE

    found = chosen()
    found["heuristics/matmul.py"] = sorted({*found["heuristics/matmul.py"], *map(repr, SPACE)})
    return found


def unproved(record: Mapping[str, Any], package: Path = PACKAGE) -> str:
    """What of a package a record is no proof of, "" where it is one of all. record: "code", the hash of each part that
    it is of, and "configs".
    """
    changed = [part for part, code in record["code"].items() if code != code_hash(package, part)]
    if changed:
        return f"what runs changed, of {' and '.join(changed)}"
    new = [
        config
        for name, configs in chosen(package).items()
        for config in configs
        if config not in record["configs"][name]
    ]
    return f"selectors choose configs that the record has not: {', '.join(new)}" if new else ""


def _written(node: Any) -> str:
    """A tree as text that is the same in all versions of Python: fields that are empty are left out."""
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    return f"{type(node).__name__}({','.join(_fields(node))})"


def _fields(node: ast.AST) -> Iterator[str]:
    for name, value in ast.iter_fields(node):
        if name in ("type_comment", "type_params", "kind", "ctx") or value is None or value == []:
            continue
        if (
            name == "body"
            and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and _documented(value)
        ):
            value = value[1:]
        yield f"{name}={_written(value)}"


def _documented(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )


def workers(gpus: int, cores: int) -> int:
    """Of pytest-xdist: up to 14 on each GPU, the same number on each; each compiles."""
    return gpus * max(1, min(14, cores // gpus))


def noted(path: Path, first: str) -> list[str]:
    """The tests that a journal of the same proof has; a journal of another one is begun anew."""
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    if lines[:1] != [first]:
        path.write_text(first + "\n", encoding="utf-8")
        return []
    whole = lines[1:-1]  # what follows the last line's end was cut off
    path.write_text("\n".join([first, *whole, ""]), encoding="utf-8")
    return whole


def kept(before: Mapping[str, Any], ran: Mapping[str, Any], whole_table: bool) -> list[str]:
    """The parts that a record proves for what runs now, none where that is all of them. ran: device and versions."""
    if {name: before.get(name) for name in ran} != ran:
        return []
    proved = [
        part
        for part, code in before["code"].items()
        if not unproved({"code": {part: code}, "configs": before["configs"]})
        and before["tests"][part]["whole_table"] >= whole_table
    ]
    return proved if len(proved) < len(PARTS) else []


def run_tests(part: str, whole_table: bool, journal: Path, proof: str) -> dict[str, Any]:
    """Counts of a part's GPU tests; SystemExit where one fails, or where they take too long. proof: of what they are
    one.
    """
    import torch

    passed = noted(journal, proof)
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}{os.pathsep}{ROOT / 'benchmarks'}"
    }
    environment["HEURGEN_WHOLE_TABLE"] = "1" if whole_table else ""
    environment |= {"GPU_JOURNAL": str(journal), "GPU_PASSED": str(len(passed))}
    gpus = torch.cuda.device_count()
    environment.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-n", str(workers(gpus, os.cpu_count() or 1)), "-p",
            "no:cacheprovider", "-p", "gpu_journal", "--durations=15", f"--junitxml={report}",
            *(f"tests/kernels/test_gpu{name}.py" for name in PARTS[part]),
        ]  # fmt: skip
        started = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, timeout=None if whole_table else LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            fail(f"the GPU tests took over {LIMIT} s; the same command goes on with those that are left")
        if not report.exists():
            fail(f"pytest ended with {done.returncode} and left no report")
        cases = list(ElementTree.parse(report).iter("testcase"))
    bad = [
        case.get("name")
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    names = [str(case.get("name")) for case in cases] + [name.rpartition("::")[2] for name in passed]
    configs = [name for name in names if name.startswith("test_every_config")]
    few = part == "kernels" and len(configs) < 10
    if bad or done.returncode not in (0, NOTHING_LEFT) or few or len(skipped) > 2:
        which = ", ".join(map(str, (*bad[:20], *skipped[:5])))
        fail(f"{len(bad)} of {len(names)} GPU tests failed, {len(skipped)} were skipped: {which}")
    return {
        "passed": len(names) - len(skipped), "in_runs_before": len(passed), "skipped": skipped,
        "configs_launched": len(configs), "gpus": gpus, "whole_table": whole_table,
        "seconds": round(time.monotonic() - started),
    }  # fmt: skip


def benchmark() -> dict[str, dict[str, float]]:
    """Microseconds of a launch with the shipped selector: on the device (median of 30, in a row), and on the host."""
    import torch
    from heurgen_kernels.api import paged_attention
    from heurgen_kernels.tools.tunable import make_inputs

    sys.path.insert(0, str(ROOT / "benchmarks"))
    from host import microseconds

    found = {}
    for name, lengths in BATCHES.items():
        made = make_inputs(lengths, {**LLAMA, "fresh": False}, "cuda", 0)

        def call(made: Any = made) -> None:
            paged_attention(
                made.q, made.key_cache, made.value_cache, made.block_table, made.cu_seqlens_q, made.seq_lens,
                out=made.out, **made.arguments,
            )  # fmt: skip

        for _ in range(5):
            call()
        times = []
        for _ in range(30):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(100_000)  # the host is ahead of the GPU
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
        found[name] = {"device": round(sorted(times)[15], 1), "host": round(microseconds(call, True), 1)}
    return found


def fail(reason: str) -> None:
    print(f"gpu-check: {reason}", file=sys.stderr)
    raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--whole-table", action="store_true", help="all of the table of shapes and of features, no sample"
    )
    parser.add_argument(
        "--hash", action="store_true", help="print today's hash of the code, and do nothing else"
    )
    parser.add_argument("-o", "--output", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if arguments.hash:
        print(code_hash())
        return
    sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]
    import torch
    import triton

    if not torch.cuda.is_available():
        print("gpu-check needs a GPU: torch sees none", file=sys.stderr)
        raise SystemExit(2)
    ran = {
        "device": torch.cuda.get_device_name(),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "triton": triton.__version__,
        },
    }
    record = proved(ran, arguments.whole_table, arguments.output)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for part in PARTS:
        journal_of(arguments.output, part).unlink(missing_ok=True)
    print(json.dumps(record, indent=2))


def proved(ran: Mapping[str, Any], whole_table: bool, output: Path) -> dict[str, Any]:
    """The record, of parts that were proved before and of those that are now. ran: device and versions."""
    before = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    left_out = kept(before, ran, whole_table)
    code, configs = {part: code_hash(part=part) for part in PARTS}, launched()
    tests = {}
    for part in PARTS:
        proof = json.dumps({"code": code[part], "whole_table": whole_table, **ran})
        tests[part] = (
            before["tests"][part]
            if part in left_out
            else run_tests(part, whole_table, journal_of(output, part), proof)
        )
    old = "kernels" in left_out
    record = {
        **ran, "tests": tests, "microseconds": before["microseconds"] if old else benchmark(), "code": code,
        "configs": before["configs"] if old else configs,
    }  # fmt: skip
    if unproved(record):
        fail("the code changed meanwhile")
    return record


def journal_of(output: Path, part: str) -> Path:
    return output.with_name(f"{output.name}.{part}.journal")


if __name__ == "__main__":
    main()
