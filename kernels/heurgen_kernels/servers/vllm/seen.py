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
    """Strides (tokens, heads) of q, of new K and V, and of the output, as first noted; all that were, for a warm-up."""

    strides: tuple[Strides, Strides, Strides] | None = None
    dtypes: tuple[torch.dtype, torch.dtype] | None = None
    all: dict[tuple[Strides, Strides, Strides], None] = field(default_factory=dict)

    def note(
        self, query: torch.Tensor, key: torch.Tensor | None, value: torch.Tensor | None, output: torch.Tensor
    ) -> None:
        """Tensors of [tokens, heads, head size]; of one token they say nothing."""
        if query.shape[0] < 2:
            return
        new = query.stride() if key is None or value is None else new_strides(key, value)
        found = (pair(query.stride()), pair(new), pair(output.stride()))
        self.all[found] = None
        if self.strides is None:
            self.strides, self.dtypes = found, (query.dtype, output.dtype)

    def uniform(
        self,
        tokens: int,
        query: torch.Tensor,
        key: torch.Tensor | None,
        value: torch.Tensor | None,
        output: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor]:
        """q, new K and V (None without key) and the output, of so many tokens, with the strides that were noted."""
        if query.shape[0] != tokens:
            query, output = query[:tokens], output[:tokens]
        if tokens == 1 and self.strides is not None:
            query, output = like(query, self.strides[0]), like(output, self.strides[2])
        if key is None or value is None:
            return query, None, None, output
        if key.shape[0] != tokens:
            key, value = key[:tokens], value[:tokens]
        if key.stride() != value.stride():
            key, value = key.contiguous(), value.contiguous()
        return query, key, value, output


def pair(strides: tuple[int, ...]) -> Strides:
    return strides[0], strides[1]


def new_strides(key: torch.Tensor, value: torch.Tensor) -> tuple[int, ...]:
    """Of new K and V as `uniform` hands them over: a kernel takes both with the same strides."""
    alike = key.stride() == value.stride()
    return tuple(key.stride()) if alike else (key.shape[1] * key.shape[2], key.shape[2])


def like(tensor: torch.Tensor, strides: Strides) -> torch.Tensor:
    """A tensor of one token, with other strides."""
    if pair(tensor.stride()) == strides:
        return tensor
    return tensor.as_strided(tensor.shape, (*strides, 1))
