"""What changes a cross-modal score and what does not: rotation, scale, shift, channels, and the order of the items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optotype.pipelines.metrics.catalogue import get_metric
from optotype.pipelines.metrics.metric import Inputs, checked_options
from optotype.pipelines.postprocessing.chain import parse_chain
from optotype.pipelines.postprocessing.fitted import fit_rows

N = 30
OPTIONS: dict[str, dict[str, Any]] = {
    "rsa": {},
    "cca": {"ridge": 0.0, "components": 3},
    "mutual-nn": {"k": 4},
    "mutual-nn-ties": {"k": 4},
    "gw": {},
    "cka": {},
    "cka-unbiased": {},
    "cknna": {"k": 6},
    "svcca": {"dimensions": 3},
    "cycle-knn": {"k": 3},
}
NAMES = tuple(OPTIONS)
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _score(name: str, visual: np.ndarray, textual: np.ndarray, ids: np.ndarray | None = None) -> float:
    items = np.array([f"i{number:04}" for number in range(N)], dtype=object) if ids is None else ids
    metric = get_metric(name)
    inputs = Inputs("encoder", "model", items, visual, textual, None)  # type: ignore[arg-type]
    return float(metric.score(inputs, checked_options(metric, OPTIONS[name]), seed=0).value)  # type: ignore[union-attr]


def _pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    common = generator.standard_normal((N, 3))
    visual, textual = (
        common @ generator.standard_normal((3, width)) + 0.5 * generator.standard_normal((N, width)) + 0.3
        for width in (5, 4)
    )
    return visual, textual


def _turn(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return rows @ np.linalg.qr(generator.standard_normal((rows.shape[1], rows.shape[1])))[0]


def _scale(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return rows * np.exp(generator.uniform(-5, 5))


def _row_scales(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return rows * np.exp(generator.uniform(-1, 1, (len(rows), 1)))


def _shift(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return rows + 3 * generator.standard_normal(rows.shape[1])


def _stretch(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """An invertible linear map with singular values from 1/3 to 3."""
    scales = np.exp(np.linspace(-np.log(3), np.log(3), rows.shape[1]))
    return _turn(_turn(rows, generator) * scales, generator)


def _permute_channels(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return rows[:, generator.permutation(rows.shape[1])]


def _repair(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Other pairs: the items of one side in another order."""
    return rows[generator.permutation(len(rows))]


# What each change leaves alone; everything else is shown to change below.
HOLDS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "rotation": (_turn, tuple(name for name in NAMES if name != "svcca")),  # which scales each channel
    "channels": (_permute_channels, NAMES),
    "scale": (_scale, NAMES),
    "row scales": (_row_scales, tuple(name for name in NAMES if name != "cca")),  # which takes rows as they are
    "shift": (_shift, ("cca",)),
    "linear map": (_stretch, ("cca",)),
    "pairs": (_repair, ("gw",)),
}


@pytest.mark.parametrize(("change", "name"), [(change, name) for change, (_, names) in HOLDS.items() for name in names])
@given(seed=st.integers(0, 2**32 - 1), side=st.integers(0, 1))
@settings(deadline=None, max_examples=3)
def test_what_holds(change: str, name: str, seed: int, side: int) -> None:
    pair = list(_pair(seed))
    before = _score(name, *pair)
    pair[side] = HOLDS[change][0](pair[side], np.random.default_rng(seed))
    assert _score(name, *pair) == pytest.approx(before, abs=1e-6 if name == "gw" else 1e-9)


@pytest.mark.parametrize(
    ("change", "name"), [(change, name) for change, (_, names) in HOLDS.items() for name in NAMES if name not in names]
)
def test_what_does_not_hold(change: str, name: str) -> None:
    moved = []
    for seed in range(4):
        pair = list(_pair(seed))
        before = _score(name, *pair)
        pair[1] = HOLDS[change][0](pair[1], np.random.default_rng(seed))
        moved.append(abs(_score(name, *pair) - before))
    assert max(moved) > 1e-4


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=3)
def test_the_order_of_the_items_does_not_matter(name: str, seed: int) -> None:
    visual, textual = _pair(seed)
    ids = np.array([f"i{number:04}" for number in range(N)], dtype=object)
    order = np.random.default_rng(seed).permutation(N)
    found = _score(name, visual[order], textual[order], ids[order])
    assert found == pytest.approx(_score(name, visual, textual, ids), abs=1e-6 if name == "gw" else 1e-9)


@pytest.mark.parametrize("name", ["rsa", "gw", "cka", "cka-unbiased", "svcca", "mutual-nn", "mutual-nn-ties", "cca"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=3)
def test_the_two_sides_may_be_exchanged(name: str, seed: int) -> None:
    # Not those of cycle-knn and cknna, which go from one side to the other.
    visual, textual = _pair(seed)
    if name == "gw":  # distances in units of the textual median
        return_scale = [_gw_median(rows) for rows in (visual, textual)]
        assert _score(name, visual, textual) / return_scale[1] ** 2 == pytest.approx(
            _score(name, textual, visual) / return_scale[0] ** 2, abs=1e-5
        )
    else:
        assert _score(name, visual, textual) == pytest.approx(_score(name, textual, visual), abs=1e-9)


def _gw_median(rows: np.ndarray) -> float:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return float(np.median(np.arccos(np.clip((unit @ unit.T)[np.triu_indices(N, 1)], -1, 1)) / np.pi))


SCALE_FREE = (
    "l2",
    "zscore",
    "centre+l2",
    "abtt:2+l2",
    "pca-whiten",
    "pca-whiten+l2",
    "drop-trailing:1+l2",
    "l2+spca-whiten",
)


@pytest.mark.parametrize("text", SCALE_FREE)
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=3)
def test_chains_that_do_not_see_the_scale(text: str, seed: int) -> None:
    rows = _pair(seed)[0]
    found = [
        fit_rows(parse_chain(text), part).apply(part) for part in (rows, _scale(rows, np.random.default_rng(seed)))
    ]
    np.testing.assert_allclose(found[0] @ found[0].T, found[1] @ found[1].T, atol=1e-7)


@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=3)
def test_the_stabiliser_sees_the_scale(seed: int) -> None:
    rows = _pair(seed)[0]
    found = [fit_rows(parse_chain("spca-whiten+l2"), part).apply(part) for part in (rows, rows * 1e-2)]
    assert np.abs(found[0] @ found[0].T - found[1] @ found[1].T).max() > 1e-3


@pytest.mark.parametrize("text", ["centre+l2", "abtt:2+l2", "pca-whiten+l2", "spca-whiten+l2", "drop-leading:1"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=3)
def test_chains_that_do_not_see_rotation_and_shift(text: str, seed: int) -> None:
    rows = _pair(seed)[0]
    generator = np.random.default_rng(seed)
    found = [
        fit_rows(parse_chain(text), part).apply(part) for part in (rows, _shift(_turn(rows, generator), generator))
    ]
    np.testing.assert_allclose(found[0] @ found[0].T, found[1] @ found[1].T, atol=1e-7)
