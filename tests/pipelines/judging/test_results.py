"""Results out of predictions: which settings tell them apart, which one is the main one, what two files say twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged import predicted

from optotype.pipelines.judging.results import results

SCORES = {"m": {"lm": [1, 2, 3]}}


def _sweep() -> list:  # type: ignore[type-arg]
    rows = []
    for setting in ({"k": 50}, {"k": 150}, {"eps": 5e-4}, {"gamma": 0.0}, {"n": 200}, {}):
        rows += predicted(SCORES, **{"k": 100, "eps": 1e-4, "n": 400, **setting})
    return rows


def test_the_centre_of_sweeps_is_the_main_result() -> None:
    found, notes, problems = results(_sweep())
    assert not problems
    assert not notes
    main = found[0]
    assert main.label == "m"
    assert [each.main for each in found] == [True] + [False] * 5
    assert (main.settings["k"], main.settings["eps"], main.settings["gamma"], main.settings["n"]) == (
        100,
        1e-4,
        1.0,
        400,
    )
    assert {each.label for each in found[1:]} == {"m (k 50)", "m (k 150)", "m (ε 0.0005)", "m (γ 0)", "m (n 200)"}


@pytest.mark.parametrize(
    ("name", "values", "main"),
    [
        ("k", [50, 100, 150], 100),
        ("k", [5, 10, 20], 5),
        ("n", [100, 200, 400], 400),
        ("prenorm_states", ["none", "l2"], "l2"),
        ("post_features", ["centre+l2", "none"], "none"),
    ],
)
def test_a_sweep_alone_has_the_default_as_its_main_result(name: str, values: list[object], main: object) -> None:
    found, _, _ = results([each for value in values for each in predicted(SCORES, **{name: value})])
    assert found[0].settings[name] == main
    assert len(found) == len(values)


def test_a_tie_is_settled_as_for_the_other_metrics() -> None:
    rows = [each for k in (10, 20) for each in predicted({"a": {"lm": [1, 2, 3]}}, k=k)]
    rows += predicted({"b": {"lm": [1, 2, 3]}}, k=20)
    assert results(rows)[0][0].settings["k"] == 20


def test_what_two_files_tell_alike_counts_once() -> None:
    one = predicted(SCORES, k=100, states_layer=-2)
    other = [replace(each, source="/far/away/ranking.json") for each in predicted(SCORES, k=100)]
    found, notes, problems = results(one + other)
    assert len(found) == 1
    assert len(found[0].predictions) == 3
    assert not problems
    assert notes == ["m: results that both file and away/ranking.json hold count once"]


def test_what_differs_or_one_file_tells_twice_is_a_problem() -> None:
    one = predicted(SCORES, k=100)
    for again in (one[0], replace(one[0], score=7.0, source="other")):
        _, _, problems = results([*one, again])
        assert [(problem.kind, problem.where) for problem in problems] == [("duplicate", "m, e00 x lm")]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("source", ["file", "other/file"])
def test_a_score_for_every_model_beside_one_of_a_model_is_told_twice(turned: bool, source: str) -> None:
    rows = predicted(SCORES) + [
        replace(each, model=None, score=-each.score, source=source, place=f"other {each.place}")
        for each in predicted(SCORES)[:2]
    ]
    _, _, problems = results(rows[::-1] if turned else rows)
    assert {problem.where for problem in problems} == {"m, e00 x lm", "m, e01 x lm"}
    for number, problem in enumerate(sorted(problems, key=lambda each: each.where)):
        assert problem.kind == "duplicate"
        assert f"other row {number} ({-number - 1})" in problem.message
        assert f"and row {number} ({number + 1})" in problem.message


def test_layers_that_differ_from_encoder_to_encoder_tell_nothing_apart() -> None:
    rows = [replace(each, settings={**each.settings, "features_layer": number}) for number, each in
            enumerate(predicted(SCORES))]  # fmt: skip
    found, _, _ = results(rows)
    assert [each.label for each in found] == ["m"]
