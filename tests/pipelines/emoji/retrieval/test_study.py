"""Retrieval in the space of a probe: against plain loops, with truths that are known, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr
from probes import feature_array, make_pairs
from task_sets import tasks_of

from optotype.pipelines.emoji.names import Named, task_tables
from optotype.pipelines.emoji.probe.directions import unit
from optotype.pipelines.emoji.probe.fitting import Side
from optotype.pipelines.emoji.probe.halves import folds, halves, repeats
from optotype.pipelines.emoji.probe.pooling import pooled
from optotype.pipelines.emoji.probe.table import Pairs
from optotype.pipelines.emoji.retrieval.given import NamesArray
from optotype.pipelines.emoji.retrieval.space import fit_space
from optotype.pipelines.emoji.retrieval.study import EmojiRetrieval, emoji_retrieval
from optotype.schemas.errors import InvalidDataError, UsageError

LANGUAGES = ("en", "it")
N = 48


def the_pairs() -> Pairs:
    """Two of them with one image (and so in one half)."""
    return make_pairs({"a": N // 2, "b": N // 2}, pixels=[f"{max(i, 1):064x}" for i in range(N)])


def named_of(pairs: Pairs) -> Named:
    names = {language: tuple(f"{language} {emoji}" for emoji in pairs.ids) for language in LANGUAGES}
    return Named(pairs, {**names, "it": ("it same", "it same", *names["it"][2:])})


def task_set(named: Named, seed: int = 0) -> xr.Dataset:
    """The tables as the importer makes a task set of them."""
    tables = task_tables(named, seed)
    offered: dict[tuple[str, str], list[str]] = {}
    for row in tables["candidates"]:
        offered.setdefault((row["task"], row["language"]), []).append(row["candidate"])
    right: dict[str, list[str]] = {}
    for row in tables["relevance"]:
        right.setdefault(row["query"], []).append(row["candidate"])
    return tasks_of(
        [
            {**row, "query_embedding": row["embedding"], "list": offered[row["task"], row["language"]],
             "relevant": right[row["query"]]}
            for row in tables["queries"]
        ],
        [
            {**row, "candidate_embedding": row["embedding"], "candidate_item": row["item"]}
            for row in tables["candidates"]
        ],
    )  # fmt: skip


def states_of_names(named: Named, rows: dict[str, np.ndarray], name: str) -> xr.Dataset:
    ids = [f"{language}/{emoji}" for language in rows for emoji in named.pairs.ids]
    values = np.concatenate(list(rows.values())).astype(np.float32)
    return xr.Dataset(
        {"states": (("text", "channel"), values)},
        coords={"text": ("text", np.array(ids, dtype=object))},
        attrs={"name": name, "digest": f"sha256:{name}"},
    ).chunk(text=17)


class World:
    """Images and names with a common meaning of six dimensions; Italian names have less of it."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.pairs = the_pairs()
        self.named = named_of(self.pairs)
        self.tasks = task_set(self.named)
        meaning = rng.normal(size=(N, 6))
        to_image, to_text = rng.normal(size=(6, 9)), rng.normal(size=(6, 8))
        self.features = [
            feature_array(self.pairs, "good", meaning @ to_image + 0.05 * rng.normal(size=(N, 9)), layer=3),
            feature_array(self.pairs, "noise", rng.normal(size=(N, 9)), seed=1),
        ]
        shift = 3 * rng.normal(size=8)
        self.names = []
        for style in ("plain", "punct"):
            english = meaning @ to_text + (shift if style == "punct" else 0)
            italian = english + 4 * rng.normal(size=(N, 8))
            states = states_of_names(self.named, {"en": english, "it": italian}, f"lm-{style}")
            self.names.append(NamesArray("lm", style, states))

    def run(self, **options: Any) -> EmojiRetrieval:
        return emoji_retrieval(self.pairs, self.features, self.names, self.tasks, **options)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def found(world: World) -> EmojiRetrieval:
    return world.run(bootstrap=20)


