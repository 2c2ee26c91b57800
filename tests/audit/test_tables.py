"""`evaluate --html` and `diff --html`: small pages that load nothing and run nothing."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from heurgen.audit.report.tables import evaluation_page
from heurgen.cli import main
from tests.audit.test_report import EVIL, Page
from tests.support import logs

ROW = {
    "strategy": "joint", "geomean_slowdown": 1.04, "p95_slowdown": 1.2, "max_slowdown": 30.0, "within_1_1": 0.9,
    "invalid_share": 0.0, "leaves": 12.2, "configs": 8.0,
}  # fmt: skip
UNKNOWN = ROW | {"strategy": EVIL, "geomean_slowdown": None, "p95_slowdown": None, "max_slowdown": None}


def evaluation(*rows: dict[str, object]) -> dict[str, object]:
    return {"vendor": "nvidia", "folds": 5, "repeats": 2, "rows": rows, "extrapolation": (), "dominant": None}


def test_a_page_of_strategies() -> None:
    page = Page(evaluation_page([evaluation(ROW, UNKNOWN)]))
    assert "nvidia: 5 folds over scenarios, 2 repeats" in page.text
    assert "1.040× 1.200× 30× 90.0 % 0.0 % 12.2 8.0" in page.text
    assert not page.named("script")
    assert len(page.named("circle")) == 3 + 3  # one known strategy, and the legend
    assert EVIL in page.text.replace("\\", "")


def test_strategies_on_winners_alone_show_agreement_and_no_slowdown() -> None:
    unknown: dict[str, object] = dict.fromkeys(
        ("geomean_slowdown", "p95_slowdown", "max_slowdown", "within_1_1")
    )
    page = Page(evaluation_page([evaluation(ROW | unknown | {"invalid_share": None, "agreement": 0.873})]))
    assert "winners only, slowdown unknown" in page.text
    assert "joint 87.3 % 12.2 8.0" in page.text
    assert "geomean" not in page.text


def test_evaluate_and_diff_write_their_page(tmp_path: Path) -> None:
    log, spec = logs.write(tmp_path, logs.rows(8, ("nvidia",)))
    page, model = tmp_path / "page.html", tmp_path / "model.json"

    def heurgen(*words: object) -> int:
        return CliRunner().invoke(main, [str(w) for w in words]).exit_code

    assert heurgen("evaluate", log, "--spec", spec, "--folds", 2, "--html", log) == 2  # an input is no output
    assert heurgen("evaluate", log, "--spec", spec, "--folds", 2, "--html", page) == 0
    assert "winner-label tree" in page.read_text()
    assert heurgen("train", log, "--spec", spec, "-o", model, "--strategy", "joint") == 0
    page.unlink()
    assert heurgen("diff", model, model, "--html", model) == 2
    assert heurgen("diff", model, model, "--html", page) == 0
    assert "No region changes config." in Page(page.read_text()).text


def test_explain_needs_no_vendor_where_there_is_one(tmp_path: Path) -> None:
    values = ["m=64", "k=64", "density=0.5", "dtype=float16"]
    for vendors, exit_code in ((("nvidia",), 0), (("nvidia", "amd"), 2)):
        log, spec = logs.write(tmp_path, logs.rows(8, vendors))
        model = str(tmp_path / "model.json")
        words = ["train", str(log), "--spec", str(spec), "-o", model, "--strategy", "joint"]
        assert CliRunner().invoke(main, words).exit_code == 0
        found = CliRunner().invoke(main, ["explain", model, *values])
        assert found.exit_code == exit_code, found.output
    assert "choose one with --vendor" in found.stderr
