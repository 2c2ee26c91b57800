"""Llama without CUDA kernels: every kernel of a decode step is Triton's.

python llama.py [FOLDER] [--layers 32] [--batch 2] [--prompt 512] [--tokens 256] [--backend heurgen]

FOLDER is a local checkpoint (config.json and *.safetensors); without it the weights are random, in Llama-3-8B's shape.
Matrix products and attention are heurgen's; RMSNorm, the embedding and the choice of the next token are what
torch.compile(fullgraph=True) makes of them in Triton; one kernel of this file turns Q and K and writes K and V to their
pages. A layer is compiled once and called for all layers; a decode step is one CUDA graph, whose lengths lie on the
device. `backend="sdpa"` is the same model with cuBLAS and PyTorch's attention: see benchmarks/llama.py.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import heurgen_kernels.ops  # noqa: F401 (registers torch.ops.heurgen)
import torch
import triton
import triton.language as tl
from heurgen_kernels import Linear, warm_up_matmul
from llama_weights import Architecture, Layer, Weights, load, random_weights
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu

PAGE = 16  # tokens of a page
CHUNK = 256  # tokens of the vocabulary that one program looks for the best among


class Place(NamedTuple):
    """Where the T new tokens of a call stand: `new` of each of the sequences, one sequence after another.

    cos, sin  float32 [T, head size / 2]
    slots     int64 [T], the token of the cache that each writes: counted over all pages, or over a sequence's own room
    shared    what a backend finds once for all layers: `Sdpa` what to add to the scores of a decode
    starts, lens, table, longest  as `paged_attention` has cu_seqlens_q, seq_lens, block_table and max_seqlen_k
    recorded  lengths will change on the device, between replays of a CUDA graph
    """

    cos: Tensor
    sin: Tensor
    slots: Tensor
    shared: Tensor | None
    starts: Tensor
    lens: Tensor
    table: Tensor
    new: int
    longest: int
    recorded: bool


@triton.jit
def _turn(source, target, cos, sin, index, inside, HALF: tl.constexpr):
    a = tl.load(source + index, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(source + HALF + index, mask=inside, other=0.0).to(tl.float32)
    kind = target.dtype.element_ty
    tl.store(target + index, (a * cos - b * sin).to(kind), mask=inside)
    tl.store(target + HALF + index, (b * cos + a * sin).to(kind), mask=inside)


@triton.jit
def turn_and_store_kernel(qkv, cos, sin, slots, q, k_cache, v_cache, GROUP: tl.constexpr, HEADS_KV: tl.constexpr,
                          HALF: tl.constexpr, PADDED: tl.constexpr):  # fmt: skip
    """A program for each token and KV head: turns its query heads into q and its K into the cache, copies its V."""
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    SIZE: tl.constexpr = 2 * HALF
    HEADS: tl.constexpr = GROUP * HEADS_KV
    index = tl.arange(0, PADDED)
    inside = index < HALF
    c = tl.load(cos + token * HALF + index, mask=inside, other=0.0)
    s = tl.load(sin + token * HALF + index, mask=inside, other=0.0)
    row = qkv + token * (HEADS + 2 * HEADS_KV) * SIZE
    for number in tl.static_range(GROUP):
        one = head * GROUP + number
        _turn(row + one * SIZE, q + (token * HEADS + one) * SIZE, c, s, index, inside, HALF)
    slot = (tl.load(slots + token) * HEADS_KV + head) * SIZE
    _turn(row + (HEADS + head) * SIZE, k_cache + slot, c, s, index, inside, HALF)
    v = row + (HEADS + HEADS_KV + head) * SIZE
    tl.store(v_cache + slot + index, tl.load(v + index, mask=inside), mask=inside)
    tl.store(v_cache + slot + HALF + index, tl.load(v + HALF + index, mask=inside), mask=inside)


@torch.library.custom_op("heurgen_llama::turn_and_store", mutates_args=("key_cache", "value_cache"))
def turn_and_store(
    qkv: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, key_cache: Tensor, value_cache: Tensor
) -> Tensor:
    """q [T, heads, size] of qkv [T, (heads + 2 * KV heads) * size]; caches [pages, page, KV heads, size]."""
    heads_kv, size = key_cache.shape[2:]
    q = qkv.new_empty((len(qkv), qkv.shape[1] // size - 2 * heads_kv, size))
    turn_and_store_kernel[(q.shape[0], heads_kv)](
        qkv, cos, sin, slots, q, key_cache, value_cache, q.shape[1] // heads_kv, heads_kv, size // 2,
        triton.next_power_of_2(size // 2), num_warps=1,
    )  # fmt: skip
    return q


@turn_and_store.register_fake
def _fake(qkv: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, key_cache: Tensor, *_: Tensor) -> Tensor:
    heads_kv, size = key_cache.shape[2:]
    return qkv.new_empty((qkv.shape[0], qkv.shape[1] // size - 2 * heads_kv, size))


class Heurgen:
    """Matrix products and attention in Triton, with their launch configs chosen by generated selectors."""

    def warm_up(self, weights: Weights, rows: Iterable[int]) -> None:
        """Compiles the products of so many tokens in processes: called cold, they would compile one after another."""
        layer = weights.layers[0]
        adding = [Linear(*w.shape, residual=True, dtype=w.dtype) for w in (layer.out, layer.down)]
        plain = [Linear(*w.shape, dtype=w.dtype) for w in (layer.qkv, weights.head)]
        gated = Linear(*layer.gate_up.shape, gated=True, dtype=layer.gate_up.dtype)
        warm_up_matmul([*plain, *adding, gated], rows)

    def late(self, h: Tensor) -> Tensor | None:
        """What a layer leaves for the next one to add to h: nothing, since products add the residual themselves."""
        return None

    def linear(self, x: Tensor, w: Tensor) -> Tensor:
        return torch.ops.heurgen.matmul(x, w, None, None, False)

    def gated(self, x: Tensor, w: Tensor) -> Tensor:
        return torch.ops.heurgen.matmul(x, w, None, None, True)

    def add(self, x: Tensor, w: Tensor, h: Tensor) -> tuple[Tensor, Tensor | None]:
        """(h + x w^T, None), or (h, x w^T) where the addition is left to the next norm."""
        return torch.ops.heurgen.matmul(x, w, None, h, False), None

    def cache(self, a: Architecture, batch: int, room: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of a layer: [pages, PAGE, KV heads, head size]."""
        shape = (batch * room // PAGE, PAGE, a.kv_heads, a.head_size)
        return like.new_zeros(shape), like.new_zeros(shape)

    def slots(self, rows: Tensor, positions: Tensor, table: Tensor) -> Tensor:
        return table[rows, positions // PAGE].long() * PAGE + positions % PAGE

    def shared(
        self, a: Architecture, positions: Tensor, starts: Tensor, state: State, new: int
    ) -> Tensor | None:
        """`Place.shared` of a call."""
        return None

    def store(self, a: Architecture, qkv: Tensor, k: Tensor, v: Tensor, p: Place) -> tuple[Tensor, Any]:
        """q [T, query heads, head size], turned, and what `look` wants of the new K and V; they go to the cache."""
        return torch.ops.heurgen_llama.turn_and_store(qkv, p.cos, p.sin, p.slots, k, v), None

    def look(self, a: Architecture, q: Tensor, new: Any, k: Tensor, v: Tensor, p: Place) -> Tensor:
        """Attention, [T, query heads, head size]."""
        return torch.ops.heurgen.paged_attention(
            q, k, v, p.table, p.starts, p.lens, p.new, p.longest, a.head_size**-0.5,
            total_seqlen_k=None if p.recorded else len(q), recorded=p.recorded,
        )  # fmt: skip


class Sdpa:
    """cuBLAS, and the attention that PyTorch picks over a contiguous cache; a residual is left to the next norm."""

    def late(self, h: Tensor) -> Tensor | None:
        return torch.zeros_like(h)

    def linear(self, x: Tensor, w: Tensor) -> Tensor:
        return linear(x, w)

    def gated(self, x: Tensor, w: Tensor) -> Tensor:
        gate, up = linear(x, w).chunk(2, -1)
        return silu(gate) * up

    def add(self, x: Tensor, w: Tensor, h: Tensor) -> tuple[Tensor, Tensor | None]:
        return h, linear(x, w)

    def cache(self, a: Architecture, batch: int, room: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of a layer: [sequences, KV heads, room, head size]."""
        shape = (batch, a.kv_heads, room, a.head_size)
        return like.new_zeros(shape), like.new_zeros(shape)

    def slots(self, rows: Tensor, positions: Tensor, table: Tensor) -> Tensor:
        return positions

    def shared(
        self, a: Architecture, positions: Tensor, starts: Tensor, state: State, new: int
    ) -> Tensor | None:
        """[sequences, 1, 1, room]: nothing for the tokens that a decode sees, minus infinity behind them."""
        if new > 1:
            return None
        seen = torch.arange(state.room, device=positions.device) <= positions[:, None, None, None]
        return torch.where(seen, 0.0, -math.inf).to(state.cache[0][0].dtype)

    def store(self, a: Architecture, qkv: Tensor, k: Tensor, v: Tensor, p: Place) -> tuple[Tensor, Any]:
        q, new_k, new_v = turned(a, qkv, p)
        rows = torch.arange(len(p.slots), device=p.slots.device) // p.new
        k[rows, :, p.slots] = new_k
        v[rows, :, p.slots] = new_v
        return q, (new_k, new_v)

    def look(self, a: Architecture, q: Tensor, new: Any, k: Tensor, v: Tensor, p: Place) -> Tensor:
        if p.new > 1:
            q, k, v = [x.unflatten(0, (-1, p.new)).transpose(1, 2) for x in (q, *new)]
            out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return out.transpose(1, 2).flatten(0, 1)
        # the query heads of a KV head as so many queries: its keys are read once
        grouped = q.view(len(q), a.kv_heads, -1, a.head_size)
        return scaled_dot_product_attention(grouped, k, v, attn_mask=p.shared).flatten(1, 2)


def turned(a: Architecture, qkv: Tensor, p: Place) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of qkv, [T, heads, head size] each, q and k turned by their positions."""
    q, k, v = qkv.view(len(qkv), -1, a.head_size).split([a.heads, a.kv_heads, a.kv_heads], 1)

    def turn(x: Tensor) -> Tensor:
        first, second = x.float().chunk(2, -1)
        cos, sin = p.cos[:, None], p.sin[:, None]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)

    return turn(q), turn(k), v


BACKENDS: dict[str, Callable[[], Any]] = {"heurgen": Heurgen, "sdpa": Sdpa}


class State:
    """A batch on the device: the newest token of each sequence, where it stands, what came before, and the caches.

    tokens, positions  int64 [batch]; lens int32 [batch], tokens that the newest one sees, itself included
    history            int64 [batch, room]
    """

    def __init__(self, model: Llama, batch: int, room: int) -> None:
        like = model.weights.norm
        self.batch, self.room = batch, -(-room // PAGE) * PAGE

        def numbers(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=like.device)

        self.tokens, self.positions, self.history = numbers(batch), numbers(batch), numbers(batch, self.room)
        self.lens = numbers(batch, dtype=torch.int32)
        pages = torch.arange(batch * self.room // PAGE, dtype=torch.int32, device=like.device)
        self.table = pages.view(batch, -1)
        self.one_each = torch.arange(batch + 1, dtype=torch.int32, device=like.device)
        self.cache = [model.backend.cache(model.a, batch, self.room, like) for _ in range(model.a.layers)]
        self.lens.fill_(1)


class Llama:
    """`prompt` fills a state and finds the first token, `decode` the next ones; nothing is read from the device."""

    def __init__(self, a: Architecture, weights: Weights, backend: str = "heurgen") -> None:
        self.a, self.weights, self.backend = a, weights, BACKENDS[backend]()
        self.frequencies = a.frequencies(str(weights.norm.device))

    def compile(self, **options: Any) -> Llama:
        """Compiles the three parts of a step, each without a break; a layer is compiled once for all layers.

        Batches and lengths of prompts are variants of the same code.
        """
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 128)
        for name in ("embed", "block", "head"):
            part = torch.compile(getattr(self, name), fullgraph=True, dynamic=False, **options)
            setattr(self, name, part)
        return self

    def prompt(self, prompts: Tensor, state: State, kept: Tensor | None = None) -> Tensor:
        """Logits of the token after each prompt, [batch, vocabulary]; the state is as after a decode step.

        prompts: int64 [batch, length]. kept: of which of all prompts' tokens, one after another, the logits are wanted
        instead; then no token is chosen.
        """
        batch, length = prompts.shape
        positions = torch.arange(length, device=prompts.device).repeat(batch)
        state.history[:, :length] = prompts
        state.positions.fill_(length - 1)
        state.lens.fill_(length)
        h, late = self.run(prompts.flatten(), positions, state.one_each * length, length, state, False)
        if kept is not None:
            return self.head(h, late, kept, None)
        return self.head(h, late, (state.one_each[1:] * length - 1).long(), state)

    def decode(self, state: State) -> Tensor:
        """One step: the newest tokens go in, the next ones are the newest then. Logits [batch, vocabulary]."""
        h, late = self.run(state.tokens, state.positions, state.one_each, 1, state, True)
        return self.head(h, late, None, state)

    def run(
        self, tokens: Tensor, positions: Tensor, starts: Tensor, new: int, state: State, recorded: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(h, late) of all tokens behind the last layer: late, where there is one, is still to be added to h."""
        h, late, *found = self.embed(tokens, positions, starts, state, new)
        longest = state.room if recorded else new
        place = Place(*found, starts, state.lens, state.table, new, longest, recorded)
        for layer, (k, v) in zip(self.weights.layers, state.cache, strict=True):
            h, late = self.block(layer, k, v, h, late, place)
        return h, late

    def embed(
        self, tokens: Tensor, positions: Tensor, starts: Tensor, state: State, new: int
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Tensor | None]:
        """h [T, hidden] and what is late, then cos, sin, slots and shared of `Place`."""
        h = self.weights.embedding[tokens]
        angles = positions[:, None].float() * self.frequencies
        rows = torch.arange(len(tokens), device=tokens.device) // new
        slots = self.backend.slots(rows, positions, state.table)
        shared = self.backend.shared(self.a, positions, starts, state, new)
        return h, self.backend.late(h), angles.cos(), angles.sin(), slots, shared

    def block(
        self, layer: Layer, k: Tensor, v: Tensor, h: Tensor, late: Tensor | None, place: Place
    ) -> tuple[Tensor, Tensor | None]:
        h, x = self.normed(h, late, layer.attention_norm)
        q, new = self.backend.store(self.a, self.backend.linear(x, layer.qkv), k, v, place)
        attended = self.backend.look(self.a, q, new, k, v, place)
        h, late = self.backend.add(attended.flatten(1), layer.out, h)
        h, x = self.normed(h, late, layer.mlp_norm)
        return self.backend.add(self.backend.gated(x, layer.gate_up), layer.down, h)

    def normed(self, h: Tensor, late: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        """h with what was late, and its RMSNorm. A sum of h's type would be handed to cuBLAS, behind a copy of h."""
        h = h if late is None else (h.float() + late.float()).to(h.dtype)
        x = h.float()
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.a.eps)
        return h, x.to(h.dtype) * weight

    def head(self, h: Tensor, late: Tensor | None, kept: Tensor | None, state: State | None) -> Tensor:
        """Logits of the kept tokens; the state, where given, takes their best as its newest tokens."""
        if kept is not None:
            h, late = h[kept], None if late is None else late[kept]
        logits = self.backend.linear(self.normed(h, late, self.weights.norm)[1], self.weights.head)
        if state is not None:
            token = best(logits)
            state.positions.add_(1)
            state.lens.add_(1)
            state.tokens.copy_(token)
            rows = torch.arange(len(token), device=token.device)
            state.history[rows, state.positions] = token
        return logits


def best(logits: Tensor) -> Tensor:
    """The best of each row, in two steps: one program would look through a whole row for long."""
    chunk = math.gcd(logits.shape[-1], CHUNK)
    values, indices = logits.unflatten(-1, (-1, chunk)).max(-1)
    which = values.argmax(-1, keepdim=True)
    return (which * chunk + indices.gather(-1, which)).squeeze(-1)


def record(call: Callable[[], Tensor]) -> tuple[Callable[[], Any], Tensor]:
    """(what replays the call as one CUDA graph, where its result lies). The call runs twice before: it compiles."""
    for _ in range(2):
        result = call()
    if not result.is_cuda:
        return lambda: result.copy_(call()), result
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()

    def replay(_alive: Callable[[], Tensor] = call) -> None:
        """The call owns what the graph reads and writes: it lives as long as the graph."""
        graph.replay()

    return replay, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="a checkpoint; random weights without it")
    parser.add_argument("--layers", type=int, default=32, help="of random weights")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--tokens", type=int, default=256, help="to generate")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="heurgen")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU that torch can use, and the steps are recorded as a CUDA graph")
    if given.folder is None:
        a = Architecture(layers=given.layers)
        weights = random_weights(a, "cuda", torch.bfloat16)
    else:
        a, weights = load(given.folder, "cuda", torch.bfloat16)
    model = Llama(a, weights, given.backend).compile()
    if isinstance(model.backend, Heurgen):
        model.backend.warm_up(weights, (given.batch, given.batch * given.prompt))
    state = State(model, given.batch, given.prompt + given.tokens)
    replay, _ = record(lambda: model.decode(state))
    generator = torch.Generator("cuda").manual_seed(0)
    prompts = torch.randint(a.vocabulary, (given.batch, given.prompt), generator=generator, device="cuda")
    for _ in range(2):  # the first compiles
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.prompt(prompts, state)
        torch.cuda.synchronize()
        first = time.perf_counter()
        for _ in range(given.tokens - 1):
            replay()
        torch.cuda.synchronize()
        step = (time.perf_counter() - first) / max(given.tokens - 1, 1)
    print(f"first token after {(first - start) * 1e3:.1f} ms, then {step * 1e3:.3f} ms a token")
    print(state.history[:, given.prompt : given.prompt + given.tokens].tolist())


if __name__ == "__main__":
    main()
