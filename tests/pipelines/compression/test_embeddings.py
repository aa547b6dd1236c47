"""Embeddings joined to the items of a panel, and the vision dependence."""

from __future__ import annotations

import math

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from panels import make_panel

from optotype.pipelines.compression import embeddings as module
from optotype.pipelines.compression.embeddings import EmbeddingRows, aligned, vision_dependence
from optotype.schemas.errors import InvalidDataError


def _stored(keys: list[tuple[str, str]], members: tuple[str, ...], *, chunk: int = 3, seed: int = 0) -> xr.Dataset:
    generator = np.random.default_rng(seed)
    rows = {name: generator.normal(size=(len(keys), 4)).astype(np.float32) for name in members}
    return xr.Dataset(
        {name: (("item", "channel"), da.from_array(values, chunks=(chunk, -1))) for name, values in rows.items()},
        coords={
            "item": ("item", np.array([item for _, item in keys], dtype=object)),
            "benchmark": ("item", np.array([benchmark for benchmark, _ in keys], dtype=object)),
        },
    )


def test_rows_are_joined_by_benchmark_and_id() -> None:
    panel = make_panel({"b": 5, "a": 4})
    keys = [("a", "0001"), ("a", "0003"), ("b", "0000"), ("b", "0003"), ("b", "0001"), ("z", "0000"), ("b", "9999")]
    stored = _stored(keys, ("text", "vision_text"))
    text, vision_text = aligned(stored, panel)
    assert text is not None
    assert vision_text is not None
    for found, name in ((text, "text"), (vision_text, "vision_text")):
        rows = dict(zip(keys, stored[name].values, strict=True))
        names = zip(panel["benchmark"].values, panel["item"].values, strict=True)
        expected = np.array([rows.get((str(b), str(i)), np.full(4, np.nan)) for b, i in names], dtype=np.float32)
        assert found.shape == (9, 4)
        np.testing.assert_array_equal(np.asarray(found), expected)
        np.testing.assert_array_equal(np.asarray(found[np.array([7, 2, 2, 0])]), expected[[7, 2, 2, 0]])
        np.testing.assert_array_equal(np.asarray(found[3:6][1:]), expected[4:6])
        assert np.asarray(found).dtype == np.float32


@pytest.mark.parametrize("members", [("text",), ("vision_text",), ()])
def test_a_member_that_is_not_stored_is_none(members: tuple[str, ...]) -> None:
    text, vision_text = aligned(_stored([("a", "0000")], members), make_panel({"a": 2}))
    assert (text is not None, vision_text is not None) == ("text" in members, "vision_text" in members)


def test_only_the_rows_asked_for_are_read() -> None:
    read: list[int] = []

    def block(block_id: tuple[int, int] = (0, 0)) -> np.ndarray:
        read.append(block_id[0])
        return np.zeros((2, 2), dtype=np.float32)

    source = da.map_blocks(block, chunks=((2, 2, 2), (2,)), dtype=np.float32, meta=np.zeros((0, 0), np.float32))
    rows = EmbeddingRows(source, np.array([5, -1, 4, 0]))
    assert not read
    np.asarray(rows[[0, 2]])
    assert set(read) == {2}
    read.clear()
    np.asarray(rows[[1]])
    assert not read


def _delta(first: np.ndarray, second: np.ndarray) -> float:
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return 0.0
    lengths = math.sqrt(sum(float(x) ** 2 for x in first)) * math.sqrt(sum(float(x) ** 2 for x in second))
    return 1 - sum(float(x) * float(y) for x, y in zip(first, second, strict=True)) / lengths if lengths else 0.0


@pytest.mark.parametrize("block", [2048, 4])
def test_delta_is_one_less_the_cosine(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_ROWS", block)
    generator = np.random.default_rng(0)
    text, vision_text = generator.normal(size=(2, 11, 6)).astype(np.float32)
    text[2], vision_text[3], vision_text[4], text[5, 1] = np.nan, np.nan, 0.0, np.inf
    vision_text[6], vision_text[7] = text[6], -2 * text[7]
    vision_text[8] *= np.float32(1e-30)
    found = vision_dependence(text, vision_text)
    np.testing.assert_allclose(found, [_delta(a, b) for a, b in zip(text, vision_text, strict=True)], atol=1e-12)
    assert found[[2, 3, 4, 5]].tolist() == [0, 0, 0, 0]
    assert found[6] == pytest.approx(0, abs=1e-15)
    assert found[7] == pytest.approx(2)
    rows = EmbeddingRows(da.from_array(text, chunks=(3, -1)), np.arange(11))
    assert vision_dependence(rows, vision_text).tolist() == found.tolist()


def test_delta_is_zero_without_a_pair() -> None:
    rows = np.ones((3, 2), dtype=np.float32)
    assert vision_dependence(rows, None).tolist() == [0, 0, 0]
    assert vision_dependence(None, rows).tolist() == [0, 0, 0]
    assert vision_dependence(None, None, n=2).tolist() == [0, 0]


def test_embeddings_of_two_lengths_are_refused() -> None:
    with pytest.raises(InvalidDataError) as caught:
        vision_dependence(np.ones((3, 2)), np.ones((3, 4)))
    assert [problem.kind for problem in caught.value.problems] == ["wrong-shape", "wrong-shape"]
