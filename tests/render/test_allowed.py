"""The allow-list, fed with modules that somebody else wrote."""

from __future__ import annotations

import ast

import pytest
from hypothesis import HealthCheck, given, settings

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.render import allowed
from heurgen.render.python import render_python
from tests.render.examples import EXAMPLES, by_device
from tests.support.strategies import modules

TEXT = render_python(by_device())

STATEMENTS = [
    # One foreign value among allowed ones.
    "_CONFIG_9 = Config(BLOCK_M=16, BLOCK_N=canary())",
    "_CONFIG_9 = Config(BLOCK_M=canary(), BLOCK_N=16)",
    "_CONFIG_9 = Config(BLOCK_M=16, **{})",
    "_CONFIG_9 = Config(16, BLOCK_N=16)",
    'SELECTORS: dict = {"nvidia": select_nvidia, "amd": canary}',
    'SELECTORS: dict = {"nvidia": canary, "amd": select_nvidia}',
    'SELECTORS: dict = {"nvidia": select_nvidia, canary(): select_nvidia}',
    'DOMAIN: dict = {"a": 1, "b": [1, canary()]}',
    'DOMAIN: dict = {"a": 1, canary(): 2}',
    "DOMAIN: dict = (1, canary())",
    "import os",
    "import os as annotations",
    "from os import system",
    "from collections import namedtuple as x",
    "from collections import namedtuple, abc",
    "from .collections import namedtuple",
    "from collections import *",
    "canary()",
    "x = canary()",
    "x = 1",
    "x = y = Config()",
    "_CONFIG_9 = Config(**{})",
    "_CONFIG_9 = Config(*())",
    "_CONFIG_9 = Config(canary())",
    "_CONFIG_9 = Config(variant=canary())",
    "_CONFIG_9 = select_nvidia(num_seqs=1)",
    "_CONFIG_9 = Config.__init__(variant=1)",
    "x: int = canary()",
    "DOMAIN: int = {'x': canary()}",
    "DOMAIN: int = {'x': f'{canary()}'}",
    "DOMAIN: int = {**x}",
    "DOMAIN: int = [x for x in ()]",
    "DOMAIN: canary() = {}",
    "SELECTORS: dict = {'x': canary}",
    "SELECTORS: dict = {canary(): select_nvidia}",
    "SELECTORS: dict = canary()",
    "PROVENANCE: x = (lambda: 1)",
    "del Config",
    "assert canary()",
    "raise ValueError",
    "for x in (): pass",
    "while True: pass",
    "with canary(): pass",
    "try:\n    pass\nfinally:\n    pass",
    "if True:\n    pass",
    "global x",
    "async def f() -> int:\n    return 1",
    "class A(canary()):\n    'doc'\n    __slots__ = ()",
    "class A(namedtuple('A', canary())):\n    'doc'\n    __slots__ = ()",
    "class A(namedtuple('A', ('x',), module=canary())):\n    'doc'\n    __slots__ = ()",
    "class A(namedtuple('B', ('x',))):\n    'doc'\n    __slots__ = ()",
    "class A(namedtuple('A', ('x',)), metaclass=canary):\n    'doc'\n    __slots__ = ()",
    "@canary\nclass A(namedtuple('A', ('x',))):\n    'doc'\n    __slots__ = ()",
    "class A(namedtuple('A', ('x',))):\n    'doc'\n    __slots__ = (canary(),)",
    "class A(namedtuple('A', ('x',))):\n    'doc'\n    __slots__ = ()\n    x: int = canary()",
    "class A(namedtuple('A', ('x',))):\n    'doc'\n    __slots__ = ()\n    x: canary()",
    "class A(namedtuple('A', ('x',))):\n    'doc'\n    __slots__ = ()\n    def f(self): pass",
    "@canary\ndef f(x: int) -> int:\n    'doc'\n    return 1",
    "def f(x: int = canary()) -> int:\n    'doc'\n    return 1",
    "def f(x: int = 1) -> int:\n    'doc'\n    return 1",
    "def f(*x: int) -> int:\n    'doc'\n    return 1",
    "def f(**x: int) -> int:\n    'doc'\n    return 1",
    "def f(x: canary()) -> int:\n    'doc'\n    return 1",
    "def f(x) -> int:\n    'doc'\n    return 1",
    "def f(x: int, y) -> int:\n    'doc'\n    return 1",
    "def f(x: int, y: canary()) -> int:\n    'doc'\n    return 1",
    "def f(x: int):\n    'doc'\n    return 1",
    "def select(*, vendor: str, x: int) -> int:\n    'doc'\n    return canary()",
    "def f(x: int) -> int:\n    'doc'",
    "class A(namedtuple('A', ('x',))):\n    'doc'",
    "_SHORTLIST_9 = (_CONFIG_0, canary)",
    "_SHORTLIST_9 = (canary, _CONFIG_0)",
    "_SHORTLIST_9 = (canary(),)",
    "SHORTLIST_9 = (_CONFIG_0,)",
    "SELECTORS: canary() = {}",
    "select_nvidia.__defaults__: tuple = (1,)",
]
STEPS = [
    "return canary()",
    "return x",
    "return float",
    "return x.real",
    "return (canary(),)",
    "return",
    "return 1\n    return 2",
    "canary()\n    return 1",
    "if canary():\n        return 1\n    return 2",
    "if x <= 1 or canary():\n        return 1\n    return 2",
    "if canary() and x <= 1:\n        return 1\n    return 2",
    "if not canary():\n        return 1\n    return 2",
    "if x > 1:\n        return 1\n    return 2",
    "if x <= y:\n        return 1\n    return 2",
    "if 1 <= x <= 2:\n        return 1\n    return 2",
    "if x is None:\n        return 1\n    return 2",
    "if x <= canary():\n        return 1\n    return 2",
    "if x in (canary(),):\n        return 1\n    return 2",
    "if x <= 1:\n        return 1\n    else:\n        return 2",
    "if not not x:\n        return 1\n    return 2",
    "if SELECTORS:\n        return 1\n    return 2",
    "a = canary()\n    return 1",
    "a = float(canary)\n    return 1",
    "a = float(x, x)\n    return 1",
    "a = int(x)\n    return 1",
    "a = max(*x)\n    return 1",
    "a = max(float(x), key=1.0)\n    return 1",
    "a = float(x) ** 2.0\n    return 1",
    "a = 1.0 if x else 2.0\n    return 1",
    "a = x\n    return 1",
    "a = [1.0]\n    return 1",
    "a = b = 1.0\n    return 1",
    "x = 1.0\n    return 1",
    "_CONFIG_0 = 1.0\n    return _CONFIG_0",
    "a, b = 1.0, 2.0\n    return 1",
    "a: float = 1.0\n    return 1",
    "global SELECTORS\n    return 1",
    "a = yield\n    return 1",
    "(a := 1)\n    return 1",
    "if x <= 1:\n        return 1",
    "a = 1.0",
    "a = float(x) + canary\n    return 1",
    "a = canary + float(x)\n    return 1",
    "a = -canary\n    return 1",
    "a = min(float(x), canary())\n    return 1",
    "a = __term_1 * 2.0\n    __term_1 = float(x)\n    return 1",
    "a = float(x) / float(y) if canary else 0.0\n    return 1",
    "a = canary if float(y) else 0.0\n    return 1",
    "a = float(x) if float(y) else 1.0\n    return 1",
    "a = min(float(x))\n    return 1",
]
# Derived features as they are written, and what may be returned.
ALLOWED_STEPS = [
    "a = 1.5\n    return 1",
    "a = float(x) + 2.0\n    return 1",
    "a = -float(x) - 1.0\n    if a <= 2.5:\n        return 1\n    return 2",
    "a = min(float(x), float(y)) * 2.0\n    return 1",
    "a = max(float(x), float(y), 1.0) // 3.0 % 2.0\n    return 1",
    "a = float(x) / float(y) if float(y) else 0.0\n    return 1",
    "a = 1.0\n    b = float(y)\n    if not a <= 1.0 and b <= 2.0 or x:\n        return -1\n    return _CONFIG_0",
    "if x in (1, 2):\n        if y != 3:\n            return (1, 'a')\n        return None\n    return [1.5, {'k': 1}]",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_foreign_statement_is_refused(statement: str) -> None:
    allowed.parse(TEXT)
    with pytest.raises(EmitError, match="generated modules do not contain"):
        allowed.parse(f"{TEXT}{statement}\n")


@pytest.mark.parametrize("steps", STEPS)
def test_a_foreign_step_is_refused(steps: str) -> None:
    function = "def f(x: int, y: int) -> int:\n    'doc'\n    {}\n"
    allowed.parse(TEXT + function.format("if x <= 1:\n        return 1\n    return _CONFIG_0"))
    with pytest.raises(EmitError, match="generated modules do not contain"):
        allowed.parse(TEXT + function.format(steps))


@pytest.mark.parametrize("steps", ALLOWED_STEPS)
def test_what_we_write_is_allowed(steps: str) -> None:
    function = f"def f(x: int, y: int) -> int:\n    'doc'\n    {steps}\n"
    allowed.check(TEXT + function)
    assert allowed.is_tree(ast.parse(function).body[0]) == ("_CONFIG_0" not in steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement",
    [
        "_SHORTLIST_9 = (_CONFIG_0, _CONFIG_1)",
        "class A(namedtuple('A', ('x', 'y'))):\n    'doc'\n    __slots__ = ()",
        "class A(namedtuple('A', ('x', 'y'))):\n    'doc'\n    __slots__ = ()\n    x: int\n    y: int | None",
        "SELECTORS: dict[str, Callable[..., Config]] = {'x': select_nvidia}",
    ],
)
def test_a_statement_that_we_write_is_allowed(statement: str) -> None:
    allowed.check(f"{TEXT}{statement}\n")


@pytest.mark.parametrize("change", ["posonlyargs", "args", "vararg", "kwarg"])
def test_a_tree_of_select_with_other_arguments_is_refused(change: str) -> None:
    tree = ast.parse(TEXT)
    select = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "select")
    assert allowed._is_select(select)
    extra = ast.arg("extra", ast.Name("str", ast.Load()))
    setattr(select.args, change, extra if change in ("vararg", "kwarg") else [extra])
    assert not allowed._is_select(select)


