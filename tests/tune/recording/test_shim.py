"""What runs in the recorded program: sweeps of any Triton become lines, and nothing of it reaches the program."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest

from heurgen.tune.recording import shim


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recorded program's environment says."""
    monkeypatch.setenv(shim.FOLDER, str(tmp_path))
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def records(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


class Config:
    def __init__(self, **kwargs: Any) -> None:
        self.kwargs, self.num_warps, self.maxnreg = kwargs, 4, None
        self.num_consumer_groups, self.pingpong, self.pre_hook = 0, False, None  # type: tuple[int, bool, Any]


class Typed:
    dtype = "torch.float32"


def autotuner() -> Any:
    class Autotuner:
        """Tunes a new `n` as Triton does: into `cache`, with the times in `configs_timings`."""

        arg_names, keys = ("x", "n", "BLOCK"), ("n",)
        base_fn = types.SimpleNamespace(__name__="k")

        def __init__(self) -> None:
            self.cache: dict[Any, Any] = {}

        def run(self, *args: Any, **kwargs: Any) -> str:
            n = {"n": None, **dict(zip(self.arg_names, args, strict=False)), **kwargs}["n"]
            if n not in self.cache:
                config = Config(BLOCK=types.SimpleNamespace(value=16), policy=("a", 1))
                self.cache[n] = config
                self.configs_timings = {config: [1.0, 0.9, 1.1]}
            return f"ran {n}"

    return Autotuner


def test_a_key_that_is_new_in_the_cache_was_tuned(recording: None, tmp_path: Path) -> None:
    kind = autotuner()
    shim.install(types.SimpleNamespace(Autotuner=kind))
    tuner = kind()
    assert [tuner.run(Typed(), 8), tuner.run(Typed(), 8), tuner.run(Typed(), n=9)] == [
        "ran 8",
        "ran 8",
        "ran 9",
    ]
    start, *sweeps = records(tmp_path)
    assert start == {"event": "triton"}
    assert [s["features"] for s in sweeps] == [{"n": 8}, {"n": 9}]
    assert sweeps[0] == {
        "event": "sweep",
        "kernel": "k",
        "features": {"n": 8},
        "dtypes": {"x": "torch.float32"},
        "timings": [[{"BLOCK": 16, "policy": "('a', 1)", "num_warps": 4}, [1.0, 0.9, 1.1]]],
        "device": "Triton interpreter",
        "vendor": "cpu",
        "keys": ["n"],
        "source": "",
    }


def test_fields_that_other_versions_have_count_where_they_are_on(recording: None, tmp_path: Path) -> None:
    config = Config(BLOCK=16)
    config.num_consumer_groups, config.pingpong, config.pre_hook = 2, False, print
    shim._write(shim._sweep("k", {}, {}, {config: 1.0}))
    assert records(tmp_path)[0]["timings"] == [
        [{"BLOCK": 16, "num_warps": 4, "num_consumer_groups": 2}, [1.0]]
    ]


def test_a_key_of_one_config_is_not_told_the_times_of_another(recording: None, tmp_path: Path) -> None:
    """Triton 3.8 takes no times where all configs but one were pruned, and keeps those of the last key."""
    kind = autotuner()
    run = kind.run

    def pruned(self: Any, *args: Any, **kwargs: Any) -> Any:
        timings = getattr(self, "configs_timings", None)
        result = run(self, *args, **kwargs)
        if args[1] == 9:
            self.configs_timings = timings
        return result

    kind.run = pruned
    shim.install(types.SimpleNamespace(Autotuner=kind))
    tuner = kind()
    for n in (8, 9, 10):
        tuner.run(Typed(), n)
    assert [s["features"] for s in records(tmp_path)[1:]] == [{"n": 8}, {"n": 10}]


def test_nothing_is_written_outside_of_a_recording(
    recording: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(shim.FOLDER)
    monkeypatch.chdir(tmp_path)
    shim._write({"event": "triton"})
    assert list(tmp_path.iterdir()) == []


def test_what_goes_wrong_in_the_recorder_stays_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "_complained", False)
    for _ in range(2):
        shim._safely(lambda: 1 / 0)
    assert capsys.readouterr().err == (
        "heurgen record: this sweep is not recorded: ZeroDivisionError('division by zero')\n"
    )


def test_the_source_of_a_kernel_is_its_file_and_qualified_name() -> None:
    name = test_the_source_of_a_kernel_is_its_file_and_qualified_name
    assert shim._source(name) == f"{__file__}:{name.__name__}"
    assert shim._source(Config.__init__) == f"{__file__}:Config.__init__"
