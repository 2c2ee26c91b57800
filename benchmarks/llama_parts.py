"""What benchmarks/llama.py measures with: runs of a backend, tokens compared, single kernels, FlashAttention-3."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import llama
import peers
import torch
from torch import Tensor

EXACT = 2  # sequences that are computed in float32 too
NEAR = 6.0  # of a backend's noise: what a preference may be to count as a near-tie
CONTEXT = 44  # tokens that the post's figure 8 has been measured behind


def settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Run:
    """A backend at one batch: a prompt and a decode step, recorded; `first` and `logits` are where their logits lie."""

    def __init__(self, model: llama.Llama, prompts: Tensor, tokens: int) -> None:
        self.model, self.prompts = model, prompts
        self.state = llama.State(model, prompts.shape[0], prompts.shape[1] + max(tokens, 4))
        self.decode, self.logits = llama.record(lambda: model.decode(self.state))
        self.prompt, self.first = llama.record(lambda: model.prompt(prompts, self.state))

    def generate(self, tokens: int) -> tuple[float, float]:
        """Milliseconds to the first token, and of each further one."""
        settle()
        start = time.perf_counter()
        self.prompt()
        settle()
        first = time.perf_counter()
        for _ in range(tokens - 1):
            self.decode()
        settle()
        end = time.perf_counter()
        return (first - start) * 1e3, (end - first) / max(tokens - 1, 1) * 1e3


def compare_tokens(runs: dict[str, Run], steps: int) -> dict[str, Any]:
    """How often each backend's greedy token is that of the leader (`sdpa` where it runs) after the same tokens.

    noise: root of the mean square of logits less those in float32, over EXACT sequences. gap: by how much the leader
    preferred its token to another backend's, at most. Both are in logits, whose deviation is `spread`.
    """
    leader = "sdpa" if "sdpa" in runs else next(iter(runs))
    chosen: dict[str, list[Tensor]] = {name: [] for name in runs}
    gaps: dict[str, list[Tensor]] = {name: [] for name in runs}
    kept: dict[str, list[Tensor]] = {name: [] for name in runs}
    for run in runs.values():
        run.prompt()
    for step in range(steps):
        logits = {name: (run.logits if step else run.first).float() for name, run in runs.items()}
        mine = logits[leader].argmax(-1, keepdim=True)
        for name, found in logits.items():
            other = found.argmax(-1, keepdim=True)
            chosen[name].append(other[:, 0])
            gaps[name].append((logits[leader].gather(1, mine) - logits[leader].gather(1, other))[:, 0])
            kept[name].append(found[:EXACT].clone())
            runs[name].state.tokens.copy_(mine[:, 0])
        for run in runs.values():
            run.decode()
    taken = torch.stack(chosen[leader], 1)
    all_kept = {name: torch.stack(found, 1) for name, found in kept.items()}
    run = runs[leader]
    tokens = torch.cat([run.prompts[:EXACT], taken[:EXACT, : steps - 1]], 1)
    truth = in_float32(run.model, tokens, steps)
    noise = {name: root_mean_square(values - truth) for name, values in all_kept.items()}
    found: dict[str, Any] = {"leader": leader, "steps": steps, "spread": float(truth.std()), "noise": noise}
    for name in runs:
        if name != leader:
            gap = float(torch.stack(gaps[name]).max())
            found[name] = {
                "equal": float((torch.stack(chosen[name], 1) == taken).float().mean()), "gap": gap,
                "from leader": root_mean_square(all_kept[name] - all_kept[leader]),
                "near-ties alone": gap <= NEAR * noise[leader],
            }  # fmt: skip
    return found


def root_mean_square(x: Tensor) -> float:
    return float(x.square().mean().sqrt())


class InFloat32(Sequence[llama.Layer]):
    """Layers in float32, one at a time: all of them would take 32 GB."""

    def __init__(self, layers: Sequence[llama.Layer]) -> None:
        self._layers = layers

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, number: Any) -> Any:
        return llama.Layer(*(tensor.float() for tensor in self._layers[number]))


def in_float32(model: llama.Llama, tokens: Tensor, steps: int) -> Tensor:
    """Logits [sequences, steps, vocabulary] of the last `steps` of tokens [sequences, length], weights as they are."""
    w = model.weights
    weights = llama.Weights(w.embedding.float(), InFloat32(w.layers), w.norm.float(), w.head.float())
    exact = llama.Llama(model.a, weights, "sdpa")
    count, length = tokens.shape
    last = torch.arange(length - steps, length, device=tokens.device)
    kept = (torch.arange(count, device=tokens.device)[:, None] * length + last).flatten()
    return exact.prompt(tokens, llama.State(exact, count, length), kept).view(count, steps, -1)


def kernel_times(
    a: llama.Architecture, weights: llama.Weights, backends: Sequence[str],
    failed: Callable[[str, Exception], None],
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Microseconds of the kernels of the post's figure 8, at batch 1 behind CONTEXT tokens, by kernel and backend.

    Each kernel once for each layer's weights or pages, so that they are read from memory, as one CUDA graph. Ours with
    what they have fused (residuals; SiLU and the product with the gate), cuBLAS's as they are. failed: told of a
    backend that could not be measured.
    """
    replays = {}
    for backend in backends:
        try:
            for name, call in single_calls(a, weights, backend):
                replays[name, backend] = llama.record(call)[0]
        except Exception as error:
            failed(f"kernels of figure 8, {backend}", error)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in replays}
    for _ in range(15):
        for key, replay in replays.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            replay()
            end.record()
            end.synchronize()
            times[key].append(begin.elapsed_time(end) * 1e3 / a.layers)
    found: dict[str, dict[str, float]] = {}
    for (name, backend), taken in times.items():
        found.setdefault(name, {})[backend] = statistics.median(taken)
    return found


