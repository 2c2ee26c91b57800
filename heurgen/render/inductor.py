"""IR -> a subclass of torch.compile's `LookupTableChoices` that asks the tree where PyTorch looks a table up.

    import torch._inductor.config, mm_choices
    torch._inductor.config.inductor_choices_class = mm_choices.Choices

Needs torch 2.11 or later, and `max_autotune`. A table serves the shapes it lists; the tree serves every matrix
product. Configs are those of the Triton templates `mm` and `bmm` (BLOCK_M, BLOCK_N, BLOCK_K, num_warps, ...). A
parameter called `type`, `backend` or `template_id` says which implementation a config is of: `cublas` or `aten` leaves
it to the library.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping

from heurgen import ir
from heurgen.base.errors import EmitError, quoted
from heurgen.ir.schema import to_json
from heurgen.render import allowed, checksum, describe
from heurgen.render.body import arguments, body
from heurgen.render.environment import environment
from heurgen.render.layout import assignment, block, bracketed, wrapped
from heurgen.render.python import provenance
from heurgen.render.target import Rendered, Request, one_file, one_selector
from heurgen.render.text import Code, code, prose

# What PyTorch knows of a product before it chooses; a feature takes the field of its name, or what --map says.
FIELDS = ("M", "N", "K", "batch", "dtype", "op")
IMPLEMENTATION = ("template_id", "type", "backend")
# PyTorch puts its own first config's where one is not said, and makes unused constants of names it does not know.
REQUIRED = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
# ATen's own kernels go by their names in what max-autotune prints.
EXTERN = frozenset(
    "aten cublas hipblas hipblaslt rocblas extern "
    "mm mm_dtype addmm bias_addmm bmm bmm_dtype baddbmm _int_mm _scaled_mm".split()
)
_SPELLINGS = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
_IMPORTS = (
    "from __future__ import annotations",
    "from typing import Any",
    "from torch._inductor.kernel_inputs import MMKernelInputs",
    "from torch._inductor.lookup_table.choices import LookupTableChoices",
)
TAIL = '''
class Choices(LookupTableChoices):
    """One config for every matrix product; what it does not know is tuned as PyTorch tunes it."""

    def uuid(self) -> str:
        return UUID

    def lookup_template_configs(
        self,
        kernel_inputs: Any,
        op_name: str,
        template_uids: list[str],
        template_hash_map: dict[str, str | None] | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        if not isinstance(kernel_inputs, MMKernelInputs) or kernel_inputs.device_type == "cpu":
            return {}
        matrix = kernel_inputs.mat1mat2()[0]
        m, n, k = kernel_inputs.mnk_hinted()
        dtype = str(matrix.get_dtype()).removeprefix("torch.")
        batch = kernel_inputs.shapes_hinted()[kernel_inputs._mat1_idx][0] if len(matrix.get_size()) > 2 else 1
        known: dict[str, Any] = {"M": m, "N": n, "K": k, "batch": batch, "op": op_name}
        known["dtype"] = DTYPES.get(dtype, dtype)
        implementation, config = CONFIGS[choose(**{name: known[field] for name, field in FEATURES.items()})]
        if implementation == "aten":
            return {uid: [{}] for uid in template_uids if uid.startswith("aten::")}
        wanted = ("triton::mm", "triton::bmm") if implementation == "triton" else (implementation,)
        config = dict(config)
        if "BLOCK_K" in config:
            # A K that is known only when the kernel runs may be any number: no promise then.
            size = str(matrix.get_size()[-1])
            config["EVEN_K"] = size.isdigit() and int(size) % config["BLOCK_K"] == 0
        return {uid: [dict(config)] for uid in template_uids if uid in wanted}
'''


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    return one_file(render_inductor(module, one_selector(module, request), request.names))


def render_inductor(module: ir.HeuristicModule, selector: ir.Selector, names: Mapping[str, str]) -> str:
    """The text of the module for one selector. `names`: field of PyTorch -> feature of the model.

    Raises:
        EmitError: a feature is nothing that PyTorch knows, a config lacks a block size, or the result has a construct
            that such modules do not use.
    """
    fields = _fields(module, names)
    text = (
        environment()
        .get_template("inductor.py.jinja")
        .render(
            header=describe.header(module, "heurgen emit MODEL.json --target inductor"),
            docstring=_docstring(module, selector),
            imports=block(_IMPORTS[2:]),
            configs=assignment(
                "CONFIGS: tuple[tuple[str, dict[str, Any]], ...]",
                tuple(_config(selector, c) for c in selector.configs),
            ),
            features=assignment("FEATURES", fields),
            dtypes=assignment("DTYPES: dict[str, str]", _dtypes(module, fields)),
            uuid=assignment("UUID", _uuid(module, selector, fields)),
            provenance=assignment("PROVENANCE: dict[str, object]", provenance(module)),
            signature=bracketed("def choose(", arguments(module), ") -> int:"),
            doc=prose(f"The config for {describe.owner(selector)}, as its place in CONFIGS."),
            body=body(
                selector.tree, module, lambda leaf: code(f"return {leaf.config}", describe.evidence(leaf))
            ),
            tail=Code(TAIL),
        )
    )
    check(text)
    return checksum.seal(text)


def _uuid(module: ir.HeuristicModule, selector: ir.Selector, fields: Mapping[str, str]) -> str:
    """What PyTorch's cache of compiled graphs knows the choices by: another answer needs another one."""
    said = json.dumps([to_json(module), selector.vendor, selector.device, fields, TAIL])
    return f"heurgen-{hashlib.sha256(said.encode()).hexdigest()[:32]}"


