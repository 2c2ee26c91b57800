"""Proves by cross-compilation, without a GPU, that all that the selectors can return fits each target: `make fits`.

Compiles every config that the shipped selectors and AMD's default can return, for sm_90, sm_80, gfx942 and gfx90a, and
some for sm_86, sm_89, sm_100 and sm_120 (of attention on sm_89 all that comes near its shared memory): 25 minutes on
two busy cores, and two more since sm_86, sm_100 and sm_120 are among them. Writes benchmarks/fits.json: Triton's
version, the hash of the code and the selectors' configs (see gpu_check.py). `make test` compares these with today's and
compiles every hundredth again (tests/kernels/tools/proved.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

from gpu_check import ROOT, chosen, code_hash

RECORD = ROOT / "benchmarks" / "fits.json"


def main() -> None:
    environment = os.environ | {"HEURGEN_ALL_FITS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-k", "not all_cases", "tests/kernels/tools"]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    record = {
        "triton": version("triton"),
        "code": {"kernels": code_hash(part="kernels")},
        "configs": chosen(),
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
