"""`matmul` with fp8 weights as a tunable: `heurgen tune heurgen_kernels.tools.matmul_fp8_tunable:tunable`."""

from __future__ import annotations

from collections.abc import Mapping

from .matmul_tunable import Form, Matmul

# As `matmul_tunable.FORMS`. Steps are longer, or more of them ahead, for as many bytes on the way.
FORMS: Mapping[str, tuple[Form, ...]] = {
    "vector": (
        ((1, 4, 512, 2, 4), (0,)),
        ((1, 8, 512, 2, 4), (0,)),
        ((1, 8, 512, 4, 3), (0,)),
        ((1, 16, 512, 4, 4), (0,)),
        ((2, 4, 512, 2, 4), (0,)),
        ((2, 8, 512, 4, 3), (0,)),
        ((2, 8, 512, 4, 4), (0,)),
    ),
    "stream_k": (
        ((16, 32, 128, 4, 6), (1,)),
        ((16, 32, 256, 4, 5), (0, 1)),
        ((16, 64, 128, 4, 4), (0,)),
        ((16, 64, 128, 4, 6), (1, 2, 3)),
        ((16, 64, 256, 4, 4), (0, 1, 2)),
        ((16, 128, 128, 4, 4), (0, 1)),
        ((16, 128, 128, 8, 4), (2,)),
        ((32, 64, 128, 4, 4), (0, 1, 2)),
        ((32, 64, 256, 4, 4), (1,)),
        ((32, 128, 128, 8, 4), (0, 1)),
        ((64, 64, 128, 4, 4), (1, 2)),
    ),
    "stream_k_tma": (
        ((16, 64, 128, 4, 8), (0, 2)),
        ((16, 64, 256, 4, 5), (0, 1)),
        ((16, 128, 128, 4, 6), (1,)),
        ((32, 64, 128, 4, 6), (1, 2)),
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
