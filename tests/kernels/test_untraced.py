"""torch.compile and torch.export around the entry points and their operators."""

from __future__ import annotations

import pytest
import torch
from heurgen_kernels import matmul, ops, paged_attention, unified_attention
from heurgen_kernels.caches import forget
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental.proxy_tensor import make_fx

from tests.kernels.batches import make_batch

BATCHES = ([(4, 120), (5, 18), (3, 3)], [(1, 21), (2, 30)], [(3, 40)] * 4, [(2, 50)] * 5)


def draw(*shape):
    return (torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) / 4).half()


@pytest.fixture(autouse=True)
def anew():
    torch._dynamo.reset()


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_compiled_function_calls_them_between_its_graphs(device, dynamic):
    """They were traced into the launch, where that ended in an error."""
    w, backend = draw(48, 32).to(device), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x: matmul(x * 2, w) + 1, backend=backend, dynamic=dynamic)
    for rows in (5, 7, 9):
        x = draw(rows, 32).to(device)
        assert torch.equal(compiled(x), matmul(x * 2, w) + 1)
    assert backend.frame_count == (2 if dynamic else 4)

    def attend(batch):
        return paged_attention(**batch | {"q": batch["q"] * 2}) + 1

    compiled = torch.compile(attend, backend="aot_eager", dynamic=dynamic)
    for lengths in BATCHES[:2]:
        batch = make_batch(lengths, heads=(2, 1), device=device)
        assert torch.equal(compiled(batch), attend(batch))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("matmul", lambda x, w: matmul(x, w)),
        ("paged_attention", lambda x, w: paged_attention(x, w, w, x, x, x, max_seqlen_q=1, max_seqlen_k=1, scale=1.0)),
        ("paged_attention", lambda x, w: unified_attention(x, w, w, x, x, 1, x, 1, 1.0, True, (-1, -1), x, 0.0)),
    ],
)  # fmt: skip
def test_a_whole_graph_names_the_operator(name, call):
    said = f"in a graph call torch.ops.heurgen.{name}, after import heurgen_kernels.ops"
    with pytest.raises(Unsupported, match=said):
        torch.compile(call, backend="eager", fullgraph=True)(draw(5, 32), draw(48, 32))


def exported(function, x, rows=torch.export.Dim.AUTO):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    torch.export.export(Model(), (x,), dynamic_shapes=({0: rows},), strict=False)


@pytest.mark.parametrize(
    "trace", [exported, lambda function, x: make_fx(function, tracing_mode="symbolic")(x)], ids=["export", "make_fx"]
)  # fmt: skip
def test_sizes_that_are_symbols_are_refused(trace):
    """`TypeError: unhashable type: non-nested SymInt` said nothing."""
    w, batch = draw(48, 32), make_batch([(1, 21), (5, 18)], heads=(2, 1))
    said = "is a FakeTensor without memory; expected plain tensors, and where shapes are traced torch.ops.heurgen's ops"
    with pytest.raises(ValueError, match=f"^x {said}$"):
        trace(lambda x: matmul(x, w), draw(6, 32))
    with pytest.raises(ValueError, match=f"^q {said}$"):
        trace(lambda q: paged_attention(**batch | {"q": q}), batch["q"])


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize(
    ("trace", "kind"),
    [(lambda *call: exported(*call, torch.export.Dim.STATIC), "FakeTensor"),
     (lambda function, x: torch.vmap(function)(x[None]), "Tensor")], ids=["export", "vmap"],
)  # fmt: skip
def test_tensors_that_are_traced_are_refused_after_a_good_call(trace, kind, known):
    """As numbers their sizes are those of that call: torch's error for an address did not name the operators."""
    w, batch = draw(48, 32), make_batch([(1, 21), (5, 18)], heads=(2, 1))
    said = f"is a {kind} without memory; expected plain tensors, and where shapes are traced torch.ops.heurgen's ops"
    calls = (
        ("x", lambda x: matmul(x, w), draw(6, 32)),
        ("q", lambda q: paged_attention(**batch | {"q": q}), batch["q"]),
    )
    forget()
    for name, function, given in calls:
        if known:
            function(given)
        with pytest.raises(ValueError, match=f"^{name} {said}$"):
            trace(function, given)


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_torch_jit_traces_the_operators_alone(device, known):
    """Its sizes are tensors, which ended in `'Tensor' object has no attribute 'bit_length'`."""
    w, batch = draw(48, 32).to(device), make_batch([(1, 21), (5, 18)], heads=(2, 1), device=device)
    x = draw(6, 32).to(device)
    forget()
    calls = ((lambda x: matmul(x, w), x), (lambda q: paged_attention(**batch | {"q": q}), batch["q"]))
    for function, given in calls:
        if known:
            function(given)
        with pytest.raises(
            ValueError, match=r"^torch.jit.trace records no launch; expected torch.ops.heurgen's"
        ):
            torch.jit.trace(function, (given,))
    traced = torch.jit.trace(lambda x: torch.ops.heurgen.matmul(x, w), (x,))
    assert torch.equal(traced(x * 2), matmul(x * 2, w))


