"""What a caller or a selector gives, made into the one config type of a kernel: by name, checked once.

Each kernel family has a named tuple of its launch parameters, and one `Parameters` that says what they may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from operator import index
from typing import Any, Generic, TypeVar

from .caches import Cache, shared

C = TypeVar("C", bound=tuple[Any, ...])


@dataclass(frozen=True, eq=False)
class Parameters(Generic[C]):
    """The parameters of a kernel family's launches.

    type      the named tuple of all parameters with their defaults: of text where the default is text, else integers
    allowed   the values of each
    rule      ValueError for values that do not go together
    normalised, one   by identity, what was given and its config; by value, the one object for all equal configs
    """

    type: type[C]
    allowed: Mapping[str, Iterable[Any]]
    rule: Callable[[C], None]
    normalised: Cache[int, tuple[Any, C]] = field(default_factory=shared)
    one: Cache[C, C] = field(default_factory=shared)

    @property
    def names(self) -> tuple[str, ...]:
        return self.type._fields  # type: ignore[attr-defined, no-any-return]

    def normalise(self, given: Any) -> C:
        """The config that `given` stands for; all that the launch path sees of it. Equal configs are one object.

        given: a named tuple of any of the parameters in any order (as generated modules return), a mapping, an
        instance of a data class, or any object with some of them as attributes. A parameter that is absent or None
        has its default. A named tuple is looked at once; what may change is looked at every time.

        ValueError that names parameter, value and what is allowed, for values and names that no launch knows.
        """
        known = self.normalised.get(id(given))
        if known is not None:
            return known[1]
        found = self._given(given)
        config = self.type(**{name: self._value(name, found.get(name)) for name in self.names})
        self.rule(config)
        config = self.one.get(config) or self.one.keep(config, config)
        if isinstance(given, tuple):
            self.normalised.keep(id(given), (given, config))
        return config

    def _given(self, given: Any) -> Mapping[str, Any]:
        """What is given, by name. Names that no launch knows are refused where the given thing is its parameters."""
        if isinstance(given, tuple) and hasattr(given, "_fields"):
            found: Mapping[str, Any] = dict(zip(given._fields, given, strict=True))
        elif isinstance(given, Mapping):
            found = given
        elif is_dataclass(given) and not isinstance(given, type):
            found = {entry.name: getattr(given, entry.name) for entry in fields(given)}
        else:
            names = [name for name in self.names if hasattr(given, name)]
            if not names:
                raise ValueError(
                    f"config is {given!r:.80}; expected an object with parameters of a launch: "
                    f"{', '.join(self.names)}"
                )
            return {name: getattr(given, name) for name in names}
        for name in found:
            if name not in self.names:
                raise ValueError(
                    f"config has {name!s:.80} = {found[name]!r:.80}; the parameters of a launch are "
                    f"{', '.join(self.names)}"
                )
        return found

    def _value(self, name: str, value: Any) -> Any:
        default = self.type._field_defaults[name]  # type: ignore[attr-defined]
        if value is None:
            return default
        try:
            plain = str.__str__(value) if isinstance(default, str) else index(value)
            fits = not isinstance(value, bool) and plain in self.allowed[name]
        except TypeError:  # no str; no integer
            fits = False
        if not fits:
            raise ValueError(f"config.{name} is {value!r:.80}; allowed: {self._allowed(name)}")
        return plain

    def _allowed(self, name: str) -> str:
        values = self.allowed[name]
        if isinstance(values, range):
            return f"integers from {values.start} to {values.stop - 1}"
        return ", ".join(map(str, values))
