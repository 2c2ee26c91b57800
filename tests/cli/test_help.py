"""Every error leads to a passage that explains it, and `heurgen help` prints the passage."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from heurgen.base import errors
from heurgen.cli import main
from heurgen.cli.common import Group
from heurgen.cli.help import Message, docs_folder, help_line, pages, topic_of, topics

ROOT = Path(__file__).parents[2]
HEADER = "vendor,device,M,N,BLOCK,num_warps,status,time_ms".split(",")
ROWS = [
    ["nvidia", "NVIDIA H200", m, n, block, warps, "ok", 1 + m / block / 10 + n / 1000 / warps]
    for m, n in itertools.product((1, 16, 256), (64, 4096))
    for block, warps in itertools.product((16, 64), (4, 8))
]
SPEC = """[kernel]
name = "k"
[features]
M = { type = "int", min = 1 }
N = { type = "int" }
[parameters]
BLOCK = { type = "int" }
num_warps = { type = "int" }
"""


def table(header: list[str], rows: list[list[object]]) -> str:
    return "".join(",".join(map(str, line)) + "\n" for line in (header, *rows))


def with_cell(row: int, column: str, value: object) -> str:
    rows = [list(r) for r in ROWS]
    rows[row][HEADER.index(column)] = value
    return table(HEADER, rows)


def without(column: str) -> str:
    i = HEADER.index(column)
    return table(HEADER[:i] + HEADER[i + 1 :], [r[:i] + r[i + 1 :] for r in ROWS])


GOOD = table(HEADER, ROWS)
FILES: dict[str, str | bytes] = {
    "ok.csv": GOOD,
    "k.toml": SPEC,
    "word.csv": with_cell(3, "M", "big"),
    "float.csv": with_cell(3, "M", 1.5),
    "blank.csv": with_cell(3, "M", ""),
    "low.csv": with_cell(3, "M", 0),
    "huge.csv": with_cell(3, "M", 2**60),
    "negative.csv": with_cell(3, "time_ms", -1),
    "nan.csv": with_cell(3, "time_ms", "nan"),
    "capitals.csv": with_cell(3, "vendor", "NVIDIA"),
    "spaces.csv": with_cell(3, "device", " H200"),
    "notime.csv": without("time_ms"),
    "nofeature.csv": without("N"),
    "noparameter.csv": without("BLOCK"),
    "novendor.csv": without("vendor"),
    "nodevice.csv": without("device"),
    "failed.csv": table(HEADER, [[*r[:6], "oom", ""] for r in ROWS]),
    "ragged.csv": GOOD.replace(",ok,", ",", 1),
    "twice.csv": GOOD.replace("num_warps", "M", 1),
    "header.csv": table(HEADER, []),
    "empty.csv": "",
    "latin.csv": GOOD.encode().replace(b"H200", b"H\xe9"),
    "utf16.csv": GOOD.encode("utf-16"),
    "quote.csv": GOOD + '"abc,1\n',
    "fake.csv.gz": GOOD,
    "few.csv": table(HEADER, ROWS[:8]),
    "winners.csv": table(HEADER, ROWS[::4]),
    "tflops.csv": GOOD.replace("time_ms", "tflops"),
    "broken.toml": "[kernel\n",
    "table.toml": SPEC.replace("[parameters]", "[params]"),
    "key.toml": SPEC.replace("type", "typ", 1),
    "type.toml": SPEC.replace('"int"', '"integer"', 1),
    "nofeatures.toml": '[kernel]\nname = "k"\n[parameters]\nBLOCK = { type = "int" }\n',
    "noname.toml": SPEC.replace('name = "k"', ""),
    "dash.toml": SPEC.replace("num_warps", '"num-warps"'),
    "keyword.toml": SPEC.replace("M =", "lambda =", 1),
    "reserved.toml": SPEC.replace("M =", "select =", 1),
    "power.toml": SPEC + '[derived]\na = "M ** 2"\n',
    "unknown.toml": SPEC + '[derived]\na = "M * K"\n',
    "syntax.toml": SPEC + '[derived]\na = "M *"\n',
    "space.toml": 'constraints = ["BLOCK >"]\n[parameters]\nBLOCK_M = [16]\n',
    "tflops.toml": SPEC + '[log]\ntime = "tflops"\n',
    "category.toml": SPEC.replace(
        'N = { type = "int" }', 'N = { type = "category", values = ["64"] }'
    ),
    "edited.json": "{}",
    "cut.jsonl": '{"vendor": "nvidia"',
}  # fmt: skip

# What a new user gets wrong, and the topic that it leads to.
WRONG = {
    "trian ok.csv": "command-line",
    "train": "command-line",
    "import": None,
    "train --spec k.toml -o x.json": "command-line",
    "train ok.csv -o x.json": "command-line",
    "train ok.csv --spec k.toml -o": "command-line",
    "train ok.csv --spec k.toml -o x.json --depth 3": "command-line",
    "train ok.csv --spec k.toml -o x.json --strategy best": "command-line",
    "validate ok.csv --spec k.toml --json=1": "command-line",
    "build a b": "command-line",
    "help trian": "command-line",
    "help spec train": "command-line",
    "help import trition": "command-line",
    "diff model.json model.json ok.csv": "command-line",
    "train nowhere.csv --spec k.toml -o x.json": "files-that-cannot-be-read",
    "train . --spec k.toml -o x.json": "files-that-cannot-be-read",
    "build": "files-that-cannot-be-read",
    "train ok.csv --spec k.toml -o ok.csv": "files-that-cannot-be-written",
    "train ok.csv --spec k.toml -o no/where.json": "files-that-cannot-be-written",
    "init ok.csv -o k.toml": "files-that-cannot-be-written",
    "emit model.json -o ok.csv/x --target vllm-moe --at E=1 --map BLOCK_SIZE_M=BLOCK": "emitting-for-a-launcher",
    "validate empty.csv --spec k.toml": "not-a-csv",
    "validate header.csv --spec k.toml": "not-a-csv",
    "validate ragged.csv --spec k.toml": "not-a-csv",
    "validate twice.csv --spec k.toml": "not-a-csv",
    "validate quote.csv --spec k.toml": "not-a-csv",
    "validate latin.csv --spec k.toml": "not-a-csv",
    "validate utf16.csv --spec k.toml": "not-a-csv",
    "validate fake.csv.gz --spec k.toml": "not-a-csv",
    "validate notime.csv --spec k.toml": "missing-column",
    "validate nofeature.csv --spec k.toml": "missing-column",
    "validate noparameter.csv --spec k.toml": "missing-column",
    "validate novendor.csv --spec k.toml": "missing-column",
    "validate nodevice.csv --spec k.toml": "missing-column",
    "validate tflops.csv --spec k.toml": "missing-column",
    "init ok.csv -o x.toml --time ms": "missing-column",
    "validate word.csv --spec k.toml": "wrong-value-in-a-cell",
    "validate float.csv --spec k.toml": "wrong-value-in-a-cell",
    "validate blank.csv --spec k.toml": "wrong-value-in-a-cell",
    "validate low.csv --spec k.toml": "wrong-value-in-a-cell",
    "validate huge.csv --spec k.toml": "wrong-value-in-a-cell",
    "validate ok.csv --spec category.toml": "wrong-value-in-a-cell",
    "validate negative.csv --spec k.toml": "time-column",
    "validate nan.csv --spec k.toml": "time-column",
    "validate tflops.csv --spec tflops.toml": "time-column",
    "init notime.csv -o x.toml": "time-column",
    "validate capitals.csv --spec k.toml": "vendor-and-device",
    "validate spaces.csv --spec k.toml": "vendor-and-device",
    "explain model.json --vendor intel M=1 N=1": "vendor-and-device",
    "import miopen ok.csv -o x.csv": "vendor-and-device",
    "validate failed.csv --spec k.toml": "nothing-to-learn-from",
    "evaluate few.csv --spec k.toml": "nothing-to-learn-from",
    "init ok.csv -o x.toml --features M,BLOCK --parameters BLOCK": "nothing-to-learn-from",
    "validate ok.csv --spec broken.toml": "not-a-toml-file",
    "validate ok.csv --spec ok.csv": "not-a-toml-file",
    "validate ok.csv --spec table.toml": "keys-of-a-toml-file",
    "validate ok.csv --spec key.toml": "keys-of-a-toml-file",
    "validate ok.csv --spec type.toml": "keys-of-a-toml-file",
    "validate ok.csv --spec nofeatures.toml": "keys-of-a-toml-file",
    "validate ok.csv --spec noname.toml": "keys-of-a-toml-file",
    "validate ok.csv --spec dash.toml": "names",
    "validate ok.csv --spec keyword.toml": "names",
    "validate ok.csv --spec reserved.toml": "names",
    "validate ok.csv --spec power.toml": "expressions",
    "validate ok.csv --spec unknown.toml": "expressions",
    "validate ok.csv --spec syntax.toml": "expressions",
    "tune examples.matmul:tunable -o x.csv --space space.toml --interpret": "expressions",
    "explain model.json M=1": "features-of-a-launch",
    "explain model.json M=1 N=x": "features-of-a-launch",
    "explain model.json M=1 K=2": "features-of-a-launch",
    "explain model.json M=1 M=2": "features-of-a-launch",
    "show model.json --parameter BLOK": "features-of-a-launch",
    "explain ok.csv M=1": "model-files",
    "emit edited.json -o x.py": "model-files",
    "audit model.json ok.csv --spec k.toml --fail-above mean=1": "gates-and-defaults",
    "audit model.json ok.csv --spec k.toml --fail-above max=1,max=2": "gates-and-defaults",
    "validate cut.jsonl --spec k.toml": "not-a-csv",
    "tune examples.matmul:tunable -o x.csv --target-slowdown 0.5": "command-line",
    "emit model.json -o x.py --target pyton": "emitting-for-a-launcher",
    "emit model.json -o x --target vllm-moe": "emitting-for-a-launcher",
    "check k.toml": "project-file",
    "import auto ok.csv -o x.csv": "files-of-other-tuners",
    "import dejavu ok.csv -o x.csv": "files-of-other-tuners",
    "import helion ok.csv -o x.csv": "files-of-other-tuners",
    "import aiter ok.csv -o x.csv": "files-of-other-tuners",
    "import vllm edited.json -o x.csv": "files-of-other-tuners",
    "import auto ok.csv -o x.csv --rename A": "files-of-other-tuners",
    "import kernel-tuner edited.json -o x.csv": "files-of-other-tuners",
    "record -o x.csv -- true": "no-gpu",
    "tune nothing -o x.csv": "targets-of-tune",
    "tune json:dumps -o x.csv": "targets-of-tune",
    "tune examples.matmul:tunable -o x.csv --workload k.toml": "workloads-and-spaces",
    "tune examples.matmul:tunable -o ok.csv": "resuming-a-sweep",
    "tune examples.matmul:tunable -o x.csv --engine slurm": "ray",
    "merge ok.csv -o x.csv": "merging-logs",
}


def invoke(words: str) -> Result:
    return CliRunner().invoke(main, shlex.split(words), prog_name="heurgen")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Result]:
    """What each wrong command line says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(ROOT))
        assert invoke("train ok.csv --spec k.toml -o model.json --strategy joint").exit_code == 0
        return {words: invoke(words) for words in WRONG}


