"""Panels of scores: models x items, in parts that are written once and never again.

``data/scores/PANEL`` holds ``panel.json`` and folders ``part-0001`` ..., one for each import that brought something
new. A part is an array like any other (Zarr v3 group with a manifest): ``score(model, item)`` float32 (NaN: missing),
``blind(blind_model, item)``, ``response(model, item)`` uint32, and uint16 codes ``invalid`` and ``blind_invalid`` of
the reasons why records are invalid, each only where there is one; the names of its models and items with what is newly
known of them; ``order``, where the catalogue order is not that of the parts. `open_panel` shows the parts as one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from optotype.store.panels.parts import OpenPanel, open_parts

__all__ = ["open_panel", "panel_dataset"]


def open_panel(source: str | Path, *, storage_options: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Open a panel lazily.

    Parameters
    ----------
    source : str or Path
        Folder or fsspec URL of the panel.

    Returns
    -------
    Dataset
        - ``score`` (model, item): float32 on the scale of the benchmark, NaN = missing or invalid; dask-backed, all
          models of some items in each chunk. All NaN where the panel has blind runs alone.
        - ``blind`` (blind_model, item): the same of runs without images; only where there are some.
        - ``response`` (model, item): uint32, the first four bytes of the SHA-256 of the stripped answer; 0 = none. Only
          where there are some.
        - coordinates of ``item``, in catalogue order (those of a benchmark are contiguous): ``item`` (unique in its
          benchmark only), ``benchmark``, ``category``, and those given of ``sub_task``, ``question``, ``answer``,
          ``n_choices``, ``image``, ``scoring``, ``item_<column>``: objects of str, ``""`` = not given; ``scale_min``
          and ``scale_max``: float64.
        - coordinates of ``model``, sorted: ``model``, ``family``, and those given of ``vendor``, ``release_date``,
          ``axis``, ``model_<column>``.
        - attributes ``name``, ``digest``, ``invalid`` and ``invalid_blind`` (JSON: benchmark -> model -> reason ->
          count), ``circular`` (list of benchmarks scored circularly).

    Raises
    ------
    NotFoundError
        There is no panel.
    FormatError, IntegrityError, ExternalError
        It cannot be read, or a part is missing or another than listed.
    """
    return panel_dataset(open_parts(source, storage_options))


def panel_dataset(panel: OpenPanel) -> xr.Dataset:
    """An open panel as a Dataset; see `open_panel`."""
    import dask.array as da

    benchmarks = {entry["name"]: entry for entry in panel.document["benchmarks"]}
    names = np.array([benchmark for benchmark, _ in panel.items], object)
    score = panel.lazy("score")
    if score is None:
        score = da.full((len(panel.models), len(panel.items)), np.nan, dtype="float32")
    variables: dict[str, Any] = {"score": (("model", "item"), score)}
    for name, dims in (("blind", ("blind_model", "item")), ("response", ("model", "item"))):
        if (values := panel.lazy(name)) is not None:
            variables[name] = (dims, values)
    scales = np.array([benchmarks[name]["scale"] for name in names], np.float64).reshape(-1, 2)
    coords: dict[str, Any] = {
        "model": ("model", np.array(panel.models, object)),
        **{name: ("model", column) for name, column in panel.model_labels.items()},
        "item": ("item", np.array([item for _, item in panel.items], object)),
        "benchmark": ("item", names),
        **{name: ("item", column) for name, column in panel.item_labels.items()},
        "scale_min": ("item", scales[:, 0]),
        "scale_max": ("item", scales[:, 1]),
    }
    if "blind" in variables:
        coords["blind_model"] = ("blind_model", np.array(panel.blind_models, object))
    counts = {
        name: {entry["name"]: entry[name] for entry in panel.document["benchmarks"] if entry[name]}
        for name in ("invalid", "invalid_blind")
    }
    attrs = {
        "name": panel.name,
        "digest": panel.document["digest"],
        **{name: json.dumps(value, sort_keys=True, ensure_ascii=False) for name, value in counts.items()},
        "circular": [entry["name"] for entry in panel.document["benchmarks"] if entry["circular"]],
    }
    return xr.Dataset(variables, coords=coords, attrs=attrs)
