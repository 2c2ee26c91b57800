"""What the commands do with input that means harm, or is only wrong: one error, status 2, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heurgen.cli import main
from tests.support import logs


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """log.csv, kernel.toml, model.json, module.py, traffic.csv, heurgen.toml, cache.json of one small log."""
    folder = tmp_path_factory.mktemp("made")
    log, spec = logs.write(folder, logs.rows(3, ("nvidia",)))
    assert run("train", log, "--spec", spec, "-o", folder / "model.json").exit_code == 0
    assert run("emit", folder / "model.json", "-o", folder / "module.py").exit_code == 0
    (folder / "traffic.csv").write_text("m,k,density,dtype,count\n1,1,0.5,float16,3\n")
    (folder / "cache.json").write_text("{}")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    monkeypatch.chdir(copy)
    return copy


SPEC = ("--spec", "kernel.toml")
DESTROYING = [
    ("train", "log.csv", *SPEC, "-o", "log.csv"),
    ("train", "log.csv", *SPEC, "-o", "kernel.toml"),
    ("train", "log.csv", *SPEC, "--card", "cache.json", "-o", "./cache.json"),
    ("init", "log.csv", "-o", "../copy/log.csv"),
    ("emit", "model.json", "-o", "model.json"),
    ("audit", "model.json", "log.csv", *SPEC, "--html", "log.csv"),
    ("audit", "model.json", "log.csv", *SPEC, "--html", "model.json"),
    ("audit", "model.json", "log.csv", *SPEC, "--baseline", "module.py", "--html", "module.py"),
    ("audit", "model.json", "log.csv", *SPEC, "--html", "kernel.toml"),
    ("import", "dejavu", "cache.json", "-o", "cache.json"),
    ("import", "dejavu", "cache.json", "-o", "new.csv", "--write-spec", "cache.json"),
    ("import", "dejavu", "cache.json", "-o", "new.csv", "--write-spec", "new.csv"),
    ("import", "autoheuristic", "log.csv", "-o", "log.csv"),
    ("advise", "model.json", "log.csv", *SPEC, "--traffic", "traffic.csv", "-o", "traffic.csv"),
    ("advise", "model.json", "log.csv", *SPEC, "-o", "log.csv"),
    ("tune", "paged_attention", "-o", "kernel.toml", "--workload", "kernel.toml", "--resume"),
    ("tune", "paged_attention", "-o", "x.csv", "--space", "x.card.toml"),
]


@pytest.mark.parametrize("words", DESTROYING, ids=" ".join)
def test_no_command_writes_over_what_it_reads(folder: Path, words: tuple[str, ...]) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    result = run(*words)
    assert result.exit_code == 2
    assert "is an input" in result.stderr or "two outputs are the same file" in result.stderr
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize("output", ["log.csv", "kernel.toml", "heurgen.toml", "hard.csv"])
@pytest.mark.parametrize("command", ["build", "check"])
def test_build_writes_over_no_input(folder: Path, output: str, command: str) -> None:
    (folder / "hard.csv").hardlink_to(folder / "log.csv")
    (folder / "heurgen.toml").write_text(
        f'[[heuristic]]\nlogs = ["log.csv"]\nspec = "kernel.toml"\nmodel = "{output}"\nmodule = "m.py"\n'
    )
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    result = run(command)
    assert (result.exit_code, "is an input" in result.stderr) == (2, True)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """`heurgen` in a real shell: only there stdout can be closed, full or a broken pipe."""
    line = f"{sys.executable} -m heurgen {command}"
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("show model.json > /dev/full", "No space left on device"),
        ("show model.json --json > /dev/full", "No space left on device"),
        ("show model.json >&-", "it is closed"),
        ("--help > /dev/full", "No space left on device"),
        ("show model.json --json > >(exec 0<&-; sleep 0.1) 2> >(cat >&2); s=$?; sleep 0.3; exit $s", ""),
    ],
)
def test_stdout_that_takes_nothing_is_an_error(folder: Path, command: str, reason: str) -> None:
    done = shell(folder, command)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if reason:
        message = f"error: cannot write to stdout: {reason}"
        assert (done.returncode, done.stderr.splitlines()[0]) == (2, message)
    else:
        assert done.returncode in (0, 2)


HOSTILE = "x\x1b[2J\u202e\u200b\x07\u3164y"


def test_nothing_printed_steers_the_terminal(folder: Path) -> None:
    """Categories, devices, units and records of a model are shown with their control characters escaped."""
    from heurgen.ir import schema

    module = schema.read_model(folder / "model.json")
    data = schema.to_dict(module)
    for feature in data["features"]:
        feature["unit"] = feature["doc"] = HOSTILE
    dtype = next(f for f in data["features"] if f["name"] == "dtype")
    dtype["values"] = [HOSTILE, *dtype["values"]]
    data["selectors"][0]["devices"] = [HOSTILE]
    data["selectors"][0]["choice"] = {HOSTILE: HOSTILE}
    leaves = [{"config": 0, "n_scenarios": 1, "slowdown": 1.0} for _ in range(2)]
    data["selectors"][0]["tree"] = {
        "feature": "dtype", "values": [HOSTILE], "others": ["float16"], "unknown_left": True,
        "left": leaves[0], "right": leaves[1],
    }  # fmt: skip
    (folder / "hostile.json").write_text(schema.to_json(schema.from_dict(data)))
    row = ("m=1", "k=1", "density=0.5", f"dtype={HOSTILE}")
    for words in (
        ("show", "hostile.json"),
        ("show", "hostile.json", "--json"),
        ("explain", "hostile.json", "--vendor", "nvidia", *row),
        ("explain", "hostile.json", "--vendor", "nvidia", *row, "--json"),
        ("diff", "hostile.json", "model.json"),
        ("audit", "hostile.json", "log.csv", *SPEC),
        ("emit", "hostile.json", "-o", "x.py"),
        ("show", HOSTILE),
        ("validate", HOSTILE, "--spec", HOSTILE),
    ):
        result = run(*words)
        assert all(line.isprintable() for line in (result.stdout + result.stderr).split("\n")), words
        assert not set("\u202e\u200b\u3164") & set(result.output), words


def test_an_int_of_400_digits(folder: Path) -> None:
    row = ("k=1", "density=0.5", "dtype=float16")
    result = run("explain", "model.json", "--vendor", "nvidia", f"m={'9' * 400}", *row)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: m: found '99999")


def cache(
    key: str = "('16', 'float16')", config: str = "BLOCK_M: 16, num_warps: 4", time: object = 1.0
) -> str:
    data = {
        "signature": "JITFunction(m:kernel)",
        "keys": ["n", "dtype"],
        "cache": {key: config, "('32', 'float16')": "BLOCK_M: 32, num_warps: 8"},
        "timings": {key: [time], "('32', 'float16')": [2.0]},
        "timings_data": {"labels": ["s"]},
    }
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "vendor", "message"),
    [
        (cache(time=1e99), "nvidia", "expected a finite number above 0"),
        (cache(time=1e308), "nvidia", "expected a finite number above 0"),
        (cache(time=5e-324).replace('"s"', '"ns"'), "nvidia", "expected a finite number above 0"),
        (cache(key="(' 16', 'x ')"), "nvidia", "has spaces around it"),
        (cache(config="BLOCK_M: 16 , num_warps: 4"), "nvidia", "has spaces around it"),
        (cache(), "class", "'class' is no vendor, expected a vendor that is no Python keyword"),
        (cache(key="(0x" + "f" * 20_000 + ", 'a')"), "nvidia", "is no tuple of strings"),
        (cache(key="(1e999, 'a')"), "nvidia", "is no tuple of strings"),
    ],
)
def test_import_writes_no_log_that_its_own_spec_rejects(
    folder: Path, text: str, vendor: str, message: str
) -> None:
    Path("cache.json").write_text(text)
    words = ("cache.json", "-o", "new.csv", "--write-spec", "new.toml", "--device", "D", "--vendor", vendor)
    result = run("import", "dejavu", *words)
    assert (result.exit_code, result.stderr.startswith("error: ")) == (2, True)
    assert message in result.stderr
    assert not Path("new.csv").exists()


def test_cells_that_a_spreadsheet_would_run_are_told(folder: Path) -> None:
    Path("cache.json").write_text(cache(key="('16', '=HYPERLINK(1)')"))
    words = ("cache.json", "-o", "new.csv", "--device", "@D", "--vendor", "nvidia")
    result = run("import", "dejavu", *words)
    assert result.exit_code == 0
    assert (
        "note: 2 texts, such as '=HYPERLINK(1)', begin like a formula: do not open the log" in result.stderr
    )


@pytest.mark.parametrize("name", ["_", "__", "_.csv", "__x", "0", "class", "x" * 250, "_" * 200, "é"])
def test_files_of_any_name_become_a_kernel(folder: Path, name: str) -> None:
    Path(name).write_bytes(Path("log.csv").read_bytes())
    result = run("init", name, "-o", "new.toml")
    assert result.exit_code == 0, result.stderr
    assert run("train", name, "--spec", "new.toml", "-o", "new.json").exit_code == 0


def test_a_long_signature_takes_no_time(folder: Path) -> None:
    for tail in ("a" * 40_000 + "!", " " * 40_000 + "!", "(" + "a b" * 20_000):
        Path("cache.json").write_text(cache().replace("m:kernel", "m:" + tail))
        began = time.process_time()
        run("import", "dejavu", "cache.json", "-o", "new.csv", "--device", "D", "--vendor", "nvidia")
        assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "time_text", ["1e308", "1.7976931348623157e308", "5e-324", "1e-101", "1" + "0" * 400, "-1", "0"]
)
def test_times_beyond_all_measure(folder: Path, time_text: str) -> None:
    cells = logs.rows(3, ("nvidia",))
    cells[1][logs.HEADER.index("time_ms")] = time_text
    logs.write(folder, cells)
    for words in (("train", "log.csv", *SPEC, "-o", "new.json"), ("validate", "log.csv", *SPEC)):
        result = run(*words)
        assert result.exit_code == 2
        assert "expected a finite time above 0" in result.stderr


@pytest.mark.parametrize("name", ["KeyError", "ValueError", "_CONFIG_0", "_BY_DEVICE", "float", "select"])
def test_names_that_emit_refuses_are_refused_with_the_spec(folder: Path, name: str) -> None:
    spec = Path("kernel.toml")
    spec.write_text(spec.read_text().replace("m = {", f"{name} = {{").replace('"m * k"', '"k * 2"'))
    Path("log.csv").write_text(Path("log.csv").read_text().replace(",m,", f",{name},", 1))
    result = run("train", "log.csv", *SPEC, "-o", "new.json")
    assert result.exit_code == 2
    assert f"kernel.toml:5: column 'features.{name}'" in result.stderr


def test_the_page_hides_nothing_and_stays_small(folder: Path) -> None:
    """A provenance, a status and a record of 100,000 hostile characters, in a page."""
    from heurgen.ir import schema

    data = schema.to_dict(schema.read_model(folder / "model.json"))
    data["selectors"][0]["choice"] = {HOSTILE: HOSTILE * 10_000}
    data["provenance"]["note"] = HOSTILE * 10_000
    (folder / "hostile.json").write_text(schema.to_json(schema.from_dict(data)))
    assert run("audit", "hostile.json", "log.csv", *SPEC, "--html", "page.html").exit_code == 0
    page = Path("page.html").read_text()
    assert not set("\x1b\u202e\u200b\x07\u3164") & set(page)
    assert len(page) < 400_000


@pytest.mark.parametrize("column", ["device", "dtype", "vendor"])
def test_a_category_of_100000_characters_is_none(folder: Path, column: str) -> None:
    cells = logs.rows(3, ("nvidia",))
    cells[1][logs.HEADER.index(column)] = "n" * 100_000
    logs.write(folder, cells)
    spec = Path("kernel.toml")
    spec.write_text(spec.read_text().replace(', values = ["bfloat16", "float16"]', ""))
    result = run("train", "log.csv", *SPEC, "-o", "new.json")
    assert result.exit_code == 2
    assert f"log.csv:3: column '{column}': found 'nnn" in result.stderr
    assert "of 100000 characters, expected at most 1000" in result.stderr
