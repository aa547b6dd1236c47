"""Joining by names: any order of rows, and every kind of gap, all told at once."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged import encoders, predicted, reached

from optotype.pipelines.judging.joining import ANY_MODEL, Joined, join
from optotype.pipelines.judging.predictions import Outcome, Prediction
from optotype.pipelines.judging.results import results
from optotype.schemas.errors import InvalidDataError

LM = {"lm-a": [0.1, 0.5, 0.3], "lm-b": [0.2, 0.1, 0.9]}


def joined(predictions: list[Prediction], outcomes: list[Outcome], **options: Any) -> Joined:
    found, _, problems = results(predictions)
    return join(found, outcomes, found=problems, **options)


def test_any_order_of_rows_gives_the_same() -> None:
    predictions, outcomes = predicted({"m": LM, "v": {"": [3, 1, 2]}}), reached(LM)
    first = joined(predictions, outcomes)
    for seed in range(4):
        random.Random(seed).shuffle(predictions)
        random.Random(seed + 9).shuffle(outcomes)
        again = joined(predictions, outcomes)
        assert again.encoders == first.encoders == tuple(encoders(3))
        assert again.models == ("lm-a", "lm-b")
        order = [[each.metric for each in one.results].index(name) for one in (again, first) for name in ("m", "v")]
        np.testing.assert_array_equal(again.scores[order[:2]], first.scores[order[2:]])
        np.testing.assert_array_equal(again.outcomes, first.outcomes)
    np.testing.assert_array_equal(first.scores[1], [[3, 1, 2], [3, 1, 2]])


def test_every_problem_is_listed_at_once() -> None:
    predictions = predicted({"m": LM, "flat": {"": [1, 1, 1 + 1e-14]}})
    predictions.append(replace(predictions[0], score=0.7, place="row 9"))
    predictions = [each for each in predictions if (each.metric, each.encoder, each.model) != ("m", "e01", "lm-b")]
    predictions.append(replace(predictions[0], encoder="other"))
    outcomes = reached(LM)
    outcomes.append(replace(outcomes[0], score=0.3, place="line 12"))
    with pytest.raises(InvalidDataError) as caught:
        joined(predictions, outcomes)
    told = {(problem.kind, problem.where) for problem in caught.value.problems}
    assert told == {
        ("duplicate", "m, e00 x lm-a"),
        ("duplicate", "downstream, e00 x lm-a"),
        ("missing", "m, e01 x lm-b"),
        ("unknown", "m, other x lm-a"),
        ("constant", "flat, lm-a"),
        ("constant", "flat, lm-b"),
    }
    assert "--common" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"lm": [1, 2]}, "too-few"),
        ({"lm": [2, 2, 2]}, "constant"),
        ({"lm": [1, 2, 3], "mean": [1, 2, 3]}, "reserved-name"),
    ],
)
def test_outcomes_that_say_nothing_are_refused(values: dict[str, list[float]], kind: str) -> None:
    count = len(values["lm"])
    with pytest.raises(InvalidDataError) as caught:
        joined(predicted({"m": {"": range(count)}}), reached(values))
    assert kind in {problem.kind for problem in caught.value.problems}


def test_no_name_in_common_is_refused_in_words() -> None:
    outcomes = [Outcome(f"x{number}", "lm-a", "score", number, "") for number in range(3)]
    with pytest.raises(InvalidDataError, match="no encoder has predictions and an outcome"):
        joined(predicted({"m": {"": [1, 2, 3]}}), outcomes, common=True)


def test_benchmarks_are_averaged_and_must_be_whole() -> None:
    outcomes = reached({"lm": [1, 2, 3]}, "a") + reached({"lm": [5, 2, 1]}, "b")
    found = joined(predicted({"m": {"lm": [1, 2, 4]}}), outcomes)
    np.testing.assert_allclose(found.outcomes, [[3, 2, 2]])
    assert found.benchmarks == ("a", "b")
    with pytest.raises(InvalidDataError, match="has no score on b"):
        joined(predicted({"m": {"lm": [1, 2, 4]}}), outcomes[:-1])


def test_common_keeps_what_all_sides_have_and_says_what_it_left() -> None:
    wide = {name: [*scores, 0.7, 0.4] for name, scores in LM.items()}
    predictions = predicted({"m": wide, "v": {"": [1, 2, 3, 4]}})
    with pytest.raises(InvalidDataError):
        joined(predictions, reached(wide))
    outcomes = [each for each in reached(wide) if (each.encoder, each.model) != ("e00", "lm-b")]
    found = joined(predictions, outcomes, common=True)
    assert found.encoders == ("e01", "e02", "e03")
    assert found.notes == ("left out, as not all sides have them: 2 encoder(s): e00, e04",)
    more = predicted({"only-a": {"lm-a": wide["lm-a"]}})
    found = joined(predictions + more, reached(wide), common=True)
    assert found.models == ("lm-a",)
    assert "1 language model(s): lm-b" in found.notes[1]


def test_partial_lets_a_metric_be_silent_on_a_language_model_but_not_on_a_pair() -> None:
    predictions = predicted({"m": LM, "a": {"lm-a": [1, 2, 3]}})
    with pytest.raises(InvalidDataError, match="--partial"):
        joined(predictions, reached(LM))
    found = joined(predictions, reached(LM), partial=True)
    assert found.notes == ("a has no mean, as it says nothing of lm-b",)
    assert np.isnan(found.scores[1, 1]).all()
    assert joined(predictions, reached(LM), partial=True, common=True).models == ("lm-a", "lm-b")
    with pytest.raises(InvalidDataError, match="a, e02 x lm-a: has a downstream score"):
        joined(predictions[:-1], reached(LM), partial=True)


def test_what_names_no_model_holds_for_all_of_them() -> None:
    found = joined(predicted({"m": LM}), reached({"": [1, 2, 3]}))
    assert found.models == ("lm-a", "lm-b")
    np.testing.assert_array_equal(found.outcomes, [[1, 2, 3], [1, 2, 3]])
    assert joined(predicted({"m": {"": [1, 2, 5]}}), reached({"": [1, 2, 3]})).models == (ANY_MODEL,)


def test_layers_of_one_language_model_are_results_of_their_own() -> None:
    base = predicted({"m": {"lm-a": [1, 2, 3]}}, states_layer=-2) + predicted(
        {"m": {"lm-b": [4, 1, 2]}}, states_layer=-2
    )
    other = predicted({"m": {"lm-a": [3, 1, 2]}}, states_layer=4)
    found = joined(base + other, reached(LM))
    assert [each.label for each in found.results] == ["m (text layer -2)", "m (text layer 4)"]
    assert found.results[0].main
    assert np.isnan(found.scores[1, 1]).all()
    np.testing.assert_array_equal(found.scores[1, 0], [3, 1, 2])
    with pytest.raises(InvalidDataError, match="m, e00 x lm-b: has a downstream score and no prediction"):
        joined(predicted({"m": {"lm-a": [1, 2, 3]}}), reached(LM))


def test_the_hint_leaves_out_what_was_typed() -> None:
    predictions, outcomes = predicted({"m": LM, "flat": {"": [1, 1, 1]}}), reached(LM)
    for options in ({}, {"common": True}, {"partial": True}, {"common": True, "partial": True}):
        with pytest.raises(InvalidDataError) as caught:
            joined(predictions, outcomes, **options)
        for name in ("common", "partial"):
            assert (f"--{name}" in str(caught.value.hint)) == (name not in options)


def test_common_takes_a_pair_that_lacks_a_benchmark_for_one_without_an_outcome() -> None:
    wide = {name: [*scores, 0.7] for name, scores in LM.items()}
    outcomes = reached(wide, "a") + reached(wide, "b")
    whole = [each for each in outcomes if (each.encoder, each.model, each.benchmark) != ("e01", "lm-b", "b")]
    with pytest.raises(InvalidDataError, match="has no score on b"):
        joined(predicted({"m": wide}), whole)
    found = joined(predicted({"m": wide}), whole, common=True)
    assert found.encoders == ("e00", "e02", "e03")
    assert found.notes == (
        "1 pair(s) lack a benchmark, so they have no outcome: e01 x lm-b (b)",
        "left out, as not all sides have them: 1 encoder(s): e01",
    )


def test_both_places_of_a_downstream_score_are_told() -> None:
    outcomes = reached(LM)
    with pytest.raises(InvalidDataError) as caught:
        joined(predicted({"m": LM}), [*outcomes, replace(outcomes[0], place="line 12")])
    assert [problem.message for problem in caught.value.problems] == ["has two scores: lm-a e00 and line 12"]


def test_means_of_the_largest_numbers_and_constants_of_any_scale() -> None:
    outcomes = reached({"lm": [1e308, 2e307, 1.5e308]}, "a") + reached({"lm": [1.7e308, 2e307, 1e308]}, "b")
    found = joined(predicted({"m": {"lm": [1e-20, 2e-20, 3e-20]}}), outcomes)
    np.testing.assert_allclose(found.outcomes, [[1.35e308, 2e307, 1.25e308]])
    with pytest.raises(InvalidDataError, match="what does not vary"):
        joined(predicted({"m": {"lm": [1e20, 1e20 * (1 + 1e-14), 1e20]}}), reached({"lm": [1, 2, 3]}))
