"""The command group import."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.commands import run


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
        (cache(), "class", "found the vendor 'class', expected a vendor that is no Python keyword"),
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


def test_one_row_is_no_rows(folder: Path) -> None:
    name = "E=8,N=64,device_name=NVIDIA_H200.json"
    Path(name).write_text('{"1": {"BLOCK_SIZE_M": 16}}')
    assert run("import", "auto", name, "-o", "new.csv").stdout == "wrote new.csv: 1 row\n"


def test_cells_that_a_spreadsheet_would_run_are_told(folder: Path) -> None:
    Path("cache.json").write_text(cache(key="('16', '=HYPERLINK(1)')"))
    words = ("cache.json", "-o", "new.csv", "--device", "@D", "--vendor", "nvidia")
    result = run("import", "dejavu", *words)
    assert result.exit_code == 0
    assert (
        "note: 2 texts, such as '=HYPERLINK(1)', begin like a formula: do not open the log" in result.stderr
    )


def test_a_long_signature_takes_no_time(folder: Path) -> None:
    for tail in ("a" * 40_000 + "!", " " * 40_000 + "!", "(" + "a b" * 20_000):
        Path("cache.json").write_text(cache().replace("m:kernel", "m:" + tail))
        began = time.process_time()
        run("import", "dejavu", "cache.json", "-o", "new.csv", "--device", "D", "--vendor", "nvidia")
        assert time.process_time() - began < 10  # a quadratic pattern took 41 s


def test_a_spec_that_is_there_is_kept(folder: Path) -> None:
    """Somebody may have confirmed its guesses since the last import."""
    Path("cache.json").write_text(cache())
    words = ("cache.json", "-o", "new.csv", "--write-spec", "new.toml", "--device", "D", "--vendor", "nvidia")
    assert run("import", "dejavu", *words).exit_code == 0
    Path("new.toml").write_text("# mine\n" + Path("new.toml").read_text())
    result = run("import", "dejavu", *words, "--json")
    assert (result.exit_code, Path("new.toml").read_text().startswith("# mine\n")) == (0, True)
    assert "note: new.toml was there and is kept: no draft is written\n" in result.stderr
    assert json.loads(result.stdout)["files"][1] == {"path": "new.toml", "written": False}
    spec = Path("new.toml").read_text().replace("[features]", "[features]\nother = { type = 'int' }")
    Path("new.toml").write_text(spec)
    assert (
        "note: new.toml was there and is kept: no draft is written, though it does not fit the log: "
        "new.csv:1: column 'other': the header lacks this column (add it with the value that these rows were measured "
        'with, or say column = "..." in the spec); remove it for a draft\n'
    ) in run("import", "dejavu", *words).stderr
    words = (*words[:4], "/dev/null", *words[5:])  # a device holds nothing that anybody has confirmed
    assert "is kept" not in run("import", "dejavu", *words).stderr
