"""Sampled launches of live traffic: HEURGEN_TRAFFIC=FILE.csv, HEURGEN_TRAFFIC_SAMPLE=0.01."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from ...host.hardware import VENDOR
from ...host.select import shipped
from .selector import selector_of

logger = logging.getLogger("vllm.heurgen")
Traffic = Callable[..., None]


def traffic_of(environment: Mapping[str, str], fp8: bool = False) -> Traffic | None:
    """What a batch's features go to, a mapping or keywords; None where HEURGEN_TRAFFIC is not set.

    Every 1/HEURGEN_TRAFFIC_SAMPLE-th batch of a group of layers (default 0.01) is a row that counts for that many, and
    whatever no training has seen is a row once: `heurgen.runtime.observe`. A decode that replays a graph asks no
    selector, and is none of them.

    fp8: quantised pages, whose selector is another. A file that cannot be written ends the log, with one line that says
    so. ValueError for a share that is none.
    """
    path = environment.get("HEURGEN_TRAFFIC")
    module = selector_of(environment, fp8) or shipped(VENDOR, fp8)
    if not path or module is None:
        return None
    from heurgen.runtime import observe

    select = module.SELECTORS[VENDOR]
    names = signature(select).parameters
    observed = observe(select, share_of(environment.get("HEURGEN_TRAFFIC_SAMPLE", "0.01")), path)
    log: Any = observed.log  # type: ignore[attr-defined]
    told: list[str] = []

    def write(features: Mapping[str, Any], **more: Any) -> None:
        known = {**features, **more}
        observed(*(known[name] for name in names))
        if log.error is not None and not told:
            told.append(path)
            logger.warning("heurgen writes no traffic to %s any more: %s", path, log.error)

    return write


def share_of(text: str) -> float:
    """ValueError for what is no share."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"HEURGEN_TRAFFIC_SAMPLE is {text!r}; expected a share from 0 to 1")
    return share
