"""The encoders and language models of a ranking, opened, and the items that all of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr

from optotype.pipelines.graphs import open_array
from optotype.pipelines.operators.mixtures import SPACES, is_interleaved
from optotype.pipelines.ravel import id_differences
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.project import Project

__all__ = ["Pool", "first_items", "open_pool"]

Kind = Literal["features", "states"]


@dataclass(frozen=True, eq=False)
class Pool:
    """What is ranked.

    Attributes
    ----------
    encoders, models : mapping of str to Dataset
        Patch features and states by reference, lazy, in the order in which they were asked for.
    items : tuple of str
        Ids to rank over, sorted.
    """

    encoders: Mapping[str, xr.Dataset]
    models: Mapping[str, xr.Dataset]
    items: tuple[str, ...]

    def label(self, kind: Kind, reference: str) -> str:
        """Name of an array; the whole reference where two of the same kind are called the same."""
        arrays = self.encoders if kind == "features" else self.models
        name = str(arrays[reference].attrs["name"])
        return name if sum(str(array.attrs["name"]) == name for array in arrays.values()) == 1 else reference

    def facts(self, encoder: str, model: str | None) -> dict[str, Any]:
        """What a row says of its arrays: stored dtypes and digests; None where there is no language model."""
        features, states = self.encoders[encoder], None if model is None else self.models[model]
        return {
            "features_dtype": _dtype(features, "patches"),
            "states_dtype": None if states is None else _dtype(states, "states"),
            "features_digest": features.attrs["digest"],
            "states_digest": None if states is None else states.attrs["digest"],
        }

    def layers(self, encoder: str, model: str | None) -> dict[str, Any]:
        """Hidden layers that the arrays are of, as their attributes say; None where they do not."""
        states = {} if model is None else self.models[model].attrs
        return {"features_layer": self.encoders[encoder].attrs.get("layer"), "states_layer": states.get("layer")}

    def mixture(self, encoder: str) -> dict[str, Any]:
        """What a row says of a virtual encoder; nothing of a stored one."""
        told = self.encoders[encoder].attrs.get("mixture")
        if told is None:
            return {}
        alpha = told["alpha"]
        ratio = None if alpha is None else round(1.0 - alpha, 12)
        return {"mixture": {"kind": told["kind"], "alpha": alpha, "ssl_ratio": ratio, "a": told["a"], "b": told["b"]}}


def open_pool(project: Project | None, features: Sequence[str], states: Sequence[str], *, common: bool) -> Pool:
    """Open every array and settle the items.

    Parameters
    ----------
    project : Project or None
        Where names are looked up.
    features, states : sequence of str
        References; repeated ones count once.
    common : bool
        Use the ids that all arrays have, instead of asking for equal sets.

    Raises
    ------
    InvalidDataError
        Different id sets (all differences), or fewer than two common ids.
    NotFoundError, ConflictError, FormatError, IntegrityError, ExternalError, UsageError
        From the store.
    """
    encoders = {reference: open_array(project, "features", reference, spaces=True) for reference in features}
    models = {reference: open_array(project, "states", reference) for reference in states}
    sets = {("features", reference): _ids(array["image"]) for reference, array in encoders.items()}
    sets |= {("states", reference): _ids(array["text"]) for reference, array in models.items()}
    return Pool(encoders, models, tuple(_common(sets) if common else _equal(sets)))


def first_items(items: Sequence[str], count: int, seed: int) -> list[str]:
    """``count`` items, sorted: the first of a permutation drawn by ``seed``, so that smaller sets nest in larger ones.

    Raises
    ------
    UsageError
        Not from 2 to the number of items.
    """
    if not 2 <= count <= len(items):
        raise UsageError(f"images is from 2 to {len(items)}, the items there are; got {count}")
    order = np.random.default_rng(seed).permutation(len(items))
    return [items[place] for place in np.sort(order[:count])]


def _ids(values: xr.DataArray) -> set[str]:
    return {str(value) for value in values.values}


def _common(sets: Mapping[tuple[str, str], set[str]]) -> list[str]:
    shared = set.intersection(*sets.values())
    if len(shared) < 2:
        problems = [Problem(reference, "no-common-id", f"{len(ids)} ids") for (_, reference), ids in sets.items()]
        raise InvalidDataError(
            f"The arrays have {len(shared)} id(s) in common; two or more are needed",
            problems,
            hint="Ids are common where they are equal strings; look at them with `optotype features show NAME` and "
            "`optotype states show NAME`",
        )
    return sorted(shared)


def _equal(sets: Mapping[tuple[str, str], set[str]]) -> list[str]:
    (first, reference_set), *others = sets.items()
    problems = []
    for other, ids in others:
        problems += id_differences(reference_set, ids, (" ".join(first), " ".join(other)))
    if problems:
        raise InvalidDataError(
            "The arrays are not over the same items", problems, hint="Rank over the ids that all of them have: --common"
        )
    return sorted(reference_set)


def _dtype(array: xr.Dataset, member: str) -> str:
    """Dtype of the values on disk; of each space, where there are two and they differ."""
    names = [f"{member}_{suffix}" for suffix in SPACES] if is_interleaved(array) else [member]
    dtypes = (str(array[name].attrs.get("stored_dtype", array[name].dtype)) for name in names)
    return ", ".join(dict.fromkeys(dtypes))
