"""A recorded program runs as it would, and its sweeps become logs. Triton's interpreter, with a made-up benchmarker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import LogError, UsageError
from heurgen.logs.importers.common import check_readable
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import read_spec
from heurgen.tune.recording import run
from heurgen.tune.recording.run import Recorded
from heurgen.tune.recording.shim import FOLDER

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

for n in (40, 70):
    x = torch.arange(n, dtype=torch.float32)
    y = torch.empty_like(x)
    for _ in range(2):
        double[lambda m: (triton.cdiv(n, m["BLOCK"]),)](x, y, n)
    assert torch.equal(y, x * 2)
print("the program's own words")
sys.exit(3)
"""


def record(
    folder: Path, *command: str, output: str = "log.csv", **options: Any
) -> subprocess.CompletedProcess[str]:
    (folder / "bench.py").write_text(BENCH)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    words = [sys.executable, "-m", "heurgen", "record", "-o", output, "--", *command]
    root = Path(__file__).parents[3]
    environment["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, **options
    )


def test_a_program_is_recorded(tmp_path: Path) -> None:
    done = record(tmp_path, sys.executable, "bench.py")
    assert done.returncode == 3, done.stderr
    assert done.stdout == "the program's own words\nwrote log.csv: 8 rows, spec: log.toml\n"
    assert "2 sweeps recorded" in done.stderr
    log = read_logs(tmp_path / "log.csv", read_spec(tmp_path / "log.toml"))
    assert (log.n_measurements, log.n_scenarios, log.n_configs, log.n_failures) == (8, 2, 4, 2)
    assert log.devices == ("Triton interpreter",)
    assert [f.name for f in log.spec.features] == ["n"]
    assert log.spec.log.noise != 0.02


SWEEP = {
    "event": "sweep", "kernel": "k", "features": {"n": 8, "flag": True, "none": None}, "dtypes": {"x": "torch.float16"},
    "device": "NVIDIA H200", "vendor": "nvidia",
    "timings": [[{"BLOCK": 16, "num_warps": 4}, [1.0, 0.9, 1.1]], [{"BLOCK": 32, "num_warps": 4}, [1e999]]],
}  # fmt: skip


def recorded(output: Path, *lines: str, status: int = 0) -> Recorded:
    """What is made of lines that a program left, without a program that imports Triton."""
    file, text = f"os.environ[{FOLDER!r}] + '/1.jsonl'", "\n".join(lines)
    code = f"import os, sys; open({file}, 'w').write({text!r}); sys.exit({status})"
    return run.record([sys.executable, "-c", code], output)


def line(**changes: Any) -> str:
    return json.dumps(SWEEP | changes)


def test_sweeps_become_a_log(tmp_path: Path) -> None:
    found = recorded(
        tmp_path / "log.csv",
        line(features={"n": 8, "flag": True}),
        line(features={"n": 9, "flag": False}),
        "",
    )
    assert found.logs["k"].csv_text() == (
        "vendor,device,n,flag,x_dtype,BLOCK,num_warps,status,time_ms\n"
        "nvidia,NVIDIA H200,8,true,float16,16,4,ok,1.0\n"
        "nvidia,NVIDIA H200,8,true,float16,32,4,invalid,\n"
        "nvidia,NVIDIA H200,9,false,float16,16,4,ok,1.0\n"
        "nvidia,NVIDIA H200,9,false,float16,32,4,invalid,\n"
    )
    assert found.notes == ("k: 2 sweeps recorded",)
    assert f"noise = {0.2 / 1.6832:.6f}" in found.logs["k"].spec_text()


def test_two_kernels_make_two_files_and_the_status_is_passed_on(tmp_path: Path) -> None:
    lines = (line(features={"n": 1}), line(kernel="a b", features={"n": 1}), "")
    found = recorded(tmp_path / "log.csv", *lines, status=3)
    assert found.status == 3
    assert found.files == {
        "k": (tmp_path / "log.k.csv", tmp_path / "log.k.toml"),
        "a b": (tmp_path / "log.a_b.csv", tmp_path / "log.a_b.toml"),
    }
    for folder in (tmp_path, tmp_path / "new"):
        assert recorded(folder, *lines).files["a b"][0] == folder / "a_b.csv"
    assert recorded(tmp_path / "log.csv", *lines[::2]).files == {
        "k": (tmp_path / "log.csv", tmp_path / "log.toml")
    }


def test_names_of_kernels_that_read_alike_are_other_files(tmp_path: Path) -> None:
    lines = (line(kernel=name, features={"n": 1}) for name in ("a b", "a_b"))
    logs = [log for log, _ in recorded(tmp_path / "log.csv", *lines, "").files.values()]
    assert logs == [tmp_path / "log.a_b.csv", tmp_path / "log.a_b_2.csv"]


def test_the_spec_of_a_compressed_log(tmp_path: Path) -> None:
    lines = (line(features={"n": 1}), line(kernel="other", features={"n": 1}), "")
    log = tmp_path / "log.csv.gz"
    assert recorded(log, *lines[::2]).files == {"k": (log, tmp_path / "log.toml")}
    assert recorded(log, *lines).files["k"] == (tmp_path / "log.k.csv.gz", tmp_path / "log.k.toml")


