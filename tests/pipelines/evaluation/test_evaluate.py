"""The protocols on small panels: against brute force, on degenerate input, and with any number of workers."""

from __future__ import annotations

import json
import math
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray
from panels import make_panel
from scipy.stats import spearmanr

from optotype.pipelines.evaluation import category as category_module
from optotype.pipelines.evaluation.evaluate import evaluate
from optotype.pipelines.evaluation.plan import PROTOCOLS, Options, chosen_selectors
from optotype.pipelines.evaluation.splits import random_splits
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import SELECTORS, Selection
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError

_SIZES = {"a": 60, "b": 40, "c": 50}


def _panel(**more: Any) -> xr.Dataset:
    given: dict[str, Any] = {
        "models": 22,
        "categories": {"a": "x", "b": "x", "c": "y"},
        "families": [f"f{m // 4}" for m in range(22)],
        "release_dates": [f"2024-{1 + m % 12:02d}" if m < 20 else "" for m in range(22)],
        "missing": 0.05,
        "blind": 3,
        "graded": ("b",),
    }
    return make_panel(_SIZES, **{**given, **more})


def _options(**more: Any) -> Options:
    given: dict[str, Any] = {
        "selectors": ("variance", "random"),
        "retentions": (0.1, 0.3),
        "splits": 3,
        "floor": 0,
        "k": 1,
        "resamples": 50,
    }
    return Options(**{**given, **more})


def _mean(values: NDArray[np.float64]) -> float:
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else math.nan


def _rho(first: list[float], second: list[float]) -> float | None:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if math.isfinite(a) and math.isfinite(b)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rho = spearmanr(np.round([a for a, _ in pairs], 12), np.round([b for _, b in pairs], 12)).statistic
    return float(rho) if math.isfinite(rho) else None


class _TopMean:
    """Keeps the items with the highest mean over the build models; notes what it was shown."""

    name = "variance"
    needs = frozenset({"scores"})
    seen: list[NDArray[np.float64]] = []  # noqa: RUF012 - a spy

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        self.seen.append(pool.scores)
        means = np.array([_mean(column) for column in pool.scores.T])
        order = np.argsort(-np.nan_to_num(means, nan=-1.0), kind="stable")[:budget]
        return Selection(np.sort(order), weight=np.arange(1.0, budget + 1))


def _cleaned(panel: xr.Dataset, tau: float = 2 / 3) -> NDArray[np.bool_]:
    scores, blind = panel["score"].to_numpy().astype(float), panel["blind"].to_numpy().astype(float)
    keep = []
    for item in range(scores.shape[1]):
        valid = scores[:, item][np.isfinite(scores[:, item])]
        solved = len(valid) > 0 and (valid == 1).all()
        keep.append(not solved and _mean(blind[:, item]) < tau - 1e-6)
    return np.array(keep)


