"""Compilation for a target without a GPU, in a process of its own: the interpreter and the compiler exclude each other
within one, and so do targets. It is kept for the tests that follow, as importing torch takes longer than most kernels.

    python -m tests.kernels.tools.compiling TARGET

answers lines [what, [[config, shape], ...]] of JSON with a list of JSON, or with text where something failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import triton
from heurgen_kernels.config import Config
from heurgen_kernels.gemm.config import Config as ProductConfig
from heurgen_kernels.tools import fits, matmul_fits

ROOT = Path(__file__).parents[3]


def places() -> list[str]:
    """PYTHONPATH of a process of its own: another Triton's place first, where `make versions` named one."""
    return [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT), str(ROOT / "kernels")]


@cache
def _compiler(target: str, process: int) -> subprocess.Popen[str]:
    """The one of a process of tests: a fork of it (tests.mutation) has code of its own."""
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "0",
        "PYTHONPATH": os.pathsep.join(places()),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kernels.tools.compiling", target],
        cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def asked(what: str, target: str, cases: Sequence[tuple[Any, dict[str, Any]]]) -> list[Any]:
    """The answer to each (config, shape): see `WAYS`."""
    child = _compiler(target, os.getpid())
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps([what, cases]) + "\n")
    child.stdin.flush()
    line = child.stdout.readline()
    assert line, f"the compiling process ended: {child.wait()}"
    answer = json.loads(line)
    assert isinstance(answer, list), answer
    assert len(answer) == len(cases) > 0
    return answer


def _numbers(found: fits.Resources, target: str) -> list[Any]:
    return [found.shared, found.registers, found.spills, found.reason(target)]


def _attention(config: Any, target: str, shape: dict[str, Any]) -> list[Any]:
    return _numbers(fits.compile_config(Config(*config), target, fits.Shape(**shape)), target)


def _widening(config: Any, target: str, shape: dict[str, Any]) -> list[Any]:
    return _numbers(fits.compile_widening(target, fits.Shape(**shape)), target)


def _rest(config: Any, target: str, shape: dict[str, Any]) -> list[Any]:
    return _numbers(fits.compile_rest(target, fits.Shape(**shape)), target)


def _product(config: Any, target: str, shape: dict[str, Any]) -> list[Any]:
    return _numbers(
        matmul_fits.compile_config(ProductConfig(*config), target, matmul_fits.Shape(**shape)), target
    )


def _padding(config: Any, target: str, shape: dict[str, Any]) -> list[Any]:
    return _numbers(matmul_fits.compile_padding(target), target)


def _instructions(config: Any, target: str, shape: dict[str, Any]) -> str:
    kept, read = [], fits._nvidia_resources
    fits._nvidia_resources = lambda compiled, at: kept.append(compiled.asm["cubin"]) or read(compiled, at)
    try:
        _attention(config, target, shape)
    finally:
        fits._nvidia_resources = read
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kept[0])
        file.flush()
        return subprocess.run([tool, "-sass", file.name], check=True, capture_output=True, text=True).stdout


# [shared memory in bytes, registers, spills, why it does not fit or None]; "instructions": those of the kernel as text.
WAYS: dict[str, Callable[[Any, str, dict[str, Any]], Any]] = {
    "attention": _attention, "widening": _widening, "rest": _rest, "product": _product, "padding": _padding,
    "instructions": _instructions,
}  # fmt: skip


def main(target: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Triton prints there what an assembler refuses
    for line in sys.stdin:
        what, cases = json.loads(line)
        try:
            answer: Any = [WAYS[what](config, target, shape) for config, shape in cases]
        except Exception:
            answer = traceback.format_exc()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