def slow_p1(world: World, encoder: xr.Dataset, fitted_on: NamesArray, asked: NamesArray) -> dict[Any, float]:
    """P@1 in percent with ties as chances: every cosine by itself, candidates merged by target."""
    pairs = world.pairs
    sets = repeats(pairs.texts, pairs.pixels)
    train = np.flatnonzero(halves(pairs.groups, sets, 0))
    fold = folds(sets[train], 3, 0)  # 24 different pairs in the training half; two to four questions a fold
    rows = {
        str(name): row
        for name, row in zip(fitted_on.states["text"].values, fitted_on.states["states"].values, strict=True)
    }
    english = unit(np.array([rows[f"en/{emoji}"] for emoji in pairs.ids]))
    images = pooled(encoder)
    space = fit_space(Side.of(images, train, fold, "i"), Side.of(english, train, fold, "t"), train, fold)
    vectors = dict(zip(pairs.ids, space.of_images(images), strict=True))
    texts = space.of_texts(unit(asked.states["states"].values))
    vectors |= {str(name): row for name, row in zip(asked.states["text"].values, texts, strict=True)}
    tables = task_tables(world.named, 0)
    right: dict[str, set[str]] = {}
    target = {row["candidate"]: row["target"] for row in tables["candidates"]}
    for row in tables["relevance"]:
        right.setdefault(row["query"], set()).add(target[row["candidate"]])
    hits: dict[Any, list[float]] = {}
    for query in tables["queries"]:
        similar: dict[str, float] = {}
        for row in tables["candidates"]:
            if (row["task"], row["language"]) == (query["task"], query["language"]):
                value = round(float(vectors[query["embedding"]] @ vectors[row["embedding"]]), 9)
                similar[row["target"]] = max(similar.get(row["target"], -2), value)
        top = [name for name, value in similar.items() if value == max(similar.values())]
        share = sum(name in right[query["query"]] for name in top) / len(top)
        hits.setdefault((query["task"], query["language"]), []).append(100 * share)
    return {cell: sum(values) / len(values) for cell, values in hits.items()}


def test_every_cell_is_what_loops_say(world: World, found: EmojiRetrieval) -> None:
    for encoder in world.features:
        for fitted_on in world.names:
            for asked in world.names:
                slow = slow_p1(world, encoder, fitted_on, asked)
                setting = (encoder.attrs["name"], "lm", fitted_on.style, asked.style)
                rows = [
                    row
                    for row in found.rows
                    if tuple(row[name] for name in ("encoder", "language_model", "fitted_on", "style")) == setting
                ]
                assert {(row["task"], row["language"]): row["p1"]["expected"] for row in rows} == pytest.approx(slow)
    assert len(found.rows) == 2 * 4 * 2 * 2


def test_what_is_planted_is_found(found: EmojiRetrieval) -> None:
    own = {
        (row["encoder"], row["task"], row["language"]): row
        for row in found.rows
        if row["fitted_on"] == row["style"] == "plain"
    }
    assert own["good", "i2t", "en"]["p1"]["expected"] > 80
    assert own["good", "i2t", "en"]["p1"]["expected"] > own["good", "i2t", "it"]["p1"]["expected"] + 20
    assert own["noise", "i2t", "en"]["p1"]["expected"] < 25
    gap = own["good", "t2i", "it"]["gap_to_english"]
    assert gap == pytest.approx(own["good", "t2i", "en"]["p1"]["expected"] - own["good", "t2i", "it"]["p1"]["expected"])
    assert own["good", "t2i", "en"]["gap_to_english"] is None
    assert own["good", "i2t", "en"]["interval"] is not None
    assert found.sizes == {"emoji": N, "train": 24, "held_out": 24}
    assert [fit["fitted_on"] for fit in found.fits] == ["plain", "punct"] * 2


def test_means_of_contrasts_are_those_of_the_rows(found: EmojiRetrieval) -> None:
    for row in found.contrasts:
        if row["kind"] == "mean" and row["language"] is not None:
            same = ("language_model", "fitted_on", "style", "task", "language")
            values = [r["p1"]["expected"] for r in found.rows if all(r[name] == row[name] for name in same)]
            assert row["value"] == pytest.approx(sum(values) / 2)
            assert row["low"] <= row["value"] <= row["high"]


