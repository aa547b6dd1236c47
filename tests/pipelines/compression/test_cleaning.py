"""Stage 0 against a loop, and against pandas on real scores."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from panels import make_panel
from slow_compression import matrix, slow_clean

from optotype.pipelines.compression.cleaning import clean
from optotype.pipelines.compression.item_statistics import item_statistics
from optotype.pipelines.compression.slices import slices
from optotype.schemas.errors import UsageError


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [2 / 3, 0.5, 1.0])
def test_clean_is_that_of_a_loop(seed: int, tau: float) -> None:
    panel = make_panel(
        {"a": 40, "b": 25, "c": 30}, models=3, blind=3, missing=0.3, graded=["b"], scales={"c": (1, 5)}, seed=seed
    )
    panel["score"][:, 0] = np.nan  # nobody has it
    panel["blind"][:, 70] = np.nan
    found = clean(panel, slices(panel), tau)
    assert found.keep.tolist() == slow_clean(panel, tau)
    report = found.report.set_index("benchmark")
    scores, blind = matrix(panel), matrix(panel, "blind")
    assert list(report.index) == ["a", "b", "c"]
    for name in "abc":
        here = panel["benchmark"].to_numpy() == name
        correct = [np.nanmin(column) >= 1 if not np.isnan(column).all() else False for column in scores[:, here].T]
        assert report.loc[name, "all_correct"] == sum(correct)
        assert report.loc[name, "without_blind_run"] == np.isnan(blind[:, here]).all(axis=0).sum()
        assert report.loc[name, "kept"] == found.keep[here].sum()
    removed = report["all_correct"] + report["blind_solvable"] - report["both"]
    assert (report["items"] - removed == report["kept"]).all()


def test_two_of_three_right_is_two_thirds_and_graded_scores_round() -> None:
    panel = make_panel({"a": 4}, models=3, blind=3)
    panel["blind"] = panel["blind"].copy(data=np.array([[1, 1, 0.7, 1], [1, 0, 0.7, 0], [0, 0, 0.7, 0.99]], np.float32))
    panel["score"] = panel["score"].copy(data=np.zeros((3, 4), np.float32))
    assert clean(panel, slices(panel)).keep.tolist() == [False, True, False, True]
    assert clean(panel, slices(panel), 0.7).keep.tolist() == [True, True, False, True]


def test_all_wrong_items_and_items_without_scores_stay() -> None:
    panel = make_panel({"a": 3}, models=2)
    panel["score"] = panel["score"].copy(data=np.array([[0, np.nan, 1], [0, np.nan, np.nan]], np.float32))
    found = clean(panel, slices(panel))
    assert found.keep.tolist() == [True, True, False]
    assert found.report["without_blind_run"].tolist() == [3]


@pytest.mark.parametrize("scale", [(0, 100), (1, 10), (0, 3.3), (-1, 0.7)])
def test_full_marks_are_all_correct_on_any_scale(scale: tuple[float, float]) -> None:
    panel = make_panel({"a": 2}, models=3, scales={"a": scale})
    panel["score"] = panel["score"].copy(data=np.full((3, 2), scale[1], np.float32))
    assert not clean(panel, slices(panel)).keep.any()


@pytest.mark.parametrize("tau", [0, -1, 1.1, float("nan")])
def test_tau_out_of_range(tau: float) -> None:
    panel = make_panel({"a": 2})
    with pytest.raises(UsageError, match="tau is above 0 and at most 1"):
        clean(panel, slices(panel), tau)


@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_chunks_make_no_difference(chunk: int) -> None:
    panel = make_panel({"a": 40, "b": 25}, models=9, blind=3, missing=0.2, graded=["b"], chunk=chunk, seed=3)
    expected = make_panel({"a": 40, "b": 25}, models=9, blind=3, missing=0.2, graded=["b"], seed=3)
    for name in ("valid", "mean", "variance", "all_correct", "blind_valid", "blind_mean"):
        one, other = (getattr(item_statistics(data, [0, 3, 4, 8]), name) for data in (panel, expected))
        np.testing.assert_array_equal(one, other)


def test_real_scores_agree_with_pandas(shared_panel: Path) -> None:
    """All-correct 23, 33 and 30, and the items that half, or two thirds, of the blind runs solve."""
    scores = pd.read_parquet(shared_panel / "scores.parquet")
    scores = scores[scores["benchmark"] != "blink_val"]  # answers only
    image = scores[scores["modality"] == "image"].groupby(["benchmark", "item_id"])["score"]
    blind = scores[scores["modality"] == "blind"].groupby(["benchmark", "item_id"])["score"]
    correct = image.min() == 1
    half, solved = blind.mean() >= 0.5, 3 * blind.sum() >= 2 * blind.count()
    assert correct.groupby("benchmark").sum().to_dict() == {
        "mathvista_testmini": 33, "mmmu_val": 23, "seedbench2_sub1000": 30
    }  # fmt: skip
    assert half.groupby("benchmark").sum().to_dict() == {
        "mathvista_testmini": 261, "mmmu_val": 343, "seedbench2_sub1000": 242
    }  # fmt: skip
    panel = _panel_of(scores)
    at_two_thirds = clean(panel, slices(panel), float(Fraction(2, 3))).report.set_index("benchmark")
    at_half = clean(panel, slices(panel), 0.5).report.set_index("benchmark")
    for name in correct.index.unique("benchmark"):
        assert at_two_thirds.loc[name, "all_correct"] == correct[name].sum()
        assert at_two_thirds.loc[name, "blind_solvable"] == solved[name].sum()
        assert at_two_thirds.loc[name, "both"] == (correct[name] & solved[name]).sum()
        assert at_half.loc[name, "blind_solvable"] == half[name].sum()


def _panel_of(scores: pd.DataFrame) -> xr.Dataset:
    """The scores as a panel, by a pivot."""
    wide = {
        modality: scores[scores["modality"] == modality].pivot_table(
            index="model", columns=["benchmark", "item_id"], values="score"
        )
        for modality in ("image", "blind")
    }
    items = wide["image"].columns
    sizes = items.get_level_values(0).value_counts(sort=False)
    panel = make_panel(dict(sizes), models=len(wide["image"]), blind=len(wide["blind"]), chunk=500)
    assert panel["benchmark"].to_numpy().tolist() == items.get_level_values(0).tolist()
    for modality, variable in (("image", "score"), ("blind", "blind")):
        panel[variable] = panel[variable].copy(data=wide[modality][items].to_numpy(np.float32))
    return panel
