"""Canonical JSON, keys made of it, and versions of documents."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optotype.schemas.documents import cache_key, canonical_json, parse_document
from optotype.schemas.errors import FormatError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES))
def test_key_does_not_depend_on_the_order_of_inputs(inputs: dict[str, object]) -> None:
    assert cache_key(inputs) == cache_key(dict(reversed(inputs.items())))
    assert json.loads(canonical_json(inputs)) == inputs


def test_key_depends_on_every_input() -> None:
    base = {"layer": 8, "pooling": "mean", "source": "a"}
    changed = [{**base, "layer": 9}, {**base, "pooling": "last"}, {**base, "source": "b"}, {**base, "extra": None}]
    assert len({cache_key(base), *map(cache_key, changed)}) == 5


def test_nan_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"eps": float("nan")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON array manifest"),
        (b"\xff\xfe", "not a JSON array manifest"),
        ("[]", "is a JSON object, got list"),
        ("{}", "has no format_version, got None"),
        ('{"format_version": true}', "has no format_version, got True"),
        ('{"format_version": 0}', "has no format_version, got 0"),
        ('{"format_version": 3}', "has format_version 3; this optotype reads up to 2"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_document(text, kind="array manifest", where="manifest.json", newest=2)
    assert str(caught.value).startswith("manifest.json: ")


def test_older_and_equal_versions_are_read() -> None:
    for version in (1, 2):
        text = json.dumps({"format_version": version, "x": 1})
        assert parse_document(text, kind="thing", where="f", newest=2)["x"] == 1


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_what_is_nested_too_deep_is_no_document(text: str) -> None:
    with pytest.raises(FormatError, match=r"f\.json: not a JSON thing"):
        parse_document(text, kind="thing", where="f.json", newest=1)
