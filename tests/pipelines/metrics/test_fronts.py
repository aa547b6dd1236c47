"""Post-processing in front of patches and of rows, against loops over images."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optotype.pipelines.metrics import fronts
from optotype.pipelines.metrics.fronts import check_gamma, fronted_features, fronted_rows, parse_fronts, patch_chain
from optotype.pipelines.operators.mixtures import interleaved
from optotype.pipelines.postprocessing.chain import Chain, parse_chain
from optotype.schemas.errors import InvalidDataError, UsageError


def drawn_in(items: list[np.ndarray], gamma: float) -> list[np.ndarray]:
    return [item.mean(axis=0) + gamma * (item - item.mean(axis=0)) for item in items]


@pytest.fixture
def items(make: SimpleNamespace) -> list[np.ndarray]:
    return [item.astype(np.float64) for item in make.ragged(0, 30, 5)]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_gamma_against_a_loop(make: SimpleNamespace, items: list[np.ndarray], gamma: float) -> None:
    made = fronted_features(make.features(items), patch_chain(Chain(), gamma))
    np.testing.assert_allclose(made["patches"].values, np.concatenate(drawn_in(items, gamma)), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(made["row_size"].values, [len(item) for item in items])


def test_gamma_comes_before_the_chain(make: SimpleNamespace, items: list[np.ndarray]) -> None:
    made = fronted_features(make.features(items), patch_chain(parse_chain("zscore+l2"), 0.25))["patches"].values
    rows = np.concatenate(drawn_in(items, 0.25))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "chain", ["centre+abtt:2", "spca-whiten+l2", "l2+centre", "drop-leading:1", "gamma:0.5+centre"]
)
def test_cuts_and_storage_have_no_say(
    make: SimpleNamespace, items: list[np.ndarray], chain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fronted_features(make.features(items).load(), parse_chain(chain))["patches"].values
    lazy = fronted_features(make.features(items, chunk=4), parse_chain(chain))["patches"]
    assert lazy.chunks is not None
    assert np.array_equal(lazy.values, whole)
    monkeypatch.setattr(fronts, "_BLOCK_BYTES", 4 * 5 * 12)  # twelve tokens a block
    cut = fronted_features(make.features(items, chunk=7), parse_chain(chain))["patches"]
    assert len((cut.chunks or ((),))[0]) > 5
    np.testing.assert_allclose(cut.values, whole, rtol=0, atol=1e-12)


def test_nothing_to_do_gives_back_the_features(make: SimpleNamespace, items: list[np.ndarray]) -> None:
    features = make.features(items)
    assert fronted_features(features, patch_chain(parse_chain("none"), 1.0)) is features


def test_rows_are_fitted_on_themselves_and_gamma_says_nothing(items: list[np.ndarray]) -> None:
    rows = np.stack([item.mean(axis=0) for item in items])
    made = fronted_rows(rows, parse_chain("gamma:0.5+centre+l2"), "features")
    centred = rows - rows.mean(axis=0)
    np.testing.assert_allclose(made, centred / np.linalg.norm(centred, axis=1, keepdims=True), rtol=0, atol=1e-12)
    assert fronted_rows(rows, parse_chain("gamma:0"), "features") is rows


def test_refusals(make: SimpleNamespace, items: list[np.ndarray]) -> None:
    with pytest.raises(UsageError, match="gamma is a finite number from 0 to 1000000"):
        check_gamma(-0.5)
    for wrong in (-1, 1.1e6, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="from 0 to 1000000"):
            check_gamma(wrong)
    for right in (0.0, -0.0, 0.1, 1e6):  # what is recorded can be read again
        chain = patch_chain(parse_chain("centre"), check_gamma(right))
        assert parse_chain(str(chain)) == chain
    with pytest.raises(UsageError, match="states have neither"):
        parse_fronts("none", "gamma:0.5")
    with pytest.raises(UsageError, match="no step 'center'"):
        parse_fronts("center", "none")
    with pytest.raises(UsageError) as caught:
        parse_fronts("center", "gamma:0.5")
    assert "--post-features: 'center' is no chain" in caught.value.message
    assert "--post-states: 'gamma:0.5': gamma draws" in caught.value.message
    two = interleaved(make.features(items), make.features(items))
    with pytest.raises(UsageError, match="two spaces"):
        fronted_features(two, parse_chain("centre"))
    items[3][0, 0] = np.nan
    with pytest.raises(InvalidDataError, match="holds NaN or Inf"):
        fronted_features(make.features(items), parse_chain("centre"))
