"""A compiled kernel bound to its launcher, so that a launch neither dispatches nor encodes descriptors again.

Triton 3.6's launcher encodes each tensor descriptor anew at every launch, in Python (about 4 us each). What it makes
of one is an opaque CUtensorMap, by value: it holds no memory, so it may be kept by address and shape, and handed to
the C function below. Where Triton's internals are not those of 3.6 to 3.9, or the kernel wants scratch of Triton's own,
its launcher is called as it is, and the log says so once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from inspect import getclosurevars, isfunction, signature
from operator import or_
from typing import Any, Protocol, TypeVar

import triton

from ..caches import Cache
from .dispatch import bindable, launching

# The versions of Triton that all GPU tests ran with.
TESTED = ("3.6", "3.8")
_log = logging.getLogger("heurgen_kernels")
# What Triton 3.6's C function takes before a kernel's own arguments: grid, stream, function, two flags, two
# scratches, packed metadata, launch metadata, two hooks.
CONVENTION = "iiiKKppOOOOOO"
# Versions whose C function takes grid, stream, function, two flags, packed metadata, launch metadata, two hooks, two
# scratches, annotations, a signature, and a kernel's own arguments as one sequence (launchKernel in their driver.c).
TOGETHER = ("3.7.", "3.8.", "3.9.")
# Sets of descriptors that a plan keeps of each source: more than a model has layers, about 1 KB each.
ENCODED = 512
# Where a kernel takes the descriptors of a source, such as those of K's and V's pages: numbers of arguments.
Slots = tuple[int, ...]
Given = TypeVar("Given")


@dataclass(slots=True)
class Bound:
    """launch(x, y, z, stream, *head, *arguments of the kernel). encode: the arguments that stand for the descriptor
    in a slot; None where the launcher encodes. encoded: by source, by its first slot.
    """

    launch: Callable[..., Any]
    head: tuple[Any, ...]
    encode: Callable[[int, Any], list[Any]] | None = None
    encoded: dict[int, Cache[tuple[int, ...], tuple[Any, ...]]] = field(default_factory=dict)

    def descriptors(
        self, slots: Slots, key: tuple[int, ...], build: Callable[..., tuple[Any, ...]], *given: Any
    ) -> tuple[Any, ...]:
        """The arguments that stand for the descriptors of `build(*given)`, a source's, one for each of its slots.

        key: addresses, sizes and strides: all that tells descriptors of a plan's source apart.
        """
        if self.encode is None:
            return build(*given)
        kept = self.encoded[slots[0]]
        known = kept.get(key)
        if known is None:
            made = zip(slots, build(*given), strict=True)
            known = kept.keep(key, tuple(part for slot, one in made for part in self.encode(slot, one)))
        return known


class Keeper(Protocol):
    """What keeps a kernel's binding between launches."""

    bound: Bound | None


@dataclass(slots=True)
class Kept:
    """A keeper that is nothing else: of a kernel that needs no plan."""

    bound: Bound | None = None


def aligned(addresses: tuple[int, ...]) -> Any:
    """What a compiled kernel may assume of its tensors' addresses, 0 for None: True where all are multiples of 16."""
    return not reduce(or_, addresses) & 15 or tuple([address & 15 == 0 for address in addresses])


def run(
    kept: Keeper,
    past: Callable[[Bound, Given], None],
    dispatch: Callable[[Given], tuple[Any, Sequence[Slots]]],
    given: Given,
) -> Any:
    """Launches a kernel: `past(bound, given)` where it is bound and may go past Triton's dispatch. Else that does:
    `dispatch(given)`, which returns (the compiled kernel or None, the slots of its descriptors); its binding is kept,
    but inside `compiling`.

    given: one argument, since unpacking costs a launch 60 ns. Returns the kernel where it was dispatched, or None.
    """
    bound = kept.bound
    if bound is not None and bindable():
        past(bound, given)
        return None
    compiled, sources = dispatch(given)
    if not hasattr(compiled, "packed_metadata"):
        return None
    if bound is None and launching.get():
        kept.bound = bind(compiled, sources)
    return compiled


