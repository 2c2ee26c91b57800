"""`aliases` and `unknown` of a category feature."""

from __future__ import annotations

import pytest

from heurgen.base.errors import UsageError
from heurgen.spec.kernel_spec import cell_value, parse_spec
from tests.spec.examples import GOOD, feature, refused

BAD = {
    "unknown is no word for it": (
        feature('n = {type="category", unknown="raise"}'),
        ":4: column 'features.n.unknown': found 'raise', expected \"fallback\" or \"error\"",
    ),
    "unknown of a number": (
        feature('n = {type="int", unknown="error"}'),
        ":4: column 'features.n.unknown': aliases and unknown do not apply to n, which is no category",
    ),
    "alias of no category": (
        feature('n = {type="category", values=["float16"], aliases={half="float61"}}'),
        ":4: column 'features.n.aliases.half': 'float61' is none of the feature's values (did you mean 'float16'?)",
    ),
    "alias that is a category": (
        feature('n = {type="category", values=["a", "b"], aliases={b="a"}}'),
        ":4: column 'features.n.aliases': 'b' is an alias and a category of n",
    ),
    "alias of a number": (
        feature('n = {type="category", aliases={b=1}}'),
        ":4: column 'features.n.aliases.b': found 1, expected a category",
    ),
    "unknown is no text": (
        feature('n = {type="category", unknown=true}'),
        ':4: column \'features.n.unknown\': found True, expected "fallback" or "error"',
    ),
    "aliases are no table": (
        feature('n = {type="category", aliases=["a"]}'),
        ":4: column 'features.n.aliases': found ['a'], expected a table (write { \"torch.float16\" = \"float16\" })",
    ),
    "aliases of a number": (
        feature('n = {type="int", aliases={b="a"}}'),
        ":4: column 'features.n.aliases': aliases and unknown do not apply to n, which is no category",
    ),
    "alias with a space": (
        feature('n = {type="category", aliases={" b"="a"}}'),
        ":4: column 'features.n.aliases. b': expected text without spaces around it on both sides",
    ),
    "blank alias": (
        feature('n = {type="category", aliases={""="a"}}'),
        ":4: column 'features.n.aliases.': expected text without spaces around it on both sides",
    ),
    "alias of nothing": (
        feature('n = {type="category", aliases={b=""}}'),
        ":4: column 'features.n.aliases.b': expected text without spaces around it on both sides",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_no_spelling_can_be(case: str) -> None:
    text, expected = BAD[case]
    assert refused(text) == expected


def test_spellings_are_sorted_and_may_stand_for_categories_that_are_not_listed() -> None:
    listed = parse_spec(feature('n = {type="category", aliases={z="a", b="a", c="d"}}')).features[0]
    assert (listed.unknown, listed.aliases) == ("fallback", (("b", "a"), ("c", "d"), ("z", "a")))
    plain = parse_spec(GOOD).features[1]
    assert (plain.unknown, plain.aliases) == ("fallback", ())


def test_other_spellings_are_read_as_the_category() -> None:
    """In a table of their own too; a log then has one category, and one content hash."""
    dtype_ = 'dtype = { type = "category", values = ["a", "b"] }'
    own = '[features.dtype]\ntype = "category"\nvalues = ["float16"]\nunknown = "error"\n'
    text = GOOD.replace(dtype_, own + '[features.dtype.aliases]\n"torch.float16" = "float16"')
    (dtype,) = [f for f in parse_spec(text).features if f.name == "dtype"]
    assert (dtype.unknown, dtype.aliases) == ("error", (("torch.float16", "float16"),))
    assert cell_value(dtype, "torch.float16") == cell_value(dtype, "float16") == "float16"
    with pytest.raises(UsageError, match="found 'half', expected one of 'float16'"):
        cell_value(dtype, "half")
