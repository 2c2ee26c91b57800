"""Triton kernels, paged attention and linear layers, that launch through generated selectors.

Names are looked up lazily, so that importing the package, or a generated heuristic inside it, needs neither torch nor
triton.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Config", "Layout", "Linear", "matmul", "paged_attention", "unified_attention", "warm_up", "warm_up_matmul",
]  # fmt: skip
_HOME = {
    "paged_attention": "api", "unified_attention": "api", "Config": "config", "Layout": "ahead.layouts",
    "Linear": "ahead.linear", "warm_up": "ahead.warm", "warm_up_matmul": "ahead.linear", "matmul": "gemm.api",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    # kept, since `heurgen_kernels.matmul(x, w)` would look it up anew at each call, which takes microseconds
    globals()[name] = value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]
