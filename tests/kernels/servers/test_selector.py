"""A selector of one's own: what HEURGEN_SELECTOR may name, and what is said of a file that it may not."""

from __future__ import annotations

import re

import pytest
from heurgen_kernels import heuristics
from heurgen_kernels.host.hardware import VENDOR
from heurgen_kernels.servers.vllm.selector import selector_of

SELECT = f"SELECTORS = {{{VENDOR!r}: lambda num_seqs, max_seqlen_k: None}}\n"
KERNEL = "PROVENANCE = {'kernel': 'paged_attention'}\n"


@pytest.fixture
def asked(tmp_path):
    """Writes a file, and asks for it."""

    def ask(text, name="own.py", fp8=False):
        path = tmp_path / name
        path.write_text(text)
        return selector_of({"HEURGEN_SELECTOR": str(path)}, fp8)

    return ask


@pytest.mark.parametrize("environment", [{}, {"HEURGEN_SELECTOR": ""}])
def test_the_shipped_one_is_asked_where_none_is_named(environment):
    assert selector_of(environment, False) is None


def test_features_may_be_fewer_and_in_any_order(asked):
    module = asked(KERNEL + f"SELECTORS = {{{VENDOR!r}: lambda softcap, num_seqs: None}}\n")
    assert module.PROVENANCE == {"kernel": "paged_attention"}
    assert asked(KERNEL + SELECT, "another.py", fp8=True) is None  # learnt of other pages


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def select(:\n", "it does not run: SyntaxError: "),
        ("import no_such_module\n", "it does not run: ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0\n", "it does not run: ZeroDivisionError: "),
        ("raise SystemExit(2)\n", "it does not run: SystemExit: 2"),
        (SELECT, "its PROVENANCE names the kernel None; expected paged_attention"),
        ("PROVENANCE = None\n" + SELECT, "its PROVENANCE names the kernel None; expected paged_attention"),
        ("PROVENANCE = {'kernel': ['a']}\n" + SELECT, "its PROVENANCE names the kernel ['a']; expected paged_att"),
        (KERNEL, f"it has no selector for {VENDOR}"),
        (KERNEL + "SELECTORS = None\n", "SELECTORS is None; expected functions of features, by vendor"),
        (KERNEL + "SELECTORS = 3\n", "SELECTORS is 3; expected functions of features, by vendor"),
        (KERNEL + "SELECTORS = {'other': None}\n", f"it has no selector for {VENDOR}"),
        (KERNEL + f"SELECTORS = {{{VENDOR!r}: 3}}\n", f"SELECTORS[{VENDOR!r}] is 3; expected a function of features"),
        (
            KERNEL + f"SELECTORS = {{{VENDOR!r}: lambda num_seqs, model, depth: None}}\n",
            "the heuristics ask for 'model', 'depth'; a launch knows num_seqs, total_query_tokens, ",
        ),
        (
            KERNEL + SELECT + "from collections import namedtuple\nConfig = namedtuple('Config', 'BLOCK_M BLOCK_N')\n",
            "its configs have BLOCK_N; the parameters of a launch are variant, BLOCK_M, TILE_SIZE, ",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_no_selector_is_refused_by_the_variable_s_name(asked, text, said):
    """A launch that cannot ask leaves its layer to vLLM's kernels, with a line in the log."""
    with pytest.raises(ValueError, match=f"^HEURGEN_SELECTOR is '.*own.py', .*: {re.escape(said)}"):
        asked(text)


@pytest.mark.parametrize("name", ["own.json", "own"])
def test_a_file_of_another_name_is_refused(asked, name):
    with pytest.raises(
        ValueError, match=f"^HEURGEN_SELECTOR is '.*{name}', .*: its name does not end in .py"
    ):
        asked(KERNEL + SELECT, name)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "folder.py").mkdir()
    for name in ("absent.py", "folder.py"):
        with pytest.raises(ValueError, match=f"HEURGEN_SELECTOR is '.*{name}', .*: it cannot be read: "):
            selector_of({"HEURGEN_SELECTOR": str(tmp_path / name)}, False)


def test_what_this_vendor_s_selectors_are_called(asked):
    """As a generated module has it, under another name of its file."""
    with open(f"{heuristics.__path__[0]}/paged_attention.py", encoding="utf-8") as file:
        module = asked(file.read(), "better.py")
    assert module.PROVENANCE["kernel"] == "paged_attention"
