"""What datasets of features, states and neighbours look like, as pandera schemas.

pandera skips value checks without a word as soon as one variable of a Dataset is chunked. So the depth is set here
and nowhere else, always, by the caller's choice: structure alone (nothing is computed), or values as well.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from optotype.schemas.errors import InvalidDataError, Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["array_problems", "check_array"]

Kind = Literal["features", "states", "neighbours"]
_FLOATS = ("float16", "float32", "float64")


def check_array(ds: xr.Dataset, kind: Kind, *, values: bool = False) -> xr.Dataset:
    """``ds`` itself if it looks as datasets of its kind do.

    Raises
    ------
    InvalidDataError
        Every problem of `array_problems`.
    """
    problems = array_problems(ds, kind, values=values)
    if problems:
        raise InvalidDataError(f"not a dataset of {kind}:", problems)
    return ds


def array_problems(ds: xr.Dataset, kind: Kind, *, values: bool = False) -> list[Problem]:
    """Everything in which ``ds`` differs from a dataset of its kind.

    Parameters
    ----------
    ds : Dataset
        As `open_features`, `open_states` and `open_neighbours` of the store give it.
    kind : {"features", "states", "neighbours"}
    values : bool
        Whether values are checked too: finite floats, counts of at least 1 that add up to the tokens, indices
        in range, ids sorted and unique. Computes lazy arrays.

    Returns
    -------
    list of Problem
        Empty for a sound dataset.
    """
    from pandera.config import ValidationDepth, config_context
    from pandera.errors import SchemaErrors

    schema = _SCHEMAS[kind](ds)
    depth = ValidationDepth.SCHEMA_AND_DATA if values else ValidationDepth.SCHEMA_ONLY
    problems = []
    with config_context(validation_enabled=True, validation_depth=depth):
        try:
            schema.validate(ds, lazy=True)
        except SchemaErrors as errors:
            problems = [_problem(error, kind) for error in errors.schema_errors]
    return sorted(set(problems))


def _problem(error: Any, kind: str) -> Problem:
    name = getattr(error.schema, "name", None) or kind
    reason = getattr(error.reason_code, "name", None) or "check"
    return Problem(str(name), reason.lower().replace("_", "-"), " ".join(str(error).split()))


def _floats(ds: xr.Dataset, name: str) -> str:
    """The float dtype to demand: the one that is there, if it is one of ours."""
    found = str(ds[name].dtype) if name in ds else ""
    return found if found in _FLOATS else "float32"


def _finite(name: str) -> Any:
    import numpy as np
    import pandera.xarray as pa

    return pa.Check(lambda array: bool(np.isfinite(array).all()), name="finite", error=f"{name} holds NaN or infinity")


def _ids(dim: str) -> Any:
    import pandera.xarray as pa

    def ids_are_sorted(array: Any) -> bool:
        ids = list(getattr(array, "values", array))
        strings = all(isinstance(value, str) for value in ids)
        return strings and all(a < b for a, b in pairwise(ids))

    check = pa.Check(ids_are_sorted, name="ids", error=f"{dim} holds strings, sorted, each once")
    return pa.Coordinate(dtype="object", dims=(dim,), checks=check)


def _features(ds: xr.Dataset) -> Any:
    import pandera.xarray as pa

    def row_size_adds_up(whole: Any) -> bool:
        sizes = whole["row_size"]
        return bool((sizes >= 1).all()) and int(sizes.sum()) == whole.sizes["token"]

    patches = pa.DataVar(dtype=_floats(ds, "patches"), dims=("token", "channel"), checks=_finite("patches"))
    sizes = pa.DataVar(dtype="int64", dims=("image",), attrs={"sample_dimension": "token"})
    return pa.DatasetSchema(
        data_vars={"patches": patches, "row_size": sizes},
        coords={"image": _ids("image")},
        checks=pa.Check(row_size_adds_up, name="row_size", error="row_size is at least 1 and adds up to the tokens"),
        name="features",
    )


def _states(ds: xr.Dataset) -> Any:
    import pandera.xarray as pa

    states = pa.DataVar(dtype=_floats(ds, "states"), dims=("text", "channel"), checks=_finite("states"))
    return pa.DatasetSchema(data_vars={"states": states}, coords={"text": _ids("text")}, name="states")


def _neighbours(ds: xr.Dataset) -> Any:
    import pandera.xarray as pa

    def indices_are_items(whole: Any) -> bool:
        indices = whole["neighbours"]
        return bool(((indices >= 0) & (indices < whole.sizes["item"])).all())

    def spectrum(name: str) -> Any:
        return pa.DataVar(dtype="float64", dims=("direction",), required=False, checks=_finite(name))

    return pa.DatasetSchema(
        data_vars={
            "neighbours": pa.DataVar(dtype="int32", dims=("item", "rank")),
            "similarity": pa.DataVar(dtype="float64", dims=("item", "rank"), checks=_finite("similarity")),
            "eigenvalues": spectrum("eigenvalues"),
            "whitened_variance": spectrum("whitened_variance"),
        },
        coords={"item": _ids("item")},
        checks=pa.Check(indices_are_items, name="indices", error="neighbours are indices of items"),
        name="neighbours",
    )


_SCHEMAS = {"features": _features, "states": _states, "neighbours": _neighbours}
