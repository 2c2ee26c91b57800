"""Templates print nothing that was not filtered, and change nothing of what is."""

from __future__ import annotations

import pytest

from heurgen.base.errors import EmitError
from heurgen.render.environment import environment, template_folder
from heurgen.render.text import Code


@pytest.mark.parametrize(
    ("given", "kind"), [({"x": "text"}, "str"), ({"x": 1}, "int"), ({}, "StrictUndefined")]
)
def test_a_template_prints_nothing_that_was_not_filtered(given: dict[str, object], kind: str) -> None:
    with pytest.raises(EmitError) as caught:
        environment().from_string("{{ x }}").render(given)
    assert str(caught.value) == f"a template prints an unfiltered {kind}"


def test_text_is_printed_as_it_stands_and_tags_leave_no_line() -> None:
    template = environment().from_string("a\n  {% if true %}\n{{ x }}\n  {% endif %}\n\nb\n")
    assert template.render(x=Code("<&>'\"")) == "a\n<&>'\"\n\nb\n"


def test_templates_are_found_and_written_with_plain_line_ends() -> None:
    assert (template_folder() / "python_module.py.jinja").is_file()
    for name in environment().list_templates(["jinja"]):
        source, *_ = environment().loader.get_source(environment(), name)  # type: ignore[union-attr]
        assert "\r" not in source
    assert environment() is environment()
