from __future__ import annotations

import fcntl
import gzip
import itertools
import os
import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from heurgen.base.errors import HeurgenError, LogError, UsageError
from heurgen.cli import main
from heurgen.tune.merge import merge
from heurgen.tune.run import TuneOptions, run_tune
from tests.tune.fakes import DEVICE, FakeExecutor

TARGET = "tests.tune.fakes:tunable"


def swept(
    path: Path, *, device: str = DEVICE.name, driver: str = "1.2", shard: tuple[int, int] = (1, 1)
) -> Path:
    executor = FakeExecutor(noise=0.0)
    executor.device = lambda: replace(DEVICE, name=device, driver=driver)  # type: ignore[method-assign]
    run_tune(TuneOptions(TARGET, path, shard=shard), executor=executor)
    return path


def lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().splitlines())


def test_shards_are_the_whole_in_any_order(tmp_path: Path) -> None:
    whole = swept(tmp_path / "whole.csv")
    shards = [swept(tmp_path / f"{k}.csv", shard=(k, 3)) for k in (1, 2, 3)]
    assert sum(lines(s).total() - 1 for s in shards) == lines(whole).total() - 1
    texts = set()
    for i, order in enumerate(itertools.permutations(shards)):
        merged = merge(order, tmp_path / f"merged{i}.csv")
        assert (merged.scenarios, merged.copies) == (8, 0)
        texts.add(merged.log.read_text())
    assert len(texts) == 1
    assert lines(merged.log) == lines(whole)
    card = tomllib.loads(merged.cards[0].read_text())
    assert "shard" not in card["log"]
    assert (
        card["log"]["source_sha256"]
        == tomllib.loads((tmp_path / "1.card.toml").read_text())["log"]["source_sha256"]
    )
    again = merge([*shards, merged.log, shards[0]], tmp_path / "again.csv")  # what was merged counts once
    assert again.log.read_text() == merged.log.read_text()
    assert again.copies == merged.rows + lines(shards[0]).total() - 1


def test_what_sweeps_of_several_spaces_count_is_not_said(tmp_path: Path) -> None:
    """Of two spaces with 8 configs each the card said that the log has 8."""
    first, second = swept(tmp_path / "a.csv"), swept(tmp_path / "b.csv")
    card = second.with_name("b.card.toml")
    other = re.sub(r'space_sha256 = "[^"]*"', 'space_sha256 = "x"', card.read_text())
    card.write_text(other)
    log = tomllib.loads(merge([first, second], tmp_path / "ab.csv").cards[0].read_text())["log"]
    assert log["scenarios"] == 8
    assert not {"space_sha256", "configs"} & set(log)