@pytest.mark.parametrize("words", WRONG)
def test_what_a_new_user_gets_wrong_leads_to_its_passage(words: str, said: dict[str, Result]) -> None:
    result, topic = said[words], WRONG[words]
    assert result.exit_code == 2
    assert result.stdout == ""
    expected = [f"help: heurgen help {topic}  (docs/troubleshooting.md#{topic})"] if topic else []
    assert [line for line in result.stderr.splitlines() if line.startswith("help:")] == expected
    if topic:
        assert result.stderr.splitlines()[-1] == expected[0]
        assert "rror: " in result.stderr.splitlines()[-2]


def test_every_section_says_why_what_to_do_and_how_it_looks() -> None:
    for topic in topics():
        why, _, rest = topic.text.partition("**Do.**")
        do, _, listed = rest.partition("\n**Messages.**\n")
        assert len(listed.strip().splitlines()) == len(topic.messages), topic.name
        assert "**Why.**" in why, topic.name
        assert len(do.split()) >= 10, topic.name
        assert "```" in do or "`heurgen" in do or "`--" in do or "`pip" in do or "\n    $ " in do, topic.name


def texts(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)]
    return []


def test_the_page_lists_no_message_that_is_never_said(said: dict[str, Result]) -> None:
    code = "\0".join(
        text
        for path in (ROOT / "heurgen").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for text in texts(node)
    )
    met = "\n".join(result.stderr for result in said.values())

    def is_said(message: Message) -> bool:
        parts = [re.escape(part) for part in message.text.split("...")]
        whole = "(?:^|\0)" + "[^\0]*".join(parts) + "(?:\0|$)"
        return bool(re.search(whole, code) or re.search(".*".join(parts), met))

    assert [f"{t.name}: {m.text}" for t in topics() for m in t.messages if not is_said(m)] == []


