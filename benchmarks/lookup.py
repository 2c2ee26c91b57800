"""What a look-up costs: generated functions against other ways to ask the same tree, in one run.

    python benchmarks/lookup.py [--inputs 200] [--depth 8]

Every way answers the same random inputs with the same tree. Nanoseconds per call: for each input the best of
three loops, then the median over inputs. Arguments are literals, so none is built inside the timing.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import m2cgen  # type: ignore[import-untyped]
import numpy as np
from sklearn.tree import DecisionTreeClassifier

from heurgen import ir
from heurgen.render.python import render_python
from heurgen.trees.from_sklearn import from_sklearn

NAMES = ("num_seqs", "max_seqlen_q", "avg_seqlen_q", "max_seqlen_k", "avg_seqlen_k", "head_size")
N_CONFIGS = 8


def fitted_tree(depth: int) -> DecisionTreeClassifier:
    """A tree of full depth over random shapes; its classes stand for configs."""
    rng = np.random.RandomState(0)
    x = rng.randint(1, 10_000, size=(20_000, len(NAMES)))
    y = (x @ rng.randint(1, 100, size=len(NAMES)) // 50_000 + x[:, 0] // 1000 * (x[:, 1] > 5000)) % N_CONFIGS
    return DecisionTreeClassifier(max_depth=depth, random_state=0).fit(x, y)


def loaded(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "<generated>", "exec"), namespace)
    return namespace


def nanoseconds(
    statement: Callable[[tuple[int, ...]], str], scope: Mapping[str, Any], rows: list[Any]
) -> float:
    """The median over rows of the best of three loops."""
    found = []
    for row in rows:
        timer = timeit.Timer(statement(row), globals=dict(scope))
        once = max(timer.timeit(1), 1e-7)
        loops = max(1, min(5000, int(1e-3 / once)))
        found.append(min(timer.repeat(3, loops)) / loops * 1e9)
    return statistics.median(found)


def table(depth: int, n_inputs: int) -> list[tuple[str, float]]:
    tree = fitted_tree(depth)
    features = [ir.Feature(name, "int") for name in NAMES]
    module = from_sklearn(tree, features=features, kernel="benchmark", vendor="nvidia")
    generated = loaded(render_python(module))
    score = loaded(m2cgen.export_to_python(tree))["score"]
    rng = np.random.RandomState(1)
    rows = [tuple(int(v) for v in row) for row in rng.randint(1, 10_000, size=(n_inputs, len(NAMES)))]
    selector = generated["SELECTORS"]["nvidia"]
    answers = {row: selector(*row) for row in rows}
    for row in rows:
        assert int(answers[row][0]) == int(tree.predict([row])[0]) == int(np.argmax(score(row)))
    scope = {"selector": selector, "select": generated["select"], "score": score, "answers": answers}
    scope |= {"predict": tree.predict, "np": np}

    def keywords(row: tuple[int, ...]) -> str:
        return ", ".join(f"{name}={value}" for name, value in zip(NAMES, row, strict=True))

    def looked_up(row: tuple[int, ...]) -> str:
        # Names, not literals: a key of constants would be one constant, and its hash would be known.
        return f"answers[{', '.join(f'f{i}' for i in range(len(row)))}]"

    results = [
        ("SELECTORS function", nanoseconds(lambda r: f"selector{r}", scope, rows)),
        ("select", nanoseconds(lambda r: f"select(vendor='nvidia', {keywords(r)})", scope, rows)),
        ("m2cgen function", nanoseconds(lambda r: f"score({list(r)})", scope, rows)),
    ]
    by_row = [
        nanoseconds(looked_up, scope | {f"f{i}": value for i, value in enumerate(row)}, [row]) for row in rows
    ]
    results.append(("dict, tuple key", statistics.median(by_row)))
    results.append(("sklearn predict", nanoseconds(lambda r: f"predict([{r}])", scope, rows[:20])))
    return results


def import_milliseconds(text: str, flags: list[str], before: str) -> float:
    """The median of nine imports of the module, compiled already, each in a fresh interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "generated.py").write_text(text, encoding="utf-8")
        program = (
            f"import sys, time; sys.path.insert(0, {folder!r}); {before}\n"
            "start = time.perf_counter(); import generated; print((time.perf_counter() - start) * 1e3)"
        )
        command = [sys.executable, *flags, "-c", program]
        subprocess.run(command, check=True, capture_output=True)
        runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(9)]
    return statistics.median(map(float, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--depth", type=int, default=8)
    arguments = parser.parse_args()
    results = table(arguments.depth, arguments.inputs)
    base = results[0][1]
    print(f"Python {sys.version.split()[0]}, depth {arguments.depth}, {arguments.inputs} inputs, medians")
    for name, value in results:
        print(f"{name:<20} {value:>10.0f} ns {value / base:>8.2f} x")
    features = [ir.Feature(name, "int") for name in NAMES]
    text = render_python(from_sklearn(fitted_tree(arguments.depth), features=features, vendor="nvidia"))
    print(f"import, cold         {import_milliseconds(text, ['-I', '-S'], ''):>10.2f} ms (python -I -S)")
    loaded_typing = import_milliseconds(text, ["-I"], "import typing")
    print(f"import, typing known {loaded_typing:>10.2f} ms")


if __name__ == "__main__":
    main()
