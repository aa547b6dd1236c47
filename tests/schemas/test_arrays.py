"""Dataset schemas: structure without computing, values when asked for, on chunked data too."""

import dask
import numpy as np
import pytest
import xarray as xr

from optotype.schemas.arrays import array_problems, check_array
from optotype.schemas.errors import InvalidDataError


def _no_compute(*_args, **_kwargs):
    raise AssertionError("structure checks compute nothing")


def features(dtype="float32"):
    return xr.Dataset(
        {
            "patches": (("token", "channel"), np.ones((5, 3), dtype)),
            "row_size": ("image", np.array([2, 3]), {"sample_dimension": "token"}),
        },
        coords={"image": ("image", np.array(["a", "b"], dtype=object))},
    )


def states():
    return xr.Dataset(
        {"states": (("text", "channel"), np.ones((2, 3), "float32"))},
        coords={"text": ("text", np.array(["a", "b"], dtype=object))},
    )


def neighbours():
    return xr.Dataset(
        {
            "neighbours": (("item", "rank"), np.array([[1], [0]], "int32")),
            "similarity": (("item", "rank"), np.ones((2, 1))),
            "eigenvalues": ("direction", np.array([2.0, 1.0])),
        },
        coords={"item": ("item", np.array(["a", "b"], dtype=object))},
    )


SOUND = {"features": features, "states": states, "neighbours": neighbours}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("kind", SOUND)
def test_sound_datasets_pass(kind, chunked):
    ds = SOUND[kind]().chunk() if chunked else SOUND[kind]()
    assert array_problems(ds, kind, values=True) == []
    assert check_array(ds, kind) is ds


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_float_is_allowed(dtype):
    assert array_problems(features(dtype), "features", values=True) == []


def test_structure_check_computes_nothing():
    ds = features().chunk({"token": 2})
    with dask.config.set(scheduler=_no_compute):
        assert array_problems(ds, "features") == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("features", lambda ds: ds.drop_vars("row_size")),
        ("features", lambda ds: ds.rename(token="tok")),
        ("features", lambda ds: ds.assign(patches=ds.patches.astype("int32"))),
        ("features", lambda ds: ds.drop_vars("image")),
        ("states", lambda ds: ds.rename(channel="dim")),
        ("states", lambda ds: ds.rename(states="state")),
        ("neighbours", lambda ds: ds.assign(neighbours=ds.neighbours.astype("int64"))),
        ("neighbours", lambda ds: ds.drop_vars("similarity")),
    ],
)
def test_wrong_structure_is_found(kind, change):
    assert array_problems(change(SOUND[kind]()), kind)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("features", lambda ds: ds.assign(patches=ds.patches * np.nan)),
        ("features", lambda ds: ds.assign(row_size=ds.row_size + 1)),
        ("features", lambda ds: ds.assign(row_size=ds.row_size * 0 + np.array([0, 5]))),
        ("features", lambda ds: ds.assign_coords(image=np.array(["b", "a"], dtype=object))),
        ("features", lambda ds: ds.assign_coords(image=np.array(["a", "a"], dtype=object))),
        ("states", lambda ds: ds.assign(states=ds.states * np.inf)),
        ("neighbours", lambda ds: ds.assign(neighbours=(ds.neighbours + 1).astype("int32"))),
    ],
)
def test_wrong_values_are_found_on_chunked_data_too(kind, change, chunked):
    ds = change(SOUND[kind]().chunk() if chunked else SOUND[kind]())
    if kind == "features":
        ds["row_size"].attrs["sample_dimension"] = "token"
    assert array_problems(ds, kind) == []  # the structure is right
    assert array_problems(ds, kind, values=True)


def test_all_problems_are_raised_at_once():
    ds = features().drop_vars("row_size").rename(channel="dim")
    with pytest.raises(InvalidDataError) as caught:
        check_array(ds, "features")
    assert len(caught.value.problems) >= 2
