"""Each cross-modal metric against a trusted implementation or a plain loop, on every kind of data, in one table."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import linalg, stats
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import StandardScaler, normalize
from threadpoolctl import threadpool_limits

from optotype.pipelines.metrics.catalogue import get_metric
from optotype.pipelines.metrics.cca import RIDGES, split
from optotype.pipelines.metrics.gw import _without_other_backends
from optotype.pipelines.metrics.metric import Inputs, Score, checked_options

Pair = tuple[np.ndarray, np.ndarray]
Reference = Callable[..., float]


def inputs_of(visual: np.ndarray, textual: np.ndarray | None) -> Inputs:
    ids = np.array([f"i{number:04}" for number in range(len(visual))], dtype=object)
    return Inputs("encoder", "model", ids, visual, textual, None)  # type: ignore[arg-type] - no metric here reads patches


def scored(name: str, pair: tuple[np.ndarray, np.ndarray | None], seed: int = 0, **options: Any) -> Score:
    metric = get_metric(name)
    return metric.score(inputs_of(*pair), checked_options(metric, options), seed=seed)  # type: ignore[union-attr]


def _shared(seed: int, n: int, channels: tuple[int, int]) -> Pair:
    """Two views of three common factors."""
    generator = np.random.default_rng(seed)
    common = generator.standard_normal((n, 3))
    visual, textual = (
        common @ generator.standard_normal((3, width)) + 0.7 * generator.standard_normal((n, width)) + 0.2
        for width in channels
    )
    return visual, textual


def _unrelated(n: int, channels: tuple[int, int]) -> Pair:
    generator = np.random.default_rng(1)
    return generator.standard_normal((n, channels[0])), generator.standard_normal((n, channels[1])) + 5


def _narrow() -> Pair:
    """All cosines within 0.01 of 1, as of states that share one large direction."""
    visual, textual = _shared(4, 28, (6, 5))
    return visual + 30, textual - 30


def _copies() -> Pair:
    visual, textual = _shared(2, 30, (5, 4))
    visual[[3, 11, 20]] = visual[7]
    textual[[1, 2, 3, 29]] = textual[0]
    visual[4], textual[9] = 2 * visual[5], 0.5 * textual[8]  # of one direction
    return visual, textual


def _ties() -> Pair:
    """Rows of -1, 0 and 1: few values of the cosine, so that most k-th places are shared."""
    generator = np.random.default_rng(3)
    grid = np.array([row for row in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(row)])
    return grid[generator.permutation(len(grid))], grid[generator.permutation(len(grid))][:, :3]


DATA: dict[str, Pair] = {
    "shared": _shared(0, 45, (6, 5)),
    "unrelated": _unrelated(33, (4, 7)),
    "wide": _shared(1, 22, (60, 40)),
    "narrow": _narrow(),
    "copies": _copies(),
    "ties": _ties(),
}


def _cosines(rows: np.ndarray) -> np.ndarray:
    return np.asarray(cosine_similarity(rows))


def _nearest(rows: np.ndarray, k: int) -> list[list[int]]:
    similarity = _cosines(rows)
    return [
        sorted((j for j in range(len(rows)) if j != i), key=lambda j: (-round(float(similarity[i, j]), 12), j))[:k]
        for i in range(len(rows))
    ]


def rsa(visual: np.ndarray, textual: np.ndarray, correlation: str) -> float:
    pairs = list(itertools.combinations(range(len(visual)), 2))
    matrices = [_cosines(rows) for rows in (visual, textual)]
    sides = [[round(float(matrix[i, j]), 12) for i, j in pairs] for matrix in matrices]
    return float((stats.pearsonr if correlation == "pearson" else stats.spearmanr)(*sides).statistic)


def mutual_nn(visual: np.ndarray, textual: np.ndarray, k: int) -> float:
    pairs = zip(_nearest(visual, k), _nearest(textual, k), strict=True)
    return sum(len(set(first) & set(second)) for first, second in pairs) / (k * len(visual))


def _choices(values: np.ndarray, i: int, k: int) -> list[set[int]]:
    """Every set of k neighbours of item i that some order of the ties gives."""
    others = [j for j in range(len(values)) if j != i]
    kth = sorted((values[j] for j in others), reverse=True)[k - 1]
    above = {j for j in others if values[j] > kth}
    tied = [j for j in others if values[j] == kth]
    return [above | set(chosen) for chosen in itertools.combinations(tied, k - len(above))]


def mutual_nn_ties(visual: np.ndarray, textual: np.ndarray, k: int) -> float:
    sides = [_cosines(rows).round(12) for rows in (visual, textual)]
    total = 0.0
    for i in range(len(visual)):
        first, second = (_choices(side[i], i, k) for side in sides)
        total += np.mean([len(a & b) for a in first for b in second]) / k
    return total / len(visual)


def cycle_knn(visual: np.ndarray, textual: np.ndarray, k: int) -> float:
    first, second = _nearest(visual, k), _nearest(textual, k)
    return sum(any(i in first[j] for j in second[i]) for i in range(len(first))) / len(first)


def cka(visual: np.ndarray, textual: np.ndarray) -> float:
    n = len(visual)
    centre = np.eye(n) - np.ones((n, n)) / n
    K, L = (centre @ _cosines(rows) @ centre for rows in (visual, textual))
    return float(np.trace(K @ L) / np.sqrt(np.trace(K @ K) * np.trace(L @ L)))


def _hsic_by_loops(K: np.ndarray, L: np.ndarray) -> float:
    """Song et al. (2012), equation 4 over all quadruples is too slow; equation 5 written out."""
    n = len(K)
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    one = np.ones(n)
    terms = (
        np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ K @ L @ one)
    )
    return float(terms / (n * (n - 3)))


def cka_unbiased(visual: np.ndarray, textual: np.ndarray) -> float:
    K, L = _cosines(visual), _cosines(textual)
    return _hsic_by_loops(K, L) / np.sqrt(_hsic_by_loops(K, K) * _hsic_by_loops(L, L))


def cknna(visual: np.ndarray, textual: np.ndarray, k: int) -> float:
    def align(first: np.ndarray, second: np.ndarray) -> float:
        mask = np.zeros((len(first), len(first)))
        for i, (a, b) in enumerate(zip(_nearest(first, k), _nearest(second, k), strict=True)):
            mask[i, sorted(set(a) & set(b))] = 1
        return _hsic_by_loops(mask * _cosines(first), mask * _cosines(second))

    return align(visual, textual) / float(np.sqrt(align(visual, visual) * align(textual, textual)))


def svcca(visual: np.ndarray, textual: np.ndarray, dimensions: int) -> float:
    spaces = []
    for rows in (visual, textual):
        left, values, _ = np.linalg.svd(StandardScaler().fit_transform(normalize(rows)), full_matrices=False)
        spaces.append(left[:, : min(dimensions, int((values > 1e-9).sum()))])
    return float(np.cos(linalg.subspace_angles(*spaces)).mean())


def cca(visual: np.ndarray, textual: np.ndarray, components: int, ridge: float | None) -> float:
    """scikit-learn's PCA, then the generalised eigenproblem of ridge CCA."""
    ids = [f"i{number:04}" for number in range(len(visual))]
    train, validation, test = split(np.array(ids, dtype=object), 0)
    assert sorted([*train, *validation, *test]) == list(range(len(visual)))
    reduced = []
    for rows in (visual, textual):
        fitted = PCA(svd_solver="full").fit(rows[train])
        strong = fitted.explained_variance_ > fitted.explained_variance_.max() * 1e-12
        reduced.append(fitted.transform(rows)[:, strong][:, :64])
    best = (-2.0, 0.0, 0.0)
    for share in RIDGES if ridge is None else (ridge,):
        p, q = (side.shape[1] for side in reduced)
        covariance = np.cov(np.concatenate(reduced, axis=1)[train].T)
        own = [
            part + share * np.trace(part) / len(part) * np.eye(len(part))
            for part in (covariance[:p, :p], covariance[p:, p:])
        ]
        off = np.block([[np.zeros((p, p)), covariance[:p, p:]], [covariance[p:, :p], np.zeros((q, q))]])
        vectors = linalg.eigh(off, linalg.block_diag(*own))[1][:, ::-1][:, : min(components, p, q)]
        first, second = reduced[0] @ vectors[:p], reduced[1] @ vectors[p:]
        held_out = [
            np.mean([np.corrcoef(a[part], b[part])[0, 1] for a, b in zip(first.T, second.T, strict=True)])
            for part in (validation, test)
        ]
        best = max(best, (round(float(held_out[0]), 12), share, float(held_out[1])))
    return best[2]


