"""Tables of the protocols, made of the results of their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.spectrum import spectrum
from optotype.pipelines.evaluation import tables
from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.evaluation.tasks import ALL_ITEMS
from optotype.pipelines.evaluation.units import Result, Unit
from optotype.pipelines.evaluation.variants import CEILING, VariantSet, ceiling
from optotype.schemas.errors import InvalidDataError

__all__ = [
    "end_to_end_tables",
    "family_tables",
    "held_out_tables",
    "place",
    "spectra",
    "spectrum_row",
    "variant_tables",
]

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Found = Mapping[str, Sequence[tuple[Unit, Result]]]
"""Kind of unit -> units with their results."""


def held_out_tables(found: Found, asked: Sequence[str]) -> Tables:
    """Rows of categories, of splits, and their summaries, for the random and the chronological splits together."""
    rows = [row for kind in ("held-out", "chronological") if kind in asked for row in _rows(found.get(kind, ()), kind)]
    splits = tables.by_split(rows)
    return {
        "held_out": rows,
        "held_out_splits": splits,
        "held_out_summary": tables.summary(splits),
        "held_out_categories": tables.by_category(rows),
    }


def end_to_end_tables(found: Found) -> Tables:
    """A row for each split, and summaries with and without stage 3."""
    rows = _rows(found.get("end-to-end", ()), "end-to-end")
    return {"end_to_end": rows, "end_to_end_summary": tables.end_to_end_summary(rows, ALL_ITEMS)}


def family_tables(found: Found) -> Tables:
    """Places of left-out families, and agreement between families on the items of each selector."""
    rows = _rows(found.get("leave-one-family-out", ()), "leave-one-family-out")
    agreement = [
        {"protocol": "cross-family", **place(unit), **row}
        for unit, result in found.get("whole", ())
        for row in result["agreement"]
    ]
    return {
        "leave_one_family_out": rows,
        "leave_one_family_out_summary": tables.by_family(rows),
        "cross_family_agreement": agreement,
    }


def variant_tables(found: Found, sets: Sequence[VariantSet], seed: int) -> Tables:
    """A row for each set and category, marked where the set's own ranking is too unstable to support a conclusion."""
    limits = {
        s.name: ceiling(s.scores[:, np.isfinite(s.scores).any(axis=0)], derived_seed(seed, "ceiling", s.name))
        for s in sets
    }
    rows = [{**row, **_supported(limits[row["set"]])} for row in _rows(found.get("variants", ()), "variants")]
    return {"variants": rows, "variants_summary": tables.variant_summary(rows)}


def spectra(
    whole: Iterable[tuple[Unit, Result]], models: Sequence[int], total: int, categories: Sequence[str]
) -> list[Row]:
    """Spectrum of the category scores on what each selector keeps of the whole panel.

    Parameters
    ----------
    whole : iterable of (Unit, dict)
    models : sequence of int
        Positions of the models that the scores are of, out of ``total``.
    total : int
    categories : sequence of str
    """
    rows = []
    for unit, result in whole:
        matrix = np.full((total, len(categories)), np.nan)
        for category, (_, compressed) in result["scores"].items():
            column = np.array([np.nan if value is None else value for value in compressed])
            matrix[list(models), list(categories).index(category)] = column
        try:
            rows.append({"protocol": "spectrum", **place(unit), **spectrum_row(matrix)})
        except InvalidDataError as error:
            rows.append({"protocol": "spectrum", **place(unit), "reason": error.summary})
    return rows


def spectrum_row(matrix: NDArray[np.float64]) -> Row:
    """What a table says of the spectrum of a matrix (models, categories).

    Raises
    ------
    InvalidDataError
        Fewer than 3 models cover half of the categories.
    """
    found = spectrum(matrix)
    return {
        "models": found.models,
        "categories": found.categories,
        "top5": _finite(found.top5),
        "components95": found.components95,
        "participation_ratio": _finite(found.participation_ratio),
        "imputed": found.imputed,
        "constant": found.constant,
        "reason": None,
    }


def place(unit: Unit) -> Row:
    """Where a row belongs."""
    return {"selector": unit.selector, "retention": unit.retention, "split": unit.split}


def _rows(found: Iterable[tuple[Unit, Result]], protocol: str) -> list[Row]:
    return [{"protocol": protocol, **place(unit), **row} for unit, result in found for row in result["rows"]]


def _supported(limit: float | None) -> Row:
    return {"ceiling": limit, "supports": limit is not None and limit >= CEILING}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
