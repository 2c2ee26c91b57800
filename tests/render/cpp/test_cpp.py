"""The C++ header: compiled by g++ and clang++ with every warning an error, and asked 10,000 times per model."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heurgen import ir
from heurgen.base.errors import EmitError, HeurgenError
from heurgen.ir import schema
from heurgen.render import checksum
from heurgen.render.cpp import render_cpp
from heurgen.render.cpp.text import identifier
from heurgen.render.names import plan
from tests.render.test_hostile import PLACES
from tests.render.test_hostile import module as hostile_module
from tests.support.hostile import PAYLOADS
from tests.support.models import NAMES, answers, model

STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic")
# The IR refuses longer texts.
SHORT = [p for p in PAYLOADS if len(p) <= 1000]
COMPILERS = [
    pytest.param(c, marks=pytest.mark.skipif(shutil.which(c) is None, reason=f"{c} is not installed"))
    for c in ("g++", "clang++")
]


def compiled(compiler: str, folder: Path, source: str, *options: str) -> Path:
    (folder / "main.cpp").write_text(source)
    out = folder / "main"
    done = subprocess.run(
        [compiler, *STRICT, *options, str(folder / "main.cpp"), "-o", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:3000]
    return out


# --- ten thousand inputs ----------------------------------------------------------------------------------

PRELUDE = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Field {
    std::string text;
    operator std::int64_t() const { return std::strtoll(text.c_str(), nullptr, 10); }
    operator bool() const { return text == "1"; }
    operator double() const {
        const unsigned long long bits = std::strtoull(text.c_str(), nullptr, 16);
        double value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    operator std::string_view() const { return text; }
};
std::string unhex(const std::string& text) {
    std::string found;
    for (std::size_t i = 0; i < text.size(); i += 2)
        found += static_cast<char>(std::strtol(text.substr(i, 2).c_str(), nullptr, 16));
    return found;
}
void show(std::int64_t value) { std::printf("%lld,", static_cast<long long>(value)); }
void show(bool value) { std::printf("%d,", value); }
void show(double value) {
    unsigned long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    std::printf("%016llx,", bits);
}
void show(std::string_view value) {
    for (char c : value) std::printf("%02x", static_cast<unsigned char>(c));
    std::printf(",");
}
template <typename T> void show(const std::optional<T>& value) {
    if (value) show(*value); else std::printf("none,");
}
"""
MAIN = r"""
int main() {
    std::string line;
    int c;
    std::vector<Field> f;
    while ((c = std::getchar()) != EOF) {
        if (c == '\n') { f.push_back({line}); line.clear(); run(f); std::printf("\n"); f.clear(); }
        else if (c == '\t') { f.push_back({line}); line.clear(); }
        else line += static_cast<char>(c);
    }
}
"""
CPP_TYPES = {"int": "std::int64_t", "float": "double", "bool": "bool", "category": "std::string_view"}


def coded(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | int):
        return str(int(value))
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    return str(value).encode("utf-8", "surrogatepass").hex()