@pytest.mark.parametrize("by", ["benchmark", "category"])
def test_held_out_rows_equal_a_loop(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Selection on build columns alone, weighted means of held-out models, ρ by scipy."""
    panel = _panel()
    monkeypatch.setattr(category_module, "get_selector", lambda name: _TopMean())
    _TopMean.seen.clear()
    options = _options(selectors=("variance",), protocols=("held-out",), category_by=by, min_held_out=5)
    document = evaluate(panel, options, workers=1)
    scores = panel["score"].to_numpy().astype(float).round(6)
    keep = _cleaned(panel)
    names = panel["benchmark"].to_numpy()
    pools: dict[str, NDArray[np.int64]] = {name: np.flatnonzero(keep & (names == name)) for name in _SIZES}
    if by == "category":
        members = {row["category"]: row["representative"] for row in document["tables"]["pools"]}
        assert all(row["supplements"] == 0 for row in document["tables"]["pools"])
        pools = {category: pools[name] for category, name in members.items()}
    splits = random_splits(np.ones((22, 3), dtype=bool), 3, 0)
    rows = document["tables"]["held_out"]
    assert len(rows) == 3 * 2 * len(pools)
    for row in rows:
        split = splits[int(row["split"])]
        index = pools[row["category"]]
        kept = _TopMean().select(Pool.of(scores[list(split.build)][:, index], benchmark=names[index]), row["K"], seed=0)
        full, compressed = [], []
        for model in split.held_out:
            full.append(_mean(scores[model, index]))
            own = scores[model, index[kept.index]]
            there = np.isfinite(own)
            weight = kept.weight[there] if kept.weight is not None else 0
            compressed.append(float((own[there] * weight).sum() / weight.sum()) if there.any() else math.nan)
        assert (row["n"], row["K"]) == (len(index), math.floor(round(row["retention"] * len(index), 9)))
        assert row["rho"] == pytest.approx(_rho(full, compressed))
        assert row["counted"] == (row["rho"] is not None)
    assert all(len(shown) == 11 for shown in _TopMean.seen)  # never all models


def test_end_to_end_equals_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = make_panel(dict.fromkeys("abcd", 30), models=24, blind=2, seed=3)
    monkeypatch.setattr(category_module, "get_selector", lambda name: _TopMean())
    options = _options(selectors=("variance",), protocols=("end-to-end",), k=2, retentions=(0.2,))
    rows = evaluate(panel, options, workers=1)["tables"]["end_to_end"]
    scores, keep, names = panel["score"].to_numpy().astype(float), _cleaned(panel), panel["benchmark"].to_numpy()
    splits = {split.name: split for split in random_splits(np.ones((24, 4), dtype=bool), 3, 0)}
    assert len(rows) == 6
    for row in rows:
        split = splits[row["split"]]
        compressed = np.empty((24, 4))
        reference = np.empty((24, 4))
        for number, name in enumerate("abcd"):
            index = np.flatnonzero(keep & (names == name))
            reference[:, number] = scores[:, index].mean(axis=1)
            if row["selector"] == "all-items":
                compressed[:, number] = reference[:, number]
            else:
                pool = Pool.of(scores[list(split.build)][:, index], benchmark=names[index])
                kept = _TopMean().select(pool, len(index) // 5, seed=0)
                compressed[:, number] = np.average(scores[:, index[kept.index]], axis=1, weights=kept.weight)
        best, subset = -2.0, None
        build = list(split.build)
        for trial in combinations(range(4), 2):
            rho = _rho(list(compressed[build][:, trial].mean(axis=1)), list(compressed[build].mean(axis=1)))
            if rho is not None and rho > best + 1e-12:
                best, subset = rho, trial
        assert subset is not None
        held = list(split.held_out)
        wanted = list(reference[held].mean(axis=1))
        assert row["subset"] == ["abcd"[number] for number in subset]
        assert row["rho"] == pytest.approx(_rho(list(compressed[held][:, subset].mean(axis=1)), wanted))
        assert row["rho_without_stage_3"] == pytest.approx(_rho(list(compressed[held].mean(axis=1)), wanted))


def test_the_same_for_any_workers_and_after_a_stop(tmp_path: Path) -> None:
    panel = _panel(responses=True)
    protocols = ("held-out", "chronological", "end-to-end", "cross-family", "intervals")
    options = _options(selectors=("vaw", "random"), splits=1, retentions=(0.2,), protocols=protocols)
    alone = json.dumps(evaluate(panel, options, workers=1), sort_keys=True)
    both = json.dumps(evaluate(panel, options, workers=2, cache=tmp_path), sort_keys=True)
    assert alone == both
    (folder,) = tmp_path.iterdir()
    kept = sorted(folder.iterdir())
    assert all(path.suffix == ".json" for path in kept)  # the workspace is gone
    before = {path: path.stat().st_mtime_ns for path in kept}
    for path in kept[::3]:
        path.unlink()
    assert json.dumps(evaluate(panel, options, workers=1, cache=tmp_path), sort_keys=True) == alone
    after = {path: path.stat().st_mtime_ns for path in sorted(folder.iterdir())}
    assert set(after) == set(before)
    assert sum(after[path] != before[path] for path in before) == len(kept[::3])


def test_another_selector_or_retention_uses_what_is_there(tmp_path: Path) -> None:
    panel = _panel()
    evaluate(panel, _options(protocols=("held-out",)), workers=1, cache=tmp_path)
    first = {path.name for path in next(tmp_path.iterdir()).iterdir()}
    wider = _options(protocols=("held-out",), selectors=("vaw", "variance", "random"), retentions=(0.1, 0.3, 0.5))
    evaluate(panel, wider, workers=1, cache=tmp_path)
    assert first < {path.name for path in next(tmp_path.iterdir()).iterdir()}
    evaluate(panel, _options(protocols=("held-out",), alpha=0.5), workers=1, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_whole_small_and_undefined_categories_are_marked() -> None:
    categories = ["x"] * 60 + ["x"] * 40 + ["few"] * 3 + ["same"] * 10 + ["y"] * 37
    panel = _panel(categories=categories, missing=0.0, blind=0)
    scores = panel["score"].to_numpy().copy()
    scores[:, 103:113] = 0.0  # all wrong: kept by stage 0, ranks nobody
    panel["score"] = (("model", "item"), scores)
    rows = evaluate(panel, _options(protocols=("held-out",), retentions=(0.1, 1.0)), workers=1)["tables"]["held_out"]
    found = {(row["category"], row["retention"]): row for row in rows}
    assert found["few", 0.1]["reason"] == "no item at this retention"
    assert found["few", 0.1]["K"] == 0
    assert found["same", 0.1]["reason"] == "all held-out models score the same"
    assert all(found[name, 1.0]["whole"] and not found[name, 1.0]["counted"] for name in ("x", "few", "same", "y"))
    assert all(found[name, 0.1]["counted"] for name in ("x", "y"))
    floored = evaluate(panel, _options(protocols=("held-out",), floor=30), workers=1)["tables"]["held_out"]
    assert {(row["category"], row["K"]) for row in floored if row["retention"] == 0.1} == {
        ("x", 30),
        ("few", 3),
        ("same", 10),
        ("y", 30),
    }
    few = evaluate(panel, _options(protocols=("held-out",), min_held_out=12), workers=1)["tables"]
    assert {row["reason"] for row in few["held_out"] if row["category"] == "x"} == {"11 held-out models, 12 are needed"}
    assert all(row["mean"] is None for row in few["held_out_summary"])


def test_models_that_cover_one_benchmark_alone_are_ranked_there_alone() -> None:
    panel = _panel(missing=0.0, blind=0)
    scores = panel["score"].to_numpy().copy()
    scores[:8, :100] = np.nan  # eight models of c alone
    scores[8:14, 100:] = np.nan  # six without it
    scores[14, :] = np.nan  # one without anything
    panel["score"] = (("model", "item"), scores)
    options = _options(protocols=("held-out", "end-to-end"), min_held_out=2, category_by="benchmark", k=2)
    document = evaluate(panel, options, workers=1)
    sides = {row["category"]: (row["build"], row["held_out"]) for row in document["tables"]["held_out"]}
    # groups of 8, 6 and 7 with scores: build 4, 3, 3
    assert sides == {"a": (6, 7), "b": (6, 7), "c": (7, 8)}
    rows = document["tables"]["end_to_end"]
    assert all(row["held_out"] <= 7 for row in rows)  # models of c alone do not enter


def test_a_benchmark_without_scores_and_too_many_categories() -> None:
    panel = _panel(missing=0.0, blind=0)
    scores = panel["score"].to_numpy().copy()
    scores[:, 100:] = np.nan
    panel["score"] = (("model", "item"), scores)
    document = evaluate(panel, _options(protocols=("held-out", "end-to-end"), k=5), workers=1)
    rows = [row for row in document["tables"]["held_out"] if row["category"] == "y"]
    assert {row["reason"] for row in rows} == {"0 build model(s) with a score, 2 are needed"}
    ends = document["tables"]["end_to_end"]
    assert {row["rho"] for row in ends} == {None}
    assert all("no subset of 5" in row["reason"] for row in ends)
    assert all(row["rho_without_stage_3"] is not None for row in ends)


def test_protocols_that_the_panel_does_not_allow() -> None:
    panel = _panel(families=None, release_dates=None)
    document = evaluate(panel, _options(selectors=("random",), k=5), workers=1)
    text = "\n".join(document["warnings"])
    for protocol in ("chronological", "shelf-life", "cross-family"):
        assert f"{protocol}: not run." in text
    assert {"held_out", "end_to_end", "left_out", "spectrum", "intervals"} <= set(document["tables"])
    assert {row["split"] for row in document["tables"]["intervals"]} == {"whole"}
    with pytest.raises(InvalidDataError):
        evaluate(panel, _options(protocols=("chronological",)), workers=1, optional=False)
    with pytest.raises(UsageError, match="table of variants"):
        evaluate(panel, _options(protocols=("variants",)), workers=1, optional=False)


def test_variants_take_no_part_in_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = _panel(missing=0.0)
    monkeypatch.setattr(category_module, "get_selector", lambda name: _TopMean())
    _TopMean.seen.clear()
    path = tmp_path / "variants.csv"
    models = ["model-01", "model-05", "model-09", "model-12", "model-20"]
    pd.DataFrame({"set": ["s"] * 3 + ["t"] * 3, "model": [*models, models[0]]}).to_csv(path, index=False)
    options = _options(selectors=("variance",), protocols=("variants",), retentions=(0.2,))
    tables = evaluate(panel, options, variants=path, workers=1)["tables"]
    assert {len(shown) for shown in _TopMean.seen} == {22 - 5}
    assert [(row["set"], row["category"]) for row in tables["variants"]] == [
        ("s", "x"),
        ("t", "x"),
        ("s", "y"),
        ("t", "y"),
    ]
    assert all(row["supports"] == (row["ceiling"] >= 0.9) for row in tables["variants"])
    assert tables["variants_summary"][0]["sets"] + tables["variants_summary"][0]["unstable"] == 4


def test_intervals_hold_the_point_and_are_paired_with_random() -> None:
    document = evaluate(_panel(), _options(protocols=("chronological", "intervals"), resamples=200), workers=1)
    points = {
        (row["selector"], row["retention"]): row["rho"]
        for row in document["tables"]["held_out_splits"]
        if row["protocol"] == "chronological"
    }
    rows = document["tables"]["intervals"]
    assert len(rows) == 8
    for row in rows:
        if row["split"] == "chronological":
            assert row["rho"] == pytest.approx(points[row["selector"], row["retention"]])
        assert row["low"] <= row["high"]
        assert ("minus_random_low" in row) == (row["selector"] == "variance")


def test_options_are_checked_before_anything_is_computed() -> None:
    panel = _panel()
    with pytest.raises(NotFoundError, match="no selector"):
        evaluate(panel, _options(selectors=("vaww",)))
    for bad, says in [
        ({"protocols": ("held-oud",)}, "Did you mean 'held-out'"),
        ({"retentions": (0.0,)}, "above 0"),
        ({"splits": 0}, "splits is 1 or more"),
        ({"min_held_out": 1}, "min-held-out is 2 or more"),
        ({"alpha": math.nan}, "alpha"),
        ({"normalise": "rank"}, "normalise"),
        ({"selectors": ()}, "takes a selector"),
    ]:
        with pytest.raises(UsageError, match=says):
            evaluate(panel, _options(**bad))
    with pytest.raises(UsageError, match="workers"):
        evaluate(panel, _options(), workers=0)
    assert _options(retentions=(0.5, 0.1, 0.5), protocols=("spectrum", "held-out")).check() == _options(
        retentions=(0.1, 0.5), protocols=("held-out", "spectrum")
    )
    assert chosen_selectors("all") == tuple(SELECTORS)
    assert chosen_selectors(["vaw, random", "vaw"]) == ("vaw", "random")
    assert set(Options().protocols) == set(PROTOCOLS)
