"""RAVEL judged with a planted truth: encoders of known degradation, ranked by the real metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from optotype.pipelines.judging.judge import judge
from optotype.pipelines.judging.predictions import Outcome
from optotype.pipelines.judging.sources import read_predictions
from optotype.registry.rankings import rank
from optotype.store.features import write_features
from optotype.store.project import Project
from optotype.store.states import write_states

ITEMS, TOKENS, CHANNELS = 80, 3, 8
NOISE = {"n0": 0.0, "n1": 0.4, "n2": 0.8, "n3": 1.3, "n4": 2.2, "twin": 0.8, "n5": 9.0}
"""Standard deviation of what is added to the truth; ``twin`` holds the very values of ``n2``."""


@pytest.fixture(scope="module")
def predictions(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    root = tmp_path_factory.mktemp("planted")
    (root / ".optotype").mkdir()
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n')
    project = Project(root.resolve())
    rng = np.random.default_rng(11)
    ids = [f"i{number:02d}" for number in range(ITEMS)]
    truth = rng.normal(size=(ITEMS, CHANNELS))
    patches = {}
    for name, noise in NOISE.items():
        seen = truth[:, None, :] + 0.2 * rng.normal(size=(ITEMS, TOKENS, CHANNELS))
        seen += noise * rng.normal(size=(ITEMS, 1, CHANNELS))
        patches[name] = patches["n2"] if name == "twin" else seen.reshape(-1, CHANNELS).astype(np.float32)
        write_features(
            project.features / name,
            ids=ids,
            row_size=np.full(ITEMS, TOKENS),
            blocks=[patches[name]],
            dtype="float32",
            inputs={"test": name},
        )
    for name, width in (("lm-a", 12), ("lm-b", 30)):
        states = truth @ rng.normal(size=(CHANNELS, width)) + 0.1 * rng.normal(size=(ITEMS, width))
        write_states(
            project.states / name, ids=ids, blocks=[states.astype(np.float32)], dtype="float32", inputs={"test": name}
        )
    rank(list(NOISE), ["lm-a", "lm-b"], project=project, metric=["ravel", "mutual-nn"], k=10, out=root / "out")
    found, notes = read_predictions(root / "out" / "ranking.json")
    assert not notes
    return found


def _outcomes(noise: float, seed: int = 0) -> list[Outcome]:
    """What encoders reach: less, the more they are degraded; the twins alike; with noise if asked for."""
    rng = np.random.default_rng(seed)
    return [
        Outcome(name, model, "score", -np.log1p(level) + noise * rng.normal(), "")
        for model in ("lm-a", "lm-b")
        for name, level in NOISE.items()
    ]


def test_encoders_of_known_degradation_are_ordered_rightly(predictions: list[Any]) -> None:
    found = judge(predictions, _outcomes(0), bootstrap=200)
    rows = [row for row in found["rows"] if row["metric"] == "ravel"]
    assert all(row["rho"] == pytest.approx(1) for row in rows)
    assert all(row["rho_low"] == row["rho_high"] == pytest.approx(1) for row in rows)
    # The two pairings that swap the twins are as good; none is as bad, as ranks with this tie cannot be reversed.
    assert {row["rho_p"] for row in rows if row["model"] != "mean"} == {2 / 5040}


def test_ties_have_average_ranks_and_noise_an_interval_that_covers(predictions: list[Any]) -> None:
    scores = {each.encoder: each.score for each in predictions if (each.metric, each.model) == ("ravel", "lm-a")}
    assert scores["n2"] == scores["twin"]
    covered = 0
    for seed in range(6):
        outcomes = _outcomes(0.8, seed)
        found = judge(
            predictions, outcomes, metrics=["ravel"], curves=["pool"], bootstrap=100, pool_repeats=1, seed=seed
        )
        (row,) = [row for row in found["rows"] if row["model"] == "lm-a"]
        own = {each.encoder: each.score for each in outcomes if each.model == "lm-a"}
        wanted = stats.spearmanr([scores[name] for name in NOISE], [own[name] for name in NOISE])[0]
        assert row["rho"] == pytest.approx(wanted, abs=1e-12)
        assert row["rho_low"] < row["rho"] < 1
        covered += row["rho_low"] <= _true_rho() <= row["rho_high"]
    assert covered >= 5  # of 6; nominal 95 %, and seven encoders make the bootstrap rough


def _true_rho() -> float:
    """Mean ρ between the planted order and outcomes under the same noise, over many draws."""
    levels = np.array([-np.log1p(level) for level in NOISE.values()])
    rng = np.random.default_rng(99)
    return float(np.mean([stats.spearmanr(levels, levels + 0.8 * rng.normal(size=len(levels)))[0] for _ in range(100)]))