def gw(visual: np.ndarray, textual: np.ndarray) -> float:
    """POT's plan on distances by loops, its cost as the sum over all quadruples."""
    with _without_other_backends():
        import ot

    sides = [np.zeros((len(rows), len(rows))) for rows in (visual, textual)]
    for side, rows in zip(sides, (visual, textual), strict=True):
        for i, j in itertools.combinations(range(len(rows)), 2):
            cosine = round(float(rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j])), 12)
            side[i, j] = side[j, i] = np.arccos(min(1.0, max(-1.0, cosine))) / np.pi
    first, second = sides
    above = np.triu_indices(len(first), 1)
    first = first * np.median(second[above]) / np.median(first[above])
    plan = ot.gromov.gromov_wasserstein(first, second, loss_fun="square_loss", symmetric=True)
    cost = sum(
        float(plan[i, j] * (plan * (first[i][:, None] - second[j][None, :]) ** 2).sum())
        for i, j in zip(*np.nonzero(plan), strict=True)
    )
    return -cost


TABLE: list[tuple[str, Reference, dict[str, Any]]] = [
    ("rsa", rsa, {"correlation": "pearson"}),
    ("rsa", rsa, {"correlation": "spearman"}),
    ("cca", cca, {"components": 10, "ridge": None}),
    ("cca", cca, {"components": 2, "ridge": 0.05}),
    ("mutual-nn", mutual_nn, {"k": 1}),
    ("mutual-nn", mutual_nn, {"k": 10}),
    ("mutual-nn-ties", mutual_nn_ties, {"k": 1}),
    ("mutual-nn-ties", mutual_nn_ties, {"k": 3}),
    ("gw", gw, {}),
    ("cka", cka, {}),
    ("cka-unbiased", cka_unbiased, {}),
    ("cknna", cknna, {"k": 10}),
    ("cknna", cknna, {"k": 3}),
    ("svcca", svcca, {"dimensions": 3}),
    ("svcca", svcca, {"dimensions": 10}),
    ("cycle-knn", cycle_knn, {"k": 1}),
    ("cycle-knn", cycle_knn, {"k": 4}),
]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    ("name", "reference", "options"), TABLE, ids=[f"{name}-{number}" for number, (name, _, _) in enumerate(TABLE)]
)
def test_metrics_are_their_references(name: str, reference: Reference, options: dict[str, Any], data: str) -> None:
    found = scored(name, DATA[data], **options)
    assert found.value == pytest.approx(reference(*DATA[data], **options), abs=1e-9)
    if found.per_item is not None:
        assert found.per_item.shape == (len(DATA[data][0]),)
        assert found.per_item.mean() == pytest.approx(found.value, abs=1e-12)