def bind(compiled: Any, sources: Sequence[Slots]) -> Bound:
    """sources: the slots of the descriptors that the kernel has."""
    run, function, packed = compiled.run, compiled.function, compiled.packed_metadata
    opened = _opened(run, sorted(slot for slots in sources for slot in slots))
    if opened is None:
        say_once(triton.__version__, type(run).__name__)
        return Bound(run, (function, packed, None, None, None))
    raw, encode = opened
    flags = (run.launch_cooperative_grid, run.launch_pdl)
    encoded: dict[int, Cache[tuple[int, ...], tuple[Any, ...]]] = {
        slots[0]: Cache(ENCODED) for slots in sources
    }
    if hasattr(run, "kernel_signature"):
        head = (function, *flags, packed, *[None] * 5, run.arg_annotations, run.kernel_signature)
        return Bound(_together(raw, head), (), encode, encoded)
    return Bound(raw, (function, *flags, None, None, packed, None, None, None), encode, encoded)


def _together(raw: Callable[..., Any], head: tuple[Any, ...]) -> Callable[..., Any]:
    """The C function of 3.7 to 3.9, which takes a kernel's own arguments as one sequence."""

    def launch(x: int, y: int, z: int, stream: int, *arguments: Any) -> Any:
        return raw(x, y, z, stream, *head, arguments)

    return launch


@cache
def say_once(version: str, launcher: str) -> None:
    """What is lost without the launcher that is known."""
    _log.warning(
        "launches go through Triton %s's own %s: they are right, but descriptors are encoded anew at each, which costs "
        "microseconds of host time. Bound past that launcher: Triton 3.6 to 3.9 on NVIDIA GPUs, tested: %s",
        version, launcher, ", ".join(TESTED),
    )  # fmt: skip


def _opened(
    run: Any, slots: list[int]
) -> tuple[Callable[..., Any], Callable[[int, Any], list[Any]] | None] | None:
    """(the C function, `Bound.encode`) of Triton's launcher; None where anything is unknown."""
    module = sys.modules.get(type(run).__module__)
    if type(run).__name__ != "CudaLauncher" or not _known(module, run):
        return None
    if getattr(run, "global_scratch_size", 1) or getattr(run, "profile_scratch_size", 1):
        return None
    launch = run.launch
    if not slots:
        return launch, None
    inside = getclosurevars(launch).nonlocals if isfunction(launch) else {}
    metadata: tuple[Any, ...] = tuple(inside.get("tensordesc_meta") or ())
    make = getattr(module, "make_tensordesc_arg", None)
    # by their numbers: those in a list up to 3.7, those with nothing inside in a tree of tuples from 3.8 on
    taken = inside.get("tensordesc_indices", inside.get("relevant_paths", ()))
    if sorted(taken) != slots or len(metadata) != len(slots):
        return None
    if "launcher" not in inside or make is None or None in metadata:
        return None
    of_slot = dict(zip(slots, metadata, strict=True))
    more = (None,) * (len(signature(make).parameters) - 2)  # 3.8's third one is of AMD
    return inside["launcher"], lambda slot, descriptor: make(descriptor, of_slot[slot], *more)


def _known(module: Any, run: Any) -> bool:
    """Whether the C function takes what `bind` gives it."""
    if not all(hasattr(run, name) for name in ("launch", "launch_cooperative_grid", "launch_pdl")):
        return False
    if triton.__version__.startswith(TOGETHER):
        kept = hasattr(run, "arg_annotations") and hasattr(run, "kernel_signature")
        return kept and not getattr(run, "gsan_enabled", False)
    return getattr(module, "_BASE_ARGS_FORMAT", None) == CONVENTION
