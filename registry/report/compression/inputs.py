"""What a report of a compression is made from, gathered and checked as a whole before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.leaderboard import slice_scores
from optotype.registry.compressions import COMPRESSION_FORMAT
from optotype.registry.frontiers import FRONTIER_FORMAT
from optotype.registry.references import open_reference
from optotype.registry.report.compression.probes import read_probe
from optotype.registry.report.sources import of_one_panel, read_document, read_rows
from optotype.schemas.errors import FormatError, InvalidDataError

if TYPE_CHECKING:
    import xarray as xr

    from optotype.store.project import Project

__all__ = ["Inputs", "gather"]

_COMPRESS = "optotype compress PANEL --out DIR"
_FRONTIER = "optotype frontier PANEL --out DIR"
_STAGE = ("stage", "name", "items_in", "items_out", "rho", "rho_compares", "rho_to_reference", "details")
_SUITE = ("panel", "parameters", "versions", "stages", "models", "warnings")
_FRONT = (
    "panel",
    "parameters",
    "candidates",
    "in_band",
    "kept",
    "gain",
    "axis",
    "axes",
    "families",
    "items",
    "warnings",
)
_ITEM = {"benchmark": "str", "item_id": "str", "category": "str", "mean": "float", "variance": "float", "rank": "int"}


@dataclass(frozen=True)
class Inputs:
    """What was read.

    Attributes
    ----------
    suite : dict
        ``compression.json`` as it came.
    panel : dict
        ``name, digest, models, items, benchmarks, families, blind_runs`` of the panel, the last five counted.
    family : dict of str to str
        Of every model; a model without one is its own.
    frontier : dict or None
        ``frontier.json`` as it came, with ``kept_items`` (rows of its table, by rank) and ``family_means``.
    probe : dict or None
        See `optotype.registry.report.compression.probes.read_probe`.
    """

    suite: dict[str, Any]
    panel: dict[str, Any]
    family: dict[str, str]
    frontier: dict[str, Any] | None
    probe: dict[str, Any] | None


def gather(
    suite: Path, panel: str, *, frontier: Path | None, probe: Path | None, project: Project | str | Path | None
) -> Inputs:
    """Read a suite, its panel and, if given, a frontier and a panel of probes.

    Raises
    ------
    NotFoundError, FormatError
        A file is not there, or not what it should be.
    InvalidDataError
        The suite or the frontier was made from another panel, or from another state of it.
    """
    document = read_document(
        suite / "compression.json", kind="compression", newest=COMPRESSION_FORMAT, needs=_SUITE, hint=_COMPRESS
    )
    whole = isinstance(document["stages"], list) and document["stages"]
    if not whole or not all(isinstance(row, dict) and set(_STAGE) <= set(row) for row in document["stages"]):
        raise FormatError(f"{suite / 'compression.json'}: its stages are not whole", hint=f"Make it again: {_COMPRESS}")
    front = None if frontier is None else _frontier(frontier)
    probes = None if probe is None else read_probe(probe)
    scores = open_reference(project, "scores", panel)
    named = {"name": str(scores.attrs.get("name", "")), "digest": str(scores.attrs.get("digest", ""))}
    documents = {"compression.json": document["panel"]}
    if front is not None:
        documents["frontier.json"] = front["panel"]
    told = of_one_panel(named, documents)
    if told:
        raise InvalidDataError(
            "the report cannot be made",
            told,
            hint="Give the panel that the suite was made from, or compress this one",
        )
    family = _families(scores)
    counts = {
        "models": int(scores.sizes["model"]),
        "items": int(scores.sizes["item"]),
        "benchmarks": len(set(scores["benchmark"].to_numpy().tolist())),
        "families": len(set(family.values())),
        "blind_runs": int(scores.sizes.get("blind_model", 0)),
    }
    if front is not None:
        front["family_means"] = _family_means(scores, family, front["kept_items"])
    return Inputs(document, {**named, **counts}, family, front, probes)


def _frontier(folder: Path) -> dict[str, Any]:
    document = read_document(
        folder / "frontier.json", kind="frontier", newest=FRONTIER_FORMAT, needs=_FRONT, hint=_FRONTIER
    )
    rows = read_rows(folder / "items.parquet", _ITEM, hint=_FRONTIER)
    return {**document, "kept_items": sorted(rows, key=lambda row: row["rank"])}


def _families(panel: xr.Dataset) -> dict[str, str]:
    models = [str(name) for name in panel["model"].to_numpy()]
    given = [str(name) for name in panel["family"].to_numpy()] if "family" in panel.coords else [""] * len(models)
    return {model: name or model for model, name in zip(models, given, strict=True)}


def _family_means(panel: xr.Dataset, family: dict[str, str], kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean score of every family on all items and on those of the frontier, best on all items first.

    The mean over a family's models of each one's mean over the items that it has.
    """
    inside = {(row["benchmark"], row["item_id"]) for row in kept}
    pairs = zip(panel["benchmark"].to_numpy().tolist(), panel["item"].to_numpy().tolist(), strict=True)
    chosen = np.array([(str(benchmark), str(item)) in inside for benchmark, item in pairs], dtype=bool)
    one = np.zeros(panel.sizes["item"], dtype=np.int32)
    means = [slice_scores(panel, one, 1, keep)[:, 0] for keep in (None, chosen)]
    models = np.array(list(family.values()), dtype=object)
    rows = [
        {
            "family": name,
            "models": int((models == name).sum()),
            "all_items": _mean(means[0][models == name]),
            "frontier": _mean(means[1][models == name]),
        }
        for name in dict.fromkeys(family.values())
    ]
    return sorted(rows, key=lambda row: (-(row["all_items"] or 0), row["family"]))


def _mean(values: NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return round(float(finite.mean()), 12) if len(finite) else None
