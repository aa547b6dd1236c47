"""Sets of variants: what is read, what is refused, and how stable their own ranking is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from panels import make_panel
from scipy.stats import spearmanr

from optotype.pipelines.evaluation.variants import ceiling, read_variants
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError

_PANEL = make_panel({"a": 4, "b": 3}, models=5, scales={"b": (1.0, 5.0)})


def _table(rows: list[tuple[object, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["set", "model", "benchmark", "item_id", "score"])


def _good() -> pd.DataFrame:
    models = [("grid", f"v{n}") for n in range(3)] + [("trail", f"w{n}") for n in range(3)]
    return _table([(s, m, "b", f"{i:04d}", 1 + 2 * ((n + i) % 3)) for n, (s, m) in enumerate(models) for i in (2, 0)])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_scores_of_new_models_are_scaled_and_put_in_order(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"variants.{kind}"
    if kind == "csv":
        _good().to_csv(path, index=False, encoding="utf-8-sig")
    else:
        _good().to_parquet(path)
    grid, trail = read_variants(path, _PANEL)
    assert (grid.name, grid.models, trail.name, trail.models) == (
        "grid",
        ("v0", "v1", "v2"),
        "trail",
        ("w0", "w1", "w2"),
    )
    expected = np.full((3, 7), np.nan)
    for n in range(3):
        for i in (0, 2):
            expected[n, 4 + i] = (2 * ((n + i) % 3)) / 4
    np.testing.assert_array_equal(grid.scores, expected)


def test_models_of_the_panel_bring_their_own_scores(tmp_path: Path) -> None:
    path = tmp_path / "variants.csv"
    pd.DataFrame({"set": ["s"] * 3, "model": ["model-04", "model-00", "model-02"]}).to_csv(path, index=False)
    (found,) = read_variants(path, _PANEL)
    assert found.models == ("model-04", "model-00", "model-02")
    scale = np.array([1, 1, 1, 1, 4, 4, 4])
    expected = (_PANEL["score"].to_numpy()[[4, 0, 2]] - [0, 0, 0, 0, 1, 1, 1]) / scale
    np.testing.assert_allclose(found.scores, expected)


def test_all_problems_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "variants.csv"
    bad = [
        ("s", "model-01", "a", "0000", 1),
        ("s", "v", "a", "9999", 1),
        ("s", "v", "b", "0000", 7),
        ("s", "v", "a", "0001", 1),
        ("s", "v", "a", "0001", 0),
    ]
    _table(bad).to_csv(path, index=False)
    with pytest.raises(InvalidDataError) as caught:
        read_variants(path, _PANEL)
    assert [problem.kind for problem in caught.value.problems] == [
        "in-panel",
        "unknown-item",
        "off-scale",
        "repeated-score",
    ]
    _table([("s", f"v{n}", "a", "0000", 1) for n in range(2)]).to_csv(path, index=False)
    with pytest.raises(InvalidDataError, match="too small"):
        read_variants(path, _PANEL)
    _good().assign(score="high").to_csv(path, index=False)
    with pytest.raises(InvalidDataError, match="has type"):
        read_variants(path, _PANEL)
    _good().drop(columns=["item_id", "model"]).to_csv(path, index=False)
    with pytest.raises(InvalidDataError) as caught:
        read_variants(path, _PANEL)
    assert [problem.where for problem in caught.value.problems] == ["model", "item_id"]
    pd.DataFrame({"set": ["s"], "model": ["nobody"]}).to_csv(path, index=False)
    with pytest.raises(InvalidDataError, match="panel lacks"):
        read_variants(path, _PANEL)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_variants(tmp_path / "nowhere.csv", _PANEL)
    (tmp_path / "a.parquet").write_bytes(b"not a table")
    with pytest.raises(FormatError, match=r"a\.parquet"):
        read_variants(tmp_path / "a.parquet", _PANEL)


def test_ceiling_is_the_mean_rho_of_resampled_items() -> None:
    rng = np.random.default_rng(0)
    scores = (rng.random((6, 50)) < np.linspace(0.2, 0.8, 6)[:, None]).astype(float)
    scores[rng.random(scores.shape) < 0.1] = np.nan
    full = np.array([np.mean(row[np.isfinite(row)]) for row in scores])
    draws = np.random.default_rng(9).multinomial(50, np.full(50, 1 / 50), size=80)
    rhos = []
    for weights in draws:
        means = []
        for row in scores:
            items = [i for i, times in enumerate(weights) for _ in range(times) if np.isfinite(row[i])]
            means.append(np.mean([row[i] for i in items]))
        rhos.append(spearmanr(np.round(means, 12), np.round(full, 12)).statistic)
    assert ceiling(scores, seed=9, resamples=80) == pytest.approx(np.mean(rhos))
    assert ceiling(np.ones((3, 4)), seed=0, resamples=5) is None
    assert ceiling(np.empty((3, 0)), seed=0) is None
