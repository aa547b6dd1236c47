"""Agreement of answers in two languages; averages that are null where a part of them is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from task_sets import make_embeddings, make_tasks, states_of, tasks_of

from optotype.pipelines.retrieval import tiles
from optotype.pipelines.retrieval.agreement import agreement, by_item
from optotype.pipelines.retrieval.averages import language_rows, macro_row, ordered_languages, ordered_tasks
from optotype.pipelines.retrieval.blocks import Limits
from optotype.pipelines.retrieval.evaluate import evaluate
from optotype.pipelines.retrieval.measures import POLICIES
from optotype.pipelines.retrieval.parts import part_of
from optotype.pipelines.retrieval.ranks import Prediction


def _answer(*items: int) -> Prediction:
    item, times = np.unique(items, return_counts=True)
    return Prediction(item, times / times.sum())


def _draws(a: tuple[int, ...], b: tuple[int, ...]) -> list[float]:
    """Agreement over every pair of draws from two ties; -1 is not known, and agrees with nothing."""
    pairs = [(x, y) for x in a for y in b]
    same = [x == y != -1 for x, y in pairs]
    return [sum(same) / len(same), float(any(same)), float(all(same))]


def test_agreement_is_that_of_every_pair_of_draws() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = (tuple(rng.integers(-1, 4, int(rng.integers(1, 5))).tolist()) for _ in range(2))
        found = agreement({"x": [0]}, {"x": [1]}, {0: _answer(*a), 1: _answer(*b)})
        if set(a) == set(b) == {-1}:
            assert (found["items"], found["left_out"]["unknown"], found["expected"]) == (0, 1, None)
        else:
            expected = [100 * value for value in _draws(a, b)]
            assert [found[policy] for policy in POLICIES] == pytest.approx(expected), (a, b)


def test_who_is_compared_and_who_is_left_out() -> None:
    own = by_item([(0, "a"), (1, "a"), (2, "b"), (3, "c"), (4, ""), (5, "mine"), (6, "d")])
    other = by_item([(10, "a"), (12, "b"), (13, "c"), (14, ""), (15, "theirs"), (16, "d")])
    # a: one of two queries agrees. b: no vector in one language. c: a tie too large. d: not known what it is about.
    answers: dict[int, Prediction | None] = {0: _answer(1), 1: _answer(2), 10: _answer(1), 12: _answer(1)}
    answers |= {3: None, 13: _answer(1), 6: _answer(-1), 16: _answer(-1)}
    found = agreement(own, other, answers)
    assert [found[policy] for policy in POLICIES] == [25, 25, 25]
    assert found["items"] == 2
    assert found["left_out"] == {"no_counterpart": 3, "unknown": 1, "undecided": 1}


def test_a_tie_too_large_is_undecided_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids count towards the limit, also those of one candidate; ranks are as they are without it."""
    tasks = make_tasks({("i2t", "en"): 5, ("i2t", "it"): 5}, candidates=9, same_target=0.3)
    asked, offered = make_embeddings(tasks)
    same = states_of(dict.fromkeys(offered["text"].values.tolist(), np.arange(1, 17)))
    whole = evaluate(tasks, [asked], [same])
    for most, left in ((8, 5), (9, 0)):
        monkeypatch.setattr(tiles, "MOST_TIED", most)
        for limits in (Limits(), Limits(block=2), Limits(queries=1, block=1)):
            found = evaluate(tasks, [asked], [same], limits=limits)
            assert found.languages[1]["agreement_details"]["i2t"]["left_out"]["undecided"] == left
            assert found.cells == whole.cells


def test_what_a_candidate_is_about_is_its_own() -> None:
    """Two ids of one candidate: the first item by name; none is not a name."""
    tasks = tasks_of(
        [
            {"query": f"{language}/q", "language": language, "item": "x", "list": names, "relevant": names[:1]}
            for language, names in (("en", ["en/1", "en/2"]), ("it", ["it/1", "it/2"]))
        ],
        [
            {"candidate": "en/1", "target": "e", "candidate_item": ""},
            {"candidate": "en/2", "target": "e", "candidate_item": "b"},
            {"candidate": "it/1", "target": "i", "candidate_item": "c"},
            {"candidate": "it/2", "target": "i", "candidate_item": "b"},
        ],
    )
    states = states_of({key: [1, 2] for key in ["en/q", "it/q", "en/1", "en/2", "it/1", "it/2"]})
    assert evaluate(tasks, [states], [states]).languages[1]["agreement"] == {"i2t": 100}


def test_order_of_tasks_and_languages() -> None:
    assert ordered_tasks(["zz", "vg", "c", "i2t", "aa", "t2i", "vqa", "c"]) == [
        "i2t",
        "t2i",
        "c",
        "vqa",
        "vg",
        "aa",
        "zz",
    ]
    assert ordered_languages(["it", "de", "en", "it"]) == ["en", "de", "it"]


def test_averages_are_null_where_a_part_is() -> None:
    tasks = ["i2t", "t2i", "c", "vqa"]
    values: dict[tuple[str, str], float | None] = {
        (task, language): float(10 * number + place)
        for number, task in enumerate(tasks)
        for place, language in enumerate(("en", "de", "it"))
    }
    values["vqa", "de"] = None
    del values["c", "it"]
    agreements: dict[tuple[str, str], Any] = {("i2t", "de"): {"expected": 40.0}, ("i2t", "it"): {"expected": 60.0}}
    rows = language_rows(values, tasks, ["en", "de", "it"], agreements, "expected")
    assert [(row["avg3"], row["avg"]) for row in rows] == [(10, 15), (11, None), (None, None)]
    assert rows[1]["gap_to_english"] == {"i2t": -1, "t2i": -1, "c": -1, "vqa": None, "avg3": -1, "avg": None}
    macro = macro_row(rows, tasks)
    assert macro["p1"] == {"i2t": 1, "t2i": 11, "c": None, "vqa": None}
    assert macro["agreement"] == {"i2t": 50, "t2i": None, "c": None, "vqa": None}
    assert macro["gap_to_english"]["i2t"] == -1.5
    without = language_rows(values, tasks, ["de", "it"], {}, "expected")
    assert [row["gap_to_english"] for row in without] == [None, None]
    assert macro_row(without, tasks)["gap_to_english"] is None


def test_a_part_keeps_its_relevance() -> None:
    tasks = make_tasks(relevant=4, graded=True, candidates=20)
    part = part_of(tasks, "t2i", "it")
    assert set(part["query"].values) == {name for name in tasks["query"].values if name.startswith("t2i/it")}
    starts = np.concatenate([[0], np.cumsum(tasks["relevance_size"].values)])
    own = np.flatnonzero(np.isin(tasks["query"].values, part["query"].values))
    relevant = [at for query in own for at in tasks["relevant"].values[starts[query] : starts[query + 1]]]
    assert part["relevant"].values.tolist() == relevant
    assert part_of(tasks, None).identical(tasks)
