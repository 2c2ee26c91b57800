"""The key of `@triton.autotune`, read from a kernel's source; nothing is run.

    @triton.autotune(configs=CONFIGS, key=[*COMMON, "K"])         under any name that triton.autotune is imported by
    tuned = triton.autotune(configs=CONFIGS, key=KEYS)            used as @tuned, or as kernel = tuned(function)

The key is a list or tuple of strings; names stand for what the module assigns to them once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from heurgen.base.errors import UsageError, printable, quoted
from heurgen.logs.importers.common import usable_name
from heurgen.logs.importers.foreign import Foreign, read_foreign

# Names that stand for names that stand for names.
_MOST = 20


def decorator_keys(place: str) -> tuple[str, ...]:
    """The names in `key=[...]` of `@triton.autotune` over a function: `file.py:function`.

    Raises:
        UsageError: the place has another form.
        LogError: the file cannot be read or is no Python, has no such kernel, or its key cannot be read.
    """
    path, function = split_place(place)
    file = read_foreign(path)
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise file.error("is no Python", row=getattr(error, "lineno", None)) from error
    names = _assigned(tree)
    aliases = _aliases(tree)
    kernels: dict[str, list[ast.Call]] = {}
    for name, call in _kernels(tree, names, aliases):
        kernels.setdefault(name, []).append(call)
    if function not in kernels:
        known = ", ".join(map(printable, kernels))
        functions = {n.name: n.lineno for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        row = functions.get(function)
        message = (
            f"has no function {quoted(function)}" if row is None else f"{function} has no @triton.autotune"
        )
        raise file.error(message, row=row, hint=f"autotuned there: {known}" if known else None)
    keys = [_key(file, call, names) for call in kernels[function]]
    if other := next((i for i, key in enumerate(keys) if key != keys[0]), None):
        row = kernels[function][other].lineno
        raise file.error(
            f"{function} is autotuned by other keys on another line, too", row=row, hint="--keys"
        )
    return keys[0]


def split_place(place: str) -> tuple[str, str]:
    """`file.py:function` -> its two parts."""
    path, colon, function = place.rpartition(":")
    if not (path and colon and function):
        raise UsageError(f"found --key-from {quoted(place)}, expected FILE.py:FUNCTION")
    return path, function


def _assigned(tree: ast.Module) -> Mapping[str, ast.expr]:
    """What the module assigns to names, once each."""
    found: dict[str, ast.expr] = {}
    twice: set[str] = set()
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                if target.id in found or isinstance(node, ast.AugAssign):
                    twice.add(target.id)
                elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                    found[target.id] = node.value
    return {n: v for n, v in found.items() if n not in twice}


def _aliases(tree: ast.Module) -> frozenset[str]:
    """Names that `autotune` is imported by."""
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    return frozenset(a.asname or a.name for n in imports for a in n.names if a.name == "autotune")


def _kernels(
    tree: ast.Module, names: Mapping[str, ast.expr], aliases: frozenset[str]
) -> Iterator[tuple[str, ast.Call]]:
    """Every autotuned function, with the call of `autotune`."""

    def call_of(node: ast.expr) -> ast.Call | None:
        if isinstance(node, ast.Name):
            node = names.get(node.id, node)
        if not isinstance(node, ast.Call):
            return None
        called = node.func
        direct = isinstance(called, ast.Attribute) and called.attr == "autotune"
        return node if direct or (isinstance(called, ast.Name) and called.id in aliases) else None

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if (call := call_of(decorator)) is not None:
                    yield node.name, call
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = call_of(node.value.func)
            if call is not None:
                yield from ((t.id, call) for t in node.targets if isinstance(t, ast.Name))
                yield from ((a.id, call) for a in node.value.args if isinstance(a, ast.Name))


def _key(file: Foreign, call: ast.Call, names: Mapping[str, ast.expr]) -> tuple[str, ...]:
    node = next((k.value for k in call.keywords if k.arg == "key"), None)
    node = node or (call.args[1] if len(call.args) > 1 else None)
    try:
        found = _names(node, names, 0) if node is not None else []
    except ValueError as error:
        said = f"key is no list of names that can be read without running the file: {error}"
        raise file.error(said, row=call.lineno, hint="--keys") from error
    if not found:
        raise file.error("the decorator has no key", row=call.lineno, hint="--keys")
    if bad := next((n for n in found if not usable_name(n)), None):
        raise file.error(f"{quoted(bad)} cannot name a feature", row=call.lineno)
    return tuple(found)


def _names(node: ast.expr, names: Mapping[str, ast.expr], depth: int) -> list[str]:
    """A list of strings.

    Raises:
        ValueError: it is another; says which part.
    """
    if depth > _MOST:
        raise ValueError("names that stand for each other")
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [name for part in parts for name in _part(part, names, depth + 1)]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [*_names(left, names, depth + 1), *_names(right, names, depth + 1)]
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[only], keywords=[]):
            return _names(only, names, depth + 1)
        case ast.Name(id=name) if name in names:
            return _names(names[name], names, depth + 1)
    raise ValueError(f"found {quoted(ast.unparse(node))}")


def _part(node: ast.expr, names: Mapping[str, ast.expr], depth: int) -> list[str]:
    match node:
        case ast.Starred(value=value):
            return _names(value, names, depth)
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) if name in names:
            return _part(names[name], names, depth + 1) if depth <= _MOST else _names(node, names, depth)
    raise ValueError(f"found {quoted(ast.unparse(node))}")
