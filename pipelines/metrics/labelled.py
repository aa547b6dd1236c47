"""The labelled items of a metric's inputs, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.whitening import normalise_rows
from optotype.pipelines.metrics.metric import Inputs, metric_error
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["Labelled", "check_finite", "labelled", "unit_rows"]

_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Labelled:
    """Items with a label that others share.

    Attributes
    ----------
    rows : ndarray (m, d) float64
        Pooled features.
    items : ndarray (m,) object
        Ids.
    codes : ndarray (m,) int64
        Class of each: index into ``classes``.
    classes : tuple of str
        Sorted.
    details : mapping
        ``labelled``, ``classes``, ``unlabelled`` (items without a label), ``small_classes`` (up to 10 names of classes
        with fewer than 2 items, which are left out) and ``in_small_classes`` (their items).
    warnings : tuple of str
        How many items are scored and why no more, where some are left out.
    """

    rows: NDArray[np.float64]
    items: NDArray[np.object_]
    codes: NDArray[np.int64]
    classes: tuple[str, ...]
    details: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def labelled(name: str, inputs: Inputs) -> Labelled:
    """What metric ``name`` can learn from.

    Items without a label ("") and classes with a single item are left out and counted.

    Raises
    ------
    UsageError
        There are no labels, or fewer than two classes of two items.
    InvalidDataError
        Rows that are not finite; they are named.
    """
    if inputs.labels is None:
        raise metric_error(name, "it needs a label for each image, and none are given", "Give --labels TABLE.")
    labels = np.array([str(label) for label in inputs.labels], dtype=object)
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    without = counts.pop("", 0)
    classes = tuple(sorted(label for label, count in counts.items() if count >= 2))
    small = sorted(label for label, count in counts.items() if count < 2)
    if len(classes) < 2:
        raise metric_error(
            name,
            f"two classes of 2 items or more are wanted, the labels of {len(labels)} items hold {len(classes)} "
            f"({len(small)} of a single item, {without} items without a label)",
            "Are the ids of the table of labels those of the features? --label-column says which column holds them.",
        )
    place = {label: code for code, label in enumerate(classes)}
    kept = np.flatnonzero([label in place for label in labels])
    rows = np.asarray(inputs.pooled[kept], dtype=np.float64)
    check_finite(name, rows, inputs.items[kept], "features")
    details = {
        "labelled": len(kept),
        "classes": len(classes),
        "unlabelled": without,
        "small_classes": small[:_SHOWN],
        "in_small_classes": len(small),
    }
    codes = np.array([place[label] for label in labels[kept]], dtype=np.int64)
    told = []
    if len(kept) < len(labels):
        why = [f"{without} have no label"] if without else []
        why += [f"{len(small)} are the only one of their class"] if small else []
        told.append(f"{name}: {len(kept)} of {len(labels)} items are scored: {' and '.join(why)}")
    return Labelled(rows, inputs.items[kept], codes, classes, details, tuple(told))


def check_finite(name: str, rows: NDArray[np.float64], items: NDArray[np.object_], what: str) -> None:
    """Refuse rows that hold NaN or Inf.

    Raises
    ------
    InvalidDataError
        One problem for each of the first of them, and how many there are.
    """
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        problems = [Problem(str(items[row]), "not-finite", f"its {what} hold NaN or Inf") for row in bad[:_SHOWN]]
        more = f" (the first {_SHOWN} are named)" if len(bad) > _SHOWN else ""
        raise InvalidDataError(f"metric {name}: {len(bad)} of {len(rows)} items cannot be scored{more}", problems)


def unit_rows(name: str, rows: NDArray[np.float64], items: NDArray[np.object_], what: str) -> NDArray[np.float64]:
    """Rows of length 1.

    Raises
    ------
    InvalidDataError
        Rows that are not finite or all zero, which have no cosine; they are named.
    """
    check_finite(name, rows, items, what)
    unit, zero = normalise_rows(rows)
    bad = np.flatnonzero(zero)
    if len(bad):
        problems = [Problem(str(items[row]), "no-direction", f"its {what} are all zero") for row in bad[:_SHOWN]]
        more = f" (the first {_SHOWN} are named)" if len(bad) > _SHOWN else ""
        raise InvalidDataError(f"metric {name}: {len(bad)} of {len(rows)} items have no cosine{more}", problems)
    return unit
