"""Placing a model, against loops over dicts."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
import xarray as xr
from panels import make_panel

from optotype.pipelines.compression.slices import slices
from optotype.pipelines.placement.jackknife import predict
from optotype.pipelines.placement.place import place, place_by_scores
from optotype.pipelines.placement.yardstick import yardstick


def _slow(panel: xr.Dataset, index: list[int], weight: list[float], mine: list[float]) -> tuple[float, list[tuple]]:
    """Suite score, and (suite score, full score) of every model that can be compared."""
    scores = {
        str(model): [float(v) for v in row] for model, row in zip(panel.model.values, panel.score.values, strict=True)
    }
    low, high = panel.scale_min.values, panel.scale_max.values
    scaled = {
        m: [round((v - a) / (b - a), 6) for v, a, b in zip(row, low, high, strict=True)] for m, row in scores.items()
    }
    pair = list(zip(panel.benchmark.values, panel.category.values, strict=True))
    category = [pair[i][1] for i in index]
    answered = [k for k in range(len(index)) if not math.isnan(mine[k])]
    names = list(dict.fromkeys(category[k] for k in answered))

    def on_suite(row: list[float]) -> float | None:
        found = []
        for name in names:
            here = [k for k in answered if category[k] == name]
            there = [k for k in here if not math.isnan(row[k])]
            if 2 * len(there) < len(here):
                return None
            found.append(sum(weight[k] * row[k] for k in there) / sum(weight[k] for k in there))
        return fmean(found)

    on_slice: dict[str, dict[tuple[str, str], float]] = {}
    suite: dict[str, float] = {}
    for model, row in scaled.items():
        score = on_suite([row[i] for i in index])
        if score is None:
            continue
        suite[model] = score
        for each in dict.fromkeys(pair):
            here = [v for v, p in zip(row, pair, strict=True) if p == each]
            there = [v for v in here if not math.isnan(v)]
            if there and 2 * len(there) >= len(here):
                on_slice.setdefault(model, {})[each] = fmean(there)
    kept = [each for each in dict.fromkeys(pair) if 2 * sum(each in s for s in on_slice.values()) >= len(suite)]
    rows = []
    for model, found in on_slice.items():
        if all(each in found for each in kept):
            of = {name: [found[each] for each in kept if each[1] == name] for name in dict.fromkeys(p[1] for p in kept)}
            rows.append((suite[model], fmean(fmean(values) for values in of.values())))
    own = on_suite(mine)
    assert own is not None
    return own, rows


@pytest.mark.parametrize("seed", range(12))
def test_as_by_hand(seed: int) -> None:
    random = np.random.default_rng(seed)
    panel = make_panel(
        {"a": 14, "b": 20, "c": 9, "d": 6},
        models=14,
        categories={"a": "x", "b": "x", "c": "y", "d": "z"},
        graded=["c"],
        scales={"b": (0.0, 100.0)},
        missing=0.1,
        seed=seed,
    ).load()
    if seed % 3 == 0:
        panel.score[2:5, 34:43] = np.nan  # some lack c
        panel.score[:9, 43:] = np.nan  # most lack d
    index = np.sort(random.choice(43, size=16, replace=False))
    weight = random.choice([1.0, 2.5], size=16) if seed % 2 else np.ones(16)
    mine = random.integers(0, 2, size=16).astype(float)
    mine[random.random(16) < 0.2] = np.nan
    cut = slices(panel)
    found = place(mine, panel.category.values[index].tolist(), weight, yardstick(panel, cut, index), 0.8)
    score, rows = _slow(panel, index.tolist(), weight.tolist(), mine.tolist())
    assert found.score == pytest.approx(score, abs=1e-12)
    assert found.estimate is not None
    assert found.estimate.models == len(rows)
    line = predict(*(np.array(column) for column in zip(*rows, strict=True)), np.array([score]), 0.8)
    assert found.estimate.value == pytest.approx(np.clip(line.estimate[0], 0, 1), abs=1e-9)
    assert found.estimate.low == pytest.approx(np.clip(line.low[0], 0, 1), abs=1e-9)
    assert found.rank == 1 + sum(s > score + 1e-12 for s, _ in rows) + sum(abs(s - score) <= 1e-12 for s, _ in rows) / 2
    assert found.full_ranks is not None
    assert found.full_ranks[0] <= found.full_rank <= found.full_ranks[1]  # type: ignore[operator]
    assert found.left_out == (("d / z",) if seed % 3 == 0 else ())
    again = place_by_scores(score, *(np.array(column) for column in zip(*rows, strict=True)), 0.8)
    assert again.estimate == pytest.approx(found.estimate) or again.estimate.value == pytest.approx(  # type: ignore
        found.estimate.value
    )


def test_a_suite_of_everything_is_exact() -> None:
    panel = make_panel({"a": 12, "b": 8}, models=12, categories={"a": "x", "b": "y"}, seed=1)
    measure = yardstick(panel, slices(panel), np.arange(20))
    me = "model-03"
    mine = measure.items[3]
    found = place(mine, panel.category.values.tolist(), np.ones(20), measure.without(me))
    assert me not in measure.without(me).models
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(found.score, abs=1e-12)
    assert found.estimate.high - found.estimate.low == pytest.approx(0, abs=1e-12)
    assert found.rank == found.full_rank


def test_what_cannot_be_said_is_not() -> None:
    panel = make_panel({"a": 6}, models=4, seed=2)
    measure = yardstick(panel, slices(panel), np.arange(6))
    category = ["a"] * 6
    nothing = place(np.full(6, np.nan), category, np.ones(6), measure)
    assert nothing.score is None
    assert nothing.reason == "no item of the suite has a score"
    alone = place(np.ones(6), category, np.ones(6), None)
    assert (alone.score, alone.estimate, alone.rank) == (1.0, None, None)
    wide = place(np.ones(6), category, np.ones(6), measure, 0.9)
    assert wide.estimate is not None
    assert (wide.estimate.bounded, wide.estimate.low, wide.estimate.high) == (False, 0.0, 1.0)
    assert wide.full_ranks == (1, 5)
    few = place(np.ones(6), category, np.ones(6), measure.without("model-00").without("model-01"))
    assert few.estimate is None
    assert "2 model(s)" in str(few.reason)
