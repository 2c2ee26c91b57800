from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from heurgen.base.errors import LogError, UsageError
from heurgen.cli import main
from heurgen.ir.schema import read_model
from heurgen.tune import run
from heurgen.tune.cards import cards_of
from heurgen.tune.engines import LocalEngine
from heurgen.tune.protocol import Settings
from heurgen.tune.resume import RowFormat
from heurgen.tune.run import TuneOptions, run_tune
from heurgen.tune.timing import Failure
from heurgen.tune.verify import compare, read_times, run_verify
from heurgen.tune.workloads import make_scenarios
from tests.tune import fakes
from tests.tune.fakes import DEVICE, FakeExecutor

TARGET = "tests.tune.fakes:tunable"
WORKLOAD: Mapping[str, Any] = {
    "grid": [{"M": [2**k for k in range(3, 14)], "N": [16 * k for k in range(1, 13)], "dtype": ["float16"]}]
}


class Upgraded(FakeExecutor):
    """Another driver: all is 5 % faster, and tiles with 1 or 8 warps are `factor` slower."""

    def __init__(self, factor: float) -> None:
        super().__init__(noise=0.001)
        self._factor = factor

    def device(self) -> Any:
        return replace(DEVICE, driver="1.3")

    def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
        for config, ms in zip(configs, super().sample(configs), strict=True):
            slower = 1.0 if config["num_warps"] == 4 else self._factor
            yield ms if isinstance(ms, Failure) else ms / 1.05 * slower


@pytest.fixture(scope="module", autouse=True)
def workload() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fakes.tunable, "workload", WORKLOAD, raising=False)
        yield


