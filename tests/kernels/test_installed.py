"""Says why the kernel tests are absent, where they are; importing the package itself needs neither torch
nor triton.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_torch_and_triton_are_installed():
    pytest.importorskip("torch", reason="torch is not installed: kernel tests need heurgen[kernels]")
    pytest.importorskip("triton", reason="triton is not installed: kernel tests need heurgen[kernels]")


def test_importing_the_package_needs_neither():
    code = "import sys, heurgen_kernels; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd="kernels").returncode == 0


def test_names_are_listed_before_they_are_looked_up():
    """Completion showed none of them."""
    code = "import sys, heurgen_kernels as k; print(set(k.__all__) <= set(dir(k)), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd="kernels", capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"]


def test_names_are_looked_up_once():
    """Each call of `heurgen_kernels.matmul` looked for its module."""
    code = "import heurgen_kernels as k; k.Config; print('Config' in vars(k), dir(k).count('Config'))"
    done = subprocess.run([sys.executable, "-c", code], cwd="kernels", capture_output=True, text=True)
    assert done.stdout.split() == ["True", "1"]
