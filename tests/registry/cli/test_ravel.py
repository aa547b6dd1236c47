"""``optotype rank`` on imported arrays against RAVEL from its definition: float64, loops, ids joined by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from optotype.registry.cli.root import cli

Images = dict[str, np.ndarray]
Texts = dict[str, np.ndarray]


def whiten(rows: np.ndarray, eps: float, prenorm: str) -> np.ndarray:
    """(Λ + εI)^(-1/2) Uᵀ (z - μ), then each row of length one."""
    rows = rows.astype(np.float64)
    if prenorm == "l2":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    centred = rows - rows.mean(axis=0)
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred / (len(rows) - 1))
    kept = eigenvalues > max(1e-10, eigenvalues.max() * rows.shape[1] * 2.2e-16)
    white = centred @ vectors[:, kept] / np.sqrt(eigenvalues[kept] + eps)
    return white / np.linalg.norm(white, axis=1, keepdims=True)


def nearest(similarity: np.ndarray, k: int) -> list[set[int]]:
    """The k largest of each row without the diagonal; equal ones (12 decimals) by lower index."""
    chosen = []
    for i, row in enumerate(np.round(similarity, 12)):
        order = sorted((j for j in range(len(row)) if j != i), key=lambda j: (-row[j], j))
        chosen.append(set(order[:k]))
    return chosen


def ravel(images: Images, texts: Texts, *, k: int, eps: float, features: str, states: str) -> float:
    """Mean share of common neighbours of patch tokens (M_i, d) and text states (d_t,)."""
    ids = sorted(images)
    assert ids == sorted(texts)
    tokens = whiten(np.concatenate([images[i] for i in ids]), eps, features)
    patches = np.split(tokens, np.cumsum([len(images[i]) for i in ids])[:-1])
    visual = np.zeros((len(ids), len(ids)))
    for i, a in enumerate(patches):
        for j, b in enumerate(patches):
            product = np.array([[np.dot(p, q) for q in b] for p in a])
            visual[i, j] = (product.max(axis=1).mean() + product.max(axis=0).mean()) / 2
    white = whiten(np.stack([texts[i] for i in ids]), eps, states)
    pairs = zip(nearest(visual, k), nearest(white @ white.T, k), strict=True)
    return float(np.mean([len(v & t) / k for v, t in pairs]))


def ragged(seed: int, n: int, channels: int) -> Images:
    random = np.random.default_rng(seed)
    return {f"item-{i}": random.normal(size=(random.integers(1, 6), channels)) for i in range(n)}


def one_state_each(images: Images, seed: int, channels: int) -> Texts:
    random = np.random.default_rng(seed)
    return {i: random.normal(size=channels) for i in images}


def save(images: Images, texts: Texts, *, seed: int, dtype: Any = np.float64) -> None:
    """As .npz in the working directory, each in an order of its own."""
    random = np.random.default_rng(seed)
    order = [str(i) for i in random.permutation(list(images))]
    np.savez(
        "images.npz",
        ids=np.array(order),
        tokens=np.concatenate([images[i] for i in order]).astype(dtype),
        row_size=np.array([len(images[i]) for i in order]),
    )
    order = [str(i) for i in random.permutation(list(texts))]
    np.savez("texts.npz", ids=np.array(order), states=np.stack([texts[i] for i in order]))


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"], prog_name="optotype", catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def ranked(*options: str) -> dict[str, Any]:
    run("features", "import", "images", "images.npz")
    run("states", "import", "texts", "texts.npz")
    rows = run("rank", "--features", "images", "--states", "texts", *options)
    assert len(rows) == 1
    return dict(rows[0])


@pytest.mark.parametrize("features", ["none", "l2"])
@pytest.mark.parametrize("states", ["none", "l2"])
@pytest.mark.parametrize(("n", "k", "eps"), [(30, 1, 1e-4), (41, 7, 5e-4), (25, 24, 1e-4)])
def test_ragged(features: str, states: str, n: int, k: int, eps: float, project: Path) -> None:
    images = ragged(n, n, 5)
    texts = one_state_each(images, k, 7)
    save(images, texts, seed=k)
    row = ranked("-k", str(k), "--eps", str(eps), "--prenorm-features", features, "--prenorm-states", states)
    expected = ravel(images, texts, k=k, eps=eps, features=features, states=states)
    assert row["score"] == pytest.approx(expected, abs=1e-9)
    assert (row["n"], row["k"]) == (n, k)
    assert row["chance"] == pytest.approx(k / (n - 1), abs=1e-12)
    if k < n - 1:
        assert row["adjusted"] == pytest.approx((expected - row["chance"]) / (1 - row["chance"]), abs=1e-9)


def test_exact_ties(project: Path) -> None:
    """Identical images far apart in the order of ids, and identical texts among them."""
    images = ragged(3, 36, 4)
    texts = one_state_each(images, 4, 6)
    names = sorted(images)
    for first, second in [(0, 35), (1, 20), (7, 8), (7, 30)]:
        images[names[second]] = images[names[first]].copy()
    for first, second in [(2, 33), (7, 30)]:
        texts[names[second]] = texts[names[first]].copy()
    save(images, texts, seed=1)
    for k in (1, 2, 5):
        row = ranked("-k", str(k))
        expected = ravel(images, texts, k=k, eps=1e-4, features="none", states="l2")
        assert row["score"] == pytest.approx(expected, abs=1e-9)


def test_fewer_texts_than_channels(project: Path) -> None:
    images = ragged(5, 40, 6)
    texts = one_state_each(images, 6, 90)
    save(images, texts, seed=2)
    row = ranked("-k", "10")
    assert row["score"] == pytest.approx(ravel(images, texts, k=10, eps=1e-4, features="none", states="l2"), abs=1e-9)
    assert row["n_over_d"]["states"] == pytest.approx(40 / 90)


def test_order_of_rows_does_not_matter(project: Path) -> None:
    images = ragged(7, 30, 4)
    texts = one_state_each(images, 8, 5)
    digests, scores = set(), set()
    for seed in range(3):
        save(images, texts, seed=seed)
        row = ranked("-k", "5")
        digests.add((row["features_digest"], row["states_digest"]))
        scores.add(row["score"])
    assert len(digests) == len(scores) == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_stored_dtype_is_kept_and_told(dtype: Any, project: Path) -> None:
    images = {name: tokens.astype(dtype) for name, tokens in ragged(9, 40, 5).items()}
    texts = one_state_each(images, 9, 6)
    save(images, texts, seed=3, dtype=dtype)
    row = ranked("-k", "8")
    assert row["features_dtype"] == np.dtype(dtype).name
    assert row["states_dtype"] == "float64"
    assert row["score"] == pytest.approx(ravel(images, texts, k=8, eps=1e-4, features="none", states="l2"), abs=1e-9)


def test_other_ids_are_refused_and_common_takes_the_intersection(project: Path) -> None:
    images = ragged(11, 30, 4)
    texts = one_state_each(images, 11, 5)
    del images["item-3"]
    del texts["item-7"]
    save(images, texts, seed=4)
    run("features", "import", "images", "images.npz")
    run("states", "import", "texts", "texts.npz")
    command = ["rank", "--features", "images", "--states", "texts", "-k", "5", "--json"]
    refused = CliRunner().invoke(cli, command, prog_name="optotype")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert all(text in refused.stderr for text in ("item-3", "item-7", "--common"))
    row = run(*command[:-1], "--common")[0]
    shared = sorted(set(images) & set(texts))
    expected = ravel(
        {i: images[i] for i in shared}, {i: texts[i] for i in shared}, k=5, eps=1e-4, features="none", states="l2"
    )
    assert row["n"] == 28
    assert row["score"] == pytest.approx(expected, abs=1e-9)
