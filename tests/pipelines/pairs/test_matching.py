"""Matching of statements and images against slow references: the public rule, ours, and where the two differ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from pair_suites import make_statements, write_pair_suite

from optotype.pipelines.pairs.matching import decide, match_pairs, similarities
from optotype.pipelines.progress import SILENT
from optotype.pipelines.scheduler import scheduler
from optotype.schemas.errors import InvalidDataError, UsageError
from optotype.store.pair_suites import PairSuite, Statement, read_pair_suite


def _with_ties(pairs: int = 400, seed: int = 0) -> NDArray[np.float64]:
    """Cosines in steps of 0.1, so that many are equal."""
    return np.random.default_rng(seed).integers(-3, 4, size=(pairs, 2, 2)) / 10


def _public(cosines: NDArray[np.float64]) -> list[bool]:
    """As the public evaluator decides a pair: a softmax over two images for each statement, image 1 above 0.5."""
    right = []
    for pair in cosines:
        predictions = []
        for statement in (0, 1):
            one, two = math.exp(100 * pair[0, statement]), math.exp(100 * pair[1, statement])
            predictions.append("img1" if one / (one + two) > 0.5 else "img2")
        right.append(predictions == ["img1", "img2"])
    return right


def _ours(cosines: NDArray[np.float64], direction: str) -> list[bool]:
    right = []
    for pair in cosines:
        if direction == "text-to-image":
            right.append(bool(pair[0, 0] > pair[1, 0] and pair[1, 1] > pair[0, 1]))
        else:
            right.append(bool(pair[0, 0] > pair[0, 1] and pair[1, 1] > pair[1, 0]))
    return right


def test_the_public_rule() -> None:
    cosines = _with_ties()
    assert decide(cosines, "text-to-image", "second").pairs.tolist() == _public(cosines)


@pytest.mark.parametrize("direction", ["text-to-image", "image-to-text"])
def test_a_tie_is_wrong(direction: str) -> None:
    cosines = _with_ties(seed=1)
    assert decide(cosines, direction, "wrong").pairs.tolist() == _ours(cosines, direction)


@pytest.mark.parametrize("direction", ["text-to-image", "image-to-text"])
def test_the_two_rules_differ_exactly_where_the_second_choice_is_tied(direction: str) -> None:
    cosines = _with_ties(2000, seed=2)
    ours, public = (decide(cosines, direction, tie) for tie in ("wrong", "second"))
    differ = ours.pairs != public.pairs
    if direction == "text-to-image":
        first_right = cosines[:, 0, 0] > cosines[:, 1, 0]
        second_tied = cosines[:, 0, 1] == cosines[:, 1, 1]
    else:
        first_right = cosines[:, 0, 0] > cosines[:, 0, 1]
        second_tied = cosines[:, 1, 0] == cosines[:, 1, 1]
    assert (differ == (first_right & second_tied)).all()
    assert differ.sum() > 50
    assert public.pairs[differ].all()
    # A tie of the first choice is wrong by both: the public rule takes the second, which is not its own.
    assert not public.right[public.tied[:, 0], 0].any()
    assert public.right[public.tied[:, 1], 1].all()
    assert not ours.right[ours.tied].any()


def test_without_ties_the_rules_agree() -> None:
    cosines = np.random.default_rng(0).normal(size=(500, 2, 2))
    for direction in ("text-to-image", "image-to-text"):
        ours, public = (decide(cosines, direction, tie) for tie in ("wrong", "second"))
        assert (ours.pairs == public.pairs).all()
        assert not ours.tied.any()


def test_directions_are_each_other_transposed() -> None:
    cosines = _with_ties(seed=3)
    turned = decide(cosines.transpose(0, 2, 1), "image-to-text")
    assert (decide(cosines, "text-to-image").right == turned.right).all()


def test_guessing_passes_a_quarter() -> None:
    found = decide(np.random.default_rng(0).normal(size=(40_000, 2, 2))).pairs.mean()
    assert found == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("words", [("sideways", "wrong"), ("text-to-image", "first")])
def test_unknown_words(words: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="is one of"):
        decide(np.zeros((1, 2, 2)), *words)


def _suite(folder: Path, pairs: int) -> PairSuite:
    return read_pair_suite(write_pair_suite(folder, statements=make_statements(["texts", "count"] * (pairs // 2))))


def _arrays(
    statements: tuple[Statement, ...], seed: int = 0, channels: int = 6, tokens: int = 3
) -> tuple[xr.Dataset, xr.Dataset]:
    """Features with more images than the suite has, of unlike token counts, and states, both sorted by id."""
    random = np.random.default_rng(seed)
    images = sorted({each.image for each in statements} | {"zzz", "aaa"})
    sizes = random.integers(1, tokens + 1, size=len(images))
    features = xr.Dataset(
        {
            "patches": (("token", "channel"), random.normal(size=(sizes.sum(), channels)).astype(np.float32)),
            "row_size": ("image", sizes),
        },
        coords={"image": np.array(images, dtype=object)},
        attrs={"name": "clip", "digest": "sha256:f"},
    )
    texts = sorted(each.id for each in statements)
    states = xr.Dataset(
        {"states": (("text", "channel"), random.normal(size=(len(texts), channels)).astype(np.float32))},
        coords={"text": np.array(texts, dtype=object)},
        attrs={"name": "clip-text", "digest": "sha256:s"},
    )
    return features, states


def _cosine(features: xr.Dataset, states: xr.Dataset, image: str, text: str) -> float:
    ends = np.cumsum(features["row_size"].values)
    at = features["image"].values.tolist().index(image)
    rows = features["patches"].values[ends[at] - features["row_size"].values[at] : ends[at]].astype(np.float64)
    x = rows.sum(axis=0) / len(rows)
    y = states["states"].values[states["text"].values.tolist().index(text)].astype(np.float64)
    return float(sum(a * b for a, b in zip(x, y, strict=True)) / math.sqrt(sum(x**2)) / math.sqrt(sum(y**2)))


@pytest.mark.parametrize("lazy", [False, True])
def test_similarities_are_cosines_of_means(tmp_path: Path, lazy: bool) -> None:
    suite = _suite(tmp_path, 6)
    features, states = _arrays(suite.statements)
    wanted = [
        [[_cosine(features, states, f"img-{2 * p + i:03d}", f"s{p}-{j + 1}") for j in (0, 1)] for i in (0, 1)]
        for p in range(6)
    ]
    if lazy:
        features, states = features.chunk({"token": 4}), states.chunk({"text": 5})
    with scheduler() as place:
        found = similarities(suite.statements, features, states, place, SILENT)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_a_row_tells_everything(tmp_path: Path) -> None:
    suite = _suite(tmp_path, 4)
    features, states = _arrays(suite.statements, tokens=1)
    # Both images of the first pair are one vector: every statement about them is tied.
    patches = features["patches"].values
    patches[1 + 1] = 2 * patches[1]  # img-001 is img-000 (behind "aaa"), longer
    with scheduler() as place:
        row, outcomes = match_pairs(suite.statements, features, states, place=place)
        second, _ = match_pairs(suite.statements, features, states, tie="second", place=place)
        images, _ = match_pairs(suite.statements, features, states, direction="image-to-text", place=place)
    assert (row["encoder"], row["text_encoder"], row["features_digest"], row["tokens"]) == (
        "clip",
        "clip-text",
        "sha256:f",
        1,
    )
    assert (row["pairs"], row["ties"], row["chance"]) == (4, 2, 0.25)
    assert [each["pattern"] for each in row["patterns"]] == ["texts", "count"]
    assert [each["ties"] for each in row["patterns"]] == [2, 0]
    assert row["pairs_right"] == sum(each["right"] for each in outcomes)
    assert outcomes[0]["tied_1"]
    assert outcomes[0]["tied_2"]
    assert not outcomes[0]["right"]
    assert second["pairs_right"] == row["pairs_right"]  # the first statement is tied, too: wrong by both rules
    assert images["ties"] == 0


def test_other_spaces_are_refused(tmp_path: Path) -> None:
    suite = _suite(tmp_path, 2)
    features, _ = _arrays(suite.statements, channels=6)
    _, states = _arrays(suite.statements, channels=5)
    with scheduler() as place, pytest.raises(UsageError, match=r"clip has 6 channels and clip-text has 5") as caught:
        match_pairs(suite.statements, features, states, place=place)
    assert "pooled, projected" in str(caught.value.hint)


def test_missing_ids_are_all_named(tmp_path: Path) -> None:
    suite = _suite(tmp_path, 2)
    features, states = _arrays(suite.statements, tokens=1)
    with scheduler() as place, pytest.raises(InvalidDataError) as caught:
        match_pairs(suite.statements, features.isel(image=[0], token=[0]), states.isel(text=[0]), place=place)
    assert len(caught.value.problems) == 4 + 3
    assert {problem.where for problem in caught.value.problems} == {"clip", "clip-text"}


@pytest.mark.parametrize(("value", "word"), [(0.0, "zero"), (np.nan, "NaN")])
@pytest.mark.parametrize("side", ["features", "states"])
def test_vectors_without_a_direction(tmp_path: Path, side: str, value: float, word: str) -> None:
    suite = _suite(tmp_path, 2)
    features, states = _arrays(suite.statements, tokens=1)
    if side == "features":
        features["patches"].values[2] = value
    else:
        states["states"].values[2] = value
    with scheduler() as place, pytest.raises(InvalidDataError, match=word):
        match_pairs(suite.statements, features, states, place=place)
