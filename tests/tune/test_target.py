from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from heurgen.base.errors import UsageError
from heurgen.tune.protocol import DeviceInfo, Scenario, Space
from heurgen.tune.target import MAX_REASON, Target, bounded, checked_tunable, first_line, load_target
from tests.tune.fakes import DEVICE, tunable

SOUND: dict[str, Any] = {
    "name": "x",
    "features": {"M": "int", "flag": "bool", "x": "float"},
    "space": Space({"A": (1,)}),
    "workload": {},
    "inputs": None,
    "launch": None,
    "reference": None,
}


def test_load() -> None:
    target = load_target("tests.tune.fakes:tunable")
    assert target.tunable.name == tunable.name
    assert target.file is not None
    assert target.file.endswith("fakes.py")


EXPECTED = "expected package.module:name, or of the bundled kernels paged_attention or static_grid"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("matmul", f"'matmul' is no target ({EXPECTED})"),
        ("a/b.py:x", f"'a/b.py:x' is no target ({EXPECTED})"),
        ("os:system('x')", f"'os:system(\\'x\\')' is no target ({EXPECTED})"),
        (
            "no_such_module:x",
            "cannot load 'no_such_module:x': ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            "math:tunable",
            "cannot load 'math:tunable': AttributeError: module 'math' has no attribute 'tunable'",
        ),
        (
            "math:sin",
            "'math:sin' is no tunable: it has no name (the protocol is described in heurgen.tune.protocol)",
        ),
    ],
)
def test_bad_targets(path: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_target(path)
    assert str(caught.value).replace('"', "'") == message.replace("\\'", "'")


def test_modules_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_of_test_target.py").write_text("raise ImportError('x\\ny', name='torch')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with pytest.raises(UsageError) as caught:
        load_target("mine_of_test_target:tunable")
    assert str(caught.value) == (
        "cannot load 'mine_of_test_target:tunable': ImportError: x (pip install 'heurgen[kernels]')"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        (
            "class T:\n @property\n def name(self): raise ValueError('late')\ntunable = T()",
            "ValueError: late",
        ),
    ],
)
def test_a_module_that_ends_the_program_or_fails_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "ends_of_test_target.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ends_of_test_target", raising=False)
    with pytest.raises(UsageError) as caught:
        load_target("ends_of_test_target:tunable")
    assert str(caught.value) == f"cannot load 'ends_of_test_target:tunable': {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {}}, "the features of 'p' must be a mapping of names to types"),
        ({"features": {"M": "integer"}}, "feature 'M' has type 'integer' (int, float, bool, category)"),
        ({"features": {"a b": "int"}}, "feature name 'a b' is not an ASCII identifier"),
        ({"name": 3}, "kernel name '3' is not an ASCII identifier"),
        ({"space": {}}, "'p' needs a heurgen.tune.protocol.Space and a mapping as workload"),
    ],
)
def test_unsound_tunables(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_tunable(SimpleNamespace(**{**SOUND, **change}), "p")
    assert str(caught.value) == message


def test_defaults() -> None:
    target = Target("p", SimpleNamespace(**SOUND))

    def of(m: int) -> str:
        return target.scenario_class(Scenario("s", {"M": m, "flag": True, "x": 0.5}))

    assert of(1) != of(2) == of(3) != of(16) == of(64)
    assert target.work(Scenario("s", {"M": -6, "flag": True, "x": 0.5})) == 6.0
    assert target.applies({}, Scenario("s", {}))
    assert target.fits({}, Scenario("s", {}), DEVICE) is None
    config = {"A": 1}
    assert target.launched(config, Scenario("s", {}), DEVICE) is config
    with pytest.raises(UsageError, match="has no file to hash"):
        target.source_hash()


def test_a_tunable_that_changes_the_config_it_is_asked_about_changes_no_row_of_the_log() -> None:
    """`config["warps"] = ...; return config` wrote the settings over the space's config, and into all its rows."""

    class Changing(SimpleNamespace):
        def launched(self, config: Any, scenario: Scenario, device: DeviceInfo) -> Any:
            config["A"] = 16
            return config

        def applies(self, config: Any, scenario: Scenario) -> bool:
            return bool(config.pop("A"))

        def fits(self, config: Any, scenario: Scenario, device: DeviceInfo) -> None:
            config.clear()

    target, scenario = Target("x:y", Changing(**SOUND)), Scenario("a", {"M": 1, "flag": True, "x": 0.5})
    config = {"A": 1}
    assert target.launched(config, scenario, DEVICE) == {"A": 16}
    assert target.applies(config, scenario)
    assert target.fits(config, scenario, DEVICE) is None
    assert config == {"A": 1}


def test_what_is_launched() -> None:
    def launched(config: Any, scenario: Scenario, device: DeviceInfo) -> Any:
        wanted = config and config["A"] * scenario.features["M"] * device.multiprocessors
        return MappingProxyType({"B": wanted}) if config else None

    target = Target("p", SimpleNamespace(**SOUND, launched=launched))
    found = target.launched({"A": 2}, Scenario("s", {"M": 3}), DEVICE)
    assert found == {"B": 6 * DEVICE.multiprocessors}
    assert type(found) is dict  # it goes to other processes: a proxy cannot
    with pytest.raises(UsageError, match="'NoneType' object is not iterable"):
        target.launched({}, Scenario("s", {}), DEVICE)


def test_the_hash_follows_content_not_place(tmp_path: Path) -> None:
    def hashed(folder: str, text: str) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "k.py").write_text(text)
        return Target("p", SimpleNamespace(**SOUND), str(tmp_path / folder / "k.py")).source_hash()

    assert hashed("a", "x") == hashed("b", "x") != hashed("a", "y")
    with pytest.raises(UsageError, match="cannot hash the kernel: No such file"):
        Target("p", SimpleNamespace(**SOUND), str(tmp_path / "none.py")).source_hash()