def caller(module: ir.HeuristicModule, selector: ir.Selector, number_: int) -> str:
    """Code that runs one selector on the fields of a line and shows its config."""
    prefix = plan(module).prefixes[selector.vendor, selector.device]
    words, before = [], []
    for i, feature in enumerate(module.features, 1):
        if feature.type == "category":
            before.append(f"const std::string s{i} = unhex(f[{i}].text);")
            words.append(f"std::string_view(s{i})")
        else:
            words.append(f"static_cast<{CPP_TYPES[feature.type]}>(f[{i}])")
    call = f"heurgen::{identifier(module.kernel)}::select_{prefix}({', '.join(words)})"
    shown = "".join(f"show(config.{identifier(p)});" for p in selector.parameters)
    return f'if (f[0].text == "{number_}") {{ {"".join(before)} const auto config = {call}; {shown} }}'


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str, str]:
    """Folder with the headers, the program's text, its input and what the interpreter says."""
    folder = tmp_path_factory.mktemp("cpp")
    includes, cases, lines, expected = [], [], [], []
    for name in NAMES:
        module = replace(model(name), kernel=f"{name}_")  # several models are of one kernel
        (folder / f"{name}.hpp").write_text(render_cpp(module))
        includes.append(f'#include "{name}.hpp"')
        for selector in module.selectors:
            rows, answered = answers(name, selector.vendor, selector.device, True)
            lines += ["\t".join([str(len(cases)), *map(coded, row.values())]) for row in rows]
            cases.append(caller(module, selector, len(cases)))
            few = {id(config): config for config in answered}
            shown = {i: "".join(f"{coded(v)}," for v in config.values()) for i, config in few.items()}
            expected += [shown[id(config)] for config in answered]
    run = f"void run(const std::vector<Field>& f) {{ {' '.join(cases)} }}"
    text = "\n".join([*includes, PRELUDE, run, MAIN])
    return folder, text, "\n".join(lines) + "\n", "\n".join(expected) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_header_is_the_ir(compiler: str, source: tuple[Path, str, str, str], tmp_path: Path) -> None:
    folder, text, lines, expected = source
    program = compiled(compiler, tmp_path, text, "-O1", f"-I{folder}")
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    assert done.stdout == expected


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_choice_is_a_constant_expression(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "m.hpp").write_text(render_cpp(model("two_vendors")))
    (tmp_path / "d.hpp").write_text(render_cpp(model("by_device")))
    compiled(
        compiler,
        tmp_path,
        '#include "m.hpp"\n#include "m.hpp"\n#include "d.hpp"\n'
        'constexpr auto a = heurgen::unified_attention::select_nvidia(8, 100.0, "fp8", true);\n'
        'static_assert(a.variant == "3d" && a.BLOCK_M == 16);\n'
        "constexpr auto b = heurgen::unified_attention::select_amd(9, 0.0, {}, false);\n"
        "static_assert(b.waves_per_eu.value() == 2);\n"
        "static_assert(!heurgen::unified_attention::select_amd(1, 0.0, {}, false).waves_per_eu.has_value());\n"
        # `//` needs std::fmod, so the vendor's selector is inline only; the device's own reads no such thing.
        'static_assert(heurgen::paged_attention::select_nvidia_h200(1, 1, 1, "fp8", true).TILE_SIZE == 16);\n'
        "int main() {\n"
        '    const auto c = heurgen::paged_attention::select_nvidia("NVIDIA H200", 1, 1, 1, "bfloat16", true);\n'
        '    const auto d = heurgen::paged_attention::select_nvidia("no such", 1, 1, 1, "fp8", true);\n'
        "    return c.TILE_SIZE == 64 && d.TILE_SIZE == 64 ? 0 : 1;\n}\n",
    )
    assert subprocess.run([str(tmp_path / "main")], check=False).returncode == 0


@pytest.mark.parametrize("compiler", COMPILERS)
def test_select_by_vendor(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "m.hpp").write_text(render_cpp(model("listing2")))
    compiled(
        compiler,
        tmp_path,
        '#include "m.hpp"\nusing heurgen::unified_attention::select;\n'
        'static_assert(select("nvidia", "NVIDIA H200", 1, 2, 4096.0, 64)->BLOCK_M == 64);\n'
        'static_assert(select("nvidia", "", 1, 1, 4096.0, 64)->BLOCK_M == 16);\n'
        'static_assert(!select("intel", "", 1, 1, 1.0, 1).has_value());\nint main() {}\n',
    )


@pytest.mark.parametrize("compiler", COMPILERS)
def test_names_that_are_macros_or_words_of_gnu_mode_compile(compiler: str, tmp_path: Path) -> None:
    text = json.dumps(schema.to_dict(model("listing2")))
    own = [c.name for c in (*model("listing2").features, *model("listing2").parameters)]
    for name, other in zip(
        own, ("M_PI", "INT64_MAX", "UINT8_MAX", "PRIi64", "typeof", "CHAR_BIT"), strict=False
    ):
        text = re.sub(rf"\b{name}\b", other, text)
    (tmp_path / "m.hpp").write_text(render_cpp(schema.from_dict(json.loads(text))))
    headers = "".join(f"#include <{h}>\n" for h in ("cinttypes", "climits", "cmath", "cstdint"))
    compiled(compiler, tmp_path, headers + '#include "m.hpp"\nint main() {}\n', "-std=gnu++17")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["select_nvidia", "AmdConfig"])
