"""`evaluate --html` and `diff --html`: small pages that load nothing and run nothing."""

from __future__ import annotations

from heurgen.audit.report.tables import evaluation_page
from tests.audit.pages import EVIL, Page

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
    assert "Slowdown is the time" in page.text
    noted = Page(evaluation_page([evaluation(ROW)], [EVIL]))
    assert EVIL in noted.text.replace("\\", "")
    assert not noted.named("script")
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
    assert "Slowdown is" not in page.text


def test_a_chart_has_a_line_a_strategy_with_its_mean_p95_and_worst() -> None:
    page = Page(evaluation_page([evaluation(ROW | {"max_slowdown": 2.0}, ROW | {"max_slowdown": 30.0})]))
    circles = [(float(c["cx"] or 0), float(c["cy"] or 0)) for c in page.named("circle") if c.get("cy")]
    first, second = circles[:3], circles[3:6]
    assert {y for _, y in first} == {17.0}
    assert {y for _, y in second} == {17.0 + 22}
    assert [x for x, _ in first] == sorted(x for x, _ in first)
    assert 210 < first[0][0] < first[2][0] < second[2][0] == 600  # 30x lies at the end of an axis to 10
    assert first[:2] == [(x, 17.0) for x, _ in second[:2]]
    beyond = "Slowdowns beyond the axis lie at its right end."
    assert beyond in page.text
    assert beyond not in Page(evaluation_page([evaluation(ROW | {"max_slowdown": 10.0})])).text
