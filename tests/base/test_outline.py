"""Short texts of results in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import heurgen
from heurgen.audit.advise import advise
from heurgen.base.outline import outline
from heurgen.logs.validation import validate
from tests.audit.learner import h200, load


@dataclass(frozen=True)
class Found:
    name: str
    pairs: tuple[tuple[str, int], ...]
    table: np.ndarray
    inner: object
    unseen: int = field(default=0, repr=False)

    __repr__ = outline


def test_what_is_long_is_counted() -> None:
    found = Found("k", (("a", 1),), np.zeros((3, 40)), {"x": "y" * 100})
    assert repr(found) == "Found(name='k', pairs=(('a', 1),), table=<3 x 40>, inner=<1>)"
    assert repr(Found("n" * 300, (("a", 1),) * 13, np.zeros(2), found)) == (
        "Found(name=<str>, pairs=<13>, table=<2>, "
        "inner=Found(name='k', pairs=(('a', 1),), table=<3 x 40>, inner=<1>))"
    )


def test_no_result_fills_a_notebook() -> None:
    """The report of `validate` was 95,675 characters of this log."""
    spec, log, tables = load()
    module = h200()
    results = (
        *(spec, log, tables[0], module, validate(log, tables, spec), heurgen.score(module, tables)),
        *(advise(module, tables[0], spec, 20), heurgen.diff(module, module, tables)),
        heurgen.explain(module, "nvidia", tables[0].features_of(0)),
    )
    assert {type(r).__name__: len(repr(r)) for r in results if len(repr(r)) > 700} == {}
    assert "measurements=12312" in repr(results[4])
    assert "geomean_slowdown=" in repr(results[5])
    assert repr(results[6]) == "<20 scenarios to measure>"
