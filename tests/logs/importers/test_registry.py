"""Every importer by its kind or found out from the content; the published files."""

from __future__ import annotations

import json
import tracemalloc
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from heurgen.base.errors import HeurgenError, LogError
from heurgen.cli import main
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.registry import IMPORTERS, Importer, import_logs
from tests.logs.importers.caches import cache
from tests.logs.importers.helpers import KEYS, published
from tests.support.documents import PUBLISHED

AITER = "gfx,cu_num,M,kernelId,us\n"
MOE = "E=8,N=64,device_name=NVIDIA_H200.json"


@pytest.mark.parametrize("importer", IMPORTERS, ids=lambda i: i.kind)
def test_ten_wrong_inputs_for_each(importer: Importer) -> None:
    mirror = import_module(f"tests.logs.importers.test_{importer.module}")
    assert len(mirror.WRONG[importer.kind]) >= 10


def test_options_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / MOE).write_text('{"1": {"B": 1}}')
    with pytest.raises(HeurgenError) as error:
        import_logs("vllm", [str(tmp_path / MOE)], KEYS)
    assert (
        str(error.value) == "vllm takes no --keys (it takes --device, --vendor, --rename, --const, --kernel)"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(keys=("M", "N", "M")), "--keys names 'M' twice (name each value apart)"),
        (Options(features=("width", "width")), "--feature names 'width' twice (name each value apart)"),
    ],
)
def test_a_name_for_two_values_is_refused(tmp_path: Path, options: Options, said: str) -> None:
    """One of the two was lost, and scenarios that differ in it became one."""
    (tmp_path / "k.autotune.json").write_text("{}")
    with pytest.raises(HeurgenError) as error:
        import_logs(
            "triton" if options.keys else "kernel-tuner", [str(tmp_path / "k.autotune.json")], options
        )
    assert str(error.value) == said


def test_auto_says_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / MOE).write_text('{"1": {"B": 1}}')
    (tmp_path / "a_tuned.csv").write_text(AITER + "gfx942,304,1,2,3\n")
    with pytest.raises(HeurgenError, match=r"notes.txt: is of no known kind \(known: triton, "):
        import_logs("auto", [str(tmp_path / "notes.txt")], Options())
    with pytest.raises(HeurgenError, match=r"the files are of 2 kinds: .*a_tuned.csv is aiter, .* is vllm"):
        import_logs("auto", [str(tmp_path / MOE), str(tmp_path / "a_tuned.csv")], Options())


def test_of_a_folder_auto_takes_what_it_knows(tmp_path: Path) -> None:
    """A cache holds binaries and texts beside the files that count; alone they are an error."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "kernel.cubin").write_bytes(b"\x7fELF\0\xff")
    (cache / "notes.txt").write_text("hello")
    (cache / "empty").write_text("")
    with pytest.raises(HeurgenError, match="empty: the file is empty"):
        import_logs("auto", [str(cache)], Options())
    (cache / "a_tuned.csv").write_text(AITER + "gfx942,304,1,2,3\n")
    imported = import_logs("auto", [str(cache)], Options())
    assert len(imported.rows) == 1
    empty = cache / "empty"
    assert f"3 files of no known kind left out, the first: {empty}" in imported.notes
    with pytest.raises(HeurgenError, match=r"notes\.txt: is of no known kind"):
        import_logs("auto", [str(cache), str(cache / "notes.txt")], Options())


def test_auto_says_what_else_a_file_holds(tmp_path: Path) -> None:
    """A server's output has tunings of Triton (winners) and of Inductor (every choice): one of them is read."""
    winner = "Triton autotuning for function f,\nwith key as (8,4),\nfinished after 1s,\nbest config selected: B: 16;\n"
    every = (
        "AUTOTUNE mm(16x32, 32x8)\n  mm 0.5 ms 100.0% \n  triton_mm_1 0.7 ms 70.0% BLOCK_M=16, num_warps=4\n"
    )
    for text, more in (
        (winner, ""),
        (winner + every, "; what they hold of inductor is read where that kind is named"),
    ):
        (tmp_path / "err.txt").write_text(text)
        imported = import_logs("auto", [str(tmp_path / "err.txt")], KEYS)
        assert imported.notes[0] == f"triton-printed files{more}"


def test_files_of_one_content_are_no_copies_where_their_folders_say_other_things(tmp_path: Path) -> None:
    """Architectures share winners, and so do kernels: none of them may be left out as a copy."""
    for path in ("gfx942/gemm_a", "gfx942/gemm_b", "gfx950/gemm_b", "again/gfx950/gemm_b"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "DEFAULT.json").write_text('{"M_LEQ_64": {"B": 16}, "any": {"B": 32}}')
    imported = import_logs("auto", [str(tmp_path)], Options(kernel="gemm_b"))
    assert [row[1:3] for row in imported.rows] == [
        ("gfx942", "64"),
        ("gfx942", "65"),
        ("gfx950", "64"),
        ("gfx950", "65"),
    ]
    assert sum("taken once" in note for note in imported.notes) == 1


