"""Runs in the recorded program: notes every sweep of Triton's autotuner, as one JSON line in a file of the process.

`Autotuner.run` of Triton 3.5 to 3.9 is wrapped; a key that it adds to `cache` was tuned, and `configs_timings` has the
times. The listener that 3.8 and later have is told a key's values without their names, and where one is set Triton's
interpreter fails. Standard library alone, and nothing here may raise into the program: what goes wrong is one line on
stderr.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import abc, machinery
from types import ModuleType
from typing import Any

FOLDER = "HEURGEN_RECORD"
_TARGET = "triton.runtime.autotuner"
# Fields of triton.Config that are logged beside its kwargs. A fork's own field (`enable_tma`) is logged where it is on.
_FIELDS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
_complained = False


class _Finder(abc.MetaPathFinder):
    """Finds the autotuner's module as Python does, and patches it once it is loaded."""

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        if name != _TARGET:
            return None
        spec = machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _safely(install, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Install when the program imports Triton's autotuner."""
    sys.meta_path.insert(0, _Finder())


def install(module: Any) -> None:
    """Record the sweeps of an autotuner module's `Autotuner`."""
    _write({"event": "triton"})
    run = module.Autotuner.run

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, timed = set(getattr(self, "cache", ())), getattr(self, "configs_timings", None)
        result = run(self, *args, **kwargs)
        _safely(_after_run, self, before, timed, args, kwargs)
        return result

    module.Autotuner.run = recorded


def _after_run(
    tuner: Any, before: set[Any], timed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """before, timed: the keys and the times that there were. Of one config Triton 3.8 takes no times: those of the last
    key stay.
    """
    new = [key for key in tuner.cache if key not in before]
    timings = getattr(tuner, "configs_timings", None)
    if new and timings and timings is not timed:
        named = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
        dtypes = {n: str(v.dtype) for n, v in named.items() if n in tuner.arg_names and hasattr(v, "dtype")}
        features = {name: named[name] for name in tuner.keys if name in named}
        sweep = _sweep(tuner.base_fn.__name__, features, dtypes, timings)
        _write(sweep | {"keys": list(tuner.keys), "source": _source(tuner.base_fn)})


def _source(function: Any) -> str:
    """Where a kernel is written: another kernel may have its name, in another file."""
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{function.__qualname__}"


def _sweep(kernel: str, features: dict[str, Any], dtypes: dict[str, str], timings: Any) -> dict[str, Any]:
    pairs = timings.items() if hasattr(timings, "items") else timings
    found = []
    for config, times in pairs:
        fields = {n: v for n, v in vars(config).items() if n not in ("kwargs", "pre_hook")}
        settings = {
            **config.kwargs,
            **{n: v for n, v in fields.items() if v or (n in _FIELDS and v is not None)},
        }
        values = [float(t) for t in (times if isinstance(times, list | tuple) else [times])]
        found.append([{n: _plain(v) for n, v in settings.items()}, values])
    shown = {n: _plain(v) for n, v in features.items()}
    return {
        "event": "sweep",
        "kernel": kernel,
        "features": shown,
        "dtypes": dtypes,
        "timings": found,
    } | _device()


def _plain(value: Any) -> Any:
    value = getattr(value, "value", value)  # a tl.constexpr
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def _device() -> dict[str, str]:
    if os.environ.get("TRITON_INTERPRET") == "1":
        return {"device": "Triton interpreter", "vendor": "cpu"}
    import torch

    if not torch.cuda.is_available():
        return {"device": "unknown", "vendor": "unknown"}
    return {"device": torch.cuda.get_device_name(), "vendor": "amd" if torch.version.hip else "nvidia"}


def _write(record: dict[str, Any]) -> None:
    folder = os.environ.get(FOLDER)
    if folder:
        with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _safely(do: Any, *arguments: Any) -> None:
    global _complained
    try:
        do(*arguments)
    except Exception as error:
        if not _complained:
            print(f"heurgen record: this sweep is not recorded: {error!r}", file=sys.stderr)
        _complained = True
