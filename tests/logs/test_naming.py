"""Names for columns that generated code cannot name."""

from __future__ import annotations

import pytest

from heurgen.logs.naming import names_for, parents, plain, spellings, unit_in


@pytest.mark.parametrize(
    ("column", "name", "unit", "objects"),
    [
        ("M", "M", "", []),
        ("Seq length (tokens)", "Seq_length", "tokens", []),
        ("Latency [µs]", "Latency", "µs", []),
        ("problem.M", "M", "", ["problem"]),
        ("run.Config.block_sizes.0", "block_sizes_0", "", ["run", "config", "block_sizes"]),
        ("params_BLOCK_M", "BLOCK_M", "", ["params"]),
        ("user_attrs_M", "M", "", ["user_attrs"]),
        ("system_attrs_tpe:x:0", "tpe_x_0", "", ["system_attrs"]),
        ("params_", "params", "", []),
        ("Länge", "Lange", "", []),
        ("1.5x", "1_5x", "", []),
        ("a. b", "a_b", "", []),
        ("块", "块", "", []),
        ("(x)", "x", "x", []),
    ],
)
def test_what_a_name_says(column: str, name: str, unit: str, objects: list[str]) -> None:
    assert (plain(column), unit_in(column), parents(column)) == (name, unit, objects)


def test_spellings_are_the_name_with_its_objects_and_alone() -> None:
    assert spellings("GPU.Name") == ["gpu.name", "gpu_name", "name"]


def test_names_are_usable_and_no_other_columns() -> None:
    columns = ["M", "problem.M", "result.M", "lambda", "块", "размер", "x y", "x-y"]
    assert names_for(columns, columns) == {
        "M": "M",
        "problem.M": "problem_M",
        "result.M": "result_M",
        "lambda": "lambda_",
        "块": "f",
        "размер": "f_2",
        "x y": "x_y",
        "x-y": "x_y_2",
    }


def test_a_name_that_differs_from_another_by_its_case_alone_says_more() -> None:
    columns = ["user_attrs_k", "params_k", "params_lambda"]
    assert names_for(columns, columns) == {
        "user_attrs_k": "k",
        "params_k": "params_k",
        "params_lambda": "lambda_",
    }
    columns = ["problem.shape.m", "config.BLOCK.M", "a.config.BLOCK.M", "Size (rows)", "size"]
    assert names_for(columns, columns) == {
        "problem.shape.m": "m",
        "config.BLOCK.M": "BLOCK_M",
        "a.config.BLOCK.M": "a_config_BLOCK_M",
        "Size (rows)": "Size_rows",
        "size": "size",
    }
