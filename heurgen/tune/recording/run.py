"""Run a program with the recorder in it; what it wrote becomes tuning logs with their specs, one pair a kernel."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heurgen.base.errors import UsageError, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported, safe_name
from heurgen.tune.recording.shim import FOLDER

_START = Path(__file__).parent / "start"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a program left behind: its exit status, and for every kernel its log with the files to write it to."""

    status: int
    logs: Mapping[str, Imported]
    files: Mapping[str, tuple[Path, Path]]
    notes: tuple[str, ...]


def record(command: Sequence[str], output: Path) -> Recorded:
    """Run a command; nothing of what it does or prints changes.

    `output` is a CSV for one kernel (several: `log.KERNEL.csv`), or a folder for KERNEL.csv. Specs lie beside.

    Raises:
        UsageError: the command cannot be started, or no sweep was recorded (says why, as far as is known).
        LogError: no config of a kernel succeeded.
    """
    with tempfile.TemporaryDirectory(prefix="heurgen-record-") as folder:
        path = os.pathsep.join([str(_START), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, FOLDER: folder, "PYTHONPATH": path}
        try:
            status = subprocess.run(command, env=environment, check=False).returncode
        except OSError as error:
            raise UsageError(f"cannot run {quoted(command[0])}: {error.strerror}") from error
        records = [json.loads(line) for f in sorted(Path(folder).glob("*.jsonl")) for line in _lines(f)]
    sweeps = [r for r in records if r["event"] == "sweep"]
    if not sweeps:
        raise UsageError(
            _nothing(status, bool(records)), hint="a sweep runs once per kernel, key and process"
        )
    kernels = sorted({s["kernel"] for s in sweeps})
    logs = {kernel: _log(kernel, [s for s in sweeps if s["kernel"] == kernel]) for kernel in kernels}
    notes = tuple(
        f"{kernel}: {counted(sum(s['kernel'] == kernel for s in sweeps), 'sweep')} recorded"
        for kernel in kernels
    )
    return Recorded(status, logs, _files(kernels, output), notes)


def _lines(file: Path) -> list[str]:
    """Whole lines: a process that was killed may leave half of one."""
    text = file.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.split("\n")[:-1] if line]


def _nothing(status: int, imported: bool) -> str:
    ended = f"the program ended with status {status}; " if status else ""
    if not imported:
        return f"{ended}it imported no Triton, so nothing was recorded"
    if not _has_gpu():
        return f"{ended}no GPU is visible here, and without one @triton.autotune measures nothing"
    return f"{ended}no @triton.autotune kernel was tuned (with more than one config, and no cached result)"


def _has_gpu() -> bool:
    return any(Path(p).exists() for p in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd"))


def _log(kernel: str, sweeps: Sequence[Mapping[str, Any]]) -> Imported:
    found = Collected("record")
    found.kernel = kernel
    for sweep in sweeps:
        cells = {n: _cell(v) for n, v in sweep["features"].items()}
        dtypes = {f"{n}_dtype": v.removeprefix("torch.") for n, v in sweep["dtypes"].items()}
        scenario = found.scenario(sweep["vendor"], sweep["device"], {**cells, **dtypes})
        for config, times in sweep["timings"]:
            failed = not times or not 0 < times[0] < float("inf")
            found.add(
                scenario,
                {n: _cell(v) for n, v in config.items()},
                *((None, "invalid") if failed else (times[0],)),
            )
            if len(times) == 3 and not failed:
                found.noises.append(max(0.0, times[2] - times[1]) / 1.6832 / times[0])
    return found.imported(Options())


def _cell(value: Any) -> str:
    return "" if value is None else "true" if value is True else "false" if value is False else str(value)


def _files(kernels: Sequence[str], output: Path) -> dict[str, tuple[Path, Path]]:
    if output.is_dir() or not output.suffix:
        logs = {k: output / f"{safe_name(k)}.csv" for k in kernels}
    elif len(kernels) == 1:
        logs = {kernels[0]: output}
    else:
        logs = {k: output.with_suffix(f".{safe_name(k)}{output.suffix}") for k in kernels}
    return {k: (log, log.with_suffix(".toml")) for k, log in logs.items()}
