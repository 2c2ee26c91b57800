"""`python -m tests.mutation [PATTERN...] [--sample N]`: mutants of compiler and launch path, and who kills them.

mutmut writes the mutants (settings in pyproject.toml) into `mutants/`, which mypy then reads once: what it refuses
never reaches a test. The rest meets the tests in a process that has imported and collected them once: each mutant is
a fork of it that runs the tests which reach its function, quickest first and those of its mirror file before all,
until one fails. mutmut's own runner starts pytest anew for each mutant and takes tests in any order.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import libcst as cst
import mutmut.__main__ as mutmut
from mutmut.mutation.data import MutantLineSpans, SourceFileMutationData
from mutmut.mutation.mutators import mutation_operators
from mutmut.utils.format_utils import get_mutant_name

# The rooms that are mutated, and the folders of their tests.
ROOMS = {
    "heurgen/ir": "tests/ir",
    "heurgen/spec": "tests/spec",
    "heurgen/render": "tests/render",
    "heurgen/trees": "tests/trees",
    "heurgen/logs": "tests/logs",
    "heurgen/base": "tests/base",
    "kernels/heurgen_kernels/host": "tests/kernels/host",
}
# A module's mutants meet its mirror file; these modules are tested through others as well.
ALSO = {
    "heurgen/render/body.py": ("tests/render/test_python.py", "tests/render/test_golden.py"),
    "heurgen/render/text.py": ("tests/render/test_hostile.py",),
    "heurgen/render/layout.py": ("tests/render/test_golden.py",),
    "heurgen/render/describe.py": ("tests/render/test_golden.py",),
    "heurgen/render/names.py": ("tests/render/test_python.py",),
    "heurgen/render/checksum.py": ("tests/render/test_reader.py",),
    "heurgen/spec/kernel_spec.py": (
        *(
            "tests/spec/test_cell_values.py",
            "tests/spec/test_log_columns.py",
            "tests/spec/test_categories.py",
        ),
    ),
    "heurgen/logs/coded.py": ("tests/logs/test_costs.py",),
    "kernels/heurgen_kernels/host/launch.py": (
        "tests/kernels/host/test_bound.py",
        "tests/kernels/host/test_scratch.py",
    ),
    "heurgen/logs/outcomes.py": ("tests/logs/test_tuning_log.py",),
    "heurgen/logs/cells.py": (
        "tests/logs/test_forms.py",
        "tests/logs/test_frame.py",
        "tests/logs/test_jsonl.py",
    ),
    "heurgen/logs/costs.py": ("tests/logs/test_frame.py",),
    "heurgen/logs/roles.py": (
        "tests/logs/test_draft.py",
        "tests/logs/test_draft_layouts.py",
        "tests/logs/test_draft_tables.py",
    ),
    "heurgen/logs/tuning_log.py": ("tests/logs/test_frame.py", "tests/logs/test_layout.py"),
}
KILLED, TYPES, SURVIVED, UNREACHED = "killed", "refused by mypy", "survived", "no test reaches it"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument(
        "patterns", nargs="*", default=["*"], help="patterns of files or mutants, e.g. 'heurgen/ir/*'"
    )
    parser.add_argument("--sample", type=int, help="so many mutants of each room, drawn with a fixed seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-types", action="store_true", help="leave out mypy")
    options = parser.parse_args()
    generate(options.jobs)
    refused = {} if options.no_types else refused_by_types()
    for room, folder in ROOMS.items():
        names = chosen(room, options.patterns, options.sample)
        if names:
            report(room, run_room(names, folder, refused, options.jobs))


def chosen(room: str, patterns: list[str], sample: int | None) -> dict[str, Path]:
    """The mutants of a room's files that match a pattern, or a fixed sample of them, and the file of each."""
    files = [f for f in mutated_files() if f.is_relative_to(room)]
    every = {name: f for f in files for name in names_of(f)}
    names = {
        n: f for n, f in every.items() if any(fnmatch.fnmatch(x, p) for p in patterns for x in (n, str(f)))
    }
    if sample is None or sample >= len(names):
        return names
    return {name: names[name] for name in random.Random(0).sample(sorted(names), sample)}


def tests_of(file: Path, room: str, folder: str) -> list[str]:
    """The mirror file and what ALSO says; the whole folder where there is neither."""
    inside = file.relative_to(room)
    name = inside.parent.name if inside.name == "__init__.py" else inside.stem
    mirror = Path(folder, inside.parent, f"test_{name}.py")
    found = [str(mirror)] if mirror.exists() else []
    return [*found, *ALSO.get(str(file), ())] or [folder]


# What mutmut does not change by itself: the quantifiers of an allow-list and of coverage.
OPPOSITE = {"all": "any", "any": "all", "min": "max", "max": "min", "argmin": "argmax", "argmax": "argmin"}