def single_calls(
    a: llama.Architecture, weights: llama.Weights, backend: str
) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """(name, call) of each kernel of figure 8, the attention of FlashAttention-3 alone: its products are cuBLAS's."""
    model = llama.Llama(a, weights, backend)
    state = llama.State(model, 1, CONTEXT)
    device, dtype = weights.norm.device, weights.norm.dtype
    state.lens.fill_(CONTEXT)
    state.positions.fill_(CONTEXT - 1)
    for cache in state.cache:
        for tensor in cache:
            tensor.normal_()

    def row(width: int) -> Tensor:
        return torch.randn(1, width, device=device, dtype=dtype)

    q = torch.randn(1, a.heads, a.head_size, device=device, dtype=dtype)
    slots = state.positions
    place = llama.Place(
        q, q, slots, model.backend.shared(a, state.positions, state.one_each, state, 1), state.one_each, state.lens,
        state.table, 1, state.room, True,
    )  # fmt: skip

    def through(one: Callable[[llama.Layer], Any]) -> Callable[[], Tensor]:
        def call() -> Tensor:
            for layer in weights.layers:
                found = one(layer)
            return found[0] if isinstance(found, tuple) else found

        return call

    def attention() -> Tensor:
        for k, v in state.cache:
            found = model.backend.look(a, q, None, k, v, place)
        return found

    yield "attention", attention
    if backend == "fa3":
        return
    x, h, wide, inner = row(a.hidden), row(a.hidden), row(a.heads * a.head_size), row(a.intermediate)
    yield "QKV", through(lambda layer: model.backend.linear(x, layer.qkv))
    ours = backend == "heurgen"
    yield "output", through(lambda layer: model.backend.add(wide, layer.out, h)[0 if ours else 1])
    gated = model.backend.gated if ours else model.backend.linear
    yield "gate and up", through(lambda layer: gated(x, layer.gate_up))
    yield "down", through(lambda layer: model.backend.add(inner, layer.down, h)[0 if ours else 1])


