"""Which GPU is here: by a stand-in for NVML, by folders like AMD's driver's, and what `bind` makes of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from heurgen import machine as machines
from heurgen import runtime
from heurgen.machine import Machine
from heurgen.render.python import render_python
from heurgen.runtime import bind, observe
from tests.render.examples import by_device
from tests.support.modules import two_vendors

H100, H200 = Machine("nvidia", "NVIDIA H100 80GB HBM3", "9.0"), Machine("nvidia", "NVIDIA H200", "9.0")

# --- NVIDIA -----------------------------------------------------------------------------------------------

NVML_SOURCE = r"""
#include <string.h>
static const char *names[] = {"NVIDIA H100 80GB HBM3", NAME1};
static const char *uuids[] = {"GPU-aa11", "GPU-bb22"};
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(unsigned long)(i + 1); return 0; }
int nvmlDeviceGetName(void *h, char *s, unsigned n) { strncpy(s, names[(unsigned long)h - 1], n); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) { strncpy(s, uuids[(unsigned long)h - 1], n); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { (void)h; *a = 9; *b = 0; return 0; }
"""
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Libraries of a machine with an H100 and an H200, and of one with two H100s."""
    folder = tmp_path_factory.mktemp("nvml")
    found = {}
    for kind, name in (("mixed", "NVIDIA H200"), ("equal", "NVIDIA H100 80GB HBM3")):
        (folder / f"{kind}.c").write_text(NVML_SOURCE.replace("NAME1", f'"{name}"'))
        out = folder / f"{kind}.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(out), str(folder / f"{kind}.c")], check=True)
        found[kind] = str(out)
    return found


@needs_gcc
@pytest.mark.parametrize(
    ("kind", "environ", "index", "expected"),
    [
        ("equal", {}, 0, H100),
        ("equal", {}, 1, H100),
        ("equal", {}, 2, None),
        ("equal", {}, -1, None),
        ("equal", {"CUDA_VISIBLE_DEVICES": ""}, 0, None),
        ("equal", {"CUDA_VISIBLE_DEVICES": "-1"}, 0, None),
        ("equal", {"CUDA_VISIBLE_DEVICES": "1"}, 1, None),
        # NVML cannot know which of two different cards CUDA calls the first.
        ("mixed", {}, 0, None),
        ("mixed", {"CUDA_VISIBLE_DEVICES": "1"}, 0, None),
        ("mixed", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 1, H200),
        ("mixed", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,0"}, 0, H200),
        ("mixed", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,7,0"}, 1, None),
        ("mixed", {"CUDA_VISIBLE_DEVICES": "GPU-bb22"}, 0, H200),
        ("mixed", {"CUDA_VISIBLE_DEVICES": "GPU-bb,GPU-aa"}, 1, H100),
        ("mixed", {"CUDA_VISIBLE_DEVICES": "GPU-"}, 0, None),
        ("mixed", {"CUDA_VISIBLE_DEVICES": "MIG-1"}, 0, None),
    ],
)
def test_nvml(
    nvml: dict[str, str], kind: str, environ: dict[str, str], index: int, expected: Machine | None
) -> None:
    assert machines._nvidia(index, environ, nvml[kind]) == expected


def test_no_nvml_and_no_cuda() -> None:
    assert machines._nvidia(0, {}, "libno-such-thing.so.1") is None
    assert machines._cuda_driver(0, {}, "libno-such-thing.so.1") is None


CUDA_SOURCE = r"""
#include <string.h>
int cuInit(unsigned f) { return f; }
int cuDeviceGet(int *d, int i) { *d = i; return i ? 101 : 0; }
int cuDeviceGetName(char *s, int n, int d) { (void)d; strncpy(s, "Orin", n); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { (void)d; *v = a == 75 ? 8 : a == 76 ? 7 : -1; return 0; }
"""


@needs_gcc
def test_cuda_driver(tmp_path: Path) -> None:
    (tmp_path / "cuda.c").write_text(CUDA_SOURCE)
    out = str(tmp_path / "cuda.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", out, str(tmp_path / "cuda.c")], check=True)
    assert machines._cuda_driver(0, {}, out) == Machine("nvidia", "Orin", "8.7")
    assert machines._cuda_driver(1, {}, out) is None
    assert machines._cuda_driver(0, {"CUDA_VISIBLE_DEVICES": ""}, out) is None


# --- AMD --------------------------------------------------------------------------------------------------


def node(root: Path, number: int, **properties: int) -> None:
    folder = root / "sys/class/kfd/kfd/topology/nodes" / str(number)
    folder.mkdir(parents=True)
    (folder / "properties").write_text("".join(f"{k} {v}\n" for k, v in properties.items()))


@pytest.fixture
def amd(tmp_path: Path) -> Path:
    """A processor, an MI300X, an MI250X whose name is not known, and a twelfth node."""
    node(tmp_path, 0, cpu_cores_count=96, simd_count=0, gfx_target_version=0)
    mi300x = {"simd_count": 1216, "gfx_target_version": 90402, "device_id": 0x74A1, "domain": 0}
    node(tmp_path, 2, **mi300x, location_id=0x0500, unique_id=0xAB)
    node(
        tmp_path,
        11,
        simd_count=440,
        gfx_target_version=90010,
        device_id=0x7408,
        location_id=0x2900,
        unique_id=0xCD,
    )
    pci = tmp_path / "sys/bus/pci/devices"
    for bus, revision in (("0000:05:00.0", "0x00"), ("0000:29:00.0", "0x01")):
        (pci / bus).mkdir(parents=True)
        (pci / bus / "revision").write_text(f"{revision}\n")
    ids = tmp_path / "usr/share/libdrm/amdgpu.ids"
    ids.parent.mkdir(parents=True)
    ids.write_text("# comment\n1.0.0\n74A1,\t00,\tAMD Instinct MI300X\n7408,\t00,\tAMD Instinct MI250X\n")
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "index", "expected"),
    [
        ({}, 0, Machine("amd", "AMD Instinct MI300X", "gfx942")),
        ({}, 1, Machine("amd", "gfx90a", "gfx90a")),
        ({}, 2, None),
        ({"HIP_VISIBLE_DEVICES": "1"}, 0, Machine("amd", "gfx90a", "gfx90a")),
        ({"CUDA_VISIBLE_DEVICES": "1"}, 0, Machine("amd", "gfx90a", "gfx90a")),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, 1, None),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000cd"}, 0, Machine("amd", "gfx90a", "gfx90a")),
        (
            {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1"},
            0,
            Machine("amd", "AMD Instinct MI300X", "gfx942"),
        ),
        ({"HIP_VISIBLE_DEVICES": ""}, 0, None),
    ],
)
def test_kfd(amd: Path, environ: dict[str, str], index: int, expected: Machine | None) -> None:
    assert machines._amd(index, environ, amd) == expected


