from __future__ import annotations

import csv
import os
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import LogError, SpecError, UsageError
from heurgen.logs.card import INTERPRETER
from heurgen.tune import run
from heurgen.tune.engines import LocalEngine
from heurgen.tune.merge import merge
from heurgen.tune.protocol import Space
from heurgen.tune.run import SweepSummary, TuneOptions, run_tune
from heurgen.tune.target import BUNDLED
from heurgen.tune.timing import Failure
from tests.tune import fakes
from tests.tune.fakes import DEVICE, FakeExecutor, FakeGpus

TARGET = "tests.tune.fakes:tunable"


def tuned(path: Path, executor: FakeExecutor | None = None, **options: Any) -> SweepSummary:
    executor = executor or FakeExecutor()
    return run_tune(
        TuneOptions(**{"target": TARGET, "output": path, **options}), None, executor, executor.clock
    )


def test_the_card(tmp_path: Path) -> None:
    summary = tuned(tmp_path / "log.csv")
    assert summary.cards[0] == tmp_path / "log.card.toml"
    card = tomllib.loads(summary.cards[0].read_text())
    assert list(card) == ["device", "tools", "method", "log"]
    assert card["device"] == {
        "vendor": "nvidia",
        "name": "Fake, GPU",
        "driver": "1.2",
        "capability": "9.0",
        "multiprocessors": 132,
        "shared_memory": 232448,
        "memory": 1 << 37,
        "gpus": 1,
    }
    assert all(isinstance(v, str) for v in card["tools"].values())
    assert {k: card["tools"][k] for k in ("driver", "torch", "triton")} == {
        "driver": "1.2",
        "torch": "2.11.0",
        "triton": "3.6.0",
    }
    assert (card["method"]["interpreted"], card["method"]["samples"]) == (False, 5)
    assert (card["log"]["kernel"], card["log"]["scenarios"], card["log"]["configs"]) == ("fake_matmul", 8, 33)
    assert all(len(card["log"][f"{k}_sha256"]) == 64 for k in ("source", "workload", "space"))


def test_an_existing_log_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("mine")
    with pytest.raises(UsageError) as caught:
        tuned(path)
    assert str(caught.value) == (
        f"{path}: the log exists already (--resume continues it; or choose another name)"
    )
    with pytest.raises(UsageError, match="cannot resume without the log's card"):
        tuned(path, resume=True)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_row_of_other_features_than_the_workloads_is_refused(tmp_path: Path) -> None:
    """Each further row would contradict it, and `train` would say so when the sweep is over."""
    path = tmp_path / "log.csv"
    tuned(path)
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    name, *_, m = lines[4].split(",")[:5]
    path.write_text(text.replace(lines[4], lines[4].replace(f",{m},", ",77,", 1)))
    with pytest.raises(LogError) as caught:
        tuned(path, resume=True)
    assert str(caught.value) == (
        f"{path}:5: column 'M': no row of this sweep: found '77', but scenario '{name}' of the workload has '{m}'"
    )


def test_a_log_that_is_removed_ends_the_sweep_in_words(tmp_path: Path) -> None:
    class Remover(FakeExecutor):
        def sample(self, configs: Any) -> Any:
            path.unlink(missing_ok=True)
            return super().sample(configs)

    path = tmp_path / "log.csv"
    with pytest.raises(UsageError, match="the log was removed or replaced while the sweep wrote it"):
        tuned(path, Remover())


@pytest.mark.parametrize("resume", [False, True])
def test_launches_of_a_log_that_is_gone_are_in_no_median(tmp_path: Path, resume: bool) -> None:
    class Stopped(FakeExecutor):
        def sample(self, configs: Any) -> Any:
            for _ in super().sample(configs):
                if len(self.launches) > 20:
                    raise KeyboardInterrupt
                yield 1000.0

    path = tmp_path / "log.csv"
    assert tuned(path, Stopped()).state == "interrupted"
    assert (tmp_path / "log.samples").exists()
    for left in (path, tmp_path / "log.card.toml"):
        left.unlink()
    tuned(path, resume=resume)
    tuned(tmp_path / "other.csv")
    assert path.read_bytes() == (tmp_path / "other.csv").read_bytes()


