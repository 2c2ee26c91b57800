"""What the columns of a log are, by their names and by what varies."""

from __future__ import annotations

import json

import pytest

from heurgen.logs.cells import parse_cells
from heurgen.logs.roles import guesses_of
from heurgen.spec.log_columns import LogColumns


def roles(text: str) -> dict[str, str]:
    return {name: guess.role for name, guess in guesses_of(parse_cells([("t", text)]), LogColumns()).items()}


def test_names_speak_before_the_data() -> None:
    found = roles("M,BLOCK_M,tflops,torch,time_ms\n1,16,5,2.1,1\n1,32,6,2.1,2\n")
    assert found == {"M": "feature", "BLOCK_M": "parameter", "tflops": "none", "torch": "none"}


def test_what_varies_inside_a_scenario_is_a_parameter() -> None:
    found = roles("scenario,alpha,beta,gamma,time_ms\ns,1,1,0.1,1\ns,1,2,0.2,2\nt,3,1,0.3,1\nt,3,2,0.4,2\n")
    assert found == {"alpha": "feature", "beta": "parameter", "gamma": "none"}


@pytest.mark.parametrize(
    ("column", "role"), [("a b", "feature"), ("a\x1bb", "none"), ("alpha", "feature"), ("note", "none")]
)
def test_columns_of_one_value(column: str, role: str) -> None:
    assert roles(f"M,BLOCK_M,{column},time_ms\n1,16,x,1\n2,32,x,2\n")[column] == role


def test_without_scenarios_the_other_inputs_stand_for_them() -> None:
    rows = [f"{m},{a},{b},{0.1 * m + a}\n" for m in (1, 2) for a in (3, 4) for b in (a * 2,)]
    assert roles("M,alpha,beta,time_ms\n" + "".join(rows)) == {
        "M": "feature",
        "alpha": "feature",
        "beta": "feature",
    }
    rows = [f"{m},{a},{0.1 * m + a}\n" for m in (1, 2) for a in (3, 4)]
    assert roles("M,alpha,time_ms\n" + "".join(rows)) == {"M": "feature", "alpha": "parameter"}


def test_the_object_that_a_key_lies_in_tells_its_role() -> None:
    lines = [
        json.dumps(
            {
                "problem": {"a": a},
                "config": {"b": b, "M": b},
                "result": {"c": a * b, "d": 1},
                "time_ms": a + b,
            }
        )
        for a in (1, 2)
        for b in (3, 4)
    ]
    assert roles("\n".join(lines)) == {
        "problem.a": "feature",
        "config.b": "parameter",
        "config.M": "parameter",
        "result.c": "none",
        "result.d": "none",
    }