def test_svcca_is_what_the_iterative_solver_of_scikit_learn_finds() -> None:
    visual, textual = DATA["shared"]
    spaces = [
        np.linalg.svd(StandardScaler().fit_transform(normalize(rows)), full_matrices=False)[0][:, :3]
        for rows in (visual, textual)
    ]
    fitted = CCA(n_components=3, max_iter=5000, tol=1e-12).fit(*spaces)
    first, second = fitted.transform(*spaces)
    expected = np.mean([np.corrcoef(first[:, i], second[:, i])[0, 1] for i in range(3)])
    assert scored("svcca", (visual, textual), dimensions=3).value == pytest.approx(expected, abs=1e-6)


def test_svcca_says_when_its_directions_are_arbitrary() -> None:
    # The 26 rows of -1, 0 and 1 lie alike along all three axes: which two of them lead is for rounding to decide.
    found = scored("svcca", DATA["ties"], dimensions=2)
    assert [text.split(" of the ")[1].split()[0] for text in found.warnings] == ["visual", "textual"]
    assert "equally strong" in found.warnings[0]
    assert scored("svcca", DATA["shared"], dimensions=2).warnings == ()
    assert "has 3 directions, not 10" in scored("svcca", DATA["ties"], dimensions=10).warnings[0]


def test_four_items_by_hand() -> None:
    # Angles 0, 10, 90, 100 degrees against 0, 90, 10, 100: the nearest of 0 is 1 on one side and 2 on the other.
    def on_circle(*degrees: float) -> np.ndarray:
        return np.column_stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])

    apart = on_circle(0, 10, 90, 100), on_circle(0, 90, 10, 100)
    together = on_circle(0, 10, 90, 100), on_circle(0, 20, 180, 200)
    assert scored("mutual-nn", apart, k=1).value == 0
    assert scored("mutual-nn", together, k=1).value == 1
    # 0 -> 2 (reads alike) -> 3 (looks alike): no way back in two steps. With the same graphs there always is.
    assert scored("cycle-knn", apart, k=1).value == 0
    assert scored("cycle-knn", together, k=1).value == 1
    # A side with itself.
    for name, most in (("rsa", 1), ("cka", 1), ("cka-unbiased", 1), ("svcca", 1)):
        options = {"dimensions": 2} if name == "svcca" else {}
        assert scored(name, (apart[0], apart[0]), **options).value == pytest.approx(most, abs=1e-12)