def test_no_kfd(tmp_path: Path) -> None:
    assert machines._amd(0, {}, tmp_path) is None


@pytest.mark.parametrize(
    ("version", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100"), (120001, "gfx1201")],
)
def test_gfx(version: int, name: str) -> None:
    assert machines._gfx(version) == name


# --- a machine of both vendors ------------------------------------------------------------------------------

MI300X = Machine("amd", "AMD Instinct MI300X", "gfx942")


def torch_built_for(monkeypatch: pytest.MonkeyPatch, **version: str | None) -> None:
    torch: Any = ModuleType("torch")
    torch.version = ModuleType("torch.version")
    torch.version.__dict__.update(version)
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ({"cuda": None, "hip": "6.4.43482"}, MI300X),
        ({"cuda": "12.8", "hip": None}, H100),
        ({"cuda": None}, H100),
    ],
)
def test_the_torch_that_is_imported_says_on_which_vendors_gpus_it_launches(
    monkeypatch: pytest.MonkeyPatch, version: dict[str, str | None], expected: Machine
) -> None:
    """A program of ROCm's torch got the selector of the NVIDIA card beside its own."""
    torch_built_for(monkeypatch, **version)
    monkeypatch.setattr(machines, "_nvidia", lambda *_: H100)
    monkeypatch.setattr(machines, "_amd", lambda *_: MI300X)
    assert machines.machine() == expected


def test_cards_that_nvml_cannot_number_come_before_the_graphics_of_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two unlike NVIDIA cards beside an AMD processor with graphics: that was the GPU."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(machines, "_nvidia", lambda *_: None)
    monkeypatch.setattr(machines, "_amd", lambda *_: Machine("amd", "AMD Radeon Graphics", "gfx1036"))
    monkeypatch.setattr(machines, "_cuda_driver", lambda *_: H200)
    assert machines.machine() == H200
    monkeypatch.setattr(machines, "_cuda_driver", lambda *_: None)
    assert machines.machine() == Machine("amd", "AMD Radeon Graphics", "gfx1036")