def _fields(module: ir.HeuristicModule, names: Mapping[str, str]) -> dict[str, str]:
    """Feature -> field, in the order of the features."""
    if unknown := sorted(set(names) - set(FIELDS)):
        raise EmitError(f"--map names {quoted(unknown[0])}", hint=f"PyTorch knows {', '.join(FIELDS)}")
    field_of = {spelt: f for f in FIELDS for spelt in (f, f.lower())} | {
        feature: field for field, feature in names.items()
    }
    for feature in module.features:
        if feature.name not in field_of:
            raise EmitError(
                f"the feature {quoted(feature.name)} is nothing that PyTorch knows of a matrix product",
                hint=f"it knows {', '.join(FIELDS)}: --map M={feature.name} says that a feature is one of them; "
                "leave others out of the spec, and train again",
            )
    return {f.name: field_of[f.name] for f in module.features}


def _dtypes(module: ir.HeuristicModule, fields: Mapping[str, str]) -> dict[str, str]:
    """PyTorch's name of a dtype -> the model's, where they differ."""
    found = {}
    for feature in module.features:
        if fields[feature.name] == "dtype":
            for spelt, value in (*sorted(feature.aliases), *((v, v) for v in feature.values)):
                plain = spelt.removeprefix("torch.")
                found[_SPELLINGS.get(plain, plain)] = value
    return {name: value for name, value in found.items() if name != value}


def _config(selector: ir.Selector, config: ir.Config) -> tuple[str, dict[str, ir.Value]]:
    """The implementation ("aten", "triton", or a template's id) and the template's arguments.

    Raises:
        EmitError: the templates mm and bmm would fill in a block size that was not measured.
    """
    row: dict[str, ir.Value] = {
        n: v for n, v in zip(selector.parameters, config, strict=True) if v is not None
    }
    named = [row.pop(name) for name in IMPLEMENTATION if name in row]
    chosen = str(named[0]) if named else "triton"
    if chosen.lower() in EXTERN or chosen.startswith(("aten::", "extern_")):  # AutoHeuristic: extern_mm
        return "aten", {}
    missing = [name for name in REQUIRED if name not in row]
    if missing and chosen in ("triton", "triton::mm", "triton::bmm"):
        raise EmitError(
            f"PyTorch's template mm needs {missing[0]}, which the model does not choose",
            hint=f"call the parameters {', '.join(REQUIRED)} in the spec, and train again; a parameter called "
            "template_id says that a config is of another template",
        )
    return chosen, row


def _docstring(module: ir.HeuristicModule, selector: ir.Selector) -> Code:
    lines: list[str] = [
        f"Configs of matrix products on {prose(describe.owner(selector))}, for torch.compile.",
        "",
    ]
    lines += ["    torch._inductor.config.inductor_choices_class = Choices", ""]
    lines += wrapped(
        "A product gets the one config that the tree chooses, without tuning. The features:", "", ""
    )
    lines.append("")
    lines += describe.feature_lines(module, "    ")
    return block([*lines, "", *describe.edge_cases(module)])


# --- the allow-list ---------------------------------------------------------------------------------------


def check(text: str) -> None:
    """Parse a generated module and check it against what we write; nothing is executed. Raises EmitError."""
    allowed.check_statements(text, "\n".join(_IMPORTS) + TAIL, _is_allowed)


def _is_allowed(statement: ast.stmt) -> bool:
    match statement:
        case ast.AnnAssign(target=ast.Name(id="CONFIGS" | "DTYPES" | "PROVENANCE"), value=value):
            return allowed.is_literal(value)
        case ast.Assign(targets=[ast.Name(id="FEATURES" | "UUID")], value=value, type_comment=None):
            return allowed.is_literal(value)
        case ast.FunctionDef(name="choose"):
            return allowed.is_tree(statement)
    return False