def test_statements_are_what_follows_the_docstring() -> None:
    assert [ast.unparse(s) for s in allowed.statements("'doc'\nx = 1\ny = 2\n")] == ["x = 1", "y = 2"]
    assert allowed.statements("'doc'") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a generated module begins with a docstring"),
        ("x = 1", "a generated module begins with a docstring"),
        ("'a'\n'\xe9'", "the generated text holds characters outside printable ASCII"),
        ("'doc'\tx", "the generated text holds characters outside printable ASCII"),
        (
            "'doc'\nreturn 1",
            "the generated text does not compile: 'return' outside function (<generated>, line 2)",
        ),
    ],
)
def test_text_that_has_no_statements(text: str, message: str) -> None:
    with pytest.raises(EmitError) as caught:
        allowed.statements(text)
    assert caught.value.message == message


def test_a_target_allows_what_it_always_writes_and_what_it_says() -> None:
    def is_import(statement: ast.stmt) -> bool:
        return isinstance(statement, ast.Import)

    allowed.check_statements("'doc'\nimport os\nx   =  1\n", "x = 1\ny = 2", is_import)
    with pytest.raises(EmitError) as caught:
        allowed.check_statements("'doc'\nimport os\n\nx = 2\n", "x = 1", is_import)
    assert str(caught.value) == "line 4: generated modules do not contain 'x = 2'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", True), ("-1", True), ("-1.5", True), ("'a'", True), ("None", True), ("True", True), ("()", True),
        ("[1, ('a', {'k': None})]", True), ("b'a'", False), ("1j", False), ("-'a'", False), ("-x", False),
        ("+1", False), ("~1", False), ("...", False), ("x", False), ("(1, x)", False), ("{1: x}", False),
        ("{x: 1}", False), ("{**{}}", False), ("{1}", False), ("-True", False),
    ],
)  # fmt: skip
def test_literals(text: str, expected: bool) -> None:
    assert allowed.is_literal(ast.parse(text, mode="eval").body) is expected