# --- bind -------------------------------------------------------------------------------------------------


@pytest.fixture
def heuristics() -> ModuleType:
    module = ModuleType("generated_for_bind")
    exec(compile(render_python(by_device()), "generated", "exec"), module.__dict__)
    return module


ROW: dict[str, Any] = {
    "num_seqs": 1,
    "max_seqlen_q": 1,
    "max_seqlen_k": 16,
    "dtype": "bfloat16",
    "causal": True,
}


def here(monkeypatch: pytest.MonkeyPatch, found: Machine | None) -> None:
    monkeypatch.setattr(runtime, "machine", lambda index=0: found)


def test_bind_finds_the_selector_of_the_device(
    heuristics: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEURGEN_LOG", raising=False)
    here(monkeypatch, H200)
    assert bind(heuristics.select) is heuristics.DEVICE_SELECTORS["NVIDIA H200"]
    here(monkeypatch, H100)
    assert bind(heuristics.select) is heuristics.SELECTORS["nvidia"]
    assert bind(heuristics.select, device="NVIDIA H200") is heuristics.DEVICE_SELECTORS["NVIDIA H200"]
    assert bind(heuristics.select, vendor="amd") is heuristics.SELECTORS["amd"]
    assert bind(heuristics.select)(**ROW) == heuristics.select(vendor="nvidia", **ROW)


def test_bind_without_a_gpu(heuristics: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, None)
    with pytest.raises(RuntimeError) as caught:
        bind(heuristics.select, index=3)
    assert str(caught.value) == "no NVIDIA or AMD GPU number 3 was found on this machine: pass vendor="
    with pytest.raises(ValueError, match="unknown vendor 'intel', known: nvidia, amd"):
        bind(heuristics.select, vendor="intel")
    with pytest.raises(ValueError, match="expected `select` of a generated module"):
        bind(lambda m: m)


def test_the_log_has_a_line_for_each_first_decision(
    heuristics: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEURGEN_LOG", "1")
    here(monkeypatch, H200)
    choose = bind(heuristics.select)
    for dtype in ("bfloat16", "fp8", "bfloat16", "fp8"):
        choose(**{**ROW, "dtype": dtype})
    choose(1, 1, 16, "evil\n\x1b[2J\u202e", True)
    assert capsys.readouterr().err.splitlines() == [
        "heurgen: paged_attention on nvidia, NVIDIA H200 (9.0): num_seqs=1, max_seqlen_q=1, max_seqlen_k=16, "
        "dtype='bfloat16', causal=True -> Config(variant='3d', TILE_SIZE=64, num_warps=8)",
        "heurgen: paged_attention on nvidia, NVIDIA H200 (9.0): num_seqs=1, max_seqlen_q=1, max_seqlen_k=16, "
        "dtype='fp8', causal=True -> Config(variant='2d', TILE_SIZE=16, num_warps=4)",
    ]


def test_a_log_that_cannot_be_written_stops_no_launch(
    heuristics: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEURGEN_LOG", "1")
    here(monkeypatch, H200)
    choose = bind(heuristics.select)
    monkeypatch.setattr(sys, "stderr", None)
    assert choose(**ROW) == heuristics.select(vendor="nvidia", device="NVIDIA H200", **ROW)


def test_what_bind_gives_can_be_observed(
    heuristics: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here(monkeypatch, H200)
    for setting in ("0", "1"):
        monkeypatch.setenv("HEURGEN_LOG", setting)
        watched = observe(bind(heuristics.select), sample=1, path=tmp_path / f"t{setting}.csv")
        watched(**ROW)
        assert (tmp_path / f"t{setting}.csv").read_text().splitlines()[1] == "1,1,16,bfloat16,true,1"


def test_finding_out_imports_nothing_heavy() -> None:
    code = (
        "import sys; from heurgen.runtime import machine; machine()\n"
        "print({'torch', 'numpy', 'triton'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_two_vendors_of_a_machine_without_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("generated")
    exec(compile(render_python(two_vendors()), "generated", "exec"), module.__dict__)
    here(monkeypatch, Machine("amd", "AMD Instinct MI300X", "gfx942"))
    monkeypatch.delenv("HEURGEN_LOG", raising=False)
    assert bind(module.select)(num_seqs=1, avg_seqlen_k=1.0, dtype="fp8", causal=True).BLOCK_M == 16