def test_operators_pass_the_checks_of_torch(device):
    x, w = draw(6, 32).to(device), draw(48, 32).to(device)
    products = [(x, w), (x.view(2, 3, 32), w), (x[0], w), (x[:0], w), (x, w, None, draw(6, 48).to(device))]
    for given in [*products, (draw(6, 64).to(device)[:, :32], w, draw(48).to(device), None, True)]:
        torch.library.opcheck(torch.ops.heurgen.matmul, given)
    batch = make_batch([(1, 21), (5, 18)], heads=(2, 1), fresh=True, device=device)
    call, new = ops.positional(batch), {"key": batch["key"], "value": batch["value"]}
    nothing = (call[0][:0], *call[1:3], call[3][:0], call[4][:1], call[5][:0], 0, 0, 1.0)
    sinks = {"sinks": torch.zeros(2, device=device), "window_left": 4}
    for given, more in ((call, new), (call, new | sinks), (nothing, {})):
        torch.library.opcheck(torch.ops.heurgen.paged_attention, given, more)


def test_one_graph_serves_batches_of_any_size(device):
    def attend(*given):
        return torch.ops.heurgen.paged_attention(*given) * 2

    backend = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attend, backend=backend, fullgraph=True, dynamic=True)
    for lengths in BATCHES:
        given = ops.positional(make_batch(lengths, heads=(2, 1), device=device))
        assert torch.equal(compiled(*given), attend(*given))
    assert backend.frame_count <= 2  # numbers that happen to be the same are taken for one


def test_an_exported_layer_takes_any_number_of_rows(device):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(draw(48, 32).to(device))

        def forward(self, x):
            return torch.ops.heurgen.matmul(x.relu(), self.weight)

    rows = torch.export.Dim("rows", max=4096)
    layer = Layer()
    exported = torch.export.export(layer, (draw(5, 32).to(device),), dynamic_shapes=({0: rows},)).module()
    with torch.no_grad():
        for count in (2, 70):
            x = draw(count, 32).to(device)
            assert torch.equal(exported(x), layer(x))


def test_training_through_an_operator_is_refused(device):
    """Compiled, by the first call; otherwise by `backward`, see test_inference.py."""
    w = torch.nn.Parameter(draw(48, 32).to(device))
    compiled = torch.compile(lambda x: torch.ops.heurgen.matmul(x, w), backend="aot_eager", fullgraph=True)
    with pytest.raises(RuntimeError, match=r"heurgen.matmul.default but no autograd formula was registered"):
        compiled(draw(5, 32).to(device))
    with torch.no_grad():
        assert compiled(draw(5, 32).to(device)).shape == (5, 48)
