"""Text states."""

import numpy as np
import pytest

from optotype.schemas.arrays import array_problems
from optotype.schemas.errors import FormatError, InvalidDataError
from optotype.store import shards
from optotype.store.features import open_features
from optotype.store.states import open_states, write_states


def test_round_trip(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_INNER_BYTES", 64)
    monkeypatch.setattr(shards, "_SHARD_BYTES", 200)
    values = np.random.default_rng(0).standard_normal((50, 4)).astype("float32")
    ids = [f"t{i:02d}" for i in range(50)]
    manifest = write_states(tmp_path / "a", ids=ids, blocks=[values[:7], values[7:]], inputs={"layer": -2})
    ds = open_states(tmp_path / "a")
    assert ds["states"].dtype == np.float32
    assert ds["states"].data.npartitions > 3
    np.testing.assert_array_equal(ds["states"].values, values)
    assert ds["text"].values.tolist() == ids
    assert ds.attrs == {"digest": manifest.digest, "key": manifest.key, "name": "a"}
    assert array_problems(ds, "states", values=True) == []
    with pytest.raises(FormatError, match="holds states"):
        open_features(tmp_path / "a")


def test_problems(tmp_path, files):
    values = np.ones((3, 2))
    values[1, 1] = np.inf
    with pytest.raises(InvalidDataError) as caught:
        write_states(tmp_path / "a", ids=["a", "b", "b"], blocks=[values, values], inputs={})
    assert {problem.kind for problem in caught.value.problems} == {"duplicate-id", "infinite", "length"}
    assert files(tmp_path) == []


def test_float32_is_what_encoding_gives(tmp_path):
    write_states(tmp_path / "a", ids=["a"], blocks=[np.ones((1, 2))], inputs={})
    assert open_states(tmp_path / "a")["states"].dtype == np.float32
