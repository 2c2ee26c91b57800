"""What a launch remembers: one bound, one way to forget."""

from __future__ import annotations

from heurgen_kernels import caches
from heurgen_kernels.caches import Cache, forget, shared


def test_a_full_cache_forgets_everything_and_keeps_what_comes():
    cache = Cache(2)
    assert [cache.keep(n, -n) for n in (1, 2)] == [-1, -2]
    assert cache == {1: -1, 2: -2}
    assert cache.keep(3, -3) == -3
    assert cache == {3: -3}


def test_without_a_number_it_holds_4096():
    cache = Cache()
    for n in range(4096):
        cache.keep(n, n)
    assert len(cache) == caches.MOST == 4096
    cache.keep(-1, 0)
    assert list(cache) == [-1]


def test_forget_empties_the_shared_caches_and_no_others(monkeypatch):
    monkeypatch.setattr(caches, "_shared", [])
    one, two, own = shared(), shared(3), Cache(3)
    assert (one.most, two.most) == (4096, 3)
    for cache in (one, two, own):
        cache.keep("a", 1)
    forget()
    assert (one, two, own) == ({}, {}, {"a": 1})
