"""The gate for CI: limits per group, offenders, regressions beyond the noise."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from heurgen import ir
from heurgen.audit.gate import SHOWN, check_limits, of_several, parse_limits, regressions
from heurgen.audit.score import Choice, Score, figures, score
from heurgen.base.errors import UsageError
from heurgen.ir.schema import to_json
from tests.audit.learner import LOG, SPEC, load, module_of
from tests.support.commands import run


def choice(
    slowdown: float | None, row: int = 0, vendor: str = "nvidia", noise: float = 0.02, **more: str
) -> Choice:
    status = more.get("status", "ok" if slowdown is not None else "failed")
    leaf = ir.Leaf(0, 1, 1.0)
    device = more.get("device", "H200")
    best = (16,) if slowdown == 1.0 else (64,)
    return Choice(
        f"s{row}",
        vendor,
        device,
        {"m": row},
        (16,),
        best,
        slowdown,
        status,
        leaf,
        row,
        0,
        0,
        noise,
        ("BLOCK_M",),
    )


def score_of(*choices: Choice) -> Score:
    groups: dict[str, list[Choice]] = {}
    for c in choices:
        groups.setdefault(c.vendor, []).append(c)
        groups.setdefault(f"{c.vendor} / {c.device}", []).append(c)
    return Score(figures(choices), {n: figures(g) for n, g in groups.items()}, choices)


def test_limits_are_parsed() -> None:
    assert parse_limits("geomean=1.05, max=1.5,invalid=0") == {"geomean": 1.05, "max": 1.5, "invalid": 0.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean=1", "--fail-above: 'mean' is no figure to limit (expected geomean, p95, max, invalid, as in "
         "geomean=1.05,invalid=0)"),
        ("max=1,max=2", "--fail-above: max is given twice"),
    ],
)  # fmt: skip
def test_bad_limits_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_limits(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (text, "a ratio from 1 on")
            for text in ("max=fast", "max=nan", "max=1_0", "max=inf", "geomean=0.05", "p95=-1")
        ),
        *(
            (text, "a share from 0 to 1")
            for text in ("invalid=5", "invalid=-0.1", "invalid=nan", "invalid=1%")
        ),
    ],
)
def test_limits_that_are_no_ratio_or_share_are_refused(text: str, expected: str) -> None:
    """A limit in percent would never hold, or always."""
    name, _, number = text.partition("=")
    with pytest.raises(UsageError) as error:
        parse_limits(text)
    assert error.value.message == f"--fail-above: {name} is '{number}', expected {expected}"
    assert error.value.hint == "slowdowns are ratios such as 1.05, invalid is a share such as 0.01"


def test_a_figure_at_its_limit_passes_and_above_it_fails() -> None:
    one = score_of(choice(1.0), choice(1.5, 1))
    assert check_limits(one, {"max": 1.5}) == ([], [])
    (found,), _ = check_limits(one, {"max": 1.49})
    assert (found.group, found.what, found.value) == ("nvidia", "max", 1.5)
    assert [o.scenario for o in found.scenarios] == ["s1"]
    assert found.to_text() == (
        "nvidia: max 1.5000 is above 1.49\n  1.500x  scenario s1: m=1; chose BLOCK_M=16 where BLOCK_M=64 won"
    )


def test_of_many_offenders_the_worst_are_named_and_the_rest_counted() -> None:
    (found,), _ = check_limits(score_of(*(choice(1.1 + i / 100, i) for i in range(30))), {"max": 1.05})
    lines = found.to_text().splitlines()
    assert lines[1].startswith("  1.390x  scenario s29: ")
    assert lines[-1] == f"  and {30 - SHOWN} more"
    assert len(lines) == SHOWN + 2
    assert len(found.to_dict()["scenarios"]) == 30


def test_offenders_of_several_devices_name_theirs() -> None:
    """Of a vendor's finding, scenarios of equal features had equal lines; where all were of one device, nothing said
    of which."""
    both = score_of(*(choice(1.4, device=device) for device in ("H200", "A100")))
    found = {
        f.group: f.to_text(of_several(both)).splitlines()[1:] for f in check_limits(both, {"max": 1.1})[0]
    }
    assert [line.rpartition(" won")[2] for line in found["nvidia"]] == [" (H200)", " (A100)"]
    assert [line.rpartition(" won")[2] for line in found["nvidia / A100"]] == [""]
    one = score_of(choice(1.4, device="H200"), choice(1.0, 1, device="A100"))
    (finding,), _ = check_limits(one, {"max": 1.1})
    assert finding.to_text(of_several(one)).endswith(" won (H200)")
    assert not of_several(score_of(choice(1.4), choice(1.0, 1)))


def test_a_good_device_does_not_hide_a_bad_one() -> None:
    both = score_of(*(choice(1.0, i) for i in range(99)), choice(1.4, 100, device="A100"))
    found, _ = check_limits(both, {"geomean": 1.1})
    assert [f.group for f in found] == ["nvidia / A100"]


def test_invalid_choices_are_offenders_even_where_nothing_else_is_measured() -> None:
    found, _ = check_limits(score_of(choice(None)), {"invalid": 0.0, "max": 1.5})
    assert [(f.what, f.value) for f in found] == [("invalid", 1.0), ("max", None)]
    assert "invalid (failed)" in found[0].to_text()


def test_a_gate_that_can_check_nothing_fails() -> None:
    winners = score_of(choice(None, status="unknown", vendor="amd"))
    found, notes = check_limits(winners, {"max": 1.5})
    assert [f.to_text() for f in found] == ["all: max is unknown, the limit is 1.5"]
    assert notes[0] == "amd: slowdown is unknown (winners only), not checked there: max"
    mixed = score_of(choice(None, status="unknown", vendor="amd"), choice(1.0, 1))
    assert check_limits(mixed, {"max": 1.5})[0] == []


def test_choices_of_unknown_cost_are_not_invalid() -> None:
    winners = score_of(*(choice(None, i, status="unknown") for i in range(9)), choice(None, 9))
    found, notes = check_limits(winners, {"invalid": 0.05, "max": 1.5})
    assert [f.to_text() for f in found] == [
        "nvidia: invalid 0.1000 is above 0.05\n  invalid (failed)  scenario s9: m=9; chose BLOCK_M=16 where "
        "BLOCK_M=64 won",
        "all: max is unknown, the limit is 1.5",
    ]
    assert notes[0] == "nvidia: slowdown is unknown (winners only), not checked there: max"
    assert check_limits(winners, {"invalid": 0.1}) == ([], [])


def test_regressions_beyond_the_noise_of_their_scenario() -> None:
    old = score_of(choice(1.0), choice(1.0, 1), choice(1.0, 2), choice(None, 3))
    new = score_of(choice(1.019), choice(1.021, 1), choice(None, 2), choice(1.9, 3))
    (found,), notes = regressions(old, new)
    assert notes == []
    assert [(o.scenario, o.slowdown, o.before) for o in found.scenarios] == [
        ("s2", None, 1.0),
        ("s1", 1.021, 1.0),
    ]
    noisy = score_of(choice(1.0), choice(1.021, 1, noise=0.05))
    assert regressions(old, noisy)[0] == []


def test_a_vendor_that_the_baseline_knew_and_the_model_does_not() -> None:
    """It was a note, "60 scenarios of amd left out", and the gate passed: every launch there raises ValueError."""
    both = score_of(choice(1.0), choice(1.0, 1, vendor="amd"))
    (found,), _ = regressions(both, score_of(choice(1.0)))
    assert found.to_text() == "amd: the baseline answers, and the model does not know the vendor"
    assert (found.to_dict()["group"], found.to_dict()["what"]) == ("amd", "vendor")
    assert regressions(score_of(choice(1.0)), both)[0] == []


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """small.json and large.json."""
    folder = tmp_path_factory.mktemp("gate")
    spec, log, tables = load()
    for name, depth in (("small", 1), ("large", 4)):
        (folder / f"{name}.json").write_text(to_json(module_of(spec, log, tables, depth)))
    return folder


def test_the_command_exits_1_with_the_offenders(models: Path) -> None:
    words = ("audit", models / "small.json", LOG, "--spec", SPEC)
    assert run(*words, "--fail-above", "max=100,invalid=0").exit_code == 0
    result = run(*words, "--fail-above", "geomean=1.05")
    assert result.exit_code == 1
    assert "nvidia: geomean 1." in result.stdout
    assert "won" in result.stdout
    data = json.loads(run(*words, "--fail-above", "geomean=1.05", "--json").stdout)
    assert data["gate"]["passed"] is False
    worst = data["gate"]["findings"][0]["scenarios"][0]
    assert worst["slowdown"] == max(s["slowdown"] for s in data["gate"]["findings"][0]["scenarios"])
    assert data["n_scenarios"] == 70
    assert run(*words, "--fail-above", "speed=1").exit_code == 2
    assert "gate" not in json.loads(run(*words, "--json").stdout)


def test_the_baseline_finds_the_worse_model_and_passes_the_same(models: Path) -> None:
    words = ("--spec", SPEC, "--baseline")
    small, large = models / "small.json", models / "large.json"
    assert run("audit", small, LOG, *words, large).exit_code == 1
    assert run("audit", small, LOG, *words, small).exit_code == 0
    spec, log, tables = load()
    old, new = score(module_of(spec, log, tables, 4), tables), score(module_of(spec, log, tables, 1), tables)
    found, _ = regressions(old, new)
    before = {c.row: c.slowdown for c in old.choices}
    expected = sum(
        c.slowdown is None or c.slowdown > (before[c.row] or 9.9) * (1 + c.noise) for c in new.choices
    )
    assert sum(len(f.scenarios) for f in found) == expected > 0


def test_choices_carry_what_the_gate_needs() -> None:
    assert {"row", "leaf_index", "column", "noise"} <= {f.name for f in dataclasses.fields(Choice)}
