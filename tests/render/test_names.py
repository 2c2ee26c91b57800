"""Names of a generated module, chosen before anything is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heurgen import ir
from heurgen.base.errors import EmitError
from heurgen.render.names import _type_name, config_key, plan
from tests.render.examples import by_device, listing2, spellings

TREE = ir.Split("x", 1, ir.Leaf(0), ir.Leaf(1))


def module(*selectors: ir.Selector, features: tuple[str, ...] = ("x",)) -> ir.HeuristicModule:
    parameters = dict.fromkeys(p for s in selectors for p in s.parameters)
    declared = tuple(ir.Parameter(p, "int") for p in parameters)
    return ir.HeuristicModule("k", tuple(ir.Feature(f, "int") for f in features), declared, selectors)


def selector(
    vendor: str, device: str | None = None, configs: tuple[ir.Config, ...] = ((1,), (2,))
) -> ir.Selector:
    return ir.Selector(vendor, ("B",), configs, TREE, device=device)


def test_equal_configs_share_a_constant_and_one_differs_from_one_point_zero_and_true() -> None:
    found = plan(module(selector("nvidia"), selector("amd", configs=((2,), (3,)))))
    assert sorted(found.constants.values()) == ["_CONFIG_0", "_CONFIG_1", "_CONFIG_2"]
    keys = {config_key(selector("nvidia"), (v,)) for v in (1, 1.0, True, None)}
    assert len(keys) == 4
    assert found.types == {("B",): "Config"}


def test_a_vendor_with_other_parameters_has_a_type_of_its_own() -> None:
    assert plan(by_device()).types[by_device().selector("amd").parameters] == "AmdConfig"
    assert _type_name("intel_gpu", ["Config", "IntelGpuConfig"]) == "IntelGpuConfig2"


def test_devices_are_named_by_their_letters_and_digits() -> None:
    found = plan(
        module(selector("nvidia"), selector("nvidia", "NVIDIA H100 (80 GB)"), selector("nvidia", "B200"))
    )
    assert found.prefixes == {
        ("nvidia", None): "nvidia",
        ("nvidia", "NVIDIA H100 (80 GB)"): "nvidia_h100_80_gb",
        ("nvidia", "B200"): "nvidia_b200",
    }


def test_the_local_variable_of_select_is_no_feature() -> None:
    assert plan(listing2()).chooser == "choose"
    assert plan(module(selector("nvidia"), features=("x", "choose", "choose_"))).chooser == "choose__"


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        (
            (selector("nvidia"), selector("nvidia", "H 100"), selector("nvidia", "h-100")),
            "the name select_nvidia_h_100 is needed by the selector of the device 'H 100' and by the selector of the "
            "device 'h-100'",
        ),
        (
            (selector("nvidia"), selector("amd"), selector("nvidia", "X"), selector("amd", "X")),
            "the device 'X' belongs to two vendors",
        ),
        (
            (selector("nvidia"), selector("nvidia", "\u4e2d")),
            "the device '\u4e2d' has no ASCII letter or digit to name a function after",
        ),
    ],
)
def test_two_things_of_one_name_are_refused(selectors: tuple[ir.Selector, ...], message: str) -> None:
    with pytest.raises(EmitError) as caught:
        plan(module(*selectors))
    assert caught.value.message == message


def test_whichever_of_two_names_is_a_device_s_can_be_renamed() -> None:
    with pytest.raises(EmitError) as caught:
        plan(module(selector("nvidia"), selector("nvidia", "p"), selector("nvidia_p")))
    assert str(caught.value) == (
        "the name select_nvidia_p is needed by the selector of the device 'p' and by the selector of nvidia_p "
        "(rename the device in the log, or train with --group-by vendor)"
    )


def test_a_capability_is_asked_for_where_a_selector_answers_for_one() -> None:
    assert plan(listing2()).capability is None
    assert plan(spellings()).capability == "capability_"  # a feature is called capability


def test_shortlists_have_constants_where_a_leaf_has_one() -> None:
    assert plan(listing2()).shortlists == {}
    tree = ir.Split("x", 1, replace(ir.Leaf(0), shortlist=(0, 1)), ir.Leaf(1))
    found = plan(module(replace(selector("nvidia"), tree=tree)))
    assert found.shortlists == {("_CONFIG_0", "_CONFIG_1"): "_SHORTLIST_0", ("_CONFIG_1",): "_SHORTLIST_1"}