def test_equal_bytes_for_any_number_of_threads(
    world: World, found: EmojiRetrieval, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert world.run(bootstrap=20) == found


def _refusal(world: World, **change: Any) -> list[tuple[str, str]]:
    given = {"pairs": world.pairs, "features": world.features, "names": world.names, "tasks": world.tasks} | change
    with pytest.raises(InvalidDataError) as raised:
        emoji_retrieval(given["pairs"], given["features"], given["names"], given["tasks"])
    return [(problem.where, problem.kind) for problem in raised.value.problems]


def test_what_does_not_belong_together_is_refused_as_a_whole(world: World) -> None:
    assert _refusal(world, tasks=task_set(world.named, seed=1)) == [("tasks", "training-half")]
    short = NamesArray("lm", "punct", world.names[1].states.isel(text=slice(N, None)))
    other = make_pairs({"a": N + 2})
    few = feature_array(other, "few", np.random.default_rng(0).normal(size=(N + 2, 4)))
    problems = _refusal(world, features=[*world.features, few], names=[world.names[0], short])
    assert problems == [("features few", "unmatched-id"), ("names lm:punct", "missing-name")]
    strange = world.tasks.assign(query_embedding=("query", np.array(["x"] * world.tasks.sizes["query"], dtype=object)))
    assert ("tasks", "other-emoji") in _refusal(world, tasks=strange)


def test_emoji_without_an_english_name_are_not_fitted_on(world: World) -> None:
    in_train = halves(world.pairs.groups, repeats(world.pairs.texts, world.pairs.pixels), 0)
    first = world.pairs.ids[int(np.flatnonzero(in_train)[0])]
    kept = [
        NamesArray(array.language_model, array.style, array.states.sel(text=array.states["text"] != f"en/{first}"))
        for array in world.names
    ]
    found = emoji_retrieval(world.pairs, world.features[:1], kept, world.tasks)
    assert found.sizes["train"] == 23
    assert "1 emoji" in found.notes[0]


def test_a_name_without_a_direction_is_wrong(world: World, found: EmojiRetrieval) -> None:
    asked = world.tasks["query_embedding"].values[world.tasks["task"].values == "t2i"]
    name = max(str(value) for value in asked if value.startswith("en/"))  # the last: its image has no twin
    broken = []
    for array in world.names:
        states = array.states.compute()
        states["states"].loc[{"text": name}] = 0
        broken.append(NamesArray(array.language_model, array.style, states))
    rows = emoji_retrieval(world.pairs, world.features, broken, world.tasks).rows
    for before, after in zip(found.rows, rows, strict=True):
        hurt = after["language"] == "en"
        assert after["invalid_queries"] == (hurt and after["task"] == "t2i")
        assert after["invalid_truths"] == (hurt and after["task"] == "i2t")
        assert after["queries"] == before["queries"]


def _names(*labels: tuple[str, str]) -> list[tuple[str, str]]:
    return list(labels)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (_names(("lm", "plain"), ("lm", "plain")), "given twice: lm:plain"),
        (_names(("lm", "plain"), ("lm", "punct"), ("other", "plain")), "other:punct is missing"),
        ([], "one encoder"),
    ],
)
def test_styles_are_those_of_every_language_model(world: World, labels: Sequence[tuple[str, str]], says: str) -> None:
    names = [NamesArray(model, style, world.names[0].states) for model, style in labels]
    with pytest.raises(UsageError, match=says):
        emoji_retrieval(world.pairs, world.features, names, world.tasks)


def test_other_refusals(world: World) -> None:
    with pytest.raises(UsageError, match="'contrast' is no kind"):
        world.run(probe="contrast")
    with pytest.raises(UsageError, match="called good"):
        emoji_retrieval(world.pairs, [world.features[0]] * 2, world.names, world.tasks)
    tiny = make_pairs({"a": 8})
    named = Named(tiny, {"en": tuple(f"name {i}" for i in range(8))})
    array = NamesArray("lm", "plain", states_of_names(named, {"en": np.eye(8)}, "lm"))
    with pytest.raises(InvalidDataError, match="a probe needs 16"):
        emoji_retrieval(tiny, [feature_array(tiny, "f", np.eye(8))], [array], task_set(named))


def test_names_that_are_not_finite_are_refused(world: World) -> None:
    states = world.names[0].states.compute()
    text = states["text"].values[3]
    states["states"].loc[{"text": text}] = np.nan
    broken = [NamesArray(world.names[0].language_model, world.names[0].style, states), *world.names[1:]]
    with pytest.raises(InvalidDataError, match="states that are finite") as raised:
        emoji_retrieval(world.pairs, world.features, broken, world.tasks)
    assert [(problem.kind, str(text) in problem.message) for problem in raised.value.problems] == [("not-finite", True)]
