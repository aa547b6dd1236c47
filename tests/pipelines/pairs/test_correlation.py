"""Pearson's r over patterns with Fisher's interval, against scipy, and where it is undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr

from optotype.pipelines.pairs.correlation import correlate, correlate_all
from optotype.schemas.errors import UsageError

# OpenAI ViT-L-14 (224) on the nine patterns of MMVP-VLM, and the r that is printed for models with it.
ENCODER = (13.3, 13.3, 20.0, 20.0, 13.3, 53.3, 20.0, 6.7, 13.3)
PRINTED = {"LLaVA-1.5": 0.87, "InstructBLIP": 0.71, "Bard": 0.79, "Gemini": 0.72, "GPT-4": 0.31}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_r_and_interval_equal_scipy(seed: int, level: float) -> None:
    random = np.random.default_rng(seed)
    n = 4 + seed
    x, y = random.integers(0, 16, size=(2, n)) / 15
    x[0], x[1], y[0], y[1] = 0, 1, 0.2, 0.4
    found, wanted = correlate(x.tolist(), y.tolist(), level), pearsonr(x, y)
    interval = wanted.confidence_interval(level)
    assert found.reason is None
    assert (found.r, found.low, found.high) == pytest.approx((wanted.statistic, interval.low, interval.high), abs=1e-12)


@pytest.mark.parametrize("model", PRINTED)
def test_printed_correlations(model: str) -> None:
    """The figures behind the printed r are not printed: accuracies that have that r give it back, to two digits."""
    x = np.array(ENCODER) - np.mean(ENCODER)
    other = np.array([1.0, -2, 3, -4, 5, 0, -5, 4, -2])
    other -= other.mean() + x * (other @ x) / (x @ x)
    r = PRINTED[model]
    y = 40 + 10 * (r * x / np.linalg.norm(x) + math.sqrt(1 - r * r) * other / np.linalg.norm(other))
    found = correlate(ENCODER, y.tolist())
    assert found.r is not None
    assert found.low is not None
    assert round(found.r, 2) == r
    assert found.n == 9
    assert (found.low > 0) == (r > 0.67)  # nine points: what is below could be none at all


@pytest.mark.parametrize(
    ("encoder", "model", "words"),
    [
        ([0.2, 0.2, 0.2, 0.2], [0.1, 0.2, 0.3, 0.4], "the encoder scores the same"),
        ([0.1, 0.2, 0.3, 0.4], [0.1 + 0.2, 0.3, 0.3, 0.3], "the model scores the same"),
        ([0.5] * 4, [0.5] * 4, "the encoder and the model score"),
        ([0.1, 0.2], [0.1, 0.2], "3 are needed"),
        ([], [], "0 patterns"),
    ],
)
def test_undefined(encoder: list[float], model: list[float], words: str) -> None:
    found = correlate(encoder, model)
    assert (found.r, found.low, found.high) == (None, None, None)
    assert found.reason is not None
    assert words.removesuffix(" score") in found.reason


def test_no_interval() -> None:
    three = correlate([0.1, 0.2, 0.4], [0.2, 0.1, 0.3])
    assert three.r is not None
    assert three.low is None
    assert "four patterns" in str(three.reason)
    line = correlate([0.1, 0.2, 0.3, 0.4], [0.8, 0.6, 0.4, 0.2])
    assert (line.r, line.low) == (-1.0, None)
    assert "line" in str(line.reason)


def test_wrong_words() -> None:
    with pytest.raises(UsageError, match="level"):
        correlate(ENCODER, ENCODER, 1.0)
    with pytest.raises(UsageError, match="9 and of 1"):
        correlate(ENCODER, [0.5])


def test_every_encoder_against_every_model_over_what_both_have() -> None:
    encoders = {"a": dict(zip("wxyz", (0.1, 0.2, 0.3, 0.5), strict=True)), "b": dict.fromkeys("wxyz", 0.5)}
    models = {"m": dict(zip("vzyxw", (0.9, 0.4, 0.3, 0.3, 0.1), strict=True)), "n": {"v": 0.1}}
    rows = correlate_all(encoders, models)
    assert [(row["encoder"], row["model"]) for row in rows] == [("a", "m"), ("a", "n"), ("b", "m"), ("b", "n")]
    wanted = pearsonr([0.1, 0.2, 0.3, 0.5], [0.1, 0.3, 0.3, 0.4]).statistic
    assert rows[0]["r"] == pytest.approx(wanted)
    assert (rows[0]["patterns"], rows[0]["left_out"]) == (["w", "x", "y", "z"], ["v"])
    assert [row["r"] for row in rows[1:]] == [None, None, None]