def test_what_a_launch_was_not_given_is_none(tmp_path: Path) -> None:
    lines = [
        line(features={"n": 8, "mode": None}),
        line(features={"mode": " relu\n"}, dtypes={"x": "torch.float16", "b": "int8"}),
    ]
    log = recorded(tmp_path / "log.csv", *lines, "").logs["k"]
    assert log.columns[:6] == ("vendor", "device", "n", "mode", "x_dtype", "b_dtype")
    assert {row[2:6] for row in log.rows} == {
        ("8", "none", "float16", "none"),
        ("none", "relu\\n", "float16", "int8"),
    }
    check_readable(log.csv_text(), log.spec_text())


def test_a_kernel_of_which_every_config_failed_does_not_cost_the_others(tmp_path: Path) -> None:
    failed = line(kernel="broken", features={"n": 1}, timings=[[{"BLOCK": 16}, [1e999]]])
    found = recorded(tmp_path / "log.csv", line(features={"n": 1}), failed, "")
    assert list(found.logs) == ["k"]
    assert "broken: no config succeeded, so there is no log of it" in found.notes
    with pytest.raises(LogError, match="every measurement of record failed"):
        recorded(tmp_path / "log.csv", failed, "")


def test_kernels_of_one_name_with_other_keys_are_numbered(tmp_path: Path) -> None:
    lines = [line(features={k: 1}, keys=[k]) for k in ("n", "m", "m", "q")]
    found = recorded(tmp_path, *lines, "")
    assert {k: log.columns[2] for k, log in found.logs.items()} == {"k": "m", "k_2": "n", "k_3": "q"}
    assert found.files["k_2"] == (tmp_path / "k_2.csv", tmp_path / "k_2.toml")
    assert len(found.logs["k"].rows) == 4


def test_kernels_of_one_name_and_key_from_two_files_are_no_repeats(tmp_path: Path) -> None:
    lines = [line(features={"n": 1}, keys=["n"], source=f"/src/{f}.py:k") for f in ("b", "a", "b")]
    found = recorded(tmp_path, *lines, "")
    assert {k: len(log.rows) for k, log in found.logs.items()} == {"k": 2, "k_2": 4}
    assert found.notes == ("k: 1 sweep recorded", "k_2: 2 sweeps recorded, of /src/b.py")


def test_a_key_that_is_called_like_the_dtype_of_an_argument_is_kept(tmp_path: Path) -> None:
    lines = [line(features={"x_dtype": t}, dtypes={"x": "torch.uint8"}) for t in ("fp4", "int8")]
    log = recorded(tmp_path / "log.csv", *lines, "").logs["k"]
    assert log.columns[2:4] == ("x_dtype", "x_dtype_")
    assert {row[2:4] for row in log.rows} == {("fp4", "uint8"), ("int8", "uint8")}


def test_half_a_line_of_a_program_that_was_killed_is_left_out(tmp_path: Path) -> None:
    whole = line(features={"n": 1})
    assert len(recorded(tmp_path / "log.csv", whole, whole[:40]).logs["k"].rows) == 2


SERVER = """
import os, pathlib, signal, sys, time
(pathlib.Path(os.environ["HEURGEN_RECORD"]) / "1.jsonl").write_text(sys.argv[1] + "\\n")
try:
    os.killpg(0, signal.SIGINT)  # Ctrl-C reaches all processes of the terminal
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)  # longer than anybody waits who thinks that it hangs
    sys.exit(4)
"""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes begin with a Ctrl-C that reaches them: it is ignored under nohup and in some CI."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_that_ends_a_server_keeps_what_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(SERVER)
    done = record(tmp_path, sys.executable, "serve.py", line(), start_new_session=True)
    assert done.returncode == 4, done.stderr
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3


TERMINATED = """
import os, pathlib, signal, sys, time
(pathlib.Path(os.environ["HEURGEN_RECORD"]) / "1.jsonl").write_text(sys.argv[1] + "\\n")
number = signal.Signals[sys.argv[2]]
signal.signal(number, lambda *_: sys.exit(6))
os.kill(os.getppid(), number)
time.sleep(60)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_who_ends_the_recorder_ends_the_program_and_keeps_what_was_recorded(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "serve.py").write_text(TERMINATED)
    before = signal.signal(signal.Signals[name], signal.SIG_DFL)  # SIGHUP is ignored under nohup
    done = record(tmp_path, sys.executable, "serve.py", line(), name, timeout=30)
    signal.signal(signal.Signals[name], before)
    assert done.returncode == 6, done.stderr
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_before_any_sweep_is_no_program_that_tunes_nothing(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(SERVER)
    done = record(tmp_path, sys.executable, "serve.py", "", start_new_session=True)
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert "recorded" not in done.stderr


def test_a_program_that_tunes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for gpu, message in ((True, "no @triton.autotune kernel was tuned"), (False, "no GPU is visible here")):
        monkeypatch.setattr(run, "_has_gpu", lambda gpu=gpu: gpu)
        with pytest.raises(UsageError, match=f"^{message}"):
            recorded(tmp_path / "log.csv", '{"event": "triton"}', "")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print(1)", "error: it imported no Triton, so nothing was recorded"),
        ("import sys; sys.exit(5)", "error: the program ended with status 5; it imported no Triton"),
    ],
)
def test_nothing_recorded(tmp_path: Path, code: str, message: str) -> None:
    done = record(tmp_path, sys.executable, "-c", code)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert not list(tmp_path.glob("log*"))


def test_a_command_that_is_none(tmp_path: Path) -> None:
    done = record(tmp_path, "no-such-program")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2, "error: cannot run 'no-such-program': No such file or directory"
    )  # fmt: skip
