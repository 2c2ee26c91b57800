"""Memory that a product's result shares: refused, whatever it begins with; between an operand's rows it may lie."""

from random import Random

import pytest
import torch
from heurgen_kernels.gemm.apart import share_memory
from heurgen_kernels.gemm.api import matmul

from tests.kernels.products import error, right


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


def view(random, buffer):
    """A matrix, a vector or a number of the buffer, anywhere in it, rows at any distance."""
    rows, width, step = (
        random.choice((0, 1, 1, 2, 3)),
        random.randint(1, 6),
        random.choice((0, 4, 6, 8, 8, 8)),
    )
    start = random.randint(0, buffer.numel() - max(rows - 1, 0) * step - width)
    if random.random() < 0.2:
        return (
            buffer.as_strided((width,), (1,), start)
            if random.random() < 0.7
            else buffer.as_strided((), (), start)
        )
    return buffer.as_strided((rows, width), (step, 1), start)


def test_what_shares_a_byte_is_found_and_rows_in_turn_share_none():
    buffer, random = torch.arange(40, dtype=torch.float32), Random(0)
    found = {True: 0, False: 0}
    for _ in range(5000):
        a, b = view(random, buffer), view(random, buffer)
        shared = bool(set(a.flatten().tolist()) & set(b.flatten().tolist()))
        said = share_memory(a, b)
        assert said >= shared
        if {t.stride(0) for t in (a, b) if t.dim() == 2 and t.shape[0] > 1} == {
            8
        }:  # exact at equal distances
            assert said == shared
            found[said] += 1
    assert min(found.values()) > 300


def test_what_has_no_memory_shares_none():
    meta = torch.empty(4, 4, device="meta")
    assert not share_memory(meta, meta)
    empty = torch.empty(0, 4)
    assert not share_memory(empty, empty)


@pytest.mark.parametrize("rows", [1, 3])
def test_results_over_operands_are_refused(rows):
    buffer = draw(64 * 64)
    x, w, bias = draw(rows, 32), draw(16, 32, seed=1), draw(16, seed=2)
    over = {
        "x": buffer[40:].as_strided((rows, 32), (32, 1)),
        "w": buffer[40:].as_strided((16, 32), (32, 1)),
        "bias": buffer[:16],
    }
    for name, tensor in over.items():
        given = {"x": x, "w": w, "bias": bias} | {name: tensor}
        out = buffer[8 if name == "bias" else 48 :].as_strided((rows, 16), (16, 1))
        with pytest.raises(ValueError, match=f"out shares memory with {name}; expected memory of its own"):
            matmul(given["x"], given["w"], given["bias"], out=out)


def test_a_residual_is_the_result_itself_or_apart():
    x, w = draw(4, 32), draw(16, 32, seed=1)
    stream = draw(5, 16, seed=2)
    wanted = right(x, w, residual=stream[:4].clone())
    assert error(matmul(x, w, residual=stream[:4], out=stream[:4]), wanted) < 1e-3
    for wrong in (stream[1:], stream[:1].expand(4, 16)):
        with pytest.raises(
            ValueError, match="out shares memory with residual; expected the same matrix, or memory"
        ):
            matmul(x, w, residual=wrong, out=stream[:4])
    wide = draw(1, 4, 16, seed=3)
    wanted = right(x, w, residual=wide[0].clone())
    assert error(matmul(x[None], w, residual=wide, out=wide)[0], wanted) < 1e-3


def test_a_result_may_lie_beside_x_in_wider_rows():
    both = draw(4, 48)
    x, w, out = both[:, :32], draw(16, 32, seed=1), both[:, 32:]
    wanted = right(x.clone(), w)
    assert error(matmul(x, w, out=out), wanted) < 1e-3
