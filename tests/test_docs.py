"""Every command and every snippet of the README and of the documentation runs; what cannot says why."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from heurgen.cli import main
from heurgen.cli.help import topics
from heurgen.ship.project_file import _KEYS as PROJECT_KEYS
from heurgen.spec.kernel_spec import _FEATURE_KEYS as FEATURE_KEYS
from heurgen.spec.kernel_spec import _PARAMETER_KEYS as PARAMETER_KEYS
from heurgen.spec.kernel_spec import parse_spec
from heurgen.spec.log_columns import LogColumns
from heurgen.tune.space import space_from
from heurgen.tune.workloads import make_scenarios
from tests.support.documents import PUBLISHED, ROOT, blocks, reader_folder, run_step, steps

DOCS = ROOT / "docs"
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in DOCS.rglob("*.md"))
NAVIGATION = [f"docs/{page}" for page in re.findall(r"- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)]
# Pages in the order in which one reads them: what the quick start makes, later pages use.
# targets.md speaks of models of other kernels, see test_targets_doc.py.
ORDER = ["README.md", *(page for page in NAVIGATION if page != "docs/targets.md")]
CI = "docs/tutorials/ci.md"
WITH_BLOCKS = ["README.md", "kernels/README.md", *PAGES]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.slow
def test_commands_and_snippets_run(tmp_path: Path) -> None:
    """One reader, one folder, from the README on. A step that several pages show is run where it stands first."""
    folder, skipped, done = reader_folder(tmp_path), [], set()
    for page in ORDER:
        for step in steps(text_of(page)):
            if step.text in done or step.text.startswith("make "):
                continue
            done.add(step.text)
            if not PUBLISHED.is_dir() and re.search(r"published/|mi300x\.|miopen\.csv|ssu\.", step.text):
                skipped.append(f"{page}: {step.text}")
                continue
            result = run_step(folder, step)
            assert result.returncode == 0, f"{page}: {step.text}\n{result.output}"
    assert len(done) >= 60
    if skipped:
        pytest.skip(f"shared/data/published is absent, not run: {'; '.join(skipped)}")


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_no_block_escapes(page: str) -> None:
    """A block is run, or is TOML that is read, or says why it is not run."""
    for block in blocks(text_of(page)):
        place = f"{page}:{block.line}"
        if block.info == "toml":
            read_toml(block.text, place)
        elif block.info == "$" and block.reason is None:
            lines = block.text.splitlines()
            assert all(line.startswith("    $ ") for line in lines), f"{place}: neither run nor marked"
        elif block.info != "python run":
            assert block.reason is not None, f"{place}: neither run nor marked"
            if block.info == "python":
                ast.parse(block.text.replace("...)", "*_)"))
        for command in commands(block.text):
            check_words(command, place)


def read_toml(text: str, place: str) -> None:
    """A spec as a spec, a space as a space, a workload as a workload, anything else as TOML."""
    data = tomllib.loads(text)
    if "kernel" in data and "parameters" in data:
        parse_spec(text, place)
    elif "constraints" in data:
        space_from(data)
    elif data.keys() & {"grid", "batch", "scenario"}:
        make_scenarios(data, {})


def commands(block: str) -> list[list[str]]:
    """The words of the heurgen commands of a block, run or not."""
    joined = re.sub(r"\\\n\s*", "", block)
    found = re.findall(r"^(?:\s*\$ )?(?:.*&& )?(heurgen [a-z][^\n]*)$", joined, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in found]


def check_words(words: list[str], place: str) -> None:
    """Every option of a command that is shown exists, and takes what is shown. Nothing is run."""
    command: click.Command | None = main
    while isinstance(command, click.Group):
        command, words = command.get_command(click.Context(command), words[0]), words[1:]
        assert command is not None, f"{place}: no such command"
    try:
        command.make_context(command.name or "", [w for w in words if w != "..."])
    except click.UsageError as error:
        raise AssertionError(f"{place}: {' '.join(words)}: {error.format_message()}") from error


@pytest.mark.parametrize(
    "text",
    ["    heurgen train x\n", "```sh\nheurgen train\n```\n", "```python\n1\n```\n", "```\nx\n```\n"],
)
def test_a_block_that_escapes_is_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_docs.text_of", lambda page: text)
    with pytest.raises(AssertionError, match="neither run nor marked"):
        test_no_block_escapes("page")


def test_a_command_with_an_option_that_is_gone_is_found() -> None:
    with pytest.raises(AssertionError, match="No such option"):
        check_words(["train", "log.csv", "--spec", "k.toml", "-o", "m.json", "--no-such"], "page")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
        assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as MkDocs and GitHub name them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "kernels/README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_anchors_are_there(page: str) -> None:
    """Those of the site are MkDocs's to check."""
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", text_of(page)):
        there = (ROOT / page).parent / target if target else ROOT / page
        assert anchor in anchors(there.read_text(encoding="utf-8")), f"{page}: {target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    assert sorted(NAVIGATION) == PAGES


def test_every_topic_is_in_the_table_of_troubleshooting() -> None:
    table = text_of("docs/troubleshooting.md").partition("| | topics |")[2].partition("\n\n")[0]
    assert re.findall(r"\(#([\w-]+)\)", table) == [topic.name for topic in topics()]


def table_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the rows of a page's table whose header begins like this, without the header."""
    rows = text_of(page).partition(heading)[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_every_key_of_a_project_file_is_on_its_page() -> None:
    names = [
        re.findall(r"`\[?(?:heuristic\.)?(\w+)", row[0]) for row in table_of(CI, "| key of `[[heuristic]]`")
    ]
    assert sorted(name for row in names for name in row) == sorted(PROJECT_KEYS)


def test_the_selector_that_learns_from_traffic_is_the_shipped_one_with_a_log_more() -> None:
    """The page went on with one log and 128 leaves when eight logs and 800 leaves had shipped."""
    toml = re.findall(r"^```toml\n(\[\[heuristic.*?)^```$", text_of("docs/serving.md"), re.M | re.S)
    (better,) = tomllib.loads(toml[0])["heuristic"]
    project = tomllib.loads((ROOT / "heurgen.toml").read_text(encoding="utf-8"))["heuristic"]
    shipped = next(h for h in project if h["module"].endswith("/paged_attention.py"))
    own = {"logs": [*shipped["logs"], "more.csv"], "cards": [*shipped["cards"], "more.card.toml"]}
    assert better == {**shipped, **own, "model": "better.json", "module": "better.py"}


def test_every_key_of_the_log_table_is_shown() -> None:
    shown = text_of("docs/spec.md") + text_of("docs/importing.md").partition("```toml\n[log]")[2]
    made_of_them = {
        "constants",
        "vendor_by_name",
        "wide",
    }  # vendor = { const = ... }, { from = ... }, [log.wide]
    for key in {*LogColumns.__dataclass_fields__} - made_of_them:
        assert re.search(rf"^(?:# )?{key} = ", shown, re.M), key


def test_keys_of_features_and_parameters_stand_where_the_spec_takes_them() -> None:
    told: dict[str, set[str]] = {"features": set(), "parameters": set()}
    for key, where, _ in table_of("docs/spec.md", "| key | in |"):
        sides = [side for side in told if side in where] or list(told)  # "int, float": of both
        for side in sides:
            told[side] |= set(re.findall(r"`(\w+)`", key))
    assert told == {"features": set(FEATURE_KEYS), "parameters": set(PARAMETER_KEYS)}
