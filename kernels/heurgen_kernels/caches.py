"""What a launch remembers from call to call: one rule for bounds, one way to forget.

A server sees ever new batch shapes, so nothing is kept without bound: a cache that is full forgets everything. What is
found by identity is kept alive, so that its id stays its own.
"""

from __future__ import annotations

from typing import Any, TypeVar

MOST = 4096

Key = TypeVar("Key")
Value = TypeVar("Value")
_shared: list[Cache[Any, Any]] = []


class Cache(dict[Key, Value]):
    """A dict that is filled through `keep`. Of a module: `shared`; of a plan, which is kept itself: `Cache(most)`."""

    __slots__ = ("most",)

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: Key, value: Value) -> Value:
        """Value, kept under key; everything else is forgotten first where there are `most` entries."""
        if len(self) >= self.most:
            self.clear()
        self[key] = value
        return value


def shared(most: int = MOST) -> Cache[Any, Any]:
    """A module's cache, which `forget` empties."""
    _shared.append(Cache(most))
    return _shared[-1]


def forget() -> None:
    """Empties every cache of the launch path: later launches check, select, plan and bind anew.

    Counters of split keys are no cache, since recorded graphs hold them: they stay.
    """
    for cache in _shared:
        cache.clear()
