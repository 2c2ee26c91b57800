"""The part of a generated module that lists the configs to try."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen import ir
from heurgen.render import names
from heurgen.render.python import render_python
from heurgen.render.shortlist import parts
from heurgen.render.text import Code
from tests.render.examples import listing2, spellings
from tests.support.generated import executed


def test_the_parts_of_a_module_with_devices_and_capabilities() -> None:
    found = parts(spellings(), names.plan(spellings()), Code("Config"))
    assert found.constants.split("\n") == [
        "_SHORTLIST_0 = (_CONFIG_2,)",
        "_SHORTLIST_1 = (_CONFIG_0,)",
        "_SHORTLIST_2 = (_CONFIG_1,)",
        "_SHORTLIST_3 = (_CONFIG_0, _CONFIG_2)",
    ]
    assert found.signature.startswith(
        "def shortlist(\n    *,\n    vendor: str,\n    device: str | None = None,\n"
    )
    assert found.signature.endswith("    layout: str,\n) -> tuple[Config, ...]:")
    assert found.doc == (
        "The configs of gemm to try for a launch.\n\n"
        "    What a tuner should try, what `select` chooses first. Arguments and errors are those of `select`."
    )
    assert found.tables.by_vendor == (
        "SHORTLISTS: dict[str, Callable[..., tuple[Config, ...]]] = "
        '{"nvidia": shortlist_nvidia, "amd": shortlist_amd}'
    )
    assert found.tables.by_device is not None
    assert found.tables.by_capability is not None
    own = found.functions[1]
    assert (
        own.signature
        == "def shortlist_nvidia_a100(capability: int, dtype: str, layout: str) -> tuple[Config, ...]:"
    )
    assert own.doc == "The configs to try for nvidia, NVIDIA A100."
    assert own.body.endswith("    if capability <= 8:\n        return _SHORTLIST_3\n    return _SHORTLIST_2")
    first = found.functions[0].body
    assert "        return _SHORTLIST_0  # 4 scenarios, 1.00x\n" in first


def with_shortlists() -> ir.HeuristicModule:
    """Both vendors; the one has parameters of its own."""
    module = listing2()
    nvidia, amd = module.selectors
    tree = ir.Split("max_seqlen_q", 1, ir.Leaf(0, shortlist=(0, 2)), ir.Leaf(2))
    own = replace(
        amd,
        parameters=("BLOCK_M",),
        configs=((16,),),
        alternatives=((64,),),
        tree=ir.Leaf(0, shortlist=(0, 1)),
    )
    return replace(module, selectors=(replace(nvidia, tree=tree), own))


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
@pytest.mark.parametrize("q", [1, 2])
def test_the_generated_shortlist_is_the_interpreter_s(vendor: str, q: int) -> None:
    module = with_shortlists()
    space = executed(render_python(module))
    row = {"num_seqs": 1, "max_seqlen_q": q, "avg_seqlen_q": 1.0, "max_seqlen_k": 16}
    wanted = ir.shortlist(module, vendor, row)
    assert tuple(c._asdict() for c in space["shortlist"](vendor=vendor, **row)) == wanted
    assert space["SHORTLISTS"][vendor](*row.values())[0] == space["select"](vendor=vendor, **row)
    with pytest.raises(ValueError, match=r"^unknown vendor 'x', known: nvidia, amd$"):
        space["shortlist"](vendor="x", **row)
