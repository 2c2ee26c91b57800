"""What PyTorch's TunableOp writes (tunableop_results0.csv) -> winners, by their name in that build of the libraries.

    Validator,PT_VERSION,2.9.1
    Validator,GCN_ARCH_NAME,gfx942:sramecc+:xnack-
    GemmTunableOp_BFloat16_TN,tn_4096_64_8192_ld_8192_8192_4096,Gemm_Hipblaslt_1234,0.0412

The operator with its types and layout, the sizes, the winner, its time in ms (it may be missing; what
PYTORCH_TUNABLEOP_BLAS_LOG adds behind it says nothing new). The sizes are M, N, K, of a batched product `B` and their
number, of newer versions `ld` and the leading dimensions, of a scaled one `rw` (a scale a row) and `bias`. Of torch
2.15 a product of float32 computed in bfloat16 says so at the end, a scaled one how its scales are swizzled or, on
NVIDIA, the types of operands and scales; `*` is a size that the program called dynamic: such a row repeats the winner
of the size that was tuned. A winner without time or with an infinite one is the default of an operator that was never
tuned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heurgen.base.errors import quoted
from heurgen.base.text import counted
from heurgen.logs.importers.collect import Collected, Options, one_kernel
from heurgen.logs.importers.common import Imported
from heurgen.logs.importers.foreign import Foreign, cell, csv_number, lines, time_of

_VALIDATOR = re.compile(r"Validator,([A-Z_]+),(.*)")
_OPERATOR = re.compile(r"([A-Za-z]*Gemm[A-Za-z]*)TunableOp_(.+)_([NTC]{2})")
_SIZE = r"([0-9]{1,15}|\*)"
_SIZES = re.compile(
    rf"[ntc]{{2}}_{_SIZE}_{_SIZE}_{_SIZE}(?:_B_{_SIZE})?(?:_ld_{_SIZE}_{_SIZE}_{_SIZE})?"
    r"(?:_rw_([01])_bias_([A-Za-z0-9_]+?))?(?:_swz_([0-9]{1,3}_[0-9]{1,3}))?"
    r"(?:_a_\w+?_b_\w+?_c_\w+?_as_(\w+?)_bs_(\w+?)_ast_([0-9]{1,3})_bst_([0-9]{1,3})_dscale_([01])_fast_([01])"
    r"_bias_([A-Za-z0-9_]+))?(?:_compute_(\w+))?",
    re.ASCII,
)
_NAMES = (
    *("M", "N", "K", "B", "lda", "ldb", "ldc", "rowwise", "bias", "swizzle"),
    *("scale_a", "scale_b", "scaling_a", "scaling_b", "scaled_result", "fast_accum", "bias", "compute"),
)
# What only some rows of an operator say, at the end of their sizes.
_SOMETIMES = ("swizzle", "compute")
_ARCHITECTURE = "GCN_ARCH_NAME"
# Whose solutions the names stand for.
_LIBRARIES = ("HIPBLASLT_VERSION", "ROCBLAS_VERSION")
_DEFAULT = "Default"
# A size that the program called dynamic.
_ANY = "*"


@dataclass(frozen=True, slots=True)
class _Row:
    operator: str
    problem: dict[str, str]
    solution: str
    time: float | None


def recognises(file: Foreign) -> bool:
    first = file.text.lstrip()[:1024].partition("\n")[0]
    return _VALIDATOR.match(first) is not None or _OPERATOR.fullmatch(first.partition(",")[0]) is not None


def import_tunableop(files: Sequence[Foreign], options: Options) -> Imported:
    found = Collected("tunableop", winners_only=True)
    read = [(file, _validators(file), [*_rows(file)]) for file in files]
    _check_build([(file, validators) for file, validators, _ in read])
    known = {row.operator for _, _, rows in read for row in rows}
    found.kernel = one_kernel(known, options.kernel) if known else "gemm"
    said = {n for _, _, rows in read for row in rows if row.operator == found.kernel for n in row.problem}
    unsaid = {n: "none" for n in _SOMETIMES if n in said}
    untuned, dynamic = 0, 0
    for file, validators, rows in read:
        told = validators.get(_ARCHITECTURE, "").partition(":")[0] or None
        device, vendor = found.place(file.file, told, options)
        for row in (r for r in rows if r.operator == found.kernel):
            if row.solution == _DEFAULT and row.time is None:
                untuned += 1
            elif _ANY in row.problem.values():
                dynamic += 1
            else:
                problem = row.problem | {n: v for n, v in unsaid.items() if n not in row.problem}
                found.add(found.scenario(vendor, device, problem), {"solution": row.solution}, row.time)
    if untuned:
        found.notes.append(f"{counted(untuned, 'problem')} left out: the default stands there untuned")
    if dynamic:
        found.notes.append(f"{counted(dynamic, 'winner')} of dynamic sizes left out: tuned for another size")
    return found.imported(options)


def _validators(file: Foreign) -> dict[str, str]:
    return {v[1]: v[2].strip() for _, text in lines(file) if (v := _VALIDATOR.fullmatch(text.strip()))}


def _check_build(files: Sequence[tuple[Foreign, dict[str, str]]]) -> None:
    builds = {tuple(said.get(n, "") for n in _LIBRARIES): file for file, said in files}
    if len(builds) > 1:
        names = "; ".join(", ".join(filter(None, b)) or "none named" for b in sorted(builds))
        raise builds[max(builds)].error(
            f"the tunings are of {len(builds)} builds of the libraries ({names}), whose solutions have other names",
            hint="import those of one build at a time",
        )


def _rows(file: Foreign) -> Iterator[_Row]:
    for number, text in lines(file):
        if _VALIDATOR.fullmatch(text.strip()):
            continue
        cells = [c.strip() for c in text.split(",", 4)]
        operator = _OPERATOR.fullmatch(cells[0])
        if operator is None:
            raise file.error(f"found {quoted(cells[0])}, expected an operator: GemmTunableOp_...", row=number)
        if len(cells) < 3:
            hint = "a list of problems that are still to be tuned?"
            raise file.error("the solution is missing", row=number, hint=hint)
        sizes = _SIZES.fullmatch(cells[1])
        if sizes is None:
            expected = "sizes: tn_<M>_<N>_<K>, then ld and so on"
            raise file.error(f"found {quoted(cells[1])}, expected {expected}", row=number)
        problem = {"dtype": operator[2], "layout": operator[3]}
        problem |= {n: v for n, v in zip(_NAMES, sizes.groups(), strict=True) if v is not None}
        solution = cell(file, cells[2], f"line {number}: solution")
        yield _Row(operator[1], problem, solution, _time(file, number, cells[3:]))


def _time(file: Foreign, row: int, cells: Sequence[str]) -> float | None:
    """The time in ms; None where there is none: the cell is missing, or 0."""
    value = csv_number(file, cells[0], row, "time") if cells and cells[0] else 0.0
    return None if value == 0 else time_of(file, value, f"line {row}: time")
