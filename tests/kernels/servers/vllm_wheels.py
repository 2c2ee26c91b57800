"""The real attention classes of two versions of vLLM, on a machine that has neither vLLM nor a GPU.

A wheel of 300 MB is fetched from the package index once; of it the Python files of attention are kept in a folder.
What these import beside is stood in for by stubs: another version's interface shows in the files that are real.
"""

from __future__ import annotations

import ast
import enum
import fcntl
import importlib.abc
import importlib.machinery
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

# `make versions` asks for those between.
VERSIONS = tuple(os.environ.get("HEURGEN_VLLM_VERSIONS", "0.26.0 0.33.0").split())
KEPT = (
    "vllm/v1/attention/", "vllm/v1/kv_cache_interface.py", "vllm/v1/worker/gpu_worker.py", "vllm/triton_utils/",
    "vllm/utils/math_utils.py", "vllm/model_executor/layers/attention/attention.py", "vllm/plugins/__init__.py",
    "vllm/v1/kv_cache_spec_registry.py", "vllm/v1/kv_cache_layout.py", "vllm/utils/jit_monitor.py",
    "vllm/model_executor/layers/fused_moe/fused_moe.py", "vllm/config/compilation.py",
)  # fmt: skip
REAL = (
    "vllm.v1", "vllm.v1.attention", "vllm.v1.kv_cache_interface", "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.kv_cache_layout",
    "vllm.triton_utils", "vllm.utils.math_utils",
)  # fmt: skip


def folder(version: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "heurgen-tests" / f"vllm-{version}"


def fetch(version: str) -> Path | str:
    """The folder of a version's files, or why they cannot be had."""
    place = folder(version)
    done = place / "complete"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers that ask at once fetch once
        if done.exists() and done.read_text(encoding="utf-8") == repr(KEPT):
            return place
        return _fetched(version, place)


def _fetched(version: str, place: Path) -> Path | str:
    with tempfile.TemporaryDirectory() as temporary:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            temporary,
        ]
        command += ["--python-version", "3.12", f"vllm=={version}"]
        for glibc in (28, 31, 35):
            command += ["--platform", f"manylinux_2_{glibc}_x86_64"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        except subprocess.TimeoutExpired:
            return f"the wheel of vLLM {version} did not come within 180 s"
        wheels = list(Path(temporary).glob("*.whl"))
        if ended.returncode or not wheels:
            return f"the wheel of vLLM {version} cannot be had: {ended.stderr.strip()[-200:]}"
        with zipfile.ZipFile(wheels[0]) as wheel:
            names = [n for n in wheel.namelist() if n.startswith(KEPT) and n.endswith(".py")]
            wheel.extractall(place, names)
    (place / "complete").write_text(repr(KEPT), encoding="utf-8")
    return place


def source(version: str, path: str) -> str:
    return (folder(version) / path).read_text(encoding="utf-8")


def class_of(version: str, path: str, name: str) -> Any:
    """A class of a file whose other parts ask for more than there is: an Enum."""
    parts = ast.parse(source(version, path)).body
    (found,) = (part for part in parts if isinstance(part, ast.ClassDef) and part.name == name)
    space: dict[str, Any] = {"enum": enum}
    exec(compile(ast.Module([found], []), path, "exec"), space)
    return space[name]


class Anything(ModuleType):
    """A module in which every name is a class that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        setattr(self, name, made)
        return made


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of vllm that is not to be real."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("vllm.") or name in REAL or name.startswith("vllm.v1.attention."):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        inside = module.__name__.removeprefix("vllm.").replace(".", "/")
        module.__path__ = [f"{root}/{inside}" for root in sys.modules["vllm"].__path__]
        vars(module).update(CONTENTS.get(module.__name__, {}))


class Logger(logging.Logger):
    """vLLM's, which says some things once."""

    info_once = logging.Logger.info
    warning_once = logging.Logger.warning
    debug_once = logging.Logger.debug


def init_logger(name: str) -> Logger:
    made = Logger(name)
    made.parent = logging.getLogger()
    return made


Capability = SimpleNamespace(major=9, minor=0, to_int=lambda: 90, as_version_str=lambda: "9.0")
PLATFORM = SimpleNamespace(
    is_cuda=lambda: True, is_rocm=lambda: False, is_xpu=lambda: False, is_cuda_alike=lambda: True, is_cpu=lambda: False,
    get_device_capability=lambda: Capability, has_device_capability=lambda _: True, get_device_name=lambda: "H200",
    is_device_capability=lambda _: False, fp8_dtype=lambda: torch.float8_e4m3fn, num_compute_units=lambda: 132,
    is_device_capability_family=lambda _: False, opaque_attention_op=lambda: True,
)  # fmt: skip


CONTENTS: dict[str, dict[str, Any]] = {
    "vllm.config": {"get_current_vllm_config_or_none": lambda: None},
    "vllm.config.cache": {"get_kv_cache_dtype_handler": lambda _: None},
    "vllm.platforms": {"current_platform": PLATFORM},
    "vllm.logger": {"init_logger": init_logger},
    "vllm.envs": {"VLLM_BATCH_INVARIANT": False, "VLLM_TRITON_USE_TD": None, "VLLM_KV_CACHE_LAYOUT": None},
    "vllm.utils.torch_utils": {
        "is_quantized_kv_cache": lambda name: name.startswith("fp8") or name.endswith("per_token_head"),
        "get_dtype_size": lambda dtype: dtype.itemsize, "PIN_MEMORY": False,
    },
    "vllm.utils.import_utils": {"resolve_obj_by_qualname": None},
    "vllm.model_executor.layers.quantization.utils.quant_utils": {"get_fp8_min_max": lambda: (-448.0, 448.0)},
    "vllm.distributed.parallel_state": {
        "get_dcp_group": lambda: SimpleNamespace(world_size=1, rank_in_group=0),
        "get_pcp_group": lambda: SimpleNamespace(world_size=1, rank_in_group=0),
        "get_dcp_world_size_and_rank": lambda *_: (1, 0), "get_pcp_world_size_and_rank": lambda *_: (1, 0),
    },
}  # fmt: skip


def enter(version: str) -> None:
    """Makes `import vllm...` find a version's files; for a process of its own."""
    package = ModuleType("vllm")
    package.__path__ = [str(folder(version) / "vllm")]
    package.__version__ = version
    sys.modules["vllm"] = package
    CONTENTS["vllm.config"]["CUDAGraphMode"] = class_of(
        version, "vllm/config/compilation.py", "CUDAGraphMode"
    )
    sys.meta_path.insert(0, Stubs())
