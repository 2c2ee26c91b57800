"""What `make fits` compiles: all cases. benchmarks/fits.json has the hash of the code that it was done with, which
`make test` compares, and then compiles of the kinds of cases some again.
"""

from __future__ import annotations

import os

import pytest

ALL = bool(os.environ.get("HEURGEN_ALL_FITS"))
STEP = 1 if ALL else 100  # every so many cases of all that selectors can return
by_make_fits = pytest.mark.skipif(
    not ALL, reason="compiled by `make fits`, which records the hash of the code"
)
