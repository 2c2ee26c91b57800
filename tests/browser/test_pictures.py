"""The pictures of README and docs are those that `make pictures` makes.

What a picture says is compared letter for letter (docs/pictures.json); its pixels only as far as every machine draws
them alike: the same size, and nearer to the picture of its name than to any other.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kernel_figures import PICTURES
from tests.browser.pictures import DOCS, DRAWN_SERVING, ROOT, SERVING, SHOTS, draw_serving, shoot

pytestmark = pytest.mark.browser
# Means over blocks of 8 x 8 pixels, so that another rasteriser of letters or canvas moves them little. Two machines
# with the same Chromium differed by 2.02 of 255.
MEAN = 12.0
DIFFERENCE = """async ([a, b]) => {
  const read = async text => {
    const bitmap = await createImageBitmap(await (await fetch('data:image/png;base64,' + text)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext('2d');
    context.drawImage(bitmap, 0, 0);
    return context.getImageData(0, 0, bitmap.width, bitmap.height);
  };
  const [x, y] = [await read(a), await read(b)];
  if (x.width !== y.width || x.height !== y.height) { return Infinity; }
  const wide = Math.ceil(x.width / 8), blocks = new Float64Array(wide * Math.ceil(x.height / 8) * 3);
  const sizes = new Float64Array(blocks.length);
  for (let i = 0; i < x.data.length; i++) {
    if (i % 4 === 3) { continue; }
    const pixel = i >> 2, at = 3 * ((pixel / x.width >> 3) * wide + (pixel % x.width >> 3)) + i % 4;
    blocks[at] += x.data[i] - y.data[i];
    sizes[at] += 1;
  }
  return [...blocks].reduce((sum, d, i) => sum + Math.abs(d) / sizes[i], 0) / blocks.length;
}"""


def difference(page: Any, a: Path, b: Path) -> float:
    """Mean difference of two pictures' blocks, 0 to 255; infinite where their sizes differ."""
    texts = [base64.b64encode(path.read_bytes()).decode() for path in (a, b)]
    return float(page.evaluate(DIFFERENCE, texts))


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
    found = {shot.name: difference(page, DOCS / shot.name, made[0] / name) for shot in SHOTS}
    page.close()
    assert found[name] <= MEAN, f"{name}: {found}; `make pictures` makes it again"
    assert min(found, key=lambda other: found[other]) == name, found


def test_the_serving_pictures_are_drawn_from_their_measurements(chromium: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="`make pictures` installs it")
    page = chromium.new_page()
    for device, name in DRAWN_SERVING.items():
        draw_serving(device, tmp_path / name)
        assert difference(page, DOCS / name, tmp_path / name) <= MEAN, name
        assert (DOCS / name).read_bytes() == (SERVING.parent / device / "serving.png").read_bytes()
    page.close()


@pytest.mark.parametrize("measured", PICTURES)
def test_pictures_of_benchmarks_are_the_ones_that_were_measured(measured: str) -> None:
    """`benchmarks/models.py` and `llama.py` draw them, `python -m benchmarks.kernel_figures --write` copies them."""
    assert (DOCS / PICTURES[measured]).read_bytes() == (ROOT / "benchmarks" / measured).read_bytes()


def test_every_picture_of_readme_and_docs_is_one_of_them() -> None:
    texts = [(ROOT / "README.md"), *DOCS.rglob("*.md")]
    shown = {
        Path(name).name for t in texts for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", t.read_text("utf-8"))
    }
    drawn = {path.name for path in DOCS.glob("learning-*.svg")}  # compared by tests/test_figures.py
    assert (
        shown
        <= {shot.name for shot in SHOTS} | {"serving.png", "serving_h100.png", *PICTURES.values()} | drawn
    )
