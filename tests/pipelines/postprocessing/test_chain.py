"""Chains as they are written, and what is wrong with those that are none."""

from __future__ import annotations

import pytest

from optotype.pipelines.postprocessing.chain import STEPS, Chain, Step, parse_chain
from optotype.schemas.errors import UsageError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("none", "none"),
        ("none+centre+none", "centre"),
        (" centre + abtt:3 + l2 ", "centre+abtt:3+l2"),
        ("zscore", "zscore"),
        ("pca-whiten", "pca-whiten"),
        ("spca-whiten", "spca-whiten"),
        ("spca-whiten:1e-4", "spca-whiten"),
        ("spca-whiten:0.00005", "spca-whiten:5e-05"),
        ("spca-whiten:0", "pca-whiten"),
        ("drop-leading:02+drop-trailing:0", "drop-leading:2+drop-trailing:0"),
        ("gamma:0.50", "gamma:0.5"),
        ("gamma:1.0", "gamma:1"),
        ("gamma:-0", "gamma:0"),
        ("gamma:1e6", "gamma:1000000"),
    ],
)
def test_text_becomes_canonical_and_reads_back(text: str, canonical: str) -> None:
    chain = parse_chain(text)
    assert str(chain) == canonical
    assert parse_chain(canonical) == chain
    assert str(parse_chain(canonical)) == canonical


def test_order_is_kept_and_names_are_all_known() -> None:
    assert parse_chain("l2+centre") == Chain((Step("l2"), Step("centre")))
    assert parse_chain("l2+centre") != parse_chain("centre+l2")
    every = "+".join(f"{name}:1" if form.argument else name for name, form in STEPS.items())
    assert [step.name for step in parse_chain(every)] == [name for name in STEPS if name != "none"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a step is empty"),
        ("centre++l2", "a step is empty"),
        ("center", "Did you mean 'centre'"),
        ("whiten", "there is no step 'whiten'"),
        ("l2:3", "l2 takes no argument, got '3'"),
        ("none:1", "none takes no argument"),
        ("abtt", "abtt needs D, a whole number"),
        ("abtt:", "abtt needs D"),
        ("abtt:1.5", "got '1.5'"),
        ("abtt:-1", "from 0"),
        ("drop-leading", "drop-leading needs N"),
        ("gamma", "gamma needs G, a number"),
        ("gamma:nan", "got 'nan'"),
        ("gamma:inf", "got 'inf'"),
        ("spca-whiten:-1", "spca-whiten needs EPS"),
        ("spca-whiten:", "spca-whiten needs EPS"),
        ("gamma:2e6", "to 1000000"),
    ],
)
def test_what_is_no_chain_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match="is no chain of post-processing") as caught:
        parse_chain(text)
    assert said in caught.value.message
    assert "centre+abtt:3+l2" in str(caught.value.hint)


def test_every_problem_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_chain("centr+abtt+l2+gamma:x")
    assert all(said in caught.value.message for said in ("centr", "abtt needs D", "gamma needs G"))


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("none", 0),
        ("l2", 0),
        ("gamma:0.5+l2", 0),
        ("centre+abtt:3+l2", 1),
        ("l2+centre+zscore+pca-whiten", 1),
        ("centre+l2+pca-whiten", 2),
        ("centre+gamma:0.5+centre+l2+zscore+l2", 3),
    ],
)
def test_passes(text: str, passes: int) -> None:
    assert parse_chain(text).passes == passes
    assert parse_chain(text).per_image is ("gamma" in text)
