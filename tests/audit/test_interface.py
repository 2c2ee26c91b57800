"""What a program that calls the model must know of a change, beside the regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from heurgen import ir
from heurgen.audit.diff import diff
from heurgen.audit.interface import interface_changes
from heurgen.audit.report.tables import diff_page
from heurgen.base.errors import ModelError
from heurgen.render.python import render_python
from heurgen.render.reader import read_module
from tests.audit.pages import Page
from tests.support.modules import FEATURES, two_vendors

DTYPE = FEATURES[2]


def with_features(*features: ir.Feature) -> ir.HeuristicModule:
    return replace(two_vendors(), features=features)


def with_dtype(
    values: Sequence[str] = DTYPE.values, unknown: str = "fallback", aliases: Sequence[tuple[str, str]] = ()
) -> ir.HeuristicModule:
    dtype = replace(DTYPE, values=tuple(values), unknown=unknown, aliases=tuple(aliases))  # type: ignore[arg-type]
    return with_features(*FEATURES[:2], dtype, FEATURES[3])


def test_nothing_is_said_where_a_call_stays_one() -> None:
    wider = replace(FEATURES[0], low=1, high=4096, unit="", doc="other words")
    assert interface_changes(two_vendors(), with_features(wider, *FEATURES[1:])) == ()
    assert interface_changes(two_vendors(), with_dtype((*DTYPE.values, "int8"))) == ()
    assert interface_changes(with_dtype(unknown="error"), with_dtype(unknown="error")) == ()


@pytest.mark.parametrize("aliases", [(), (("torch.float16", "float16"),)])
@pytest.mark.parametrize("unknown", ["fallback", "error"])
def test_a_module_is_called_as_its_model(unknown: str, aliases: tuple[tuple[str, str], ...]) -> None:
    model = with_dtype(unknown=unknown, aliases=aliases)
    assert interface_changes(model, read_module(render_python(model))) == ()


def with_shortlists(*listed: int) -> ir.HeuristicModule:
    """The model whose first vendor has one leaf with these configs to try."""
    module = two_vendors()
    tree = ir.Leaf(0, 4, shortlist=listed)
    return replace(module, selectors=(replace(module.selectors[0], tree=tree), *module.selectors[1:]))


def test_a_shortlist_comes_and_goes() -> None:
    """A program that imports it failed, and diff said that nothing changes."""
    none, one, two = with_shortlists(), with_shortlists(0), with_shortlists(0, 1)
    assert interface_changes(none, two) == ("the function shortlist is new",)
    assert diff(two, none).to_text() == "the function shortlist is gone\nno region changes config"
    assert interface_changes(two, one) == ("the function shortlist gives 1 config at most, it was 2",)
    assert interface_changes(two, two) == ()
    assert interface_changes(two, read_module(render_python(two))) == ()


def test_who_answers_for_unknown_devices_of_a_capability() -> None:
    """Most launches on a GH200 got another config, and diff said that no region does."""
    own = replace(two_vendors().selectors[1], device="NVIDIA H200")
    old = replace(two_vendors(), selectors=(*two_vendors().selectors, own))
    new = replace(old, selectors=(*old.selectors[:-1], replace(own, capability="9.0")))
    line = "nvidia: an unknown device of 9.0 is answered as NVIDIA H200, it was as nvidia"
    assert diff(old, new).to_text() == f"{line}\nno region changes config"
    assert interface_changes(new, old) == (
        "nvidia: an unknown device of 9.0 is answered as nvidia, it was as NVIDIA H200",
    )
    assert interface_changes(new, read_module(render_python(new))) == ()


def test_features_that_come_go_and_change_places() -> None:
    old, paged = two_vendors(), ir.Feature("paged", "bool")
    assert interface_changes(old, with_features(*FEATURES, paged)) == (
        "feature paged is new: a call needs it",
    )
    assert interface_changes(with_features(*FEATURES, paged), old) == ("feature paged is gone",)
    moved = with_features(FEATURES[2], *FEATURES[:2], FEATURES[3])
    assert interface_changes(old, moved) == (
        "features have another order: dtype, num_seqs, avg_seqlen_k, causal",
    )
    typed = with_features(*FEATURES[:3], replace(FEATURES[3], type="int"))
    assert interface_changes(old, typed) == ("feature causal is int, it was bool",)


def test_parameters_that_come_and_go() -> None:
    old = two_vendors()
    names = {"BLOCK_M": "block_m"}
    parameters = tuple(replace(p, name=names.get(p.name, p.name)) for p in old.parameters)
    selectors = tuple(
        replace(s, parameters=tuple(names.get(p, p) for p in s.parameters)) for s in old.selectors
    )
    new = replace(old, parameters=parameters, selectors=selectors)
    assert interface_changes(old, new) == ("parameter block_m is new", "parameter BLOCK_M is gone")


def test_a_category_that_a_module_refuses_is_no_region_and_is_said() -> None:
    """The trees are the same, and a launch with "fp4" has an answer from one of the two alone."""
    old, new = with_dtype(), with_dtype(unknown="error")
    row = {"num_seqs": 8, "avg_seqlen_k": 64.0, "dtype": "fp4", "causal": True}
    assert ir.select(old, "nvidia", row)
    with pytest.raises(ModelError, match="unknown dtype 'fp4'"):
        ir.select(new, "nvidia", row)
    line = "feature dtype: an unknown category is an error, it got an answer"
    found = diff(old, new)
    assert found.to_text() == f"{line}\nno region changes config"
    assert found.to_dict()["interface"] == [line]
    assert f"{line}." in Page(diff_page(found)).text
    assert interface_changes(new, old) == ("feature dtype: an unknown category is answered, it was an error",)


def test_categories_that_come_and_go_where_others_are_refused() -> None:
    few, more = with_dtype(unknown="error"), with_dtype((*DTYPE.values, "int8"), "error")
    assert interface_changes(few, more) == ("feature dtype: 'int8' is answered, it was an error",)
    assert interface_changes(more, few) == ("feature dtype: 'int8' is an error, it got an answer",)


def test_other_spellings_of_a_category() -> None:
    half, brain = (("half", "float16"),), (("half", "bfloat16"),)
    start = "feature dtype: 'half' stands for"
    assert interface_changes(with_dtype(), with_dtype(aliases=half)) == (
        f"{start} 'float16', it stood for itself",
    )
    assert interface_changes(with_dtype(aliases=half), with_dtype(aliases=brain)) == (
        f"{start} 'bfloat16', it stood for 'float16'",
    )