def test_nothing_is_no_literal_and_a_decorated_function_is_no_tree() -> None:
    assert not allowed.is_literal(None)
    function = ast.parse("@f\ndef g(x: int) -> int:\n    'doc'\n    return 1").body[0]
    assert not allowed.is_tree(function)  # type: ignore[arg-type]


def test_text_that_nests_too_deeply_is_refused_in_one_sentence() -> None:
    deep = "'doc'\nDOMAIN: int = " + "-" * 5000 + "1"
    with pytest.raises(EmitError) as caught:
        allowed.parse(deep)
    assert "generated" in caught.value.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("choose = SELECTORS[vendor]", "choose = SELECTORS[device]"),
        ("choose = SELECTORS[vendor]", "choose = canary()"),
        ("(KeyError, TypeError)", "BaseException"),
        ("{vendor!r}", "{canary()}"),
        ("{vendor!r}", "{vendor:{device}}"),
        (".get((vendor, device), choose)", ".get((vendor, device), canary)"),
        ("return choose(num_seqs", "return choose(max_seqlen_q"),
        ("raise ValueError", "raise canary"),
        ("device: str | None = None", "device: str | None = canary()"),
    ],
)
def test_select_has_one_form(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(EmitError, match="generated modules do not contain"):
        allowed.parse(TEXT.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a generated module begins with a docstring"),
        ("x = 1", "a generated module begins with a docstring"),
        ("'\xe9'", "the generated text holds characters outside printable ASCII"),
        ("'doc'\r\n", "the generated text holds characters outside printable ASCII"),
        ("'doc'\t", "the generated text holds characters outside printable ASCII"),
        ("'doc", "the generated text is no Python module: unterminated string literal (detected at line 1)"),
        ("(" * 300, "the generated text is no Python module: too many nested parentheses"),
    ],
)
def test_text_that_is_no_module(text: str, message: str) -> None:
    with pytest.raises(EmitError) as caught:
        allowed.parse(text)
    assert caught.value.message.startswith(message)


