"""The weights of llama.py: random ones in Llama-3-8B's shape, or those of a local checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Architecture:
    """Llama-3-8B's. scaling: of Llama 3.1's positions: factor, low and high frequency factor, original context."""

    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    intermediate: int = 14336
    vocabulary: int = 128256
    theta: float = 500000.0
    eps: float = 1e-5
    scaling: tuple[float, float, float, float] | None = None

    def frequencies(self, device: str) -> Tensor:
        """Radians per token of each pair of a head: float32 [head size / 2]."""
        pairs = torch.arange(0, self.head_size, 2, device=device, dtype=torch.float32) / self.head_size
        found = self.theta**-pairs
        if self.scaling is None:
            return found
        factor, low, high, context = self.scaling
        kept = ((context * found / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return found * (kept + (1 - kept) / factor)


class Layer(NamedTuple):
    """Weights as [out, in]: qkv [(heads + 2 * KV heads) * head size, hidden], gate_up [2 * intermediate, hidden]."""

    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    embedding: Tensor  # [vocabulary, hidden]
    layers: Sequence[Layer]
    norm: Tensor  # [hidden]
    head: Tensor  # [vocabulary, hidden]


def random_weights(a: Architecture, device: str, dtype: torch.dtype, seed: int = 0) -> Weights:
    """Norms of one, normal weights over the root of their inputs: scores neither vanish nor explode."""
    generator = torch.Generator(device).manual_seed(seed)

    def drawn(rows: int, columns: int, scale: float) -> Tensor:
        return torch.randn(rows, columns, generator=generator, device=device, dtype=dtype).mul_(scale)

    def product(rows: int, columns: int) -> Tensor:
        return drawn(rows, columns, columns**-0.5)

    ones = torch.ones(a.hidden, device=device, dtype=dtype)
    width = a.heads * a.head_size
    layers = [
        Layer(
            ones, product(width + 2 * a.kv_heads * a.head_size, a.hidden), product(a.hidden, width), ones,
            product(2 * a.intermediate, a.hidden), product(a.hidden, a.intermediate),
        )
        for _ in range(a.layers)
    ]  # fmt: skip
    return Weights(drawn(a.vocabulary, a.hidden, 1.0), layers, ones, product(a.vocabulary, a.hidden))


def load(folder: Path, device: str, dtype: torch.dtype) -> tuple[Architecture, Weights]:
    """A checkpoint as Transformers writes it. ValueError for what this file does not compute."""
    from safetensors import safe_open

    a = architecture(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    files = [safe_open(path, "pt") for path in sorted(folder.glob("*.safetensors"))]
    homes = {name: file for file in files for name in file.keys()}  # noqa: SIM118 (no mapping)

    def joined(*names: str) -> Tensor:
        parts = [homes[f"{name}.weight"].get_tensor(f"{name}.weight") for name in names]
        return torch.cat(parts).to(device, dtype)

    def layer(number: int) -> Layer:
        base = f"model.layers.{number}"
        q, k, v, out = (f"{base}.self_attn.{name}_proj" for name in "qkvo")
        return Layer(
            joined(f"{base}.input_layernorm"), joined(q, k, v), joined(out),
            joined(f"{base}.post_attention_layernorm"),
            joined(f"{base}.mlp.gate_proj", f"{base}.mlp.up_proj"), joined(f"{base}.mlp.down_proj"),
        )  # fmt: skip

    embedding = joined("model.embed_tokens")
    head = joined("lm_head") if "lm_head.weight" in homes else embedding  # absent where the two are tied
    layers = [layer(number) for number in range(a.layers)]
    return a, Weights(embedding, layers, joined("model.norm"), head)


def architecture(config: dict[str, Any]) -> Architecture:
    """Of a checkpoint's config.json."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    needed = {
        "model_type": (config.get("model_type"), ["llama"]),
        "hidden_act": (config.get("hidden_act", "silu"), ["silu"]),
        "attention_bias": (bool(config.get("attention_bias")), [False]),
        "mlp_bias": (bool(config.get("mlp_bias")), [False]),
        "rope_type": (kind, ["default", "llama3"]),
    }
    for name, (value, known) in needed.items():
        if value not in known:
            raise ValueError(f"config.json: {name} is {value!r}; this file computes {known}")
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    heads = config["num_attention_heads"]
    return Architecture(
        config["num_hidden_layers"], config["hidden_size"], heads, config.get("num_key_value_heads") or heads,
        config.get("head_dim") or config["hidden_size"] // heads, config["intermediate_size"],
        config["vocab_size"], rope.get("rope_theta", config.get("rope_theta", 10000.0)), config["rms_norm_eps"],
        None if kind == "default" else tuple(float(rope[name]) for name in names),
    )  # fmt: skip
