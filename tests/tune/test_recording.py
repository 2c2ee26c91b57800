"""A recorded program runs as it would, and its sweeps become logs. Triton's interpreter, with a made-up benchmarker."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec

BENCH = """
import sys, torch, triton, triton.language as tl

def fake(call, quantiles):
    call()
    fake.n += 1
    return [0.5 + 0.1 * (fake.n % 3), 0.49, 0.52] if fake.n % 4 else [float("inf")] * 3
fake.n = 0
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in (16, 32) for w in (1, 2)]

@triton.autotune(configs=CONFIGS, key=["n"], do_bench=fake)
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.autotune(configs=CONFIGS, key=["n"], do_bench=fake)
@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

for tuned in (double, twice)[: int(sys.argv[1])]:
    for n in (40, 70):
        x = torch.arange(n, dtype=torch.float32)
        y = torch.empty_like(x)
        for _ in range(2):
            tuned[lambda m: (triton.cdiv(n, m["BLOCK"]),)](x, y, n)
        assert torch.equal(y, x * 2)
print("the program's own words")
sys.exit(int(sys.argv[2]))
"""


def record(folder: Path, *command: str, output: str = "log.csv") -> subprocess.CompletedProcess[str]:
    (folder / "bench.py").write_text(BENCH)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    words = [sys.executable, "-m", "heurgen", "record", "-o", output, "--", *command]
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_program_is_recorded(tmp_path: Path) -> None:
    done = record(tmp_path, sys.executable, "bench.py", "1", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the program's own words\nwrote log.csv: 8 rows, spec: log.toml\n"
    assert "2 sweeps recorded" in done.stderr
    log = read_logs(tmp_path / "log.csv", read_spec(tmp_path / "log.toml"))
    assert (log.n_measurements, log.n_scenarios, log.n_configs, log.n_failures) == (8, 2, 4, 2)
    assert log.devices == ("Triton interpreter",)
    assert [f.name for f in log.spec.features] == ["n"]
    assert log.spec.log.noise != 0.02


def test_two_kernels_make_two_files_and_the_status_is_passed_on(tmp_path: Path) -> None:
    done = record(tmp_path, sys.executable, "bench.py", "2", "3")
    assert done.returncode == 3
    assert sorted(p.name for p in tmp_path.glob("log.*")) == sorted(
        f"log.{k}.{e}" for k in ("double", "twice") for e in ("csv", "toml")
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print(1)", "error: it imported no Triton, so nothing was recorded"),
        ("import triton", "error: no GPU is visible here, and without one @triton.autotune measures nothing"),
        ("import sys; sys.exit(5)", "error: the program ended with status 5; it imported no Triton"),
    ],
)
def test_nothing_recorded(tmp_path: Path, code: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/nvidiactl").exists() and "GPU" in message:
        pytest.skip("there is a GPU here")
    done = record(tmp_path, sys.executable, "-c", code)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert not list(tmp_path.glob("log*"))


def test_a_command_that_is_none(tmp_path: Path) -> None:
    done = record(tmp_path, "no-such-program")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2, "error: cannot run 'no-such-program': No such file or directory"
    )  # fmt: skip


def test_the_listener_of_later_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    from heurgen.tune.recording import shim

    monkeypatch.setenv(shim.FOLDER, str(tmp_path))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(triton.knobs, "autotuning", types.SimpleNamespace(listener=None))
    shim.install(types.SimpleNamespace())
    listener = triton.knobs.autotuning.listener
    config = triton.Config({"BLOCK": 16}, num_warps=4)
    tuner = types.SimpleNamespace(keys=["n"], base_fn=types.SimpleNamespace(__name__="k"))
    heard = {"fn": tuner, "key": (8, "torch.float16"), "best_config": config, "duration": 1.0}
    listener(**heard, configs_timings={config: [1.0, 0.9, 1.1]}, cache_hit=False)
    listener(**heard, configs_timings={config: [1.0, 0.9, 1.1]}, cache_hit=True)
    (file,) = tmp_path.glob("*.jsonl")
    assert file.read_text().count('"event": "sweep"') == 1
    assert '"features": {"n": 8}, "dtypes": {"dtype_0": "torch.float16"}' in file.read_text()


def test_what_goes_wrong_in_the_recorder_stays_there(capsys: pytest.CaptureFixture[str]) -> None:
    from heurgen.tune.recording import shim

    shim._safely(lambda: 1 / 0)
    assert capsys.readouterr().err.startswith("heurgen record: this sweep is not recorded: ZeroDivisionError")
