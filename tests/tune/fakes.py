"""A tunable and devices without a GPU: times come from a formula, failures from the config."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from heurgen.ir import ColumnType
from heurgen.tune.compilers import CompileJob
from heurgen.tune.conditions import Reading
from heurgen.tune.protocol import DeviceInfo, Scenario, Settings, Space
from heurgen.tune.target import Target
from heurgen.tune.timing import Failure

DEVICE = DeviceInfo(
    "nvidia", "Fake, GPU", "1.2", "9.0", 132, 232448, 1 << 37, {"torch": "2.11.0", "triton": "3.6.0"}
)


class FakeTunable:
    """C = A @ B on a device of 100 units: a tile too large wastes work, one too small wastes time."""

    name = "fake_matmul"
    features: Mapping[str, ColumnType] = {"M": "int", "N": "int", "dtype": "category"}
    space = Space(
        {
            "BLOCK_M": (16, 32, 64, 128),
            "BLOCK_N": (16, 64, 256),
            "num_warps": (1, 4, 8),
            "waves_per_eu": (1, 2),
        },
        vendors={"waves_per_eu": ("amd",)},
        constraints=("BLOCK_M * BLOCK_N <= 16384", "BLOCK_M <= 2 * M"),
    )
    workload: Mapping[str, Any] = {"grid": [{"M": [8, 64, 512, 4096], "N": [64, 1024], "dtype": ["float16"]}]}

    def inputs(self, scenario: Scenario, device: str) -> Any:
        return scenario

    def launch(self, inputs: Any, config: Settings) -> Any:
        return None

    def reference(self, inputs: Any) -> Any:
        return None

    def work(self, scenario: Scenario) -> float:
        return float(scenario.features["M"]) * float(scenario.features["N"])

    def fits(self, config: Settings, scenario: Scenario, device: DeviceInfo) -> str | None:
        return (
            'too wide\nfor this, "device"' if config["BLOCK_N"] == 256 and config["num_warps"] == 1 else None
        )


tunable = FakeTunable()


class PolicyTunable(FakeTunable):
    """The same kernel; its space says how many warps there may be, and the rows of C how many there are."""

    name = "fake_policy"
    space = Space(
        {"most_warps": (1, 2, 4, 8), "BLOCK_M": (16, 64), "BLOCK_N": (64, 256)},
        constraints=("BLOCK_M <= 2 * M", "most_warps < 8 or BLOCK_M < 64 or M > 64"),
    )

    def applies(self, config: Settings, scenario: Scenario) -> bool:
        return config["most_warps"] != 2 or scenario.features["N"] == 64

    def launched(self, config: Settings, scenario: Scenario, device: DeviceInfo) -> Settings:
        warps = min(int(config["most_warps"]), max(1, int(scenario.features["M"]) // 128))  # type: ignore[arg-type]
        return {"BLOCK_M": config["BLOCK_M"], "BLOCK_N": config["BLOCK_N"], "num_warps": warps}


policy = PolicyTunable()


def latent_ms(scenario: Scenario, config: Settings) -> float:
    """The true time of a config."""
    m, n = (int(scenario.features[k]) for k in ("M", "N"))
    names = ("BLOCK_M", "BLOCK_N", "num_warps")
    tile_m, tile_n, warps = (int(config[k]) for k in names)  # type: ignore[arg-type]
    tiles = math.ceil(m / tile_m) * math.ceil(n / tile_n)
    return 0.005 + math.ceil(tiles / 100) * tile_m * tile_n * (1 + 8 / (tile_m * warps) + 1 / tile_n) * 2e-6


def crawl() -> None:
    """Waits once the log FAKE_LOG has FAKE_ENOUGH lines, so that who stops the sweep then never comes too late."""
    log = Path(os.environ.get("FAKE_LOG", os.devnull))
    if log.is_file() and log.read_bytes().count(b"\n") >= int(os.environ["FAKE_ENOUGH"]):
        time.sleep(0.2)


class FakeExecutor:
    """Runs nothing; its clock moves by the times it makes up, or really sleeps by `pace` of them."""

    def __init__(
        self, noise: float = 0.01, pace: float = 0.0, bad: Mapping[str, Failure] | None = None
    ) -> None:
        self.now, self.noise, self.pace = 0.0, noise, pace
        self.lanes = [self]
        self.bad = bad or {}
        self.opened: Scenario | None = None
        self.launches: list[tuple[str, Settings]] = []
        self.compiled: list[CompileJob] = []
        self.checked: list[tuple[str, Settings]] = []
        self.closed = self.aborted = False
        self.readings: list[Reading] = []
        self._random = Random(1)

    def clock(self) -> float:
        return self.now

    def device(self) -> DeviceInfo:
        return DEVICE

    def compile(self, jobs: Sequence[CompileJob]) -> Generator[tuple[Any, Failure | None], None, None]:
        for job in reversed(jobs):  # compilers finish in any order
            self.now += 0.1
            self.compiled.append(job)
            yield job.key, self._failure("compile", job.config)

    def open(self, scenario: Scenario) -> Failure | None:
        self.opened = scenario
        self.now += 0.01
        return None

    def check(self, configs: Sequence[Settings]) -> Iterable[Failure | None]:
        assert self.opened is not None
        for config in configs:
            self.now += 0.001
            self.checked.append((self.opened.id, config))
            yield self._failure("check", config)

    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
        assert self.opened is not None
        for config in configs:
            ms = latent_ms(self.opened, config) * (1 + self.noise * self._random.random())
            self.now += (ms + 0.4) / 1e3  # 0.4: the flush and the launch
            crawl()
            if self.pace:
                time.sleep(self.pace)
            self.launches.append((self.opened.id, config))
            yield self._failure("sample", config) or ms

    def reading(self) -> Reading | None:
        return self.readings.pop(0) if self.readings else None

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True

    def _failure(self, stage: str, config: Settings) -> Failure | None:
        return self.bad.get(f"{stage} {config['BLOCK_M']} {config['BLOCK_N']} {config['num_warps']}")


class FakeSession:
    """The same in a worker process, with configs that crash, hang or break the device."""

    def __init__(self, target: Target) -> None:
        self._scenario: Scenario | None = None
        self._broken = False

    def device(self) -> DeviceInfo:
        return DEVICE

    def open(self, scenario: Scenario) -> None:
        """Refused where FAKE_REFUSALS, a file, counts down."""
        file = os.environ.get("FAKE_REFUSALS")
        if file and (left := int(Path(file).read_text())):
            Path(file).write_text(str(left - 1))
            raise RuntimeError("CUDA out of memory")
        self._scenario = scenario

    def check(self, config: Settings) -> str | None:
        return "relative error 0.5" if config["num_warps"] == 2 else None

    def sample(self, config: Settings) -> float:
        assert self._scenario is not None
        match config["num_warps"]:
            case 3:
                os.abort()
            case 5:
                self._broken = True
                raise RuntimeError("CUDA error: an illegal memory access was encountered\nlong advice")
            case 6:
                raise ValueError("grid too large")
            case 7:
                time.sleep(600)
        return latent_ms(self._scenario, config)

    def compile(self, config: Settings) -> str | None:
        if config["num_warps"] == 12:
            self._broken = True
        if self._broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if config["num_warps"] == 9:
            os.abort()
        if config["num_warps"] == 10:
            raise RuntimeError("\n\n PassManager::run failed\nmodule { ... }")
        return "needs 300000 bytes of shared memory" if config["num_warps"] == 11 else None

    def broken(self) -> bool:
        return self._broken


class SlowSession(FakeSession):
    """One whose launches take as long as FAKE_PACE says, or 3 ms."""

    def sample(self, config: Settings) -> float:
        time.sleep(float(os.environ.get("FAKE_PACE", "0.003")))
        return super().sample(config)


class ChattySession(FakeSession):
    """One that prints 600 kB in a launch, and dies with a word where it has 3 warps."""

    def sample(self, config: Settings) -> float:
        print("x" * 600_000, "the end", sep="\n", flush=True)
        return super().sample(config)


class KillerSession(FakeSession):
    """One whose launches of 13 warps kill the process above: the actor, not the child that it measures in."""

    def sample(self, config: Settings) -> float:
        if config["num_warps"] == 13:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return super().sample(config)


class FakeGpu(FakeSession):
    """One of several GPUs. Their names are in FAKE_GPUS; what they time is appended to the file FAKE_TRACE.

    A name that ends in "!" dies at every 30th launch, one that ends in "!!" for good.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        names = os.environ["FAKE_GPUS"].split(",")
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._visible = [int(i) for i in chosen.split(",")] if chosen else list(range(len(names)))
        self._name, self._launches = names[self._visible[0]], 0
        self._grave = os.environ.get("FAKE_TRACE", "") + ".grave"
        if self._name.endswith("!!") and os.path.exists(self._grave):
            raise RuntimeError("no such GPU")

    def device(self) -> DeviceInfo:
        return replace(DEVICE, name=self._name.rstrip("!"), gpus=len(self._visible))

    def sample(self, config: Settings) -> float:
        assert self._scenario is not None
        self._launches += 1
        if self._name.endswith("!") and self._launches == 30:
            open(self._grave, "w").close()
            os.abort()
        time.sleep(float(os.environ.get("FAKE_PACE", "0")))
        crawl()
        with open(os.environ["FAKE_TRACE"], "a") as file:
            file.write(f"{self._visible[0]} {self._scenario.id} {json.dumps(config)}\n")
        return latent_ms(self._scenario, config)

    def check(self, config: Settings) -> str | None:
        assert self._scenario is not None
        with open(os.environ["FAKE_TRACE"] + ".checks", "a") as file:
            file.write(f"{self._scenario.id} {json.dumps(config)}\n")
        return None


class StubbornGpu(FakeGpu):
    """One that no environment restricts."""

    def device(self) -> DeviceInfo:
        return replace(super().device(), gpus=2)


class FakeGpus:
    """Several executors as the lanes of one."""

    def __init__(self, count: int, **options: Any) -> None:
        self.lanes = [FakeExecutor(**options) for _ in range(count)]

    def device(self) -> DeviceInfo:
        return replace(DEVICE, gpus=len(self.lanes))

    def compile(self, jobs: Sequence[CompileJob]) -> Generator[tuple[Any, Failure | None], None, None]:
        return self.lanes[0].compile(jobs)

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()


def no_device(target: Target) -> FakeSession:
    raise RuntimeError("no GPU here")
