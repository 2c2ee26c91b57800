"""examples/matmul.py: a user's kernel from its source to a heuristic, with a made-up GPU; then in the interpreter."""

from __future__ import annotations

import csv
import importlib.util
import math
import sys
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from heurgen.tune.protocol import Scenario, Settings
from heurgen.tune.run import SweepSummary, TuneOptions, run_tune
from heurgen.tune.timing import Failure
from tests.tune.fakes import FakeExecutor

EXAMPLES = Path(__file__).parents[2] / "examples"


def latent_ms(scenario: Scenario, config: Settings) -> float:
    """Waves of tiles on 132 processors; a large tile does more work per byte."""
    m, n, k = (int(scenario.features[name]) for name in "MNK")
    tile_m, tile_n, depth = (int(config[name]) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))  # type: ignore[arg-type]
    waves = math.ceil(math.ceil(m / tile_m) * math.ceil(n / tile_n) / 132)
    return 0.004 + waves * k * (tile_m * tile_n / 4e7 + (tile_m + tile_n) / 2e6) * (1 + 4 / depth)


class Device(FakeExecutor):
    """A GPU that follows the formula."""

    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
        assert self.opened is not None
        for config in configs:
            self.now += 0.001
            yield latent_ms(self.opened, config)

    def _failure(self, stage: str, config: Settings) -> Failure | None:
        return None


def tuned(log: Path) -> SweepSummary:
    """The example's sweep. torch and triton are stood in for while it runs, since nothing is launched."""
    executor = Device()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("torch", "triton", "triton.language"):
            patch.setitem(sys.modules, name, types.ModuleType(name))
        patch.setattr(sys.modules["triton"], "jit", lambda function: function, raising=False)
        patch.setattr(sys.modules["triton"], "language", sys.modules["triton.language"], raising=False)
        patch.setattr(sys.modules["triton.language"], "constexpr", int, raising=False)
        patch.syspath_prepend(str(EXAMPLES))
        patch.delitem(sys.modules, "matmul", raising=False)
        summary = run_tune(TuneOptions("matmul:tunable", log), None, executor, executor.clock)
    sys.modules.pop("matmul", None)
    return summary


def test_forty_lines() -> None:
    source = (EXAMPLES / "matmul.py").read_text()
    code = source.split('"""', 2)[2]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 40


def test_from_a_kernel_to_a_heuristic(tmp_path: Path) -> None:
    log, spec, model, module = (
        tmp_path / f"matmul{end}" for end in (".csv", ".toml", ".json", "_heuristic.py")
    )
    summary = tuned(log)
    assert (summary.state, summary.scenarios, summary.configs, summary.missing) == ("finished", 45, 48, 0)

    from click.testing import CliRunner

    from heurgen.cli import main

    def heurgen(*arguments: object) -> None:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output

    heurgen("init", log, "-o", spec)
    heurgen("train", log, "--spec", spec, "-o", model, "--max-depth", 3)
    heurgen("emit", model, "-o", module)
    found = importlib.util.spec_from_file_location("matmul_heuristic", module)
    assert found is not None
    assert found.loader is not None
    heuristic = importlib.util.module_from_spec(found)
    found.loader.exec_module(heuristic)
    times = _times(log)
    slowdowns = [math.log(t[tuple(_chosen(heuristic, key))] / min(t.values())) for key, t in times.items()]
    assert math.exp(sum(slowdowns) / len(slowdowns)) < 1.1


def _chosen(heuristic: Any, key: tuple[int, ...]) -> tuple[int, ...]:
    config = heuristic.select_nvidia(**dict(zip("MNK", key, strict=True)))._asdict()
    return tuple(config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"))


def _times(log: Path) -> dict[tuple[int, ...], dict[tuple[int, ...], float]]:
    times: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    with log.open(newline="") as file:
        for row in csv.reader(file):
            if row[-3] == "ok":
                key, config = tuple(map(int, row[3:6])), tuple(map(int, row[6:11]))
                times.setdefault(key, {})[config] = float(row[-2])
    return times


@pytest.mark.slow
def test_in_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "triton", reason="the interpreter needs torch and triton: pip install 'heurgen[kernels]'"
    )
    monkeypatch.chdir(EXAMPLES)
    # Tests of the benchmarks leave theirs on the path, where another matmul.py lies.
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "matmul", raising=False)
    workload, space = tmp_path / "w.toml", tmp_path / "s.toml"
    workload.write_text("[[grid]]\nM = [16, 40]\nN = 32\nK = 48\n")
    space.write_text(
        "[parameters]\nBLOCK_M = [16, 32]\nBLOCK_N = [32]\nBLOCK_K = [32]\nnum_warps = [4]\nnum_stages = [2]\n"
    )
    summary = run_tune(TuneOptions("matmul:tunable", tmp_path / "log.csv", workload, space, interpret=True))
    assert (summary.state, summary.devices, summary.rows) == ("finished", ("Triton interpreter",), 4)
    assert summary.failures == {}