def test_a_shard_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Not where a log is of no shard: it may hold them."""
    shards = [swept(tmp_path / f"{k}.csv", shard=(k, 4)) for k in (1, 3, 4)]
    assert merge(shards, tmp_path / "three.csv").missing == ("2/4",)
    assert merge([*shards, tmp_path / "three.csv"], tmp_path / "again.csv").missing == ()
    result = CliRunner().invoke(main, ["merge", *map(str, shards[1:]), "-o", str(tmp_path / "two.csv")])
    assert result.exit_code == 0
    assert result.stderr == "note: 2 shards of the workload not here: 1/4, 2/4\n"


def test_logs_that_are_compressed(tmp_path: Path) -> None:
    shards = [swept(tmp_path / f"{k}.csv", shard=(k, 2)) for k in (1, 2)]
    plain = merge(shards, tmp_path / "plain.csv")
    packed = tmp_path / "1.csv.gz"
    packed.write_bytes(gzip.compress(shards[0].read_bytes()))
    shards[0].unlink()
    merged = merge([packed, shards[1]], tmp_path / "packed.csv")
    assert merged.log.read_text() == plain.log.read_text()
    assert merged.cards[0].read_text() == plain.cards[0].read_text()


def test_a_merged_log_that_is_named_so_is_compressed(tmp_path: Path) -> None:
    shards = [swept(tmp_path / f"{k}.csv", shard=(k, 2)) for k in (1, 2)]
    plain, packed = (merge(shards, tmp_path / name) for name in ("merged.csv", "packed.csv.gz"))
    assert gzip.decompress(packed.log.read_bytes()) == plain.log.read_bytes()
    assert merge([packed.log], tmp_path / "again.csv").rows == plain.rows


def test_two_measurements_of_a_cell_are_repeats(tmp_path: Path) -> None:
    log = swept(tmp_path / "a.csv")
    other = tmp_path / "b.csv"
    other.write_text(log.read_text().replace(",ok,0.", ",ok,1."))
    (tmp_path / "b.card.toml").write_bytes((tmp_path / "a.card.toml").read_bytes())
    merged = merge([log, other], tmp_path / "m.csv")
    failures = sum(n for line, n in lines(log).items() if ",unfit," in line)
    assert (merged.rows, merged.copies) == (2 * (lines(log).total() - 1) - failures, failures)


def test_a_card_that_names_no_parameters_is_no_other_scenario(tmp_path: Path) -> None:
    """Cards of before they did: which columns are features is unknown there, not different."""
    logs = [swept(tmp_path / f"{name}.csv") for name in "ab"]
    card = tmp_path / "b.card.toml"
    kept = [line for line in card.read_text().splitlines() if not line.startswith("parameters")]
    assert len(kept) < len(card.read_text().splitlines())
    card.write_text("\n".join(kept) + "\n")
    for order in (logs, logs[::-1]):
        assert merge(order, tmp_path / "m.csv").copies == lines(logs[0]).total() - 1


def test_devices_keep_their_cards(tmp_path: Path) -> None:
    logs = [swept(tmp_path / "a.csv"), swept(tmp_path / "b.csv", device="NVIDIA H100", driver="9.9")]
    merged = merge(logs, tmp_path / "m.csv")
    names = {tomllib.loads(card.read_text())["device"]["name"]: card.name for card in merged.cards}
    assert names == {"Fake, GPU": "m.card.toml", "NVIDIA H100": "m.card.nvidia-h100.toml"}


def test_the_card_of_a_device_that_is_not_in_it_does_not_stay(tmp_path: Path) -> None:
    logs = [swept(tmp_path / "a.csv"), swept(tmp_path / "b.csv", device="NVIDIA H100", driver="9.9")]
    out = merge(logs, tmp_path / "m.csv").log
    before = out.read_bytes()
    with pytest.raises(UsageError, match=r"m.card.nvidia-h100.toml: the card of another log is here"):
        merge(logs[:1], out)
    assert out.read_bytes() == before
    assert merge(logs, out).log.read_bytes() == before


def test_what_cannot_stand_in_one_log(tmp_path: Path) -> None:
    log, out = swept(tmp_path / "a.csv"), tmp_path / "m.csv"

    def refused(error: type[HeurgenError], message: str, other: Path) -> None:
        with pytest.raises(error, match=message):
            merge([log, other], out)
        assert not out.exists()

    refused(
        UsageError,
        "tools driver is '1.3', but '1.2' in .*a.card.toml",
        swept(tmp_path / "b.csv", driver="1.3"),
    )
    other = tmp_path / "c.csv"
    other.write_text(log.read_text().replace(",8,64,", ",9,64,"))
    refused(UsageError, "the log has no card beside it", other)
    card = (tmp_path / "a.card.toml").read_text()
    (tmp_path / "c.card.toml").write_text(card)
    refused(LogError, r"c.csv:\d+: scenario '.*' has other features than on line \d+ of ", other)
    other.write_text(log.read_text())
    (tmp_path / "c.card.toml").write_text(card.replace("samples = 5", "samples = 7"))
    refused(UsageError, "method samples is '7', but '5'", other)
    other.write_text("a,b\n1,2\n")
    refused(LogError, "c.csv:1: column 'BLOCK_M': the columns are not those of the first log", other)
    with pytest.raises(LogError, match="this is no log of the tuner"):
        merge([other], out)


def test_beside_a_device_or_a_pipe_no_card_is_written(tmp_path: Path) -> None:
    log = swept(tmp_path / "a.csv")
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        done = merge([log], pipe)
        assert os.read(reader, 1 << 20) == merged_text(log, tmp_path / "m.csv")
    finally:
        os.close(reader)
    assert done.cards == ()
    assert not (tmp_path / "pipe.card.toml").exists()
    result = CliRunner().invoke(main, ["merge", str(log), "-o", os.devnull])
    assert result.exit_code == 0, result.output
    assert "note: no card is written beside a device or a pipe" in result.stderr
    assert not Path(f"{os.devnull}.card.toml").exists()


def merged_text(log: Path, path: Path) -> bytes:
    merge([log], path)
    return path.read_bytes()


def test_the_command(tmp_path: Path) -> None:
    log = swept(tmp_path / "a.csv", shard=(1, 2))
    out = tmp_path / "m.csv"
    result = CliRunner().invoke(main, ["merge", str(log), str(log), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert f"wrote {out}: " in result.stdout
    assert CliRunner().invoke(main, ["merge", str(log), "-o", str(log)]).exit_code == 2
    for shard, message in (("9/8", "there is no shard 9/8"), ("x", "found --shard 'x', expected K/N")):
        result = CliRunner().invoke(main, ["tune", TARGET, "-o", str(tmp_path / "n.csv"), "--shard", shard])
        assert result.exit_code == 2
        assert message in result.stderr
