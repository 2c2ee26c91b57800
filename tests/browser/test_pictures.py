"""The pictures of README and docs are those that `make pictures` makes: same size, same content, nearly same pixels."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pictures import DOCS, ROOT, SERVING, SHOTS, draw_serving, shoot

pytestmark = pytest.mark.browser
# Means over blocks of 8 x 8 pixels, so that another rasteriser of letters or canvas moves them little. Of 255.
MEAN, BLOCK, SHARE = 2.0, 40.0, 0.01
DIFFERENCE = """async ([a, b, block]) => {
  const read = async text => {
    const bitmap = await createImageBitmap(await (await fetch('data:image/png;base64,' + text)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    return context.getImageData(0, 0, bitmap.width, bitmap.height);
  };
  const [x, y] = [await read(a), await read(b)];
  if (x.width !== y.width || x.height !== y.height) { return { sizes: [x.width, x.height, y.width, y.height] }; }
  const wide = Math.ceil(x.width / 8), blocks = new Float64Array(wide * Math.ceil(x.height / 8) * 3);
  const sizes = new Float64Array(blocks.length);
  for (let i = 0; i < x.data.length; i++) {
    if (i % 4 === 3) { continue; }
    const pixel = i >> 2, at = 3 * ((pixel / x.width >> 3) * wide + (pixel % x.width >> 3)) + i % 4;
    blocks[at] += x.data[i] - y.data[i];
    sizes[at] += 1;
  }
  const found = [...blocks].map((sum, i) => Math.abs(sum) / sizes[i]);
  const off = found.filter(d => d > block).length / found.length;
  return { mean: found.reduce((p, q) => p + q) / found.length, off: off };
}"""


def difference(page: Any, a: Path, b: Path) -> dict[str, Any]:
    texts = [base64.b64encode(path.read_bytes()).decode() for path in (a, b)]
    return dict(page.evaluate(DIFFERENCE, [*texts, BLOCK]))


def alike(found: dict[str, Any]) -> bool:
    return found.get("mean", 255.0) <= MEAN and found["off"] <= SHARE


@pytest.fixture(scope="module")
def made(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("pictures")
    return folder, shoot(chromium, folder)


def test_the_reports_pictures_say_what_the_report_says(made: tuple[Path, str]) -> None:
    assert json.loads((DOCS / "pictures.json").read_text(encoding="utf-8")) == json.loads(made[1]), (
        "make pictures"
    )


@pytest.mark.parametrize("name", [shot.name for shot in SHOTS])
def test_the_reports_pictures_are_as_made_now(chromium: Any, made: tuple[Path, str], name: str) -> None:
    page = chromium.new_page()
    found = difference(page, DOCS / name, made[0] / name)
    assert alike(found), f"{name}: {found}; `make pictures` makes it again"
    others = [DOCS / shot.name for shot in SHOTS if shot.name != name]
    assert not any(alike(difference(page, other, made[0] / name)) for other in others)
    page.close()


def test_the_serving_picture_is_drawn_from_its_measurements(chromium: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="`make pictures` installs it")
    draw_serving(tmp_path / "serving.png")
    page = chromium.new_page()
    assert alike(difference(page, SERVING / "serving.png", tmp_path / "serving.png"))
    page.close()
    assert (DOCS / "serving.png").read_bytes() == (SERVING / "serving.png").read_bytes()


def test_every_picture_of_readme_and_docs_is_one_of_them() -> None:
    texts = [(ROOT / "README.md"), *DOCS.rglob("*.md")]
    shown = {
        Path(name).name for t in texts for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", t.read_text("utf-8"))
    }
    drawn = {path.name for path in DOCS.glob("learning-*.svg")}  # compared by tests/test_figures.py
    assert shown <= {shot.name for shot in SHOTS} | {"serving.png"} | drawn
