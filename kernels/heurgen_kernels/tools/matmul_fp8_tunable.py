"""`matmul` with fp8 weights as a tunable: `heurgen tune heurgen_kernels.tools.matmul_fp8_tunable:tunable`."""

from __future__ import annotations

from collections.abc import Mapping

from .matmul_tunable import Form, Matmul

# As `matmul_tunable.FORMS`, of 62 that an H200 measured. Steps are longer than for 16-bit weights, for as many bytes.
FORMS: Mapping[str, tuple[Form, ...]] = {
    "vector": (
        ((1, 4, 512, 2, 4), (0,)),
        ((1, 8, 512, 2, 4), (0,)),
        ((1, 8, 512, 4, 3), (0,)),
        ((2, 4, 512, 2, 4), (0,)),
        ((2, 8, 512, 4, 3), (0,)),
    ),
    "stream_k": (
        ((16, 32, 128, 4, 6), (1,)),
        ((16, 32, 256, 4, 3), (2,)),
        ((16, 32, 256, 4, 5), (0, 1)),
        ((16, 64, 128, 2, 5), (2,)),
        ((16, 64, 128, 4, 4), (0,)),
        ((16, 64, 128, 4, 6), (1, 2)),
        ((16, 64, 256, 4, 4), (0, 1, 2)),
        ((16, 128, 128, 4, 4), (1, 2)),
        ((32, 64, 128, 4, 4), (0, 1)),
    ),
    "warp_specialized": (
        ((16, 128, 64, 4, 12), (0, 1)),
        ((32, 64, 64, 4, 12), (0, 1)),
        ((32, 128, 64, 4, 12), (0, 1)),
        ((64, 64, 64, 4, 12), (0, 1)),
        ((64, 128, 64, 4, 12), (0, 1)),
        ((128, 128, 64, 4, 12), (0, 1)),
        ((256, 128, 64, 4, 12), (0, 1)),
    ),
}


class MatmulFp8(Matmul):
    """See `Matmul`. Its workload is the same."""

    name = "matmul_fp8"
    forms = FORMS
    weight_bytes = 1


tunable = MatmulFp8()