def test_where_launches_cannot_be_kept_no_empty_log_stays(tmp_path: Path) -> None:
    (tmp_path / "log.samples").mkdir()
    with pytest.raises(UsageError, match="cannot keep the sweep's launches"):
        tuned(tmp_path / "log.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["log.samples"]


def test_the_card_of_a_log_that_is_gone_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    tuned(path)
    path.rename(tmp_path / "log.csv.gz")  # as who compresses it leaves the card
    card = (tmp_path / "log.card.toml").read_bytes()
    with pytest.raises(UsageError) as caught:
        tuned(path)
    assert str(caught.value) == (
        f"{tmp_path / 'log.card.toml'}: the card of another log is here "
        "(remove it where its log is gone, or choose another name)"
    )
    assert not path.exists()
    assert (tmp_path / "log.card.toml").read_bytes() == card


def test_resume_refuses_other_circumstances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    tuned(path, budget=4.1)
    held = path.read_text()

    def refused(message: str, executor: FakeExecutor | None = None, **options: Any) -> None:
        with pytest.raises(UsageError) as caught:
            tuned(path, executor, resume=True, **options)
        assert str(caught.value).startswith(f"{path.with_name('log.card.toml')}: cannot resume: {message}")
        assert path.read_text() == held

    workload, space = tmp_path / "w.toml", tmp_path / "s.toml"
    workload.write_text('[[grid]]\nM = [8]\nN = [64]\ndtype = "float16"\n')
    space.write_text(
        "[parameters]\nBLOCK_M = [16]\nBLOCK_N = [16]\nnum_warps = [4]\n"
        "waves_per_eu = { values = [1], vendors = ['amd'] }\n"
    )
    refused("log scenarios was '8', is '1'", workload=workload)
    refused("log configs was '33', is '1'", space=space)
    for change, message in (
        ({"driver": "1.3"}, "device driver was '1.2', is '1.3'"),
        ({"tools": {"triton": "3.7.0", "torch": "2.11.0"}}, "tools triton was '3.6.0', is '3.7.0'"),
    ):
        executor = FakeExecutor()
        monkeypatch.setattr(executor, "device", lambda c=change: replace(DEVICE, **c))
        refused(message, executor)
    monkeypatch.setattr(fakes.tunable, "sources", [workload], raising=False)
    refused("log source_sha256 was ")


def test_resume_with_another_number_of_gpus(tmp_path: Path) -> None:
    """The card holds the largest number; cards older than it stand for one GPU."""
    path, card = tmp_path / "log.csv", tmp_path / "log.card.toml"

    def gpus(count: int, **options: Any) -> int:
        summary = run_tune(TuneOptions(TARGET, path, **options), executor=FakeGpus(count))
        assert summary.gpus == count
        return int(tomllib.loads(card.read_text())["device"]["gpus"])

    assert gpus(2) == 2
    held = card.read_text()
    assert gpus(1, resume=True) == 2
    assert card.read_text() == held
    assert gpus(4, resume=True) == 4
    assert card.read_text() == held.replace("gpus = 2", "gpus = 4")
    card.write_text(held.replace("gpus = 2\n", ""))
    assert gpus(3, resume=True) == 3


def test_the_budget_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the budget must be more than 0 seconds, found -1"):
        tuned(tmp_path / "log.csv", budget=-1.0)


def test_an_unwritable_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere/log.csv: cannot write the log: No such file"):
        tuned(tmp_path / "nowhere" / "log.csv")


@pytest.mark.parametrize(
    ("length", "message"), [(250, "cannot keep the sweep's launches"), (300, "cannot write the log")]
)
def test_a_name_that_is_too_long_is_told(tmp_path: Path, length: int, message: str) -> None:
    with pytest.raises(UsageError, match=f"{message}: File name too long"):
        tuned(tmp_path / f"{'a' * length}.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume", [False, True])
def test_a_compressed_log_is_refused_before_anything_is_measured(tmp_path: Path, resume: bool) -> None:
    executor = FakeExecutor()
    with pytest.raises(UsageError) as caught:
        tuned(tmp_path / "log.csv.gz", executor, resume=resume)
    assert str(caught.value) == (
        f"{tmp_path}/log.csv.gz: a sweep adds rows, and cannot to a compressed log "
        "(leave .gz out; gzip -n LOG.csv when the sweep is finished)"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume", [False, True])
def test_a_pipe_is_refused_before_anybody_waits_for_it(tmp_path: Path, resume: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(UsageError, match="a sweep adds rows to a file, and this is none"):
            tuned(path, resume=resume)
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]


def test_a_workload_that_does_not_fit_the_kernel(tmp_path: Path) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text("[[grid]]\nM = [8]\n")
    with pytest.raises(SpecError, match=r"w.toml:1: a scenario lacks the feature 'N'"):
        tuned(tmp_path / "log.csv", workload=workload)
    assert list(tmp_path.iterdir()) == [workload]


def test_columns_must_not_clash(tmp_path: Path) -> None:
    space = tmp_path / "s.toml"
    space.write_text("[parameters]\nM = [16]\n")
    with pytest.raises(UsageError, match="the column name 'M' is used twice"):
        tuned(tmp_path / "log.csv", space=space)


def test_interpreted_sweeps_are_tiny_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = FakeExecutor()
    monkeypatch.setattr(executor, "device", lambda: replace(DEVICE, name=INTERPRETER))
    summary = tuned(tmp_path / "log.csv", executor, interpret=True)
    assert (summary.scenarios, summary.configs) == (4, 4)
    card = tomllib.loads(summary.cards[0].read_text())
    assert (card["method"]["interpreted"], card["device"]["name"]) == (True, "Triton interpreter")
    assert "says nothing about a GPU" in card["method"]["timing"]
    assert all(",Triton interpreter," in line for line in summary.log.read_text().splitlines()[1:])


def test_the_bundled_kernel_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert BUNDLED["paged_attention"].startswith("heurgen_kernels.")
    monkeypatch.setitem(BUNDLED, "short", TARGET)
    assert tuned(tmp_path / "log.csv", target="short").state == "finished"


def test_same_device_same_log(tmp_path: Path) -> None:
    tuned(tmp_path / "a.csv")
    tuned(tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.card.toml").read_bytes() == (tmp_path / "b.card.toml").read_bytes()


def test_a_sweep_in_which_all_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 1 and the commonest reason, again where it is resumed; one success is enough for 0."""
    from click.testing import CliRunner

    from heurgen.cli import main

    workload, space = tmp_path / "w.toml", tmp_path / "s.toml"
    workload.write_text('[[grid]]\nM = [64]\nN = [64]\ndtype = "float16"\n')
    space.write_text("[parameters]\nBLOCK_M = [16]\nBLOCK_N = [16, 64, 256]\nnum_warps = [1]\n")
    bad = {f"check 16 {n} 1": Failure("wrong", "relative error 0.7, allowed 0.01") for n in (16, 64)}
    monkeypatch.setattr(run, "engine_named", lambda *_: LocalEngine(FakeExecutor(bad=bad)))
    files = ["--workload", str(workload), "--space", str(space), "-o", str(tmp_path / "log.csv")]
    for more in ([], ["--resume"]):
        result = CliRunner().invoke(main, ["tune", TARGET, *files, *more])
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-2] == (
            "no config succeeded; the commonest reason: wrong: relative error 0.7, allowed 0.01"
        )
        assert result.stderr.splitlines()[-1].startswith("help: heurgen help every-config-fails ")
    monkeypatch.setattr(run, "engine_named", lambda *_: LocalEngine(FakeExecutor()))
    result = CliRunner().invoke(main, ["tune", TARGET, *files[:4], "-o", str(tmp_path / "good.csv")])
    assert (result.exit_code, "commonest" in result.stderr) == (0, False)


def test_another_kind_of_device_joins_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its own name, with a card of its own; not with another kernel."""
    path, executor = tmp_path / "log.csv", FakeExecutor()
    first = tuned(path)
    monkeypatch.setattr(executor, "device", lambda: replace(DEVICE, name="NVIDIA H100", driver="1.3"))
    second = tuned(path, executor, resume=True)
    assert (second.state, second.missing, second.rows) == ("finished", 0, first.rows)
    assert second.cards == (tmp_path / "log.card.nvidia-h100.toml",)
    with path.open(newline="") as file:
        names = Counter(row["device"] for row in csv.DictReader(file))
    assert names == {"Fake, GPU": first.rows, "NVIDIA H100": first.rows}
    assert tuned(path, resume=True).rows == tuned(path, executor, resume=True).rows == 0
    monkeypatch.setattr(executor, "device", lambda: replace(DEVICE, name="NVIDIA L4"))
    monkeypatch.setattr(fakes.tunable, "sources", [path], raising=False)
    with pytest.raises(UsageError, match="'NVIDIA L4' cannot join the log: log source_sha256 is "):
        tuned(path, executor, resume=True)


def named(path: Path, *configs: str) -> Path:
    """A workload of one scenario that names the configs to measure."""
    features = "M = 64\nN = 64\ndtype = 'float16'\n"
    path.write_text(f"[[scenario]]\nid = 'one'\n{features}configs = [{', '.join(configs)}]\n")
    return path


def test_interpreted_sweeps_measure_configs_that_a_workload_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few of them, wherever they are in the space, of which other workloads get a few configs."""
    executor = FakeExecutor()
    monkeypatch.setattr(executor, "device", lambda: replace(DEVICE, name=INTERPRETER))
    configs = [
        f"{{ BLOCK_M = {m}, BLOCK_N = {n}, num_warps = {w} }}"
        for m in (16, 32, 64)
        for n in (16, 64)
        for w in (1, 8)
    ]
    workload = named(tmp_path / "next.toml", *configs)
    summary = tuned(tmp_path / "log.csv", executor, interpret=True, workload=workload)
    with summary.log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    measured = {(row["BLOCK_M"], row["BLOCK_N"], row["num_warps"]) for row in rows}
    assert measured == {("16", n, w) for n in ("16", "64") for w in ("1", "8")}


@pytest.mark.parametrize("config", ["{ BLOCK_M = 16 }", "{ BLOCK_M = 48, BLOCK_N = 16, num_warps = 4 }"])
def test_named_configs_of_which_none_is_in_the_space(tmp_path: Path, config: str) -> None:
    workload = named(tmp_path / "next.toml", config)
    with pytest.raises(UsageError, match="scenario 'one' names configs, and none of them is in the space"):
        tuned(tmp_path / "log.csv", workload=workload)
    assert not (tmp_path / "log.csv").exists()


def test_what_a_workload_asks_for_and_nothing_applies_to_is_told(tmp_path: Path) -> None:
    """A config may be in the space and yet not for the scenario; others may not be in it at all."""
    small = "M = 8\nN = 64\ndtype = 'float16'\n"
    wide, flat = (
        "{ BLOCK_M = 64, BLOCK_N = 64, num_warps = 4 }",
        "{ BLOCK_M = 16, BLOCK_N = 64, num_warps = 4 }",
    )
    workload = named(tmp_path / "w.toml", wide)
    assert tuned(tmp_path / "a.csv", workload=workload).notes == ()
    with workload.open("a") as file:
        file.write(f"[[scenario]]\nid = 'two'\n{small}configs = [{wide}]\n")
        file.write(f"[[scenario]]\nid = 'three'\n{small.replace('64', '65')}configs = [{wide}, {flat}]\n")
    done = tuned(tmp_path / "b.csv", workload=workload)
    assert (done.rows, done.missing) == (6, 0)
    assert done.notes == (
        "not measured, since no config applies there: scenario 'two'",
        "not measured, since not in the space or not for the scenario: 1 named config",
    )


def test_a_space_file_that_fits_no_vendor_or_feature_is_named(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    for constraint, message in (("B > 2", "the space holds no config for nvidia"), ("B > K", "reads 'K'")):
        space.write_text(f'constraints = ["{constraint}"]\n[parameters]\nB = [1, 2]\n')
        with pytest.raises(SpecError) as caught:
            tuned(tmp_path / "log.csv", space=space)
        assert str(caught.value).startswith(f"{space}: ")
        assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == [space]


@pytest.mark.parametrize("part", ["fits", "launched", "applies", "work", "scenario_class"])
def test_a_part_of_the_tunable_that_raises_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The next try, with the tunable mended, must not be told that the log exists already."""
    with monkeypatch.context() as broken:
        broken.setattr(fakes.tunable, part, lambda *_: 1 / 0, raising=False)
        with pytest.raises(UsageError, match=f"'{part}' of the tunable fails: ZeroDivisionError"):
            tuned(tmp_path / "log.csv")
    assert list(tmp_path.iterdir()) == []
    assert tuned(tmp_path / "log.csv").state == "finished"


def test_an_error_after_the_first_rows_leaves_them(tmp_path: Path) -> None:
    class Broken(FakeExecutor):
        def open(self, scenario: Any) -> Any:
            if len(self.launches) > 20:
                raise UsageError("no GPU any more")
            return super().open(scenario)

    with pytest.raises(UsageError, match="no GPU any more"):
        tuned(tmp_path / "log.csv", Broken())
    assert len((tmp_path / "log.csv").read_text().splitlines()) > 1
    assert (tmp_path / "log.card.toml").exists()
    assert tuned(tmp_path / "log.csv", resume=True).state == "finished"


@pytest.mark.parametrize("slowdown", [None, 1.01])
def test_where_no_config_applies_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowdown: float | None
) -> None:
    monkeypatch.setattr(fakes.tunable, "applies", lambda config, scenario: False, raising=False)
    with pytest.raises(UsageError, match="no config applies in any of the scenarios"):
        tuned(tmp_path / "log.csv", target_slowdown=slowdown)
    assert list(tmp_path.iterdir()) == []


def test_the_few_configs_that_are_interpreted_apply_in_the_few_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn from the whole space none of four may be for small scenarios, where most are for large ones."""
    sizes = {"BLOCK_M": tuple(range(1, 1000)), "BLOCK_N": (16, 64)}
    space = Space({**sizes, "num_warps": (4, 8)}, constraints=("BLOCK_M <= M", "num_warps < 8 or M > 99999"))
    monkeypatch.setattr(fakes.tunable, "space", space)
    summary = tuned(tmp_path / "log.csv", interpret=True)
    assert (summary.scenarios, summary.configs, summary.cells) == (4, 4, 16)


def test_where_none_of_the_few_that_are_interpreted_applies_the_space_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fakes.tunable, "applies", lambda config, scenario: False, raising=False)
    with pytest.raises(UsageError, match="--interpret takes the few smallest scenarios"):
        tuned(tmp_path / "log.csv", interpret=True)


@pytest.mark.parametrize("slowdown", [None, 1.01])
def test_a_shard_of_scenarios_in_which_no_config_applies_is_an_empty_log_to_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slowdown: float | None
) -> None:
    monkeypatch.setattr(
        fakes.tunable, "applies", lambda config, scenario: scenario.features["M"] > 8, raising=False
    )
    logs = [tmp_path / f"{k}.csv" for k in range(1, 9)]
    done = [tuned(log, shard=(k, 8), target_slowdown=slowdown) for k, log in enumerate(logs, 1)]
    assert {d.state for d in done} == {"finished"}
    assert sum(d.rows == 0 for d in done) == 2
    assert merge(logs, tmp_path / "log.csv").scenarios == 6
