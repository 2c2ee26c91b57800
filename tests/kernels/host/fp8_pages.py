"""Batches over fp8 pages, as an H200 copies them."""

from __future__ import annotations

import torch
from heurgen_kernels.host.hardware import Device

from tests.kernels.batches import make_batch

H200 = Device("nvidia", (9, 0), 132)
E4M3 = torch.float8_e4m3fn
# a chunk behind several wide pages, a decode, an empty sequence, a prompt without cached tokens, one that ends a page
LENGTHS = [(5, 280), (1, 21), (0, 9), (20, 20), (2, 128), (1, 1)]


def batch_of(lengths=LENGTHS, cache=E4M3, **more):
    more = {"heads": (2, 1), "size": 64, "dtype": torch.float16} | more
    batch = make_batch(lengths, cache=cache, **more)
    return batch | {"k_scale": torch.tensor([0.5]), "v_scale": torch.tensor([2.0])}
