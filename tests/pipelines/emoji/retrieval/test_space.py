"""The map of a probe is that of its similarities, for every kind."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.emoji.probe.directions import unit
from optotype.pipelines.emoji.probe.fitting import Side, fit_pair
from optotype.pipelines.emoji.probe.halves import folds
from optotype.pipelines.emoji.probe.maps import PROBES
from optotype.pipelines.emoji.retrieval.space import fit_space


@pytest.mark.parametrize("probe", list(PROBES))
@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_cosines_are_those_of_the_panel(probe: str, noise: float) -> None:
    rng = np.random.default_rng(3)
    meaning = rng.normal(size=(60, 5))
    images = meaning @ rng.normal(size=(5, 12)) + noise * rng.normal(size=(60, 12))
    texts = unit(meaning @ rng.normal(size=(5, 7)) + noise * rng.normal(size=(60, 7)))
    train = np.arange(0, 60, 2)
    fold = folds(np.arange(30), 5, 0)
    sides = Side.of(images, train, fold, "images"), Side.of(texts, train, fold, "texts")
    fit = fit_pair(*sides, train, fold, [probe])[probe]
    space = fit_space(*sides, train, fold, probe)
    cosines = space.of_images(images) @ space.of_texts(texts).T
    np.testing.assert_array_equal(np.round(cosines, 12), fit.similarity)
    assert (space.shrink, space.penalty, space.validation) == (fit.shrink, fit.penalty, fit.validation)
    np.testing.assert_allclose(np.linalg.norm(space.of_images(images), axis=1), 1)


def test_rows_that_are_not_fitted_on_change_nothing() -> None:
    rng = np.random.default_rng(4)
    images, texts = rng.normal(size=(40, 9)), unit(rng.normal(size=(40, 6)))
    train = np.arange(20)
    fold = folds(np.arange(20), 2, 0)
    one = fit_space(Side.of(images, train, fold, "i"), Side.of(texts, train, fold, "t"), train, fold)
    images[20:], texts[20:] = 7.0, 0.0
    two = fit_space(Side.of(images, train, fold, "i"), Side.of(texts, train, fold, "t"), train, fold)
    assert one.weights.tobytes() == two.weights.tobytes()
