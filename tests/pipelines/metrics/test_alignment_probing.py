"""Alignment probing against a plain contrastive fit, permutations of ties, and planted pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from labelled_inputs import make_inputs, run

from optotype.pipelines.metrics.alignment_probing import AlignmentProbing, expected_recall
from optotype.schemas.errors import InvalidDataError, UsageError

PROBING = AlignmentProbing()


def pairs(seed: int, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 6))
    return (
        shared @ rng.standard_normal((6, 10)) + noise * rng.standard_normal((n, 10)),
        shared @ rng.standard_normal((6, 8)) + noise * rng.standard_normal((n, 8)),
    )


def test_the_map_is_the_optimum_of_a_plain_contrastive_fit() -> None:
    """Searched by scipy's BFGS with numerical slopes, along scikit-learn's principal directions."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp
    from sklearn.decomposition import PCA

    from optotype.pipelines.metrics.held_out import held_out

    images, states = pairs(0, 60, 0.7)
    inputs = make_inputs(images, states=states)
    score = run(PROBING, inputs, seed=5)
    train, test = held_out(inputs.items, 0.3, 5, "alignment-probing")
    train, test = np.sort(train), np.sort(test)

    def whitened(rows: np.ndarray) -> np.ndarray:
        pca = PCA().fit(rows[train])
        variance = pca.explained_variance_ * (len(train) - 1) / len(train)
        kept = variance > variance.max() * 1e-10
        turned = pca.transform(rows)[:, kept]
        return turned / np.sqrt(variance[kept] + score.details["shrink"] * variance[kept].mean())

    x, y = whitened(images), whitened(states)

    def loss(flat: np.ndarray) -> float:
        weights = flat.reshape(x.shape[1], y.shape[1])
        logits = (x[train] / x.shape[1] ** 0.5) @ weights @ (y[train] / y.shape[1] ** 0.5).T
        right = np.diag(logits)
        entropies = [(logsumexp(logits, axis=axis) - right).mean() for axis in (0, 1)]
        return float(np.mean(entropies) + score.details["penalty"] / 2 * (flat**2).sum())

    weights = minimize(loss, np.zeros(x.shape[1] * y.shape[1]), method="BFGS").x.reshape(x.shape[1], -1)
    mapped = x[test] @ weights
    similarity = mapped @ y[test].T / np.linalg.norm(mapped, axis=1)[:, None] / np.linalg.norm(y[test], axis=1)
    # the optimum of either search, to the precision at which both stop: the ranks are what is scored
    assert np.mean((similarity.argmax(1) == np.arange(len(test))) == (score.per_item == 1)) >= 0.9
    assert score.value == pytest.approx((similarity.argmax(1) == np.arange(len(test))).mean(), abs=0.12)
    assert (score.details["train"], score.details["held_out"]) == (42, 18)
    assert score.chance == 1 / 18


def test_aligned_pairs_are_found_and_shuffled_ones_are_not() -> None:
    images, states = pairs(1, 80, 0.05)
    aligned = run(PROBING, make_inputs(images, states=states))
    order = np.random.default_rng(2).permutation(80)
    shuffled = run(PROBING, make_inputs(images, states=states[order]))
    assert aligned.value > 0.8
    assert shuffled.value < 0.25


@pytest.mark.parametrize("seed", range(4))
def test_recall_is_the_mean_over_all_orders_of_ties(seed: int) -> None:
    similarity = np.random.default_rng(seed).integers(0, 3, (5, 5)).astype(float)
    orders = list(itertools.permutations(range(5)))
    for i, expected in enumerate(expected_recall(similarity)):
        firsts = [max(range(5), key=lambda j, o=order: (similarity[i, j], o[j])) for order in orders]
        assert expected == pytest.approx(np.mean([first == i for first in firsts]))


def test_repeated_captions_share_their_credit() -> None:
    images, states = pairs(3, 60, 0.05)
    states[:] = states[0] + np.arange(60)[:, None] % 2  # two captions, 30 times each
    score = run(PROBING, make_inputs(images, states=states))
    assert score.value < 0.2
    assert set(score.per_item.tolist()) - {0.0}  # shares, not all or nothing
    assert max(score.per_item) < 0.5


def test_both_directions_and_their_mean() -> None:
    images, states = pairs(4, 50, 1.0)
    found = {
        d: run(PROBING, make_inputs(images, states=states), direction=d)
        for d in ("image-to-text", "text-to-image", "both")
    }
    forward, back = found["image-to-text"].value, found["text-to-image"].value
    assert found["both"].value == pytest.approx((forward + back) / 2)
    assert found["both"].details == found["image-to-text"].details
    assert (forward, back) == (found["both"].details["image_to_text"], found["both"].details["text_to_image"])


def test_only_as_many_pairs_as_asked_are_used() -> None:
    images, states = pairs(5, 60, 0.5)
    some = run(PROBING, make_inputs(images, states=states), pairs=30)
    assert some.details["train"] + some.details["held_out"] == 30
    assert any("30 of 60" in warning for warning in some.warnings)
    assert not run(PROBING, make_inputs(images, states=states)).warnings


def test_rows_may_come_in_any_order_and_the_seed_draws() -> None:
    images, states = pairs(6, 50, 1.0)
    order = np.random.default_rng(0).permutation(50)
    ids = np.array([f"i{number:03}" for number in range(50)], dtype=object)
    whole = run(PROBING, make_inputs(images, states=states), seed=1)
    moved = run(PROBING, make_inputs(images[order], states=states[order], items=ids[order]), seed=1)
    assert moved.value == whole.value
    again = run(PROBING, make_inputs(images, states=states), seed=1)
    assert (again.value, again.details) == (whole.value, whole.details)
    values = {run(PROBING, make_inputs(images, states=states), seed=seed).details["validation"] for seed in range(3)}
    assert len(values) == 3


def test_refusals_say_what_to_do() -> None:
    images, states = pairs(7, 20, 0.5)
    with pytest.raises(UsageError, match="--states"):
        run(PROBING, make_inputs(images))
    for few in (1, 12):
        with pytest.raises(UsageError, match="too few"):
            run(PROBING, make_inputs(images[:few], states=states[:few]))
    with pytest.raises(InvalidDataError, match="equal"):
        run(PROBING, make_inputs(np.ones((20, 3)), states=states))
    states[4] = np.nan
    with pytest.raises(InvalidDataError, match="i004"):
        run(PROBING, make_inputs(images, states=states))
