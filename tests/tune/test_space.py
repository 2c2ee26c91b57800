from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import SpecError
from heurgen.tune.protocol import Space
from heurgen.tune.space import checked, config_key, enumerate_configs, read_space

TOML = """
limit = 0
constraints = ["BLOCK_M * BLOCK_N <= 2048", "BLOCK_M <= max_q", "waves_per_eu < 2 or BLOCK_M == 16"]
[parameters]
BLOCK_M = [16, 64]
BLOCK_N = [32, 64]
variant = ["2d", "3d"]
waves_per_eu = { values = [1, 2], vendors = ["amd"] }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(text)
    return path


def test_product_constraints_and_vendors(tmp_path: Path) -> None:
    space = read_space(written(tmp_path, TOML))
    nvidia = enumerate_configs(space, "nvidia", ["max_q"])
    assert nvidia.parameters == ("BLOCK_M", "BLOCK_N", "variant", "waves_per_eu")
    assert [tuple(c.values()) for c in nvidia.configs] == [
        (16, 32, "2d"),
        (16, 32, "3d"),
        (16, 64, "2d"),
        (16, 64, "3d"),
        (64, 32, "2d"),
        (64, 32, "3d"),
    ]
    assert [nvidia.applies(c, {"max_q": 16}) for c in nvidia.configs] == [True] * 4 + [False] * 2
    amd = enumerate_configs(space, "amd", ["max_q"])
    assert len(amd.configs) == 4 * 2 + 2


def test_limit_takes_the_same_spread_whatever_the_order() -> None:
    space = Space({"A": tuple(range(30)), "B": (1, 2, 3)}, limit=20)
    turned = Space({"A": tuple(reversed(range(30))), "B": (3, 1, 2)}, limit=20)
    first, second = (enumerate_configs(s, "nvidia", []).configs for s in (space, turned))
    assert len(first) == 20
    assert {tuple(c.values()) for c in first} == {tuple(c.values()) for c in second}
    assert len({c["A"] for c in first}) > 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "unknown key 'x' (expected parameters, constraints, limit)"),
        ("limit = 3", "expected a table [parameters]"),
        (
            '[parameters]\nA = { values = [1], vendors = "amd" }',
            "column 'A': expected a list of vendors, found 'amd' (write ['amd'])",
        ),
        (
            "[parameters]\nA = { values = [1], vendors = 5 }",
            "column 'A': expected a list of vendors, found '5'",
        ),
        (
            "[parameters]\nA = { values = [1], vendors = [] }",
            "column 'A': expected a list of vendors, found '[]'",
        ),
        (
            f"[parameters]\nA = [{10**400}]",
            f"column 'A': '{'1' + '0' * 56}...' is beyond 2**53: a log's reader takes floats",
        ),
        ("[parameters]\nA = 3", "column 'A': expected a list of values, found '3'"),
        ("[parameters]\nA = []", "column 'A': a parameter needs at least one value"),
        ("[parameters]\nA = [1, 'x']", "column 'A': values of one parameter must have one type"),
        ("[parameters]\nA = [1, 1]", "column 'A': a value is listed twice"),
        ("[parameters]\nA = [nan]", "column 'A': 'nan' is no int, finite float, bool or text"),
        ('[parameters]\nA = ["a\\nb"]', "column 'A': 'a\\nb' cannot stand in a log"),
        ("[parameters]\nclass = [1]", "parameter name 'class' is a Python keyword"),
        ("[parameters]\nselect = [1]", "the name 'select' is reserved for generated code"),
        ("limit = -1\n[parameters]\nA = [1]", "limit must be a number of configs, found '-1'"),
        (
            "[parameters]\nA = { values = [1], unit = 'x' }",
            "column 'A': expected { values = [...], vendors = [...] }",
        ),
        (
            "constraints = 'A < 2'\n[parameters]\nA = [1]",
            "constraints must be a list of texts, found 'A < 2'",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        checked(read_space(path))
    assert str(caught.value).removeprefix(f"{path}: ") == message


def test_no_toml(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot be read|is no"):
        read_space(written(tmp_path, "a = = 3"))
    with pytest.raises(SpecError, match=r"cannot be read|is no"):
        read_space(tmp_path / "none.toml")
    for text in (f"limit = {'9' * 5000}", f"limit = {'[' * 5000}"):
        with pytest.raises(SpecError, match=r"cannot be read|is no"):
            read_space(written(tmp_path, text))


def test_unknown_name_in_a_constraint() -> None:
    with pytest.raises(SpecError) as caught:
        enumerate_configs(Space({"A": (1,)}, constraints=["A < b"]), "nvidia", ["c"])
    assert (
        str(caught.value) == "the constraint 'A < b' reads 'b' (which is neither a parameter nor a feature)"
    )


def test_nothing_left_and_far_too_much() -> None:
    with pytest.raises(SpecError, match="holds no config for nvidia"):
        enumerate_configs(Space({"A": (1,)}, constraints=["A > 1"]), "nvidia", [])
    with pytest.raises(SpecError, match="has 8000000 combinations, expected at most 5000000"):
        enumerate_configs(Space({k: tuple(range(200)) for k in "ABC"}), "nvidia", [])


def test_a_parameter_left_out_is_one_that_does_not_apply() -> None:
    assert config_key({"B": 16, "waves": None}) == config_key({"B": 16}) != config_key({"B": 16, "waves": 0})


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"A": 4}), "column 'A': expected a list of values, found '4'"),  # type: ignore[dict-item]
        (Space({"A": "ab"}), "column 'A': expected a list of values, found 'ab'"),
        (Space([("A", (1,))]), "the space has no parameters"),  # type: ignore[arg-type]
        (Space({"A": (1,)}, constraints="A > 0"), "constraints must be a list of texts, found 'A > 0'"),
        (Space({"A": (1,)}, limit=-1), "limit must be a number of configs, found '-1'"),
    ],
)
def test_a_space_of_a_tunable_is_checked_as_one_of_a_file(space: Space, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        checked(space)
    assert str(caught.value) == message


def test_numbers_of_a_parameter_are_of_one_kind() -> None:
    """Its column in the log is read as floats: a selector answers 1.0, and `advise` writes that into a workload."""
    found = enumerate_configs(Space({"A": (0.5, 1, None), "B": (1, 2)}), "nvidia", [])
    assert [(repr(c["A"]), repr(c["B"])) for c in found.configs[2:4]] == [("1.0", "1"), ("1.0", "2")]
    assert config_key({"A": 1.0, "B": 2}) == config_key({"A": 1, "B": 2.0}) == '{"A":1,"B":2}'
    assert config_key({"A": 0.5, "B": True}) == '{"A":0.5,"B":true}'
