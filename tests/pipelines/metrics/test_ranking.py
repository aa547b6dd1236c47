"""Rankings by several metrics and under several settings: rows, refusals, sweeps."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from optotype.pipelines.metrics import catalogue
from optotype.pipelines.metrics.catalogue import METRICS, get_metric
from optotype.pipelines.metrics.metric import Refusal, Score, checked_options
from optotype.pipelines.metrics.ranking import rank_metrics
from optotype.pipelines.metrics.settings import Request, settings
from optotype.pipelines.metrics.sources import Sources, read_sources
from optotype.pipelines.pool import first_items
from optotype.pipelines.progress import Plain
from optotype.pipelines.rank import rank
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError
from optotype.store.features import open_features
from optotype.store.project import Project

N = 40
MORE = {
    *("kind", "options", "gamma", "post_features", "post_states"),
    *("features_layer", "states_layer", "details", "seed"),
}
IDS = [f"i{number:04}" for number in range(N)]


@pytest.fixture
def filled(project: Project, put: SimpleNamespace) -> Project:
    """Encoder ``good`` sees what the model ``small`` says, ``poor`` hardly; ``large`` is noise. There are 4 classes."""
    generator = np.random.default_rng(0)
    hidden = 2 * generator.standard_normal((4, 5))[np.arange(N) % 4] + generator.standard_normal((N, 5))
    project_to = generator.standard_normal((5, 7))
    for name, noise in (("good", 0.1), ("poor", 6.0)):
        sizes = generator.integers(1, 5, N)
        items = [np.repeat(row[None], size, axis=0) for row, size in zip(hidden @ project_to, sizes, strict=True)]
        items = [item + noise * generator.standard_normal(item.shape) for item in items]
        put.features(name, [item.astype(np.float32) for item in items])
    put.states("small", (hidden @ generator.standard_normal((5, 6))).astype(np.float32))
    put.states("large", generator.standard_normal((N, 9)))
    return project


def labels() -> dict[str, str]:
    return {item: f"class-{number % 4}" for number, item in enumerate(IDS)}


class Notes(Plain):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_rows_hold_what_a_plain_ranking_does_and_more(filled: Project) -> None:
    plain = rank(filled, ["good", "poor"], ["small", "large"], k=5, null=5, bootstrap=5)
    request = Request(("cka", "ravel", "mutual-nn"), k=5, null=5, bootstrap=5)
    rows = rank_metrics(filled, ["good", "poor"], ["small", "large"], request)
    assert [row["metric"] for row in rows] == [name for name in ("cka", "ravel", "mutual-nn") for _ in range(4)]
    for name in ("cka", "ravel", "mutual-nn"):
        scores = [row["score"] for row in rows if row["metric"] == name]
        assert scores == sorted(scores, reverse=True)
    assert all(set(row) == set(plain[0]) | MORE for row in rows)
    own = [{key: value for key, value in row.items() if key not in MORE} for row in rows if row["metric"] == "ravel"]
    assert own == plain
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    cka = rows[0]
    assert (cka["k"], cka["eps"], cka["prenorm_states"], cka["cosine_spread"]) == (None, None, None, None)
    assert (cka["encoder"], cka["model"], cka["n"], cka["kind"], cka["gamma"]) == (
        "good",
        "small",
        N,
        "cross-modal",
        None,
    )
    assert cka["interval"] is None  # no value an item
    assert cka["features_digest"] == plain[0]["features_digest"]
    mutual = rows[-4]
    assert (mutual["k"], mutual["chance"]) == (10, 10 / (N - 1))
    assert mutual["adjusted"] == pytest.approx((mutual["score"] - mutual["chance"]) / (1 - mutual["chance"]))
    assert mutual["interval"][0] <= mutual["score"] <= mutual["interval"][1]
    assert rank_metrics(filled, ["good", "poor"], ["small", "large"], request) == rows


def test_null_scores_random_pairings(filled: Project) -> None:
    request = Request(("rsa",), null=19, seed=3)
    aligned, noise = (rank_metrics(filled, ["good"], [model], request)[0] for model in ("small", "large"))
    assert aligned["null"]["p"] == 1 / 20
    assert noise["null"]["p"] > 0.05
    assert aligned["null"]["mean"] < aligned["score"]
    assert (aligned["null"]["repeats"], aligned["null"]["seed"]) == (19, 3)


def test_a_vision_only_metric_has_one_score_for_all_models(filled: Project) -> None:
    sources, request = Sources(labels=labels()), Request(("knn-classification",), bootstrap=9, null=9)
    rows = rank_metrics(filled, ["good", "poor"], ["small", "large"], request, sources)
    assert [(row["encoder"], row["model"]) for row in rows] == [
        *(("good", "large"), ("good", "small"), ("poor", "large"), ("poor", "small")),
    ]
    assert rows[0]["score"] == rows[1]["score"] > rows[2]["score"]
    assert {row["states_digest"] for row in rows} == {row["states_layer"] for row in rows} == {None}
    assert {row["null"] for row in rows} == {None}
    alone = rank_metrics(filled, ["good", "poor"], [], request, sources)
    assert [(row["encoder"], row["model"], row["score"]) for row in alone] == [
        ("good", None, rows[0]["score"]),
        ("poor", None, rows[2]["score"]),
    ]
    metric: Any = get_metric("knn-classification")
    features = open_features(filled.features / "good")
    assert rows[0]["options"] == checked_options(metric)
    assert features.attrs["digest"] == rows[0]["features_digest"]


def test_missing_needs_come_in_one_message(filled: Project) -> None:
    request = Request(("rsa", "linear-probing", "mid-training-loss", "knn-classification"))
    with pytest.raises(UsageError) as caught:
        rank_metrics(filled, ["good"], [], request)
    words = str(caught.value)
    for part in (
        "rsa needs states of a language model (--states NAME)",
        "linear-probing needs a label for each image (--labels TABLE)",
        "--captions TABLE",
        "--language-model NAME=SOURCE",
        "--train",
    ):
        assert part in words


def test_everything_leaves_out_what_cannot_be_scored(filled: Project) -> None:
    names = ("ravel", "rsa", "linear-probing", "ac-policy", "mid-training-loss", "mutual-nn", "cca")
    notes = Notes()
    request = Request(names, everything=True, k=5, options={"mutual-nn": {"k": N}})
    rows = rank_metrics(filled, ["good"], ["small"], request, progress=notes)
    assert [row["metric"] for row in rows] == ["ravel", "rsa", "cca"]
    told = "\n".join(notes.lines)
    for name in (
        "linear-probing needs",
        "ac-policy needs",
        "mid-training-loss needs",
        "Left out: mutual-nn: k is from 1 to 39",
    ):
        assert name in told
    with pytest.raises(UsageError, match="mutual-nn"):
        rank_metrics(filled, ["good"], ["small"], Request(names[-2:], options={"mutual-nn": {"k": N}}))


def test_sweeps_are_rankings_in_one_table(filled: Project) -> None:
    sweep: dict[str, list[Any]] = {"k": ["5", "9"], "gamma": [0, 1], "images": [20, N]}
    rows = rank_metrics(filled, ["good"], ["small"], Request(("ravel", "mutual-nn", "cka"), sweep=sweep, seed=4))
    found = {name: [(row["k"], row["gamma"], row["n"]) for row in rows if row["metric"] == name] for name in METRICS}
    assert sorted(found["ravel"]) == [(k, gamma, n) for k in (5, 9) for gamma in (0, 1) for n in (20, N)]
    assert sorted(found["mutual-nn"]) == [(k, None, n) for k in (5, 9) for n in (20, N)]
    assert sorted(found["cka"], key=str) == [(None, None, n) for n in (20, N)]
    for k in (5, 9):
        (plain,) = rank(filled, ["good"], ["small"], k=k)
        (same,) = [row for row in rows if (row["metric"], row["k"], row["gamma"], row["n"]) == ("ravel", k, 1, N)]
        assert same["score"] == plain["score"]


def test_numbers_of_images_nest() -> None:
    sets = [set(first_items(IDS, count, 7)) for count in (5, 10, N)]
    assert sets[0] < sets[1] < sets[2] == set(IDS)
    assert first_items(IDS, 9, 7) == sorted(first_items(IDS, 9, 7)) != first_items(IDS, 9, 8)
    with pytest.raises(UsageError, match="from 2 to 40"):
        first_items(IDS, N + 1, 0)


def test_fronts_reach_every_metric(filled: Project) -> None:
    metrics = ("ravel-pooled-raw", "mutual-nn", "ravel-patch-raw")
    plain = Request(metrics, k=10)
    front = Request(metrics, k=10, post_features="centre + abtt:2", post_states="centre")
    rows, others = (rank_metrics(filled, ["poor"], ["small"], request) for request in (front, plain))
    assert {(row["post_features"], row["post_states"]) for row in rows} == {("centre+abtt:2", "centre")}
    assert rows[0]["score"] == rows[1]["score"]  # the same front on pooled rows, through a graph or not
    assert all(row["score"] != other["score"] for row, other in zip(rows, others, strict=True))


def test_settings_are_those_that_have_a_say() -> None:
    norms = (("none", "l2"), ("l2", "l2"))
    request = Request(("ravel",), k=7, prenorms=norms, gamma=0.5, images=9)
    assert [dict(each.options) for each in settings(get_metric("ravel"), request)] == [
        {"k": 7, "eps": 1e-4, "prenorm-features": visual, "prenorm-states": textual} for visual, textual in norms
    ]
    (raw,) = settings(get_metric("ravel-patch-raw"), request)
    assert (dict(raw.options), raw.gamma, raw.images) == ({"k": 7}, 0.5, 9)
    (pooled,) = settings(get_metric("ravel-pooled-raw"), request)
    assert pooled.gamma is None
    (mutual,) = settings(get_metric("mutual-nn"), request)
    assert mutual.options["k"] == 10
    own = Request(("ravel",), k=7, options={"ravel": {"k": "3"}})
    assert settings(get_metric("ravel"), own)[0].options["k"] == 3


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(("ravel",), k=N), "k is from 1 to 39"),
        (Request(("ravel",), k=20, sweep={"images": (20,)}), "k is from 1 to 19"),
        (Request(("ravel",), k=5, gamma=-1), "gamma is a finite number"),
        (Request(("ravel",), k=5, gamma=1e7), "gamma is a finite number from 0 to 1000000, got 10000000.0"),
        (Request(("ravel",), sweep={"k": (3, N)}), "Leave 40 out of --sweep k=3,40: the largest allowed here is 39"),
        (Request(("mutual-nn",), sweep={"k": (3, N)}), "Leave 40 out of --sweep k=3,40"),
        (Request(("ravel",), options={"ravel": {"k": N}}), "--set ravel.k=39"),
        (
            Request(("cka", "ravel-patch-raw"), k=5, prenorms=(("none", "l2"), ("l2", "l2"))),
            "none of the metrics whitens",
        ),
        (Request(("mutual-nn",), gamma=0.5), "gamma has no say"),
        (Request(("cka",), sweep={"k": (3,)}), "none of the metrics has k"),
        (Request(("ravel",), sweep={"layer": (3,)}), "a sweep is over one of k, eps, gamma, images"),
        (Request(("ravel",), sweep={"k": ("three",)}), "over whole numbers"),
        (Request(("ravel",), sweep={"eps": (-1,)}), "eps is a finite number >= 0"),
        (Request(("ravel",), sweep={"k": ()}), "one value or more"),
        (Request(("mutual-nn",), sweep={"k": (3,)}, options={"mutual-nn": {"k": 3}}), "both set and swept"),
        (Request(("mutual-nn",), options={"cka": {"k": 3}}), "--set cka: it is not among the metrics"),
        (Request(("mutual-nn",), options={"mutual-nn": {"kk": 3}}), "no option 'kk'"),
        (Request(("ravel",), k=5, images=N + 1), "images is from 2 to 40"),
        (Request(("ravel",), k=5, post_features="whiten"), "no step 'whiten'"),
        (Request(("ravel",), k=5, null=-1), "null is from 0"),
    ],
)
def test_refusals_before_anything_is_computed(filled: Project, request_: Request, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        rank_metrics(filled, ["good"], ["small"], request_)
    assert words in str(caught.value)
    assert not (filled.cache / "neighbours").exists()


def test_unknown_names(filled: Project) -> None:
    with pytest.raises(NotFoundError, match="no metric is called 'ckka'"):
        rank_metrics(filled, ["good"], ["small"], Request(("ckka",)))
    with pytest.raises(NotFoundError, match="no metric is called 'ckka'"):
        rank_metrics(filled, ["good"], ["small"], Request(("cka",), options={"ckka": {}}))
    with pytest.raises(UsageError, match="--features"):
        rank_metrics(filled, [], ["small"], Request(("cka",)))


class OverPool:
    """Scores an encoder by its place in the pool, and refuses the last."""

    name = "over-pool"
    kind = "cross-modal"
    needs = frozenset({"states", "downstream"})
    options: ClassVar[dict[str, Any]] = {}
    source = "a test"
    over_pool = True

    def scores(self, pool: Any, options: Any, *, seed: int) -> list[Score | Refusal]:
        assert all(inputs.downstream == {("good", "small"): 0.5, ("good", "large"): 0.5} for inputs in pool)
        scored: list[Score | Refusal] = [Score(float(place)) for place, _ in enumerate(pool[:-1])]
        return [*scored, Refusal("it is the last", "Add one.")]


def test_metrics_over_the_pool(filled: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    real = get_metric
    for place in ("optotype.pipelines.metrics.plan", "optotype.pipelines.metrics.catalogue"):
        monkeypatch.setattr(f"{place}.get_metric", lambda name: OverPool() if name == "over-pool" else real(name))
    assert catalogue.get_metric("over-pool").name == "over-pool"
    sources, models = Sources(downstream={("good", ""): 0.5}), ["small", "large"]
    with pytest.raises(InvalidDataError, match=r"1 of 4 have no score.*\n.*poor x large: it is the last"):
        rank_metrics(filled, ["good", "poor"], models, Request(("over-pool",)), sources)
    notes = Notes()
    request = Request(("over-pool",), everything=True)
    rows = rank_metrics(filled, ["good", "poor"], models, request, sources, progress=notes)
    assert [(row["encoder"], row["model"], row["score"]) for row in rows] == [
        ("poor", "small", 2.0),
        ("good", "large", 1.0),
        ("good", "small", 0.0),
    ]
    assert "over-pool has no score for poor x large: it is the last" in notes.lines


def test_tables(filled: Project, tmp_path: Any) -> None:
    (tmp_path / "labels.csv").write_text("id,class\n" + "".join(f"{item},c{n % 2}\n" for n, item in enumerate(IDS)))
    (tmp_path / "down.csv").write_text("encoder,model,benchmark,score\ngood,small,a,1\ngood,small,b,2\n")
    (tmp_path / "captions.csv").write_text("id,text\ni0000,one\n")
    sources = read_sources(
        labels=tmp_path / "labels.csv",
        label_column="class",
        downstream=tmp_path / "down.csv",
        captions=tmp_path / "captions.csv",
        language_models={"small": "somewhere"},
    )
    assert sources.met(states=False) == {"labels", "downstream", "captions", "language-model"}
    assert sources.outcomes(["small", "large"]) == {("good", "small"): 1.5}
    with pytest.raises(InvalidDataError, match=r"39 ranked items have no caption"):
        rank_metrics(filled, ["good"], ["small"], Request(("cka",)), sources)
    with pytest.raises(InvalidDataError, match="no column 'group'"):
        read_sources(labels=tmp_path / "labels.csv")
    (tmp_path / "down.csv").write_text("encoder,benchmark,score\ngood,a,1\ngood,b,2\npoor,a,1\npoor,a,1\n")
    with pytest.raises(InvalidDataError) as caught:
        read_sources(downstream=tmp_path / "down.csv")
    assert "a second score of poor" in str(caught.value)
    assert "poor: has no score on b" in str(caught.value)


def test_all_that_does_not_fit_the_items_comes_in_one_message(filled: Project) -> None:
    names = ("ravel", "mutual-nn", "svcca", "knn-classification", "alignment-probing", "cka", "cycle-knn")
    own = {"mutual-nn": {"k": 41}, "svcca": {"dimensions": 39}, "knn-classification": {"k": 50}}
    own |= {"alignment-probing": {"folds": 20}}
    with pytest.raises(UsageError) as caught:
        rank_metrics(filled, ["good"], ["small"], Request(names, k=N, options=own), Sources(labels=labels()))
    head, *lines = caught.value.message.splitlines()
    assert head == "5 things do not fit:"
    for line, words in zip(
        lines,
        (
            "ravel: k is from 1 to 39 (n = 40 items, without the item itself), got 40",
            "mutual-nn: k is from 1 to 39",
            "svcca: 39 dimensions need 41 items or more, got 40",
            "knn-classification: k is from 1 to 39",
            "alignment-probing: 40 pairs are too few",
        ),
        strict=True,
    ):
        assert words in line
    for hint in ("-k 39", "--set mutual-nn.k=39", "--set svcca.dimensions=38", "--set alignment-probing.folds=2"):
        assert hint in str(caught.value.hint)
    assert not (filled.cache / "neighbours").exists()


def test_of_a_sweep_everything_keeps_what_fits(filled: Project) -> None:
    notes = Notes()
    request = Request(("ravel", "cka"), everything=True, sweep={"k": (5, N)})
    rows = rank_metrics(filled, ["good"], ["small"], request, progress=notes)
    assert [(row["metric"], row["k"]) for row in rows] == [("ravel", 5), ("cka", None)]
    assert [line for line in notes.lines if "Left out" in line] == [
        "Left out: ravel: k is from 1 to 39 (n = 40 items, without the item itself), got 40"
    ]


def test_a_metric_without_pairing_has_no_null(filled: Project) -> None:
    gw, rsa = rank_metrics(filled, ["good"], ["small"], Request(("gw", "rsa"), null=9))
    assert gw["null"] is None
    assert any(text.startswith("gw: no null: ") for text in gw["warnings"])
    assert rsa["null"] is not None
    assert not any("no null" in text for text in rsa["warnings"])
    (plain,) = rank_metrics(filled, ["good"], ["small"], Request(("gw",)))
    assert not any("no null" in text for text in plain["warnings"])


def test_labels_that_are_missing_or_of_others_are_told(filled: Project) -> None:
    notes, some = Notes(), dict(list(labels().items())[:30])
    some["i0000"], some["i0001"] = "", "alone"
    names = ("knn-classification", "linear-probing")
    request = Request(names, options={"knn-classification": {"k": 5}})
    strangers = {f"other-{number}": "class-1" for number in range(7)}
    rows = rank_metrics(filled, ["good"], [], request, Sources(labels=some | strangers), progress=notes)
    for row in rows:
        assert (row["n"], row["details"]["labelled"]) == (N, 28)
        told = f"{row['metric']}: 28 of 40 items are scored: 11 have no label and 1 are the only one of their class"
        assert told in row["warnings"]
    assert (
        "labels: 7 of 37 ids are not among the 40 items: other-0, other-1, other-2, other-3, other-4 and 2 more"
        in notes.lines
    )
    notes.lines.clear()
    whole = rank_metrics(filled, ["good"], [], request, Sources(labels=labels()), progress=notes)
    assert not any("items are scored" in text for row in whole for text in row["warnings"])
    assert not any("labels" in line for line in notes.lines)


@pytest.fixture
def broken(filled: Project, put: SimpleNamespace) -> Project:
    """Beside the others ``same``, all of whose patches are equal, ``dead``, with an image of zeros, and flat states."""
    generator = np.random.default_rng(5)
    put.features("same", [np.ones((2, 7), np.float32)] * N)
    items = [generator.standard_normal((2, 7)).astype(np.float32) for _ in range(N)]
    put.features("dead", [np.zeros((2, 7), np.float32), *items[1:]])
    put.states("flat", np.ones((N, 4)))
    return filled


def test_everything_ranks_what_is_left_beside_broken_arrays(broken: Project) -> None:
    notes = Notes()
    request = Request(("ravel", "ravel-pooled-raw", "rsa"), everything=True, sweep={"k": (4, 5)})
    rows = rank_metrics(broken, ["good", "same", "dead"], ["small", "flat"], request, progress=notes)
    scored = {(row["metric"], row["encoder"], row["model"]) for row in rows}
    assert scored == {
        *(("ravel", "good", "small"), ("ravel", "dead", "small"), ("rsa", "good", "small")),
        *(("ravel-pooled-raw", encoder, model) for encoder in ("good", "same") for model in ("small", "flat")),
    }
    told = [line for line in notes.lines if " has no score for " in line]
    assert len(told) == len(set(told)) == 18 - len(scored)
    assert any(line.startswith("ravel has no score for same x small: Whitening cannot be fitted (") for line in told)
    assert any(line.startswith("ravel has no score for good x flat: Whitening cannot be fitted (") for line in told)
    assert any(line.startswith("ravel-pooled-raw has no score for dead x small: ") and "i0000" in line for line in told)
    (alone,) = rank_metrics(broken, ["good"], ["small"], Request(("ravel",), k=5))
    (same,) = [row for row in rows if (row["metric"], row["encoder"], row["k"]) == ("ravel", "good", 5)]
    assert same == alone
    with pytest.raises(UsageError, match=r"no metric has a score"):
        rank_metrics(broken, ["same"], ["small"], Request(("ravel", "rsa"), everything=True, k=5))


@pytest.mark.parametrize(
    ("metrics", "encoder", "model", "words"),
    [
        (("cka", "ravel"), "good", "flat", "metric cka, good x flat: all items are equal on the textual side"),
        (("mutual-nn", "ravel"), "same", "small", "metric ravel, features of same: Whitening cannot be fitted"),
        (("mutual-nn", "ravel"), "good", "flat", "metric ravel, states of flat: Whitening cannot be fitted"),
        (("ravel-pooled-raw",), "dead", "small", "metric ravel-pooled-raw, features of dead: 1 image(s) cannot be"),
        (("rsa",), "dead", "small", "metric rsa, dead x small: cannot compare these by cosine"),
    ],
)
def test_an_error_names_metric_and_array(
    broken: Project, metrics: tuple[str, ...], encoder: str, model: str, words: str
) -> None:
    with pytest.raises((UsageError, InvalidDataError)) as caught:
        rank_metrics(broken, [encoder], [model], Request(metrics, k=5))
    assert words in str(caught.value)


def test_a_plain_ranking_names_the_array_and_no_prenorm_that_does_not_help(broken: Project) -> None:
    with pytest.raises(InvalidDataError, match=r"^metric ravel, features of same: Whitening") as caught:
        rank(broken, ["good", "same"], ["small"], k=5)
    assert "prenorm" not in str(caught.value)
    assert "No option mends rows that are equal" in str(caught.value.hint)


def test_rows_far_below_one_have_a_direction(filled: Project, put: SimpleNamespace) -> None:
    generator = np.random.default_rng(8)
    states = generator.standard_normal((N, 6))
    put.states("one", states)
    put.states("tiny", np.ldexp(states, -700))
    request = Request(("mutual-nn", "cka", "rsa", "ravel-pooled-raw"), k=5)
    found = {
        model: [row["score"] for row in rank_metrics(filled, ["good"], [model], request)] for model in ("one", "tiny")
    }
    assert found["tiny"] == found["one"]
