"""Parts that derived features share are computed once, and mean the same."""

import pytest

from heurgen.ir import expr
from heurgen.render.terms import assignments

ROUNDS = "(M // -64) * (N // -128) // -P"
DERIVED = {
    "first": f"3 * ({ROUNDS}) / max({ROUNDS}, M / N)",
    "second": f"7 * ({ROUNDS}) / max({ROUNDS}, M / N)",
    "plain": "M * N",
}


def values(row: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """What the assignments compute, as a generated function does."""
    found = assignments({name: expr.parse(DERIVED[name]) for name in names})
    scope = dict(row)
    for name in names:
        for local, text in found[name]:
            scope[local] = eval(text, {"__builtins__": {}, "float": float, "max": max}, scope)
    return {name: scope[name] for name in names}


@pytest.mark.parametrize(
    "row", [{"M": 100, "N": 700, "P": 3}, {"M": 100, "N": 700, "P": 0}, {"M": 0, "N": 0, "P": 2}]
)
@pytest.mark.parametrize("names", [("first", "second", "plain"), ("second", "first"), ("first",)])
def test_locals_compute_what_the_expressions_say(row: dict[str, float], names: tuple[str, ...]) -> None:
    assert values(row, names) == {name: expr.evaluate(expr.parse(DERIVED[name]), row) for name in names}


def test_what_is_shared_is_written_once() -> None:
    found = assignments({name: expr.parse(text) for name, text in DERIVED.items()})
    text = "\n".join(f"{name} = {code}" for name, code in dict(sum(found.values(), ())).items())
    assert text.count("// (-64.0)") == 1
    assert text.count("max(") == 1
    assert found["plain"] == (
        ("__float_N", "float(N)"),
        ("__float_M", "float(M)"),
        ("plain", "__float_M * __float_N"),
    )


def test_arithmetic_that_is_written_once_stays_where_it_is() -> None:
    (steps,) = assignments({"d": expr.parse("a / b + a / c")}).values()
    assert not any(name.startswith("__term_") for name, _ in steps)


def test_parts_are_shared_without_a_division_too() -> None:
    found = assignments({"d": expr.parse("a * b + 1"), "e": expr.parse("min(a * b, c)")})
    assert found == {
        "d": (("__term_1", "float(a) * float(b)"), ("d", "__term_1 + 1.0")),
        "e": (("__term_1", "float(a) * float(b)"), ("e", "min(__term_1, float(c))")),
    }


def test_a_feature_that_is_read_once_is_no_local() -> None:
    found = assignments({"d": expr.parse("a * b + a"), "e": expr.parse("c + 1")})
    assert found == {
        "d": (("__float_a", "float(a)"), ("d", "(__float_a * float(b)) + __float_a")),
        "e": (("e", "float(c) + 1.0"),),
    }


def test_a_divisor_counts_twice() -> None:
    assert assignments({"d": expr.parse("a / b")}) == {
        "d": (("__float_b", "float(b)"), ("d", "float(a) / __float_b if __float_b else 0.0"))
    }
