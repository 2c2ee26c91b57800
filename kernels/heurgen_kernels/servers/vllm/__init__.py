"""The plugin of vLLM: an attention backend that launches through the generated selectors.

`register` is the entry point `heurgen` of the group `vllm.general_plugins`: where heurgen[kernels] is installed beside
vLLM, nothing else is needed but `attention_config={"backend": "CUSTOM"}`, or `attention_backend="HEURGEN"` where vLLM
takes new names (0.32).
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
# vLLM's own name for a backend that a plugin brings, and ours, where the enumeration takes new members (0.32).
CUSTOM, HEURGEN = "CUSTOM", "HEURGEN"


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


def enter(registry: Any) -> None:
    """Enters the backend in vLLM's registry under every name that it can have.

    CUSTOM in any case, since `LLM(attention_config=...)` looks its backend up before plugins are loaded; where another
    plugin's backend has that name, a log line says whose it stays.
    """
    backends = registry.AttentionBackendEnum
    custom = backends[CUSTOM]
    if custom.is_overridden() and custom.get_path() != BACKEND:
        logger.warning(
            "heurgen's attention backend is not registered as %s, which is %s already. VLLM_PLUGINS names the plugins "
            "to load", CUSTOM, custom.get_path(),
        )  # fmt: skip
    else:
        registry.register_backend(custom, BACKEND)
    if hasattr(backends, "register") and HEURGEN not in backends.__members__:
        registry.register_backend(HEURGEN, BACKEND)
        # a process that is spawned unpickles its configuration before it loads plugins: by name it would find nothing
        backends[HEURGEN].__reduce_ex__ = lambda protocol: (entered, ())


def entered() -> Any:
    """vLLM's member `HEURGEN`, in a process that may not have loaded plugins yet."""
    from vllm.v1.attention.backends import registry

    enter(registry)
    return registry.AttentionBackendEnum[HEURGEN]
