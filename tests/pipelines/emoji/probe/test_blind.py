"""Blind runs: each against loops, and the claim on what a ridge map makes of the mean image."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.emoji.probe.blind import BLIND, blind_runs, central, marginal, typical

RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(30, 7)) + 1
STATES[4] = 0  # a state without direction
TRAIN = np.arange(0, 30, 2)
OPTIONS = np.array([RNG.choice(30, 4, replace=False) for _ in range(25)] + [[4, 5, 6, 7]])


def direction(row: np.ndarray) -> np.ndarray:
    length = np.sqrt((row**2).sum())
    return row / length if length else row


def test_typical_is_the_answer_of_ridge_to_the_mean_image() -> None:
    images = RNG.normal(size=(30, 5)) + 2
    captions = np.array([direction(row) for row in STATES])
    design = np.hstack([images[TRAIN], np.ones((len(TRAIN), 1))])
    penalty = np.diag([0.7] * 5 + [0.0])  # the intercept is free
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ captions[TRAIN])
    made = np.append(images[TRAIN].mean(axis=0), 1) @ weights
    found = typical(STATES, TRAIN, OPTIONS)
    np.testing.assert_allclose(found, captions[OPTIONS] @ made, atol=1e-10)


def test_central_is_the_mean_cosine_with_the_others() -> None:
    captions = np.array([direction(row) for row in STATES])
    centred = np.array([direction(row - captions[TRAIN].mean(axis=0)) for row in captions])
    for options, scores in zip(OPTIONS, central(STATES, TRAIN, OPTIONS), strict=True):
        expected = [np.mean([centred[i] @ centred[j] for j in options if j != i]) for i in options]
        np.testing.assert_allclose(scores, expected, atol=1e-10)


def test_marginal_averages_images_and_encoders() -> None:
    one, other = RNG.normal(size=(2, 30, 30))
    for options, scores in zip(OPTIONS, marginal([one, other], TRAIN, OPTIONS), strict=True):
        expected = [np.mean([matrix[i, j] for matrix in (one, other) for i in TRAIN]) for j in options]
        np.testing.assert_allclose(scores, expected, atol=1e-10)


def test_runs_by_name() -> None:
    matrix = RNG.normal(size=(30, 30))
    probes = {("lm", "ridge"): [matrix], ("lm", "contrastive"): [matrix]}
    runs = blind_runs({"lm": STATES}, probes, TRAIN, OPTIONS)
    assert list(runs) == [
        "blind-typical/lm",
        "blind-central/lm",
        "blind-marginal/lm/ridge",
        "blind-marginal/lm/contrastive",
    ]
    assert set(BLIND) == {"typical", "central", "marginal"}
    assert all(run.shape == (26, 4) for run in runs.values())


def test_equal_options_tie_exactly() -> None:
    states = np.ones((8, 3))
    options = np.array([[1, 3, 5, 7]])
    for scores in (typical(states, np.array([0, 2]), options), central(states, np.array([0, 2]), options)):
        assert len(set(scores[0].tolist())) == 1
        assert np.argmax(scores[0]) == pytest.approx(0)