def test_caches_of_one_content_in_the_folders_of_two_devices_are_both_kept(tmp_path: Path) -> None:
    for device in ("NVIDIA_H100", "AMD_MI300X"):
        (tmp_path / f"gpu_{device}").mkdir()
        (tmp_path / f"gpu_{device}" / "cache.json").write_text(json.dumps(cache()))
    imported = import_logs("auto", [str(tmp_path)], Options())
    assert {row[1] for row in imported.rows} == {"NVIDIA H100", "AMD MI300X"}
    assert any("yet their devices differ" in note for note in imported.notes)


def test_of_a_folder_a_kind_takes_its_own(tmp_path: Path) -> None:
    """Kernel Tuner's metadata lie beside its results; a file that is named is an error all the same."""
    row = {"configuration": {"b": 1}, "times": {"runtimes": [1.0]}, "invalidity": "correct", "correctness": 1}
    (tmp_path / "results_A100.json").write_text(json.dumps({"schema_version": "1.0.0", "results": [row]}))
    (tmp_path / "metadata.json").write_text('{"schema_version": "1.0.0", "metadata": {}}')
    imported = import_logs("kernel-tuner", [str(tmp_path)], Options())
    assert len(imported.rows) == 1
    assert f"1 file of another kind left out, the first: {tmp_path / 'metadata.json'}" in imported.notes
    with pytest.raises(HeurgenError, match="found neither 'cache' nor 'results'"):
        import_logs("kernel-tuner", [str(tmp_path / "metadata.json")], Options())
    (tmp_path / "results_A100.json").unlink()
    with pytest.raises(HeurgenError, match="found neither 'cache' nor 'results'"):
        import_logs("kernel-tuner", [str(tmp_path)], Options())


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("inductor", {"stderr.log": "AUTOTUNE mm(8x4, 4x2)\n  mm 0.5 ms 100.0%\n", "mm.lock": "", "b.bin": "\udcff"}),
        ("helion", {"run.csv": "run_id,generation,status,perf_ms,config\nr,0,ok,1.5,Config(num_warps=4)\n",
                    "run.meta.jsonl": '{"run_id": "r", "kernel_name": "k", "input_shapes": "[(8,)]", "dtypes": '
                    '"[\'torch.int8\']", "hardware": "NVIDIA H200"}\n', "kernel.py": "x = 1\n"}),
    ],
)  # fmt: skip
def test_what_a_kind_reads_is_found_in_a_folder_under_any_name(
    tmp_path: Path, kind: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, errors="surrogateescape")
    options = Options(device="NVIDIA H200")
    found = import_logs(kind, [str(tmp_path)], options)
    assert len(found.rows) == 1
    assert found.rows == import_logs("auto", [str(tmp_path)], options).rows


def test_of_a_folder_without_a_file_of_the_kind_a_text_is_complained_of_before_a_binary(
    tmp_path: Path,
) -> None:
    (tmp_path / "mm.json").write_text('{"a": 1}')
    (tmp_path / "a.so").write_bytes(b"\0\xff")
    with pytest.raises(LogError, match=r"mm.json: found no block that max-autotune prints"):
        import_logs("inductor", [str(tmp_path)], Options(device="NVIDIA H100"))
    (tmp_path / "mm.json").unlink()
    with pytest.raises(LogError, match=r"a.so.* NUL"):
        import_logs("inductor", [str(tmp_path)], Options(device="NVIDIA H100"))


def test_texts_of_other_kinds_in_a_folder_are_not_held(tmp_path: Path) -> None:
    (tmp_path / "mm.json").write_text('[{"(16, 32, 64)": [{"type": "cublas", "time": 0.2}]}]')
    for i in range(8):
        (tmp_path / f"{i}.py").write_text(f"{i}\n" * 2**20)
    tracemalloc.start()
    try:
        import_logs("inductor", [str(tmp_path)], Options(device="NVIDIA H100"))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 5 * 2 * 2**20


COUNTS = {
    "miopen/gfx942130.HIP.fdb.txt.bz2": 37792,
    "kernel_tuner/convolution_A100.json.gz": 4362,
    "aiter/gdr_decode_tuned.csv": 5376,
    "aiter/a8w8_blockscale_tuned_gemm.csv": 6630,
    "vllm_moe": 2601,
    "vllm_ssu": 516,
}


@published
@pytest.mark.parametrize("name", COUNTS)
def test_published_files(tmp_path: Path, name: str) -> None:
    words = ["import", "auto", str(PUBLISHED / name), "-o", str(tmp_path / "log.csv")]
    done = CliRunner().invoke(main, [*words, "--write-spec", str(tmp_path / "spec.toml")])
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "log.csv").read_text().splitlines()) == COUNTS[name] + 1
