"""The plugin of vLLM: an attention backend that launches through the generated selectors.

`register` is the entry point `heurgen` of the group `vllm.general_plugins`: where heurgen[kernels] is installed beside
vLLM, nothing else is needed but `attention_config={"backend": "HEURGEN"}`, or "CUSTOM" where vLLM takes no new names.
backend.py has the classes, support.py says what the kernels take over, batch.py what the host knows of a batch, warm.py
compiles before the first request.
"""

from __future__ import annotations

import logging
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

logger = logging.getLogger("vllm.heurgen")  # below vLLM's logger, so that its handlers print it
# First and first no more of the tested range of vLLM's versions.
TESTED = ((0, 26), (0, 34))
BACKEND = f"{__name__}.backend.HeurgenAttentionBackend"


def register() -> None:
    """Registers the backend; called by vLLM in each of its processes, more than once.

    Outside the tested range nothing is registered, and a log line says so: other backends work on.
    """
    try:
        found = version("vllm")
    except PackageNotFoundError:
        found = str(getattr(__import__("vllm"), "__version__", ""))
    refusal = refused(found)
    if refusal is not None:
        logger.warning(refusal)
        return
    from vllm.v1.attention.backends import registry

    enter(registry)


def refused(found: str) -> str | None:
    """Why this version of vLLM is refused, None where it is within the tested range."""
    parts = re.match(r"(\d+)\.(\d+)", found)
    if parts is not None and TESTED[0] <= (int(parts[1]), int(parts[2])) < TESTED[1]:
        return None
    first, last = (".".join(map(str, end)) for end in TESTED)
    return (
        f"heurgen's attention backend is not registered: it is tested with vLLM {first}.0 to below {last}, "
        f"and this is vLLM {found or 'of an unknown version'}"
    )


def enter(registry: Any) -> str:
    """Enters the backend in vLLM's registry, once, and returns the name that it has there.

    HEURGEN where the enumeration of backends takes new members (0.33), CUSTOM before (0.26).
    """
    backends = registry.AttentionBackendEnum
    if not hasattr(backends, "register"):
        registry.register_backend(backends.CUSTOM, BACKEND)
        return "CUSTOM"
    if "HEURGEN" not in backends.__members__:
        registry.register_backend("HEURGEN", BACKEND)
    return "HEURGEN"