def test_the_line_is_named() -> None:
    with pytest.raises(EmitError) as caught:
        allowed.parse("'doc'\nimport os\n")
    assert str(caught.value) == "line 2: generated modules do not contain 'import os'"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_pass(name: str) -> None:
    allowed.check(render_python(EXAMPLES[name]()))


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(modules())
def test_whatever_is_rendered_passes(module: ir.HeuristicModule) -> None:
    allowed.check(render_python(module))


def changed_select(old: str, new: str) -> bool:
    """Whether `select` passes with a part of its source (as `ast.unparse` writes it) replaced."""
    select = next(s for s in ast.parse(TEXT).body if isinstance(s, ast.FunctionDef) and s.name == "select")
    source = ast.unparse(select)
    assert old in source
    changed = ast.parse(source.replace(old, new, 1)).body[0]
    assert isinstance(changed, ast.FunctionDef)
    return allowed._is_select(changed)


@pytest.mark.parametrize("extra", ["else", "finally", "except KeyError"])
def test_nothing_runs_beside_the_look_up(extra: str) -> None:
    assert changed_select("    if device", "    if device")
    assert not changed_select("    if device", f"    {extra}:\n        canary()\n    if device")


@pytest.mark.parametrize("message", ["canary()", "vendor", "f'{vendor!r}'", "f'a {vendor} b {canary()}'"])
def test_the_complaint_is_a_sentence_about_the_vendor(message: str) -> None:
    source = ast.unparse(next(n for n in ast.walk(ast.parse(TEXT)) if isinstance(n, ast.JoinedStr)))
    assert not changed_select(source, message)


def test_text_that_parses_and_does_not_compile_or_nests_too_deeply() -> None:
    twice = "def f(x: int, x: int) -> int:\n    'doc'\n    return 1\n"
    line = TEXT.count("\n") + 1
    with pytest.raises(EmitError) as caught:
        allowed.check(TEXT + twice)
    assert caught.value.message == (
        "the generated text does not compile: duplicate argument 'x' in function definition "
        f"(<generated>, line {line})"
    )
    long = "def f(x: int) -> int:\n    'doc'\n    a = " + " + ".join(["float(x)"] * 1200) + "\n    return 1\n"
    with pytest.raises(EmitError) as caught:
        allowed.check(TEXT + long)
    assert caught.value.message == "the generated text nests too deeply"
