from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heurgen.tune.conditions import Reading, nvml_reader
from heurgen.tune.run import TuneOptions, run_tune
from heurgen.tune.sweep import Progress
from tests.tune.fakes import FakeExecutor


def test_readings_are_in_the_card_and_throttling_is_told(tmp_path: Path) -> None:
    path, executor = tmp_path / "log.csv", FakeExecutor()
    executor.readings = [
        Reading(1980, 3201, 44),
        Reading(1755, 3201, 71, ("power cap",)),
        Reading(1900, 3201, 60),
    ]

    def interrupt(progress: Progress) -> None:
        if progress.phase == "measure" and progress.done > 150:
            raise KeyboardInterrupt

    summary = run_tune(TuneOptions("tests.tune.fakes:tunable", path), interrupt, executor)
    assert summary.notes == (
        "Fake, GPU throttled after 1 of 3 scenarios (power cap in 1): times may be too long",
    )
    card = tmp_path / "log.card.toml"
    wanted: dict[str, Any] = {
        "readings": 3,
        "sm_mhz": [1755, 1980],
        "memory_mhz": [3201, 3201],
        "celsius": [44, 71],
        "throttled": {"power cap": 1},
    }
    assert tomllib.loads(card.read_text())["conditions"] == wanted
    again = FakeExecutor()
    again.readings = [Reading(1700, 3201, 44, ("power cap",))]
    run_tune(TuneOptions("tests.tune.fakes:tunable", path, resume=True), executor=again)
    assert tomllib.loads(card.read_text())["conditions"] == {
        **wanted,
        "readings": 4,
        "sm_mhz": [1700, 1980],
        "throttled": {"power cap": 2},
    }


def test_a_driver_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml_reader("x")() is None

    def refuse(*_: object) -> None:
        raise RuntimeError("not permitted")

    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0x1 | 0x4 | 0x40,
        nvmlDeviceGetClockInfo=lambda handle, clock: {0: 1980, 1: 3201}[clock],
        nvmlDeviceGetTemperature=lambda handle, sensor: 50,
        NVML_CLOCK_SM=0,
        NVML_CLOCK_MEM=1,
        NVML_TEMPERATURE_GPU=0,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert nvml_reader("ab")() == Reading(1980, 3201, 50, ("power cap", "thermal, hardware"))
    nvml.nvmlDeviceGetTemperature = refuse
    assert nvml_reader("ab")() is None
