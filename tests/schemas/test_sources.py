"""The three forms of a model source."""

from __future__ import annotations

import pytest

from optotype.schemas.errors import UsageError
from optotype.schemas.sources import parse_source


def test_hub_source_has_a_repository_and_a_revision() -> None:
    source = parse_source("hf:google/siglip-base-patch16-224@7fd15f0689c79d79e38b1c2e2e2370a7bf2761ed")
    assert (source.kind, source.location) == ("hf", "google/siglip-base-patch16-224")
    assert source.revision == "7fd15f0689c79d79e38b1c2e2e2370a7bf2761ed"


def test_hub_source_without_a_revision_is_refused_with_the_mend() -> None:
    with pytest.raises(UsageError) as caught:
        parse_source("hf:google/siglip")
    assert "hf:google/siglip@<commit>" in str(caught.value)


def test_python_source_with_and_without_a_folder() -> None:
    source = parse_source("python:lab.encoders:load@weights/v3")
    assert (source.kind, source.location, source.factory, source.folder) == (
        "python", "lab.encoders", "load", "weights/v3",
    )  # fmt: skip
    assert parse_source("python:lab:load").folder is None


@pytest.mark.parametrize("text", ["hf:", "hf:a/b/c@main", "hf:../x@main", "python:lab", "python:lab:1a", "", "  "])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_source(text)


def test_anything_else_is_a_folder() -> None:
    assert parse_source("data/models/vit").folder == "data/models/vit"
