"""The frontier against a loop over items, and the gains of axes by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from panels import make_panel
from slow_compression import matrix

from optotype.pipelines.compression.axes import axis_gains, parse_axes
from optotype.pipelines.compression.frontier import frontier
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError

FAMILIES = ["q", "q", "v", "v", "", "w", "w", "w"]


def _slow(panel: xr.Dataset, gain: float) -> tuple[int, int, list[int]]:
    scores = matrix(panel)
    family = [str(f) or f"model {m}" for m, f in enumerate(panel["family"].to_numpy())]
    candidates, band = [], []
    for item in range(scores.shape[1]):
        there = {m: float(x) for m, x in enumerate(scores[:, item]) if not math.isnan(x)}
        groups: dict[str, list[float]] = {}
        for m, x in there.items():
            groups.setdefault(family[m], []).append(x)
        if len(there) < 2 or any(math.fsum(g) / len(g) > 0.5 + 1e-6 for g in groups.values()):
            continue
        candidates.append(item)
        mean = math.fsum(there.values()) / len(there)
        if 0.1 - 1e-6 <= mean <= 0.5 + 1e-6:
            variance = math.fsum((x - mean) ** 2 for x in there.values()) / len(there)
            band.append((-round(variance * (1 - mean), 12), item))
    size = math.floor(round(len(band) * gain, 9) + 0.5)
    return len(candidates), len(band), [item for _, item in sorted(band)[:size]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gain", [0.25, 1.0, 0.1])
def test_frontier_is_that_of_a_loop(seed: int, gain: float) -> None:
    panel = make_panel(
        {"a": 60, "b": 40}, families=FAMILIES, missing=0.4, graded=["b"], scales={"b": (0, 5)}, seed=seed
    )
    panel["score"][:, 0] = np.nan
    found = frontier(panel, gain=gain)
    candidates, band, items = _slow(panel, gain)
    assert (found.candidates, found.in_band, found.kept) == (candidates, band, len(items))
    names = list(zip(panel["benchmark"].to_numpy(), panel["item"].to_numpy(), strict=True))
    assert list(zip(found.items["benchmark"], found.items["item_id"], strict=True)) == [names[i] for i in sorted(items)]
    ranked = found.items.sort_values("rank")
    assert list(zip(ranked["benchmark"], ranked["item_id"], strict=True)) == [names[i] for i in items]
    assert found.families == 4
    assert found.warnings == ["1 model(s) have no family: each is its own"]
    np.testing.assert_allclose(found.items["score"], found.items["variance"] * (1 - found.items["mean"]), atol=1e-12)


def test_half_an_item_is_rounded_up_and_ties_go_by_catalogue() -> None:
    panel = make_panel({"a": 5}, models=4)
    panel["score"] = panel["score"].copy(data=np.tile(np.array([[1], [0], [0], [0]], np.float32), 5))
    panel["family"] = ("model", np.array(["f"] * 4, object))
    assert frontier(panel, gain=0.5).items["item_id"].tolist() == ["0000", "0001", "0002"]
    assert frontier(panel, gain=0.09).kept == 0
    assert frontier(panel, gain=0.1).kept == 1
    without = panel.assign_coords(family=("model", np.array([""] * 4, object)))
    found = frontier(without, gain=1)
    assert found.in_band == 0  # the model that solves them all is a family above 0.5
    assert found.warnings == [
        "the models have no families: each model is its own",
        "0 items are in band, 0 of them are kept",
    ]


def test_the_largest_gain_per_step_sets_the_size() -> None:
    axis = ["size:1", "size:3", "size:3", "gen:2", "gen:0", "gen:1", "alone:4", ""]
    panel = make_panel({"a": 30, "b": 10}, families=["f"] * 8, axis=axis)
    level = np.array([0.1, 0.2, 0.4, 0.4, 0.1, 0.9, 0.3, 0.3])
    columns = [np.arange(size) < np.round(level[:, None] * size) for size in (30, 10)]
    panel["score"] = panel["score"].copy(data=np.concatenate(columns, axis=1).astype(np.float32))
    found = frontier(panel)
    gains = {gain.axis: gain for gain in found.axes}
    assert set(gains) == {"size", "gen"}
    assert gains["size"].gain == pytest.approx(0.2)
    assert (gains["size"].first, gains["size"].last) == (["model-00"], ["model-01", "model-02"])
    assert (gains["gen"].gain, gains["gen"].steps) == (pytest.approx(0.15), 2)
    assert found.axis == gains["size"]
    assert found.gain == gains["size"].gain
    assert "axis alone has one position only" in found.warnings[0]
    assert frontier(panel, axis="gen").gain == pytest.approx(0.15)
    with pytest.raises(NotFoundError, match="no axis is called 'sise'"):
        frontier(panel, axis="sise")


def test_accuracy_is_over_benchmarks_that_both_ends_have() -> None:
    nan = np.nan
    scores = np.array([[0.2, nan, 0.5], [0.4, 0.9, nan]])
    (gain,), warnings = axis_gains(["one", "two"], ["a:0", "a:1"], scores)
    assert (gain.gain, gain.benchmarks, warnings) == (pytest.approx(0.2), 1, [])
    gains, warnings = axis_gains(["one", "two"], ["a:0", "a:1"], np.array([[0.2, nan], [nan, 0.3]]))
    assert (gains, warnings) == ([], ["axis a: its ends share no benchmark; it is ignored"])


def test_positions_are_numbers() -> None:
    assert parse_axes(["m", "n", "o"], ["vit-depth:8", "", "a:b:1.5"]) == {"vit-depth": {8.0: [0]}, "a:b": {1.5: [2]}}
    with pytest.raises(InvalidDataError) as caught:
        parse_axes(["m", "n", "o", "p"], ["x", "x:one", ":1", "x:nan"])
    assert [problem.where for problem in caught.value.problems] == ["m", "n", "o", "p"]


def test_what_gives_no_size_is_refused() -> None:
    panel = make_panel({"a": 10})
    with pytest.raises(UsageError, match="neither --gain nor an axis") as caught:
        frontier(panel)
    assert "name:position" in str(caught.value.hint)
    with pytest.raises(UsageError, match="not both"):
        frontier(panel, gain=0.1, axis="x")
    for gain in (0, -1, 1.5, math.nan):
        with pytest.raises(UsageError, match="above 0 and at most 1"):
            frontier(panel, gain=gain)
    falling = make_panel({"a": 10}, models=2, axis=["x:2", "x:1"])
    falling["score"] = falling["score"].copy(data=np.array([[0.0] * 10, [1.0] * 10], np.float32))
    with pytest.raises(UsageError, match="does not grow along x"):
        frontier(falling)