def swapped(call: cst.Call) -> Iterator[cst.Call]:
    """`all(...)` as `any(...)`, `x.min()` as `x.max()` and so on."""
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    if isinstance(name, cst.Name) and name.value in OPPOSITE:
        yield call.with_deep_changes(name, value=OPPOSITE[name.value])


def generate(jobs: int) -> None:
    """Write `mutants/`: the project, with every function beside its mutants; what has not changed stays."""
    os.makedirs("mutants", exist_ok=True)
    if (cst.Call, swapped) not in mutation_operators:
        mutation_operators.append((cst.Call, swapped))
    with mutmut.CatchOutput():
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.create_mutants(jobs)


def mutated_files() -> list[Path]:
    found = (p for p in mutmut.walk_mutatable_files() if Path("mutants", f"{p}.meta").exists())
    return sorted(found)


def names_of(file: Path) -> list[str]:
    data = SourceFileMutationData(path=file)
    data.load()
    return list(data.exit_code_by_key)


def refused_by_types() -> dict[str, str]:
    """The mutants that mypy refuses (kept in mutants/refused.json while no mutated file is younger), and why."""
    kept = Path("mutants/refused.json")
    newest = max(Path("mutants", f).stat().st_mtime for f in mutated_files())
    if not kept.exists() or kept.stat().st_mtime < newest:
        options = ("--output", "json", "--soft-error-limit=-1", "--no-warn-unused-ignores")
        packages = ("-p", "heurgen", "-p", "heurgen_kernels.host")
        command = [sys.executable, "-m", "mypy", *options, *packages]
        found = subprocess.run(command, cwd="mutants", capture_output=True, text=True, check=False)
        kept.write_text(json.dumps(_refused([json.loads(line) for line in found.stdout.splitlines()])))
    return dict(json.loads(kept.read_text()))


def _refused(told: list[dict[str, Any]]) -> dict[str, str]:
    """What mypy says of a mutant and does not say of the function as it is, which stands beside it."""
    spans = {str(f): MutantLineSpans.load(f) for f in mutated_files()}
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for error in (e for e in told if e["severity"] == "error" and spans.get(e["file"])):
        for name, span in spans[error["file"]].span_by_function_name.items():  # type: ignore[union-attr]
            if span.start <= error["line"] <= span.end:
                said[get_mutant_name(Path(error["file"]), name)].setdefault(error["message"], error["code"])
    found = {}
    for name, messages in said.items():
        function = name.partition("__mutmut_")[0]
        new = [m for m in messages if m not in said.get(f"{function}__mutmut_orig", ())]
        if new and not name.endswith("_orig"):
            found[name] = new[0]
    return found


def run_room(
    names: dict[str, Path], folder: str, refused: dict[str, str], jobs: int
) -> dict[str, tuple[str, str]]:
    """Every mutant's fate, and what decided it: a test's id or mypy's words."""
    fates = {n: (TYPES, refused[n]) for n in names if n in refused}
    room = next(r for r, f in ROOMS.items() if f == folder)
    todo: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, file in names.items():
        if name not in fates:
            todo[tuple(tests_of(file, room, folder))].append(name)
    with ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(run_share, todo.values(), todo, range(len(todo))):
            fates |= found
    return fates


def run_share(names: list[str], tests: tuple[str, ...], number: int) -> dict[str, tuple[str, str]]:
    """The fates of mutants that meet the same tests, from a process of their own."""
    folder = Path("mutants").absolute()
    out = folder / f"fates.{number}.jsonl"
    out.unlink(missing_ok=True)
    # One thread: a fork inherits no thread pool of OpenMP or torch.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = os.pathsep.join((str(folder), str(folder / "kernels")))
    work = json.dumps({"mutants": names, "tests": tests, "out": str(out)})
    log = folder / f"runner.{number}.log"
    with log.open("wb") as printed:
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutation.runner"],
            cwd=folder, env=os.environ | threads | {"PYTHONPATH": paths, "HEURGEN_MUTANTS": work},
            stdout=printed, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    if done.returncode or not out.exists():
        sys.exit(f"{' '.join(tests)} cannot be collected: see {log}")
    lines = map(json.loads, out.read_text().splitlines())
    return {name: (fate, why) for name, fate, why in lines}


def report(room: str, fates: dict[str, tuple[str, str]]) -> None:
    counts = Counter(fate for fate, _ in fates.values())
    dead = counts[KILLED] + counts[TYPES]
    print(f"{room}: {dead} of {len(fates)} killed ({dead / max(len(fates), 1):.1%}): {dict(counts)}")
    for name, (fate, _) in sorted(fates.items()):
        if fate in (SURVIVED, UNREACHED):
            print(f"  {fate}: {name}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
