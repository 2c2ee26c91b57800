"""Nothing that the kernels are given loses a gradient without a word."""

from __future__ import annotations

import re

import pytest
import torch
from heurgen_kernels import matmul, ops, paged_attention
from heurgen_kernels.config import Config
from torch.autograd import forward_ad

from tests.kernels.batches import make_batch

CONFIG = Config("q_block", 16, 16, 4, 2)


def said(argument, name):
    text = (
        f"{argument} requires a gradient, and {name} computes none: call it under torch.no_grad() or "
        f"torch.inference_mode(), or give it {argument}.detach()"
    )
    return f"^{re.escape(text)}$"


@pytest.mark.parametrize(
    "name", ["q", "key_cache", "value_cache", "key", "value", "sinks", "alibi_slopes", "k_scale", "out"]
)
def test_attention_refuses_what_requires_a_gradient(device, name):
    batch = make_batch([(1, 5), (2, 7)], fresh=True, device=device)
    batch |= {"sinks": torch.zeros(4, device=device), "alibi_slopes": torch.zeros(4, device=device)}
    batch |= {"k_scale": torch.ones(1, device=device), "out": torch.empty_like(batch["q"])}
    batch[name].requires_grad_()
    with pytest.raises(ValueError, match=said(name, "paged_attention")):
        paged_attention(**batch, config=CONFIG)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert not paged_attention(**batch, config=CONFIG).isnan().any()


@pytest.mark.parametrize("name", ["x", "w", "bias", "residual", "out"])
def test_matmul_refuses_what_requires_a_gradient(device, name):
    given = {
        key: torch.ones(16, 16, dtype=torch.float16, device=device) for key in ("x", "w", "residual", "out")
    }
    given["bias"] = torch.ones(16, dtype=torch.float16, device=device)
    given[name].requires_grad_()
    with pytest.raises(ValueError, match=said(name, "matmul")):
        matmul(**given)
    with torch.no_grad():
        assert (matmul(**given) == 18).all()


def test_the_custom_ops_say_so_in_the_backward_pass(device):
    """PyTorch keeps a graph for them, which has no formula."""
    batch = make_batch([(1, 5)], device=device)
    batch["q"].requires_grad_()
    x = torch.ones(16, 16, dtype=torch.float16, device=device, requires_grad=True)
    for out in (ops.paged_attention_op(*ops.positional(batch)), ops.matmul_op(x, x.detach())):
        assert out.requires_grad
        with pytest.raises(RuntimeError, match="no autograd formula was registered"):
            out.sum().backward()


def test_tangents_of_forward_mode_are_refused(device):
    """They were lost: the result had none."""
    x = torch.ones(16, 16, dtype=torch.float16, device=device)
    batch = make_batch([(1, 5)], device=device)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for call in (matmul, torch.ops.heurgen.matmul):
            with pytest.raises(
                ValueError, match=r"^x has a tangent, and matmul computes none: give it the primal"
            ):
                call(dual, x)
            assert (call(forward_ad.unpack_dual(dual).primal, x) == 16).all()
        with pytest.raises(ValueError, match=r"^q has a tangent, and paged_attention computes none"):
            paged_attention(**batch | {"q": forward_ad.make_dual(batch["q"], batch["q"])})
