"""Tables that are laid out otherwise: constant columns, and a column a config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heurgen.base.errors import HeurgenError
from heurgen.logs.tuning_log import TuningLog, read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.logs.tables import HEADER, ROWS, csv_text, spec
from tests.spec.examples import spec_to_toml
from tests.support.drafts import draft_spec


def test_constants(tmp_path: Path, plain: TuningLog) -> None:
    rows = [r[2:] for r in ROWS]
    (tmp_path / "bare.csv").write_text(csv_text(header=HEADER[2:], rows=rows))
    log = read_logs(
        [tmp_path / "bare.csv"], spec('vendor = { const = "nvidia" }\ndevice = { const = "H200" }')
    )
    assert log.content_hash == plain.content_hash


def test_vendors_that_the_names_of_devices_tell(tmp_path: Path) -> None:
    """A log of several vendors without a column of them, which `init` drafts so."""
    place = HEADER.index("device")
    names = ["AMD Instinct MI300X", "NVIDIA H200"]
    rows = [[*r[:place], names[i % 2], *r[place + 1 :]] for i, r in enumerate(ROWS)]
    said = [["amd" if r[place].startswith("AMD") else "nvidia", *r[1:]] for r in rows]
    (tmp_path / "said.csv").write_text(csv_text(rows=said))
    (tmp_path / "bare.csv").write_text(csv_text(header=HEADER[1:], rows=[r[1:] for r in rows]))
    by_name = spec('vendor = { from = "device" }')
    found = read_logs([tmp_path / "bare.csv"], by_name)
    assert found.content_hash == read_logs([tmp_path / "said.csv"], spec("")).content_hash
    assert 'vendor = { from = "device" }  # guess' in draft_spec(tmp_path / "bare.csv")
    rows[2][place] = "the new one"
    (tmp_path / "bare.csv").write_text(csv_text(header=HEADER[1:], rows=[r[1:] for r in rows]))
    with pytest.raises(HeurgenError) as error:
        read_logs([tmp_path / "bare.csv"], by_name)
    assert str(error.value) == (
        f"{tmp_path}/bare.csv:4: column 'device': found 'the new one', which tells no vendor "
        '(add a column of vendors, or write vendor = { const = "nvidia" } in [log])'
    )


WIDE = """
[log.wide]
"16x" = { BM = 16, fast = true }
"32x" = { BM = 32, fast = false }
"""


def test_wide_tables(tmp_path: Path, plain: TuningLog) -> None:
    header = [*HEADER[:5], "16x", "32x"]
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:5], "1.5", "1"], [*ROWS[2][:5], "OOM", "0.25"]])
    )
    log = read_logs([tmp_path / "wide.csv"], spec('failures = ["OOM"]' + WIDE))
    assert log.content_hash == plain.content_hash
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:5], "1.5", ""], [*ROWS[2][:5], "", "x"]])
    )
    with pytest.raises(HeurgenError) as error:
        read_logs([tmp_path / "wide.csv"], spec(WIDE))
    assert str(error.value) == (
        f"{tmp_path}/wide.csv:3: column '32x': found 'x', expected a finite time above 0 (a failure has a blank time; "
        'or name it in [log]: failures = ["x"])'
    )


def test_blank_cells_of_a_wide_table_were_not_measured(tmp_path: Path) -> None:
    header = [*HEADER[:5], "16x", "32x"]
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:5], "1.5", ""], [*ROWS[2][:5], "2", "3"]])
    )
    assert read_logs([tmp_path / "wide.csv"], spec(WIDE)).n_measurements == 3


def test_a_bad_cell_of_another_column_has_its_own_name(tmp_path: Path) -> None:
    header = [*HEADER[:5], "16x", "32x"]
    (tmp_path / "wide.csv").write_text(
        csv_text(header=header, rows=[[*ROWS[0][:2], "x", *ROWS[0][3:5], "1", "2"]])
    )
    with pytest.raises(HeurgenError, match=r"wide.csv:2: column 'n': found 'x', expected a whole number"):
        read_logs([tmp_path / "wide.csv"], spec(WIDE))


@pytest.mark.parametrize(
    ("header", "cells", "message"),
    [
        (["16x"], ["1"], "FILE:1: column '32x': the header lacks this column of [log.wide]"),
        (["16x", "32x"], ["", ""], "FILE: every cell of the columns in [log.wide] is blank"),
        (
            ["16x", "32x", "BM"],
            ["1", "2", "3"],
            "FILE:1: the wide table has a column 'BM', which its config columns stand for (rename it, or name another "
            "with [log] time)",
        ),
    ],
)
def test_wide_tables_that_do_not_fit(
    tmp_path: Path, header: list[str], cells: list[str], message: str
) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(csv_text(header=[*HEADER[:5], *header], rows=[[*ROWS[0][:5], *cells]]))
    with pytest.raises(HeurgenError) as error:
        read_logs([path], spec(WIDE))
    assert str(error.value).replace(str(path), "FILE") == message


def test_columns_under_other_names(tmp_path: Path, plain: TuningLog) -> None:
    named = [{"n": "problem.n", "BM": "block m"}.get(h, h) for h in HEADER]
    (tmp_path / "named.csv").write_text(csv_text(header=named))
    kernel = spec("")
    columns = {"n": "problem.n", "BM": "block m"}
    kernel = replace(
        kernel,
        features=tuple(replace(f, column=columns.get(f.name, "")) for f in kernel.features),
        parameters=tuple(replace(p, column=columns.get(p.name, "")) for p in kernel.parameters),
    )
    log = read_logs([tmp_path / "named.csv"], kernel)
    assert log.content_hash == plain.content_hash
    assert not any("ignored" in note for note in log.notes)
    assert parse_spec(spec_to_toml(kernel)) == kernel
    (tmp_path / "both.csv").write_text(csv_text(header=[*named, "n"], rows=[[*r, "1"] for r in ROWS]))
    with pytest.raises(HeurgenError, match="the log has this column too, and the spec reads 'n' from "):
        read_logs([tmp_path / "both.csv"], kernel)
    (tmp_path / "none.csv").write_text(csv_text(header=[h.replace("problem.n", "m") for h in named]))
    with pytest.raises(HeurgenError, match=r"column 'problem.n': the header lacks this column"):
        read_logs([tmp_path / "none.csv"], kernel)
