"""Every importer, by kind: what `heurgen import KIND` knows, and the one flow that all of them go through."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module

from heurgen.base.errors import LogError, UsageError, printable, quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Options
from heurgen.logs.importers.common import Imported, formula_note
from heurgen.logs.importers.foreign import Foreign, distinct, expanded, read_foreign

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Importer:
    """One kind. `module` has `recognises(file)` and `run`, a function of that module's name.

    takes    which of `Options` it understands
    pattern  the files that a folder stands for
    named    the files' names say what they are of: the problem, the device
    told     a function of `module`: what a file's folders say of it, where they say something
    """

    kind: str
    title: str
    module: str
    run: str
    takes: tuple[str, ...]
    pattern: str
    example: str
    named: bool = False
    told: str = ""

    def recognises(self, file: Foreign) -> bool:
        return bool(self._attribute("recognises")(file))

    def read(self, files: Sequence[Foreign], options: Options) -> Imported:
        found = self._attribute(self.run)(files, options)
        assert isinstance(found, Imported)
        return found

    def identity(self, file: Foreign) -> Hashable:
        """What a file says beside its content: files that differ in it are no copies of each other."""
        return file.name if self.named else "", self._attribute(self.told)(file) if self.told else ""

    def _attribute(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(import_module(f"heurgen.logs.importers.{self.module}"), name)
        return found


_PLACE = ("device", "vendor")
_COMMON = (*_PLACE, "rename", "const")
IMPORTERS = (
    Importer(
        "triton",
        "Triton's autotuning cache (*.autotune.json), or the folder that holds it.",
        "triton_cache",
        "import_triton",
        (*_COMMON, "keys", "key_from", "kernel"),
        "*.autotune.json",
        "~/.triton/cache -o log.csv --keys M,N,K --device 'NVIDIA H200' --kernel matmul",
        named=True,
    ),
    Importer(
        "triton-printed",
        "What TRITON_PRINT_AUTOTUNING prints: winners only.",
        "triton_printed",
        "import_triton_printed",
        (*_COMMON, "keys", "key_from", "kernel"),
        "*",
        "stderr.txt -o log.csv --keys M,N,K --device 'NVIDIA H200' --kernel matmul",
    ),
    Importer(
        "inductor",
        "Inductor's max-autotune logs: matrix products, FlexAttention, convolutions.",
        "inductor",
        "import_inductor",
        (*_COMMON, "kernel"),
        "*",
        "mm.json -o log.csv --device 'NVIDIA H200' --const dtype=bfloat16",
    ),
    Importer(
        "inductor-lookup",
        "Inductor's lookup tables: winners only.",
        "inductor_lookup",
        "import_inductor_lookup",
        (*_COMMON, "kernel"),
        "*.json",
        "table.json -o log.csv",
    ),
    Importer(
        "kernel-tuner",
        "Kernel Tuner's caches, closed or not, and T4 results.",
        "kernel_tuner",
        "import_kernel_tuner",
        (*_COMMON, "features", "kernel"),
        "*.json*",
        "cache_4096.json cache_8192.json -o log.csv --feature width --feature height",
        named=True,
    ),
    Importer(
        "kernel-launcher",
        "Kernel Launcher's wisdom files: the best few configs of every problem.",
        "kernel_launcher",
        "import_kernel_launcher",
        (*_COMMON, "features", "kernel"),
        "*.wisdom",
        "vector_add.wisdom -o log.csv --feature n",
    ),
    Importer(
        "ktt",
        "KTT's results (JSON).",
        "ktt",
        "import_ktt",
        (*_COMMON, "kernel"),
        "*.json*",
        "gemm_1024.json gemm_2048.json -o log.csv",
        named=True,
    ),
    Importer(
        "clblast",
        "What CLBlast's tuners and CLTune write (JSON).",
        "clblast",
        "import_clblast",
        (*_COMMON, "kernel"),
        "*.json*",
        "clblast_xgemm_1_32.json -o log.csv",
    ),
    Importer(
        "hipblaslt",
        "What hipblaslt-bench prints of several solutions.",
        "hipblaslt",
        "import_hipblaslt",
        (*_COMMON, "kernel"),
        "*",
        "bench.txt -o log.csv --write-spec kernel.toml",
    ),
    Importer(
        "hipblaslt-tuned",
        "What HIPBLASLT_TUNING_FILE names: winners only.",
        "hipblaslt_tuned",
        "import_hipblaslt_tuned",
        (*_COMMON, "kernel"),
        "*",
        "tuning.txt -o log.csv --device 'AMD Instinct MI300X'",
    ),
    Importer(
        "tunableop",
        "Results of PyTorch's TunableOp: winners only.",
        "tunableop",
        "import_tunableop",
        (*_COMMON, "kernel"),
        "*.csv*",
        "tunableop_results0.csv -o log.csv --kernel Gemm",
    ),
    Importer(
        "helion",
        "Helion's AOT measurements and autotune logs (CSV).",
        "helion",
        "import_helion",
        (*_COMMON, "kernel"),
        "*",
        ".helion_aot -o log.csv --kernel softmax",
        named=True,
    ),
    Importer(
        "miopen",
        "MIOpen's find-db: the best few solvers of every convolution.",
        "miopen",
        "import_miopen",
        _COMMON,
        "*fdb.txt*",
        "gfx942130.HIP.fdb.txt.bz2 -o log.csv --write-spec kernel.toml",
        named=True,
    ),
    Importer(
        "aiter",
        "AITER's tuned CSVs and Triton JSON: winners only; its tuners' profiles: every candidate.",
        "aiter",
        "import_aiter",
        (*_COMMON, "kernel"),
        "*",
        "gdr_decode_tuned.csv -o log.csv --write-spec kernel.toml",
        named=True,
        told="folders_say",
    ),
    Importer(
        "vllm",
        "vLLM's tuned JSON (fused MoE, block fp8, state update, LoRA): winners only.",
        "vllm",
        "import_vllm",
        (*_COMMON, "kernel"),
        "*.json",
        "'E=8,N=3584,device_name=NVIDIA_H200.json' -o log.csv",
        named=True,
    ),
    Importer(
        "vllm-helion",
        "Configs of vLLM's Helion kernels: winners only.",
        "vllm_helion",
        "import_vllm_helion",
        (*_COMMON, "kernel"),
        "*.json",
        "vllm/kernels/helion/configs/silu_mul_fp8 -o log.csv",
        named=True,
        told="folders_say",
    ),
    Importer(
        "sglang",
        "SGLang's tuned JSON (fused MoE, block fp8, LoRA): winners only.",
        "vllm",
        "import_vllm",
        (*_COMMON, "kernel"),
        "*.json",
        "configs/triton_3_5_1 -o log.csv",
        named=True,
    ),
    Importer(
        "flashinfer",
        "FlashInfer's autotuning caches: winners only.",
        "flashinfer",
        "import_flashinfer",
        (*_COMMON, "kernel"),
        "*.json",
        "autotune_configs.json -o log.csv --kernel fp4_gemm",
        told="folders_say",
    ),
    Importer(
        "dejavu",
        "triton-dejavu caches: winners only.",
        "dejavu",
        "run",
        _COMMON,
        "*.json",
        "cache.json -o log.csv --vendor amd --device MI300X --rename BLOCK_N=TILE_SIZE",
        named=True,
        told="folders_say",
    ),
    Importer(
        "autoheuristic",
        "Logs that PyTorch's AutoHeuristic collects.",
        "autoheuristic",
        "run",
        (*_PLACE, "const", "kernel"),
        "*.txt",
        "mm_a100.txt -o log.csv --write-spec kernel.toml",
    ),
)
BY_KIND = {i.kind: i for i in IMPORTERS}


def import_logs(kind: str, files: Sequence[str], options: Options) -> Imported:
    """Read files of one kind (or, "auto", of the kind that their content shows) as one tuning log.

    Raises:
        LogError: a file is not of that kind, or cannot be read.
        UsageError: the options do not fit the kind, or say too little.
    """
    left_out: list[str] = []
    named = None if kind == AUTO else BY_KIND[kind]
    read = [file for f in files or expanded(files, "*") for file in _known(f, named, left_out)]
    importer = named or _kind_of(read)
    sources, copies = distinct(read, importer.identity)
    _check_options(importer, options)
    imported = importer.read(sources, options)
    found: tuple[str, ...] = (f"{importer.kind} files{_others(importer, sources)}",) if kind == AUTO else ()
    if left_out:
        what = "no known kind" if kind == AUTO else "another kind"
        found += (f"{counted(len(left_out), 'file')} of {what} left out, the first: {left_out[0]}",)
    notes = (*found, *copies, *imported.notes)
    return replace(imported, kind=importer.kind, notes=(*formula_note(imported), *notes))


def _known(path: str, kind: Importer | None, left_out: list[str]) -> list[Foreign]:
    """A file; of a folder the files of the kind (of any), where there are some: a cache holds binaries, too.

    Where there are none, those that are text: the kind says what is wrong with them. The texts of others are not kept,
    since a cache may be larger than the memory.
    """
    if not os.path.isdir(path):
        return [read_foreign(path)]
    found, others, texts, wrong = list[Foreign](), list[str](), list[str](), list[LogError]()
    for name in expanded([path], kind.pattern if kind else "*"):
        try:
            file = read_foreign(name)
        except LogError as error:
            others.append(name)
            wrong.append(error)
            continue
        if kind.recognises(file) if kind else recognised(file):
            found.append(file)
        else:
            others.append(name)
            texts.append(name)
            wrong += [] if kind else [_unknown(name)]
    if found:
        left_out += map(printable, others)
        return found
    if kind is None or not texts:
        raise wrong[0]
    return [read_foreign(name) for name in texts]


def _unknown(file: str) -> LogError:
    known = ", ".join(i.kind for i in IMPORTERS)
    hint = f"known: {known}; see docs/importing.md; for a table of your own: heurgen init"
    return LogError("is of no known kind", file=file, hint=hint)


def _kind_of(sources: Sequence[Foreign]) -> Importer:
    found = {file.file: recognised(file) for file in sources}
    for file, importer in found.items():
        if importer is None:
            raise _unknown(file)
    kinds = {i.kind: file for file, i in found.items() if i is not None}
    if len(kinds) > 1:
        said = ", ".join(f"{printable(file)} is {kind}" for kind, file in sorted(kinds.items()))
        raise UsageError(f"the files are of {len(kinds)} kinds: {said}", hint="import one kind at a time")
    return BY_KIND[next(iter(kinds))]


def recognised(file: Foreign) -> Importer | None:
    """The first importer whose marks the file bears."""
    return next((i for i in IMPORTERS if i.recognises(file)), None)


def _others(importer: Importer, sources: Iterable[Foreign]) -> str:
    """What else reads the files: a program that prints its tunings prints those of Triton and of Inductor."""
    kinds = {i.kind: i for f in sources for i in IMPORTERS if i.module != importer.module and i.recognises(f)}
    return f"; what they hold of {', '.join(kinds)} is read where that kind is named" if kinds else ""


def _check_options(importer: Importer, options: Options) -> None:
    default = Options()
    for name in (f.name for f in fields(Options)):
        if getattr(options, name) != getattr(default, name) and name not in importer.takes:
            takes = ", ".join(map(option_name, importer.takes))
            raise UsageError(f"{importer.kind} takes no {option_name(name)}", hint=f"it takes {takes}")
    for field, names in (("keys", options.keys), ("features", options.features)):
        # Of two values of one name the first would be lost, and scenarios that differ in it become one.
        if twice := [n for i, n in enumerate(names) if n in names[:i]]:
            raise UsageError(
                f"{option_name(field)} names {quoted(twice[0])} twice", hint="name each value apart"
            )


def option_name(field: str) -> str:
    """The command-line option of a field of `Options`."""
    return {"features": "--feature", "key_from": "--key-from"}.get(field, f"--{field}")


def name_pairs(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`OLD=NEW` (or `NAME=VALUE`) options as a mapping.

    Raises:
        UsageError: one has another form, or a name occurs twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        left, equals, right = pair.partition("=")
        if not (equals and left and right) or left in found:
            form = "OLD=NEW, each OLD once" if option == "--rename" else "NAME=VALUE, each NAME once"
            raise UsageError(f"found {option} {quoted(pair)}, expected {form}")
        found[left] = right
    return found