def test_reasons_are_one_bounded_harmless_line() -> None:
    assert first_line(ValueError("\n\n  a\tb\nc")) == "ValueError: a\\tb"
    assert first_line(KeyError()) == "KeyError"

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    assert first_line(Mute()) == "Mute"
    assert bounded("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert bounded("a\u202eb\u00e9\r\n\x1b[31m") == "a\\u202eb\\xe9\\r\\n\\x1b[31m"
    assert len(bounded("x" * 10_000)) == MAX_REASON


SCENARIO = Scenario("s", {"M": 1, "flag": True, "x": 1.0})
ASKED: dict[str, tuple[Any, ...]] = {
    "scenario_class": (SCENARIO,),
    "work": (SCENARIO,),
    "applies": ({}, SCENARIO),
    "launched": ({}, SCENARIO, DEVICE),
    "fits": ({}, SCENARIO, DEVICE),
}


@pytest.mark.parametrize("part", ASKED)
def test_an_optional_part_that_raises_is_told_by_its_name(part: str) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("M")

    target = Target("x", SimpleNamespace(**{**SOUND, part: broken}))
    with pytest.raises(UsageError, match=f"'{part}' of the tunable fails: KeyError: 'M'"):
        getattr(target, part)(*ASKED[part])


@pytest.mark.parametrize("part", ASKED)
def test_so_is_one_that_would_end_the_program(part: str) -> None:
    """`heurgen tune` would end with 0 where nothing was measured."""
    target = Target("x", SimpleNamespace(**{**SOUND, part: lambda *_: sys.exit(0)}))
    with pytest.raises(UsageError, match=f"'{part}' of the tunable fails: SystemExit: 0"):
        getattr(target, part)(*ASKED[part])


@pytest.mark.parametrize("part", [*ASKED, "sources"])
def test_so_is_one_that_is_a_property_which_raises(part: str) -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("no GPU")

    tunable = type("Broken", (SimpleNamespace,), {part: property(broken)})(**SOUND)
    target = Target("x", tunable)
    with pytest.raises(UsageError, match=f"'{part}' of the tunable fails: RuntimeError: no GPU"):
        target.source_hash() if part == "sources" else getattr(target, part)(*ASKED[part])


@pytest.mark.parametrize(
    ("part", "answer", "message"),
    [
        (
            "work",
            "much",
            "'work' of the tunable fails: ValueError: could not convert string to float: 'much'",
        ),
        ("launched", None, "'launched' of the tunable fails: TypeError: 'NoneType' object is not iterable"),
        (
            "launched",
            {"A": (1, 2)},
            "'launched' of the tunable fails: TypeError: '(1, 2)' is no int, float, bool or text",
        ),
    ],
)
def test_an_optional_part_that_answers_something_else(part: str, answer: Any, message: str) -> None:
    target = Target("x", SimpleNamespace(**{**SOUND, part: lambda *_: answer}))
    with pytest.raises(UsageError) as caught:
        getattr(target, part)(*ASKED[part])
    assert caught.value.message == message


def test_sources_that_can_be_gone_through_once_are_hashed(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("x = 1\n")
    hashes = [
        Target("x", SimpleNamespace(**{**SOUND, "sources": sources})).source_hash()
        for sources in (tmp_path.glob("*.py"), [tmp_path / "kernel.py"])
    ]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("sources", ["kernel.py", Path("kernel.py"), [3], 3, [None, "kernel.py"], iter(())])
def test_sources_are_a_list_of_paths(sources: Any) -> None:
    with pytest.raises(UsageError, match="the sources of the tunable must be a list of paths, found"):
        Target("x", SimpleNamespace(**{**SOUND, "sources": sources})).source_hash()
