"""HEURGEN_SELECTOR: what the file may be, and what is said where it is something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from heurgen_kernels import heuristics
from heurgen_kernels.host.hardware import VENDOR
from heurgen_kernels.servers.vllm.selector import selector_of

SHIPPED = Path(heuristics.__file__).parent
LACKS = f"which has no selector of paged_attention or paged_attention_fp8 for {VENDOR}"
PROVENANCE = 'PROVENANCE = {"kernel": "paged_attention"}\n'

pytestmark = pytest.mark.skipif(VENDOR != "nvidia", reason="the messages name NVIDIA's selectors")


def asked(path, fp8=False):
    return selector_of({"HEURGEN_SELECTOR": str(path)}, fp8)


def test_layers_ask_the_module_that_was_learnt_of_their_pages():
    plain, fp8 = SHIPPED / "paged_attention.py", SHIPPED / "paged_attention_fp8.py"
    assert asked(plain).PROVENANCE["kernel"] == "paged_attention"
    assert asked(fp8, True).PROVENANCE["kernel"] == "paged_attention_fp8"
    assert asked(plain) is asked(plain)
    assert asked(plain, True) is asked(fp8) is selector_of({}, False) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def", "which does not load: invalid syntax (mine.py, line 1)"),
        ("import no_such_module", "which does not load: No module named 'no_such_module'"),
        ("1 / 0", "which does not load: division by zero"),
        ("", LACKS),
        ("PROVENANCE = None\nSELECTORS = {}", LACKS),
        (PROVENANCE + "SELECTORS = None", LACKS),
        (PROVENANCE + "SELECTORS = {'amd': print}", LACKS),
        (
            PROVENANCE + "SELECTORS = {'nvidia': lambda num_seqs, rows: 1}",
            "which no layer can ask: the heuristics ask for 'rows'; a launch knows num_seqs, total_query_tokens, "
            "max_seqlen_q, max_seqlen_k, total_seqlen_k, window, softcap, num_query_heads, num_kv_heads, head_size, "
            "page_size, dtype, fresh, sinks, avg_seqlen_q, multiprocessors",
        ),
        (PROVENANCE + "SELECTORS = {'nvidia': 3}", "which no layer can ask: 3 is not a callable object"),
    ],
)
def test_another_file_is_refused_by_its_name(tmp_path, text, said):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ValueError, match="HEURGEN_SELECTOR") as caught:
        asked(path)
    assert str(caught.value) == f"HEURGEN_SELECTOR is {str(path)!r}, {said}"


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"which does not load: .*No such file"):
        asked(tmp_path / "none.py")
    with pytest.raises(ValueError, match="expected a Python module that `heurgen build` wrote"):
        asked(tmp_path / "none.json")