def test_ties_by_hand() -> None:
    # All equally alike on one side: each of the other four is the one neighbour by 1/4.
    visual, textual = np.eye(5), np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [-1.0, 0.2]])
    fractional = scored("mutual-nn-ties", (visual, textual), k=1)
    np.testing.assert_allclose(fractional.per_item, 0.25)
    assert fractional.value == fractional.chance == 0.25
    assert fractional.details["items_with_ties"] == 5
    # The lower index instead: 0 -> 1, all others -> 0; as text 0 -> 1, 1 -> 0, 2 -> 3, 3 -> 2, 4 -> 3.
    assert scored("mutual-nn", (visual, textual), k=1).value == pytest.approx(2 / 5)


@pytest.mark.parametrize("name", ["rsa", "cka", "cka-unbiased", "mutual-nn", "mutual-nn-ties"])
def test_chance_is_the_mean_over_all_pairings(name: str) -> None:
    generator = np.random.default_rng(5)
    visual, textual = generator.standard_normal((4, 3)), generator.standard_normal((4, 2))
    options = {"k": 2} if "nn" in name else {}
    scores = [
        scored(name, (visual, textual[list(order)]), **options).value for order in itertools.permutations(range(4))
    ]
    assert scored(name, (visual, textual), **options).chance == pytest.approx(np.mean(scores), abs=1e-10)


def test_chance_of_cycles_is_that_of_unrelated_graphs() -> None:
    generator = np.random.default_rng(6)
    found = [
        scored("cycle-knn", (generator.standard_normal((40, 60)), generator.standard_normal((40, 60))), k=5)
        for _ in range(40)
    ]
    mean = np.mean([score.value for score in found])
    assert found[0].chance == pytest.approx(1 - (1 - 5 / 39) ** 5)
    assert mean == pytest.approx(found[0].chance, abs=0.04)


@pytest.mark.parametrize(
    "name", ["rsa", "cca", "mutual-nn", "mutual-nn-ties", "cka", "cka-unbiased", "cknna", "svcca", "cycle-knn"]
)
def test_the_same_bytes_whatever_the_threads_and_no_warning(name: str) -> None:
    found = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads), warnings.catch_warnings():
            warnings.simplefilter("error")
            found.append(scored(name, DATA["shared"], seed=3))
    first, second = found
    assert (first.value, first.details, first.warnings) == (second.value, second.details, second.warnings)