def test_every_class_of_errors_leads_somewhere() -> None:
    for error in (errors.UsageError, errors.SpecError, errors.LogError, errors.ModelError, errors.EmitError):
        assert topic_of("a message that no section lists", error) is not None, error
    names = [topic.name for topic in topics()]
    assert len(set(names)) == len(names)
    assert not set(names) & {*pages(), *main.commands}


def test_every_command_stands_under_what_one_wants_to_do() -> None:
    assert isinstance(main, Group)
    listed = [name for _, names in main.sections for name in names]
    assert sorted(listed) == sorted(main.commands)
    shown = invoke("--help").stdout
    assert all(f"\n{title}:\n" in shown for title, _ in main.sections)
    assert "..." not in shown.partition("Bring a log")[2], "a command's first sentence is cut"


def test_findings_lead_to_a_topic_that_is_there(folder: Path) -> None:
    named = {
        topic
        for path in (ROOT / "heurgen" / "cli").glob("*.py")
        for topic in re.findall(r'finish\("([^"]+)"\)', path.read_text(encoding="utf-8"))
    }
    assert {"project-file", "contradictions", "gates-and-defaults", "every-config-fails"} == named
    assert named <= {topic.name for topic in topics()}
    log = folder / "contradicting.csv"  # the same launch under two ids, which wants another config in each
    rows = [[name, *r[:-1], abs(t - i)] for name, t in (("a", 0.5), ("b", 4)) for i, r in enumerate(ROWS[:4])]
    log.write_text(table(["scenario", *HEADER], rows))
    result = invoke(f"validate {log} --spec {folder / 'k.toml'}")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("help: heurgen help contradictions ")


