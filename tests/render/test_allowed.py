"""The allow-list, fed with modules that somebody else wrote."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from heurgen import ir
from heurgen.errors import EmitError
from heurgen.render import allowed
from heurgen.render.python import render_python
from tests.render.examples import EXAMPLES, by_device
from tests.strategies import modules

TEXT = render_python(by_device())

STATEMENTS = [
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
    "def select(*, vendor: str, x: int) -> int:\n    'doc'\n    return canary()",
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