def _batch(q: Tensor, k: Tensor, v: Tensor | None, table: Tensor | None, starts: Tensor, lens: Tensor, new: int,
           room: int) -> Any:  # fmt: skip
    arguments = {"max_seqlen_q": new, "max_seqlen_k": room, "scale": q.shape[2] ** -0.5}
    return SimpleNamespace(
        q=q,
        key_cache=k,
        value_cache=v,
        block_table=table,
        cu_seqlens_q=starts,
        seq_lens=lens,
        arguments=arguments,
    )


@torch.library.custom_op("heurgen_llama::fa3_plan", mutates_args=())
def fa3_plan(q: Tensor, k: Tensor, starts: Tensor, lens: Tensor, new: int, room: int, size: int) -> Tensor:
    """FlashAttention-3's scheduler metadata, int32 [size]. q and k: any of the shapes that attention will be given."""
    plan = peers.fa3_plan(_batch(q, k, None, None, starts, lens, new, room))
    if plan.shape != (size,) or plan.dtype != torch.int32:
        raise RuntimeError(f"scheduler metadata {plan.dtype} {tuple(plan.shape)}, expected int32 ({size},)")
    return plan


@fa3_plan.register_fake
def _fake_plan(q: Tensor, k: Tensor, starts: Tensor, lens: Tensor, new: int, room: int, size: int) -> Tensor:
    return lens.new_empty((size,))


@torch.library.custom_op("heurgen_llama::fa3", mutates_args=())
def fa3(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, starts: Tensor, lens: Tensor, new: int, room: int,
    plan: Tensor | None,
) -> Tensor:  # fmt: skip
    """Without a plan every layer finds its own."""
    return peers.fa3_call(_batch(q, k, v, table, starts, lens, new, room), False if plan is None else plan)()


@fa3.register_fake
def _fake_fa3(q: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(q)


class Fa3(llama.Sdpa):
    """cuBLAS, and FlashAttention-3 from pages; its scheduler metadata is found once a decode step, for all layers."""

    slots = llama.Heurgen.slots

    def __init__(self) -> None:
        self.sizes: dict[tuple[int, int], int] = {}  # of the metadata, by sequences and room

    def cache(self, a: llama.Architecture, batch: int, room: int, like: Tensor) -> tuple[Tensor, Tensor]:
        k, v = llama.Heurgen.cache(self, a, batch, room, like)
        if (batch, room) not in self.sizes:
            q = like.new_empty((batch, a.heads, a.head_size))
            starts = torch.arange(batch + 1, dtype=torch.int32, device=like.device)
            self.sizes[batch, room] = len(
                peers.fa3_plan(_batch(q, k, v, None, starts, starts[1:].clone(), 1, room))
            )
        return k, v

    def shared(
        self, a: llama.Architecture, positions: Tensor, starts: Tensor, state: llama.State, new: int
    ) -> Tensor | None:
        if new > 1:
            return None
        k = state.cache[0][0]
        q = k.new_empty((len(positions), a.heads, a.head_size))
        size = self.sizes[len(positions), state.room]
        return torch.ops.heurgen_llama.fa3_plan(q, k, starts, state.lens, new, state.room, size)

    def store(
        self, a: llama.Architecture, qkv: Tensor, k: Tensor, v: Tensor, p: llama.Place
    ) -> tuple[Tensor, Any]:
        q, new_k, new_v = llama.turned(a, qkv, p)
        k.view(-1, *k.shape[2:])[p.slots] = new_k
        v.view(-1, *v.shape[2:])[p.slots] = new_v
        return q, None

    def look(
        self, a: llama.Architecture, q: Tensor, new: Any, k: Tensor, v: Tensor, p: llama.Place
    ) -> Tensor:
        return torch.ops.heurgen_llama.fa3(q, k, v, p.table, p.starts, p.lens, p.new, p.longest, p.shared)


def add_fa3() -> str | None:
    """Makes "fa3" a backend of the example; why it is not there, where it is not."""
    missing = peers.load_fa3()
    if missing is None:
        llama.BACKENDS["fa3"] = Fa3
    return missing
