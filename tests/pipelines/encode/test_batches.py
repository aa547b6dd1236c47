"""Cuts of batches and the cast to the stored type."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.encode.batches import batches, check_dtype, to_stored
from optotype.schemas.errors import ModelError, UsageError


def cast(values: list[float], dtype: str) -> tuple[np.ndarray, int]:
    made = to_stored(np.array(values, dtype=np.float32), np.dtype(dtype), model="vit", row="cat", layer="layer 3")
    return made.values, made.flushed


@pytest.mark.parametrize("rows", [1, 4, 5, 8, 9])
@pytest.mark.parametrize("size", [1, 4, 16])
def test_a_resumed_run_cuts_as_a_whole_one(rows: int, size: int) -> None:
    whole = list(batches(rows, size))
    assert [i for batch in whole for i in batch] == list(range(rows))
    assert all(len(batch) <= size for batch in whole)
    for done in [batch.stop for batch in whole]:
        assert list(batches(rows, size, done)) == [batch for batch in whole if batch.start >= done]


def test_a_start_inside_a_batch_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot resume at row 3"):
        list(batches(8, 4, 3))


def test_what_becomes_zero_is_counted() -> None:
    values, flushed = cast([1.0, 0.0, 1e-9, -1e-9, 6e-8], "float16")
    assert values.dtype == np.float16
    assert values.tolist() == [1.0, 0.0, 0.0, 0.0, float(np.float16(6e-8))]
    assert flushed == 2
    assert cast([1e-9], "float32")[1] == 0


def test_values_that_do_not_fit_name_model_image_and_way_out() -> None:
    with pytest.raises(ModelError, match=r"vit: 2 values at layer 3 for 'cat' do not fit into float16") as caught:
        cast([1.0, 7e4, -1e5], "float16")
    assert "--dtype float32" in str(caught.value.hint)
    assert cast([7e4], "float32")[0].tolist() == [7e4]


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_values_of_a_broken_model_name_model_and_image(bad: float, word: str, dtype: str) -> None:
    with pytest.raises(ModelError, match=rf"vit: 1 of 2 values at layer 3 are {word} for 'cat'"):
        cast([1.0, bad], dtype)


def test_stored_types() -> None:
    assert check_dtype("float16") == np.float16
    with pytest.raises(UsageError, match="'bfloat16' is not a type to store: float16, float32, float64"):
        check_dtype("bfloat16")
