"""The statements of a C++ function."""

from __future__ import annotations

import pytest

from heurgen import ir
from heurgen.ir import expr
from heurgen.render.cpp.body import _arithmetic, is_constexpr, lookups, refuses, write
from heurgen.render.cpp.text import identifier
from tests.render.examples import spellings

LEAF = ir.Leaf
FEATURES = (
    ir.Feature("n", "int"),
    ir.Feature("new", "float"),
    ir.Feature("flag", "bool"),
    ir.Feature("dtype", "category", values=("a", "b", "c")),
)
NAMES = {name: identifier(name) for name in ("n", "new", "flag", "dtype", "area", "rest")}
DERIVED = (ir.Derived("area", "n * new"), ir.Derived("rest", "n % 8"))


def module(tree: ir.Node, derived: tuple[ir.Derived, ...] = DERIVED) -> ir.HeuristicModule:
    parameters = (ir.Parameter("B", "int"), ir.Parameter("v", "category", optional=True))
    selector = ir.Selector("nvidia", ("B", "v"), ((16, "2d"), (2**40, None)), tree)
    return ir.HeuristicModule("k", FEATURES, parameters, (selector,), derived)


def lines_of(tree: ir.Node) -> list[str]:
    source = module(tree)
    return write(source, source.selectors[0], "Config", NAMES).text.split("\n")


SMALL, LARGE = (
    'return Config{16, ::std::string_view("2d", 2)};',
    "return Config{1099511627776LL, ::std::nullopt};",
)


@pytest.mark.parametrize(
    ("test", "written"),
    [
        (ir.Split("n", 8, LEAF(0), LEAF(1)), "n <= 8"),
        (ir.Split("new", 0.5, LEAF(0), LEAF(1)), "new_ <= 0.5"),
        (ir.Split("flag", 0, LEAF(0), LEAF(1)), "!flag"),
        (ir.Split("n", 2**63 - 2, LEAF(0), LEAF(1)), "n <= 9223372036854775806LL"),
        (ir.Split("n", -(2**63), LEAF(0), LEAF(1)), "n <= (-9223372036854775807LL - 1)"),
        (
            ir.Membership("dtype", ("a", "b"), ("c",), False, LEAF(0), LEAF(1)),
            'dtype == ::std::string_view("a", 1) || dtype == ::std::string_view("b", 1)',
        ),
        (
            ir.Membership("dtype", ("b", "c"), ("a",), True, LEAF(1), LEAF(0)),
            'dtype == ::std::string_view("a", 1)',
        ),
    ],
)
def test_a_test_is_an_if_with_an_early_return(test: ir.Node, written: str) -> None:
    assert lines_of(test) == [f"    if ({written}) {{", f"        {SMALL}", "    }", f"    {LARGE}"]


@pytest.mark.parametrize(
    ("threshold", "answer"), [(2**63 - 1, SMALL), (10**20, SMALL), (-(2**63) - 1, LARGE), (-(10**20), LARGE)]
)
def test_a_test_that_every_int64_answers_alike_is_left_out(threshold: int, answer: str) -> None:
    assert lines_of(ir.Split("n", threshold, LEAF(0), LEAF(1))) == [f"    {answer}"]


def test_what_only_such_a_test_leads_to_is_not_read() -> None:
    """`-Werror=unused-variable` and `-Werror=unused-parameter` refused the header."""
    source = module(ir.Split("n", 2**63, LEAF(0), ir.Split("rest", 4.0, LEAF(0), LEAF(1))))
    written = write(source, source.selectors[0], "Config", NAMES)
    assert (written.text, written.reads, written.is_constexpr) == (f"    {SMALL}", frozenset(), True)


def test_evidence_is_a_comment_and_nesting_is_indented() -> None:
    inner = ir.Split("flag", 0, LEAF(0, 3, 1.5), LEAF(1))
    assert lines_of(ir.Split("n", 8, inner, LEAF(0, 1))) == [
        "    if (n <= 8) {",
        "        if (!flag) {",
        f"            {SMALL}  // 3 scenarios, 1.50x",
        "        }",
        f"        {LARGE}",
        "    }",
        f"    {SMALL}  // 1 scenario",
    ]


def test_derived_features_that_are_tested_come_first() -> None:
    tree = ir.Split("area", 4.0, LEAF(0), LEAF(1))
    assert lines_of(tree)[:4] == [
        "#if defined(__clang__)",
        "#pragma clang fp contract(off)",
        "#endif",
        "    const double area = (static_cast<double>(n) * static_cast<double>(new_));",
    ]
    assert len(lines_of(tree)) == 8
    source = module(tree)
    written = write(source, source.selectors[0], "Config", NAMES)
    assert (written.reads, written.is_constexpr) == ({"n", "new"}, True)


@pytest.mark.parametrize("text", ["n % 8", "-(n // 8)", "min(1, n // 2)", "(n % 2) + 1", "1 - n % 3"])
def test_whole_division_is_no_constant_expression_where_it_is_tested(text: str) -> None:
    derived = (ir.Derived("rest", text), ir.Derived("area", "n * 2 / 3"))
    for name, constant in (("rest", False), ("area", True)):
        source = module(ir.Split(name, 1.0, LEAF(0), LEAF(1)), derived)
        assert is_constexpr(source, source.selectors[0]) == constant


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2.5", "2.5"),
        ("-n", "(-static_cast<double>(n))"),
        ("n + 1 - 2", "((static_cast<double>(n) + 1.0) - 2.0)"),
        ("n / 2", "detail::ratio(static_cast<double>(n), 2.0)"),
        ("n // 2", "detail::floor_div(static_cast<double>(n), 2.0)"),
        ("n % new", "detail::modulo(static_cast<double>(n), static_cast<double>(new_))"),
        ("min(1, 2, 3)", "detail::lesser(detail::lesser(1.0, 2.0), 3.0)"),
        ("max(n, 2)", "detail::greater(static_cast<double>(n), 2.0)"),
    ],
)
def test_arithmetic(text: str, written: str) -> None:
    assert _arithmetic(expr.parse(text), NAMES) == written


def test_spellings_and_refusals_come_before_any_test() -> None:
    source, names = spellings("error"), {n: identifier(n) for n in ("capability", "dtype", "layout")}
    assert refuses(source)
    assert not refuses(spellings())
    assert list(lookups(source, names)) == [
        '    if (dtype == ::std::string_view("torch.bfloat16", 14)) dtype = ::std::string_view("bfloat16", 8);',
        '    if (dtype == ::std::string_view("half", 4) || dtype == ::std::string_view("torch.float16", 13)) '
        'dtype = ::std::string_view("float16", 7);',
        '    if (!(dtype == ::std::string_view("bfloat16", 8) || dtype == ::std::string_view("float16", 7) || '
        'dtype == ::std::string_view("fp8", 3))) '
        "detail::refuse(\"unknown dtype, known: 'bfloat16', 'float16', 'fp8'\", dtype);",
        '    if (layout == ::std::string_view("it\'s \\"r\\"", 8)) layout = ::std::string_view("row", 3);',
    ]
    written = write(source, source.selectors[-1], "Config", names)
    assert written.reads == {"dtype", "layout"}
    empty = ir.HeuristicModule(
        "k", (ir.Feature("c", "category", unknown="error"),), source.parameters, (ir.Selector("amd", *ONE),)
    )
    assert list(lookups(empty, {"c": identifier("c")})) == ['    detail::refuse("unknown c, known: ", c);']


ONE = (("BLOCK_M", "num_warps"), ((16, 4),), ir.Leaf(0))
