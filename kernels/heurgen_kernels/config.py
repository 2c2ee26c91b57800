"""The one config type of a launch, and the one place where what a caller or a selector gives becomes it.

Values are checked here and nowhere else: what the launch path gets is a `Config` with values of the right types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from operator import index
from typing import Any, NamedTuple

from .caches import Cache, shared


class Config(NamedTuple):
    """One setting of all launch parameters. `normalise` says what else serves as a config.

    variant       naive | q_block | split_kv | static_grid | mixed | warp_specialized
    BLOCK_M       rows (query token, query head) of a Q block; raised to the query heads per KV head where smaller;
                  warp_specialized has 128, of which each of two consumers takes half
    TILE_SIZE     keys per step, independent of the page size
    num_warps     of a program; of each consumer in warp_specialized, where it is 4
    num_segments  parts that the longest sequence's keys are cut into (split_kv, static_grid, warp_specialized,
                  decodes of mixed)
    programs_per_sm  where not 0, num_segments follows from it at launch: as many parts as give so many programs per
                  processor, see `host/segments.py`
    waves_per_eu, matrix_instr_nonkdim  AMD alone; None is Triton's default
    """

    variant: str = "q_block"
    BLOCK_M: int = 16
    TILE_SIZE: int = 64
    num_warps: int = 4
    num_stages: int = 2
    num_segments: int = 1
    programs_per_sm: int = 0
    waves_per_eu: int | None = None
    matrix_instr_nonkdim: int | None = None


VARIANTS = ("naive", "q_block", "split_kv", "static_grid", "mixed", "warp_specialized")
# What a launch accepts: every value that was ever measured, and what compiles beside it. 256 rows or keys fill the
# registers of sixteen warps; the interleaved instructions of CDNA are of 4, 16 or 32 rows.
ALLOWED: Mapping[str, Iterable[Any]] = {
    "variant": VARIANTS,
    "BLOCK_M": (16, 32, 64, 128, 256),
    "TILE_SIZE": (16, 32, 64, 128, 256),
    "num_warps": (1, 2, 4, 8, 16),
    "num_stages": range(1, 9),
    "num_segments": range(1, 1025),
    "programs_per_sm": range(65),
    "waves_per_eu": (None, *range(9)),
    "matrix_instr_nonkdim": (None, 0, 4, 16, 32),
}
_DEFAULTS = Config._field_defaults
_NAMES = ", ".join(Config._fields)
# By identity, what was given and its config; by value, the one object that stands for all equal configs.
normalised: Cache[int, tuple[Any, Config]] = shared()
_one: Cache[Config, Config] = shared()


def normalise(given: Any) -> Config:
    """The config that `given` stands for; all that the launch path sees of it. Equal configs are one object.

    given: a named tuple of any of Config's parameters in any order (as generated modules return), a mapping, an
    instance of a data class, or any object with some of them as attributes. A parameter that is absent or None has
    Config's default. A named tuple is looked at once; what may change is looked at every time.

    ValueError that names parameter, value and what is allowed, for values and names that no launch knows.
    """
    known = normalised.get(id(given))
    if known is not None:
        return known[1]
    config = _checked(_parameters(given))
    config = _one.get(config) or _one.keep(config, config)
    if isinstance(given, tuple):
        normalised.keep(id(given), (given, config))
    return config


def _parameters(given: Any) -> Mapping[str, Any]:
    """What is given, by name. Names that no launch knows are refused where the given thing is its parameters."""
    names: Iterable[str]
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        found: Mapping[str, Any] = dict(zip(given._fields, given, strict=True))
    elif isinstance(given, Mapping):
        found = given
    elif is_dataclass(given) and not isinstance(given, type):
        found = {field.name: getattr(given, field.name) for field in fields(given)}
    else:
        names = [name for name in Config._fields if hasattr(given, name)]
        if not names:
            raise ValueError(
                f"config is {given!r:.80}; expected an object with parameters of a launch: {_NAMES}"
            )
        return {name: getattr(given, name) for name in names}
    for name in found:
        if name not in _DEFAULTS:
            raise ValueError(
                f"config has {name!s:.80} = {found[name]!r:.80}; the parameters of a launch are {_NAMES}"
            )
    return found


def _checked(found: Mapping[str, Any]) -> Config:
    values = {name: _value(name, found.get(name)) for name in Config._fields}
    config = Config(**values)
    if config.variant == "warp_specialized":
        for name, only in (("BLOCK_M", 128), ("num_warps", 4)):
            if values[name] != only:
                raise ValueError(
                    f"config.{name} is {values[name]}; warp_specialized has blocks of 128 rows and consumers of "
                    f"4 warps: {name} must be {only}"
                )
    return config


def _value(name: str, value: Any) -> Any:
    """A str for the variant, an int or None for all others."""
    if value is None:
        return _DEFAULTS[name]
    try:
        plain = str.__str__(value) if name == "variant" else index(value)
        fits = not isinstance(value, bool) and plain in ALLOWED[name]
    except TypeError:  # no str; no integer
        fits = False
    if not fits:
        raise ValueError(f"config.{name} is {value!r:.80}; allowed: {_allowed(name)}")
    return plain


def _allowed(name: str) -> str:
    values = ALLOWED[name]
    if isinstance(values, range):
        return f"integers from {values.start} to {values.stop - 1}"
    return ", ".join(map(str, values))
