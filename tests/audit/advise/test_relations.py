"""What holds in every scenario, and so in a launch that is made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heurgen.audit.advise import advise
from heurgen.audit.advise.candidates import kept_relations
from heurgen.audit.advise.relations import relations
from heurgen.logs.costs import Floats, TableColumn
from tests.audit.learner import h200, load, small
from tests.support import logs
from tests.support.commands import run

SIZES = np.random.RandomState(0).randint(1, 4096, (30, 3)).astype(np.float64)
M, N, K = SIZES.T


def columns(**types: str) -> list[TableColumn]:
    return [TableColumn(name, kind) for name, kind in types.items()]  # type: ignore[arg-type]


def told(found: list[TableColumn], *values: Floats) -> list[str]:
    return [r.to_text() for r in relations(found, np.column_stack(values)).kept]


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("int", M * N, "z = M * N"),
        ("int", M * N * K, "z = M * N * K"),
        ("float", 2 * M * N * K, "z = 2 * M * N * K"),
        ("int", M + K, "z = M + K"),
        ("float", N - K, "z = (N - K)"),
        ("float", np.round(M / K, 3), "z = M / K"),
        ("float", np.round(M / K, 2), "z = M / K"),
        ("float", np.round(2e-6 * M * N, 2), "z = 2e-06 * M * N"),
        ("int", 4 * K, "z = 4 * K"),
        (
            "float",
            np.round(M * N * K / (M * N + N * K + K * M), 2),
            "z = M * N * K / (M * N + N * K + K * M)",
        ),
    ],
)
def test_what_a_column_follows_from_is_found(kind: str, values: Floats, text: str) -> None:
    assert told(columns(M="int", N="int", K="int", z=kind), M, N, K, values) == [text]


def test_what_follows_from_nothing_is_left_alone() -> None:
    other = np.random.RandomState(1).randint(1, 4096, 30).astype(np.float64)
    assert told(columns(M="int", N="int", K="int", z="int"), M, N, K, other) == []
    off = M * N
    off[3] += 1
    assert told(columns(M="int", N="int", z="int"), M, N, off) == []
    assert told(columns(M="int", N="int", z="int"), M[:7], N[:7], (M * N)[:7]) == []  # too few to tell


def test_numbers_next_to_nothing_and_beside_them_huge_ones_have_nothing_in_common() -> None:
    """The factor was inf, and a traceback."""
    tiny = np.array([0.0, *[1e-310 * i for i in range(1, 10)]])
    huge = np.array([3.0, *[1e300 * i for i in range(1, 10)]])
    assert told(columns(x="float", z="float"), tiny, huge) == []


def test_a_multiple_is_worked_out_and_not_its_part() -> None:
    """Of 45 or 91 heads, half way between 32, 64 and 128, no groups of 8 are made: no such launch was advised."""
    heads = 8 * np.unique(M // 16)
    assert told(columns(heads="int", groups="int"), heads, heads / 8) == ["heads = 8 * groups"]
    assert told(columns(groups="int", heads="int"), heads / 8, heads) == ["heads = 8 * groups"]


def test_what_follows_from_what_follows_is_worked_out_in_turn() -> None:
    found = columns(work="int", area="int", M="int", N="int", K="int")
    kept = relations(found, np.column_stack([M * N * K, M * N, M, N, K]))
    assert {r.column for r in kept.kept} == {"work", "area"}
    made = kept.applied({"work": 1, "area": 1, "M": 3, "N": 5, "K": 7})
    assert made == {"work": 105, "area": 15, "M": 3, "N": 5, "K": 7}


@pytest.mark.parametrize("decimals", [1, 4, None])
def test_what_was_advised_and_measured_still_holds(decimals: int | None) -> None:
    """A mean of four decimals was advised with six: with the new rows in the log nothing was kept any more."""
    mean = M / K * 1e-6 if decimals is None else np.round(1000 * M / K, decimals)
    found = columns(M="int", K="int", mean="float")
    log = np.column_stack([M, K, mean])
    for _ in range(2):
        kept = relations(found, log)
        assert [r.column for r in kept.kept] == ["mean"]
        made = kept.applied({"M": 1001, "K": len(log), "mean": 0.0})
        assert made is not None
        log = np.vstack([log, [made[c.name] for c in found]])


def test_a_bound_that_every_scenario_keeps_is_kept() -> None:
    """Ragged batches: no expression gives the sum of lengths, and more than all as long as the longest is none."""
    seqs, longest = np.arange(1.0, 31), M
    total = np.where(seqs % 2, seqs * longest, np.maximum(longest, seqs * longest // 2))
    found = columns(num_seqs="int", longest="int", total="int")
    kept = relations(found, np.column_stack([seqs, longest, total]))
    assert kept.kept == ()
    assert kept.applied({"num_seqs": 3, "longest": 10, "total": 40}) == {
        "num_seqs": 3,
        "longest": 10,
        "total": 30,
    }
    assert kept.applied({"num_seqs": 3, "longest": 10, "total": 20}) == {
        "num_seqs": 3,
        "longest": 10,
        "total": 20,
    }
    fixed = relations(found, np.column_stack([seqs, longest, total]), {"total"})
    assert fixed.applied({"num_seqs": 3, "longest": 10, "total": 40}) is None


def test_advised_launches_of_the_h200_log_can_exist() -> None:
    spec, _, (table,) = load()
    assert [r.to_text() for r in kept_relations(table).kept] == [
        "avg_seqlen_q = total_query_tokens / num_seqs"
    ]
    found = [a.features for a in advise(h200(), table, spec, 1000)]
    assert len(found) > 100
    for f in found:
        assert f["avg_seqlen_q"] == round(f["total_query_tokens"] / f["num_seqs"], 3)  # as the log writes it
        assert f["num_seqs"] <= f["total_query_tokens"] <= f["num_seqs"] * f["max_seqlen_q"]
        assert f["avg_seqlen_q"] <= f["avg_seqlen_k"] * (1 + 1e-6)
        assert f["avg_seqlen_k"] <= f["max_seqlen_k"] * (1 + 1e-6)


def test_the_command_says_what_is_kept(tmp_path: Path) -> None:
    log, spec, model = small(tmp_path, logs.rows(24, ["nvidia"]))
    assert "keep what holds" not in run("advise", model, log, "--spec", spec).stderr
    text = Path(log).read_text().splitlines()
    at = [text[0].split(",").index(n) for n in ("m", "k")]
    rows = [line.split(",") for line in text[1:]]
    work = [f"{','.join(r)},{int(r[at[0]]) * int(r[at[1]])}" for r in rows]
    Path(log).write_text("\n".join([f"{text[0]},area", *work]) + "\n")
    Path(spec).write_text(
        Path(spec).read_text().replace("[features]\n", "[features]\narea = { type = 'int' }\n")
    )
    run("train", log, "--spec", spec, "-o", model)
    stderr = run("advise", model, log, "--spec", spec).stderr
    assert (
        "note: launches that were not measured keep what holds in every scenario of the log: area = m * k"
        in stderr
    )
