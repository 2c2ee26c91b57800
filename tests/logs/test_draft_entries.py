"""Lines of a drafted spec: columns as features and parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from heurgen.base.errors import LogError
from heurgen.logs.draft import Said
from heurgen.logs.tuning_log import read_logs
from heurgen.spec.kernel_spec import parse_spec
from tests.support.drafts import draft_spec, drafted, matmul, write


def test_blank_parameters_are_optional_or_of_one_vendor(tmp_path: Path) -> None:
    nvidia = [
        r | {"vendor": "nvidia", "waves_per_eu": "", "maxnreg": 64 if r["num_warps"] == 4 else ""}
        for r in matmul()
    ]
    amd = [r | {"waves_per_eu": 2, "maxnreg": ""} for r in matmul()]
    spec = drafted(write(tmp_path / "a.csv", nvidia + amd))
    assert spec["parameters"]["waves_per_eu"] == {"type": "int", "vendors": ["amd"]}
    assert spec["parameters"]["maxnreg"] == {"type": "int", "optional": True, "vendors": ["nvidia"]}


@pytest.mark.parametrize("column", [True, False])
def test_a_parameter_that_another_vendors_file_lacks_is_of_those_that_have_it(
    tmp_path: Path, column: bool
) -> None:
    """It was one of all vendors, and the files that it was drafted from were refused."""
    rows: dict[str, list[dict[str, object]]] = {"AMD Instinct MI300X": [], "NVIDIA H200": []}
    for device, vendor in zip(rows, ("amd", "nvidia"), strict=True):
        rows[device] = [{**r, "device": device, "vendor": vendor} for r in matmul()]
    rows["AMD Instinct MI300X"] = [r | {"waves_per_eu": 2} for r in rows["AMD Instinct MI300X"]]
    if not column:
        rows = {d: [{k: v for k, v in r.items() if k != "vendor"} for r in of] for d, of in rows.items()}
    paths = [write(tmp_path / f"{i}.csv", of) for i, of in enumerate(rows.values())]
    spec = parse_spec(draft_spec(paths))
    assert next(p.vendors for p in spec.parameters if p.name == "waves_per_eu") == ("amd",)
    assert read_logs(paths, spec).vendors == ("amd", "nvidia")


def test_a_parameter_that_a_file_of_the_same_vendor_lacks_stays_an_error(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.csv", [r | {"waves_per_eu": 2} for r in matmul()]),
        write(tmp_path / "b.csv", matmul()),
    ]
    with pytest.raises(LogError, match="the header lacks this column"):
        read_logs(paths, parse_spec(draft_spec(paths)))


def test_constant_parameters_stay_and_constant_features_do_not(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", matmul(num_stages=3, HEAD_SIZE=128, dtype="bf16"))
    spec = drafted(path)
    assert "num_stages" in spec["parameters"]
    assert list(spec["features"]) == ["M", "N", "K"]
    assert '# HEAD_SIZE = { type = "int" }  # guess: constant here (128), so left out; confirm' in draft_spec(
        path
    )


def test_a_log_of_one_scenario_keeps_its_features(tmp_path: Path) -> None:
    rows = [r for r in matmul() if (r["M"], r["N"], r["K"]) == (16, 128, 64)]
    path = write(tmp_path / "a.csv", rows)
    assert list(drafted(path)["features"]) == ["M", "N", "K"]
    assert 'M = { type = "int" }  # guess: constant here (16); confirm' in draft_spec(path)


def test_a_constant_feature_that_was_named_stays_and_is_not_told_as_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", matmul(HEAD_SIZE=128))
    text = draft_spec(path, Said(features=("M", "HEAD_SIZE")))
    assert '\nHEAD_SIZE = { type = "int" }  # as said; constant here (128)\n' in text
    assert "so left out" not in text


@pytest.mark.parametrize("word", ["None", "nan", "-"])
def test_a_word_among_the_numbers_of_a_parameter_is_told(tmp_path: Path, word: str) -> None:
    """A launch got '2' for 2, and nothing said so."""
    rows = [r | {"waves_per_eu": {4: "2", 8: word}[r["num_warps"]]} for r in matmul()]
    said = f"numbers beside '{word}': a launch gets them as texts. Leave a cell blank where there is none"
    text = draft_spec(write(tmp_path / "a.csv", rows))
    assert f"# {said}\n" in text
    assert text.count("a launch gets them as texts") == 1
    names = [r | {"order": {4: "row", 8: "column"}[r["num_warps"]]} for r in matmul()]
    assert "a launch gets" not in draft_spec(write(tmp_path / "b.csv", names))
