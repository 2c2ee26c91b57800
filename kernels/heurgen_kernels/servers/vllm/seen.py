"""How a layer's tensors lie in memory: noted while vLLM measures memory, and kept so that kernels need no others.

Strides are part of what is compiled. A model in eager mode hands over views of its fused projection, a compiled one
whatever the compiler made of it; and of a single token the stride from token to token is any number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

Strides = tuple[int, int]
# Of q, new K and new V, the output.
Lies = tuple[Strides, tuple[Strides, Strides], Strides]


@dataclass(slots=True)
class Seen:
    """Strides (tokens, heads) of q, new K, new V and the output, as first noted; all that were, for a warm-up."""

    strides: Lies | None = None
    dtypes: tuple[torch.dtype, torch.dtype] | None = None
    all: dict[Lies, None] = field(default_factory=dict)

    def note(
        self, query: torch.Tensor, key: torch.Tensor | None, value: torch.Tensor | None, output: torch.Tensor
    ) -> None:
        """Tensors of [tokens, heads, head size]; of one token they say nothing."""
        if query.shape[0] < 2:
            return
        key, value = (query, query) if key is None or value is None else (key, value)
        found = pair(query.stride()), (pair(key.stride()), pair(value.stride())), pair(output.stride())
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
            query, output = like(query, self.strides[0]), like(output, self.strides[2])
        return query, output

    def written(
        self, tokens: int, key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """New K and V of so many tokens with the strides that were noted, each its own, and their slots."""
        if not key.shape[0] == slots.shape[0] == tokens:
            key, value, slots = key[:tokens], value[:tokens], slots[:tokens]
        if tokens == 1 and self.strides is not None:
            key, value = (like(*given) for given in zip((key, value), self.strides[1], strict=True))
        return key, value, slots


def fresh(tokens: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """New K and V of so many tokens as a kernel reads prompts': heads lie alike."""
    if key.shape[0] != tokens:
        key, value = key[:tokens], value[:tokens]
    if key.stride(1) != value.stride(1):
        key, value = key.contiguous(), value.contiguous()
    return key, value


def pair(strides: tuple[int, ...]) -> Strides:
    return strides[0], strides[1]


def like(tensor: torch.Tensor, strides: Strides) -> torch.Tensor:
    """A tensor of one token with these strides, as far as they say nothing of where its numbers are: those between
    heads do, unless there is one head.
    """
    found = pair(tensor.stride())
    if found == strides or (found[1] != strides[1] and tensor.shape[1] > 1):
        return tensor
    return tensor.as_strided(tensor.shape, (*strides, 1))