def test_a_feature_may_be_called_like_a_function_or_a_type(compiler: str, name: str, tmp_path: Path) -> None:
    """It hid what the function calls or returns."""
    tree = ir.Split(name, 0, ir.Leaf(0), ir.Leaf(1))
    selectors = tuple(
        ir.Selector(vendor, (parameter,), ((1,), (2,)), tree, device)
        for vendor, parameter, device in (("nvidia", "B", None), ("nvidia", "B", "H100"), ("amd", "C", None))
    )
    parameters = ir.Parameter("B", "int"), ir.Parameter("C", "int")
    text = render_cpp(ir.HeuristicModule("k", (ir.Feature(name, "int"),), parameters, selectors))
    (tmp_path / "m.hpp").write_text(text)
    source = """#include "m.hpp"
int main() { return heurgen::k::select_nvidia("H100", 1).B == 2 && heurgen::k::select_amd(0).C == 1 ? 0 : 1; }
"""
    program = compiled(compiler, tmp_path, source)
    subprocess.run([program], check=True)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_feature_that_refuses_every_category_compiles(compiler: str, tmp_path: Path) -> None:
    feature = ir.Feature("c", "category", unknown="error")
    module = replace(model("constant"), features=(feature,))
    (tmp_path / "m.hpp").write_text(render_cpp(module))
    compiled(compiler, tmp_path, '#include "m.hpp"\nint main() {}\n')


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_cuda_host_code(tmp_path: Path) -> None:
    (tmp_path / "m.hpp").write_text(render_cpp(model("arithmetic")))
    (tmp_path / "m.cu").write_text(
        '#include "m.hpp"\n__global__ void kernel() {}\n'
        "int main() { kernel<<<heurgen::arithmetic::select_nvidia(1, 2.0, 3, true).BLOCK_M, 1>>>(); }\n"
    )
    command = ["nvcc", "-std=c++17", "-c", str(tmp_path / "m.cu"), "-o", str(tmp_path / "m.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_fast_math_is_refused(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "m.cpp").write_text(render_cpp(model("constant")) + "int main() {}\n")
    command = [compiler, "-std=c++17", "-ffast-math", "-fsyntax-only", "-x", "c++", str(tmp_path / "m.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "compile without -ffast-math" in done.stderr


# --- strings are hostile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_payload_is_refused_or_inert(place: str) -> None:
    """Every header passes the token list; what a payload becomes is one literal, or one comment."""
    written = 0
    for payload in PAYLOADS:
        try:
            text = render_cpp(PLACES[place](payload))
        except HeurgenError as error:
            shown = str(error)
            assert shown.isprintable()
            assert place != "data" or len(payload) > 1000, payload
            continue
        written += 1
        checksum.verify(text)
        assert text.isascii()
        bare = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", text)
        assert not re.search(r"(?<![A-Za-z0-9_])canary\b", bare)
    assert written >= (len(SHORT) if place == "data" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_headers_with_payloads_compile_and_hold_the_bytes(compiler: str, tmp_path: Path) -> None:
    includes, asserts = [], []
    for i, payload in enumerate(SHORT[::5]):
        module = replace(PLACES["data"](payload), kernel=f"k{i}")
        (tmp_path / f"h{i}.hpp").write_text(render_cpp(module))
        includes.append(f'#include "h{i}.hpp"')
        data = payload.encode("utf-8", "surrogatepass")
        array = ", ".join(f"static_cast<char>({b})" for b in data) or "'x'"
        asserts.append(
            f"constexpr char p{i}[] = {{{array}}};\n"
            f"constexpr auto c{i} = heurgen::k{i}::select_nvidia(1.0, 4, std::string_view(p{i}, {len(data)}));\n"
            f"static_assert(c{i}.variant == std::string_view(p{i}, {len(data)}));"
        )
    compiled(compiler, tmp_path, "\n".join([*includes, *asserts, "int main() {}\n"]), "-fsyntax-only")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            hostile_module(number="a__b"),
            "'a__b' cannot be a name in C++, which reserves it (names with two underscores, or with one before a "
            "capital; rename it in the log)",
        ),
        (
            replace(model("constant"), features=(ir.Feature("new", "int"), ir.Feature("new_", "int"))),
            "'new' and 'new_' are both new_ in C++",
        ),
        (
            replace(model("constant"), selectors=(ir.Selector("any", ("BLOCK",), ((2**63,),), ir.Leaf(0)),)),
            "9223372036854775808 does not fit int64 (C++ has no wider standard integer)",
        ),
    ],
)
def test_what_has_no_header(module: ir.HeuristicModule, message: str) -> None:
    with pytest.raises(EmitError) as caught:
        render_cpp(module)
    assert str(caught.value) == message


def test_the_provenance_is_json() -> None:
    text = render_cpp(model("two_vendors"))
    pieces = re.findall(r'^    "(.*)";?$', text[text.index("provenance =\n") :], re.MULTILINE)
    assert json.loads("".join(pieces).replace('\\"', '"'))["kernel"] == "unified_attention"
    assert "// Regenerate: heurgen emit MODEL.json --target cpp" in text