@pytest.fixture(scope="module")
def shipped(workload: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log and the model learnt from it, made once."""
    folder = tmp_path_factory.mktemp("shipped")
    log, spec, model = (folder / f"old.{end}" for end in ("csv", "toml", "json"))
    run_tune(TuneOptions(TARGET, log), executor=FakeExecutor(noise=0.001))
    for command in (
        ["init", str(log), "-o", str(spec)],
        ["train", str(log), "--spec", str(spec), "-o", str(model), "--strategy", "joint"],
    ):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
    return log, model


def test_nothing_is_lost_where_all_is_as_fast_as_before(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    found = run_verify(TuneOptions(TARGET, tmp_path / "new.csv"), *shipped, executor=Upgraded(1.0))
    assert found.lost == pytest.approx(1.0, abs=0.003)
    assert found.low <= found.lost <= found.high
    assert found.high / found.low < 1.01
    assert found.faster == pytest.approx(1.05, abs=0.01)
    assert found.changed == ("driver 1.2 -> 1.3",)
    assert len(found.losses) == math.ceil(0.1 * 132)
    rows = (tmp_path / "new.csv").read_text().count("\n")
    assert rows < 0.15 * shipped[0].read_text().count("\n")


def test_a_log_that_is_compressed(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    log, model = shipped
    packed = tmp_path / "old.csv.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    (tmp_path / "old.card.toml").write_bytes(log.with_name("old.card.toml").read_bytes())
    found = run_verify(TuneOptions(TARGET, tmp_path / "new.csv"), packed, model, executor=Upgraded(1.0))
    assert found.lost == pytest.approx(1.0, abs=0.003)
    assert found.changed == ("driver 1.2 -> 1.3",)


def test_a_loss_is_found_and_where(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    found = run_verify(TuneOptions(TARGET, tmp_path / "new.csv"), *shipped, executor=Upgraded(1.5))
    assert found.low > 1.05
    worst = found.losses[0]
    assert worst.chosen["num_warps"] != 4
    assert worst.now is not None
    assert worst.now / worst.before > 1.2
    assert (
        f"over 14 scenarios the selector lost {found.lost:.4f}x, 95 % interval {found.low:.4f}"
        in found.to_text()
    )
    assert found.to_dict()["scenarios"][0]["scenario"] == worst.scenario


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.5, 1)])
def test_the_command(
    shipped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, code: int
) -> None:
    monkeypatch.setattr(run, "engine_named", lambda *_: LocalEngine(Upgraded(factor)))
    log, model = map(str, shipped)
    result = CliRunner().invoke(
        main, ["tune", TARGET, "-o", str(tmp_path / "n.csv"), "--verify", log, "--model", model]
    )
    assert result.exit_code == code, result.output
    assert "changed since: driver 1.2 -> 1.3" in result.stdout
    assert ("allowed 1.02" in result.stderr) == bool(code)
    words = ["tune", TARGET, "-o", str(tmp_path / "j.csv"), "--verify", log, "--model", model, "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    assert found["interval"][0] <= found["lost"] <= found["interval"][1]
    assert (found["allowed"], found["changed"], len(found["scenarios"])) == (1.02, ["driver 1.2 -> 1.3"], 14)


def test_what_does_not_belong_together(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    log, model = shipped
    workload, other = tmp_path / "w.toml", tmp_path / "other.csv"
    workload.write_text('[[grid]]\nM = [9]\nN = [64]\ndtype = "float16"\n')
    with pytest.raises(
        UsageError, match="no scenario of the workload is in the log with the selector's choice"
    ):
        run_verify(TuneOptions(TARGET, tmp_path / "new.csv", workload), log, model, executor=Upgraded(1.0))
    other.write_text("a,b\n1,2\n")
    with pytest.raises(LogError, match="the header lacks this column"):
        run_verify(TuneOptions(TARGET, tmp_path / "new.csv"), other, model, executor=Upgraded(1.0))
    result = CliRunner().invoke(main, ["tune", TARGET, "-o", str(tmp_path / "n.csv"), "--verify", str(log)])
    assert (result.exit_code, "--verify and --model go together" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("0.0,", "column 'time_ms': found '0.0', expected a time above 0 in ms"),
        ("nan,", "column 'time_ms': found 'nan', expected a time above 0 in ms"),
        ("-1,", "column 'time_ms': found '-1', expected a time above 0 in ms"),
        ("x,", "column 'time_ms': found 'x', expected a time above 0 in ms"),
        ("1.5,,", "the row has another number of cells than the header"),
        ("1.5", "the row has another number of cells than the header"),
    ],
)
def test_a_row_that_is_no_measurement(
    shipped: tuple[Path, Path], tmp_path: Path, last: str, said: str
) -> None:
    """0 and nan ended in a traceback once the sweep was over; the others did not say where."""
    log, (old, model) = tmp_path / "old.csv", shipped
    header, *rows = old.read_text().splitlines()
    good = next(row for row in rows if ",ok," in row)
    log.write_text("\n".join([header, good, good[: good.index(",ok,")] + f",ok,{last}", *rows]))
    with pytest.raises(LogError) as caught:
        run_verify(TuneOptions(TARGET, tmp_path / "new.csv"), log, model, executor=Upgraded(1.0))
    assert str(caught.value) == f"{log}:3: {said}"
    assert list(tmp_path.iterdir()) == [log]


def test_another_device_measures_nothing(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    executor = Upgraded(1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "device", lambda: replace(DEVICE, name="Other"))
        with pytest.raises(UsageError) as caught:
            run_verify(TuneOptions(TARGET, tmp_path / "new.csv"), *shipped, executor=executor)
    assert str(caught.value) == (
        "the log holds no scenario of the devices that are here (it is of Fake, GPU; here is Other)"
    )
    assert not executor.compiled
    assert not list(tmp_path.iterdir())


def test_then_and_now_over_the_same_configs(shipped: tuple[Path, Path]) -> None:
    """A config that the log has not measured in a scenario may be faster there: that is no loss since."""
    log, model = shipped
    module, format_ = read_model(model), RowFormat(("M", "N", "dtype"), tuple(fakes.tunable.space.parameters))
    scenarios = make_scenarios(WORKLOAD, fakes.tunable.features)
    before = read_times(log, format_)
    cards = cards_of(log), cards_of(log)
    new = ("16", "16", "16", "")
    now = {key: {**cells, new: 0.5 * min(t for t in cells.values() if t)} for key, cells in before.items()}
    assert compare(module, scenarios, before, now, format_, cards).lost == 1.0
    failed = {key: {**cells, new: None} for key, cells in before.items()}
    assert compare(module, scenarios, failed, now, format_, cards).lost == pytest.approx(2.0)


def test_ctrl_c_is_no_error(
    shipped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Upgraded):
        def sample(self, configs: Sequence[Settings]) -> Iterable[float | Failure]:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "engine_named", lambda *_: LocalEngine(Stopped(1.0)))
    log, model = map(str, shipped)
    words = ["tune", TARGET, "-o", str(tmp_path / "n.csv"), "--verify", log, "--model", model]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, "interrupted" in result.stderr) == (130, True)