def test_without_the_page_there_is_no_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for cached in (pages, topics):
        cached.cache_clear()
    monkeypatch.setattr("heurgen.cli.help.docs_folder", lambda: tmp_path)
    try:
        assert help_line("the file is empty, expected a CSV header", errors.LogError) is None
    finally:
        for cached in (pages, topics):
            cached.cache_clear()


def test_help_prints_topics_pages_and_commands() -> None:
    listed = invoke("help").stdout
    for topic in topics():
        assert f"  {topic.name} " in listed
        assert invoke(f"help {topic.name}").stdout.startswith(f"## {topic.title}\n")
    assert invoke("help spec").stdout == (ROOT / "docs/spec.md").read_text(encoding="utf-8").rstrip() + "\n"
    assert invoke("help train").stdout == invoke("train --help").stdout
    assert invoke("help import triton").stdout == invoke("import triton --help").stdout
    ci = (ROOT / "docs/tutorials/ci.md").read_text(encoding="utf-8").rstrip() + "\n"
    assert {invoke(f"help {name}").stdout for name in ("ci", "ci.md", "tutorials/ci.md")} == {ci}


def test_the_wheel_carries_every_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    docs = {p.relative_to(ROOT).as_posix() for p in docs_folder().rglob("*.md")}
    assert {k: v for k, v in included.items() if k != "templates"} == {p: f"heurgen/{p}" for p in docs}
