"""How a layer's tensors lie in memory: noted while vLLM measures memory, and kept so that kernels need no others.

Strides are part of what is compiled. A model in eager mode hands over views of its fused projection, a compiled one
whatever the compiler made of it; and of a single token the stride from token to token is any number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

Strides = tuple[int, int]


@dataclass(slots=True)
class Seen:
    """Strides (tokens, heads) of q, new K, new V and the output, as first noted; all that were, for a warm-up."""

    strides: tuple[Strides, Strides, Strides, Strides] | None = None
    dtypes: tuple[torch.dtype, torch.dtype] | None = None
    all: dict[tuple[Strides, Strides, Strides, Strides], None] = field(default_factory=dict)

    def note(
        self, query: torch.Tensor, key: torch.Tensor | None, value: torch.Tensor | None, output: torch.Tensor
    ) -> None:
        """Tensors of [tokens, heads, head size]; of one token they say nothing."""
        if query.shape[0] < 2:
            return
        key, value = (query, query) if key is None or value is None else (key, value)
        found = pair(query.stride()), pair(key.stride()), pair(value.stride()), pair(output.stride())
        self.all[found] = None
        if self.strides is None:
            self.strides, self.dtypes = found, (query.dtype, output.dtype)

    def uniform(
        self, tokens: int, query: torch.Tensor, output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """q and the output, of so many tokens, with the strides that were noted."""
        if query.shape[0] != tokens:
            query, output = query[:tokens], output[:tokens]
        if tokens == 1 and self.strides is not None:
            query, output = like(query, self.strides[0]), like(output, self.strides[3])
        return query, output

    def written(
        self, tokens: int, key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """New K and V of so many tokens with the strides that were noted, each its own, and their slots."""
        if not key.shape[0] == slots.shape[0] == tokens:
            key, value, slots = key[:tokens], value[:tokens], slots[:tokens]
        if tokens == 1 and self.strides is not None:
            key, value = like(key, self.strides[1]), like(value, self.strides[2])
        return key, value, slots


def fresh(tokens: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """New K and V of so many tokens as a kernel reads prompts': both with the same strides."""
    if key.shape[0] != tokens:
        key, value = key[:tokens], value[:tokens]
    if key.stride() != value.stride():
        key, value = key.contiguous(), value.contiguous()
    return key, value


def pair(strides: tuple[int, ...]) -> Strides:
    return strides[0], strides[1]


def fresh_strides(key: Strides, value: Strides, heads: int, size: int) -> Strides:
    """Of K and V as `fresh` hands them over."""
    return key if key == value else (heads * size, size)


def like(tensor: torch.Tensor, strides: Strides) -> torch.Tensor:
    """A tensor of one token, with other strides."""
    if pair(tensor.stride()) == strides:
        return tensor
    return tensor.as_strided(tensor.shape, (*strides, 1))
