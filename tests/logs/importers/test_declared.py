"""The table [heuristic.dejavu] of a project file: what it says, and what it makes of caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heurgen.base.errors import SpecError, UsageError
from heurgen.base.toml import Table
from heurgen.logs.importers.declared import Declared, import_declared, read_declared
from tests.logs.importers.test_dejavu import cache


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpu_AMD_X" / "cache.json"
    path.parent.mkdir()
    path.write_text(json.dumps(cache()))
    return path


def test_renamed_dropped_and_completed(file: Path) -> None:
    table = {
        "vendor": "amd",
        "device": "Y",
        "rename": {"BLOCK_N": "TILE_SIZE", "MAX_SEQ_Q": "max_seqlen_q"},
        "constants": {"variant": "q_block", "num_segments": 1},
        "drop": [{"TILE_SIZE": 64, "num_warps": 4}],
    }
    imported = import_declared([file], read_declared(Table(table)))
    assert imported.csv_text() == (
        "vendor,device,max_seqlen_q,CAUSAL,scale,TILE_SIZE,num_warps,num_stages,status,time_ms,variant,num_segments\n"
        "amd,Y,16,True,0.5,32,4,2,ok,0.25,q_block,1\n"
    )
    assert imported.notes[-1] == "dropped as declared: 1 winner with TILE_SIZE 64, num_warps 4"


def test_an_empty_table_changes_nothing(file: Path) -> None:
    assert read_declared(Table({})) == Declared(rename={}, constants={})
    assert len(import_declared([file], Declared()).rows) == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"spec": "x"}, "column 'spec': unknown key 'spec' (known: device, vendor, rename, constants, drop)"),
        ({"renames": {}}, "column 'renames': unknown key 'renames' (did you mean 'rename'?)"),
        ({"vendor": 3}, "column 'vendor': found 3, expected a string"),
        ({"rename": ["a"]}, "column 'rename': found ['a'], expected a table"),
        ({"constants": {"a": 0.5}}, "column 'constants.a': found 0.5, expected a string or a whole number"),
        ({"drop": {"a": 1}}, "column 'drop': found {'a': 1}, expected [[drop]] tables"),
        ({"drop": [{}]}, "column 'drop': found [{}], expected tables with column = value"),
        ({"drop": [{"a": True}]}, "column 'drop 1.a': found True, expected a string or a whole number"),
    ],
)
def test_bad_tables(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_declared(Table(table))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (Declared(drop=({"BLOCK_N": "16"},)), "no winner has BLOCK_N 16 (mend drop in the project file)"),
        (
            Declared(drop=({"num_warps": "4"},)),
            "every winner has num_warps 4 (mend drop in the project file)",
        ),
        (
            Declared(drop=({"BLOCK": "16"},)),
            "no column 'BLOCK' to drop winners by (columns: vendor, device, MAX_SEQ_Q, CAUSAL, scale, BLOCK_N, "
            "num_warps, num_stages, status, time_ms)",
        ),
        (
            Declared(constants={"BLOCK_N": "16"}),
            "the caches have a column 'BLOCK_N': it is no constant to add",
        ),
    ],
)
def test_what_does_not_fit_the_caches(file: Path, declared: Declared, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        import_declared([file], declared)
    assert str(caught.value) == message
