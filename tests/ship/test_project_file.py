"""What a project file may say."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from heurgen.base.errors import SpecError
from heurgen.ship.project_file import read_project
from heurgen.trees import FitOptions
from tests.ship.test_project import PROJECT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": has no [[heuristic]]"),
        ("x = 1\n", ":1: column 'x': unknown key 'x' (known: heuristic)"),
        ("heuristic = [1]\n", ":1: column 'heuristic': found [1], expected [[heuristic]] tables"),
        ("[heuristic]\nlogs = []\n", ":1: column 'heuristic': found {'logs': []}, expected [[heuristic]]"),
        ("[[heuristic]]\n", ":1: column 'heuristic 1.logs': is missing, expected a list of paths"),
        (PROJECT.replace('"kernel.toml"', "3"), ":3: column 'heuristic 1.spec': found 3, expected a path"),
        (PROJECT + "colour = 1\n", ":8: column 'heuristic 1.colour': unknown key 'colour'"),
        (
            PROJECT + "card = []\n",
            ":8: column 'heuristic 1.card': unknown key 'card' (did you mean 'cards'?)",
        ),
        (PROJECT + "cards = 3\n", ":8: column 'heuristic 1.cards': found 3, expected a list of paths"),
        (
            PROJECT + 'external = "no"\n',
            ":8: column 'heuristic 1.external': found 'no', expected true or false",
        ),
        (PROJECT + "note = 3\n", ":8: column 'heuristic 1.note': found 3, expected a line of text"),
        (PROJECT + "dejavu = 3\n", ":8: column 'heuristic 1.dejavu': found 3, expected a table"),
        (
            PROJECT + "[heuristic.dejavu]\nrenames = {}\n",
            ":9: column 'heuristic 1.dejavu.renames': unknown key 'renames' (did you mean 'rename'?)",
        ),
        (
            PROJECT.replace("= 3", '= "3"'),
            ":7: column 'heuristic 1.max_depth': found '3', expected a whole number",
        ),
        (
            PROJECT.replace('"joint"', '"optimal"') + "tail = 1.5\n",
            ":8: column 'heuristic 1.tail': the strategy 'optimal' knows no tail, found '1.5' (leave it out, or "
            "take strategy auto or joint)",
        ),
        (
            PROJECT + 'tail = "1"\n',
            ":8: column 'heuristic 1.tail': found '1', expected a finite number",
        ),
        (
            PROJECT.replace("= 3", "= 0"),
            ":7: column 'heuristic 1.max_depth': max_depth must be a whole number from 1 to 16, found '0'",
        ),
        (
            PROJECT.replace('"joint"', '"best"'),
            ":6: column 'heuristic 1.strategy': unknown strategy 'best' (one of auto, joint, per-parameter, optimal)",
        ),
        (PROJECT.replace("= 3", "= 1" + "0" * 5000), ": this is no TOML"),
        ("x = " + "[" * 2000, ": this is no TOML"),
        (PROJECT.replace("out/module.py", "./log.csv"), ": {folder}/log.csv: is an input ({folder}/log.csv)"),
        (PROJECT.replace("out/model.json", "heurgen.toml"), ": {folder}/heurgen.toml: is an input"),
        (PROJECT.replace("out/model.json", "kernel.toml"), ": {folder}/kernel.toml: is an input"),
        (
            PROJECT.replace("out/module.py", "out/model.json"),
            ": {folder}/out/model.json: two outputs are the same file",
        ),
        (
            PROJECT.replace("out/model.json", "/"),
            ": /: cannot write: Is a directory (the path is a folder, name a file in it)",
        ),
        (
            PROJECT.replace("out/model.json", "/dev/zero"),
            ":4: column 'heuristic 1.model': found '/dev/zero', expected a file, no device or pipe",
        ),
        (
            PROJECT.replace("out/module.py", "/dev/stdout"),
            ":5: column 'heuristic 1.module': found '/dev/stdout', expected a file, no device or pipe",
        ),
        (
            PROJECT.replace("out/module.py", "out/lambda.py"),
            ":5: column 'heuristic 1.module': no program can import a module of this name: 'lambda' is a Python "
            "keyword",
        ),
        ("[[heuristic]\n", ":1: this is no TOML"),
        (
            PROJECT + 'target = "c"\n',
            ":8: column 'heuristic 1.target': found 'c', expected \"python\" or \"triton\"",
        ),
        (
            PROJECT + 'vendor = "nvidia"\n',
            ":8: column 'heuristic 1.vendor': found 'nvidia', expected none without target = \"triton\"",
        ),
        (
            PROJECT + 'target = "triton"\n',
            ":1: column 'heuristic 1.vendor': is missing, expected the vendor of",
        ),
        (
            PROJECT + 'target = "triton"\nvendor = "nvidia"\nparameters = "x"\n',
            ":10: column 'heuristic 1.parameters': found 'x', expected a list of parameters",
        ),
    ],
)
def test_bad_project_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "heurgen.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_project(path)
    assert str(caught.value).startswith(f"{path}{message.replace('{folder}', str(tmp_path))}")


def test_every_option_of_train_is_a_key_of_project_files(tmp_path: Path) -> None:
    given = {"max_leaves": 9, "max_configs": 5, "prefer": "small", "tail": 0.5, "shortlist": 2}
    text = PROJECT + "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())
    (tmp_path / "heurgen.toml").write_text(text)
    (read,) = read_project(tmp_path / "heurgen.toml")
    assert read.options == {"strategy": "joint", "max_depth": 3} | given
    assert set(read.options) == {field.name for field in fields(FitOptions)}
