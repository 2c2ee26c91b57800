"""IR -> what a kernel's author drops into @triton.autotune: configs, pruning to a shortlist, heuristics.

    from matmul_tuned import CONFIGS, KEY, PRUNE_CONFIGS_BY

    @triton.autotune(configs=CONFIGS, key=KEY, prune_configs_by=PRUNE_CONFIGS_BY)
    @triton.jit
    def matmul(...): ...

or, with no tuning at all, `@triton.heuristics(HEURISTICS)`. The features are read from the kernel's arguments of
their names; `prune_configs_by(f)` and `heuristics(f)` take a function of the arguments that gives them instead.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from heurgen import ir
from heurgen.base.errors import EmitError, quoted
from heurgen.render import allowed, checksum, describe
from heurgen.render.body import arguments, body
from heurgen.render.environment import environment
from heurgen.render.layout import INDENT, WIDTH, assignment, block, bracketed, one_line, wrapped
from heurgen.render.python import provenance
from heurgen.render.target import Rendered, Request, one_file, one_selector
from heurgen.render.text import Code, code, literal, prose

# Arguments of triton.Config itself; every other parameter is a meta-parameter of the kernel.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_IMPORTS = (
    "from __future__ import annotations",
    "from collections.abc import Callable, Mapping, Sequence",
    "from typing import Any",
    "import triton",
)
# What every such module says in the same words.
TAIL = '''
def features_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The features, each the kernel's argument of its name."""
    missing = [name for name in FEATURES if name not in arguments]
    if missing:
        raise KeyError(f"the kernel has no argument {missing[0]!r}: pass a function that gives the features")
    return {name: arguments[name] for name in FEATURES}


def prune_configs_by(features: Callable[[Mapping[str, Any]], Mapping[str, Any]] = features_of) -> dict[str, Any]:
    """For triton.autotune's `prune_configs_by`: of its configs those of the shortlist, all where it has none."""

    def early_config_prune(
        configs: Sequence[triton.Config], named_args: Mapping[str, Any], **kwargs: Any
    ) -> list[triton.Config]:
        chosen = shortlist(**features({**named_args, **kwargs}))
        wanted = [CONFIGS[i].all_kwargs() for i in chosen]
        return [c for c in configs if c.all_kwargs() in wanted] or list(configs)

    return {"early_config_prune": early_config_prune}


def heuristics(
    features: Callable[[Mapping[str, Any]], Mapping[str, Any]] = features_of,
) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    """For @triton.heuristics: each parameter's value in the one config that is chosen."""

    def value(name: str) -> Callable[[Mapping[str, Any]], Any]:
        return lambda arguments: VALUES[shortlist(**features(arguments))[0]][name]

    return {name: value(name) for name in VALUES[0]}


