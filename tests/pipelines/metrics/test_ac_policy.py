"""AC policy: the quadratic against plain least squares, and that nothing of an encoder moves its own prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labelled_inputs import make_inputs, run

from optotype.pipelines.metrics.ac_policy import AcPolicy, predict, read_scores
from optotype.pipelines.metrics.alignment_probing import AlignmentProbing
from optotype.pipelines.metrics.keypoints import Keypoints, correspondence
from optotype.pipelines.metrics.metric import Refusal, checked_options
from optotype.schemas.errors import InvalidDataError, UsageError

POLICY = AcPolicy()
Downstream = Mapping[tuple[str, str], float]


def slow_quadratic(training: np.ndarray, targets: np.ndarray, own: np.ndarray) -> float:
    low, high = training.min(axis=0), training.max(axis=0)
    width = np.where(high > low, high - low, 1.0)

    def terms(point: np.ndarray) -> list[float]:
        a, c = (point - low) / width
        return [1.0, a, c, a * a, a * c, c * c]

    matrix = np.array([terms(point) for point in training])
    return float(np.array(terms(own)) @ np.linalg.lstsq(matrix, targets, rcond=None)[0])


def pool(encoders: Sequence[str], downstream: Downstream, models: Sequence[str] = ("lm",)) -> list[Any]:
    base = make_inputs(np.eye(4), states=np.eye(4), downstream=downstream)
    return [replace(base, encoder=encoder, model=model) for model in models for encoder in encoders]


def table(folder: Path, rows: Sequence[tuple[Any, ...]]) -> str:
    path = folder / "ac.csv"
    path.write_text("encoder,model,a,c\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return str(path)


def case(seed: int, n: int, model: str = "lm") -> tuple[list[str], list[tuple[Any, ...]], dict[tuple[str, str], float]]:
    rng = np.random.default_rng(seed)
    names = [f"e{number}" for number in range(n)]
    ac = rng.random((n, 2))
    scores = 1 + 2 * ac[:, 0] - ac[:, 1] + ac[:, 0] * ac[:, 1] - 0.5 * ac[:, 1] ** 2
    rows = [(name, model, float(a), float(c)) for name, (a, c) in zip(names, ac, strict=True)]
    return names, rows, {(name, model): float(score) for name, score in zip(names, scores, strict=True)}


def scores(inputs: Sequence[Any], seed: int = 0, **options: Any) -> list[Any]:
    return POLICY.scores(inputs, checked_options(POLICY, options), seed=seed)


@pytest.mark.parametrize("n", [6, 7, 12, 30])
def test_prediction_is_plain_least_squares(n: int) -> None:
    rng = np.random.default_rng(n)
    training, own, targets = rng.random((n, 2)) * [3, 0.1], rng.random(2) * [3, 0.1], rng.standard_normal(n)
    value, _ = predict(training, targets, own, 0.0)
    assert value == pytest.approx(slow_quadratic(training, targets, own), rel=1e-6, abs=1e-6)


def test_a_side_that_does_not_vary_counts_for_nothing() -> None:
    rng = np.random.default_rng(0)
    training = np.stack([rng.random(8), np.full(8, 0.5)], axis=1)
    targets = 2 * training[:, 0] ** 2 + 1
    assert predict(training, targets, np.array([0.3, 0.5]), 0.0)[0] == pytest.approx(1.18)
    assert predict(training, targets, np.array([0.3, 0.7]), 0.0)[1] == ["C"]


def test_ridge_holds_coefficients() -> None:
    rng = np.random.default_rng(1)
    training, targets = rng.random((5, 2)), rng.standard_normal(5)
    own = np.array([0.4, 0.6])
    assert predict(training, targets, own, 1e9)[0] == pytest.approx(targets.mean(), abs=1e-6)
    low, width = training.min(axis=0), np.ptp(training, axis=0)
    a, c = ((training - low) / width).T
    x = np.stack([a, c, a * a, a * c, c * c], axis=1)
    centred, around = x - x.mean(axis=0), targets - targets.mean()
    weights = np.linalg.solve(centred.T @ centred + 0.3 * np.eye(5), centred.T @ around)
    b, d = (own - low) / width
    expected = targets.mean() + (np.array([b, d, b * b, b * d, d * d]) - x.mean(axis=0)) @ weights
    assert predict(training, targets, own, 0.3)[0] == pytest.approx(expected)


def test_a_planted_quadratic_is_foretold(tmp_path: Path) -> None:
    names, rows, downstream = case(0, 12)
    found = scores(pool(names, downstream), table=table(tmp_path, rows))
    for name, score in zip(names, found, strict=True):
        assert score.value == pytest.approx(downstream[name, "lm"], abs=1e-6)
        assert score.details["training_encoders"] == sorted(set(names) - {name})
        assert score.chance is None
        assert score.details["mean_of_others"] == pytest.approx(
            np.mean([downstream[other, "lm"] for other in names if other != name])
        )


def test_an_encoder_moves_nothing_of_its_own_prediction(tmp_path: Path) -> None:
    names, rows, downstream = case(1, 9)
    noisy = {key: value + float(np.random.default_rng(2).normal()) for key, value in downstream.items()}
    before = scores(pool(names, noisy), table=table(tmp_path, rows))
    after = scores(pool(names, {**noisy, ("e3", "lm"): 1e6}), table=table(tmp_path, rows))
    assert after[3].value == before[3].value
    assert after[0].value != before[0].value
    without = {key: value for key, value in noisy.items() if key != ("e3", "lm")}
    assert scores(pool(names, without), table=table(tmp_path, rows))[3].value == before[3].value
    # neither its score nor its place among A and C
    moved = [(*row[:2], 50.0, -7.0) if row[0] == "e3" else row for row in rows]
    far = scores(pool(names, noisy), table=table(tmp_path, moved))[3]
    assert far.details["training_encoders"] == before[3].details["training_encoders"]
    assert any("lies outside the A and C" in warning for warning in far.warnings)


def test_models_are_fitted_apart_and_order_does_not_matter(tmp_path: Path) -> None:
    names, rows, downstream = case(3, 9)
    _, others, second = case(4, 9, "other")
    path = table(tmp_path, [*rows, *others])
    together = scores(pool(names, {**downstream, **second}, ("lm", "other")), table=path)
    alone = scores(pool(names, downstream), table=path)
    assert [score.value for score in together[:9]] == [score.value for score in alone]
    assert [score.value for score in together[9:]] != [score.value for score in alone]
    backwards = scores(pool(names[::-1], downstream), table=path)
    assert [score.value for score in backwards[::-1]] == [score.value for score in alone]


def test_rows_of_encoders_that_are_not_ranked_help(tmp_path: Path) -> None:
    names, rows, downstream = case(5, 8)
    found = scores(pool(names[:1], downstream), table=table(tmp_path, rows))
    assert found[0].details["training_encoders"] == names[1:]


def test_too_few_others_are_refused_unless_ridge_is_asked_for(tmp_path: Path) -> None:
    names, rows, downstream = case(6, 6)
    path = table(tmp_path, rows)
    for refusal in scores(pool(names, downstream), table=path):
        assert isinstance(refusal, Refusal)
        assert "has 5" in refusal.why
        assert "ridge" in str(refusal.hint)
    found = scores(pool(names, downstream), table=path, ridge=0.01)
    assert all(np.isfinite(score.value) for score in found)
    names, rows, downstream = case(6, 7)
    loose = scores(pool(names, downstream), table=table(tmp_path, rows))
    assert all("fitted on 6 encoders" in score.warnings[0] for score in loose)


def test_an_encoder_that_the_table_lacks_is_refused_alone(tmp_path: Path) -> None:
    names, rows, downstream = case(7, 9)
    found = scores(pool(names, downstream), table=table(tmp_path, rows[:-1]))
    assert isinstance(found[-1], Refusal)
    assert "no row for encoder e8" in found[-1].why
    assert all(not isinstance(each, Refusal) for each in found[:-1])


def test_a_and_c_are_those_of_probing_and_keypoints() -> None:
    rng = np.random.default_rng(8)
    shared = rng.standard_normal((20, 4))
    states = shared @ rng.standard_normal((4, 5))
    codes = rng.random((40, 4))
    points = Keypoints(("i000",) * 40, ("i001",) * 40, tuple(f"k{n:02}" for n in range(40)), codes[:, :2], codes[:, :2])
    downstream = {(f"e{number}", "lm"): float(number) for number in range(8)}
    members = []
    for number in range(8):
        base = rng.standard_normal((4, 4))
        patches = [base + 0.3 * number * rng.standard_normal((4, 4)) for _ in range(20)]
        pooled = shared + 0.3 * number * rng.standard_normal((20, 4))
        more = {"keypoints": points, "downstream": downstream, "encoder": f"e{number}"}
        members.append(make_inputs(pooled, states=states, patches=patches, grid=(2, 2), **more))
    found = scores(members, seed=4, alpha=0.5)
    for member, score in zip(members, found, strict=True):
        assert score.details["a"] == run(AlignmentProbing(), member, seed=4).value
        c = correspondence(member.features, points, alpha=0.5)
        assert (score.details["c"], score.details["points"], score.details["pairs"]) == (c.value, 40, 1)
    training = np.array([[score.details["a"], score.details["c"]] for score in found])
    expected = slow_quadratic(training[1:], np.arange(1.0, 8.0), training[0])
    assert found[0].value == pytest.approx(expected, rel=1e-6, abs=1e-6)
    # one whose patches have no grid is refused, and the others are predicted without it
    strange = replace(members[2], features=members[2].features.assign_attrs(grid=[3, 3]))
    mixed = scores([*members[:2], strange, *members[3:]], seed=4, alpha=0.5)
    assert isinstance(mixed[2], Refusal)
    assert "grid" in mixed[2].why
    assert mixed[0].details["training_encoders"] == [f"e{n}" for n in (1, 3, 4, 5, 6, 7)]


def test_refusals_without_what_it_needs(tmp_path: Path) -> None:
    names, rows, downstream = case(9, 8)
    with pytest.raises(UsageError, match="--keypoints"):
        scores(pool(names, downstream))
    with pytest.raises(UsageError, match="--downstream"):
        scores([replace(each, downstream=None) for each in pool(names, downstream)], table=table(tmp_path, rows))
    with pytest.raises(InvalidDataError, match="e1, lm"):
        scores(pool(names, {**downstream, ("e1", "lm"): np.nan}), table=table(tmp_path, rows))


def test_every_problem_of_the_table_is_listed(tmp_path: Path) -> None:
    path = table(tmp_path, [("a", "lm", 1, 2), ("", "lm", 1, 2), ("a", "lm", "x", "inf"), ("b", "lm", "", 0)])
    with pytest.raises(InvalidDataError) as caught:
        read_scores(path)
    assert [(problem.where, problem.kind) for problem in caught.value.problems] == [
        ("row 1", "blank"),
        ("a[2]", "not-finite"),
        ("c[2]", "not-finite"),
        ("row 2", "repeat"),
        ("a[3]", "not-finite"),
    ]
    with pytest.raises(InvalidDataError, match="no rows"):
        read_scores(table(tmp_path, []))
