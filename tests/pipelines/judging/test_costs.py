"""FLOPs by formula: against loops that count, and null wherever something is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judged import predicted
from safetensors.numpy import save_file

from optotype.pipelines.judging.costs import Known, cost_rows
from optotype.pipelines.judging.flops import FORMULAS, Shape, encoding_flops, formula, metric_flops
from optotype.pipelines.judging.results import results
from optotype.pipelines.judging.shapes import read_costs, safetensors_parameters
from optotype.pipelines.metrics.catalogue import METRICS
from optotype.schemas.errors import InvalidDataError

SHAPE = Shape(n=7, k=3, M=4, d=5, t=6, details={"classes": 3, "iterations": 2, "items": 6, "points": 9})


def _products(n: int, m: int, d: int) -> int:
    """Additions and multiplications of every patch of image i with every patch of image j, i < j."""
    count = 0
    for i in range(n):
        for _ in range(i):
            for _ in range(m * m):
                count += 2 * d
    return count


def test_every_metric_of_the_catalogue_has_a_formula() -> None:
    for name in METRICS:
        assert formula(name), name
        if name != "mid-training-loss":
            value = metric_flops(name, SHAPE)
            assert value is not None, name
            assert value > 0
    assert set(FORMULAS) <= set(METRICS)
    assert formula("T-ACC") is None
    assert metric_flops("T-ACC", SHAPE) is None
    assert metric_flops("mid-training-loss", SHAPE) is None
    assert metric_flops("mid-training-loss", replace(SHAPE, details={"flops": 1e12})) == 1e12


def test_formulas_count_what_loops_count() -> None:
    n, m, d, t = 7, 4, 5, 6
    texts = 4 * n * t**2 + 9 * t**3 + _products(n, 1, t)
    assert metric_flops("ravel", SHAPE) == 4 * n * m * d**2 + 9 * d**3 + _products(n, m, d) + texts
    assert metric_flops("ravel-patch-raw", SHAPE) == _products(n, m, d) + _products(n, 1, t)
    assert metric_flops("ravel-pooled-raw", SHAPE) == n * m * d + _products(n, 1, d) + _products(n, 1, t)
    assert metric_flops("rsa", SHAPE) == metric_flops("ravel-pooled-raw", SHAPE)
    assert metric_flops("cka", SHAPE) == n * m * d + 2 * n * (d * d + t * t + d * t)
    assert metric_flops("gw", SHAPE) == n * m * d + 6**2 * (d + t) + 2 * 8 * 6**3
    assert metric_flops("knn-classification", replace(SHAPE, details={"labelled": 5})) == n * m * d + 2 * 25 * d


@pytest.mark.parametrize("name", [name for name in METRICS if name != "mid-training-loss"])
def test_what_is_not_known_gives_no_number(name: str) -> None:
    for letter in FORMULAS[name].needs:
        assert metric_flops(name, replace(SHAPE, **{letter: None})) is None
    if FORMULAS[name].told:
        assert metric_flops(name, replace(SHAPE, details={})) is None


def test_costs_of_a_pool_add_up_and_encoding_counts_once() -> None:
    scores = {"ravel-pooled-raw": {"lm": [1, 2, 3], "lm-b": [3, 1, 2]}}
    rows = [
        replace(each, digests={"features": each.encoder, "states": each.model or ""})
        for each in predicted(scores, n=7, k=3)
    ]
    found, _, _ = results(rows)
    known = {f"e{number:02d}": Known(5, 4, 1000) for number in range(3)}
    known |= {"lm": Known(6, 11, 2000), "digest": Known(1)}
    (row,) = cost_rows(found, known | {"lm-b": Known(6)}).values()
    one = metric_flops("ravel-pooled-raw", SHAPE)
    assert one is not None
    assert (row["scoring"], row["pairs"]) == (6 * one, 6)
    assert (row["encoding"], row["total"]) == (None, None)
    (row,) = cost_rows(found, known | {"lm-b": Known(6, 5, 300)}).values()
    encoding = 7 * 2 * (3 * 1000 * 4 + 2000 * 11 + 300 * 5)
    assert (row["encoding"], row["total"]) == (encoding, 6 * one + encoding)
    assert encoding_flops(None, 3, 2) is None


def test_a_vision_only_score_counts_once_for_all_language_models() -> None:
    scores = {"knn-classification": {"lm": [1, 2, 3], "lm-b": [1, 2, 3]}}
    rows = [replace(each, digests={"features": each.encoder}) for each in predicted(scores, n=7)]
    found, _, _ = results(rows)
    (row,) = cost_rows(found, {f"e{number:02d}": Known(5, 4) for number in range(3)}).values()
    assert row["scoring"] == 3 * (metric_flops("knn-classification", SHAPE) or 0)


def test_names_go_before_digests() -> None:
    rows = [replace(each, digests={"features": "x"}) for each in predicted({"knn-classification": {"": [1]}}, n=7)]
    found, _, _ = results(rows)
    (by_digest,) = cost_rows(found, {"x": Known(5, 4)}).values()
    (by_name,) = cost_rows(found, {"x": Known(5, 4), "e00": Known(10)}).values()
    assert by_name["scoring"] == 2 * by_digest["scoring"]


def test_a_table_tells_costs(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text("name,parameters,tokens\nvit,3e8,256\nlm,,20\n")
    assert read_costs(path) == {"vit": Known(None, 256, 3e8), "lm": Known(None, 20, None)}
    path.write_text("name , parameters\nvit,-1\nvit,2\nlm,1_000\n,3\n")
    with pytest.raises(InvalidDataError) as caught:
        read_costs(path)
    assert len(caught.value.problems) == 4
    path.write_text("encoder,parameters\nvit,1\n")
    with pytest.raises(InvalidDataError, match="a column name"):
        read_costs(path)


def test_parameters_are_counted_in_the_headers_of_weights(tmp_path: Path) -> None:
    assert safetensors_parameters(tmp_path) is None
    save_file({"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float16)}, tmp_path / "one.safetensors")
    save_file({"c": np.zeros((), np.float32)}, tmp_path / "two.safetensors", metadata={"format": "pt"})
    assert safetensors_parameters(tmp_path) == 18
    (tmp_path / "three.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    assert safetensors_parameters(tmp_path) is None
    (tmp_path / "three.safetensors").write_bytes((100_000).to_bytes(8, "little") + b"[" * 100_000)
    assert safetensors_parameters(tmp_path) is None
    header = json.dumps({"a": {"shape": "x"}}).encode()
    (tmp_path / "three.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert safetensors_parameters(tmp_path) is None


def test_flops_beyond_the_largest_float_are_not_known() -> None:
    found, _, _ = results([replace(each, flops=1e308) for each in predicted({"m": {"lm": [1, 2, 3]}})])
    assert cost_rows(found, {})["m"]["scoring"] is None
    found, _, _ = results([replace(each, flops=1e307) for each in predicted({"m": {"lm": [1, 2, 3]}})])
    assert cost_rows(found, {})["m"]["scoring"] == 3e307