KEY = list(FEATURES)
PRUNE_CONFIGS_BY = prune_configs_by()
HEURISTICS = heuristics()
'''


def emit(module: ir.HeuristicModule, request: Request) -> Rendered:
    return one_file(render_triton_autotune(module, one_selector(module, request)))


def render_triton_autotune(module: ir.HeuristicModule, selector: ir.Selector) -> str:
    """The text of the module for one selector.

    Raises:
        EmitError: a value has no literal, an option of triton.Config is no int, or the result has a construct
            that such modules do not use.
    """
    used = _used(selector)
    places = {config: i for i, config in enumerate(used)}

    def returned(leaf: ir.Leaf) -> Code:
        listed = [places[i] for i in shortlist(leaf)]
        text = ", ".join(map(str, listed)) + ("," if len(listed) == 1 else "")
        return code(f"return ({text})", describe.evidence(leaf))

    names = [f.name for f in module.features]
    rows = [dict(zip(selector.parameters, selector.listed[i], strict=True)) for i in used]
    text = (
        environment()
        .get_template("triton_autotune.py.jinja")
        .render(
            header=describe.header(module, "heurgen emit MODEL.json --target triton-autotune"),
            docstring=_docstring(module, selector, rows),
            imports=block(_IMPORTS[1:3]),
            configs=block(map(_config, rows)),
            features=assignment("FEATURES", tuple(names)),
            values=assignment("VALUES: tuple[dict[str, Any], ...]", tuple(_set_everywhere(rows))),
            signature=bracketed("def shortlist(", arguments(module), ") -> tuple[int, ...]:"),
            doc=prose(
                f"The configs to try on {describe.owner(selector)}, as places in CONFIGS, the chosen one first."
            ),
            body=body(selector.tree, module, returned),
            tail=Code(TAIL),
            provenance=assignment("PROVENANCE: dict[str, object]", provenance(module)),
        )
    )
    check(text)
    return checksum.seal(text)


def shortlist(leaf: ir.Leaf) -> tuple[int, ...]:
    """The leaf's configs to try, its choice first: one where the model has no shortlists."""
    return leaf.shortlist or (leaf.config,)


def _used(selector: ir.Selector) -> list[int]:
    """The configs that a leaf lists, each once, in the selector's order."""
    return sorted({i for leaf in ir.leaves(selector.tree) for i in shortlist(leaf)})


def _config(row: dict[str, ir.Value]) -> Code:
    """One `triton.Config(...)`; a parameter that is not applicable is left out."""
    known = {name: value for name, value in row.items() if value is not None}
    for name in OPTIONS:
        if name in known and type(known[name]) is not int:
            raise EmitError(f"{name} takes the value {quoted(known[name])}, expected an int")
    kwargs = {name: value for name, value in known.items() if name not in OPTIONS}
    options = [f"{name}={literal(known[name])}" for name in OPTIONS if name in known]
    line = f"{INDENT}triton.Config({', '.join([one_line(kwargs), *options])}),"
    if len(line) <= WIDTH:
        return Code(line)
    items = [f"{INDENT * 3}{literal(k)}: {literal(v)}," for k, v in kwargs.items()]
    inner = [f"{INDENT * 2}{option}," for option in options]
    return block(
        [f"{INDENT}triton.Config(", f"{INDENT * 2}{{", *items, f"{INDENT * 2}}},", *inner, f"{INDENT}),"]
    )


def _set_everywhere(rows: Sequence[dict[str, ir.Value]]) -> list[dict[str, ir.Value]]:
    """Only what every config sets: @triton.heuristics has no way to leave one out for some launches."""
    names = [name for name in rows[0] if all(row[name] is not None for row in rows)]
    return [{name: row[name] for name in names} for row in rows]


def _docstring(
    module: ir.HeuristicModule, selector: ir.Selector, rows: Sequence[dict[str, ir.Value]]
) -> Code:
    lines: list[str] = [
        f"What to try of {prose(module.kernel)} on {prose(describe.owner(selector))}, for Triton."
    ]
    lines += ["", "    @triton.autotune(configs=CONFIGS, key=KEY, prune_configs_by=PRUNE_CONFIGS_BY)", ""]
    said = (
        "tries the shortlist of a launch; `@triton.heuristics(HEURISTICS)` takes the one choice without trying. "
        "The features are the kernel's arguments of these names:"
    )
    lines += [*wrapped(said, "", ""), ""]
    lines += describe.feature_lines(module, "    ")
    if unset := [name for name in rows[0] if name not in _set_everywhere(rows)[0]]:
        said = f"Not among HEURISTICS, since a config leaves it out: {', '.join(unset)}."
        lines += ["", *wrapped(f"{said} The kernel's default stands.", "", "")]
    return block([*lines, "", *describe.edge_cases(module)])


# --- the allow-list ---------------------------------------------------------------------------------------


def check(text: str) -> None:
    """Parse a generated module and check it against what we write; nothing is executed. Raises EmitError."""
    allowed.check_statements(text, "\n".join(_IMPORTS) + TAIL, _is_allowed)


def _is_allowed(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id="CONFIGS")], value=ast.List(elts=items), type_comment=None):
            return all(map(_is_config, items))
        case ast.Assign(targets=[ast.Name(id="FEATURES")], value=value, type_comment=None):
            return allowed.is_literal(value)
        case ast.AnnAssign(target=ast.Name(id="VALUES" | "PROVENANCE"), value=value):
            return allowed.is_literal(value)
        case ast.FunctionDef(name="shortlist"):
            return allowed.is_tree(statement)
    return False


def _is_config(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=function, args=[ast.Dict() as kwargs], keywords=keywords):
            plain = all(k.arg in OPTIONS and allowed.is_literal(k.value) for k in keywords)
            return ast.unparse(function) == "triton.Config" and allowed.is_literal(kwargs) and plain
    return False
