"""Run a program with the recorder in it; what it wrote becomes tuning logs with their specs, one pair a kernel."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.base.writing import check_folder, check_outputs
from heurgen.logs.importers.collect import Collected, Options
from heurgen.logs.importers.common import Imported, safe_name
from heurgen.logs.importers.triton_cache import noise_of
from heurgen.tune.recording.shim import FOLDER

_START = Path(__file__).parent / "start"
_STDERR = 2


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a program left behind: its exit status, and for every kernel its log with the files to write it to."""

    status: int
    logs: Mapping[str, Imported]
    files: Mapping[str, tuple[Path, Path]]
    notes: tuple[str, ...]


def record(command: Sequence[str], output: Path, *, to_stderr: bool = False) -> Recorded:
    """Run a command; nothing of what it does or prints changes, but that with `to_stderr` it prints there alone.

    `output` is a CSV for one kernel (several: `log.KERNEL.csv`), or a folder for KERNEL.csv. Specs lie beside.

    Raises:
        UsageError: the command cannot be started, or no sweep was recorded (says why, as far as is known).
        LogError: no config of a kernel succeeded.
        KeyboardInterrupt: Ctrl-C ended it before any sweep.
    """
    with tempfile.TemporaryDirectory(prefix="heurgen-record-") as folder:
        path = os.pathsep.join([str(_START), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, FOLDER: folder, "PYTHONPATH": path}
        try:
            stdout = _STDERR if to_stderr else None
            process = subprocess.Popen(command, env=environment, stdout=stdout)
        except OSError as error:
            raise UsageError(f"cannot run {quoted(command[0])}: {error.strerror}") from error
        status, interrupted = _ended(process)
        records = [json.loads(line) for f in sorted(Path(folder).glob("*.jsonl")) for line in _lines(f)]
    sweeps = [r for r in records if r["event"] == "sweep"]
    if not sweeps:
        if interrupted and status:  # before it tuned anything: no fault of its own
            raise KeyboardInterrupt
        raise UsageError(
            _nothing(status, bool(records)), hint="a sweep runs once per kernel, key and process"
        )
    kernels = _kernels(sweeps)
    notes = [_said(kernel, own) for kernel, own in kernels.items()]
    failed = [
        k for k, own in kernels.items() if not any(_time(times) for s in own for _, times in s["timings"])
    ]
    if len(failed) < len(kernels):
        notes += [f"{kernel}: no config succeeded, so there is no log of it" for kernel in failed]
        kernels = {k: own for k, own in kernels.items() if k not in failed}
    logs = {kernel: _log(kernel, own) for kernel, own in kernels.items()}
    return Recorded(status, logs, _files(list(kernels), output), tuple(notes))


def _ended(process: subprocess.Popen[bytes]) -> tuple[int, bool]:
    """Wait for the program; gives its exit status, and whether Ctrl-C ended it.

    Ctrl-C is how a server is ended, and reaches it as well: what it has recorded is kept. The second one kills it.
    SIGTERM, which a scheduler or a container sends to us alone, is passed on, and SIGHUP of a terminal that is gone.
    """
    # nohup has SIGHUP ignored
    passed = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) != signal.SIG_IGN]
    before = {s: signal.signal(s, lambda number, _: process.send_signal(number)) for s in passed}
    try:
        try:
            return process.wait(), False
        except KeyboardInterrupt:
            return process.wait(), True
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kernels(sweeps: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Sweeps by kernel; kernels of one name from other files, or tuned by other keys, are numbered (copy, copy_2)."""
    found: dict[tuple[str, tuple[str, ...], str], list[Mapping[str, Any]]] = {}
    for sweep in sweeps:
        place = (sweep["kernel"], tuple(sweep.get("keys", ())), sweep.get("source", ""))
        found.setdefault(place, []).append(sweep)
    named: dict[str, list[Mapping[str, Any]]] = {}
    for (kernel, *_), own in sorted(found.items(), key=lambda pair: pair[0]):
        same = sum(k == kernel or re.fullmatch(re.escape(kernel) + "_[0-9]+", k) is not None for k in named)
        named[f"{kernel}_{same + 1}" if same else kernel] = own
    return named


def _said(kernel: str, sweeps: Sequence[Mapping[str, Any]]) -> str:
    """A note; of a kernel that had to be numbered it says the file."""
    text = f"{kernel}: {counted(len(sweeps), 'sweep')} recorded"
    source = sweeps[0].get("source", "").rpartition(":")[0]
    return f"{text}, of {printable(source)}" if source and kernel != sweeps[0]["kernel"] else text


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
    """The log of a kernel. What a sweep was not given (an optional tensor, a null key) is `none`."""
    found = Collected("record")
    found.kernel = kernel
    features = dict.fromkeys(n for s in sweeps for n in s["features"])
    dtypes = dict.fromkeys(n for s in sweeps for n in s["dtypes"])
    for sweep in sweeps:
        cells = {n: _cell(sweep["features"].get(n)) or "none" for n in features}
        # A key of that name is the user's own, and tells more: uint8 may hold other types.
        cells |= {
            f"{n}_dtype{'_' * (f'{n}_dtype' in features)}": sweep["dtypes"]
            .get(n, "none")
            .removeprefix("torch.")
            for n in dtypes
        }
        scenario = found.scenario(sweep["vendor"], sweep["device"], cells)
        for config, times in sweep["timings"]:
            time = _time(times)
            settings = {n: _cell(v) for n, v in config.items()}
            found.add(scenario, settings, time, "invalid" if time is None else "ok")
            if len(times) == 3 and time is not None:
                found.noises.append(noise_of(*times))
    return found.imported(Options())


def _time(times: Sequence[float]) -> float | None:
    """The median in ms; None for a failure."""
    return times[0] if times and 0 < times[0] < float("inf") else None


def _cell(value: Any) -> str:
    """A value as a log shows it: text without spaces around it, blank for null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else printable(str(value)).strip()


def check_place(output: Path) -> None:
    """Refuse, before a program runs, an `output` that `record` could not write to.

    Raises:
        UsageError: the log would be its own spec.
        EmitError: its folder cannot be written to.
    """
    if _is_folder(output):
        check_folder(output)
    else:
        check_outputs(_pair(output.parent, *_split(output)), ())
        check_folder(output.parent)


def _files(kernels: Sequence[str], output: Path) -> dict[str, tuple[Path, Path]]:
    names: dict[str, str] = {}
    for kernel in kernels:
        names[kernel] = safe_name(kernel, names.values())
    if _is_folder(output):
        return {k: _pair(output, name, ".csv") for k, name in names.items()}
    stem, ending = _split(output)
    if len(kernels) == 1:
        return {kernels[0]: _pair(output.parent, stem, ending)}
    return {k: _pair(output.parent, f"{stem}.{name}", ending) for k, name in names.items()}


def _is_folder(output: Path) -> bool:
    return output.is_dir() or not output.suffix


def _split(output: Path) -> tuple[str, str]:
    """`log.csv.gz` -> log, .csv.gz."""
    ending = ".csv.gz" if output.name.endswith(".csv.gz") else output.suffix
    return output.name.removesuffix(ending), ending


def _pair(folder: Path, stem: str, ending: str) -> tuple[Path, Path]:
    """A log and its spec."""
    return folder / f"{stem}{ending}", folder / f"{stem}.toml"
