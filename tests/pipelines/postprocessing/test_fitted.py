"""Fitted chains against scikit-learn, plain formulas, and themselves in other blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler, normalize

from optotype.pipelines.kernels import whitening
from optotype.pipelines.postprocessing import fitted as module
from optotype.pipelines.postprocessing.chain import parse_chain
from optotype.pipelines.postprocessing.fitted import FittedChain, fit_chain, fit_rows
from optotype.schemas.errors import InvalidDataError, UsageError


def _rows(seed: int = 0, rows: int = 300, channels: int = 6) -> np.ndarray:
    generator = np.random.default_rng(seed)
    mixed = generator.standard_normal((rows, channels)) * np.logspace(0, -1.5, channels)
    return mixed @ np.linalg.qr(generator.standard_normal((channels, channels)))[0] + 3 * generator.random(channels)


def _post(text: str, rows: np.ndarray) -> np.ndarray:
    return fit_rows(parse_chain(text), rows).apply(rows)


def _zscore(rows: np.ndarray) -> np.ndarray:
    return StandardScaler().fit_transform(rows) * np.sqrt((len(rows) - 1) / len(rows))


def _abtt(rows: np.ndarray, count: int) -> np.ndarray:
    result = rows - rows.mean(axis=0)
    for direction in PCA(svd_solver="full").fit(rows).components_[:count]:
        result = result - np.outer(result @ direction, direction)
    return result


def _stabilised(rows: np.ndarray, eps: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    keep = values > max(1e-10, values.max() * rows.shape[1] * 2.2e-16)
    return ((rows - rows.mean(axis=0)) @ vectors[:, keep] / np.sqrt(values[keep] + eps))[:, ::-1]


REFERENCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda rows: rows,
    "l2": normalize,
    "centre": lambda rows: rows - rows.mean(axis=0),
    "zscore": _zscore,
    "abtt:0": lambda rows: rows - rows.mean(axis=0),
    "abtt:2": lambda rows: _abtt(rows, 2),
    "pca-whiten": lambda rows: PCA(whiten=True, svd_solver="full").fit_transform(rows),
    "spca-whiten": lambda rows: _stabilised(rows, 1e-4),
    "spca-whiten:0.5": lambda rows: _stabilised(rows, 0.5),
    "drop-leading:2": lambda rows: PCA(svd_solver="full").fit_transform(rows)[:, 2:],
    "drop-trailing:2": lambda rows: PCA(svd_solver="full").fit_transform(rows)[:, :-2],
    "centre+abtt:3+l2": lambda rows: normalize(_abtt(rows, 3)),
    "zscore+abtt:1": lambda rows: _abtt(_zscore(rows), 1),
    "l2+zscore": lambda rows: _zscore(normalize(rows)),
    "drop-trailing:1+spca-whiten:0.01+l2": lambda rows: normalize(
        _stabilised(PCA(svd_solver="full").fit_transform(rows)[:, :-1], 0.01)
    ),
    "l2+centre+l2+pca-whiten": lambda rows: PCA(whiten=True, svd_solver="full").fit_transform(
        normalize(normalize(rows) - normalize(rows).mean(axis=0))
    ),
    "abtt:1+drop-trailing:1": lambda rows: PCA(svd_solver="full").fit_transform(rows)[:, 1:-1],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("text", REFERENCES)
def test_chains_are_their_formulas(text: str, dtype: type) -> None:
    rows = _rows().astype(dtype)
    expected = REFERENCES[text](rows.astype(np.float64))
    found = _post(text, rows)
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    signs = np.sign((found * expected).sum(axis=0))  # a principal direction has no sign
    assert np.all(signs == 1) or "pca" in text or "drop" in text
    np.testing.assert_allclose(found * signs, expected, atol=1e-8)


def test_the_stabilised_whitening_is_that_of_the_score_to_the_last_bit() -> None:
    rows = _rows(1, 500, 9)
    for text, prenorm in (("spca-whiten+l2", "none"), ("l2+spca-whiten+l2", "l2")):
        expected = whitening.whiten(rows, whitening.fit(whitening.moments(rows, prenorm), 1e-4, prenorm))[0]
        np.testing.assert_array_equal(_post(text, rows), expected)


def test_fewer_rows_than_channels_are_cut_as_the_whitening_cuts_them() -> None:
    rows = np.random.default_rng(2).standard_normal((9, 30))
    for text, channels in (("pca-whiten", 8), ("drop-leading:3", 5), ("drop-trailing:3", 5), ("abtt:3", 30)):
        found = _post(text, rows)
        assert found.shape == (9, channels)
        assert np.linalg.matrix_rank(found - found.mean(axis=0), tol=1e-8) == (8 if "whiten" in text else 5)


@pytest.mark.parametrize("text", ["abtt:2", "drop-leading:2"])
def test_both_ways_of_dropping_leading_components_have_the_same_cosines(text: str) -> None:
    rows = _rows(3)
    found, other = _post(f"{text}+l2", rows), normalize(_abtt(rows, 2))
    np.testing.assert_allclose(found @ found.T, other @ other.T, atol=1e-10)


def _blocks(rows: np.ndarray, cuts: list[int]) -> tuple[Callable[[], Iterator[np.ndarray]], list[int]]:
    read: list[int] = []

    def blocks() -> Iterator[np.ndarray]:
        read.append(1)
        yield from np.split(rows, cuts)

    return blocks, read


@pytest.mark.parametrize("text", ["zscore", "l2+centre+l2+spca-whiten", "abtt:2+zscore+l2"])
def test_blocks_change_no_bit_and_passes_are_those_that_are_told(text: str) -> None:
    rows, chain = _rows(4, 5000, 5), parse_chain(text)
    whole = fit_rows(chain, rows).apply(rows)
    for cuts in ([], [1], [2048], [100, 2047, 2049, 4999], list(range(7, 5000, 13))):
        blocks, read = _blocks(rows, cuts)
        np.testing.assert_array_equal(fit_chain(chain, blocks).apply(rows), whole)
        assert len(read) == chain.passes


SIZES = np.array([1, 4, 2, 7, 1, 3] * 4)


def _gamma(rows: np.ndarray, sizes: np.ndarray, gamma: float) -> np.ndarray:
    images = np.split(rows, np.cumsum(sizes)[:-1])
    return np.concatenate([[image.mean(axis=0) + gamma * (p - image.mean(axis=0)) for p in image] for image in images])


@pytest.mark.parametrize("gamma", [0, 0.3, 1, 2])
@pytest.mark.parametrize("span", [1, 10, 2048])
def test_gamma_draws_patches_to_the_mean_of_their_image(
    gamma: float, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SPAN_ROWS", span)
    rows = _rows(5, int(SIZES.sum()), 4)
    drawn = _gamma(rows, SIZES, gamma)
    for text, expected in (("", drawn), ("+l2+centre", normalize(drawn) - normalize(drawn).mean(axis=0))):
        chain = parse_chain(f"gamma:{gamma}{text}")
        halves = [(rows[: SIZES[:5].sum()], SIZES[:5]), (rows[SIZES[:5].sum() :], SIZES[5:])]
        found = fit_chain(chain, lambda parts=halves: iter(parts))
        np.testing.assert_allclose(found.apply(rows, SIZES), expected, atol=1e-12)


def test_gamma_commutes_with_what_is_affine_and_fitted_before() -> None:
    rows = _rows(6, int(SIZES.sum()), 4)
    chain = parse_chain("abtt:1+gamma:0.5")
    found = fit_chain(chain, lambda: iter([(rows, SIZES)])).apply(rows, SIZES)
    np.testing.assert_allclose(found, _gamma(_abtt(rows, 1), SIZES, 0.5), atol=1e-12)


def test_gamma_wants_whole_images() -> None:
    rows = _rows(7, 6, 3)
    chain = parse_chain("gamma:0.5")
    alone = FittedChain(chain, tuple(chain), 0)
    for sizes in (None, np.array([2, 3]), np.array([6, 0])):
        with pytest.raises(UsageError, match="add up to 6 rows"):
            alone.apply(rows, sizes)
    with pytest.raises(UsageError, match="states have no images"):
        fit_chain(parse_chain("gamma:0.5+centre"), lambda: iter([rows]), where="states")


def test_constant_channels_become_zero_and_are_counted() -> None:
    rows = _rows(8)
    rows[:, [1, 4]] = [0.1, 1e6]
    found = fit_rows(parse_chain("zscore"), rows)
    result = found.apply(rows)
    np.testing.assert_array_equal(result[:, [1, 4]], 0)
    np.testing.assert_allclose(result.std(axis=0, ddof=1)[[0, 2, 3, 5]], 1, rtol=1e-12)
    assert found.details == [{"step": "zscore", "constant_channels": 2}]


@pytest.mark.parametrize("text", ["centre", "centre+l2", "spca-whiten+l2", "zscore+l2", "abtt:1+l2"])
def test_a_row_that_is_the_mean_comes_out_as_zero_not_as_blown_up_rounding(text: str) -> None:
    rows = _rows(9, 64, 5) + 1e3
    rows[-1] = rows[:-1].mean(axis=0)
    found = _post(text, rows)
    np.testing.assert_array_equal(found[-1], 0)
    assert np.all(np.linalg.norm(found[:-1], axis=1) > 1e-3)


def test_a_row_within_the_removed_directions_comes_out_as_zero() -> None:
    generator = np.random.default_rng(10)
    rows = np.concatenate([10 * generator.standard_normal((1, 4)) * np.array([[1.0, 0, 0, 0]])] * 2)
    rest = np.concatenate([np.eye(4)[1:], -np.eye(4)[1:]])
    spread = np.array([[40.0, 0, 0, 0], [-40.0, 0, 0, 0]])
    data = np.concatenate([rows, -rows, rest, spread])
    found = _post("abtt:1+l2", data)
    np.testing.assert_array_equal(found[:4], 0)
    np.testing.assert_allclose(np.linalg.norm(found[4:10], axis=1), 1)


def test_zero_rows_stay_zero_under_l2() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_array_equal(_post("l2", rows), [[0.6, 0.8], [0.0, 0.0]])


def test_the_account_of_a_fit() -> None:
    rows = np.random.default_rng(11).standard_normal((400, 3)) * [2.0, 1.0, 1e-3]
    details = fit_rows(parse_chain("spca-whiten+l2"), rows).details
    assert details[0]["directions"] == 3
    assert details[0]["share_below_eps"] == pytest.approx(1 / 3)
    assert details[1] == {"step": "l2"}
    removed = fit_rows(parse_chain("drop-leading:1"), rows)
    variances = np.linalg.eigvalsh(np.cov(rows.T))
    assert removed.details[0]["variance_removed"] == pytest.approx(variances[-1] / variances.sum())
    assert removed.rows == 400


@pytest.mark.parametrize(
    ("text", "rows", "said"),
    [
        ("centre", np.ones((1, 3)), "two rows"),
        ("centre", np.empty((0, 3)), "there are none"),
        ("zscore", np.full((5, 2), 0.1), "every channel is constant"),
        ("abtt:1", np.full((5, 2), 0.1), "abtt:1 cannot be fitted"),
        ("pca-whiten", np.zeros((5, 2)), "nearly"),
        ("zscore", np.array([[1e200, 1.0], [-1e200, 2.0]]), "overflows float64"),
        ("centre", np.array([[1.0, np.nan], [1.0, 2.0], [np.inf, 1.0]]), "rows[0]"),
        ("l2+centre", np.array([[1.0, 2.0], [1.0, 1.0], [np.inf, 1.0]]), "rows[2]"),
    ],
)
def test_what_cannot_be_fitted(text: str, rows: np.ndarray, said: str) -> None:
    with pytest.raises(InvalidDataError) as caught:
        fit_rows(parse_chain(text), rows)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["abtt:6", "drop-leading:7", "drop-trailing:6"])
def test_something_is_left(text: str) -> None:
    with pytest.raises(UsageError, match="at most 5") as caught:
        _post(text, _rows())
    assert f"{text.split(':')[0]}:5" in str(caught.value.hint)


def test_given_rows_are_left_alone() -> None:
    rows = _rows(12)
    before = rows.copy()
    for text in ("none", "l2", "zscore+l2"):
        found = _post(text, rows)
        found += 1
    np.testing.assert_array_equal(rows, before)
